"""``spdtokens evaluate``, ``protocols`` and ``methods``."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spdtokens._extras import how_to_install
from spdtokens._tables import table
from spdtokens.cli.app import AsJson, Channels, Resample, app, errors_told, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from spdtokens.datasets import Selection

DEFAULT_METHODS = "token-log-euclidean,token-bures-wasserstein,token-euclidean,ts-lr"


class Recipes(Enum):
    """Recipes of the networks we compare with."""

    PUBLISHED = "published"
    COMMON = "common"


Dataset = Annotated[
    str,
    typer.Option(help="A name (see `spdtokens datasets`), a folder of .npz files, or -epo.fif."),
]
Protocol = Annotated[str, typer.Option(help="Who is tested: see `spdtokens protocols`.")]
Method = Annotated[str, typer.Option(help="Names, with commas between: see `spdtokens methods`.")]


@app.command()
def evaluate(
    dataset: Dataset,
    protocol: Protocol = "session-transfer",
    method: Method = DEFAULT_METHODS,
    paradigm: Annotated[
        str | None, typer.Option(help="mi, erp, ssvep or other, if the data set does not tell.")
    ] = None,
    stimulus_hz: Annotated[
        str | None, typer.Option(help="Flicker frequencies of ssvep: 13,17,21.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Part of a trial to decode, in seconds after the cue: 0.5,4.")
    ] = None,
    classes: Annotated[str | None, typer.Option(help="Only these, with commas between.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only trials of which the file says so: imagined=1. May be repeated."),
    ] = None,
    channels: Channels = None,
    resample: Resample = None,
    subjects: Annotated[str | None, typer.Option(help="Only these: 1,2,3.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many of the paper's seeds.")] = 5,
    target_access: Annotated[
        str,
        typer.Option(help="What may be seen of the target: train, unlabeled_full, online, ..."),
    ] = "train",
    alignment: Annotated[
        str, typer.Option(help="none, euclidean, recentre, rescale or rotate.")
    ] = "none",
    domain: Annotated[
        str, typer.Option(help="What is aligned as one: session or subject.")
    ] = "session",
    folds: Annotated[int | None, typer.Option(help="Of blocks and k-fold.")] = None,
    ungrouped: Annotated[
        bool,
        typer.Option(
            "--ungrouped", help="split-70-15-15 as in the paper; scores are marked leaky."
        ),
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(help="accuracy, roc_auc, ... Default: what suits paradigm and classes."),
    ] = None,
    preset: Annotated[str, typer.Option(help="Network and recipe: paper, paper-small.")] = "paper",
    recipe: Annotated[
        Recipes, typer.Option(help="Of other networks: their own, or the paper's for all.")
    ] = Recipes.PUBLISHED,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the recipe's.")] = None,
    bands: Annotated[
        str, typer.Option(help="auto, a preset of bands, or pairs in Hz: 8-13,13-30.")
    ] = "auto",
    estimator: Annotated[
        str, typer.Option(help="Of covariances: auto, sample, oas, lwf, ..., erp or xdawn.")
    ] = "auto",
    device: Annotated[
        str, typer.Option(help="For networks: auto, cpu or cuda. Other methods use the CPU.")
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Compare methods on a data set: test beside train, chance, and whether they differ."""
    from spdtokens.classifiers.methods import Settings, get_method
    from spdtokens.classifiers.nn import STABILITY_SEEDS
    from spdtokens.classifiers.nn.recipe import TrainingBars
    from spdtokens.evaluation.answer import answer
    from spdtokens.evaluation.plan import Choice, Question, Source
    from spdtokens.evaluation.summary import summary_table

    with errors_told():
        settings = Settings(
            bands=checked_bands(bands),
            estimator=estimator,
            preset=preset,
            recipe=recipe.value,
            epochs=epochs,
            device=device,
        )
        # One --device for all: of several methods it is meant for those that use one.
        names = listed(method)
        networks = [name for name in names if get_method(name).has_seed] or names
        elsewhere = replace(settings, device="auto")
        options: dict[str, Any] = {} if folds is None else {"folds": folds}
        question = Question(
            dataset=dataset,
            choices=tuple(Choice(n, settings if n in networks else elsewhere) for n in names),
            protocol=protocol,
            protocol_options=options | ({"ungrouped": True} if ungrouped else {}),
            access=target_access,
            alignment=alignment,
            domain=domain,
            selection=selection(paradigm, stimulus_hz, window, classes, where, channels, resample),
            subjects=tuple(listed(subjects)),
            seeds=STABILITY_SEEDS[:seeds],
        )
        source = Source()
        with TrainingBars() as bars:
            found = answer(question, source, metric=metric, bar=bars.add)
    if as_json:
        print_json({"results": [row.values() for row in found.rows]})
    else:
        name = source.dataset(question.dataset, question.selection).name
        Console().print(summary_table(found.rows, question, name))


