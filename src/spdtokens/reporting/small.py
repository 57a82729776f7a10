"""Small figures, one a method: training curves, confusion matrices and other heat maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from spdtokens.evaluation.runs import RunResult
from spdtokens.reporting.figures import in_unit
from spdtokens.reporting.style import BLUE, GREY, INK, ORANGE, plain

SIZE = (2.7, 2.0)
#: Points of a curve: more could not be seen, and would make the page large.
POINTS = 100
#: Beyond so many classes a matrix is drawn without numbers and names.
MANY = 10


def curve(runs: Sequence[RunResult], name: str) -> NDArray[np.float64]:
    """A curve of every run, shape (runs, epochs); NaN after a run has stopped."""
    found = [np.asarray(run.curves[name]) for run in runs if name in run.curves]
    table = np.full((len(found), max(map(len, found), default=0)), np.nan)
    for row, values in zip(table, found, strict=True):
        row[: len(values)] = values
    return table[:, np.isfinite(table).any(0)]


def curves(runs: Sequence[RunResult], what: str, limits: tuple[float, float]) -> Figure:
    """Mean over runs of ``what``, with a band of one standard deviation, by epoch.

    Parameters
    ----------
    runs : sequence of RunResult
        Of one method.
    what : str
        ``'accuracy'`` or ``'loss'``.
    limits : tuple of float
        The same for all methods, so that they can be compared.
    """
    figure = Figure(figsize=SIZE)
    # Margins by hand: there are many such figures, and a layout engine takes longer than drawing.
    axes = figure.add_axes((0.15, 0.21, 0.83, 0.75))
    parts = (("train", BLUE, "-"), ("validation", ORANGE, "--"))
    for part, colour, dash in parts:
        table = curve(runs, f"{part} {what}")
        if not table.size:
            continue
        epochs = np.unique(np.linspace(0, table.shape[1] - 1, POINTS).round().astype(int))
        chosen = table[:, epochs]
        mean, half = np.nanmean(chosen, 0), np.nanstd(chosen, 0)
        axes.plot(epochs + 1, mean, color=colour, ls=dash, lw=1.6, label=part)
        if len(table) > 1:
            # No run is beyond what is possible, though the mean and a deviation may be.
            low = np.maximum(mean - half, 0)
            high = np.minimum(mean + half, 1 if what == "accuracy" else np.inf)
            axes.fill_between(epochs + 1, low, high, color=colour, alpha=0.2, lw=0)
    kept = [run.epoch for run in runs if run.epoch is not None]
    if kept:
        axes.axvline(float(np.median(kept)), color=GREY, ls=":", lw=1.2, label="kept")
    axes.set_ylim(limits)
    axes.set_xlabel("epoch", fontsize=8)
    in_unit(axes.yaxis, what, 5)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.tick_params(labelsize=8)
    plain(axes)
    axes.legend(
        loc="lower center" if what == "accuracy" else "upper center",
        frameon=False, fontsize=7.5, handlelength=1.8,
    )  # fmt: skip
    return figure


def curve_limits(results: Iterable[Sequence[RunResult]], what: str) -> tuple[float, float] | None:
    """Of the means of all methods; None if no method has such a curve."""
    means = [
        np.nanmean(table, 0)
        for runs in results
        for part in ("train", "validation")
        if (table := curve(runs, f"{part} {what}")).size
    ]
    if not means:
        return None
    if what == "accuracy":
        return min(float(mean.min()) for mean in means) - 0.05, 1.02
    # A loss that explodes must not flatten all others.
    top = float(np.quantile(np.concatenate(means), 0.99))
    return 0.0, 1.1 * top


def confusion(runs: Sequence[RunResult]) -> NDArray[np.float64]:
    """Share of each class's test trials given to each class, shape (classes, classes).

    Trials of all folds and seeds count alike; a class without trials is NaN.
    """
    n = runs[0].probabilities.shape[1]
    counts = np.zeros((n, n))
    for run in runs:
        np.add.at(counts, (run.y, run.probabilities.argmax(1)), 1)
    sizes = counts.sum(1, keepdims=True)
    return np.divide(counts, sizes, out=np.full((n, n), np.nan), where=sizes > 0)


def confusion_figure(shares: NDArray[np.float64], classes: Sequence[str]) -> Figure:
    """True classes down, predicted across; percent of the true class."""
    return heat_map(shares, classes, across="predicted", down="true", bold_diagonal=True)


def heat_map(
    shares: NDArray[np.float64],
    names: Sequence[str],
    *,
    across: str,
    down: str,
    full: float = 1.0,
    bold_diagonal: bool = False,
) -> Figure:
    """Shares (n, n) in percent, between things of the same names.

    Parameters
    ----------
    shares : ndarray, shape (n, n)
    names : sequence of str
    across, down : str
        What columns and rows are.
    full : float
        The share of the strongest colour.
    bold_diagonal : bool
    """
    n = len(shares)
    side = min(2.0 + 0.22 * n, 4.2)
    figure = Figure(figsize=(side + 0.3, side), layout="constrained")
    axes = figure.add_subplot()
    for i, j in np.ndindex(n, n):
        share = shares[i, j]
        if not np.isfinite(share):
            continue
        # Never opaque, so that the number can be read in the light and in the dark.
        axes.add_patch(
            Rectangle((j, i), 1, 1, facecolor=BLUE, alpha=0.03 + 0.6 * share / full, lw=0)
        )
        if n <= MANY:
            axes.text(
                j + 0.5, i + 0.5, f"{100 * share:.0f}", ha="center", va="center", fontsize=8.5,
                color=INK, weight="bold" if bold_diagonal and i == j else "normal",
            )  # fmt: skip
    axes.set_xlim(0, n)
    axes.set_ylim(n, 0)
    axes.set_aspect("equal")
    told = [_short(name) for name in names] if n <= MANY else [""] * n
    turned = n > 2 and max(map(len, told)) > 4
    axes.set_xticks(np.arange(n) + 0.5, told, rotation=40 if turned else 0, fontsize=8)
    if turned:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(n) + 0.5, told, fontsize=8)
    axes.tick_params(length=0)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(down, fontsize=8)
    axes.spines[:].set_visible(False)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}…"
