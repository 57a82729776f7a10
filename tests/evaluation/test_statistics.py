"""Tests of differences against SciPy, published examples and all permutations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import friedmanchisquare, rankdata
from sklearn import metrics as sk

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.statistics import (
    TESTS,
    compare,
    corrected_resampled_t,
    effect_size,
    holm,
    mcnemar,
    paired_t,
    permutation,
    rank_methods,
    trial_permutation,
    wilcoxon,
)

# Student (1908), hours of sleep gained with two drugs.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]


DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


# Hollander and Wolfe (1973), depression before and after.
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]


AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]


# Darwin's maize, crossed less self-fertilised, in eighths of an inch (Fisher 1935).
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


# Hundredths, for ties and zeros as in accuracies.
pairs = st.lists(
    st.tuples(st.integers(40, 60), st.integers(40, 60)).map(lambda t: (t[0] / 100, t[1] / 100)),
    min_size=2,
    max_size=9,
).map(lambda rows: tuple(np.array(rows).T))


OPTIONS = {"corrected_resampled_t": {"n_train": 80, "n_test": 20}}


def test_published_examples() -> None:
    sleep = paired_t(DRUG_1, DRUG_2)
    assert sleep.statistic == pytest.approx(-4.0621, abs=5e-5)
    assert sleep.p_value == pytest.approx(0.002833, abs=5e-7)
    assert sleep.n == 10
    assert sleep.mean_difference == pytest.approx(-1.58)
    depression = wilcoxon(BEFORE, AFTER)
    assert depression.statistic == 45 - 40
    assert depression.p_value == pytest.approx(2 * 0.01953, abs=2e-5)
    # Fisher counted 1726 of the 32768 sums as far from 0 as 314.
    maize = permutation(MAIZE, np.zeros(15))
    error = np.sqrt(0.0527 * 0.9473 / 10_000)
    assert maize.p_value == pytest.approx(1726 / 32768, abs=4 * error)
    assert permutation(MAIZE, np.zeros(15)) == maize
    # Differences 1, 2, 3, 4: mean 2.5, variance 5/3; 1/4 + 10/40 = 1/2.
    folds = corrected_resampled_t([2, 4, 6, 8], [1, 2, 3, 4], n_train=40, n_test=10)
    assert folds.statistic == pytest.approx(2.5 / np.sqrt(5 / 6))
    assert folds.p_value == pytest.approx(2 * stats.t.sf(2.5 / np.sqrt(5 / 6), 3))


@given(pairs)
def test_paired_t_is_that_of_scipy(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    if np.ptp(np.round(a - b, 9)) > 0:
        ours, theirs = paired_t(a, b), stats.ttest_rel(a, b)
        assert (ours.statistic, ours.p_value) == pytest.approx(theirs, rel=1e-6)


@given(pairs)
def test_wilcoxon_and_permutation_by_all_flips(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    d = np.rint(100 * a) - np.rint(100 * b)  # whole numbers, so nothing rounds
    ranks = stats.rankdata(np.abs(d[d != 0]))
    signs = np.sign(d[d != 0])
    centre = ranks.sum() / 2
    observed = abs(ranks[signs > 0].sum() - centre)
    far = [
        abs(ranks[np.array(flip, bool)].sum() - centre) >= observed
        for flip in product((0, 1), repeat=len(ranks))
    ]
    assert wilcoxon(a, b).p_value == pytest.approx(np.mean(far))
    far = [abs(np.dot(flip, d)) >= abs(d.sum()) for flip in product((-1, 1), repeat=len(d))]
    assert permutation(a, b).p_value == pytest.approx(np.mean(far))


def test_wilcoxon_of_many_pairs_goes_over_smoothly() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 501)) + np.array([[0.1], [0]])
    exact, approximate = wilcoxon(a[:-1], b[:-1]), wilcoxon(a, b)
    assert approximate.p_value == stats.wilcoxon(a, b, method="approx").pvalue
    assert exact.p_value == pytest.approx(
        stats.wilcoxon(a[:-1], b[:-1], method="approx").pvalue, rel=0.01
    )


def test_permutation_of_many_pairs_is_that_of_scipy() -> None:
    a, b = np.random.default_rng(3).standard_normal((2, 30)) + np.array([[0.4], [0]])
    theirs = stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=20_000, rng=0
    )
    assert permutation(a, b).p_value == pytest.approx(theirs.pvalue, abs=0.01)
    far = permutation(np.arange(1, 41), np.zeros(40))
    assert far.p_value == 1 / 10_001


@pytest.mark.parametrize("test", TESTS)
def test_edges_of_every_test(test: str) -> None:
    options = OPTIONS.get(test, {})
    same = compare([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], test, **options)
    assert (same.p_value, same.mean_difference, same.effect) == (1, 0, 0)
    one = compare([0.5], [0.6], test, **options)
    assert one.n == 1
    assert one.mean_difference == pytest.approx(-0.1)
    assert np.isnan([one.p_value, one.statistic, one.effect]).all()
    none = compare([], [], test, **options)
    assert none.n == 0
    assert np.isnan([none.mean_difference, none.p_value]).all()
    # A pair with a NaN is no pair.
    a, b = np.random.default_rng(0).standard_normal((2, 8))
    whole = compare(a, b, test, **options)
    gaps = compare(np.append(a, [np.nan, 1]), np.append(b, [1, np.nan]), test, **options)
    assert gaps == whole
    assert whole.test == test


@pytest.mark.parametrize("test", TESTS)
@given(pair=pairs)
def test_swapping_methods_turns_the_sign_alone(
    test: str, pair: tuple[np.ndarray, np.ndarray]
) -> None:
    a, b = pair
    options = OPTIONS.get(test, {})
    forth, back = compare(a, b, test, **options), compare(b, a, test, **options)
    assert forth.p_value == pytest.approx(back.p_value, nan_ok=True)
    assert forth.mean_difference == pytest.approx(-back.mean_difference)
    assert forth.effect == pytest.approx(-back.effect, nan_ok=True)
    percent = compare(100 * a, 100 * b, test, **options)
    assert percent.p_value == pytest.approx(forth.p_value, nan_ok=True)


def test_equal_differences_have_no_spread_to_judge_by() -> None:
    # 0.8 - 0.7, 0.6 - 0.5 and 0.4 - 0.3 differ in floating point.
    a, b = [0.8, 0.6, 0.4], [0.7, 0.5, 0.3]
    assert len(set(np.subtract(a, b))) == 3
    result = paired_t(a, b)
    assert result.statistic == np.inf
    assert np.isnan(result.p_value)
    assert np.isnan(result.effect)
    assert wilcoxon(a, b).p_value == permutation(a, b).p_value == 2 / 2**3


def test_effect_size_is_right_on_average() -> None:
    d = np.random.default_rng(0).standard_normal((5000, 5)) + 0.8
    assert np.mean([effect_size(row, np.zeros(5)) for row in d]) == pytest.approx(0.8, abs=0.03)
    assert np.isnan(effect_size(d[0, :2], np.zeros(2)))


def test_holm_leaves_out_what_could_not_be_tested() -> None:
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    with_gap = holm([0.01, np.nan, 0.04, 0.03, 0.005])
    assert with_gap == pytest.approx([0.03, np.nan, 0.06, 0.06, 0.02], nan_ok=True)
    assert len(holm([])) == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_by_its_closed_form(p: list[float]) -> None:
    # Each hypothesis: the worst over sets holding it of size times smallest p (Bonferroni, closed).
    sets = [s for s in product((0, 1), repeat=len(p)) if any(s)]
    for i, adjusted in enumerate(holm(p)):
        worst = max(
            min(1, sum(s) * min(q for q, inside in zip(p, s, strict=True) if inside))
            for s in sets
            if s[i]
        )
        assert adjusted == pytest.approx(worst)


def test_mcnemar() -> None:
    def trials(both: int, only_a: int, only_b: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
        a = np.repeat([True, True, False, False], [both, only_a, only_b, neither])
        return a, np.repeat([True, False, True, False], [both, only_a, only_b, neither])

    result = mcnemar(*trials(100, 12, 3, 29))
    assert result.p_value == pytest.approx(stats.binomtest(3, 15).pvalue)
    assert result.p_value == pytest.approx(2 * (1 + 15 + 105 + 455) / 2**15)
    assert (result.n, result.statistic) == (144, 12)
    assert result.mean_difference == pytest.approx(9 / 144)
    assert result.effect == pytest.approx(0.3)
    assert mcnemar(*trials(5, 0, 0, 5)).p_value == mcnemar(*trials(5, 4, 4, 5)).p_value == 1


@pytest.mark.parametrize(
    ("call", "culprit"),
    [
        (lambda: compare([1, 2], [1, 2], "t"), "'t'.*paired_t"),
        (lambda: compare([1, 2], [1, 2, 3]), r"\(2,\) and \(3,\)"),
        (lambda: compare([1, np.inf], [1, 2]), "infinit"),
        (lambda: compare([1, 2], [1, 2], "corrected_resampled_t"), "n_train"),
        (lambda: holm([0.5, 1.2]), "1.2"),
        (lambda: mcnemar([1, 0], [True, False]), "bool"),
        (lambda: rank_methods({"a": [1, 2]}), "methods"),
        (lambda: rank_methods({"a": [1, 2, 3], "b": [1, 2]}), "'b'"),
        (lambda: rank_methods({"a": [1], "b": [1]}), "'a'"),
        (lambda: rank_methods({"a": [1, 2], "b": [1, np.nan]}), "'b'"),
    ],
)
def test_refused_scores(call: Callable[[], object], culprit: str) -> None:
    with pytest.raises(EvaluationError, match=culprit):
        call()


# Demsar (2006), table 5(a): q at 0.05 for 2 to 10 classifiers.
Q = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)


# His table 6: AUC of four variants of C4.5 on 14 data sets, in thousandths. He ranks 975 and 975 on
# the 13th as 2 and 3, so they differ in a digit not printed.
DEMSAR = {
    "C4.5": [763, 599, 954, 628, 882, 936, 661, 583, 775, 1000, 940, 619, 972, 957],
    "C4.5+m": [768, 591, 971, 661, 888, 931, 668, 583, 838, 1000, 962, 666, 981, 978],
    "C4.5+cf": [771, 590, 968, 654, 886, 916, 609, 563, 866, 1000, 965, 614, 975.1, 946],
    "C4.5+m+cf": [798, 569, 967, 657, 898, 931, 685, 625, 875, 1000, 962, 669, 975, 970],
}


def test_demsars_table_of_critical_values() -> None:
    for k, q in enumerate(Q, start=2):
        found = rank_methods({str(i): np.arange(14) for i in range(k)}).critical_difference
        # His third digits are off by one in two places: exact are 2.3437 and 2.9483.
        assert found / np.sqrt(k * (k + 1) / (6 * 14)) == pytest.approx(q, abs=8e-4)


def test_demsars_example() -> None:
    ranking = rank_methods(DEMSAR)
    assert ranking.names == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    assert ranking.ranks == pytest.approx((1.964, 2.000, 2.893, 3.143), abs=5e-4)
    assert ranking.n == 14
    assert ranking.critical_difference == pytest.approx(1.25, abs=0.005)
    # He finds a difference by Friedman's test but none between pairs at 0.05.
    assert ranking.p_value < 0.05
    assert ranking.groups == ((0, 3),)


@given(st.integers(0, 2**32), st.integers(3, 8), st.integers(2, 20), st.integers(2, 30))
def test_friedman_is_that_of_scipy(seed: int, k: int, n: int, levels: int) -> None:
    scores = np.random.default_rng(seed).integers(0, levels, (k, n))
    found = rank_methods({str(i): row for i, row in enumerate(scores)}).p_value
    tied = (rankdata(-scores, axis=0) == (k + 1) / 2).all()
    assert found == pytest.approx(1.0 if tied else friedmanchisquare(*scores).pvalue)


def test_overlapping_groups_and_loners() -> None:
    # The same order on 40 data sets: neighbours are one rank apart.
    steady = {name: np.full(40, -i) for i, name in enumerate("abcdef")}
    ranking = rank_methods(steady)
    assert ranking.critical_difference == pytest.approx(1.19, abs=0.01)
    assert ranking.names == tuple("abcdef")
    assert ranking.groups == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    assert (
        rank_methods({k: v[:, None].repeat(3, 1).ravel() for k, v in steady.items()}).groups == ()
    )


def test_nothing_found_joins_all_and_ties_are_seen_through_rounding() -> None:
    tied = rank_methods({"a": [0.3, 0.3], "b": [0.1 + 0.2, 0.3], "c": [0.3, 0.3]})
    assert tied.ranks == (2, 2, 2)
    assert tied.p_value == 1
    assert tied.groups == ((0, 2),)


def test_pairs_are_looked_at_only_after_friedmans_test_finds_something() -> None:
    scores = {
        "a": [90, 80, 46, 114, 84, 107],
        "b": [42, 31, 48, 15, 26, 10],
        "c": [69, 49, 97, 5, 26, 48],
        "d": [59, 3, 22, 26, 31, 64],
    }
    ranking = rank_methods(scores)
    assert ranking.ranks[-1] - ranking.ranks[0] > ranking.critical_difference
    assert ranking.p_value > 0.05
    assert ranking.groups == ((0, 3),)


def columns(*scores: np.ndarray) -> np.ndarray:
    """Runs (runs, n, 2) of the probability of class 1."""
    return np.stack([np.stack([1 - score, score], axis=1) for score in scores])


def by_trying_all_swaps(metric: str, y: np.ndarray, a: np.ndarray, b: np.ndarray, unit: np.ndarray):
    """The p-value from its definition, with scikit-learn's metrics; ranks where order counts."""
    score = {
        "accuracy": lambda p: sk.accuracy_score(y, p.argmax(1)),
        "balanced_accuracy": lambda p: sk.balanced_accuracy_score(y, p.argmax(1)),
        "kappa": lambda p: sk.cohen_kappa_score(y, p.argmax(1)),
        "f1": lambda p: sk.f1_score(y, p.argmax(1), average="macro", zero_division=0.0),
        "roc_auc": lambda p: np.mean([sk.roc_auc_score(y == k, p[:, k]) for k in range(3)]),
    }[metric]
    if metric == "roc_auc":
        a, b = (stats.rankdata(p, axis=-2) for p in (a, b))
    names = np.unique(unit)

    def difference(swap: tuple[int, ...]) -> float:
        moved = np.isin(unit, names[np.array(swap, dtype=bool)])[:, None]
        pairs = list(zip(a, b, strict=True))
        one = [score(np.where(moved, q, p)) for p, q in pairs]
        other = [score(np.where(moved, p, q)) for p, q in pairs]
        return float(np.mean(one) - np.mean(other))

    observed = difference((0,) * len(names))
    all_ = [difference(swap) for swap in product((0, 1), repeat=len(names))]
    return observed, np.mean(np.abs(all_) >= abs(observed) - 1e-9)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "kappa", "f1", "roc_auc"])
