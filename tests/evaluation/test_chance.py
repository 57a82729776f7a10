from __future__ import annotations

import runpy
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, mannwhitneyu, norm

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.chance import (
    BOUNDS,
    above_chance,
    accuracy_bound,
    auc_bound,
    balanced_accuracy_bound,
    chance_level,
    independent_counts,
)
from spdtokens.evaluation.metrics import METRICS, itr


def hits(counts: tuple[int, ...], guesses: tuple[float, ...]) -> NDArray[np.float64]:
    """Exact distribution of the hits of a guesser with these frequencies, shape (n + 1,)."""
    distribution = np.ones(1)
    for n, q in zip(counts, guesses, strict=True):
        distribution = np.convolve(distribution, binom.pmf(np.arange(n + 1), n, q))
    return distribution


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_equally_frequent_classes_as_in_moabb(n_classes: int, alpha: float) -> None:
    moabb = pytest.importorskip("moabb.analysis.chance_level")
    for n in (5, 20, 100, 288):
        theirs = moabb.adjusted_chance_level(n_classes, n, alpha)
        assert accuracy_bound(n, n_classes, alpha=alpha) == theirs


@pytest.mark.parametrize(("n", "n_classes"), [(20, 2), (40, 2), (100, 2), (100, 4)])
def test_bound_by_counting_lucky_guesses(n: int, n_classes: int) -> None:
    def ways(beyond: int) -> float:
        of = (comb(n, k) * (n_classes - 1) ** (n - k) for k in range(beyond + 1, n + 1))
        return sum(of) / n_classes**n

    hits = next(k for k in range(n + 1) if ways(k) <= 0.05)
    assert accuracy_bound(n, n_classes) == hits / n


@pytest.mark.parametrize("counts", [(20, 20), (30, 10), (36, 4), (12, 12, 12), (24, 8, 4)])
def test_no_guesser_exceeds_the_accuracy_bound_too_often(counts: tuple[int, ...]) -> None:
    n = sum(counts)
    bound = accuracy_bound(n, len(counts), priors=np.array(counts) / n)
    assert bound >= max(counts) / n  # what always saying the most frequent class reaches
    k = round(bound * n)
    worst = 0.0
    for q in product(np.linspace(0, 1, 21), repeat=len(counts) - 1):
        if sum(q) <= 1 + 1e-9:
            tail = hits(counts, (*q, max(0.0, 1 - sum(q))))[k + 1 :].sum()
            worst = max(worst, tail)
    assert worst <= 0.05


def test_one_hit_less_would_be_luck_for_equally_frequent_classes() -> None:
    k = round(accuracy_bound(40, 2) * 40)
    assert hits((20, 20), (0.5, 0.5))[k:].sum() > 0.05


def test_the_bound_of_equal_classes_would_call_the_majority_a_decoder() -> None:
    y = np.repeat([0, 1], [80, 20])
    assert accuracy_bound(100, 2) < 0.8
    assert above_chance("accuracy", 0.8, y) is False
    assert above_chance("accuracy", 0.95, y) is True


def test_auc_bound_by_the_variance_of_every_ordering() -> None:
    # All ways to place 4 positives among 9 ranks.
    n_pos, n_neg = 4, 5
    areas = []
    for places in product((0, 1), repeat=9):
        if sum(places) == n_pos:
            ranks = np.flatnonzero(places) + 1
            areas.append((ranks.sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))
    expected = 0.5 + norm.isf(0.05) * np.std(areas)
    assert auc_bound((n_neg, n_pos)) == pytest.approx(expected, rel=1e-12)


def test_auc_bound_agrees_with_the_test_of_scipy() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.standard_normal(30) + 0.45, rng.standard_normal(70)
    test = mannwhitneyu(
        positive, negative, alternative="greater", method="asymptotic", use_continuity=False
    )
    area = test.statistic / (30 * 70)
    assert auc_bound((70, 30), alpha=test.pvalue) == pytest.approx(area)


