"""Metrics against scikit-learn, and chance bounds by counting and simulation."""

from __future__ import annotations

import runpy
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn import metrics as sk

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.chance import (
    BOUNDS,
    accuracy_bound,
    auc_bound,
    balanced_accuracy_bound,
    chance_level,
    independent_counts,
)
from spdtokens.evaluation.metrics import (
    METRICS,
    all_scores,
    calibration_error,
    confusion,
    default_metric,
    get_metric,
    itr,
    log_loss,
)

Trials = tuple[NDArray[np.int64], NDArray[np.float64]]


f1, roc_auc = METRICS["f1"], METRICS["roc_auc"]


def trials(seed: int, n: int, n_classes: int, coarse: bool = False) -> Trials:
    """Labels with all classes, and probabilities that know a little of them."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    logits = rng.standard_normal((n, n_classes)) + np.eye(n_classes)[y]
    if coarse:  # for ties
        logits = np.round(logits)
    p = np.exp(logits)
    return y, p / p.sum(1, keepdims=True)


cases = st.builds(
    trials, st.integers(0, 2**32), st.integers(8, 60), st.integers(2, 5), st.booleans()
)


@given(cases)
def test_metrics_are_those_of_scikit_learn(case: Trials) -> None:
    y, p = case
    predicted, two = p.argmax(1), p.shape[1] == 2
    average = "binary" if two else "macro"
    # A class that is never predicted has no precision, though it has an F1.
    expected = {
        "accuracy": sk.accuracy_score(y, predicted),
        "balanced_accuracy": sk.balanced_accuracy_score(y, predicted),
        "kappa": sk.cohen_kappa_score(y, predicted),
        "roc_auc": sk.roc_auc_score(y, p[:, 1] if two else p, multi_class="ovr"),
        "f1": sk.f1_score(y, predicted, average=average, zero_division=0.0),
    }
    scores = all_scores(y, p)
    assert list(scores) == list(METRICS)
    for name, value in expected.items():
        assert scores[name] == pytest.approx(value, abs=1e-12), name


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_chance_is_the_best_of_all_constant_guesses(sizes: list[int]) -> None:
    """Of F1 of several classes, draws with the frequencies of the classes are better."""
    k, y = len(sizes), np.repeat(np.arange(len(sizes)), sizes)
    guesses = [all_scores(y, np.tile(np.eye(k)[c], (len(y), 1))) for c in range(k)]
    for name, metric in METRICS.items():
        best = max(guess[name] for guess in guesses)
        if name == "f1" and k > 2:
            assert best <= metric.chance(np.array(sizes)) == 1 / k
        else:
            assert metric.chance(np.array(sizes)) == pytest.approx(best), name


def test_draws_reach_the_chance_of_the_mean_f1() -> None:
    rng, sizes = np.random.default_rng(0), np.array([600, 300, 100])
    y = np.repeat(np.arange(3), sizes)
    drawn = [f1(y, np.eye(3)[rng.permutation(y)]) for _ in range(200)]
    assert np.mean(drawn) == pytest.approx(METRICS["f1"].chance(sizes), abs=0.005)


@given(cases)
def test_many_confusion_matrices_are_scored_as_one_by_one(case: Trials) -> None:
    y, p = case
    shuffled = [np.roll(p, shift, axis=0) for shift in range(3)]
    counts = np.stack([confusion(y, q) for q in shuffled])
    for name, metric in METRICS.items():
        if metric.of_counts is not None:
            each = [metric(y, q) for q in shuffled]
            np.testing.assert_allclose(metric.of_counts(counts), each, err_msg=name)


@given(cases)
def test_calibration_error_and_log_loss_by_their_definitions(case: Trials) -> None:
    y, p = case
    p = p / p.sum(1, keepdims=True)
    confidence, right = p.max(1), p.argmax(1) == y
    error = 0.0
    for i in range(10):
        inside = (confidence > i / 10) & (confidence <= (i + 1) / 10)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert calibration_error(y, p) == pytest.approx(error)
    assert log_loss(y, p) == pytest.approx(sk.log_loss(y, p, labels=range(p.shape[1])))


def test_a_missing_class_is_nan_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zeros = all_scores([0, 0, 0], [[0.9, 0.1]] * 3)
        three = all_scores([0, 1, 1], np.eye(3)[[0, 1, 2]])
    assert zeros["accuracy"] == 1
    missing = {name for name, value in zeros.items() if np.isnan(value)}
    assert missing == {"balanced_accuracy", "kappa", "roc_auc", "f1"}
    assert {name for name, value in three.items() if np.isnan(value)} == missing - {"kappa"}
    # Class 0 is not the one whose F1 is asked for.
    assert f1([1, 1], [[0.2, 0.8], [0.7, 0.3]]) == pytest.approx(2 / 3)


def test_itr_by_wolpaws_formula() -> None:
    # Two classes: one bit less the entropy of being right.
    entropy = -0.9 * np.log2(0.9) - 0.1 * np.log2(0.1)
    assert itr(0.9, 2) == pytest.approx(1 - entropy)
    assert itr(1.0, 8) == pytest.approx(3)
    assert itr(0.25, 4) == itr(0.1, 4) == itr(0.0, 2) == 0
    # What a symmetric channel with these mistakes carries, from its definition.
    p, n = 0.7, 5
    channel = np.full((n, n), (1 - p) / (n - 1)) + np.eye(n) * (p - (1 - p) / (n - 1))
    mutual = (channel / n * np.log2(channel * n)).sum()
    assert itr(p, n) == pytest.approx(mutual)


def test_defaults_and_names() -> None:
    assert default_metric("erp", [50, 50]) == default_metric("erp", [90, 10]) == "roc_auc"
    for paradigm in ("motor imagery", "ssvep", "other"):
        assert default_metric(paradigm, [50, 50]) == "accuracy"
        assert default_metric(paradigm, [74, 26]) == "accuracy"
        assert default_metric(paradigm, [25, 75]) == "balanced_accuracy"
        assert default_metric(paradigm, [37, 21, 21, 21]) == "accuracy"
        assert default_metric(paradigm, [39, 21, 20, 20]) == "balanced_accuracy"
    with pytest.raises(EvaluationError, match=r"'auc'.*roc_auc"):
        get_metric("auc")


@pytest.mark.parametrize(
    ("y", "p", "culprit"),
    [
        ([0, 1], [[0.5, 0.5]], "probabilities"),
        ([], np.empty((0, 2)), "probabilities"),
        ([0], [[1.0]], "classes >= 2"),
        ([0.0], [[0.5, 0.5]], "float64"),
        ([2], [[0.5, 0.5]], "to 2"),
        ([-1], [[0.5, 0.5]], "from -1"),
        ([0, 1], [[0.5, 0.5], [3.0, -2.0]], "trial 1"),
        ([0], [[np.nan, 0.5]], "1 of 1 trials"),
    ],
)
def test_what_does_not_fit_is_refused(y: list[int], p: list[list[float]], culprit: str) -> None:
    with pytest.raises(EvaluationError, match=culprit):
        all_scores(y, p)


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


def test_the_bound_of_equal_classes_would_call_the_majority_a_decoder() -> None:
    assert accuracy_bound(100, 2) < 0.8 <= BOUNDS["accuracy"](np.array([80, 20])) < 0.95


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


def test_metrics_that_are_accuracy_on_another_scale_agree_with_it() -> None:
    bounds = {name: bound(np.full(4, 10)) for name, bound in BOUNDS.items()}
    accuracy = accuracy_bound(40, 4)
    assert bounds["accuracy"] == bounds["balanced_accuracy"] == accuracy
    assert bounds["kappa"] == pytest.approx((accuracy - 0.25) / 0.75)
    assert bounds["itr"] == itr(accuracy, 4)


def test_what_cannot_be_said_is_nan_or_missing() -> None:
    assert set(METRICS) - set(BOUNDS) == {"f1"}
    assert np.isnan(BOUNDS["kappa"](np.array([30, 10])))
    for name in ("roc_auc", "balanced_accuracy"):
        assert np.isnan(BOUNDS[name](np.array([9, 0])))
    # Two trials cannot show anything.
    assert auc_bound([1, 1]) > 1
    assert accuracy_bound(2, 2) == 1


@given(st.lists(st.integers(0, 2), min_size=3, max_size=60))
def test_independent_trials_have_the_bound_of_their_numbers(labels: list[int]) -> None:
    y = np.array(labels)
    counts = np.bincount(y, minlength=3)
    for metric, bound in BOUNDS.items():
        found = independent_counts(metric, y, np.arange(len(y)), 3)
        np.testing.assert_array_equal(found, counts)
        np.testing.assert_array_equal(bound(found), bound(counts))


def test_equal_stretches_count_as_one_trial_each() -> None:
    y = np.repeat([0, 1, 0, 1, 1], 7)
    stretch = np.repeat([5, 3, 9, 1, 2], 7)
    np.testing.assert_allclose(independent_counts("accuracy", y, stretch, 2), [2, 3])
    np.testing.assert_allclose(independent_counts("roc_auc", y, stretch, 2), [2, 3])
    mixed, pairs = np.tile([0, 1], 10), np.arange(20) // 2
    np.testing.assert_allclose(independent_counts("accuracy", mixed, pairs, 2), [5, 5])
    np.testing.assert_allclose(independent_counts("roc_auc", mixed, pairs, 2), [10, 10])


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
        beyond += [score > BOUNDS[metric](found) for found in counts]
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
        (lambda: chance_level(1), "got 1"),
        (lambda: accuracy_bound(0, 2), "n_trials"),
        (lambda: accuracy_bound(10, 2, priors=[0.5, 0.6]), "priors"),
        (lambda: accuracy_bound(10, 2, priors=[1.0]), "priors"),
        (lambda: accuracy_bound(10, 2, alpha=5), "alpha"),
        (lambda: auc_bound([3]), "counts"),
    ]
    for call, culprit in refused:
        with pytest.raises(EvaluationError, match=culprit):
            call()
