"""Pictures of how methods differ: ranks over data sets, and differences subject by subject."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy.stats import t

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.statistics import Ranking, rank_methods, score_table

# Okabe and Ito's colours, distinct for colour-blind readers.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
#: Inches: of a row of text, and between bars of a critical difference diagram.
ROW, BAR = 0.24, 0.13


def critical_difference(
    scores: Mapping[str, ArrayLike], *, alpha: float = 0.05, over: str = "data sets"
) -> Figure:
    """Demsar's diagram: average ranks, with bars that join methods not told apart.

    Parameters
    ----------
    scores : mapping of str to array, shape (n,)
        Of each method, on the same data sets or subjects; higher is better.
    alpha : float
    over : str
        What the n are, for the title.
    """
    ranking = rank_methods(scores, alpha=alpha)
    k, n_bars = len(ranking.names), len(ranking.groups)
    left = (k + 1) // 2
    # Heights in inches below the axis of ranks, so that text and bars keep their distance.
    first_label = 0.2 + BAR * n_bars + 0.16
    bottom = first_label + ROW * (left - 1) + 0.16
    top = 0.85
    letters = max(map(len, ranking.names[:left])) + max(map(len, ranking.names[left:]))
    width = max(7.2, 3.5 + 0.08 * letters)  # long names must leave room for the ranks
    figure = Figure(figsize=(width, top + bottom + 0.3), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_ylim(-bottom, top)
    axes.set_xlim(1 - 0.02 * k, k + 0.02 * k)
    _rank_axis(axes, ranking)
    verdict = "" if ranking.p_value < alpha else ": none told apart"
    p = "p < 0.001" if ranking.p_value < 0.001 else f"p = {ranking.p_value:.3f}"
    axes.set_title(
        f"Average rank over {ranking.n} {over}, 1 is best. Friedman {p}{verdict}",
        fontsize=10,
        pad=2,
    )
    for i, (name, rank) in enumerate(zip(ranking.names, ranking.ranks, strict=True)):
        best = i < left
        # Lines from the middle go lowest, so that none crosses another.
        depth = -(first_label + ROW * (i if best else k - 1 - i))
        edge = 1 - 0.01 * k if best else k + 0.01 * k
        axes.plot([rank, rank, edge], [0, depth, depth], color="k", lw=0.8, gid=f"method:{name}")
        axes.annotate(
            f"{name}  {rank:.2f}" if best else f"{rank:.2f}  {name}",
            (edge, depth),
            (-3 if best else 3, 0),
            textcoords="offset points",
            ha="right" if best else "left",
            va="center",
            fontsize=9,
        )
    for i, (first, last) in enumerate(ranking.groups):
        height = -(0.2 + BAR * i)
        ends = [ranking.ranks[first], ranking.ranks[last]]
        # Ends at the lines it joins, not beyond: the next one may be close.
        axes.plot(ends, [height] * 2, color=BLUE, lw=4, solid_capstyle="butt", gid="group")
    return figure


def _rank_axis(axes: Axes, ranking: Ranking) -> None:
    """Axis of ranks at height 0, and the critical difference above it."""
    k, gap = len(ranking.names), ranking.critical_difference
    axes.plot([1, k], [0, 0], color="k", lw=1)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, 0.07], color="k", lw=1)
        axes.text(rank, 0.1, str(rank), ha="center", va="bottom", fontsize=9)
    # Longer than the axis where data sets are few: no pair can differ then.
    shown = min(gap, k - 1)
    axes.plot([1, 1 + shown], [0.42, 0.42], color=ORANGE, lw=2, gid="critical difference")
    if gap <= k - 1:
        for end in (1, 1 + gap):
            axes.plot([end, end], [0.37, 0.47], color=ORANGE, lw=2)
    else:
        axes.plot([k], [0.42], ">", color=ORANGE, ms=6)
    axes.text(1, 0.52, f"critical difference {gap:.2f}", fontsize=9, color=ORANGE, va="bottom")


def paired_differences(
    scores: Mapping[str, ArrayLike],
    reference: str,
    *,
    metric: str = "score",
    over: str = "subjects",
) -> Figure:
    """Each method's differences to a reference: one dot a subject, mean and its 95% t interval.

    Methods are sorted by their mean, best on top. Intervals are each on their own, not corrected
    for the number of methods.

    Parameters
    ----------
    scores : mapping of str to array, shape (n,)
        Of each method, on the same subjects (or data sets); higher is better.
    reference : str
        The method that the others are compared with.
    metric : str
        What the scores are, for the axis.
    over : str
        What the n are, for the legend.
    """
    if reference not in scores:
        raise EvaluationError(f"There are no scores of {reference!r}, only of {', '.join(scores)}.")
    table = score_table(scores)
    names = list(scores)
    differences = table - table[names.index(reference)]
    others = [i for i, name in enumerate(names) if name != reference]
    others.sort(key=lambda i: differences[i].mean())
    n = table.shape[1]
    figure = Figure(figsize=(7.2, 1.3 + 0.36 * len(others)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color="k", lw=1)
    for row, i in enumerate(others):
        d = differences[i]
        half = t.isf(0.025, n - 1) * d.std(ddof=1) / np.sqrt(n)
        axes.plot(
            d, np.full(n, row + 0.14), "o", color=BLUE, alpha=0.55, ms=4.5, mew=0,
            gid=f"subjects:{names[i]}", label=f"each of {n} {over}" if row == 0 else None,
        )  # fmt: skip
        axes.errorbar(
            d.mean(), row - 0.18, xerr=half, fmt="D", color=ORANGE, ms=4.5, lw=1.8, capsize=3,
            label="mean, 95% t interval" if row == 0 else None,
        )  # fmt: skip
    axes.set_yticks(range(len(others)), [names[i] for i in others])
    axes.set_ylim(-0.6, len(others) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.grid(axis="x", color=GREY, alpha=0.2, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"{metric}: difference to {reference}\n(right of 0 is better)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return figure
