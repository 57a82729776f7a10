from __future__ import annotations

import pickle

import numpy as np
import pytest
from pyriemann.classification import MDM, FgMDM
from pyriemann.tangentspace import TangentSpace
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from spdtokens.classifiers import classical
from spdtokens.classifiers.classical import AugmentedTrials
from spdtokens.errors import ModelError

RAW = {"sfreq": 128.0}


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
    return X, y


def made(name: str) -> BaseEstimator:
    more = {"bands": "filterbank"} if name == "fb-ts-lr" else {}
    return classical.PIPELINES[name](RAW | more)


def covariances() -> tuple[np.ndarray, np.ndarray]:
    X, y = trials()
    return X @ X.transpose(0, 2, 1) / X.shape[-1], y


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (classical.mdm, MDM()),
        (classical.fgmdm, FgMDM()),
        (classical.ts_lr, make_pipeline(TangentSpace(), LogisticRegression(max_iter=2000))),
    ],
    ids=["mdm", "fgmdm", "ts-lr"],
)
def test_equal_to_pyriemann(ours, theirs) -> None:
    C, y = covariances()
    fitted, reference = ours().fit(C[:30], y[:30]), theirs.fit(C[:30], y[:30])
    np.testing.assert_array_equal(fitted.predict(C), reference.predict(C))
    np.testing.assert_array_equal(fitted.predict_proba(C), reference.predict_proba(C))


@pytest.mark.parametrize("name", classical.PIPELINES)
def test_every_pipeline_decodes_raw_trials(name: str) -> None:
    X, y = trials()
    model = made(name).fit(X[:36], y[:36])
    assert model.score(X[36:], y[36:]) > 0.6
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    repeated = clone(model).fit(X[:36], y[:36])
    np.testing.assert_array_equal(repeated.predict(X), model.predict(X))


@pytest.mark.parametrize("name", classical.PIPELINES)
def test_predictions_do_not_depend_on_the_unit(name: str) -> None:
    X, y = trials(36)
    plain = made(name).fit(X, y).predict(X)
    volts = made(name).fit(1e-6 * X, y).predict(1e-6 * X)
    assert np.mean(plain == volts) > 0.95


def test_several_bands_are_tangent_spaces_side_by_side() -> None:
    X, y = trials()
    bands = [(4, 8), (8, 13)]
    model = classical.fb_ts_lr({**RAW, "bands": bands}).fit(X, y)
    C = model[0].transform(X)
    assert C.shape == (60, 2, 5, 5)
    expected = [TangentSpace().fit(C[:, i]).transform(C[:, i]) for i in range(2)]
    np.testing.assert_array_equal(model[1].transform(C), np.hstack(expected))


def test_settings_are_chosen_within_training_trials() -> None:
    X, y = trials(36)
    svm = classical.ts_svm(RAW).fit(X, y)[-1]
    assert svm.n_splits_ == 5
    assert svm.best_params_["C"] in classical.STRENGTHS
    assert svm.best_index_ == classical.strongest_within_one_error(svm.cv_results_)
    acm = classical.acm_ts_svm(RAW).fit(X, y)
    assert set(acm.best_params_) == {"augmented__order", "augmented__lag"}


def test_augmented_trials() -> None:
    X = np.arange(2 * 3 * 10.0).reshape(2, 3, 10)
    made = AugmentedTrials(order=3, lag=2).fit_transform(X)
    assert made.shape == (2, 9, 6)
    np.testing.assert_array_equal(made[:, 3:6], X[..., 2:8])
    np.testing.assert_array_equal(made[:, 6:9], X[..., 4:10])
    np.testing.assert_array_equal(AugmentedTrials(order=1).fit_transform(X), X)
    with pytest.raises(ModelError, match="10 samples are too short for 4 copies 3 samples apart"):
        AugmentedTrials(order=4, lag=3).fit(X)
    with pytest.raises(ModelError, match="at least 1"):
        AugmentedTrials(order=0).fit(X)


def test_augmented_covariance_needs_signals() -> None:
    with pytest.raises(ModelError, match="needs them and sfreq"):
        classical.acm_ts_svm()


def test_the_strongest_setting_that_is_as_good_is_chosen() -> None:
    results = {
        "mean_test_score": np.array([0.5, 0.76, 0.79, 0.8, 0.8]),
        "std_test_score": np.array([0.0, 0.1, 0.0, 0.05, 0.0]),
    }
    # The best is the first 0.8; its standard error 0.05 / sqrt(5) = 0.022 reaches 0.79, not 0.76.
    assert classical.strongest_within_one_error(results) == 2
