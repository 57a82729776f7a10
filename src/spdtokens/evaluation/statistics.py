"""Compare two methods: paired tests on their scores, or on the trials of one test set.

``a`` and ``b`` are the scores of two methods on the same subjects (or folds), shape (n,). Pairs in
which either score is NaN are dropped; ``n`` of the result is the number of remaining pairs.
Differences are ``a - b`` and tests are two-sided. With fewer than two pairs, the statistic, p-value
and effect are NaN. If all differences are 0, p is 1.
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
#: Number of pairs up to which all sign flips are used; number of random flips above; chunk size.
ALL_FLIPS, RANDOM_FLIPS, FLIPS_AT_ONCE = 14, 10_000, 1000
#: Number of pairs up to which Wilcoxon's distribution is exact (takes less than a second).
EXACT_RANKS = 500
#: Significance level of Friedman's test and of the critical difference.
ALPHA = 0.05
#: Maps flips (m, n), 1 where a pair or unit is swapped, to the resulting differences (m,).
Swapped = Callable[[NDArray[Any]], NDArray[np.float64]]


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two methods.

    Parameters
    ----------
    test : str
        Name of the test: ``'paired_t'``, ``'wilcoxon'``, ``'permutation'``,
        ``'corrected_resampled_t'``, ``'mcnemar'`` or ``'trial_permutation'``.
    n : int
        Number of pairs of scores; of trials for McNemar's test; of independent units of trials for
        the permutation test over trials.
    mean_difference : float
        Mean of ``a - b``; NaN without pairs.
    statistic : float
        Test statistic.
    p_value : float
        Two-sided p-value; NaN if the test is not possible.
    effect : float
        Hedges' g of the differences; Cohen's g for McNemar's test; NaN for the permutation test
        over trials.
    why_not : str, default=''
        Why there is no p-value; empty if there is one.

    See Also
    --------
    compare : Test paired scores.
    mcnemar : Test the trials of one test set.

    Examples
    --------
    >>> from spdtokens.evaluation.statistics import compare
    >>> found = compare([0.8, 0.7, 0.9], [0.7, 0.65, 0.75], "permutation")
    >>> found.n, round(found.mean_difference, 3), found.p_value
    (3, 0.1, 0.25)
    >>> compare([0.8], [0.7]).why_not
    'there are fewer than two pairs'
    """

    test: str
    n: int
    mean_difference: float
    statistic: float
    p_value: float
    effect: float
    why_not: str = ""


