"""The figures of a report, with captions and text alternatives.

To add a kind of figure, append a function from :class:`~spdtokens.reporting.report.Facts` to a
:class:`Group`, or None where it does not apply, to :data:`GROUPS`.
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
from spdtokens.evaluation.metrics import METRICS, confusion
from spdtokens.evaluation.summary import PERCENT, score_said
from spdtokens.experiments.comparison import difference_figures
from spdtokens.reporting.decisions import MOST, Decision, told
from spdtokens.reporting.tables import metric_title, score_text

if TYPE_CHECKING:
    import pandas as pd

    from spdtokens.reporting.report import Facts

# Okabe and Ito's colours, distinguishable for colour-blind readers. Black becomes the text colour.
INK, GREY = "#000000", "#666666"
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
SKY, AMBER = "#56b4e9", "#e69f00"
PALETTE = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, INK)
# Seven colours and eight markers: 56 methods look different.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
#: Width of a figure in inches.
WIDTH = 4.9
#: More ranks cannot be read.
MOST_RANKED = 20
#: Points of a curve; more would only make the page larger.
POINTS = 100
#: With more classes, a matrix is drawn without numbers and names.
MANY = 10
#: Electrode positions that a map needs.
LEAST = 4
#: Maps per row, channels in a bar chart, and channels named in the text alternative.
COLUMNS, BARS, NAMED = 3, 8, 5


@dataclass(frozen=True)
class Picture:
    """A figure with caption and text alternative.

    Parameters
    ----------
    figure : Figure
        The figure.
    label : str
        Text alternative for readers who cannot see the figure: its content in words and numbers.
    caption : str, default=''
        Caption.
    """

    figure: Figure
    label: str
    caption: str = ""


@dataclass(frozen=True)
class Group:
    """Figures under one heading.

    Parameters
    ----------
    title : str
        Heading.
    pictures : tuple of Picture
        The figures.
    note : str, default=''
        Text below the figures.
    small : bool, default=False
        Whether the figures are small, several per row.
    """

    title: str
    pictures: tuple[Picture, ...]
    note: str = ""
    small: bool = False


# ------------------------------------------------------------------ style


def looks(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Choose colour and marker of each method, by its position in the study."""
    return {
        name: {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(names)
    }


def plain(axes: Axes, *, grid: str = "both") -> None:
    """Remove the frame of axes and add a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(color=GREY)
    axes.grid(axis=grid, color=GREY, alpha=0.2, lw=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def in_unit(axis: Any, metric: str, most: int = 6) -> None:
    """Set round ticks, in percent where the metric is a proportion."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    if metric in PERCENT:
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g}"))


# ------------------------------------------------------------------ scores


def scores(facts: Facts) -> Group | None:
    """Draw train against test score, paired differences to the reference, and ranks."""
    if not np.isfinite([row.score for row in facts.rows]).any():
        return None
    metric, title = facts.metric, METRICS[facts.metric].title
    one = facts.units.over.removesuffix("s")
    means = "; ".join(
        f"{row.method} {score_said(row.train_score, metric)} and {score_said(row.score, metric)}"
        for row in facts.rows
    )
    scatter = Picture(
        train_against_test(facts),
        f"Scatter plot of train against test {title}, one point per method and {one}. Mean train "
        f"and test score: {means}.",
        f"Train against test {title}, one mark per method and {one}. On the diagonal, test trials "
        "are decoded as well as training trials; the distance below it is overfitting.",
    )
    return Group("Scores", (scatter, *_differences(facts)))


