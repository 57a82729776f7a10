"""``spdtokens evaluate``, ``protocols`` and ``methods``."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spdtokens.cli.app import (
    AsJson,
    Channels,
    Paradigm,
    Resample,
    StimulusHz,
    Subjects,
    app,
    listed,
    numbers,
    option,
    show,
)

if TYPE_CHECKING:
    from spdtokens.datasets import Selection

DEFAULT_METHODS = "token-log-euclidean,token-bures-wasserstein,token-euclidean,ts-lr"


class Recipes(Enum):
    """Recipes of the networks we compare with."""

    PUBLISHED = "published"
    COMMON = "common"


Dataset = Annotated[
    str, option("A name (see `spdtokens datasets`), a folder of .npz files, or -epo.fif.")
]
Protocol = Annotated[str, option("Who is tested: see `spdtokens protocols`.")]
Method = Annotated[str, option("Comma-separated names: see `spdtokens methods`.")]
Window = Annotated[str | None, option("Part of a trial to decode, in s after the cue: 0.5,4.")]
Classes = Annotated[str | None, option("Only these classes, comma-separated.")]
Where = Annotated[
    list[str] | None,
    option("Only trials whose metadata match NAME=VALUE: imagined=1. May be repeated."),
]
Seeds = Annotated[int, option("How many of the paper's seeds.", min=1, max=10)]
TargetAccess = Annotated[
    str, option("What may be seen of the target: train, unlabeled_full, online, ...")
]
Alignment = Annotated[str, option("none, euclidean, recentre, rescale or rotate.")]
Domain = Annotated[str, option("What is aligned as one: session or subject.")]
Folds = Annotated[int | None, option("Number of folds (blocks, k-fold).")]
Ungrouped = Annotated[
    bool, option("split-70-15-15 as in the paper; scores are marked leaky.", "--ungrouped")
]
Metric = Annotated[
    str | None, option("accuracy, roc_auc, ... Default: what suits paradigm and classes.")
]
Preset = Annotated[str, option("Network and recipe: paper, paper-small.")]
Recipe = Annotated[Recipes, option("Of other networks: their own, or the paper's for all.")]
Epochs = Annotated[int | None, option("Instead of the recipe's.", min=1)]
Bands = Annotated[str, option("auto, a preset of bands, or pairs in Hz: 8-13,13-30.")]
Estimator = Annotated[str, option("Of covariances: auto, sample, oas, lwf, ..., erp or xdawn.")]
Device = Annotated[str, option("For networks: auto, cpu or cuda. Other methods use the CPU.")]


@app.command()
def evaluate(
    dataset: Dataset,
    protocol: Protocol = "session-transfer",
    method: Method = DEFAULT_METHODS,
    paradigm: Paradigm = None,
    stimulus_hz: StimulusHz = None,
    window: Window = None,
    classes: Classes = None,
    where: Where = None,
    channels: Channels = None,
    resample: Resample = None,
    subjects: Subjects = None,
    seeds: Seeds = 5,
    target_access: TargetAccess = "train",
    alignment: Alignment = "none",
    domain: Domain = "session",
    folds: Folds = None,
    ungrouped: Ungrouped = False,
    metric: Metric = None,
    preset: Preset = "paper",
    recipe: Recipe = Recipes.PUBLISHED,
    epochs: Epochs = None,
    bands: Bands = "auto",
    estimator: Estimator = "auto",
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Compare methods on a data set: test beside train, chance, and whether they differ."""
    chosen = selection(paradigm, stimulus_hz, window, classes, where, channels, resample)
    from spdtokens.classifiers.methods import Settings, get_method
    from spdtokens.classifiers.nn import STABILITY_SEEDS
    from spdtokens.classifiers.nn.recipe import TrainingBars
    from spdtokens.evaluation.answer import answer
    from spdtokens.evaluation.plan import Choice, Question, Source
    from spdtokens.evaluation.summary import summary_table
    from spdtokens.preprocessing.bands import resolve_bands

    if bands[:1].isdigit():
        resolve_bands(bands)  # a data set of matrices would not look at them
    settings = Settings(bands, estimator, preset, recipe=recipe.value, epochs=epochs, device=device)
    # One --device for all: of several methods it is meant for those that use one.
    names = listed(method)
    networks = [name for name in names if get_method(name).has_seed] or names
    elsewhere = replace(settings, device="auto")
    options: dict[str, Any] = {"folds": folds} if folds is not None else {}
    question = Question(
        dataset=dataset,
        choices=tuple(Choice(n, settings if n in networks else elsewhere) for n in names),
        protocol=protocol,
        protocol_options=options | ({"ungrouped": True} if ungrouped else {}),
        access=target_access,
        alignment=alignment,
        domain=domain,
        selection=chosen,
        subjects=tuple(listed(subjects)),
        seeds=STABILITY_SEEDS[:seeds],
    )
    source = Source()
    with TrainingBars() as bars:
        found = answer(question, source, metric=metric, bar=bars.add)
    name = source.dataset(question.dataset, question.selection).name
    results = {"results": [row.values() for row in found.rows]}
    show(as_json, results, summary_table(found.rows, question, name))


def selection(
    paradigm: str | None,
    stimulus_hz: str | None,
    window: str | None,
    classes: str | None,
    where: list[str] | None,
    channels: str | None,
    resample: float | None,
) -> Selection:
    """What the user says of the data."""
    edges = numbers(window, "--window")
    if window is not None and len(edges) != 2:
        raise typer.BadParameter(f"--window must be two numbers such as 0.5,4, got {window!r}.")
    frequencies = numbers(stimulus_hz, "--stimulus-hz")
    pairs = [tuple(pair.split("=", 1)) for pair in where or ()]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise typer.BadParameter(f"--where must be NAME=VALUE such as imagined=1, got {where}.")
    from spdtokens.datasets import Selection

    return Selection(
        paradigm=paradigm,
        stimulus_hz=frequencies,
        window=(edges[0], edges[1]) if edges else None,
        classes=tuple(listed(classes)),
        where=tuple((name, value) for name, value in pairs),
        channels=tuple(listed(channels)),
        resample=resample,
    )


@app.command()
def protocols(as_json: AsJson = False) -> None:
    """List the protocols: who is trained on, who is tested; and what may be seen of the target."""
    from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS, access_table, protocols_table

    rows = [
        {"name": p.name, "train": p.train, "test": p.test, "options": dict(p.options)}
        for p in PROTOCOLS.values()
    ]
    access = [{"name": a.name, "description": a.description} for a in ACCESS.values()]
    show(as_json, {"protocols": rows, "access": access}, protocols_table(), access_table())


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: what they take, their size on the paper's data sets, their source."""
    from spdtokens.classifiers.methods import methods_rows, methods_table

    rows = methods_rows()
    show(as_json, {"methods": rows}, methods_table(rows, Console().width))
