"""The paper's figures, reproduced, as PNG files with a description in their metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from PIL import Image
from sklearn.manifold import TSNE
from sklearn.metrics import confusion_matrix

from spdtokens._files import written_whole
from spdtokens.classifiers import TokenTransformerClassifier
from spdtokens.classifiers.base import held_back
from spdtokens.classifiers.methods import get_method
from spdtokens.classifiers.nn import Pool, RunPlan, SPDTokenTransformer, TrainedRun, train_runs
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Selection
from spdtokens.errors import ReportError
from spdtokens.evaluation.execute import matrices
from spdtokens.evaluation.plan import Source, split_front
from spdtokens.evaluation.protocols import check_fold, get_protocol
from spdtokens.evaluation.runs import code_digest, origin
from spdtokens.geometry import TokenEmbedding
from spdtokens.paper.reproduce.experiments import BCI2A, EMBEDDINGS, ROLES, Data, Role
from spdtokens.paper.reproduce.run import Extent
from spdtokens.paper.theory.gradients import conditioning_figure
from spdtokens.reporting.figures import BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE
from spdtokens.runtime.threads import one_thread

COLOURS = {"Log-Euc": ORANGE, "BWSPD": BLUE, "Euclidean": GREEN}
PARTS = {"train": "-", "validation": ":", "test": "--"}


@dataclass(frozen=True)
class Watched:
    """Tokens of a subject, split into train, validation and test.

    Attributes
    ----------
    role : Role
        The data set.
    classes : tuple of str
        Names of the classes.
    tokens : Tensor, shape (n_trials, n_tokens, n_features)
        Tokens of all trials.
    y : ndarray, shape (n_trials,)
        Labels.
    places : dict of str to ndarray
        Rows of ``train``, ``validation`` and ``test``.
    """

    role: Role
    classes: tuple[str, ...]
    tokens: torch.Tensor
    y: NDArray[np.int64]
    places: dict[str, NDArray[np.int64]]

    @classmethod
    def of(
        cls, role: Role, data: Data, subject: int, embedding: str, source: Source,
        *, multiband: bool = False,
    ) -> Watched:  # fmt: skip
        """Load a subject by index and embed the trials, e.g. with ``'log-euclidean'``."""
        name = role.dataset(data)
        dataset = source.dataset(name, Selection())
        who = dataset.subjects[min(subject, len(dataset.subjects) - 1)]
        trials = source.trials(name, Selection(), (who,))
        fold = get_protocol(role.protocol).folds(trials.table, who)[0]
        check_fold(fold, trials)
        settings = role.settings(multiband=multiband)
        front, _ = split_front(get_method(f"token-{embedding}").make(dataset, settings))
        assert front is not None
        parts = {part: rows for part, rows in fold.parts().items() if len(rows)}
        if "validation" not in parts:  # for its curve only: nothing is selected with it
            own = held_back(42, trials.table.y[fold.train], None, 0.125)
            assert own.validation is not None
            parts["validation"] = fold.train[own.validation]
            parts["train"] = fold.train[own.train]
        C = {part: matrices(trials, front, rows) for part, rows in parts.items()}
        first = TokenEmbedding(embedding.replace("-", "_"), unit_free=True).fit(C["train"])
        tokens = torch.from_numpy(np.concatenate([first.tokens(C[part]) for part in C])).float()
        places = np.split(np.arange(len(tokens)), np.cumsum([len(C[part]) for part in C])[:-1])
        y = np.concatenate([trials.table.y[parts[part]] for part in C])
        return cls(role, dataset.classes, tokens, y, dict(zip(C, places, strict=True)))

    def train(self, seeds: tuple[int, ...], epochs: int | None = None) -> list[TrainedRun]:
        """Train the paper's network and record curves of train, validation and test.

        The last epoch is kept; the curves are not used for selection.
        """
        network = TokenTransformerClassifier(**self.role.settings(epochs=epochs).transformer())
        n_tokens, n_features = self.tokens.shape[1:]
        model = network._module(n_features, n_tokens, len(self.classes))
        train, validation, test = (self.places[part] for part in PARTS)
        plans = [RunPlan(seed, train, validation, watched={"test": test}) for seed in seeds]
        pool = Pool(self.tokens, torch.from_numpy(self.y))
        return train_runs(model, pool, plans, network._recipe())


Draw = Callable[[Extent, Source], Figure]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper.

    Attributes
    ----------
    name, title : str
        Name and title of the figure.
    label : str
        LaTeX label in the paper; empty for future work.
    draw : callable
        Function from an extent and a data source to a figure.
    caption : str
        Caption of the figure.
    """

    name: str
    title: str
    label: str
    draw: Draw
    caption: str


