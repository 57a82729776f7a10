"""Whether two methods differ: paired tests on their scores, or on the trials of one test set.

``a`` and ``b`` are the scores of two methods on the same subjects (or folds), shape (n,). Pairs in
which either is NaN are left out; ``n`` of the result is how many remain. Differences are ``a - b``
and tests are two-sided. With fewer than two pairs statistic, p-value and effect are NaN. Where all
differences are 0, p is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import gammaln
from scipy.stats import chi2, rankdata, studentized_range

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.metrics import checked, confusion, get_metric
from spdtokens.evaluation.protocols import look_up

NAN = float("nan")
#: Up to so many pairs all sign flips are tried; beyond, so many random ones, some at a time.
ALL_FLIPS, RANDOM_FLIPS, FLIPS_AT_ONCE = 14, 10_000, 1000
#: Up to so many pairs Wilcoxon's distribution is computed exactly, in less than a second.
EXACT_RANKS = 500
#: Level of Friedman's test and of the critical difference.
ALPHA = 0.05
#: From which pairs or units are swapped (m, n), 0 or 1, to the differences then (m,).
Swapped = Callable[[NDArray[Any]], NDArray[np.float64]]


@dataclass(frozen=True)
class Comparison:
    """Two methods compared.

    Attributes
    ----------
    test : str
        A key of :data:`TESTS`, ``'mcnemar'`` or ``'trial_permutation'``.
    n : int
        Pairs; trials for McNemar, independent units of trials for the permutation test over trials.
    mean_difference : float
        Of ``a - b``; NaN without a pair.
    statistic, p_value : float
    effect : float
        Hedges' g of the differences (:func:`effect_size`); Cohen's g for McNemar; NaN for the
        permutation test over trials.
    why_not : str
        Why there is no p-value; empty where there is one.
    """

    test: str
    n: int
    mean_difference: float
    statistic: float
    p_value: float
    effect: float
    why_not: str = ""


def paired_t(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Student's t test of the differences.

    If all differences are the same but not 0, the statistic is infinite and p is NaN: a spread of
    nothing, often from rounded scores of few subjects, would claim certainty.
    """
    return _t("paired_t", a, b, 0.0)


def corrected_resampled_t(
    a: ArrayLike, b: ArrayLike, *, n_train: int = 0, n_test: int = 0
) -> Comparison:
    """Student's t test for the folds or resamples of one data set, whose training sets overlap.

    The variance of the mean is taken as (1 / k + n_test / n_train) times that of the k differences.
    As for :func:`paired_t`, p is NaN if all differences are the same but not 0.

    Parameters
    ----------
    a, b : array, shape (k,)
    n_train, n_test : int
        Trials of a fold.

    References
    ----------
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52 (2003).
    """
    if n_train < 1 or n_test < 1:
        raise EvaluationError(
            "corrected_resampled_t needs n_train and n_test, the trials of a fold, both >= 1; got "
            f"{n_train} and {n_test}."
        )
    return _t("corrected_resampled_t", a, b, n_test / n_train)


