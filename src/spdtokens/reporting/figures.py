"""The figures of a report, with their words.

Adding a kind is a function from :class:`~spdtokens.reporting.report.Facts` to a :class:`Group`, or
None where it does not apply, and its place in :data:`GROUPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from spdtokens._tables import counted
from spdtokens.classifiers.explain import electrode_info
from spdtokens.evaluation.difference_plots import critical_difference, paired_differences
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.statistics import rank_methods
from spdtokens.evaluation.summary import PERCENT
from spdtokens.reporting.decisions import MOST, Decision, Unexplained, told
from spdtokens.reporting.tables import difference_text, metric_title, said

if TYPE_CHECKING:
    from spdtokens.reporting.report import Facts

# Okabe and Ito's colours, distinct for colour-blind readers. Black is the page's ink.
INK, GREY = "#000000", "#666666"
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
SKY, AMBER = "#56b4e9", "#e69f00"
PALETTE = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, INK)
# Seven colours and eight markers have no common divisor: 56 methods look different.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
#: Inches: width of a figure, and height of a method's row.
WIDTH, ROW = 4.9, 0.3
#: Beyond so many methods names stand only beside their dots, and ranks cannot be read.
MOST_NAMED, MOST_RANKED = 12, 20
#: Points of a curve: more could not be seen, and would make the page large.
POINTS = 100
#: Beyond so many classes a matrix is drawn without numbers and names.
MANY = 10
#: With fewer positions there is nothing to draw a map between.
LEAST = 4
#: Maps side by side, channels of a bar chart, and channels whose shares are told in words.
COLUMNS, BARS, NAMED = 3, 8, 5
#: Probabilities that differ by less are the same but for rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

    Attributes
    ----------
    figure : Figure
    label : str
        What it shows, in words and numbers, for those who do not see it.
    caption : str
    """

    figure: Figure
    label: str
    caption: str = ""


@dataclass(frozen=True)
class Group:
    """Figures under one heading.

    Attributes
    ----------
    title, note : str
    pictures : tuple of Picture
    small : bool
        Whether many stand in a row.
    """

    title: str
    pictures: tuple[Picture, ...]
    note: str = ""
    small: bool = False


# ------------------------------------------------------------------ axes alike


