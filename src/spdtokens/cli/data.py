"""``spdtokens datasets``, ``tokenize``, ``cache``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from spdtokens._tables import counted
from spdtokens.cli.app import (
    AsJson,
    Channels,
    DataName,
    OnlySubjects,
    Resample,
    app,
    listed,
    print_json,
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
    if as_json:
        print_json({"datasets": [asdict(listing) for listing in listings]})
    else:
        Console().print(datasets_table(listings))


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
    if as_json:
        about = {"name": dataset.name, "classes": dataset.classes, "sfreq": dataset.sfreq}
        print_json(about | {"recordings": [asdict(check) for check in checks]})
    else:
        Console().print(describe(dataset), highlight=False, markup=False)
        Console().print(check_table(checks, dataset.unit_in_volts))


@datasets_app.command()
def picture(
    name: Annotated[str, typer.Argument(help="A simulated data set: sim-mi, sim-erp, sim-ssvep.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("picture.png"),
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
    typer.echo(f"wrote {out}")


@app.command("tokenize")
def tokenize_dataset(
    name: DataName,
    folder: Annotated[Path, typer.Option("--out", help="Folder for one .npz per recording.")],
    embedding: Annotated[str, typer.Option(help="Which token.")] = "log_euclidean",
    bands: Annotated[str, typer.Option(help="A preset of bands.")] = "broadband",
    subject: OnlySubjects = None,
    channels: Channels = None,
    resample: Resample = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compute anew.")] = False,
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
        typer.echo(f"wrote {path}")


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all cached tokens.")] = False,
) -> None:
    """Show or clear the tokens kept on disk."""
    from spdtokens.datasets.cache import TokenCache

    store = TokenCache()
    if clear:
        typer.echo(f"removed {counted(store.clear(), 'file')} from {store.path}")
        return
    entries = store.entries()
    size = sum(size for _, size, _ in entries) / 1e6
    files = counted(len(entries), "file")
    typer.echo(f"{store.path}: {files}, {size:.1f} MB of {store.limit / 1e6:.0f} MB")
