"""Names of the first edition make the decoder that their parameters meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline

from spdtokens import (
    FilterBankCovariances,
    SPDTokenClassifier,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    Tokenizer,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.errors import ModelError

Y = np.arange(40) % 2
X = 1e-5 * np.random.default_rng(0).standard_normal((40, 4, 200)) * (1 + 0.4 * Y)[:, None, None]
RECOMMENDED = ("affine_invariant", "whitened_root", "principal_correlation", "class_filters")
SMALL: dict[str, Any] = {"d_model": 16, "n_layers": 1, "n_heads": 2, "epochs": 2, "random_state": 0}
CASES: dict[str, tuple[dict[str, Any], BaseEstimator]] = {
    "flicker": (
        {"stimulus_frequencies": (10.0, 15.0)},
        make_decoder("ssvep", sfreq=100, stimulus_hz=(10.0, 15.0)),
    ),
    "default": ({}, make_decoder("mi", sfreq=100)),
    "isometric": (
        {"isometric": True},
        make_decoder("mi", sfreq=100).set_params(
            classifier__embedding=TokenEmbedding(RECOMMENDED, isometric=True, unit_free=True)
        ),
    ),
    "what recommended did not use": (
        {"random_state": 0, "device": "cpu", "verbose": True, "isometric": None},
        make_decoder("mi", sfreq=100),
    ),
    "one window of potentials": (
        {"paradigm": "erp", "windows": [(0.2, 1.8)]},
        make_decoder("erp", sfreq=100).set_params(filterbank__windows=[(0.2, 1.8)]),
    ),
    "sample covariance": (
        {"covariance": "sample", "bands": "paper3", "ridge": 0.1},
        make_pipeline(
            FilterBankCovariances(100, bands="paper3"), TokenDiscriminantClassifier(ridge=0.1)
        ),
    ),
    "the paper's network": (
        {"preset": "paper", "isometric": True, **SMALL},
        make_pipeline(
            FilterBankCovariances(100),
            TokenTransformerClassifier(
                TokenEmbedding("log_euclidean", isometric=True, unit_free=True), **SMALL
            ),
        ),
    ),
    "the paper's regularisation": (
        {"preset": "paper", "regularisation": "paper", "unit_in_volts": 1.0, **SMALL},
        make_pipeline(
            FilterBankCovariances(100, estimator="paper", unit_in_volts=1.0),
            TokenTransformerClassifier(**SMALL),
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_classifier_is_the_decoder_that_was_meant(case: str) -> None:
    old, new = CASES[case]
    with pytest.warns(FutureWarning):
        made = SPDTokenClassifier(sfreq=100, **old)
    found, wanted = made.fit(X, Y).predict_proba(X), new.fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bands", ["8-30", "paper3"])
@pytest.mark.parametrize("embedding", ["log_euclidean", ["euclidean", "class_filters"]], ids=str)
def test_tokenizer_is_a_pipeline_to_tokens_with_an_axis(embedding: Any, bands: str) -> None:
    with pytest.warns(FutureWarning):
        old = Tokenizer(embedding, sfreq=100, covariance="oas", bands=bands, isometric=True)
    C = FilterBankCovariances(100, estimator="oas", bands=bands).fit_transform(X)
    new = TokenEmbedding(embedding, isometric=True).fit(C, Y)
    np.testing.assert_array_equal(old.fit_transform(X, Y), new.tokens(C))
    np.testing.assert_array_equal(clone(old).fit(X, Y).transform(X), new.tokens(C))
    with pytest.warns(FutureWarning):
        of_matrices = Tokenizer(embedding, isometric=True)
    np.testing.assert_array_equal(of_matrices.fit_transform(C, Y), new.tokens(C))


def test_what_fit_takes_is_handed_on() -> None:
    groups, weight = np.arange(40) // 4, np.random.default_rng(1).uniform(0.5, 2, 40)
    with pytest.warns(FutureWarning):
        old = SPDTokenClassifier(sfreq=100, paradigm="erp")
    found = old.fit(X, Y, groups=groups, sample_weight=weight).predict_proba(X)
    new = make_decoder("erp", sfreq=100).fit(X, Y, groups=groups, sample_weight=weight)
    np.testing.assert_array_equal(found, new.predict_proba(X))
    with pytest.warns(FutureWarning), pytest.raises(ModelError, match="'best'"):
        SPDTokenClassifier(sfreq=100, preset="best")


def test_regularisation_that_is_gone_is_refused() -> None:
    with pytest.warns(FutureWarning), pytest.raises(ModelError):
        SPDTokenClassifier(sfreq=100, regularisation="paper", unit_in_volts=1.0)


def test_old_rooms_are_the_new_ones(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from spdtokens.spd.embeddings import EMBEDDINGS as old\n"
        "from spdtokens.geometry.embeddings import EMBEDDINGS as new\n"
        "from spdtokens.training import TrainingError\n"
        "from spdtokens.training.methods import get_method\n"
        "import spdtokens.errors, spdtokens.classifiers.methods as methods\n"
        "assert old is new and get_method is methods.get_method\n"
        "assert TrainingError is spdtokens.errors.ModelError\n"
        "for gone in ('spdtokens.spd.karcher', 'spdtokens.training.Preset'):\n"
        "    try:\n"
        "        room, _, name = gone.rpartition('.')\n"
        "        exec(f'from {room} import {name}')\n"
        "    except ImportError as error:\n"
        "        assert gone in str(error) and 'migration' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError(gone)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("FutureWarning: spdtokens.spd ") == 1
    assert "script.py:1: FutureWarning" in done.stderr