def train_against_test(facts: Facts) -> Figure:
    """Draw train against test score of each method and subject; below the diagonal: overfitting."""
    units, metric, row = facts.units, facts.metric, facts.rows[0]
    look = looks(units.test)
    longest = max(map(len, look))
    columns = max(1, min(3, 64 // (longest + 4)))
    legend = 0.19 * -(-len(look) // columns)
    size = (max(WIDTH, 0.7 + 0.07 * longest), 0.86 * WIDTH + legend)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    values = np.concatenate([units.train, units.test, [[row.chance]]], axis=None)
    values = values[np.isfinite(values)]
    margin = 0.04 * (np.ptp(values) or 1.0)
    ends = (values.min() - margin, values.max() + margin)
    axes.plot(ends, ends, color=INK, lw=1)
    if np.isfinite(row.chance):
        axes.axhline(row.chance, color=GREY, ls="--", lw=1)
        # Beside the axes, where it hides no mark.
        axes.text(
            1.01, row.chance, "chance", color=GREY, fontsize=8, va="center",
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
    for name, style in look.items():
        axes.plot(
            units.train[name], units.test[name], ls="", ms=5.5, mew=0, alpha=0.8,
            # Matplotlib omits labels that begin with an underscore from legends.
            label=f" {name}" if name.startswith("_") else name,
            gid=f"dots:{name}", **style,  # type: ignore[arg-type]
        )  # fmt: skip
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    in_unit(axes.xaxis, metric)
    in_unit(axes.yaxis, metric)
    axes.set_xlabel(f"train {metric_title(metric)}")
    axes.set_ylabel(f"test {metric_title(metric)}")
    plain(axes)
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return figure


def _differences(facts: Facts) -> list[Picture]:
    known = facts.units.complete()
    if known is None:
        return []
    n, over, reference = len(known), facts.units.over, facts.rows[0].method
    means = known.sub(known[reference], axis=0).mean().drop(reference)
    told_of = "; ".join(f"{m} {score_text(mean, facts.metric, '+')}" for m, mean in means.items())
    caveat = "" if over == "subjects" else " Folds share training trials: intervals are too narrow."
    metric = metric_title(facts.metric)
    scaled = known * (100 if facts.metric in PERCENT else 1)
    figures = difference_figures(scaled, reference, metric, over)
    paired = figures["differences"]
    # Narrow enough for a phone, but very long names must leave room for scores.
    width = max(WIDTH, 2.4 + 0.075 * max(map(len, known)))
    paired.set_size_inches(width, paired.get_figheight())
    pictures = [
        Picture(
            paired,
            f"Differences of {metric} to {reference} for {n} {over}. Means: {told_of}.",
            f"Difference to {reference} for each of the {over}, mean and 95 % confidence interval, "
            f"not corrected for the number of methods.{caveat}",
        )
    ]
    if "ranks" in figures and len(known.columns) <= MOST_RANKED:
        ranks = known.rank(axis=1, ascending=False).mean().sort_values()
        listed = "; ".join(f"{name} {rank:.2f}" for name, rank in ranks.items())
        pictures.append(
            Picture(
                figures["ranks"],
                f"Critical difference diagram. Average ranks over {n} subjects: {listed}.",
                "Average ranks; a bar joins methods that do not differ significantly (Friedman and "
                "Nemenyi tests).",
            )
        )
    return pictures


# ------------------------------------------------------------------ channel importance


def what_decides(facts: Facts) -> Group | None:
    """Draw importance of channels and bands, and attention between bands; None if unknown."""
    if not facts.decisions and not facts.unexplained:
        return None
    notes = [f"{name} cannot be explained: {why}" for name, why in facts.unexplained.items()]
    pictures = []
    for one in facts.decisions:
        pictures.append(_importance(one, facts))
        pictures += [] if one.attention is None else [_attention(one, one.attention)]
    if pictures:
        found = len(electrode_info(facts.ch_names)[1])
        aligned = facts.answer.question.alignment
        notes = [
            "Importance of a channel in a band: change of the predicted class's score for a change "
            "of the channel's amplitude by one standard deviation over trials (exact gradient, "
            "mean absolute value over test trials, normalised to 100 % per model). It shows what "
            "the model uses, not the location of a source.",
            f"Electrode positions: {found} of {counted(len(facts.ch_names), 'channel')} known by "
            f"name{'' if found >= LEAST else ', too few for a map'}.",
            f"Computed for the best token methods, at most {MOST}, from one refitted model each: "
            "the first run of the subject with the median score.",
            ""
            if aligned == "none"
            else f"Trials were aligned ({aligned}), which mixes channels slightly: importances are "
            "those after alignment.",
            *notes,
        ]
    return Group("Channel importance", tuple(pictures), " ".join(filter(None, notes)))


def _ranked(values: NDArray[np.float64], names: Sequence[str], most: int = NAMED) -> str:
    """The names of the largest shares, with these in percent."""
    order = np.argsort(-values, kind="stable")[:most]
    return ", ".join(f"{names[i]} {100 * values[i]:.0f} %" for i in order)


def _importance(one: Decision, facts: Facts) -> Picture:
    n, bands = len(one.run.y), ""
    if len(one.names) > 1:
        bands = f" Bands: {_ranked(one.importance.sum(1), one.names, len(one.names))}."
    same = f"The refitted model predicts the stored class of all {n} test trials."
    if one.changed:
        same = (
            f"The refitted model predicts another class for {one.changed} of {n} test trials: the "
            "study ran on another machine or with other code."
        )
    score = score_said(one.run.test.get(facts.metric, np.nan), facts.metric)
    return Picture(
        importance_figure(one.importance, one.names, facts.ch_names),
        f"Importance of each channel for {one.method}. Largest: "
        f"{_ranked(one.importance.sum(0), facts.ch_names)}.{bands}",
        f"{one.method}: importance of each channel, mean over {counted(n, 'test trial')} of "
        f"{told(one.run)} (test {METRICS[facts.metric].title} {score}). {same}",
    )


def _attention(one: Decision, weights: NDArray[np.float64]) -> Picture:
    even = 100 / len(weights)
    bands = all(name.endswith(" Hz") for name in one.names)
    unit = ", Hz" if bands else ""
    figure = heat_map(
        weights,
        [name.removesuffix(" Hz") if bands else name for name in one.names],
        across=f"key{unit}",
        down=f"query{unit}",
        full=float(weights.max()),
    )
    return Picture(
        figure,
        f"Attention between the bands of {one.method}. Received on average: "
        f"{_ranked(weights.mean(0), one.names)}; uniform attention: {even:.0f} %.",
        f"{one.method}: attention weights in percent, mean over heads, layers and test trials. "
        f"Rows attend to columns; uniform attention would be {even:.0f} everywhere.",
    )


def importance_figure(
    shares: NDArray[np.float64], names: Sequence[str], ch_names: Sequence[str]
) -> Figure:
    """Draw channel importance: one scalp map per band, or bars where positions are unknown.

    A single band gets both.

    Parameters
    ----------
    shares : ndarray, shape (n_tokens, n_channels)
        Importance of each channel in each token, as
        :func:`~spdtokens.classifiers.explain.channel_importance` returns it.
    names : sequence of str
        Names of the tokens: bands.
    ch_names : sequence of str
        Names of the channels. Positions are looked up in the 10-05 system.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, not attached to pyplot.

    See Also
    --------
    spdtokens.classifiers.explain.channel_importance : Compute the shares.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.reporting.figures import importance_figure
    >>> shares = np.array([[0.2, 0.4, 0.1, 0.1, 0.2]])
    >>> figure = importance_figure(shares, ["8-30 Hz"], ["Cz", "C3", "C4", "Fz", "Pz"])
    >>> figure.axes[0].get_title()
    '8-30 Hz'
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
    # Maps are images within the figure: dots per inch.
    figure = Figure(figsize=(width, height * rows + (0.35 if mapped else 0.1)), dpi=160)
    figure.set_layout_engine("constrained")
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in every[panels:]:
        axes.remove()
    top = float(shares[:, places].max()) if mapped else float(shares.max())
    # From transparent to a blue visible on white and on black: one hue, ordered by strength.
    blue = [(0.17, 0.58, 0.87, alpha) for alpha in (0, 1)]
    for axes, share, name in zip(every, shares, names, strict=False):
        if mapped:
            image, _ = mne.viz.plot_topomap(
                share[places], info, axes=axes, show=False, vlim=(0, top), contours=0,
                cmap=LinearSegmentedColormap.from_list("strength", blue),
                # No extrapolation to parts of the head without electrodes.
                extrapolate="local",
                # Other interpolations would overshoot between electrodes.
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
    """Draw the channels of the largest importance, in percent."""
    order = np.argsort(-share, kind="stable")[:BARS]
    axes.barh(np.arange(len(order)), 100 * share[order], color=BLUE, height=0.7)
    axes.set_yticks(np.arange(len(order)), [ch_names[i] for i in order], fontsize=8)
    axes.set_ylim(max(len(order), 4) - 0.4, -0.6)
    axes.set_xlim(0, 105 * top)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("importance in %", fontsize=8)
    plain(axes, grid="x")


# ------------------------------------------------------------------ training curves


def training(facts: Facts) -> Group | None:
    """Draw the learning curves of networks; None without any."""
    import pandas as pd

    pictures = []
    for name, runs in facts.answer.results.items():
        # One row per run; a run that stopped early is NaN from there.
        curves = {
            curve: pd.DataFrame([r.curves[curve] for r in runs if curve in r.curves])
            for curve in dict.fromkeys(curve for run in runs for curve in run.curves)
        }
        finite = {curve: table.where(np.isfinite(table)) for curve, table in curves.items()}
        curves = {curve: table.dropna(axis=1, how="all") for curve, table in finite.items()}
        curves = {curve: table for curve, table in curves.items() if table.size}
        if curves:
            kept = [run.epoch for run in runs if run.epoch is not None]
            ends = ", ".join(f"{c} {t.iloc[:, -1].mean():.3f}" for c, t in curves.items())
            label = f"Learning curves of {name}, mean of {counted(len(runs), 'run')}, end: {ends}."
            pictures.append(Picture(_curves(curves, kept), label, name))
    if not pictures:
        return None
    return Group(
        "Training curves",
        tuple(pictures),
        "Mean over runs and one standard deviation. Train: on the batches trained on, with "
        "dropout. Dotted: the epoch whose weights were kept, median over runs.",
        small=True,
    )


def _curves(tables: Mapping[str, pd.DataFrame], kept: Sequence[int]) -> Figure:
    """Draw accuracy and loss by epoch: mean over the runs of a method, one standard deviation."""
    figure = Figure(figsize=(2.7, 3.4))
    # Fixed margins: a layout engine would take longer than drawing.
    figure.subplots_adjust(0.21, 0.13, 0.98, 0.98, hspace=0.12)
    every = figure.subplots(2, 1, sharex=True)
    for axes, what in zip(every, ("accuracy", "loss"), strict=True):
        for part, colour, dash in (("train", BLUE, "-"), ("validation", ORANGE, "--")):
            if (table := tables.get(f"{part} {what}")) is None:
                continue
            at = np.unique(np.linspace(0, table.shape[1] - 1, POINTS).round().astype(int))
            mean, half = table.iloc[:, at].mean(), table.iloc[:, at].std(ddof=0)
            axes.plot(at + 1, mean, color=colour, ls=dash, lw=1.6, label=part)
            axes.fill_between(at + 1, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
        if kept:
            axes.axvline(float(np.median(kept)), color=GREY, ls=":", lw=1.2, label="kept")
        axes.set_ylim(bottom=0, top=1.02 if what == "accuracy" else None)
        axes.set_ylabel(metric_title(what) if what in METRICS else what, fontsize=8)
        in_unit(axes.yaxis, what, 5)
        axes.tick_params(labelsize=8)
        plain(axes)
    if every[0].lines:
        every[0].legend(loc="lower center", frameon=False, fontsize=7.5, handlelength=1.8)
    every[1].set_xlabel("epoch", fontsize=8)
    every[1].xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


# ------------------------------------------------------------------ confusion matrices


def confusions(facts: Facts) -> Group:
    """Draw the confusion matrix of each method."""
    pictures = []
    for row in facts.rows:
        runs = facts.answer.results[row.method]
        # A class without trials is NaN.
        with np.errstate(invalid="ignore"):
            counts = np.sum([confusion(run.y, run.probabilities) for run in runs], axis=0)
            shares = counts / counts.sum(1, keepdims=True)
        recalls = zip(facts.classes, np.diag(shares), strict=True)
        right = "; ".join(f"{name} {100 * share:.0f} % right" for name, share in recalls)
        figure = heat_map(shares, facts.classes, across="predicted", down="true", bold=True)
        pictures.append(Picture(figure, f"Confusion matrix of {row.method}: {right}.", row.method))
    return Group(
        "Confusion matrices",
        tuple(pictures),
        "Percent of each true class, over the test trials of all folds and seeds.",
        small=True,
    )


def heat_map(
    shares: NDArray[np.float64],
    names: Sequence[str],
    *,
    across: str,
    down: str,
    full: float = 1.0,
    bold: bool = False,
) -> Figure:
    """Draw a matrix of proportions (n, n) in percent.

    ``full`` is the proportion with the strongest colour; ``bold`` sets the diagonal in bold.
    """
    n = len(shares)
    side = min(2.0 + 0.22 * n, 4.2)
    figure = Figure(figsize=(side + 0.3, side), layout="constrained")
    axes = figure.add_subplot()
    for i, j in np.argwhere(np.isfinite(shares)):
        # Never opaque: the number must be readable in light and dark mode.
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


#: Figures of a section, in its order; add your own here.
GROUPS: list[Callable[[Facts], Group | None]] = [
    scores,
    what_decides,
    training,
    confusions,
]


def groups(facts: Facts, *, model: bool = False) -> list[Group]:
    """Draw all figures of a section; of one about a model first what it confuses and uses."""
    first = [confusions, what_decides] if model else []
    made = [make(facts) for make in dict.fromkeys([*first, *GROUPS])]
    return [group for group in made if group is not None]
