"""Many methods on many data sets or subjects: average ranks, and which of them differ.

References
----------
Demsar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine Learning
Research 7 (2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, rankdata, studentized_range

from spdtokens.evaluation.errors import EvaluationError


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


def rank_methods(scores: Mapping[str, ArrayLike], *, alpha: float = 0.05) -> Ranking:
    """Rank methods by their scores, higher being better.

    Parameters
    ----------
    scores : mapping of str to array, shape (n,)
        Of each method, on the same data sets or subjects in the same order.
    alpha : float
        Of Friedman's test and the critical difference.
    """
    table = score_table(scores)
    # Rounded, so that scores equal but for floating point are ties.
    places = rankdata(-np.round(table / (np.abs(table).max() or 1.0), 12), axis=0)
    average = places.mean(1)
    order = np.argsort(average, kind="stable")
    ranks = tuple(float(rank) for rank in average[order])
    k, n = table.shape
    p = friedman(places)
    gap = critical_difference_of(k, n, alpha=alpha)
    groups = _groups(ranks, gap) if p < alpha else ((0, k - 1),)
    names = list(scores)
    return Ranking(tuple(names[i] for i in order), ranks, n, p, gap, groups)


def critical_difference_of(n_methods: int, n: int, *, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of average ranks over ``n`` data sets."""
    # Demsar's q: the studentized range with infinite degrees of freedom, over sqrt(2).
    q = studentized_range.isf(alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n)))


def friedman(ranks: NDArray[np.float64]) -> float:
    """P-value of Friedman's chi-square, corrected for ties; 1 if all is tied.

    Parameters
    ----------
    ranks : array, shape (methods, n)
        Of the methods on each data set.
    """
    k, n = ranks.shape
    middle = (k + 1) / 2
    spread = ((ranks - middle) ** 2).sum()
    if spread == 0:
        return 1.0
    statistic = (k - 1) * n**2 * ((ranks.mean(1) - middle) ** 2).sum() / spread
    return float(chi2.sf(statistic, k - 1))


def score_table(scores: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Scores as an array (methods, n).

    Raises
    ------
    EvaluationError
        Naming the method whose scores do not fit the others'.
    """
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in scores.items()}
    if len(rows) < 2:
        raise EvaluationError(f"There must be 2 methods or more to compare, not {len(rows)}.")
    first = next(iter(rows))
    for name, row in rows.items():
        if row.ndim != 1 or len(row) != len(rows[first]) or len(row) < 2:
            raise EvaluationError(
                f"Scores of {name!r} have shape {row.shape}, those of {first!r} "
                f"{rows[first].shape}; all must be (n,) for the same n data sets, 2 or more."
            )
        if not np.isfinite(row).all():
            raise EvaluationError(
                f"{name!r} has no score at place {int(np.argmin(np.isfinite(row)))}. Leave out "
                "that data set or subject for all methods, or the method."
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