def wilcoxon(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Wilcoxon's signed-rank test; the statistic is the smaller of the two sums of ranks.

    Differences of 0 are left out, as Wilcoxon did, and ties share their mean rank. Exact, also
    with ties, up to 500 pairs; then the normal approximation.

    References
    ----------
    Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945).
    """
    d = _differences(a, b)
    if len(d) < 2:
        return _result("wilcoxon", d, NAN, NAN)
    moved = d[d != 0]
    ranks = rankdata(np.abs(moved))
    smaller = float(min(ranks[moved > 0].sum(), ranks[moved < 0].sum()))
    if len(moved) > EXACT_RANKS:
        p = float(stats.wilcoxon(moved, method="approx").pvalue)
        return _result("wilcoxon", d, smaller, p)
    # SciPy's is not exact with ties. Each rank counts as positive with probability one half.
    chances = np.ones(1)
    for rank in np.rint(2 * ranks).astype(int):  # mean ranks are halves
        zeros = np.zeros(rank)
        chances = (np.append(chances, zeros) + np.append(zeros, chances)) / 2
    p = min(1.0, 2 * float(chances[: round(2 * smaller) + 1].sum()))
    return _result("wilcoxon", d, smaller, p)


def permutation(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Sign-flip test: how often swapping the methods in some pairs moves the mean as far from 0.

    All swaps are tried up to 14 pairs. Beyond, 10,000 random ones, and the observed one is counted
    among them, so p is never 0 and the test keeps its level. The statistic is the mean difference.

    References
    ----------
    Phipson and Smyth, Permutation p-values should never be zero, Statistical Applications in
    Genetics and Molecular Biology 9 (2010).
    """
    d = _differences(a, b)
    if len(d) < 2:
        return _result("permutation", d, NAN, NAN)
    p = flipped_p(lambda flips: d.sum() - 2 * (flips @ d), len(d), float(np.abs(d).sum()))
    return _result("permutation", d, float(d.mean()), p)


def mcnemar(correct_a: ArrayLike, correct_b: ArrayLike) -> Comparison:
    """McNemar's exact test on the trials of one test set.

    For data with one subject and one test session. Only trials that one method got right and the
    other wrong tell them apart; each is a fair coin if the methods are equally good. It speaks of
    these two trained models and this session, not of methods over subjects.

    Parameters
    ----------
    correct_a, correct_b : array of bool, shape (n,)
        Whether each method got each trial right.

    Returns
    -------
    Comparison
        The statistic is the number of trials that only ``a`` got right; the effect is Cohen's g,
        that number's share of the trials that differ, less one half (0 if none differ).

    References
    ----------
    McNemar, Note on the sampling error of the difference between correlated proportions or
    percentages, Psychometrika 12 (1947).
    """
    x, y = np.asarray(correct_a), np.asarray(correct_b)
    if x.dtype != bool or y.dtype != bool or x.ndim != 1 or x.shape != y.shape or not len(x):
        raise EvaluationError(
            "McNemar's test needs one bool a trial and method, right or wrong, two arrays of the "
            f"same shape (n,); got {x.dtype} {x.shape} and {y.dtype} {y.shape}."
        )
    only_a, only_b = int((x & ~y).sum()), int((y & ~x).sum())
    differ = only_a + only_b
    p = float(stats.binomtest(only_a, differ).pvalue) if differ else 1.0
    effect = only_a / differ - 0.5 if differ else 0.0
    return Comparison("mcnemar", len(x), (only_a - only_b) / len(x), float(only_a), p, effect)


