"""One picture of all tables: our scores against what the paper reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from spdtokens.paper.reproduce.folder import Score, Scores
from spdtokens.paper.reproduce.sentences import METRIC, once
from spdtokens.reporting.figures import BLUE, INK, ORANGE, Group, Picture, in_unit, plain


def ours_against_reported(tables: Sequence[Scores]) -> Group | None:
    """Train and test of every cell against the printed value; None where nothing is printed."""
    cells = [cell for cell in once(c for t in tables for c in t.cells) if cell.nearer]
    if not cells:
        return None
    counts = Counter(cell.nearer for cell in cells)
    label = (
        f"Scatter of our accuracy against the paper's for {len(cells)} cells. Nearer to the "
        f"paper's: train in {counts['train']}, test in {counts['test']}."
    )
    caption = (
        "One square (train) and one dot (test) for each different cell. On the diagonal our score "
        "is what the paper reports."
    )
    return Group("Ours against reported", (Picture(_scatter(cells), label, caption),))


def _scatter(cells: Sequence[Score]) -> Figure:
    figure = Figure(figsize=(4.9, 4.6), layout="constrained")
    axes = figure.add_subplot()
    printed = np.array([cell.printed for cell in cells], dtype=float)
    axes.plot([0, 1], [0, 1], color=INK, lw=1)
    for values, colour, marker, name in (
        (np.array([cell.train for cell in cells], dtype=float), ORANGE, "s", "our train"),
        (np.array([cell.test for cell in cells], dtype=float), BLUE, "o", "our test"),
    ):
        axes.plot(
            printed, values, ls="", ms=5.5, mew=0, alpha=0.75, color=colour, marker=marker,
            label=name,
        )  # fmt: skip
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="reported by the paper, accuracy in %",
             ylabel="ours, accuracy in %")  # fmt: skip
    axes.set_aspect("equal")
    in_unit(axes.xaxis, METRIC)
    in_unit(axes.yaxis, METRIC)
    plain(axes)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=8.5)
    return figure
