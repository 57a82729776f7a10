"""Model files as fitted pipelines: the same predictions, and nothing imported because of a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdtokens import TokenEmbedding, make_decoder
from spdtokens.errors import DeployError
from spdtokens.inference.convert import as_decoder, load_pipeline
from spdtokens.inference.training import save_model
from spdtokens.runtime import Decoder

Y = np.arange(40) % 2
X = np.random.default_rng(0).standard_normal((40, 3, 200)) * (1 + Y)[:, None, None]


def made(**parameters: Any) -> tuple[Any, Decoder]:
    pipeline = make_decoder("mi", sfreq=100).set_params(**parameters).fit(X, Y)
    return pipeline, as_decoder(pipeline, ch_names=("a", "b", "c"))


def test_predictions_and_parameters_are_kept(tmp_path: Path) -> None:
    embedding = TokenEmbedding(["log_euclidean", "whitened_root"], isometric=True, unit_free=True)
    pipeline, decoder = made(classifier__embedding=embedding, classifier__ridge=0.1)
    save_model(decoder, tmp_path / "model.spdt")
    loaded = load_pipeline(tmp_path / "model.spdt")
    np.testing.assert_allclose(loaded.predict_proba(X), pipeline.predict_proba(X), atol=1e-12)
    assert loaded["classifier"].get_params()["embedding__isometric"]
    assert loaded["classifier"].ridge == 0.1


@pytest.mark.parametrize("place", ["step", "parameter", "function", "order"])
def test_files_that_name_other_classes_are_refused(place: str, tmp_path: Path) -> None:
    _, decoder = made()
    filterbank, classifier = ({**step} for step in decoder.steps)
    other = "this.Estimator"  # a module that prints when it is imported
    if place == "step":
        classifier["class"] = other
    elif place == "order":
        filterbank, classifier = classifier, filterbank
    else:
        classifier["embedding"] = [{"function" if place == "function" else "class": other}]
    save_model(replace(decoder, steps=[filterbank, classifier]), tmp_path / "model.spdt")
    sys.modules.pop("this", None)
    with pytest.raises(DeployError):
        load_pipeline(tmp_path / "model.spdt")
    assert "this" not in sys.modules