def effect_size(a: ArrayLike, b: ArrayLike) -> float:
    """Hedges' g: mean difference in standard deviations of the differences, corrected for few.

    Cohen's d_z is too large on average with few pairs (by a tenth with 9), which Hedges' factor
    corrects.

    Parameters
    ----------
    a, b : array, shape (n,)

    Returns
    -------
    float
        0 if all differences are 0. NaN if they are the same but not 0, or with fewer than 3 pairs.

    References
    ----------
    Hedges, Distribution theory for Glass's estimator of effect size and related estimators,
    Journal of Educational Statistics 6 (1981).
    """
    return _effect(_differences(a, b))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """P-values adjusted for their number, so that one in 20 families has a false one below 0.05.

    Parameters
    ----------
    p_values : array, shape (n,)
        NaN where no test was possible; it stays NaN and is not counted.

    Returns
    -------
    array, shape (n,)

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6 (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or (p < 0).any() or (p > 1).any():
        raise EvaluationError(f"P-values must be an array (n,) of numbers from 0 to 1, not {p}.")
    adjusted = np.full_like(p, np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN sorts last
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


#: Tests on paired scores, by name.
TESTS: dict[str, Callable[..., Comparison]] = {
    "paired_t": paired_t,
    "wilcoxon": wilcoxon,
    "permutation": permutation,
    "corrected_resampled_t": corrected_resampled_t,
}


def compare(a: ArrayLike, b: ArrayLike, test: str = "paired_t", **options: Any) -> Comparison:
    """Two methods' scores by a test of :data:`TESTS`.

    Parameters
    ----------
    a, b : array, shape (n,)
    test : str
    **options
        Of the test: ``n_train`` and ``n_test`` of ``'corrected_resampled_t'``.
    """
    return look_up("test", test, TESTS)(a, b, **options)


def _differences(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Differences of complete pairs, shape (n,)."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or np.isinf(x).any() or np.isinf(y).any():
        raise EvaluationError(
            "Paired scores must be two arrays of the same shape (n,), finite or NaN where there is "
            f"none, got shapes {x.shape} and {y.shape}. Keep the subjects that both methods have."
        )
    kept = ~(np.isnan(x) | np.isnan(y))
    x, y = x[kept], y[kept]
    # 0.8 - 0.7 and 0.6 - 0.5 are a tie, though not in floating point.
    scale = max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)) or 1.0
    return np.round((x - y) / scale, 12) * scale


def _t(test: str, a: ArrayLike, b: ArrayLike, overlap: float) -> Comparison:
    """The variance of the mean is ``1 / n + overlap`` times that of the n differences."""
    d = _differences(a, b)
    if len(d) < 2:
        return _result(test, d, NAN, NAN)
    if np.ptp(d) == 0:
        same = (float(np.copysign(np.inf, d[0])), NAN) if d.any() else (0.0, 1.0)
        return _result(test, d, *same)
    t = float(d.mean() / np.sqrt((1 / len(d) + overlap) * d.var(ddof=1)))
    return _result(test, d, t, float(2 * stats.t.sf(abs(t), len(d) - 1)))


def flipped_p(swapped: Swapped, n: int, size: float) -> float:
    """P-value: how often flips (m, n) of 0 and 1 move a difference as far from 0 as none does."""
    # Sums round differently.
    least = abs(float(swapped(np.zeros((1, n)))[0])) - 1e-9 * size
    rng = np.random.default_rng(0)
    total = 2**n if n <= ALL_FLIPS else RANDOM_FLIPS
    far = 0
    for first in range(0, total, FLIPS_AT_ONCE):
        m = min(FLIPS_AT_ONCE, total - first)
        if n <= ALL_FLIPS:
            flips = np.arange(first, first + m)[:, None] >> np.arange(n) & 1
        else:
            flips = rng.integers(0, 2, (m, n))
        far += int((np.abs(swapped(flips)) >= least).sum())
    return far / total if n <= ALL_FLIPS else (1 + far) / (1 + total)


def _effect(d: NDArray[np.float64]) -> float:
    if len(d) < 3:
        return NAN
    if np.ptp(d) == 0:
        return NAN if d.any() else 0.0
    free = len(d) - 1
    factor = float(np.exp(gammaln(free / 2) - gammaln((free - 1) / 2)) / np.sqrt(free / 2))
    return float(d.mean() / d.std(ddof=1)) * factor


def _result(test: str, d: NDArray[np.float64], statistic: float, p: float) -> Comparison:
    mean = float(d.mean()) if len(d) else NAN
    why = ""
    if np.isnan(p):
        why = "all differences are the same" if len(d) > 1 else "there are fewer than two pairs"
    return Comparison(test, len(d), mean, statistic, p, _effect(d), why)


# Many methods on many data sets or subjects: average ranks, and which of them differ.
#
# References
# ----------
# Demsar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine
# Learning Research 7 (2006).


@dataclass(frozen=True)
class Ranking:
    """Methods from best to worst.

    Attributes
    ----------
    names : tuple of str
    ranks : tuple of float
        Average over data sets; 1 is best, ties share.
    n : int
        Data sets or subjects.
    p_value : float
        Of Friedman's test that all methods are alike.
    critical_difference : float
        Average ranks that differ by less are not told apart (Nemenyi).
    groups : tuple of (int, int)
        First and last place of each largest run of methods that are not told apart; runs of one
        are left out. If Friedman's test finds nothing there is one of all, since Demsar looks at
        pairs only after it does.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    n: int
    p_value: float
    critical_difference: float
    groups: tuple[tuple[int, int], ...]


