"""The paper's figures, drawn from our own runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.metrics import confusion_matrix

from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Selection
from spdtokens.evaluation.plan import Source
from spdtokens.paper.reproduce.experiments import EMBEDDINGS
from spdtokens.paper.reproduce.roles import BCI2A, ROLES, Role
from spdtokens.paper.reproduce.run import Extent
from spdtokens.paper.reproduce.training import Watched
from spdtokens.paper.theory.figures import conditioning_figure
from spdtokens.runtime.threads import one_thread

# Okabe and Ito's colours, distinct for colour-blind readers.
COLOURS = {"Log-Euc": "#D55E00", "BWSPD": "#0072B2", "Euclidean": "#009E73"}
CLASS_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v")
PARTS = {"train": "-", "validation": ":", "test": "--"}


@dataclass(frozen=True)
class PaperFigure:
    """A figure by name.

    Attributes
    ----------
    name, title : str
    label : str
        The paper's; empty for what it left to the future.
    draw : callable
        From the extent and a source of data to a figure.
    caption : str
        What a reader sees in it.
    """

    name: str
    title: str
    label: str
    draw: Callable[[Extent, Source], Figure]
    caption: str


def architecture(_extent: Extent, _source: Source) -> Figure:
    """From a trial to a class, with the sizes of BCI2a."""
    figure = Figure(figsize=(9.2, 2.0), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    steps = (
        ("EEG trial", "22 x 438"),
        ("covariance", "one a band\n22 x 22"),
        ("token", "triu log C,\nsqrt C or C\n253"),
        ("projection", "shared, linear\n253 to 128"),
        ("positions,\nBN-Embed", "128"),
        ("transformer", "6 layers,\n8 heads"),
        ("mean over\ntokens", "128"),
        ("classifier", "4 classes"),
    )
    for i, (name, size) in enumerate(steps):
        colour = "#D55E00" if name == "token" else "#0072B2"
        axes.text(
            i,
            0.62,
            name,
            ha="center",
            va="center",
            fontsize=9.5,
            color="white",
            bbox={"boxstyle": "round,pad=0.45", "facecolor": colour, "edgecolor": "none"},
        )
        axes.text(i, 0.36, size, ha="center", va="top", fontsize=8.5)
        if i:
            axes.annotate(
                "", (i - 0.40, 0.62), (i - 0.60, 0.62), arrowprops={"arrowstyle": "-|>", "lw": 1}
            )
    axes.set(xlim=(-0.6, len(steps) - 0.4), ylim=(-0.1, 0.85))
    axes.set_title("Only the token (orange) differs between the three geometries", fontsize=11)
    return figure


def _seeds(extent: Extent) -> tuple[int, ...]:
    return SEEDS[: extent.seeds]


def _classes(role: Role, extent: Extent, source: Source) -> tuple[str, ...]:
    return source.dataset(role.dataset(extent.data), Selection()).classes


def convergence(extent: Extent, source: Source) -> Figure:
    """Conditioning of the backward pass beside what it does to training."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, embedding in EMBEDDINGS.items():
        runs = Watched(BCI2A, extent.data, 0, embedding, source).train(_seeds(extent))
        losses = np.array([run.curves["train loss"] for run in runs])
        _band(axes, losses, COLOURS[name], name)
    axes.set(xlabel="epoch", ylabel="training loss, mean and range over seeds", yscale="log")
    axes.set_title(f"{BCI2A.dataset(extent.data)}, first subject: convergence", fontsize=11)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _band(axes: Axes, curves: np.ndarray, colour: str, label: str, style: str = "-") -> None:
    epochs = np.arange(1, curves.shape[1] + 1)
    axes.plot(epochs, curves.mean(0), style, color=colour, label=label, lw=1.5)
    axes.fill_between(epochs, curves.min(0), curves.max(0), color=colour, alpha=0.15, lw=0)


def token_spaces(extent: Extent, source: Source) -> Figure:
    """t-SNE of the three token spaces: training trials filled, test trials hollow."""
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    for axes, (name, embedding) in zip(figure.subplots(1, 3), EMBEDDINGS.items(), strict=True):
        watched = Watched(BCI2A, extent.data, 0, embedding, source)
        flat = watched.tokens.flatten(1).numpy()
        flat = (flat - flat.mean(0)) / (flat.std(0) + 1e-12)
        with one_thread():  # its threads wait for each other more than they work
            place = TSNE(2, perplexity=30, init="pca", random_state=0).fit_transform(flat)
        is_test = np.isin(np.arange(len(flat)), watched.places["test"])
        for i, title in enumerate(watched.classes):
            for part, filled in ((~is_test, True), (is_test, False)):
                mine = part & (watched.y == i)
                axes.scatter(
                    *place[mine].T,
                    s=14,
                    marker=MARKERS[i],
                    facecolors=CLASS_COLOURS[i] if filled else "none",
                    edgecolors=CLASS_COLOURS[i],
                    linewidths=0.7,
                    label=title if filled else None,
                )
        axes.set(xticks=[], yticks=[], title=name)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("Filled: first session; hollow: second session", fontsize=10)
    return figure


