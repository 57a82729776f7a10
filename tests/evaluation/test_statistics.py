from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gamma

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
    assert permutation(MAIZE, np.zeros(15), seed=1) != maize


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


@pytest.mark.parametrize("n", [5, 20, 50])
def test_wilcoxon_without_ties_is_that_of_scipy(n: int) -> None:
    a, b = np.random.default_rng(n).standard_normal((2, n)) + np.array([[0.3], [0]])
    ours, theirs = wilcoxon(a, b), stats.wilcoxon(a, b, method="exact")
    assert (ours.statistic, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))


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


def test_corrected_resampled_t_by_hand() -> None:
    # Differences 1, 2, 3, 4: mean 2.5, variance 5/3; 1/4 + 10/40 = 1/2.
    result = corrected_resampled_t([2, 4, 6, 8], [1, 2, 3, 4], n_train=40, n_test=10)
    assert result.statistic == pytest.approx(2.5 / np.sqrt(5 / 6))
    assert result.p_value == pytest.approx(2 * stats.t.sf(2.5 / np.sqrt(5 / 6), 3))
    assert result.p_value > paired_t([2, 4, 6, 8], [1, 2, 3, 4]).p_value


def test_corrected_resampled_t_keeps_its_level_where_the_plain_test_does_not() -> None:
    # Nadeau and Bengio's model: fold differences correlated by n_test / (n_test + n_train).
    rng = np.random.default_rng(0)
    k, rho = 10, 0.1
    shared = rng.standard_normal((2000, 1)) * np.sqrt(rho)
    d = shared + rng.standard_normal((2000, k)) * np.sqrt(1 - rho)
    zero = np.zeros(k)
    plain = np.mean([paired_t(row, zero).p_value < 0.05 for row in d])
    corrected = np.mean(
        [corrected_resampled_t(row, zero, n_train=90, n_test=10).p_value < 0.05 for row in d]
    )
    assert plain > 0.1
    assert corrected == pytest.approx(0.05, abs=0.015)


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


def test_effect_sizes() -> None:
    d = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    plain = effect_size(d, np.zeros(5), corrected=False)
    assert plain == pytest.approx(3 / np.sqrt(2.5))
    factor = gamma(2) / (np.sqrt(2) * gamma(1.5))
    assert factor == pytest.approx(1 - 3 / (4 * 4 - 1), abs=0.005)  # Hedges' approximation
    assert effect_size(d, np.zeros(5)) == pytest.approx(plain * factor)
    assert paired_t(d, np.zeros(5)).statistic == pytest.approx(plain * np.sqrt(5))
    assert np.isnan(effect_size(d[:2], np.zeros(2)))
    assert effect_size(d[:2], np.zeros(2), corrected=False) > 0


def test_corrected_effect_size_is_right_on_average() -> None:
    d = np.random.default_rng(0).standard_normal((20_000, 5)) + 0.8
    plain = np.mean([effect_size(row, np.zeros(5), corrected=False) for row in d])
    corrected = np.mean([effect_size(row, np.zeros(5)) for row in d])
    assert corrected == pytest.approx(0.8, abs=0.015)
    assert plain > 0.95


def test_holm_as_in_r() -> None:
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    with_gap = holm([0.01, np.nan, 0.04, 0.03, 0.005])
    assert with_gap == pytest.approx([0.03, np.nan, 0.06, 0.06, 0.02], nan_ok=True)
    assert holm([0.6, 0.9]) == pytest.approx([1, 1])
    assert len(holm([])) == 0
    assert np.isnan(holm([np.nan])).all()


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
    back = mcnemar(*reversed(trials(100, 12, 3, 29)))
    assert (back.p_value, back.effect) == pytest.approx((result.p_value, -0.3))
    assert mcnemar(*trials(5, 0, 0, 5)).p_value == 1
    assert mcnemar(*trials(5, 4, 4, 5)).p_value == 1
    # Agresti's approval ratings, chi-square 17.36: the exact p is near it with so many trials.
    chi = (150 - 86) ** 2 / (150 + 86)
    ratings = mcnemar(*trials(794, 150, 86, 570))
    assert chi == pytest.approx(17.36, abs=0.005)
    assert ratings.p_value == pytest.approx(stats.chi2.sf(chi, 1), rel=0.25)


def test_refusals() -> None:
    refused = [
        (lambda: compare([1, 2], [1, 2], "t"), "no test 't'.*paired_t"),
        (lambda: compare([1, 2], [1, 2, 3]), r"\(2,\) and \(3,\)"),
        (lambda: compare([[1, 2]], [[1, 2]]), "shape"),
        (lambda: compare([1, np.inf], [1, 2]), "finite"),
        (lambda: compare([1, 2], [1, 2], "corrected_resampled_t"), "needs n_train"),
        (lambda: corrected_resampled_t([1, 2], [1, 3], n_train=0, n_test=1), "from 1"),
        (lambda: holm([0.5, 1.2]), "0 to 1"),
        (lambda: mcnemar([1, 0], [True, False]), "bool"),
        (lambda: mcnemar([True], [True, False]), "same shape"),
    ]
    for call, message in refused:
        with pytest.raises(EvaluationError, match=message):
            call()
