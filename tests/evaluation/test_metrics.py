from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.metrics import (
    METRICS,
    accuracy,
    all_scores,
    balanced_accuracy,
    calibration_error,
    confusion,
    default_metric,
    f1,
    get_metric,
    itr,
    kappa,
    log_loss,
    roc_auc,
)

Trials = tuple[NDArray[np.int64], NDArray[np.float64]]


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


@given(cases, st.integers(0, 99))
def test_the_order_of_trials_does_not_matter(case: Trials, seed: int) -> None:
    y, p = case
    order = np.random.default_rng(seed).permutation(len(y))
    assert all_scores(y[order], p[order]) == pytest.approx(all_scores(y, p), abs=1e-12)


@given(cases)
def test_names_of_classes_do_not_matter_but_to_the_f1_of_class_1(case: Trials) -> None:
    y, p = case
    n = p.shape[1]
    p = p + np.arange(n) * 1e-9  # no ties, which go to the first class
    p /= p.sum(1, keepdims=True)
    there = np.random.default_rng(n).permutation(n)
    renamed = np.empty_like(p)
    renamed[:, there] = p
    before, after = all_scores(y, p), all_scores(there[y], renamed)
    if n == 2:
        del before["f1"], after["f1"]
    assert after == pytest.approx(before, abs=1e-9)


@given(cases, st.floats(0.5, 3))
def test_auc_sees_only_the_order_of_two_classes_probabilities(case: Trials, power: float) -> None:
    y, p = case
    # In whole thousandths, whose powers and complements keep ties and order.
    y, one = y % 2, np.round(p[:, 1], 3)
    other = one**power
    before = roc_auc(y, np.column_stack([1 - one, one]))
    assert roc_auc(y, np.column_stack([1 - other, other])) == before
    mirrored = roc_auc(y, np.column_stack([one, np.round(1 - one, 3)]))
    assert before + mirrored == pytest.approx(1)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_perfect_scores_and_scores_of_one_answer(n_classes: int) -> None:
    y = np.arange(12) % n_classes
    scores = all_scores(y, np.eye(n_classes)[y])
    bits = scores.pop("itr")
    assert bits == pytest.approx(np.log2(n_classes))
    assert set(scores.values()) == {1.0}


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
    for q in ([1 / 3, 1 / 3, 1 / 3], [0.8, 0.1, 0.1]):  # other draws are worse
        others = [f1(y, np.eye(3)[rng.choice(3, 1000, p=q)]) for _ in range(200)]
        assert np.mean(others) < METRICS["f1"].chance(sizes)


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


def test_calibration_error_of_known_probabilities() -> None:
    y = np.repeat([1, 0], [7, 3])
    assert calibration_error(y, np.tile([0.3, 0.7], (10, 1))) == pytest.approx(0)
    assert calibration_error(y, np.tile([0.0, 1.0], (10, 1))) == pytest.approx(0.3)
    assert calibration_error(y, np.tile([0.1, 0.9], (10, 1))) == pytest.approx(0.2)
    assert log_loss([0], [[0.0, 1.0]]) == pytest.approx(-np.log(np.finfo(float).eps))


def test_cohens_own_example() -> None:
    # Cohen (1960), table 1, as counts of 200: agreement 0.70 where 0.41 is expected, kappa 0.49.
    table = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    y = np.repeat(np.arange(3), table.sum(1))
    predicted = np.concatenate([np.repeat(np.arange(3), row) for row in table])
    assert accuracy(y, np.eye(3)[predicted]) == pytest.approx(0.70)
    assert kappa(y, np.eye(3)[predicted]) == pytest.approx((0.70 - 0.41) / 0.59)


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
    assert np.isnan(balanced_accuracy([1, 1], [[0.2, 0.8], [0.7, 0.3]]))


def test_itr_by_wolpaws_formula() -> None:
    # Two classes: one bit less the entropy of being right.
    entropy = -0.9 * np.log2(0.9) - 0.1 * np.log2(0.1)
    assert itr(0.9, 2) == pytest.approx(1 - entropy)
    assert itr(1.0, 8) == pytest.approx(3)
    assert itr(0.25, 4) == itr(0.1, 4) == itr(0.0, 2) == 0
    assert itr(1.0, 4, seconds=4) == pytest.approx(30)
    # What a symmetric channel with these mistakes carries, from its definition.
    p, n = 0.7, 5
    channel = np.full((n, n), (1 - p) / (n - 1)) + np.eye(n) * (p - (1 - p) / (n - 1))
    mutual = (channel / n * np.log2(channel * n)).sum()
    assert itr(p, n) == pytest.approx(mutual)


@given(st.integers(2, 40), st.floats(0, 1), st.floats(0, 1))
def test_itr_rises_with_accuracy(n: int, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert -1e-12 <= itr(low, n) <= itr(high, n) + 1e-12
    assert itr(high, n) <= np.log2(n) + 1e-12


def test_defaults_and_names() -> None:
    assert default_metric("erp", [50, 50]) == default_metric("erp", [90, 10]) == "roc_auc"
    for paradigm in ("motor imagery", "ssvep", "other"):
        assert default_metric(paradigm, [50, 50]) == "accuracy"
        assert default_metric(paradigm, [74, 26]) == "accuracy"
        assert default_metric(paradigm, [25, 75]) == "balanced_accuracy"
        assert default_metric(paradigm, [37, 21, 21, 21]) == "accuracy"
        assert default_metric(paradigm, [39, 21, 20, 20]) == "balanced_accuracy"
    with pytest.raises(EvaluationError, match=r"no metric 'auc'.*roc_auc"):
        get_metric("auc")


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 1], [[0.5, 0.5]], "shape"),
        ([], np.empty((0, 2)), "shape"),
        ([0], [[1.0]], "classes from 2"),
        ([0.0], [[0.5, 0.5]], "whole numbers"),
        ([2], [[0.5, 0.5]], "classes 0 to 1"),
        ([-1], [[0.5, 0.5]], "from -1"),
        ([0, 1], [[0.5, 0.5], [3.0, -2.0]], "number 1.*softmax"),
        ([0], [[np.nan, 0.5]], "1 of 1 trials"),
    ],
)
def test_what_does_not_fit_is_refused(y: list[int], p: list[list[float]], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        all_scores(y, p)


@pytest.mark.parametrize(
    ("args", "message"),
    [((70, 4), "divide percent"), ((0.7, 1), "2 classes"), ((0.7, 2, 0.0), "seconds")],
)
def test_itr_refuses(args: tuple[float, ...], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        itr(*args)  # type: ignore[arg-type]
