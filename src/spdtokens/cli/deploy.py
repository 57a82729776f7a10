"""``spdtokens train``, ``predict``, ``export``: recordings to a model, and what it is for."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from spdtokens._files import output_file
from spdtokens._tables import counted
from spdtokens.cli.app import (
    AsJson,
    Channels,
    ModelFile,
    Paradigm,
    Resample,
    StimulusHz,
    Subjects,
    app,
    argument,
    listed,
    numbers,
    option,
    print_json,
    written,
)
from spdtokens.errors import DeployError

if TYPE_CHECKING:
    from spdtokens.datasets import Dataset
    from spdtokens.evaluation.trials import Trials
    from spdtokens.inference import Trained

Events = Annotated[
    str | None,
    option(
        "Classes and the events that mark their trials: left=769,right=770. By default every "
        "kind of event that occurs often."
    ),
]
LabelFrom = Annotated[
    str | None,
    option(
        "Where labels are: annotations or a trigger channel of a recording, a column of the "
        "metadata of epochs, an array of an .npz file."
    ),
]


@app.command()
def train(
    data: Annotated[
        Path,
        argument(
            "A recording (.edf, .bdf, .gdf, .vhdr, .set, .fif), -epo.fif, .npz, a folder of them, "
            "or the name of a data set."
        ),
    ],
    out: Annotated[Path, option("The model file to write, .spdt.", "--out", "-o")],
    events: Events = None,
    tmin: Annotated[float | None, option("Start of a trial in seconds after its event.")] = None,
    tmax: Annotated[float | None, option("End of a trial in seconds after its event.")] = None,
    label_from: LabelFrom = None,
    channels: Channels = None,
    resample: Resample = None,
    paradigm: Paradigm = None,
    stimulus_hz: StimulusHz = None,
    subjects: Subjects = None,
    recentre: Annotated[
        bool,
        option(
            "Bring sessions together by their means, and follow the mean of a new session.",
            "--recentre",
        ),
    ] = False,
    preset: Annotated[str, option("recommended, or paper.")] = "recommended",
    filtering: Annotated[
        str, option("Of each trial by itself: zero-phase or causal.")
    ] = "zero-phase",
    report: Annotated[
        Path | None, option("An HTML file to write: scores, errors, what decides.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on own recordings, after measuring honestly how well that works."""
    console = Console(stderr=as_json)
    frequencies = numbers(stimulus_hz, "--stimulus-hz")
    _check_outputs({".spdt": out, ".html": report})
    # After the checks: they take seconds to import.
    from spdtokens.classifiers.nn.recipe import TrainingBars
    from spdtokens.evaluation.summary import summary_table
    from spdtokens.inference import train as trained_on

    with TrainingBars() as bars:
        found = trained_on(
            data if data.exists() else str(data),
            paradigm=paradigm,
            stimulus_hz=frequencies,
            subjects=listed(subjects),
            preset=preset,
            recentre=recentre,
            filtering=filtering,
            bar=bars.add,
            tell=lambda *given: console.print(_found(*given)),
            events=events,
            tmin=tmin,
            tmax=tmax,
            label_from=label_from,
            channels=tuple(listed(channels)),
            resample=resample,
        )
    found.save(out)
    if report is not None:
        found.report(report, shlex.join(["spdtokens", *sys.argv[1:]]))
    about = found.decoder.about
    if as_json:
        print_json({"model": str(out), "above_chance": found.above_chance, **about})
        return
    console.print(summary_table(found.evaluation.rows, found.evaluation.question, data.name))
    console.print(_verdict(found))
    trials = counted(sum(about["trials"].values()), "trial")
    written(out, f", trained on all {trials}")
    if report is not None:
        written(report)


def _check_outputs(files: dict[str, Path | None]) -> None:
    """Refuse, before any work, files of another suffix or that cannot be written."""
    for suffix, path in files.items():
        if path is not None:
            if path.suffix != suffix:
                raise DeployError(f"{path} must end in {suffix}.")
            output_file(path)


def _found(dataset: Dataset, trials: Trials) -> Text:
    """The data set, and its trials per class."""
    from spdtokens.datasets.check import describe

    counts = Counter(trials.table.y.tolist())
    classes = (f"{name} ({counted(counts[i], 'trial')})" for i, name in enumerate(dataset.classes))
    return Text(f"{describe(dataset)}\nfound: {', '.join(classes)}")


def _verdict(found: Trained) -> str:
    """Whether it is better than guessing, in words."""
    from spdtokens.evaluation.metrics import METRICS
    from spdtokens.evaluation.summary import chance_said, score_said

    row, protocol = found.row, found.evaluation.question.protocol
    name = METRICS[row.metric].title
    how = f"{name} {score_said(row.score, row.metric)} on trials not trained on ({protocol})"
    if found.above_chance:
        return f"[bold]Above chance[/]: {how}. {chance_said(row)}"
    return (
        f"[bold red]Not above chance[/]: {how}. {chance_said(row)} The model is saved, but nothing "
        "shows that it decodes anything: look at the events, the times and the channels, or record "
        "more trials."
    )


@app.command()
def predict(
    model: ModelFile,
    data: Annotated[Path, argument("A file as for train, or a folder of them.")],
    out: Annotated[
        Path | None, option("A .csv file to write; else it is printed.", "--out", "-o")
    ] = None,
    events: Events = None,
    every: Annotated[
        float | None, option("Seconds between decisions, instead of one per event.")
    ] = None,
    label_from: LabelFrom = None,
    unit: Annotated[
        str | None, option("Of an .npz file, if it does not tell: V, mV or uV.")
    ] = None,
) -> None:
    """Write a table of decisions and class probabilities, a line a trial."""
    if out is not None:
        output_file(out)
    from spdtokens.inference import predict as predicted

    found = predicted(model, data, events=events, every=every, label_from=label_from, unit=unit)
    if out is None:
        typer.echo(found.as_csv(), nl=False)
    else:
        found.write(out)
    for note in found.notes:
        typer.echo(note, err=True)
    typer.echo(found.summary(), err=True)
    if out is not None:
        written(out, err=True)


@app.command()
def export(
    model: ModelFile,
    onnx: Annotated[
        Path | None, argument("The .onnx to write: tokens in, probabilities out.")
    ] = None,
    runtime: Annotated[
        Path | None, option("New folder with the model and all it needs beside Python and NumPy.")
    ] = None,
) -> None:
    """Write a model's network as ONNX, or the model with a runtime for a small device, or both."""
    if onnx is None and runtime is None:
        raise DeployError(
            f"Say what to write: spdtokens export {model} MODEL.onnx or --runtime FOLDER."
        )
    _check_outputs({".onnx": onnx})
    from spdtokens.inference.export import check_device_folder, write_device_folder, write_onnx
    from spdtokens.runtime import load_model

    if runtime is not None:
        check_device_folder(runtime)
    decoder = load_model(model) if onnx is None else write_onnx(model, onnx)
    if runtime is not None:
        write_device_folder(runtime, decoder, model, onnx)
    if onnx is not None:
        written(onnx)
    if runtime is not None:
        written(runtime, "; there, with NumPy alone: python decode.py TRIALS.npy")
