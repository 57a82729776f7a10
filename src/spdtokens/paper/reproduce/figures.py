"""The paper's figures, reproduced, as PNG files with a description in their metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image
from sklearn.manifold import TSNE
from sklearn.metrics import confusion_matrix

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.classifiers import TokenTransformerClassifier
from spdtokens.classifiers.base import held_back
from spdtokens.classifiers.methods import get_method
from spdtokens.classifiers.nn import Pool, RunPlan, SPDTokenTransformer, TrainedRun, train_runs
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Selection
from spdtokens.errors import DataError, ReportError, StudyError
from spdtokens.evaluation.execute import matrices
from spdtokens.evaluation.plan import Source, split_front
from spdtokens.evaluation.protocols import check_fold, get_protocol
from spdtokens.evaluation.runs import code_digest, origin
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.experiments import BCI2A, EMBEDDINGS, EXPERIMENTS, ROLES, Role
from spdtokens.paper.reproduce.run import Extent, Reproduction, dataset_of, subjects_of
from spdtokens.paper.theory.gradients import conditioning_figure
from spdtokens.reporting.figures import BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE
from spdtokens.runtime.threads import one_thread

COLOURS = {"Log-Euc": ORANGE, "BWSPD": BLUE, "Euclidean": GREEN}
#: Of more axes than this, texts inside the axes are not described.
MANY = 4
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
        cls, role: Role, extent: Extent, subject: str, embedding: str, source: Source,
        *, multiband: bool = False,
    ) -> Watched:  # fmt: skip
        """Load a subject by the paper's name and embed its trials.

        Parameters
        ----------
        role : Role
            The data set.
        extent : Extent
            Data.
        subject : str
            The paper's name of the subject.
        embedding : str
            Name of the embedding, such as ``'log-euclidean'``.
        source : Source
            Source of the data sets.
        multiband : bool
            Whether to use three bands per trial instead of one.
        """
        there, reason = subjects_of(role, replace(extent, subjects=None), source)
        if subject not in there:
            known = f"There are: {', '.join(there)}." if there else reason
            raise DataError(f"The figure shows subject {subject} of {role.name}. {known}")
        mine, who = extent.role(role), there[subject]
        options = mine.dataset_options(extent.data, extent.split)
        dataset = dataset_of(role, extent, source)
        trials = source.trials(mine.dataset(extent.data), Selection(), (who,), options)
        fold = get_protocol(role.protocol).folds(trials.table, who)[0]
        check_fold(fold, trials)
        settings = role.settings(multiband=multiband)
        front, network = split_front(get_method(f"token-{embedding}").make(dataset, settings))
        assert front is not None
        assert isinstance(network, TokenTransformerClassifier)
        parts = {part: rows for part, rows in fold.parts().items() if len(rows)}
        if "validation" not in parts:  # for its curve only: nothing is selected with it
            own = held_back(42, trials.table.y[fold.train], None, 0.125)
            assert own.validation is not None
            parts["validation"] = fold.train[own.validation]
            parts["train"] = fold.train[own.train]
        C = {part: matrices(trials, front, rows) for part, rows in parts.items()}
        first = network._embedding()
        assert first is not None
        first.fit(C["train"])
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


#: Function from an extent, a data source and, if it shows runs, the path of a store to a figure.
Draw = Callable[..., Figure]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper.

    Attributes
    ----------
    name, title : str
        Name and title of the figure.
    labels : tuple of str
        LaTeX labels in the paper; empty for future work.
    draw : callable
        See :data:`Draw`.
    caption : str
        Caption of the figure.
    shows_runs : bool
        Whether it shows runs of a store.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    draw: Draw
    caption: str
    shows_runs: bool = False

    @property
    def label(self) -> str:
        """The labels as one text."""
        return ", ".join(self.labels)

    def drawn(self, extent: Extent, source: Source, store: Path) -> Figure:
        """Draw the figure.

        Parameters
        ----------
        extent : Extent
            Data, subjects, seeds and epochs.
        source : Source
            Source of the data sets.
        store : Path
            Store of runs, used by figures that show runs. Missing runs are done and added to it.
        """
        return self.draw(extent, source, *([store] if self.shows_runs else []))


#: All figures, in the order of definition; see :func:`paper_figure`.
FIGURES: dict[str, PaperFigure] = {}


def paper_figure(
    name: str, title: str, *labels: str, shows_runs: bool = False
) -> Callable[[Draw], Draw]:
    """Register a function that draws a figure; its docstring is the caption."""

    def register(draw: Draw) -> Draw:
        caption = " ".join((draw.__doc__ or "").split())
        FIGURES[name] = PaperFigure(name, title, labels, draw, caption, shows_runs)
        return draw

    return register


def _present(extent: Extent, source: Source) -> list[Role]:
    """Return the roles whose data sets are there; at least one must be."""
    reasons = [subjects_of(role, extent, source)[1] for role in ROLES]
    if all(reasons):
        raise DataError(" ".join(reasons))
    return [role for role, reason in zip(ROLES, reasons, strict=True) if not reason]


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


@paper_figure("conditioning", "Gradient conditioning (a)", "fig:gradient_conditioning")
def conditioning(_extent: Extent, _source: Source) -> Figure:
    """Range of the factors by which the backward pass scales gradients.

    Markers: measured. Lines: claimed by the paper.
    """
    return conditioning_figure()


@paper_figure("convergence", "Gradient conditioning (b): convergence", "fig:gradient_conditioning")
def convergence(extent: Extent, source: Source) -> Figure:
    """Training loss of the first subject against the epoch, mean and range over seeds."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, embedding in EMBEDDINGS.items():
        runs = Watched.of(BCI2A, extent, BCI2A.subject, embedding, source).train(
            SEEDS[: extent.seeds]
        )
        losses, colour = np.array([run.curves["train loss"] for run in runs]), COLOURS[name]
        epochs = np.arange(1, losses.shape[1] + 1)
        axes.plot(epochs, losses.mean(0), "-", color=colour, label=name, lw=1.5)
        axes.fill_between(epochs, losses.min(0), losses.max(0), color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="epoch", ylabel="training loss, mean and range over seeds", yscale="log")
    axes.set_title(f"{BCI2A.dataset(extent.data)}, first subject: convergence", fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
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
        watched = Watched.of(BCI2A, extent, BCI2A.subject, embedding, source)
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
    roles = _present(extent, source)
    grid = figure.subplots(1, len(roles), sharey=True, squeeze=False)
    for axes, role in zip(grid.flat, roles, strict=True):
        for name, embedding in EMBEDDINGS.items():
            watched = Watched.of(role, extent, role.subject, embedding, source)
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


@paper_figure(
    "confusion",
    "Confusion",
    "fig:confusion_matrices_key",
    "fig:confusion_s2",
    "fig:confusion_s4",
)
def confusion(extent: Extent, source: Source) -> Figure:
    """Confusion matrices of subjects 2 and 4, Log-Euclidean tokens, seed 42.

    Left: training trials. Right: test session. Numbers are trials.
    """
    figure = Figure(figsize=(8.6, 7.6), layout="constrained")
    for row, subject in zip(figure.subplots(2, 2), ("S2", "S4"), strict=True):
        watched = Watched.of(BCI2A, extent, subject, "log-euclidean", source)
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
            axes.set_title(f"{subject}, {part}: {100 * right:.1f} %", fontsize=10)
            axes.set(xlabel="predicted", ylabel="true")
    return figure


def _confusions(role: Role) -> Draw:
    """Make a function that draws confusion matrices of all subjects of a data set."""

    def draw(extent: Extent, source: Source, store: Path) -> Figure:
        reproduction = Reproduction([EXPERIMENTS[f"subjects-{role.name.lower()}"]], extent, source)
        with RunStore(store) as runs:
            if failures := reproduction.run(runs, InProcess(source)).failures:
                raise StudyError(
                    f"The figure needs all runs of subjects-{role.name.lower()}, but "
                    f"{counted(len(failures), 'run')} failed: {failures[0]}"
                )
            keys = [spec.key for specs in reproduction.planned.specs for spec in specs]
            results = runs.results(keys, reproduction.planned.code)
        classes = dataset_of(role, extent, source).classes
        counts: dict[str, dict[str, NDArray[np.int64]]] = {}
        for run in results:
            found = confusion_matrix(run.y, run.probabilities.argmax(1), labels=range(len(classes)))
            of, seed = counts.setdefault(run.spec.subject, {}), str(run.spec.seed)
            of[seed] = of[seed] + found if seed in of else found  # summed over folds
        plain = {who: {seed: n.tolist() for seed, n in of.items()} for who, of in counts.items()}
        with written_whole(store.with_name(f"confusion-all-{role.name.lower()}.json")) as temporary:
            temporary.write_text(json.dumps({"classes": classes, "counts": plain}) + "\n")
        return _small_multiples(counts, classes)

    # The caption is the docstring of what is registered.
    draw.__doc__ = f"""Confusion matrices of all subjects of {role.name}, Log-Euclidean tokens.

    Test trials of all seeds of the table subjects-{role.name.lower()}; predictions of training
    trials are not stored. Numbers are percent of the trials of the true class (rows)."""
    return draw


def _small_multiples(
    counts: Mapping[str, Mapping[str, NDArray[np.int64]]], classes: Sequence[str]
) -> Figure:
    """Draw the sum over seeds of the confusion matrices of each subject."""
    wide = min(len(counts), max(3, math.ceil(math.sqrt(len(counts)))))
    high = -(-len(counts) // wide)
    figure = Figure(figsize=(2.6 * wide + 0.8, 2.75 * high + 0.9), layout="constrained")
    grid = figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False)
    for axes, (subject, seeds) in zip(grid.flat, counts.items(), strict=False):
        total = np.sum(list(seeds.values()), axis=0)
        shares = total / np.maximum(total.sum(1, keepdims=True), 1)
        _heat_map(axes, shares, (100 * shares).round(), classes)
        right = np.trace(total) / total.sum()
        axes.set_title(f"subject {subject}: {100 * right:.1f} %", fontsize=10)
    for axes in grid.flat[len(counts) :]:
        axes.set_axis_off()
    for axes in grid.flat[max(0, len(counts) - wide) : len(counts)]:
        axes.tick_params(labelbottom=True)  # also above an empty place
    figure.supxlabel("predicted", fontsize=10)
    figure.supylabel("true", fontsize=10)
    return figure


for role in ROLES:
    paper_figure(
        f"confusion-all-{role.name.lower()}",
        f"Confusion, all subjects of {role.name}",
        shows_runs=True,
    )(_confusions(role))


@paper_figure("attention", "Attention between bands")
def band_attention(extent: Extent, source: Source) -> Figure:
    """Attention weights between bands, averaged over test trials, layers and heads.

    Future work of the paper. Rows sum to one.
    """
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    roles = _present(extent, source)
    grid = figure.subplots(1, len(roles), squeeze=False)
    for axes, role in zip(grid.flat, roles, strict=True):
        who = (role, extent, role.subject, "log-euclidean", source)
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
    return Extent(**drawn.extent) == extent and drawn.origin["code"] == code_digest()


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
        if len(figure.axes) <= MANY:
            said += [text.get_text() for text in axes.texts]
        title = axes.get_title()
        if said or title:
            parts.append(": ".join(filter(None, (title, "; ".join(said)))))
    # Remove TeX markup and line breaks.
    text = ". ".join(parts).replace("$", "").replace("\\", "").replace("\n", " ")
    return text + "."