def training_curves(extent: Extent, source: Source) -> Figure:
    """Accuracy of train, validation and test trials against the epoch."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for axes, role in zip(figure.subplots(1, 3, sharey=True), ROLES, strict=True):
        for name, embedding in EMBEDDINGS.items():
            runs = Watched(role, extent.data, role.subject, embedding, source).train(_seeds(extent))
            for part, style in PARTS.items():
                curves = np.array([run.curves[f"{part} accuracy"] for run in runs])
                epochs = np.arange(1, curves.shape[1] + 1)
                label = f"{name}, {part}"
                axes.plot(epochs, curves.mean(0), style, color=COLOURS[name], lw=1.3, label=label)
        axes.set(xlabel="epoch", title=role.dataset(extent.data), ylim=(0, 1.02))
        axes.axhline(1 / len(_classes(role, extent, source)), color="#666666", lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("accuracy, mean over seeds")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False
    )
    return figure


def confusion(extent: Extent, source: Source) -> Figure:
    """Confusion of two subjects, seed 42: on training trials, and on the test session."""
    figure = Figure(figsize=(8.6, 7.6), layout="constrained")
    for row, position in zip(figure.subplots(2, 2), (1, 3), strict=True):
        watched = Watched(BCI2A, extent.data, position, "log-euclidean", source)
        run = watched.train((42,))[0]
        with torch.inference_mode():
            predicted = run.model(watched.tokens).argmax(1).numpy()
        for axes, part in zip(row, ("train", "test"), strict=True):
            rows = watched.places[part]
            counts = confusion_matrix(
                watched.y[rows], predicted[rows], labels=range(len(watched.classes))
            )
            share = counts / counts.sum(1, keepdims=True)
            axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
            for i, j in np.ndindex(*counts.shape):
                colour = "white" if share[i, j] > 0.55 else "black"
                axes.text(j, i, str(counts[i, j]), ha="center", va="center", color=colour)
            ticks = range(len(watched.classes))
            axes.set_xticks(ticks, watched.classes, rotation=30, ha="right", fontsize=8)
            axes.set_yticks(ticks, watched.classes, fontsize=8)
            right = np.trace(counts) / counts.sum()
            axes.set_title(f"subject {position + 1}, {part}: {100 * right:.1f} %", fontsize=10)
            axes.set(xlabel="predicted", ylabel="true")
    return figure


def band_attention(extent: Extent, source: Source) -> Figure:
    """What the bands of a trial attend to, averaged over test trials, layers and heads."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    bands = ("4-8", "8-13", "13-30")
    for axes, role in zip(figure.subplots(1, 3), ROLES, strict=True):
        watched = Watched(role, extent.data, role.subject, "log-euclidean", source, multiband=True)
        network = watched.train((42,))[0].model
        assert isinstance(network, SPDTokenTransformer)
        with torch.inference_mode():
            tokens = watched.tokens[watched.places["test"]]
            weights = network.attention_weights(tokens).mean((0, 1, 2)).numpy()
        image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=max(2 / 3, weights.max()))
        for i, j in np.ndindex(*weights.shape):
            axes.text(j, i, f"{weights[i, j]:.2f}", ha="center", va="center", fontsize=9)
        axes.set_xticks(range(3), bands)
        axes.set_yticks(range(3), bands)
        axes.set(xlabel="to the band (Hz)", ylabel="from the band (Hz)")
        axes.set_title(role.dataset(extent.data), fontsize=10)
    figure.colorbar(image, ax=figure.axes, label="attention", shrink=0.8)
    return figure


FIGURES = {
    figure.name: figure
    for figure in (
        PaperFigure(
            "architecture",
            "Architecture",
            "fig:architecture_overview",
            architecture,
            "From a trial of BCI2a to a class, with the sizes of what passes.",
        ),
        PaperFigure(
            "conditioning",
            "Gradient conditioning",
            "fig:gradient_conditioning",
            lambda _extent, _source: conditioning_figure(),
            "How unevenly the backward pass scales gradients. Marks are measured, lines are what "
            "the paper claims.",
        ),
        PaperFigure(
            "convergence",
            "Convergence",
            "fig:gradient_conditioning",
            convergence,
            "Training loss of the first subject against the epoch, mean and range over seeds.",
        ),
        PaperFigure(
            "token-spaces",
            "t-SNE of tokens",
            "fig:embedding_vis",
            token_spaces,
            "Trials of the first subject in the three token spaces. Filled: the session trained "
            "on; hollow: the session tested.",
        ),
        PaperFigure(
            "curves",
            "Training curves",
            "fig:training_curves",
            training_curves,
            "Accuracy of one subject against the epoch, mean over seeds. Nothing is chosen by the "
            "curves of test trials. The grey line is chance.",
        ),
        PaperFigure(
            "confusion",
            "Confusion",
            "fig:confusion_matrices_key",
            confusion,
            "Numbers of trials of subjects 2 and 4, Log-Euclidean tokens, seed 42: on the trials "
            "trained on, and on the test session.",
        ),
        PaperFigure(
            "attention",
            "Attention between bands",
            "",
            band_attention,
            "Left to the future by the paper: what each band attends to, averaged over test "
            "trials, layers and heads. Rows sum to one.",
        ),
    )
}
