from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.classification import MDM, FgMDM
from pyriemann.tangentspace import TangentSpace
from pyriemann.utils.distance import distance_riemann
from pyriemann.utils.mean import mean_riemann
from scipy.linalg import block_diag
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from spdtokens.classifiers import classical
from spdtokens.classifiers.classical import AugmentedTrials, NearestMean, TangentSpaces
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
    with pytest.raises(ModelError, match=r"10 samples .*4 copies"):
        AugmentedTrials(order=4, lag=3).fit(X)
    with pytest.raises(ModelError, match="at least 1"):
        AugmentedTrials(order=0).fit(X)


def test_augmented_covariance_needs_signals() -> None:
    with pytest.raises(ModelError, match="sfreq"):
        classical.acm_ts_svm()


def test_the_strongest_setting_that_is_as_good_is_chosen() -> None:
    results = {
        "mean_test_score": np.array([0.5, 0.76, 0.79, 0.8, 0.8]),
        "std_test_score": np.array([0.0, 0.1, 0.0, 0.05, 0.0]),
    }
    # The best is the first 0.8; its standard error 0.05 / sqrt(5) = 0.022 reaches 0.79, not 0.76.
    assert classical.strongest_within_one_error(results) == 2


def matrices(seed: int, n: int = 24, tokens: int | None = None, classes: int = 3) -> tuple:
    """Covariances (n, d, d) or (n, tokens, d, d), of classes that differ in a channel's power."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.standard_normal((n, tokens or 1, 3, 30))
    X[:, :, 1] *= (1 + y)[:, None, None]
    C = X @ X.swapaxes(-1, -2) / 30
    return (C[:, 0] if tokens is None else C), y


def side_by_side(C: np.ndarray) -> np.ndarray:
    return np.stack([block_diag(*trial) for trial in C])


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_one_matrix_is_exactly_pyriemann(seed: int, extra_axis: bool) -> None:
    C, y = matrices(seed)
    mine = C[:, None] if extra_axis else C
    spaces, expected = TangentSpaces().fit(mine), TangentSpace(metric="riemann").fit(C)
    np.testing.assert_array_equal(spaces.transform(mine), expected.transform(C))
    nearest, mdm = NearestMean().fit(mine, y), MDM(metric="riemann").fit(C, y)
    np.testing.assert_array_equal(nearest.predict(mine), mdm.predict(C))
    np.testing.assert_allclose(nearest.predict_proba(mine), mdm.predict_proba(C), rtol=1e-12)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_geodesic_filter_is_pyriemanns(seed: int) -> None:
    C, y = matrices(seed, n=30)
    mine = NearestMean(filtered=True).fit(C[:20], y[:20])
    expected = FgMDM(metric="riemann", tsupdate=False).fit(C[:20], y[:20])
    np.testing.assert_array_equal(mine.predict(C), expected.predict(C))
    np.testing.assert_allclose(mine.predict_proba(C), expected.predict_proba(C), atol=1e-6)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_several_matrices_are_one_of_blocks(seed: int, tokens: int) -> None:
    C, y = matrices(seed, tokens=tokens)
    blocks = side_by_side(C)
    mine, expected = NearestMean().fit(C, y), MDM(metric="riemann").fit(blocks, y)
    np.testing.assert_array_equal(mine.predict(C), expected.predict(blocks))
    np.testing.assert_allclose(mine.predict_proba(C), expected.predict_proba(blocks), atol=1e-6)
    vectors = TangentSpaces().fit(C).transform(C)
    whole = TangentSpace(metric="riemann").fit(blocks).transform(blocks)
    # Between blocks a tangent vector is zero; the rest is the same in another order.
    np.testing.assert_allclose(
        np.linalg.norm(vectors[:, None] - vectors, axis=-1),
        np.linalg.norm(whole[:, None] - whole, axis=-1),
        atol=1e-6,
    )


def test_squared_distances_add_up() -> None:
    C, y = matrices(3, tokens=2)
    means = [[mean_riemann(C[y == k, i]) for i in range(2)] for k in range(3)]
    squared = np.array(
        [[sum(distance_riemann(c[i], m[i]) ** 2 for i in range(2)) for m in means] for c in C]
    )
    p = np.exp(-squared)
    found = NearestMean().fit(C, y)
    np.testing.assert_allclose(found.predict_proba(C), p / p.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(found.predict(C), squared.argmin(1))


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_there_and_back(seed: int, tokens: int) -> None:
    C, _ = matrices(seed, tokens=tokens)
    spaces = TangentSpaces().fit(C)
    np.testing.assert_allclose(spaces.inverse_transform(spaces.transform(C)), C, rtol=1e-6)


def test_contract() -> None:
    C, y = matrices(0, tokens=2)
    names = np.array(["x", "a", "m"])[y]
    found = clone(NearestMean(filtered=True)).fit(C, names)
    assert found.classes_.tolist() == ["a", "m", "x"]
    assert set(found.predict(C)) == {"a", "m", "x"}
    np.testing.assert_array_equal(
        found.predict(C), found.classes_[found.predict_proba(C).argmax(1)]
    )
    assert found.score(C, names) > 0.5
    with pytest.raises(ValueError, match="zip"):
        found.predict(C[:, :1])
