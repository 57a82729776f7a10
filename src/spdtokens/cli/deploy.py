"""``spdtokens train``, ``predict`` and ``export``."""

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
    NO_MODEL,
    AsJson,
    command,
    existing,
    listed,
    numbers,
    print_json,
    written,
)
from spdtokens.cli.evaluate import verdict
from spdtokens.errors import DeployError

if TYPE_CHECKING:
    from spdtokens.datasets import Dataset
    from spdtokens.evaluation.trials import Trials


@command()
def train(
    data: Path,
    out: Annotated[Path, typer.Option("--out", "-o")],
    events: str | None = None,
    tmin: float | None = None,
    tmax: float | None = None,
    label_from: str | None = None,
    channels: str | None = None,
    resample: float | None = None,
    paradigm: str | None = None,
    stimulus_hz: str | None = None,
    subjects: str | None = None,
    recentre: bool = False,
    classes: str | None = None,
    preset: str = "recommended",
    start_from: str | None = None,
    filtering: str = "zero-phase",
    report: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on recordings, after evaluating it on held-out trials.

    The model is saved even if it does not beat chance; a warning is printed.

    Parameters
    ----------
    data : path
        Recording (.edf, .bdf, .gdf, .vhdr, .set, .fif), epochs (-epo.fif), .npz file, folder of
        such files, or name of a data set.
    out : path
        Model file to write (.spdt).
    recentre : bool
        Recentre every session at its Riemannian mean; a new session is recentred online.
    classes : str, default=all
        Comma-separated classes to use.
    preset : str
        Decoder: recommended, standard (the paper's network), paper (exactly the paper's, if the
        unit of the signals is known), or for recordings of many people spatial-filters or
        spatial-filters-power.
    start_from : str
        Model to adapt to the recordings instead of training one: a model file with spatial filters,
        or imagery-left-right, which ships with the package.
    filtering : str
        Filter: zero-phase or causal.
    report : path
        HTML file to write: scores, confusion matrix, channels and bands that matter.
    """
    console = Console(stderr=as_json)
    frequencies = numbers(stimulus_hz, "--stimulus-hz")
    _check_outputs({".spdt": out, ".html": report})
    # Imported after the checks: this takes seconds.
    from spdtokens.classifiers.nn.recipe import TrainingBars
    from spdtokens.evaluation.summary import summary_table
    from spdtokens.inference import train as trained_on

    with TrainingBars() as bars:
        found = trained_on(
            data if data.exists() else str(data),
            paradigm=paradigm,
            stimulus_hz=frequencies,
            subjects=listed(subjects),
            classes=listed(classes),
            preset=preset,
            start_from=start_from,
            recentre=recentre,
            filtering=filtering,
            bar=lambda name, total: bars.add(f"Evaluating {name}", total),
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
    console.print(verdict(found.evaluation, found.row.method))
    if not found.above_chance:
        console.print(
            "[bold red]Warning:[/] the saved model does not beat chance. Check the events, the "
            "times and the channels, or record more trials."
        )
    console.print(summary_table(found.evaluation.rows, found.evaluation.question, data.name))
    trials = counted(sum(about["trials"].values()), "trial")
    written(out, f", trained on all {trials}")
    if report is not None:
        written(report)


def _check_outputs(files: dict[str, Path | None]) -> None:
    """Refuse, before any work, files that have the wrong suffix or cannot be written."""
    for suffix, path in files.items():
        if path is not None:
            if path.suffix != suffix:
                raise DeployError(f"The name must end in {suffix}, got {path}.")
            output_file(path)


def _found(dataset: Dataset, trials: Trials) -> Text:
    """The data set, and its trials per class."""
    from spdtokens.datasets.check import describe

    counts = Counter(trials.table.y.tolist())
    classes = ", ".join(f"{name} {counts[i]}" for i, name in enumerate(dataset.classes))
    return Text(f"{describe(dataset)}\ntrials per class: {classes}")


@command()
def predict(
    model: Path,
    data: Path,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    events: str | None = None,
    every: float | None = None,
    label_from: str | None = None,
    unit: str | None = None,
    interpolate: bool = False,
) -> None:
    """Decode recordings with a model: one row per trial, with the probability of each class.

    Parameters
    ----------
    data : path
        File as for `spdtokens train`, or folder of such files.
    out : path, default=standard output
        CSV file to write.
    events : str, default=those of the training data
        Classes and the events at which to decode, such as left=769,right=770; of .npz files, their
        names of the classes, such as left_fist=left_hand.
    every : float
        Decode a window every EVERY seconds instead of at events.
    unit : str, default=as stated by the file
        Unit of .npz files: V, mV or uV.
    interpolate : bool
        Interpolate channels that the recordings lack, instead of an error.
    """
    if out is not None:
        output_file(out)
    existing(model, NO_MODEL)
    from spdtokens.inference import predict as predicted

    found = predicted(
        model,
        data,
        events=events,
        every=every,
        label_from=label_from,
        unit=unit,
        interpolate=interpolate,
    )
    if out is None:
        typer.echo(found.as_csv(), nl=False)
    else:
        found.write(out)
    for note in found.notes:
        typer.echo(note, err=True)
    typer.echo(found.summary(), err=True)
    if out is not None:
        written(out, err=True)


@command()
def export(
    model: Path,
    onnx: Annotated[Path | None, typer.Argument()] = None,
    runtime: Path | None = None,
) -> None:
    """Export a model to ONNX, or with a NumPy runtime for a small device, or both.

    Parameters
    ----------
    onnx : path
        ONNX file to write: from tokens to class probabilities.
    runtime : path
        New folder for the model and a runtime that needs only Python and NumPy.
    """
    if onnx is None and runtime is None:
        raise DeployError(
            f"Nothing to write. Use spdtokens export {model} {model.with_suffix('.onnx')} or "
            f"spdtokens export {model} --runtime {model.with_suffix('')}"
        )
    _check_outputs({".onnx": onnx})
    existing(model, NO_MODEL)
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
        written(runtime, "; to decode there: python decode.py TRIALS.npy")
