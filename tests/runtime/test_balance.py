"""Decisions corrected for unbalanced classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import beta, norm

from spdtokens.runtime.balance import (
    LIMIT,
    ODDS,
    PRIOR,
    UNBALANCED,
    VARIANCES,
    imbalance_shift,
    running_balance,
    shifted,
    start_count,
)

EQUAL = np.full(2, 0.5)


def scores(n: tuple[int, int], distance: float, seed: int = 0) -> np.ndarray:
    """Log odds of calibrated probabilities of two classes, recentred by the mean of all trials."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n)
    x = np.where(y == 0, distance, -distance) / 2 + np.sqrt(distance) * rng.standard_normal(sum(n))
    return x - x.mean()


def probabilities(x: np.ndarray) -> np.ndarray:
    return np.stack([expit(x), expit(-x)], axis=1)


@pytest.mark.parametrize("n", [(100, 100), (140, 60), (180, 20), (20, 180)], ids=str)
def test_the_class_balanced_mean_is_found_without_labels(n: tuple[int, int]) -> None:
    """The shift is that to the mean of trials weighted so that classes count the same."""
    found = []
    for seed in range(20):
        x = scores(n, 8.0, seed)
        weighted = -np.average(x, weights=np.repeat(1 / np.array(n), n))
        shift = imbalance_shift(probabilities(x), EQUAL)
        found.append(shift[0] - shift[1] - weighted)
    # The closed form of the move is (n0 / (n0 + n1) - 1/2) 8, at most 3.2; the prior takes a bit.
    assert abs(np.mean(found)) < 0.65
    assert np.std(found) < 0.9


def test_balanced_accuracy_of_a_rare_class_is_restored() -> None:
    def score(p: np.ndarray) -> float:
        right = p.argmax(1) == y
        return (right[y == 0].mean() + right[y == 1].mean()) / 2

    y = np.repeat([0, 1], [180, 20])
    before, after = [], []
    for seed in range(20):
        p = probabilities(scores((180, 20), 6.0, seed))
        before.append(score(p))
        after.append(score(shifted(p, imbalance_shift(p, EQUAL))))
    best = norm.cdf(np.sqrt(6) / 2)
    assert np.mean(before) < best - 0.08
    assert np.mean(after) > best - 0.03


@pytest.mark.parametrize(("n", "distance"), [((90, 10), 0.05), ((3, 0), 6.0), ((5, 5), 1.0)])
def test_weak_decoders_and_few_trials_change_little(n: tuple[int, int], distance: float) -> None:
    shifts = [imbalance_shift(probabilities(scores(n, distance, s)), EQUAL) for s in range(10)]
    assert np.abs(shifts).mean() < 0.2


def by_hand(x: np.ndarray, q: float, n_classes: int) -> tuple[float, float]:
    """Posterior mean of the shift of one class, and its Bayes factor against no imbalance.

    One hypothesis after another.
    """
    weights, values, priors, as_trained = [], [], [], []
    for odds in ODDS:
        share = expit(odds + np.log(q / (1 - q)))
        for relative in VARIANCES:
            # d such that relative d + share (1 - share) d^2 is the variance of x
            d = max(np.roots([share * (1 - share), relative, -x.var() - 1e-9]).real)
            sd = np.sqrt(relative * d)
            own = norm.pdf(x, x.mean() + (1 - share) * d, sd)
            other = norm.pdf(x, x.mean() - share * d, sd)
            fit = np.log(share * own + (1 - share) * other).sum()
            n = PRIOR * n_classes
            # The beta density, per log odds
            prior = beta.logpdf(share, n * q, n * (1 - q)) + np.log(share * (1 - share))
            weights.append(fit + prior)
            values.append((share - q) * d)
            priors.append(prior)
            if abs(odds) < 1e-9:
                as_trained.append(fit)
    unbalanced = np.exp(weights).sum() / np.exp(priors).sum()
    return float(softmax(weights) @ values), float(unbalanced / np.exp(as_trained).mean())


def test_balanced_recordings_are_left_as_they_are() -> None:
    for seed in range(10):
        shift = imbalance_shift(probabilities(scores((50, 50), 3.0, seed)), EQUAL)
        assert np.abs(shift).max() < 0.25


def test_the_start_of_one_session_counts_for_more() -> None:
    assert (start_count(1), start_count(2), start_count(30)) == (10, 3, 3)


def test_the_estimate_is_the_mean_of_the_posterior() -> None:
    rng = np.random.default_rng(1)
    p = softmax(3 * rng.standard_normal((30, 3)) + [2.0, 0.0, -1.0], axis=1)
    q = np.array([0.5, 0.3, 0.2])
    x = np.log(p / (1 - p)).clip(-LIMIT, LIMIT)
    moves, factors = np.transpose([by_hand(x[:, k], q[k], 3) for k in range(3)])
    odds = UNBALANCED * np.prod(factors) ** (2 / 3)
    assert 0.02 < odds < 50  # neither hypothesis is certain
    expected = 2 / 3 * moves * odds / (1 + odds)
    np.testing.assert_allclose(imbalance_shift(p, q), expected, rtol=1e-9)
    np.testing.assert_allclose(imbalance_shift(p[:, ::-1], q[::-1]), expected[::-1], rtol=1e-9)


def test_proportions_of_training_are_no_imbalance() -> None:
    """Recentred by means of the same proportions, a model needs no correction."""
    p = probabilities(scores((160, 40), 6.0))
    as_trained = imbalance_shift(p, np.array([0.8, 0.2]))
    assert np.abs(as_trained).max() < 0.4
    assert imbalance_shift(p, EQUAL)[0] > 0.6  # 0.3 of the distance, 6, in both classes' halves


def test_classes_that_were_not_trained_keep_probability_zero() -> None:
    p = np.column_stack([probabilities(scores((30, 10), 6.0)), np.zeros(40)])
    q = np.array([0.5, 0.5, 0.0])
    shift = imbalance_shift(p, q)
    np.testing.assert_allclose(shift, [*imbalance_shift(p[:, :2], q[:2]), 0.0])
    assert (shifted(p, shift)[:, 2] == 0).all()


def test_certain_decisions_are_finite_and_kept() -> None:
    p = np.eye(2)[np.repeat([0, 1], [18, 2])]
    found = shifted(p, imbalance_shift(p, EQUAL))
    np.testing.assert_array_equal(found, p)


def test_trials_are_corrected_by_their_past() -> None:
    x = np.random.default_rng(0).permutation(scores((54, 6), 6.0))
    p = probabilities(x)
    found = running_balance(p, EQUAL)
    np.testing.assert_allclose(found[:2], p[:2], rtol=1e-12)
    changed = p.copy()
    changed[40:] = changed[40:, ::-1]
    np.testing.assert_array_equal(running_balance(changed, EQUAL)[:40], found[:40])
    share = 59 / (59 + 3)
    expected = shifted(p[59], share * imbalance_shift(p[:59], EQUAL))
    np.testing.assert_allclose(found[59], expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_sum_to_one(dtype: Any) -> None:
    p = probabilities(scores((30, 5), 4.0)).astype(dtype)
    np.testing.assert_allclose(running_balance(p, EQUAL).sum(1), 1, rtol=1e-6)