def rank_methods(scores: Mapping[str, ArrayLike]) -> Ranking:
    """Rank methods by their scores, higher being better.

    Parameters
    ----------
    scores : mapping of str to array, shape (n,)
        Of each method, on the same data sets or subjects in the same order.
    """
    table = score_table(scores)
    k, n = table.shape
    # Rounded, so that scores equal but for floating point are ties.
    places = rankdata(-np.round(table / (np.abs(table).max() or 1.0), 12), axis=0)
    average = places.mean(1)
    order = np.argsort(average, kind="stable")
    ranks = tuple(float(rank) for rank in average[order])
    # Friedman's chi-square, corrected for ties. SciPy's needs three methods, and one not tied.
    middle = (k + 1) / 2
    spread = ((places - middle) ** 2).sum()
    statistic = (k - 1) * n**2 * ((average - middle) ** 2).sum() / (spread or 1.0)
    p = float(chi2.sf(statistic, k - 1))
    # Nemenyi's; Demsar's q is the studentized range with infinite degrees of freedom, over sqrt(2).
    q = studentized_range.isf(ALPHA, k, np.inf) / np.sqrt(2)
    gap = float(q * np.sqrt(k * (k + 1) / (6 * n)))
    groups = _groups(ranks, gap) if p < ALPHA else ((0, k - 1),)
    names = list(scores)
    return Ranking(tuple(names[i] for i in order), ranks, n, p, gap, groups)


