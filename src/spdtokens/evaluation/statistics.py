"""Whether two methods differ: paired tests on their scores, or on the trials of one test set.

``a`` and ``b`` are the scores of two methods on the same subjects (or folds), shape (n,). Pairs in
which either is NaN are left out; ``n`` of the result is how many remain. Differences are ``a - b``
and tests are two-sided. With fewer than two pairs statistic, p-value and effect are NaN. Where all
differences are 0, p is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import gammaln

from spdtokens.evaluation.errors import EvaluationError

NAN = float("nan")
#: Up to so many pairs all sign flips are tried; beyond, so many random ones, some at a time.
ALL_FLIPS, RANDOM_FLIPS, FLIPS_AT_ONCE = 14, 10_000, 1000
#: Up to so many pairs Wilcoxon's distribution is computed exactly, in less than a second.
EXACT_RANKS = 500
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
    d = _differences(a, b)
    return _result("paired_t", d, *_t(d, 1 / max(len(d), 1)))


def corrected_resampled_t(a: ArrayLike, b: ArrayLike, *, n_train: int, n_test: int) -> Comparison:
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
            f"n_train and n_test must be numbers of trials from 1, not {n_train} and {n_test}."
        )
    d = _differences(a, b)
    return _result("corrected_resampled_t", d, *_t(d, 1 / max(len(d), 1) + n_test / n_train))


def wilcoxon(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Wilcoxon's signed-rank test; the statistic is the smaller of the two sums of ranks.

    Differences of 0 are left out, as Wilcoxon did, and ties share their mean rank. Exact, also
    with ties, up to 500 pairs; then the normal approximation.

    References
    ----------
    Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945).
    """
    d = _differences(a, b)
    moved = d[d != 0]
    if len(d) < 2:
        return _result("wilcoxon", d, NAN, NAN)
    if not len(moved):
        return _result("wilcoxon", d, 0.0, 1.0)
    ranks = stats.rankdata(np.abs(moved))
    smaller = float(min(ranks[moved > 0].sum(), ranks[moved < 0].sum()))
    if len(moved) > EXACT_RANKS:
        p = float(stats.wilcoxon(moved, method="approx").pvalue)
        return _result("wilcoxon", d, smaller, p)
    twice = np.rint(2 * ranks).astype(int)  # mean ranks are halves
    chances = np.zeros(twice.sum() + 1)
    chances[0] = 1.0
    for rank in twice:  # each rank counts as positive with probability one half
        shifted = np.zeros_like(chances)
        shifted[rank:] = chances[: len(chances) - rank]
        chances = (chances + shifted) / 2
    p = min(1.0, 2 * float(chances[: round(2 * smaller) + 1].sum()))
    return _result("wilcoxon", d, smaller, p)


def permutation(a: ArrayLike, b: ArrayLike, *, seed: int = 0) -> Comparison:
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
    p = flipped_p(lambda flips: d.sum() - 2 * (flips @ d), len(d), float(np.abs(d).sum()), seed)
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
    p = min(1.0, 2 * float(stats.binom.cdf(min(only_a, only_b), differ, 0.5)))
    effect = only_a / differ - 0.5 if differ else 0.0
    return Comparison("mcnemar", len(x), (only_a - only_b) / len(x), float(only_a), p, effect)


def effect_size(a: ArrayLike, b: ArrayLike, *, corrected: bool = True) -> float:
    """Mean difference in standard deviations of the differences (Cohen's d_z).

    Parameters
    ----------
    a, b : array, shape (n,)
    corrected : bool
        Times Hedges' factor, since d_z is too large on average with few pairs (by a tenth with 9).

    Returns
    -------
    float
        0 if all differences are 0. NaN if they are the same but not 0, or with fewer than 2 pairs
        (3 if corrected, as no factor corrects 2).

    References
    ----------
    Hedges, Distribution theory for Glass's estimator of effect size and related estimators,
    Journal of Educational Statistics 6 (1981).
    """
    return _effect(_differences(a, b), corrected)


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
        Of the test: ``seed``, or ``n_train`` and ``n_test``.
    """
    if test not in TESTS:
        raise EvaluationError(f"There is no test {test!r}. There are: {', '.join(TESTS)}.")
    if test == "corrected_resampled_t" and not {"n_train", "n_test"} <= options.keys():
        raise EvaluationError(
            "The test 'corrected_resampled_t' needs n_train and n_test, the trials of a fold."
        )
    return TESTS[test](a, b, **options)


def _differences(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Differences of complete pairs, shape (n,)."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise EvaluationError(
            f"Paired scores must be two arrays of the same shape (n,), not {x.shape} and "
            f"{y.shape}. Keep the subjects that both methods have, in one order."
        )
    if np.isinf(x).any() or np.isinf(y).any():
        raise EvaluationError("Scores must be finite, or NaN where there is none.")
    kept = ~(np.isnan(x) | np.isnan(y))
    x, y = x[kept], y[kept]
    # 0.8 - 0.7 and 0.6 - 0.5 are a tie, though not in floating point.
    scale = max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)) or 1.0
    return np.round((x - y) / scale, 12) * scale


def _t(d: NDArray[np.float64], factor: float) -> tuple[float, float]:
    """Statistic and p-value, the variance of the mean being ``factor`` times that of ``d``."""
    if len(d) < 2:
        return NAN, NAN
    if not d.any():
        return 0.0, 1.0
    if np.ptp(d) == 0:
        return float(np.copysign(np.inf, d[0])), NAN
    t = float(d.mean() / np.sqrt(factor * d.var(ddof=1)))
    return t, float(2 * stats.t.sf(abs(t), len(d) - 1))


def flipped_p(swapped: Swapped, n: int, size: float, seed: int) -> float:
    """P-value: how often flips (m, n) of 0 and 1 move a difference as far from 0 as none does."""
    # Sums round differently.
    least = abs(float(swapped(np.zeros((1, n)))[0])) - 1e-9 * size
    rng = np.random.default_rng(seed)
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


def _effect(d: NDArray[np.float64], corrected: bool) -> float:
    if len(d) < 2 + corrected:
        return NAN
    if np.ptp(d) == 0:
        return NAN if d.any() else 0.0
    size = float(d.mean() / d.std(ddof=1))
    if not corrected:
        return size
    free = len(d) - 1
    return size * float(np.exp(gammaln(free / 2) - gammaln((free - 1) / 2)) / np.sqrt(free / 2))


def _result(test: str, d: NDArray[np.float64], statistic: float, p: float) -> Comparison:
    mean = float(d.mean()) if len(d) else NAN
    why = ""
    if np.isnan(p):
        why = "all differences are the same" if len(d) > 1 else "there are fewer than two pairs"
    return Comparison(test, len(d), mean, statistic, p, _effect(d, corrected=True), why)