@pytest.mark.parametrize("runs", [1, 2])
def test_permutation_over_trials_by_trying_all_swaps(metric: str, runs: int) -> None:
    rng = np.random.default_rng(runs)
    y = rng.permutation(np.arange(18) % 3)
    unit = np.arange(18) // 3 * 5  # of three trials each, of several classes
    p = rng.dirichlet(np.ones(3), (2, runs, 18)) + [[[[0]]], [[[0.4]]]] * np.eye(3)[y]
    p[0] = np.round(p[0], 1)  # with ties
    a, b = p / p.sum(-1, keepdims=True)
    found = trial_permutation(metric, y, a, b, unit)
    observed, wanted = by_trying_all_swaps(metric, y, a, b, unit)
    assert (found.n, found.test) == (6, "trial_permutation")
    assert found.mean_difference == pytest.approx(observed)
    assert found.p_value == pytest.approx(wanted)
    back = trial_permutation(metric, y, b, a, unit)
    assert (back.mean_difference, back.p_value) == pytest.approx((-observed, wanted))


@pytest.mark.parametrize("metric", ["balanced_accuracy", "roc_auc"])
def test_permutation_over_trials_keeps_its_level(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equally good methods of different scales; groups of four trials that say the same."""
    monkeypatch.setattr("spdtokens.evaluation.statistics.RANDOM_FLIPS", 500)
    rng = np.random.default_rng(0)
    unit, n, sets = np.repeat(np.arange(40), 4), 160, 400
    by_unit = by_trial = 0
    for _ in range(sets):
        y = np.repeat(rng.random(40) < 0.4, 4).astype(int)
        noise = np.repeat(rng.standard_normal((2, 40)), 4, axis=1) + rng.normal(0, 0.2, (2, n))
        one, other = 1 / (1 + np.exp(-(noise + y - 0.5) * [[8], [0.1]]))
        a, b = columns(one), columns(other)
        by_unit += trial_permutation(metric, y, a, b, unit).p_value < 0.05
        by_trial += trial_permutation(metric, y, a, b, np.arange(n)).p_value < 0.05
    # Within three standard errors of 400 draws; as if all were independent, far too often.
    assert 0.017 < by_unit / sets < 0.083
    assert by_trial / sets > 0.2


def test_permutation_over_trials_says_why_it_cannot_be_done() -> None:
    y, p = np.array([0, 1, 0, 1]), columns(np.array([0.1, 0.8, 0.3, 0.4]))
    one = trial_permutation("accuracy", y, p, p, np.zeros(4))
    assert np.isnan(one.p_value)
    assert one.why_not
    missing = trial_permutation("roc_auc", np.zeros(4, int), p, p, np.arange(4))
    assert np.isnan(missing.p_value)
    assert missing.why_not
    assert trial_permutation("f1", y, p, p, np.arange(4)).p_value == 1
