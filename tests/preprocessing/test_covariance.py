"""Covariances of trials, beside class averages the trial has not seen, and folds in time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.estimation import Covariances, XdawnCovariances
from pyriemann.geometry.covariance import covariances
from sklearn.model_selection import StratifiedKFold

from spdtokens.errors import SignalError
from spdtokens.preprocessing.covariance import (
    estimate,
    fit_prototype,
    folds_in_time,
    turned,
)
from spdtokens.runtime.signals import Prototype

X = np.random.default_rng(0).standard_normal((4, 5, 200)) + 3.0


@pytest.mark.parametrize("estimator", ["oas", "lwf", "scm", "cov", "sch"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_pyriemanns_estimators_in_any_unit(estimator: str, scale: float) -> None:
    expected = Covariances(estimator=estimator).transform(X)
    np.testing.assert_allclose(estimate(scale * X, estimator), scale**2 * expected, rtol=1e-8)


def potentials(n: int = 90, seed: int = 0, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    t = np.linspace(0, 1, 64)
    wave = np.exp(-(((t - 0.4) / 0.1) ** 2))
    X = rng.standard_normal((n, 6, 64))
    X[:, 1:3] += size * y[:, None, None] * wave
    return X, y


@pytest.mark.parametrize("grouped", [False, True], ids=["neighbours in time", "groups"])
def test_folds_are_fitted_to_the_others(grouped: bool) -> None:
    X, y = potentials()
    # Every third trial is a target: ten of thirty neighbours, or all of a group.
    groups = np.arange(90) % 9 if grouped else None
    full, C = fit_prototype(X, y, "xdawn", 2, 3, groups)
    others, mine = folds_in_time(y, 3, groups)[0]
    if grouped:
        assert set(groups[mine]).isdisjoint(groups[others])
    else:
        np.testing.assert_array_equal(mine, np.arange(30))
    unit = X / X.std()
    noise = covariances(np.hstack(unit)[None], estimator="oas")[0]
    fold = XdawnCovariances(2, estimator="oas", xdawn_estimator="scm", baseline_cov=noise)
    fold.fit(unit[others], y[others])
    part = Prototype(fold.P_, fold.Xd_.filters_, X.std())
    expected = turned(part, full, 2, noise).covariances(X[mine])
    np.testing.assert_allclose(C[mine], expected, rtol=1e-8, atol=1e-12)


def test_filters_are_turned_onto_those_of_all_trials() -> None:
    X, y = potentials(size=2.0)
    full, _ = fit_prototype(X, y, "xdawn", 3)
    noise = np.cov(np.hstack(X / full.scale))
    # The same filters in another order and with other signs come back as they were.
    order, sign = np.array([2, 0, 1, 5, 3, 4]), np.array([-1, 1, -1, 1, 1, -1])[:, None]
    mixed = Prototype(sign * full.averages[order], sign * full.filters[order], full.scale)
    for fold in (full, mixed):
        back = turned(fold, full, 2, noise)
        np.testing.assert_allclose(back.filters, full.filters, atol=1e-6)
        np.testing.assert_allclose(back.averages, full.averages, atol=1e-6)


def test_a_rare_class_allows_fewer_folds() -> None:
    X, y = potentials(12)
    y[:] = 0
    y[[3, 8]] = 1
    assert fit_prototype(X, y, "xdawn", 2, 5)[1].shape == (12, 8, 8)
    y[8] = 0  # one trial is seen by its own average, or there is none
    made, C = fit_prototype(X, y, "xdawn", 2, 5)
    np.testing.assert_allclose(C, made.covariances(X), rtol=1e-12)


def test_without_groups_they_are_stratified_and_not_shuffled() -> None:
    y = np.array(list("abc"))[np.arange(31) % 3]
    expected = StratifiedKFold(5).split(y, y)
    for (a, b), (c, d) in zip(folds_in_time(y, 5), expected, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


@given(st.integers(2, 60), st.integers(2, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_groups_stay_whole_and_no_class_is_missing(
    n: int, classes: int, size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    groups = np.arange(n) // size
    for train, test in folds_in_time(y, 5, groups):
        assert not np.intersect1d(groups[train], groups[test]).size
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(n))
        assert set(y[train]) == set(y)


def test_groups_of_other_trials_are_refused() -> None:
    with pytest.raises(SignalError, match="groups"):
        folds_in_time(np.arange(20) % 2, 5, groups=np.arange(19))


def test_a_class_of_one_group_cannot_be_held_out() -> None:
    y = np.array([0, 0, 0, 0, 1, 1])
    assert folds_in_time(y, 5, groups=np.array([0, 0, 1, 1, 2, 2])) == []
    assert len(folds_in_time(y, 5)) == 2