def looks(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Colour and marker of each method, by its place in the study."""
    return {
        name: {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(names)
    }


def plain(axes: Axes, *, grid: str = "both") -> None:
    """Axes with as little ink as will do."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(color=GREY)
    axes.grid(axis=grid, color=GREY, alpha=0.2, lw=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def in_unit(axis: Any, metric: str, most: int = 6) -> None:
    """Round ticks, in percent where the metric is a share."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    if metric in PERCENT:
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g}"))


def _width(names: Iterable[str]) -> float:
    """Of a figure with a row a method, in inches: very long names must leave room for scores."""
    return max(WIDTH, 2.4 + 0.075 * max(map(len, names)))


# ------------------------------------------------------------------ scores


def scores(facts: Facts) -> Group | None:
    """Subject by subject, and train against test."""
    if not np.isfinite([row.score for row in facts.rows]).any():
        return None
    units, metric = facts.units, facts.metric
    one = units.over.removesuffix("s")
    means = "; ".join(f"{row.method} {said(row.score, metric)}" for row in facts.rows)
    joined = f" Lines join the scores of each {one}." if units.paired else ""
    title = METRICS[metric].title
    marks = "" if len(facts.rows) <= MOST_NAMED else ", as in the dot plot"
    apart = "; ".join(
        f"{row.method} {said(row.train_score, metric)} and {said(row.score, metric)}"
        for row in facts.rows
    )
    return Group(
        "Scores",
        (
            Picture(
                dots(facts),
                f"Dot plot of test {title} for each of {counted(len(units.test), one)}. Means: "
                f"{means}.",
                f"One dot a {one}, the best method on top.{joined}",
            ),
            Picture(
                train_against_test(facts),
                f"Scatter of train against test {title}, a point for each method and {one}. Mean "
                f"train and test: {apart}.",
                f"One mark a method and {one}{marks}. On the diagonal a method scores on new "
                "trials as on those it was trained on; the distance below it is memorised.",
            ),
        ),
    )


def dots(facts: Facts) -> Figure:
    """Every method's test scores: one dot a subject, lines joining the dots of each subject."""
    units, metric, row = facts.units, facts.metric, facts.rows[0]
    look = looks(units.test)
    means = units.test.mean()
    order = sorted(units.test, key=lambda name: means[name])
    figure = Figure(figsize=(_width(order), 1.25 + ROW * len(order)), layout="constrained")
    axes = figure.add_subplot()
    if units.paired:
        for unit in units.test[order].to_numpy():
            axes.plot(unit, np.arange(len(order)), color=GREY, lw=0.7, alpha=0.45, zorder=1)
    for height, name in enumerate(order):
        axes.plot(
            units.test[name], np.full(len(units.test), height), ls="", ms=5.5, mew=0, alpha=0.75,
            zorder=2, **look[name], gid=f"dots:{name}",  # type: ignore[arg-type]
        )  # fmt: skip
        ends = [height - 0.32, height + 0.32]
        axes.plot([means[name]] * 2, ends, color=INK, lw=2.2, zorder=3)
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
    values = np.concatenate([units.train.to_numpy(), units.test.to_numpy()], axis=None)
    values = np.append(values, row.chance)
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
            # Matplotlib leaves out of legends what begins with an underscore.
            label=f" {name}" if name.startswith("_") else name,
            gid=f"dots:{name}", **style,  # type: ignore[arg-type]
        )  # fmt: skip
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    in_unit(axes.xaxis, metric)
    in_unit(axes.yaxis, metric)
    axes.set_xlabel(f"train {metric_title(metric)}")
    axes.set_ylabel(f"test {metric_title(metric)}")
    plain(axes)
    if legend:
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return figure


# ------------------------------------------------------------------ differences


def differences(facts: Facts) -> Group | None:
    """Paired differences to the reference, and ranks."""
    known = facts.units.complete()
    if known is None:
        return None
    n, over, reference = len(known), facts.units.over, facts.rows[0].method
    means = known.sub(known[reference], axis=0).mean().drop(reference)
    told_of = "; ".join(
        f"{name} {difference_text(mean, facts.metric)}" for name, mean in means.items()
    )
    caveat = "" if over == "subjects" else " Folds share training trials: intervals are too narrow."
    complete = {str(name): column.to_numpy() for name, column in known.items()}
    scale = 100 if facts.metric in PERCENT else 1
    metric = metric_title(facts.metric)
    scaled = {name: scale * values for name, values in complete.items()}
    figure = paired_differences(scaled, reference, metric=metric, over=over)
    figure.set_size_inches(_width(complete), figure.get_figheight())  # of a phone, not of a paper
    pictures = [
        Picture(
            figure,
            f"Differences of {metric} to {reference} on each of {n} {over}. Means: {told_of}.",
            f"Difference to {reference} on each of the {over}, its mean and 95 % interval, not "
            f"corrected for the number of methods.{caveat}",
        )
    ]
    if over == "subjects" and 2 < len(complete) <= MOST_RANKED:
        ranking = rank_methods(complete)
        pairs = zip(ranking.names, ranking.ranks, strict=True)
        ranks = "; ".join(f"{name} {rank:.2f}" for name, rank in pairs)
        pictures.append(
            Picture(
                critical_difference(complete, over=over),
                f"Critical difference diagram. Average ranks over {n} subjects: {ranks}.",
                "Average ranks; methods joined by a bar are not told apart (Friedman, Nemenyi).",
            )
        )
    return Group("Differences", tuple(pictures))


# ------------------------------------------------------------------ what decides


def what_decides(facts: Facts) -> Group | None:
    """Channels and bands that decide, and attention between bands; None if no one looked."""
    if not facts.decisions:
        return None
    pictures = []
    for one in facts.decisions:
        if isinstance(one, Decision):
            pictures.append(_importance(one, facts))
            if one.attention is not None:
                pictures.append(_attention(one, one.attention))
    note = ""
    if pictures:
        found = len(electrode_info(facts.ch_names)[1])
        channels = counted(len(facts.ch_names), "channel")
        note = (
            "A share tells how far the score of the predicted class moves when the amplitude of a "
            "channel within a band moves as far as it does from trial to trial (exact gradient, "
            "mean of sizes over test trials; all shares of a model are 100 %). It tells what the "
            "model uses, not where in the brain that comes from. "
            f"Electrode positions are known by name for {found} of {channels}"
            + ("." if found >= LEAST else ": too few for a map.")
            + f" Of the best token methods, {MOST} at most, one model was trained again for this "
            "page: that of the subject whose score is in the middle."
        )
        if facts.answer.question.alignment != "none":
            note += (
                f" Trials were aligned ({facts.answer.question.alignment}) before the model saw "
                "them, which mixes channels a little: shares are of channels after that."
            )
    failed = [
        f"{one.method} could not be looked into: {one.reason}"
        for one in facts.decisions
        if isinstance(one, Unexplained)
    ]
    return Group("What decides", tuple(pictures), " ".join([note, *failed]).strip())


def _importance(one: Decision, facts: Facts) -> Picture:
    ch_names, metric, n = facts.ch_names, facts.metric, len(one.run.y)
    total = one.importance.sum(0)
    order = np.argsort(-total, kind="stable")[:NAMED]
    channels = ", ".join(f"{ch_names[i]} {100 * total[i]:.0f} %" for i in order)
    bands = ""
    if len(one.names) > 1:
        pairs = zip(one.names, one.importance.sum(1), strict=True)
        bands = " Bands: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in pairs) + "."
    if one.changed:
        same = (
            f"Not quite the study's model: trained again, it predicts another class for "
            f"{one.changed} of {n} test trials. The study ran on another machine or by other code."
        )
    elif one.apart > ROUNDING:
        same = (
            f"All {n} predicted classes are those of the study, probabilities differ by up to "
            f"{one.apart:.1g}: it ran on another machine or by other code."
        )
    else:
        same = f"It is the study's model: all {n} predictions are those that are stored."
    score = said(one.run.test.get(metric, np.nan), metric)
    return Picture(
        importance_figure(one.importance, one.names, ch_names),
        f"Share of each channel in the decisions of {one.method}. Largest: {channels}.{bands}",
        f"{one.method}: share of each channel, mean over {counted(n, 'test trial')} of "
        f"{told(one.run)} (test {METRICS[metric].title} {score}). {same}",
    )


def _attention(one: Decision, weights: NDArray[np.float64]) -> Picture:
    received = weights.mean(0)
    order = np.argsort(-received, kind="stable")
    most = ", ".join(f"{one.names[i]} {100 * received[i]:.0f} %" for i in order[:NAMED])
    even = 100 / len(weights)
    bands = all(name.endswith(" Hz") for name in one.names)
    unit = ", Hz" if bands else ""
    figure = heat_map(
        weights,
        [name.removesuffix(" Hz") if bands else name for name in one.names],
        across=f"is attended to{unit}",
        down=f"attends{unit}",
        full=float(weights.max()),
    )
    return Picture(
        figure,
        f"Attention between the bands of {one.method}. Received on average: {most}; without any "
        f"preference {even:.0f} %.",
        f"{one.method}: attention in percent, mean over heads, layers and test trials of the same "
        f"model. Rows attend to columns; without any preference every number would be {even:.0f}.",
    )


def importance_figure(
    shares: NDArray[np.float64], names: Sequence[str], ch_names: Sequence[str]
) -> Figure:
    """Shares (tokens, channels): a map for each token, or bars where positions are unknown.

    One token has room for both.
    """
    import mne

    info, places = electrode_info(ch_names)
    n = len(shares)
    mapped = len(places) >= LEAST
    panels = 2 if mapped and n == 1 else n
    columns = min(COLUMNS, panels)
    rows = -(-panels // columns)
    width = max(WIDTH * columns / COLUMNS, 2.4) if n > 1 else WIDTH
    height = 1.75 if mapped and n > 1 else 2.2
    # Maps are images within the figure: dots an inch.
    figure = Figure(figsize=(width, height * rows + (0.35 if mapped else 0.1)), dpi=160)
    figure.set_layout_engine("constrained")
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in every[panels:]:
        axes.remove()
    top = float(shares[:, places].max()) if mapped else float(shares.max())
    # From nothing to a blue that stands out from white and from black paper: one hue, told apart by
    # its strength, for those who see no colours.
    blue = [(0.17, 0.58, 0.87, alpha) for alpha in (0, 1)]
    for axes, share, name in zip(every, shares, names, strict=False):
        if mapped:
            image, _ = mne.viz.plot_topomap(
                share[places], info, axes=axes, show=False, vlim=(0, top), contours=0,
                cmap=LinearSegmentedColormap.from_list("strength", blue),
                # A cap over one part of the head says nothing about the rest.
                extrapolate="local",
                # A share between two electrodes is between theirs: others would overshoot.
                image_interp="linear",
            )  # fmt: skip
        else:
            _bars(axes, share, ch_names, top)
        axes.set_title(name if n == 1 else f"{name}: {100 * share.sum():.0f} %", fontsize=9)
    if mapped:
        if n == 1:
            _bars(every[1], shares[0], ch_names, float(shares.max()))
        bar = figure.colorbar(
            image, ax=list(every[:n]), location="bottom", shrink=0.6 if n > 1 else 0.8, aspect=24,
            pad=0.02,
        )  # fmt: skip
        bar.set_ticks([0, top], labels=["0", f"{100 * top:.2g} %"])
        bar.ax.tick_params(labelsize=8, length=0)
        bar.outline.set_visible(False)
    return figure


def _bars(axes: Axes, share: NDArray[np.float64], ch_names: Sequence[str], top: float) -> None:
    """The channels of the largest shares, in percent."""
    order = np.argsort(-share, kind="stable")[:BARS]
    axes.barh(np.arange(len(order)), 100 * share[order], color=BLUE, height=0.7)
    axes.set_yticks(np.arange(len(order)), [ch_names[i] for i in order], fontsize=8)
    axes.set_ylim(max(len(order), 4) - 0.4, -0.6)
    axes.set_xlim(0, 105 * top)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("share in %", fontsize=8)
    plain(axes, grid="x")


# ------------------------------------------------------------------ training curves


def training(facts: Facts) -> Group | None:
    """Curves of methods that have some."""
    pictures = []
    for what in ("accuracy", "loss"):
        tables = {
            name: {part: curve(runs, f"{part} {what}") for part in ("train", "validation")}
            for name, runs in facts.answer.results.items()
        }
        means = [np.nanmean(t, 0) for parts in tables.values() for t in parts.values() if t.size]
        if not means:
            continue
        # The same for all methods, so that they can be compared. A loss that explodes must not
        # flatten all others.
        limits = (0.0, 1.1 * float(np.quantile(np.concatenate(means), 0.99)))
        if what == "accuracy":
            limits = (min(float(mean.min()) for mean in means) - 0.05, 1.02)
        for name, parts in tables.items():
            known = {part: table for part, table in parts.items() if table.size}
            if not known:
                continue
            runs = facts.answer.results[name]
            ends = ", ".join(
                f"{part} {what} ends at {np.nanmean(t[:, -1]):.3f}" for part, t in known.items()
            )
            label = f"Training curve of {name}, mean of {counted(len(runs), 'run')}: {ends}."
            figure = _curves(known, what, limits, [r.epoch for r in runs if r.epoch is not None])
            pictures.append(Picture(figure, label, f"{name}: {what}"))
    if not pictures:
        return None
    return Group(
        "Training curves",
        tuple(pictures),
        "Mean over runs, with a band of one standard deviation. Train: of the batches as they were "
        "trained on, with dropout. Dotted: the epoch whose weights were kept, median over runs.",
        small=True,
    )


def curve(runs: Sequence[RunResult], name: str) -> NDArray[np.float64]:
    """A curve of every run, shape (runs, epochs); NaN after a run has stopped."""
    found = [np.asarray(run.curves[name]) for run in runs if name in run.curves]
    table = np.full((len(found), max(map(len, found), default=0)), np.nan)
    for row, values in zip(table, found, strict=True):
        row[: len(values)] = values
    return table[:, np.isfinite(table).any(0)]


def _curves(
    tables: Mapping[str, NDArray[np.float64]],
    what: str,
    limits: tuple[float, float],
    kept: Sequence[int],
) -> Figure:
    """Mean over the runs of one method, with a band of one standard deviation, by epoch."""
    figure = Figure(figsize=(2.7, 2.0))
    # Margins by hand: there are many such figures, and a layout engine takes longer than drawing.
    axes = figure.add_axes((0.15, 0.21, 0.83, 0.75))
    looks_of = {"train": (BLUE, "-"), "validation": (ORANGE, "--")}
    for part, table in tables.items():
        colour, dash = looks_of[part]
        epochs = np.unique(np.linspace(0, table.shape[1] - 1, POINTS).round().astype(int))
        mean, half = np.nanmean(table[:, epochs], 0), np.nanstd(table[:, epochs], 0)
        axes.plot(epochs + 1, mean, color=colour, ls=dash, lw=1.6, label=part)
        if len(table) > 1:
            # No run is beyond what is possible, though the mean and a deviation may be.
            low = np.maximum(mean - half, 0)
            high = np.minimum(mean + half, 1 if what == "accuracy" else np.inf)
            axes.fill_between(epochs + 1, low, high, color=colour, alpha=0.2, lw=0)
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


# ------------------------------------------------------------------ confusion matrices


def confusions(facts: Facts) -> Group:
    """Which class is taken for which, by method."""
    pictures = []
    for row in facts.rows:
        shares = confusion(facts.answer.results[row.method])
        right = "; ".join(
            f"{name} {100 * shares[i, i]:.0f} % right" for i, name in enumerate(facts.classes)
        )
        label = f"Confusion matrix of {row.method}: {right}."
        figure = heat_map(shares, facts.classes, across="predicted", down="true", bold=True)
        pictures.append(Picture(figure, label, row.method))
    return Group(
        "Confusion matrices",
        tuple(pictures),
        "Percent of each true class; all test trials of all folds and seeds.",
        small=True,
    )


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


def heat_map(
    shares: NDArray[np.float64],
    names: Sequence[str],
    *,
    across: str,
    down: str,
    full: float = 1.0,
    bold: bool = False,
) -> Figure:
    """Shares (n, n) in percent, between things of the same names.

    ``full`` is the share of the strongest colour; ``bold`` is for the diagonal.
    """
    n = len(shares)
    side = min(2.0 + 0.22 * n, 4.2)
    figure = Figure(figsize=(side + 0.3, side), layout="constrained")
    axes = figure.add_subplot()
    for i, j in np.argwhere(np.isfinite(shares)):
        # Never opaque, so that the number can be read in the light and in the dark.
        alpha = 0.03 + 0.6 * shares[i, j] / full
        axes.add_patch(Rectangle((j, i), 1, 1, facecolor=BLUE, alpha=alpha, lw=0))
        if n <= MANY:
            axes.text(
                j + 0.5, i + 0.5, f"{100 * shares[i, j]:.0f}", ha="center", va="center",
                fontsize=8.5, color=INK, weight="bold" if bold and i == j else "normal",
            )  # fmt: skip
    axes.set(xlim=(0, n), ylim=(n, 0), aspect="equal")
    short = [name if len(name) <= 12 else f"{name[:11]}…" for name in names]
    short = short if n <= MANY else [""] * n
    turned = n > 2 and max(map(len, short)) > 4
    axes.set_xticks(np.arange(n) + 0.5, short, rotation=40 if turned else 0, fontsize=8)
    if turned:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(n) + 0.5, short, fontsize=8)
    axes.tick_params(length=0)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(down, fontsize=8)
    axes.spines[:].set_visible(False)
    return figure


#: In the order of a section.
#: Those of the report, in its order; others are entered here.
GROUPS: list[Callable[[Facts], Group | None]] = [
    scores,
    differences,
    what_decides,
    training,
    confusions,
]


def groups(facts: Facts) -> list[Group]:
    """All figures that apply to a question."""
    return [group for make in GROUPS if (group := make(facts)) is not None]