def paired_t(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Student's paired t-test.

    If all differences are equal but not 0, the statistic is infinite and p is NaN: no spread, often
    due to rounded scores of few subjects, must not be taken for certainty.
    """
    return _t("paired_t", a, b, 0.0)


def corrected_resampled_t(
    a: ArrayLike, b: ArrayLike, *, n_train: int = 0, n_test: int = 0
) -> Comparison:
    """Corrected resampled t-test for the folds of one data set, whose training sets overlap.

    The variance of the mean is (1 / k + n_test / n_train) times that of the k differences. As for
    :func:`paired_t`, p is NaN if all differences are equal but not 0.

    Parameters
    ----------
    a, b : array_like, shape (k,)
        Scores of the folds.
    n_train, n_test : int
        Number of training and test trials per fold.

    References
    ----------
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52 (2003).
    https://doi.org/10.1023/A:1024068626366
    """
    if n_train < 1 or n_test < 1:
        raise EvaluationError(
            "n_train and n_test must be >= 1 (trials per fold) for corrected_resampled_t, got "
            f"{n_train} and {n_test}."
        )
    return _t("corrected_resampled_t", a, b, n_test / n_train)


def wilcoxon(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Wilcoxon's signed-rank test; the statistic is the smaller of the two rank sums.

    Differences of 0 are dropped, as by Wilcoxon, and ties share their mean rank. The distribution
    is exact, with ties too, up to 500 pairs; above, the normal approximation is used.

    References
    ----------
    Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945).
    https://doi.org/10.2307/3001968
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
    # SciPy's test is not exact with ties. Each rank is positive with probability 1/2.
    chances = np.ones(1)
    for rank in np.rint(2 * ranks).astype(int):  # mean ranks are halves
        zeros = np.zeros(rank)
        chances = (np.append(chances, zeros) + np.append(zeros, chances)) / 2
    p = min(1.0, 2 * float(chances[: round(2 * smaller) + 1].sum()))
    return _result("wilcoxon", d, smaller, p)


def permutation(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Sign-flip permutation test of the mean difference.

    All flips are used up to 14 pairs. Above, 10,000 random flips are drawn, and the observed data
    count as one of them, so that p is never 0 and the test keeps its level.

    References
    ----------
    Phipson and Smyth, Permutation p-values should never be zero: calculating exact p-values when
    permutations are randomly drawn, Statistical Applications in Genetics and Molecular Biology 9
    (2010). https://doi.org/10.2202/1544-6115.1585
    """
    d = _differences(a, b)
    if len(d) < 2:
        return _result("permutation", d, NAN, NAN)
    p = flipped_p(lambda flips: d.sum() - 2 * (flips @ d), len(d), float(np.abs(d).sum()))
    return _result("permutation", d, float(d.mean()), p)


def mcnemar(correct_a: ArrayLike, correct_b: ArrayLike) -> Comparison:
    """Apply McNemar's exact test to the trials of one test set.

    Suited to one subject and one test session. Only trials that exactly one method classified
    correctly are informative; under the null hypothesis either method is correct with probability
    1/2. The test compares two trained models on this session, not two methods over subjects.

    Parameters
    ----------
    correct_a, correct_b : array_like of bool, shape (n,)
        Whether each method classified each trial correctly.

    Returns
    -------
    Comparison
        The statistic is the number of trials that only ``a`` classified correctly. The effect is
        Cohen's g: its fraction of the trials that differ, minus 1/2 (0 if none differ).

    Raises
    ------
    EvaluationError
        If the arrays are not boolean, not one-dimensional, of different shapes, or empty.

    See Also
    --------
    trial_permutation : For other metrics, several runs, or dependent trials.

    References
    ----------
    McNemar, Note on the sampling error of the difference between correlated proportions or
    percentages, Psychometrika 12 (1947). https://doi.org/10.1007/BF02295996

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.statistics import mcnemar
    >>> a = np.array([True] * 9 + [False] * 3)
    >>> b = np.array([True] * 4 + [False] * 8)
    >>> mcnemar(a, b).p_value
    0.0625
    """
    x, y = np.asarray(correct_a), np.asarray(correct_b)
    if x.dtype != bool or y.dtype != bool or x.ndim != 1 or x.shape != y.shape or not len(x):
        raise EvaluationError(
            "correct_a and correct_b must be boolean arrays of the same shape (n,), n >= 1, got "
            f"{x.dtype} {x.shape} and {y.dtype} {y.shape}."
        )
    only_a, only_b = int((x & ~y).sum()), int((y & ~x).sum())
    differ = only_a + only_b
    p = float(stats.binomtest(only_a, differ).pvalue) if differ else 1.0
    effect = only_a / differ - 0.5 if differ else 0.0
    return Comparison("mcnemar", len(x), (only_a - only_b) / len(x), float(only_a), p, effect)


def effect_size(a: ArrayLike, b: ArrayLike) -> float:
    """Hedges' g: mean difference divided by the standard deviation of the differences, corrected.

    Cohen's d_z is biased upwards for few pairs (by a tenth for 9 pairs); Hedges' factor corrects
    it. The result is 0 if all differences are 0, and NaN if they are equal but not 0, or with fewer
    than 3 pairs.

    References
    ----------
    Hedges, Distribution theory for Glass's estimator of effect size and related estimators,
    Journal of Educational Statistics 6 (1981). https://doi.org/10.3102/10769986006002107
    """
    return _effect(_differences(a, b))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for multiple comparisons by Holm's step-down procedure.

    Parameters
    ----------
    p_values : array_like, shape (n,)
        P-values. NaN where no test was possible: it stays NaN and is not counted.

    Returns
    -------
    ndarray, shape (n,)
        Adjusted p-values, in the same order.

    Raises
    ------
    EvaluationError
        If a p-value is not between 0 and 1.

    See Also
    --------
    compare : Compute a p-value.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6 (1979). https://www.jstor.org/stable/4615733

    Examples
    --------
    >>> from spdtokens.evaluation.statistics import holm
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or (p < 0).any() or (p > 1).any():
        raise EvaluationError(f"p_values must be an array (n,) of numbers from 0 to 1, got {p}.")
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
    """Compare the paired scores of two methods.

    Parameters
    ----------
    a, b : array_like, shape (n,)
        Scores of the two methods on the same subjects or folds. Pairs with a NaN are dropped.
    test : {'paired_t', 'wilcoxon', 'permutation', 'corrected_resampled_t'}, default='paired_t'
        Student's paired t-test, Wilcoxon's signed-rank test, a sign-flip permutation test, or the
        t-test corrected for overlapping training sets (Nadeau and Bengio).
    **options : int
        ``n_train`` and ``n_test``, the trials per fold, for ``'corrected_resampled_t'``.

    Returns
    -------
    Comparison
        Difference ``a - b``, statistic, p-value and effect size.

    Raises
    ------
    EvaluationError
        If the test is unknown, or the scores have different shapes or are infinite.

    See Also
    --------
    holm : Correct for the number of comparisons.
    mcnemar : Compare on the trials of one test set.

    Examples
    --------
    >>> from spdtokens.evaluation.statistics import compare
    >>> found = compare([0.81, 0.72, 0.90, 0.66], [0.78, 0.70, 0.84, 0.65])
    >>> round(found.p_value, 3)
    0.069
    """
    return look_up("test", test, TESTS)(a, b, **options)


def _differences(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Differences of the complete pairs, shape (n,)."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or np.isinf(x).any() or np.isinf(y).any():
        raise EvaluationError(
            "Scores must be two arrays of the same shape (n,) without infinities, got shapes "
            f"{x.shape} and {y.shape}. Keep only the subjects that both methods have."
        )
    kept = ~(np.isnan(x) | np.isnan(y))
    x, y = x[kept], y[kept]
    # 0.8 - 0.7 and 0.6 - 0.5 are tied, but not in floating point.
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
    """P-value: share of flips (m, n) with a difference at least as large as without flips."""
    # Sums are rounded differently.
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
        why = "all differences are equal" if len(d) > 1 else "there are fewer than two pairs"
    return Comparison(test, len(d), mean, statistic, p, _effect(d), why)


# Average ranks of many methods: Demsar, Statistical comparisons of classifiers over multiple data
# sets, Journal of Machine Learning Research 7 (2006).


@dataclass(frozen=True)
class Ranking:
    """Methods from best to worst.

    Attributes
    ----------
    names : tuple of str
    ranks : tuple of float
        Average over data sets; 1 is best, ties share their mean rank.
    n : int
        Number of data sets or subjects.
    p_value : float
        Of Friedman's test of equal methods.
    critical_difference : float
        Average ranks that differ by less are not significantly different (Nemenyi).
    groups : tuple of (int, int)
        First and last place of each maximal group of methods that do not differ significantly;
        single methods are left out. One group of all if Friedman's test is not significant.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    n: int
    p_value: float
    critical_difference: float
    groups: tuple[tuple[int, int], ...]


def rank_methods(scores: Mapping[str, ArrayLike]) -> Ranking:
    """Rank methods by their scores; higher is better.

    Parameters
    ----------
    scores : mapping of str to array_like, shape (n,)
        Scores of each method on the same data sets or subjects, in the same order.
    """
    table = score_table(scores)
    k, n = table.shape
    # Rounded, so that scores that differ by floating-point error only are tied.
    places = rankdata(-np.round(table / (np.abs(table).max() or 1.0), 12), axis=0)
    average = places.mean(1)
    order = np.argsort(average, kind="stable")
    ranks = tuple(float(rank) for rank in average[order])
    # Friedman's chi-square, corrected for ties. SciPy's needs 3 methods that are not all tied.
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
    """Return scores as an array (n_methods, n); the error names the method that does not fit."""
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in scores.items()}
    if len(rows) < 2:
        raise EvaluationError(f"scores must have 2 or more methods to compare, got {len(rows)}.")
    n = max(row.size for row in rows.values())
    for name, row in rows.items():
        if row.shape != (n,) or n < 2 or not np.isfinite(row).all():
            raise EvaluationError(
                f"Scores of {name!r} must be {max(n, 2)} finite numbers, one per data set or "
                f"subject, got {row}. Leave out the method, or the data sets without its score."
            )
    return np.stack(list(rows.values()))


def _groups(ranks: tuple[float, ...], gap: float) -> tuple[tuple[int, int], ...]:
    """Maximal runs of sorted ranks within ``gap``."""
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(i for i, other in enumerate(ranks) if other - rank < gap)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return tuple(found)


def trial_permutation(
    metric: str, y: ArrayLike, a: ArrayLike, b: ArrayLike, unit: ArrayLike
) -> Comparison:
    """Apply a paired permutation test of a metric to one test set.

    The predictions of all trials of a unit are swapped between the methods together, with
    probability 1/2, and the difference of the metric is computed again. All swaps are used up to 14
    units; above, 10,000 random swaps, among which the observed data are counted [1]_. For accuracy
    with one run and one trial per unit, this is McNemar's test. Like it, it compares these trained
    models on this test set.

    For ROC AUC, the probabilities of each method are replaced by their ranks first, so that only
    their order matters [2]_.

    Parameters
    ----------
    metric : str
        Name of a metric, such as ``'accuracy'`` or ``'roc_auc'``.
    y : array_like of int, shape (n,)
        True classes, from 0.
    a, b : array_like, shape (n_runs, n, n_classes)
        Probabilities by each run of the two methods, which may differ in the number of runs. The
        difference is that of the means over runs.
    unit : array_like of int, shape (n,)
        The same number for trials that may depend on each other.

    Returns
    -------
    Comparison
        The statistic is the difference. p is NaN with fewer than 2 units, or if the metric is NaN.

    See Also
    --------
    mcnemar : The exact test for accuracy.

    References
    ----------
    .. [1] Phipson and Smyth, Permutation p-values should never be zero: calculating exact p-values
       when permutations are randomly drawn, Statistical Applications in Genetics and Molecular
       Biology 9 (2010). https://doi.org/10.2202/1544-6115.1585
    .. [2] Bandos, Rockette and Gur, A permutation test sensitive to differences in areas for
       comparing ROC curves from a paired design, Statistics in Medicine 24 (2005).
       https://doi.org/10.1002/sim.2149

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.statistics import trial_permutation
    >>> y = np.arange(8) % 2
    >>> perfect, wrong = np.eye(2)[y][None], np.eye(2)[1 - y][None]
    >>> trial_permutation("accuracy", y, perfect, wrong, np.arange(8)).p_value
    0.0078125
    """
    codes = np.asarray(y)
    of = np.unique(unit, return_inverse=True)[1]
    n, runs, others = int(of.max()) + 1, list(np.asarray(a)), list(np.asarray(b))
    # Pair the runs of both methods, each used equally often.
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
        why = "the metric is not defined for this test set"
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
    """Differences of a metric of confusion matrices, as a function of flips (m, n_units)."""
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
    """Differences of the ROC AUC of ranks, as a function of flips (m, n_units).

    The area is a sum over pairs of a positive and a negative trial. Written with a sign per trial,
    the contribution of a pair to the difference of the areas has no product of the two signs. So
    the difference is a sum over trials: the fraction of all trials of the other class, by either
    method, on the correct side of the trial's rank by one method, minus the same by the other.
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
