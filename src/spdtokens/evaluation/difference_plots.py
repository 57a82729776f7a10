"""Figures of differences between methods: average ranks, and differences per subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy.stats import t

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.statistics import ALPHA, rank_methods, score_table

# Okabe and Ito's colours, distinct for colour-blind readers.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
#: Height of a row of text, and distance between bars, in inches.
ROW, BAR = 0.24, 0.13


def critical_difference(scores: Mapping[str, ArrayLike], *, over: str = "data sets") -> Figure:
    """Draw a critical difference diagram: average ranks, bars join methods that do not differ.

    Parameters
    ----------
    scores : mapping of str to array_like, shape (n,)
        Scores of each method on the same data sets or subjects; higher is better.
    over : str
        Unit of the n scores, for the title.

    References
    ----------
    Demsar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine
    Learning Research 7 (2006).
    """
    ranking = rank_methods(scores)
    k, gap = len(ranking.names), ranking.critical_difference
    left = (k + 1) // 2
    # Heights in inches below the axis of ranks.
    first_label = 0.2 + BAR * len(ranking.groups) + 0.16
    bottom, top = first_label + ROW * (left - 1) + 0.16, 0.85
    letters = max(map(len, ranking.names[:left])) + max(map(len, ranking.names[left:]))
    width = max(7.2, 3.5 + 0.08 * letters)  # long names must leave room for the ranks
    figure = Figure(figsize=(width, top + bottom + 0.3), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(1 - 0.02 * k, 1.02 * k), ylim=(-bottom, top))
    axes.set_xticks(range(1, k + 1))
    axes.tick_params(axis="x", labelsize=9)
    axes.xaxis.tick_top()
    axes.yaxis.set_visible(False)
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.spines["top"].set(position=("data", 0), bounds=(1, k))
    verdict = "" if ranking.p_value < ALPHA else ": no significant difference"
    p = "p < 0.001" if ranking.p_value < 0.001 else f"p = {ranking.p_value:.3f}"
    title = f"Average rank over {ranking.n} {over}, 1 is best. Friedman {p}{verdict}"
    axes.set_title(title, fontsize=10, pad=2)
    # An arrow if it is longer than the axis, as with few data sets: no pair can differ then.
    fits = gap <= k - 1
    ends: dict[str, Any] = (
        {"marker": "|", "ms": 9, "mew": 2} if fits else {"marker": ">", "markevery": [1]}
    )
    axes.plot(
        [1, 1 + min(gap, k - 1)], [0.42] * 2, color=ORANGE, lw=2, gid="critical difference", **ends
    )
    axes.text(1, 0.52, f"critical difference {gap:.2f}", fontsize=9, color=ORANGE, va="bottom")
    for i, (name, rank) in enumerate(zip(ranking.names, ranking.ranks, strict=True)):
        best = i < left
        # Lines from the middle are lowest, so that lines do not cross.
        depth = -(first_label + ROW * (i if best else k - 1 - i))
        edge = 1 - 0.01 * k if best else k + 0.01 * k
        axes.plot([rank, rank, edge], [0, depth, depth], color="k", lw=0.8, gid=f"method:{name}")
        text, side = (f"{name}  {rank:.2f}", "right") if best else (f"{rank:.2f}  {name}", "left")
        place = (-3 if best else 3, 0)
        axes.annotate(
            text, (edge, depth), place, textcoords="offset points", ha=side, va="center", fontsize=9
        )
    for i, (first, last) in enumerate(ranking.groups):
        joined = [ranking.ranks[first], ranking.ranks[last]]
        # The bar ends at the lines it joins, as the next line may be close.
        height = [-(0.2 + BAR * i)] * 2
        axes.plot(joined, height, color=BLUE, lw=4, solid_capstyle="butt", gid="group")
    return figure


def paired_differences(
    scores: Mapping[str, ArrayLike],
    reference: str,
    *,
    metric: str = "score",
    over: str = "subjects",
) -> Figure:
    """Draw the differences of each method to a reference, with mean and 95 % t interval.

    One dot per subject; methods are sorted by their mean, best on top. Intervals are not corrected
    for the number of methods.

    Parameters
    ----------
    scores : mapping of str to array_like, shape (n,)
        Scores of each method on the same subjects (or data sets); higher is better.
    reference : str
        Method that the others are compared with.
    metric : str
        Name of the score, for the axis.
    over : str
        Unit of the n scores, for the legend.
    """
    if reference not in scores:
        raise EvaluationError(f"reference must be one of {', '.join(scores)}, got {reference!r}.")
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
            gid=f"subjects:{names[i]}", label=f"{n} {over}" if row == 0 else None,
        )  # fmt: skip
        axes.errorbar(
            d.mean(), row - 0.18, xerr=half, fmt="D", color=ORANGE, ms=4.5, lw=1.8, capsize=3,
            label="mean, 95 % confidence interval" if row == 0 else None,
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
