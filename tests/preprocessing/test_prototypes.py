"""Covariances with class averages: the averages a trial has not seen, and filters that agree."""

from __future__ import annotations

import numpy as np
import pytest
from pyriemann.estimation import XdawnCovariances
from pyriemann.geometry.covariance import covariances

from spdtokens.preprocessing.covariance import Prototypes, turned
from spdtokens.preprocessing.folds import folds_in_time


def potentials(n: int = 90, seed: int = 0, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    t = np.linspace(0, 1, 64)
    wave = np.exp(-(((t - 0.4) / 0.1) ** 2))
    X = rng.standard_normal((n, 6, 64))
    X[:, 1:3] += size * y[:, None, None] * wave
    return X, y


def test_without_folds_training_trials_are_transformed_like_others() -> None:
    X, y = potentials()
    for kind in ("erp", "xdawn"):
        made = Prototypes(kind, 2)
        np.testing.assert_allclose(made.fit(X, y), made.transform(X), rtol=1e-12)


def test_a_training_trial_meets_averages_it_is_not_part_of() -> None:
    """Where there is nothing to find, all that an average shares with a trial is the trial."""
    X, y = potentials(150, size=0.0)

    def shared(folds: int) -> float:
        """Covariance of a trial and its own class's average, summed over filters."""
        C = Prototypes("xdawn", 2, folds).fit(X, y)
        own = np.where(y == 1, 2, 0)
        return float(np.mean([c[i, 4 + i] + c[i + 1, 5 + i] for c, i in zip(C, own, strict=True)]))

    assert shared(1) > 0.01
    assert abs(shared(5)) < 0.2 * shared(1)


@pytest.mark.parametrize("grouped", [False, True], ids=["neighbours in time", "groups"])
def test_folds_are_fitted_to_the_others(grouped: bool) -> None:
    X, y = potentials()
    # Every third trial is a target: ten of thirty neighbours, or all of a group.
    groups = np.arange(90) % 9 if grouped else None
    made = Prototypes("xdawn", 2, folds=3)
    C = made.fit(X, y, groups)
    others, mine = folds_in_time(y, 3, groups)[0]
    if grouped:
        assert set(groups[mine]).isdisjoint(groups[others])
    else:
        np.testing.assert_array_equal(mine, np.arange(30))
    unit = X / X.std()
    noise = covariances(np.hstack(unit)[None], estimator="oas")[0]
    fold = XdawnCovariances(2, estimator="oas", xdawn_estimator="scm", baseline_cov=noise)
    fold.fit(unit[others], y[others])
    expected = turned(fold, made.made, noise).transform(unit[mine]) * X.std() ** 2
    np.testing.assert_allclose(C[mine], expected, rtol=1e-8, atol=1e-12)


def test_filters_are_turned_onto_those_of_all_trials() -> None:
    X, y = potentials(size=2.0)
    full, half = Prototypes("xdawn", 3), Prototypes("xdawn", 3)
    full.fit(X, y)
    half.fit(X[:45], y[:45])
    noise = np.cov(np.hstack(X / full.scale))
    # The same filters in another order and with other signs come back as they were.
    mixed = turned(full.made, full.made, noise)
    np.testing.assert_allclose(mixed.Xd_.filters_, full.made.Xd_.filters_, atol=1e-8)
    filters, averages = full.made.Xd_.filters_.copy(), full.made.P_.copy()
    order, sign = np.array([2, 0, 1, 5, 3, 4]), np.array([-1, 1, -1, 1, 1, -1])[:, None]
    half.made.Xd_.filters_, half.made.P_ = sign * filters[order], sign * averages[order]
    back = turned(half.made, full.made, noise)
    np.testing.assert_allclose(back.Xd_.filters_, filters, atol=1e-6)
    np.testing.assert_allclose(back.P_, averages, atol=1e-6)


def test_a_rare_class_allows_fewer_folds() -> None:
    X, y = potentials(12)
    y[:] = 0
    y[[3, 8]] = 1
    assert Prototypes("xdawn", 2, folds=5).fit(X, y).shape == (12, 8, 8)
    y[8] = 0  # one trial is seen by its own average, or there is none
    made = Prototypes("xdawn", 2, folds=5)
    np.testing.assert_allclose(made.fit(X, y), made.transform(X), rtol=1e-12)
