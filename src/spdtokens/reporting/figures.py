"""Figures of how methods score: subject by subject, and train against test."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from spdtokens.evaluation.summary import PERCENT
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.numbers import metric_title
from spdtokens.reporting.style import GREY, INK, legend_name, looks, plain

#: Inches: width of a figure, and height of a method's row.
WIDTH, ROW = 4.9, 0.3
#: Beyond so many methods the names stand only beside their dots.
MOST_NAMED = 12


def dots(facts: Facts) -> Figure:
    """Every method's test scores: one dot a subject, lines joining the dots of each subject."""
    units, metric, row = facts.units, facts.metric, facts.rows[0]
    look = looks(units.test)
    order = sorted(units.test, key=lambda name: _mean(units.test[name]))
    scores = np.array([units.test[name] for name in order])
    figure = Figure(figsize=(width(order), 1.25 + ROW * len(order)), layout="constrained")
    axes = figure.add_subplot()
    if units.paired:
        heights = np.arange(len(order))
        for unit in scores.T:
            axes.plot(unit, heights, color=GREY, lw=0.7, alpha=0.45, zorder=1)
    for height, name in enumerate(order):
        axes.plot(
            scores[height], np.full(scores.shape[1], height), ls="", ms=5.5, mew=0, alpha=0.75,
            zorder=2, **look[name], gid=f"dots:{name}",  # type: ignore[arg-type]
        )  # fmt: skip
        mean = _mean(scores[height])
        axes.plot([mean] * 2, [height - 0.32, height + 0.32], color=INK, lw=2.2, zorder=3)
    handles = [axes.plot([], [], color=INK, lw=2.2, label="mean")[0]]
    if np.isfinite(row.chance):
        handles.append(axes.axvline(row.chance, color=GREY, ls="--", lw=1, label="chance"))
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.tick_params(axis="y", length=0)
    in_unit(axes.xaxis, metric)
    axes.set_xlabel(f"test {metric_title(metric)}")
    plain(axes, grid="x")
    axes.spines["left"].set_visible(False)
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, fontsize=8.5)
    return figure


def train_against_test(facts: Facts) -> Figure:
    """Each method's train and test score on every subject; below the diagonal is memorised."""
    units, metric, row = facts.units, facts.metric, facts.rows[0]
    look = looks(units.test)
    longest = max(map(len, look))
    one_row = sum(len(name) + 6 for name in look) < 66
    columns = len(look) if one_row else max(1, min(3, int(70 / (longest + 6))))
    legend = 0.19 * -(-len(look) // columns) if len(look) <= MOST_NAMED else 0.0
    size = (max(WIDTH, 0.7 + 0.07 * longest), 0.86 * WIDTH + legend)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    known = [np.concatenate(list(part.values())) for part in (units.train, units.test)]
    values = np.concatenate([*known, [row.chance]])
    values = values[np.isfinite(values)]
    margin = 0.04 * (np.ptp(values) or 1.0)
    ends = (values.min() - margin, values.max() + margin)
    axes.plot(ends, ends, color=INK, lw=1)
    if np.isfinite(row.chance):
        axes.axhline(row.chance, color=GREY, ls="--", lw=1)
        # Beside the axes, where no mark can be.
        axes.text(
            1.01, row.chance, "chance", color=GREY, fontsize=8, va="center",
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
    for name, style in look.items():
        axes.plot(
            units.train[name], units.test[name], ls="", ms=5.5, mew=0, alpha=0.8,
            label=legend_name(name), gid=f"dots:{name}", **style,  # type: ignore[arg-type]
        )  # fmt: skip
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    axes.set_aspect("equal")
    in_unit(axes.xaxis, metric)
    in_unit(axes.yaxis, metric)
    axes.set_xlabel(f"train {metric_title(metric)}")
    axes.set_ylabel(f"test {metric_title(metric)}")
    plain(axes)
    if legend:
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return figure


def width(names: Iterable[str]) -> float:
    """Of a figure with a row a method, in inches: very long names must leave room for scores."""
    return max(WIDTH, 2.4 + 0.075 * max(map(len, names)))


def in_unit(axis: object, metric: str, most: int = 6) -> None:
    """Round ticks, in percent where the metric is a share."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))  # type: ignore[attr-defined]
    if metric in PERCENT:
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g}"))  # type: ignore[attr-defined]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
