"""The picture of the granularity test: share of printed values that fit against n."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spdtokens.paper.audit.check import Paper
from spdtokens.paper.audit.granularity import Reported, share_that_fits
from spdtokens.paper.audit.sizes import MAX_N, SPLITS, Split, subject_values

# Okabe and Ito's colours, distinct for colour-blind readers.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def granularity_figure(paper: Paper | None = None, max_n: int = MAX_N) -> Figure:
    """Share of the printed accuracies that n trials can give, for each data set."""
    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    figure.suptitle(
        "Which number of trials can give the printed accuracies?", fontsize=12, x=0.01, ha="left"
    )
    panels = figure.subplots(len(SPLITS), 1, sharex=True, sharey=True)
    for axes, split in zip(panels, SPLITS, strict=True):
        groups = subject_values(paper or Paper(), split)
        _panel(axes, split, [value for group in groups.values() for value in group], max_n)
    panels[-1].set_xlabel("number of trials n")
    panels[len(SPLITS) // 2].set_ylabel("share of printed values that are k / n, or k / (5 n)")
    return figure


def _panel(axes: Axes, split: Split, values: list[Reported], max_n: int) -> None:
    sizes = np.arange(1, max_n + 1)
    shares = np.array([share_that_fits(values, int(n)) for n in sizes])
    axes.vlines(sizes, 0, shares, color=GREY, lw=0.8)
    test = [n for n in split.test if n <= max_n]
    told = " or ".join(map(str, test))
    for n in test:
        axes.plot(n, shares[n - 1], "s", color=ORANGE, ms=6, gid=f"test:{n}")
    axes.plot(split.train, shares[split.train - 1], "o", color=BLUE, ms=7, gid="train")
    best = max(shares[n - 1] for n in test)
    axes.annotate(
        f"{told} test trials: {100 * best:.0f} % fit" + (" at most" if len(test) > 1 else ""),
        (test[-1], best), (test[-1], 0.62), color=ORANGE, fontsize=9,
        arrowprops={"arrowstyle": "-", "color": ORANGE, "lw": 0.8, "relpos": (0, 0)},
    )  # fmt: skip
    axes.annotate(
        f"{split.train} training trials: {100 * shares[split.train - 1]:.0f} % fit",
        (split.train, shares[split.train - 1]), (-9, 0), textcoords="offset points", color=BLUE,
        ha="right", va="center", fontsize=9,
    )  # fmt: skip
    axes.set_title(f"{split.data}: {len(values)} distinct values", fontsize=10, loc="left")
    axes.set_xlim(0, max_n + 4)
    axes.set_ylim(0, 1.12)
    axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.spines[["top", "right"]].set_visible(False)
