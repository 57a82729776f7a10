"""``spdtokens datasets`` and ``tokenize``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.text import Text

from spdtokens.cli.app import AsJson, app, command, listed, show, written

datasets_app = typer.Typer(help="List and inspect data sets.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: contents, whether they are available, how to obtain them."""
    if context.invoked_subcommand is not None:
        return
    from spdtokens.datasets.registry import datasets_table, list_datasets

    listings = list_datasets()
    found = {"datasets": [asdict(listing) for listing in listings]}
    show(as_json, found, datasets_table(listings))


@command(datasets_app)
def check(
    name: str,
    events: str | None = None,
    tmin: float | None = None,
    tmax: float | None = None,
    subject: list[str] | None = None,
    channels: str | None = None,
    resample: float | None = None,
    as_json: AsJson = False,
) -> None:
    """Check the recordings of a data set: classes, bad channels, line noise, rank."""
    from spdtokens.datasets import load_dataset
    from spdtokens.datasets.check import check_recording, check_table, describe

    cut = {"events": events, "tmin": tmin, "tmax": tmax}
    cut = {key: value for key, value in cut.items() if value is not None}
    dataset = load_dataset(name, channels=listed(channels), resample=resample, **cut)
    wanted = [(s, q) for s in subject or dataset.subjects for q in dataset.sessions(s)]
    progress = track(wanted, "Checking recordings", console=Console(stderr=True), transient=True)
    checks = [check_recording(dataset, dataset.load(who, session)) for who, session in progress]
    about = {"name": dataset.name, "classes": dataset.classes, "sfreq": dataset.sfreq}
    found = about | {"recordings": [asdict(check) for check in checks]}
    show(as_json, found, Text(describe(dataset)), check_table(checks, dataset.unit_in_volts))


@command(datasets_app)
def picture(name: str, out: Path = Path("picture.png")) -> None:
    """Plot a simulated data set: topographies, spectra, time courses.

    Parameters
    ----------
    name : str
        Simulated data set: sim-mi, sim-erp or sim-ssvep.
    out : path
        PNG file to write.
    """
    from spdtokens._files import output_file, written_whole
    from spdtokens.datasets.simulated import SIMULATED
    from spdtokens.datasets.simulated_figure import simulation_figure

    if name not in SIMULATED:
        raise typer.BadParameter(f"NAME must be one of {', '.join(SIMULATED)}, got {name!r}.")
    output_file(out)  # before the work
    with written_whole(out) as path:
        simulation_figure(name).savefig(path, dpi=120)
    written(out)


@command(name="tokenize")
def tokenize_dataset(
    name: str,
    out: Annotated[Path, typer.Option()],
    embedding: str = "log_euclidean",
    bands: str = "broadband",
    subject: list[str] | None = None,
    channels: str | None = None,
    resample: float | None = None,
    no_cache: Annotated[bool, typer.Option(hidden=True)] = False,  # noqa: ARG001
) -> None:
    """Write the tokens of a data set: arrays tokens, y, run, group and token_names.

    Parameters
    ----------
    out : path
        Folder to write one .npz file per recording to.
    embedding : str
        Embedding of the covariance matrices, see docs/tokens.md.
    bands : str
        Frequency bands: the name of a preset, or pairs in Hz such as 8-13,13-30.
    no_cache : bool
        Accepted for version 0.1, which had a cache.
    """
    from spdtokens._files import output_folder
    from spdtokens.datasets import load_dataset
    from spdtokens.datasets.tokenize import write_tokens

    dataset = load_dataset(name, channels=listed(channels), resample=resample)
    output_folder(out)
    wanted = tuple(subject or dataset.subjects)
    for path in write_tokens(dataset, wanted, out, embedding, bands):
        written(path)