def listed(text: str | None) -> list[str]:
    """Names with commas between."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def numbers(text: str, what: str) -> tuple[float, ...]:
    """Numbers with commas between."""
    try:
        return tuple(float(part) for part in listed(text))
    except ValueError:
        raise typer.BadParameter(f"{what} are numbers with commas between, not {text!r}.") from None


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
    from spdtokens.datasets import Selection

    edges = None if window is None else numbers(window, "--window: from and to")
    if edges is not None and len(edges) != 2:
        raise typer.BadParameter(f"--window is two numbers, such as 0.5,4; not {window!r}.")
    pairs = [pair.partition("=") for pair in where or ()]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise typer.BadParameter("--where is NAME=VALUE, such as imagined=1.")
    return Selection(
        paradigm=paradigm,
        stimulus_hz=numbers(stimulus_hz or "", "--stimulus-hz: frequencies"),
        window=None if edges is None else (edges[0], edges[1]),
        classes=tuple(listed(classes)),
        where=tuple((name, value) for name, _, value in pairs),
        channels=tuple(listed(channels)),
        resample=resample,
    )


def checked_bands(text: str) -> str:
    """A preset's name, or edges in Hz that can be read."""
    from spdtokens.errors import SignalError
    from spdtokens.preprocessing.bands import resolve_bands

    if text[:1].isdigit():
        try:
            resolve_bands(text)
        except SignalError:
            raise typer.BadParameter(f"--bands in Hz look like 8-13,13-30; not {text!r}.") from None
    return text


@app.command()
def protocols(as_json: AsJson = False) -> None:
    """List the protocols: who is trained on, who is tested; and what may be seen of the target."""
    from spdtokens.evaluation.protocols import (
        ACCESS,
        PROTOCOLS,
        access_table,
        protocols_table,
    )

    if as_json:
        print_json(
            {
                "protocols": [
                    {"name": p.name, "train": p.train, "test": p.test, "options": dict(p.options)}
                    for p in PROTOCOLS.values()
                ],
                "access": [{"name": a.name, "description": a.description} for a in ACCESS.values()],
            }
        )
    else:
        console = Console()
        console.print(protocols_table())
        console.print(access_table())


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: what they take, their size on the paper's data sets, their source."""
    rows = methods_rows()
    if as_json:
        print_json({"methods": rows})
    else:
        console = Console()
        console.print(methods_table(rows, console.width))


#: Characters of a terminal from which there is room for references.
WIDE = 120


def methods_rows() -> list[dict[str, Any]]:
    """What is known of every method; no number of parameters where there is no fixed one."""
    from spdtokens.classifiers.methods import METHODS

    names = ("name", "family", "input", "only_for", "needs_signals", "reference", "extra")
    return [
        {name: getattr(method, name) for name in names}
        | {"parameters": parameter_counts(method), "installed": method.installed}
        for method in METHODS.values()
    ]


def parameter_counts(method: Any) -> dict[str, int | None]:
    """Parameters of a method at the shapes of the paper's data sets, None where not fixed."""
    from spdtokens.classifiers.nn import SMALL, STANDARD
    from spdtokens.classifiers.nn.networks import TrialShape

    # Channels, classes, samples and rate as networks see them, and the paper's transformer.
    shapes = {
        "BCI2a": (TrialShape(22, 4, 438, 125.0), STANDARD),
        "BCIcha": (TrialShape(56, 2, 160, 128.0), STANDARD),
        "MAMEM": (TrialShape(8, 5, 125, 125.0), SMALL),
    }
    count = method.parameters if method.installed else None
    return {name: None if count is None else count(*of) for name, of in shapes.items()}


def methods_table(rows: list[dict[str, Any]], width: int) -> Table:
    """The methods for a terminal of so many characters."""
    from rich.text import Text

    caption = "Parameters at the shapes of the paper's data sets; - where there is no fixed number."
    for row in rows:
        if row["extra"]:
            state = "which is installed" if row["installed"] else how_to_install(row["extra"])
            caption += f" {row['name']} comes with the extra {row['extra']}: {state}."
    sizes = list(rows[0]["parameters"])
    columns = ["name", "input", *(f">{name}" for name in sizes)]
    if width >= WIDE:
        columns.append("reference~")
    else:
        caption += " References: --json, or a wider terminal."
    lines: list[list[Any] | None] = []
    for row, before in zip(rows, [None, *rows], strict=False):
        if before is None or row["family"] != before["family"]:
            lines += [None, [Text(row["family"], "italic")]]
        counts = ["-" if n is None else f"{n:,}" for n in row["parameters"].values()]
        cells = [row["name"], row["input"], *counts, row["reference"]]
        lines.append(cells[: len(columns)])
    return table(columns, lines, "Methods", caption, padding=(0, 1, 0, 0))
