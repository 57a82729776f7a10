"""``spdtokens datasets``, ``tokenize``, ``cache``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import track
from rich.text import Text

from spdtokens._tables import counted
from spdtokens.cli.app import (
    AsJson,
    Channels,
    DataName,
    OnlySubjects,
    Resample,
    app,
    argument,
    listed,
    option,
    show,
    written,
)

datasets_app = typer.Typer(help="Data sets: what there is, and what is in it.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: what they hold, whether they are here, how to get them."""
    if context.invoked_subcommand is not None:
        return
    from spdtokens.datasets.registry import datasets_table, list_datasets

    listings = list_datasets()
    found = {"datasets": [asdict(listing) for listing in listings]}
    show(as_json, found, datasets_table(listings))


@datasets_app.command()
def check(
    name: DataName,
    subject: OnlySubjects = None,
    channels: Channels = None,
    resample: Resample = None,
    as_json: AsJson = False,
) -> None:
    """Look at a data set: shape, classes, bad channels, line noise, rank."""
    from spdtokens.datasets import load_dataset
    from spdtokens.datasets.check import check_recording, check_table, describe

    dataset = load_dataset(name, channels=listed(channels), resample=resample)
    wanted = [(s, q) for s in subject or dataset.subjects for q in dataset.sessions(s)]
    progress = track(wanted, "Reading", console=Console(stderr=True), transient=True)
    checks = [check_recording(dataset, dataset.load(who, session)) for who, session in progress]
    about = {"name": dataset.name, "classes": dataset.classes, "sfreq": dataset.sfreq}
    found = about | {"recordings": [asdict(check) for check in checks]}
    show(as_json, found, Text(describe(dataset)), check_table(checks, dataset.unit_in_volts))


@datasets_app.command()
def picture(
    name: Annotated[str, argument("A simulated data set: sim-mi, sim-erp, sim-ssvep.")],
    out: Annotated[Path, option("PNG file to write.")] = Path("picture.png"),
) -> None:
    """Draw a simulated data set: topographies, spectra, time courses."""
    from spdtokens._files import output_file, written_whole
    from spdtokens.datasets.simulated import SIMULATED
    from spdtokens.datasets.simulated_figure import simulation_figure

    if name not in SIMULATED:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(SIMULATED)}.")
    output_file(out)  # before the work
    with written_whole(out) as path:
        simulation_figure(name).savefig(path, dpi=120)
    written(out)


@app.command("tokenize")
def tokenize_dataset(
    name: DataName,
    folder: Annotated[Path, option("Folder for one .npz per recording.", "--out")],
    embedding: Annotated[str, option("Which token.")] = "log_euclidean",
    bands: Annotated[str, option("A preset of bands.")] = "broadband",
    subject: OnlySubjects = None,
    channels: Channels = None,
    resample: Resample = None,
    no_cache: Annotated[bool, option("Compute anew.", "--no-cache")] = False,
) -> None:
    """Write the tokens of a data set: arrays tokens, y, run, group, token_names."""
    from spdtokens._files import output_folder
    from spdtokens.datasets import load_dataset
    from spdtokens.datasets.cache import TokenCache, write_tokens

    dataset = load_dataset(name, channels=listed(channels), resample=resample)
    output_folder(folder)
    wanted = tuple(subject or dataset.subjects)
    cache = TokenCache(enabled=not no_cache)
    for path in write_tokens(dataset, wanted, folder, embedding, bands, cache):
        written(path)


@app.command()
def cache(
    clear: Annotated[bool, option("Remove all cached tokens.", "--clear")] = False,
) -> None:
    """Show or clear the tokens kept on disk."""
    from spdtokens.datasets.cache import TokenCache

    store = TokenCache()
    if clear:
        typer.echo(f"removed {counted(store.clear(), 'file')} from {store.path}")
        return
    entries = store.entries()
    size = decimal(sum(size for _, size, _ in entries))
    typer.echo(f"{store.path}: {counted(len(entries), 'file')}, {size} of {decimal(store.limit)}")
