from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.classification import MDM, FgMDM
from pyriemann.tangentspace import TangentSpace
from scipy.linalg import block_diag
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from spdtokens.classifiers.classical import (
    PIPELINES,
    STRENGTHS,
    AugmentedTrials,
    NearestMean,
    TangentSpaces,
    strongest_within_one_error,
)
from spdtokens.errors import ModelError


def trials(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Three classes: a 10 Hz oscillation on one of three channels, and a bump in its wake."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    t = np.arange(256) / 128
    X = rng.standard_normal((n, 5, 256))
    for trial, label in zip(X, y, strict=True):
        phase = rng.uniform(0, 2 * np.pi)
        trial[label] += 1.5 * np.sin(2 * np.pi * 10 * t + phase)
        trial[label] += 2 * np.exp(-(((t - 1) / 0.1) ** 2))
    return X, np.array(["x", "a", "m"])[y]


def made(name: str) -> BaseEstimator:
    bands = {"bands": "filterbank"} if name == "fb-ts-lr" else {}
    return PIPELINES[name]({"sfreq": 128.0} | bands)


@pytest.mark.parametrize("extra_axis", [False, True])
@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("mdm", MDM()),
        ("fgmdm", FgMDM()),
        ("ts-lr", make_pipeline(TangentSpace(), LogisticRegression(max_iter=2000))),
    ],
)
def test_equal_to_pyriemann(name: str, theirs: BaseEstimator, extra_axis: bool) -> None:
    X, y = trials()
    C = X @ X.transpose(0, 2, 1) / X.shape[-1]
    mine = C[:, None] if extra_axis else C
    fitted, reference = PIPELINES[name](None).fit(mine[:30], y[:30]), theirs.fit(C[:30], y[:30])
    np.testing.assert_array_equal(fitted.classes_, reference.classes_)
    np.testing.assert_array_equal(fitted.predict(mine), reference.predict(C))
    np.testing.assert_array_equal(fitted.predict_proba(mine), reference.predict_proba(C))


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_decodes_raw_trials_in_any_unit(name: str) -> None:
    X, y = trials()
    model = made(name).fit(X[:36], y[:36])
    assert model.score(X[36:], y[36:]) > 0.6
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    volts = clone(model).fit(1e-6 * X[:36], y[:36]).predict(1e-6 * X)
    assert np.mean(volts == model.predict(X)) > 0.95


def test_settings_are_chosen_within_training_trials() -> None:
    X, y = trials(36)
    svm = made("ts-svm").fit(X, y)[-1]
    assert svm.n_splits_ == 5
    assert svm.best_params_["C"] in STRENGTHS
    assert svm.best_index_ == strongest_within_one_error(svm.cv_results_)
    acm = made("acm-ts-svm").fit(X, y)
    assert set(acm.best_params_) == {"augmented__order", "augmented__lag"}


def test_augmented_trials() -> None:
    X = np.arange(2 * 3 * 10.0).reshape(2, 3, 10)
    made = AugmentedTrials(order=3, lag=2).fit_transform(X)
    assert made.shape == (2, 9, 6)
    np.testing.assert_array_equal(made[:, 3:6], X[..., 2:8])
    np.testing.assert_array_equal(made[:, 6:9], X[..., 4:10])
    with pytest.raises(ModelError, match=r"10 samples .*4 copies"):
        AugmentedTrials(order=4, lag=3).fit(X)


def test_the_strongest_setting_that_is_as_good_is_chosen() -> None:
    results = {
        "mean_test_score": np.array([0.5, 0.76, 0.79, 0.8, 0.8]),
        "std_test_score": np.array([0.0, 0.1, 0.0, 0.05, 0.0]),
    }
    # The best is the first 0.8; its standard error 0.05 / sqrt(5) = 0.022 reaches 0.79, not 0.76.
    assert strongest_within_one_error(results) == 2


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_several_matrices_are_one_of_blocks(seed: int, tokens: int) -> None:
    y = np.arange(24) % 3
    X = np.random.default_rng(seed).standard_normal((24, tokens, 3, 30))
    X[:, :, 1] *= (1 + y)[:, None, None]
    C = X @ X.swapaxes(-1, -2) / 30
    blocks = np.stack([block_diag(*trial) for trial in C])
    mine, expected = NearestMean().fit(C, y), MDM(metric="riemann").fit(blocks, y)
    np.testing.assert_array_equal(mine.predict(C), expected.predict(blocks))
    np.testing.assert_allclose(mine.predict_proba(C), expected.predict_proba(blocks), atol=1e-6)
    spaces = TangentSpaces().fit(C)
    vectors = spaces.transform(C)
    alone = [TangentSpace().fit(C[:, i]).transform(C[:, i]) for i in range(tokens)]
    np.testing.assert_array_equal(vectors, np.hstack(alone))
    np.testing.assert_allclose(spaces.inverse_transform(vectors), C, rtol=1e-6)
    with pytest.raises(ValueError, match="zip"):
        mine.predict(C[:, :1])