def score_table(scores: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Scores as an array (methods, n).

    Raises
    ------
    EvaluationError
        Naming the method whose scores do not fit the others'.
    """
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in scores.items()}
    if len(rows) < 2:
        raise EvaluationError(f"There must be 2 or more methods to compare, got {len(rows)}.")
    n = max(row.size for row in rows.values())
    for name, row in rows.items():
        if row.shape != (n,) or n < 2 or not np.isfinite(row).all():
            raise EvaluationError(
                f"Scores of {name!r} must be {max(n, 2)} finite numbers, one per data set or "
                f"subject as for the other methods, got {row}. Leave the method out, or for all "
                "methods what it has no score of."
            )
    return np.stack(list(rows.values()))


def _groups(ranks: tuple[float, ...], gap: float) -> tuple[tuple[int, int], ...]:
    """Largest runs of sorted ranks within ``gap``, none inside another."""
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(i for i, other in enumerate(ranks) if other - rank < gap)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return tuple(found)


# Whether two methods differ on one test set, by any metric, over independent units of trials.


def trial_permutation(
    metric: str, y: ArrayLike, a: ArrayLike, b: ArrayLike, unit: ArrayLike
) -> Comparison:
    """Paired permutation test of a metric of one test set.

    If the methods are equally good, it does not matter whose predictions are whose. Those of all
    trials of a unit are swapped together, with probability one half, and the difference of the
    metric is computed again: all swaps up to 14 units, else 10,000 random ones, among which the
    observed one is counted. For accuracy with one run and one trial per unit, this is McNemar's
    test. Like it, it speaks of these trained models and this test set, not of other subjects.

    For ROC AUC, the probabilities of each method are replaced by their ranks first, so that only
    their order matters and methods of different scales can be swapped (Bandos et al.).

    Parameters
    ----------
    metric : str
        A key of :data:`~spdtokens.evaluation.metrics.METRICS`.
    y : array of int, shape (n,)
    a, b : array, shape (runs, n, classes)
        Probabilities by each run of the two methods. The difference is that of the means over
        runs. A method may have more runs than the other.
    unit : array of int, shape (n,)
        Trials with the same number may depend on each other.

    Returns
    -------
    Comparison
        The statistic is the difference. p is NaN with fewer than 2 units, or where the metric is.

    References
    ----------
    Bandos, Rockette and Gur, A permutation test sensitive to differences in areas for comparing ROC
    curves from a paired design, Statistics in Medicine 24 (2005).
    Phipson and Smyth, Permutation p-values should never be zero, Statistical Applications in
    Genetics and Molecular Biology 9 (2010).
    """
    codes = np.asarray(y)
    of = np.unique(unit, return_inverse=True)[1]
    n, runs, others = int(of.max()) + 1, list(np.asarray(a)), list(np.asarray(b))
    # Every run of the one with runs of the other, each equally often.
    pairs = [
        (runs[i % len(runs)], others[i % len(others)]) for i in range(lcm(len(runs), len(others)))
    ]
    score = get_metric(metric).of_counts
    differences = [
        _areas_swapped(codes, one, other, of)
        if score is None
        else _counts_swapped(score, codes, one, other, of)
        for one, other in pairs
    ]

    def swapped(flips: NDArray[Any]) -> NDArray[np.float64]:
        return np.mean([difference(flips) for difference in differences], axis=0)

    observed = float(swapped(np.zeros((1, n)))[0])
    p, why = NAN, ""
    if not np.isfinite(observed):
        why = "the score is not defined for this test set"
    elif n < 2:
        why = "all test trials depend on each other"
    else:
        p = flipped_p(swapped, n, 1.0)
    return Comparison("trial_permutation", n, observed, observed, p, NAN, why)


def _counts_swapped(
    score: Callable[[NDArray[Any]], NDArray[np.float64]],
    y: NDArray[Any],
    a: NDArray[Any],
    b: NDArray[Any],
    of: NDArray[np.int64],
) -> Swapped:
    """Differences of a score of confusion matrices, from which units are swapped (m, units)."""
    k = a.shape[1]
    one, other = confusion(y, a).ravel(), confusion(y, b).ravel()
    moved = np.zeros((int(of.max()) + 1, k * k))
    np.add.at(moved, (of, y * k + a.argmax(1)), 1)
    np.add.at(moved, (of, y * k + b.argmax(1)), -1)

    def difference(flips: NDArray[Any]) -> NDArray[np.float64]:
        change = np.rint(flips @ moved).astype(np.int64)
        pair = [counts.reshape(-1, k, k) for counts in (one - change, other + change)]
        return score(pair[0]) - score(pair[1])

    return difference


def _areas_swapped(
    y: NDArray[Any], a: NDArray[Any], b: NDArray[Any], of: NDArray[np.int64]
) -> Swapped:
    """The same of the area under the ROC curve of ranks.

    An area is a sum over pairs of a positive and a negative trial, and a pair has four states: both
    as they are, both swapped, one of them swapped. Written with a sign for each trial, what a pair
    adds to the difference of the areas has no product of the two signs. So the difference is a sum
    over trials: the share of all trials of the other kind, by either method, that are on the right
    side of the trial's rank by one method, less the same by the other method.
    """
    codes, p = checked(y, a)
    _, q = checked(y, b)
    columns = [1] if p.shape[1] == 2 else range(p.shape[1])
    shares = np.zeros((len(columns), len(codes)))
    for row, k in zip(shares, columns, strict=True):
        ranks, positive = np.stack([rankdata(p[:, k]), rankdata(q[:, k])]), codes == k
        for these, sign in ((positive, 1), (~positive, -1)):
            rest = np.sort(ranks[:, ~these], axis=None)
            if not len(rest) or not these.any():
                row[:] = NAN
                continue
            sides = [np.searchsorted(rest, ranks[:, these], side) for side in ("left", "right")]
            above = np.mean(sides, axis=0) / len(rest)  # ties count half
            row[these] = sign * (above[0] - above[1]) / these.sum()
    weights = np.bincount(of, shares.mean(0))
    return lambda flips: weights.sum() - 2 * (flips @ weights)