#: All figures, in the order of definition; see :func:`paper_figure`.
FIGURES: dict[str, PaperFigure] = {}


def paper_figure(name: str, title: str, label: str = "") -> Callable[[Draw], Draw]:
    """Register a function that draws a figure; its docstring is the caption."""

    def register(draw: Draw) -> Draw:
        caption = " ".join((draw.__doc__ or "").split())
        FIGURES[name] = PaperFigure(name, title, label, draw, caption)
        return draw

    return register


@paper_figure("architecture", "Architecture", "fig:architecture_overview")
def architecture(_extent: Extent, _source: Source) -> Figure:
    """Processing steps from a trial of BCI2a to a class, with array sizes."""
    figure = Figure(figsize=(9.2, 2.0), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    steps = (
        ("EEG trial", "22 x 438"),
        ("covariance", "one per band\n22 x 22"),
        ("token", "triu log C,\nsqrt C or C\n253"),
        ("projection", "shared, linear\n253 to 128"),
        ("positions,\nBN-Embed", "128"),
        ("transformer", "6 layers,\n8 heads"),
        ("mean over\ntokens", "128"),
        ("classifier", "4 classes"),
    )
    for i, (name, size) in enumerate(steps):
        colour = ORANGE if name == "token" else BLUE
        axes.text(
            i, 0.62, name, ha="center", va="center", fontsize=9.5, color="white",
            bbox={"boxstyle": "round,pad=0.45", "facecolor": colour, "edgecolor": "none"},
        )  # fmt: skip
        axes.text(i, 0.36, size, ha="center", va="top", fontsize=8.5)
        if i:
            axes.annotate(
                "", (i - 0.40, 0.62), (i - 0.60, 0.62), arrowprops={"arrowstyle": "-|>", "lw": 1}
            )
    axes.set(xlim=(-0.6, len(steps) - 0.4), ylim=(-0.1, 0.85))
    axes.set_title("Only the token (orange) differs between the three geometries", fontsize=11)
    return figure


@paper_figure("conditioning", "Gradient conditioning", "fig:gradient_conditioning")
def conditioning(_extent: Extent, _source: Source) -> Figure:
    """Range of the factors by which the backward pass scales gradients.

    Markers: measured. Lines: claimed by the paper.
    """
    return conditioning_figure()


@paper_figure("convergence", "Convergence", "fig:gradient_conditioning")
def convergence(extent: Extent, source: Source) -> Figure:
    """Training loss of the first subject against the epoch, mean and range over seeds."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, embedding in EMBEDDINGS.items():
        runs = Watched.of(BCI2A, extent.data, 0, embedding, source).train(SEEDS[: extent.seeds])
        losses, colour = np.array([run.curves["train loss"] for run in runs]), COLOURS[name]
        epochs = np.arange(1, losses.shape[1] + 1)
        axes.plot(epochs, losses.mean(0), "-", color=colour, label=name, lw=1.5)
        axes.fill_between(epochs, losses.min(0), losses.max(0), color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="epoch", ylabel="training loss, mean and range over seeds", yscale="log")
    axes.set_title(f"{BCI2A.dataset(extent.data)}, first subject: convergence", fontsize=11)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


@paper_figure("token-spaces", "t-SNE of tokens", "fig:embedding_vis")
def token_spaces(extent: Extent, source: Source) -> Figure:
    """t-SNE of the trials of the first subject in the three token spaces.

    Filled: training session. Hollow: test session.
    """
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    for axes, (name, embedding) in zip(figure.subplots(1, 3), EMBEDDINGS.items(), strict=True):
        watched = Watched.of(BCI2A, extent.data, 0, embedding, source)
        flat = watched.tokens.flatten(1).numpy()
        flat = (flat - flat.mean(0)) / (flat.std(0) + 1e-12)
        with one_thread():  # faster than with many threads
            place = TSNE(2, perplexity=30, init="pca", random_state=0).fit_transform(flat)
        is_test = np.isin(np.arange(len(flat)), watched.places["test"])
        for i, title in enumerate(watched.classes):
            for part, face, label in ((~is_test, PALETTE[i], title), (is_test, "none", None)):
                axes.scatter(
                    *place[part & (watched.y == i)].T, s=14, marker=MARKERS[i], facecolors=face,
                    edgecolors=PALETTE[i], linewidths=0.7, label=label,
                )  # fmt: skip
        axes.set(xticks=[], yticks=[], title=name)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("Filled: training session; hollow: test session", fontsize=10)
    return figure


@paper_figure("curves", "Training curves", "fig:training_curves")
def training_curves(extent: Extent, source: Source) -> Figure:
    """Accuracy of one subject against the epoch, mean over seeds.

    The test curves are not used for selection. Grey line: chance level.
    """
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for axes, role in zip(figure.subplots(1, 3, sharey=True), ROLES, strict=True):
        for name, embedding in EMBEDDINGS.items():
            watched = Watched.of(role, extent.data, role.subject, embedding, source)
            runs = watched.train(SEEDS[: extent.seeds])
            for part, style in PARTS.items():
                curves = np.array([run.curves[f"{part} accuracy"] for run in runs])
                epochs = np.arange(1, curves.shape[1] + 1)
                label = f"{name}, {part}"
                axes.plot(epochs, curves.mean(0), style, color=COLOURS[name], lw=1.3, label=label)
        axes.set(xlabel="epoch", title=role.dataset(extent.data), ylim=(0, 1.02))
        axes.axhline(1 / len(watched.classes), color=GREY, lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("accuracy, mean over seeds")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False
    )
    return figure


def _heat_map(
    axes: Axes, shares: NDArray[Any], numbers: NDArray[Any], names: Sequence[str]
) -> AxesImage:
    """Draw a square matrix of shares as colours, with numbers as text."""
    for i, j in np.ndindex(*shares.shape):
        colour = "white" if shares[i, j] > 0.55 else "black"
        axes.text(j, i, f"{numbers[i, j]:g}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    return axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)


@paper_figure("confusion", "Confusion", "fig:confusion_matrices_key")
def confusion(extent: Extent, source: Source) -> Figure:
    """Confusion matrices of subjects 2 and 4, Log-Euclidean tokens, seed 42.

    Left: training trials. Right: test session. Numbers are trials.
    """
    figure = Figure(figsize=(8.6, 7.6), layout="constrained")
    for row, position in zip(figure.subplots(2, 2), (1, 3), strict=True):
        watched = Watched.of(BCI2A, extent.data, position, "log-euclidean", source)
        run = watched.train((42,))[0]
        with torch.inference_mode():
            predicted = run.model(watched.tokens).argmax(1).numpy()
        for axes, part in zip(row, ("train", "test"), strict=True):
            rows = watched.places[part]
            counts = confusion_matrix(
                watched.y[rows], predicted[rows], labels=range(len(watched.classes))
            )
            _heat_map(axes, counts / counts.sum(1, keepdims=True), counts, watched.classes)
            right = np.trace(counts) / counts.sum()
            axes.set_title(f"subject {position + 1}, {part}: {100 * right:.1f} %", fontsize=10)
            axes.set(xlabel="predicted", ylabel="true")
    return figure


@paper_figure("attention", "Attention between bands")
def band_attention(extent: Extent, source: Source) -> Figure:
    """Attention weights between bands, averaged over test trials, layers and heads.

    Future work of the paper. Rows sum to one.
    """
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    for axes, role in zip(figure.subplots(1, 3), ROLES, strict=True):
        who = (role, extent.data, role.subject, "log-euclidean", source)
        watched = Watched.of(*who, multiband=True)
        network = watched.train((42,))[0].model
        assert isinstance(network, SPDTokenTransformer)
        with torch.inference_mode():
            tokens = watched.tokens[watched.places["test"]]
            weights = network.attention_weights(tokens).mean((0, 1, 2)).numpy()
        image = _heat_map(axes, weights, weights.round(2), ("4-8", "8-13", "13-30"))
        axes.set(xlabel="to the band (Hz)", ylabel="from the band (Hz)")
        axes.set_title(role.dataset(extent.data), fontsize=10)
    figure.colorbar(image, ax=figure.axes, label="attention", shrink=0.8)
    return figure


@dataclass(frozen=True)
class Drawn:
    """A figure that was written.

    Attributes
    ----------
    path : Path
        The file.
    label : str
        Description of the figure, used as alternative text.
    command : str
        Command that draws it.
    extent : dict
        Fields of the :class:`Extent`.
    origin : dict
        Versions of the code and of packages.
    width, height : int
        Size in pixels.
    """

    path: Path
    label: str
    command: str
    extent: dict[str, Any]
    origin: dict[str, str]
    width: int
    height: int


def write_drawn(figure: Figure, about: PaperFigure, extent: Extent, folder: Path) -> Path:
    """Write a figure as ``NAME.png``, with description, command and origin as metadata."""
    path, command = folder / f"{about.name}.png", extent.command(about.name)
    comment = json.dumps({"command": command, "extent": asdict(extent), "origin": origin()})
    metadata = {"Title": about.title, "Description": described(figure), "Comment": comment}
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150, metadata=metadata)
    return path


def read_drawn(path: Path) -> Drawn:
    """Read what :func:`write_drawn` wrote.

    Raises
    ------
    ReportError
        If the file is not such a figure.
    """
    try:
        with Image.open(path) as image:
            texts: dict[str, str] = image.text  # type: ignore[attr-defined]
            width, height = image.size
        comment = json.loads(texts["Comment"])
        return Drawn(path, texts["Description"], **comment, width=width, height=height)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ReportError(
            f"{path} must be written by this version of spdtokens reproduce. Delete it and run: "
            f"spdtokens reproduce {path.stem} --out {path.parent}"
        ) from error


def is_drawn(path: Path, extent: Extent) -> bool:
    """Whether the figure exists and was drawn by the same code with the same extent."""
    try:
        drawn = read_drawn(path)
    except ReportError:  # missing, or written by another version
        return False
    return drawn.extent == asdict(extent) and drawn.origin["code"] == code_digest()


def described(figure: Figure) -> str:
    """Describe a figure: the title, last values of the lines and texts of all axes.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> axes = figure.add_subplot(title="loss")
    >>> _ = axes.plot([3.0, 0.5], label="ours")
    >>> described(figure)
    'loss: ours ends at 0.5.'
    """
    parts = []
    for axes in figure.axes:
        said = [
            f"{line.get_label()} ends at {float(line.get_ydata()[-1]):.3g}"  # type: ignore[index, arg-type]
            for line in axes.lines
            if not str(line.get_label()).startswith("_")
        ]
        said += [text.get_text() for text in axes.texts]
        title = axes.get_title()
        if said or title:
            parts.append(": ".join(filter(None, (title, "; ".join(said)))))
    # Remove TeX markup and line breaks.
    text = ". ".join(parts).replace("$", "").replace("\\", "").replace("\n", " ")
    return text + "."