@pytest.mark.parametrize("counts", [(20, 20, 20), (30, 10), (40, 15, 5), (50, 5, 5, 5)])
def test_bounds_hold_in_simulation(counts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    k, y = len(counts), np.repeat(np.arange(len(counts)), counts)
    area, balanced = auc_bound(counts), balanced_accuracy_bound(counts)
    beyond = np.zeros(2)
    for _ in range(1500):
        p = rng.dirichlet(np.ones(k), len(y))
        beyond += (METRICS["roc_auc"](y, p) > area, METRICS["balanced_accuracy"](y, p) > balanced)
    # Three standard errors of 1500 draws, and the normal approximation.
    assert (beyond / 1500 < 0.05 + 0.022).all()
    if k == 2:  # one area only, so nothing is cautious about it
        assert beyond[0] / 1500 > 0.03


@pytest.mark.parametrize("counts", [(30, 10), (40, 15, 5), (50, 5, 5, 5), (60, 20, 10, 10)])
def test_no_guesser_has_a_larger_variance_of_balanced_accuracy(counts: tuple[int, ...]) -> None:
    k, n = len(counts), np.array(counts)
    q = np.random.default_rng(0).dirichlet(np.ones(k), 4000)
    spreads = np.sqrt((q * (1 - q) / n).sum(1)) / k
    taken = (balanced_accuracy_bound(counts) - 1 / k) / norm.isf(0.05)
    assert spreads.max() <= taken + 1e-12
    assert spreads.max() == pytest.approx(taken, rel=0.03)


def test_the_guesser_of_largest_variance_may_leave_out_a_large_class() -> None:
    # Twice the share of the first is more than 1, so it is never said, the others equally often.
    variance = 3 * (1 / 3) * (2 / 3) / 5 / 4**2
    expected = 0.25 + norm.isf(0.05) * np.sqrt(variance)
    assert balanced_accuracy_bound((50, 5, 5, 5)) == pytest.approx(expected)


def test_metrics_that_are_accuracy_on_another_scale_agree_with_it() -> None:
    y = np.arange(40) % 4
    bound = accuracy_bound(40, 4)
    for correct in range(41):
        share = correct / 40
        expected = share > bound
        assert above_chance("accuracy", share, y) is expected
        assert above_chance("balanced_accuracy", share, y) is expected
        assert above_chance("kappa", (share - 0.25) / 0.75, y) is expected
        assert above_chance("itr", itr(share, 4), y) is expected


def test_what_cannot_be_said_is_none() -> None:
    y = np.repeat([0, 1], [30, 10])
    assert above_chance("f1", 1.0, y) is None
    assert above_chance("kappa", 1.0, y) is None
    assert above_chance("accuracy", np.nan, y) is None
    assert above_chance("roc_auc", 0.9, y) is True
    assert above_chance("roc_auc", 0.9, np.zeros(9, int)) is None
    assert above_chance("balanced_accuracy", 0.9, y, n_classes=3) is None
    # Two trials cannot show anything.
    assert above_chance("roc_auc", 1.0, [0, 1]) is False
    assert above_chance("accuracy", 1.0, [0, 1]) is False


@given(st.lists(st.integers(0, 2), min_size=3, max_size=60))
def test_independent_trials_have_the_bound_of_their_numbers(labels: list[int]) -> None:
    y = np.array(labels)
    counts = np.bincount(y, minlength=3)
    for metric, bound in BOUNDS.items():
        found = independent_counts(metric, y, np.arange(len(y)), 3)
        np.testing.assert_array_equal(found, counts)
        np.testing.assert_array_equal(bound(found, 0.05), bound(counts, 0.05))


def test_equal_stretches_count_as_one_trial_each() -> None:
    y = np.repeat([0, 1, 0, 1, 1], 7)
    stretch = np.repeat([5, 3, 9, 1, 2], 7)
    np.testing.assert_allclose(independent_counts("accuracy", y, stretch, 2), [2, 3])
    np.testing.assert_allclose(independent_counts("roc_auc", y, stretch, 2), [2, 3])
    mixed, pairs = np.tile([0, 1], 10), np.arange(20) // 2
    np.testing.assert_allclose(independent_counts("accuracy", mixed, pairs, 2), [5, 5])
    np.testing.assert_allclose(independent_counts("roc_auc", mixed, pairs, 2), [10, 10])


def test_one_large_stretch_outweighs_many_small_ones() -> None:
    """A mean of which nine tenths are one decision is hardly surer than that decision."""
    y = np.zeros(100, dtype=int)
    stretch = np.append(np.zeros(90, dtype=int), np.arange(1, 11))
    rng = np.random.default_rng(0)
    hits = rng.random((20_000, 11)) < 0.5
    spread = (hits @ np.array([90, *[1] * 10]) / 100).var()
    (n, _) = independent_counts("balanced_accuracy", y, stretch, 2)
    assert n == 1 == int(0.25 / spread)
    assert independent_counts("accuracy", y, stretch, 2).sum() == pytest.approx(1)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "roc_auc"])
def test_decisions_repeated_many_times_exceed_their_bound_once_in_20(metric: str) -> None:
    rng, n, copies = np.random.default_rng(5), 80, 10
    stretch = np.repeat(np.arange(n), copies)
    beyond = np.zeros(2)
    for _ in range(400):
        y = np.repeat(rng.permutation(np.arange(n) % 2), copies)
        guess = np.repeat(rng.random(n), copies) + rng.normal(0, 0.02, n * copies)
        p = np.clip(guess, 0, 1)
        score = METRICS[metric](y, np.stack([1 - p, p], axis=1))
        counts = [independent_counts(metric, y, units, 2) for units in (stretch, np.arange(len(y)))]
        beyond += [score > BOUNDS[metric](found, 0.05) for found in counts]
    assert 0.02 <= beyond[0] / 400 <= 0.07
    assert beyond[1] / 400 > 0.2  # as if every copy were another decision


@pytest.mark.slow
def test_noise_in_overlapping_windows_exceeds_the_bound_once_in_20() -> None:
    """Through the real path: the simulation that docs/evaluation.md shows."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "studies" / "chance_bound.py"))
    _, n_test, n_independent, share, naive = script["exceeded"](script["HEAVY"], 300)
    assert (n_test, n_independent) == (800, 80)
    assert 0.02 <= share <= 0.07
    assert naive > 0.2


def test_levels_and_refusals() -> None:
    assert chance_level(4) == 0.25
    refused = [
        (lambda: chance_level(1), "1 class"),
        (lambda: accuracy_bound(0, 2), "0 trials"),
        (lambda: accuracy_bound(10, 2, priors=[0.5, 0.6]), "sum to 1"),
        (lambda: accuracy_bound(10, 2, priors=[1.0]), "2 shares"),
        (lambda: accuracy_bound(10, 2, alpha=5), "alpha must be between"),
        (lambda: auc_bound([3]), "2 or more classes"),
        (lambda: above_chance("auc", 0.5, [0, 1]), "no metric 'auc'"),
        (lambda: above_chance("accuracy", 0.5, [0.5, 1]), "whole numbers"),
        (lambda: above_chance("accuracy", 0.5, [0, 2], n_classes=2), "a label 2"),
    ]
    for call, message in refused:
        with pytest.raises(EvaluationError, match=message):
            call()
