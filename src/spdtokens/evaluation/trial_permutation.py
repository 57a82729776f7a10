"""Whether two methods differ on one test set, by any metric, over independent units of trials."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from spdtokens.evaluation.metrics import checked, confusion, get_metric
from spdtokens.evaluation.statistics import NAN, Comparison, Swapped, flipped_p


def trial_permutation(
    metric: str, y: ArrayLike, a: ArrayLike, b: ArrayLike, unit: ArrayLike, *, seed: int = 0
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
    seed : int, default 0

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
        p = flipped_p(swapped, n, 1.0, seed)
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
