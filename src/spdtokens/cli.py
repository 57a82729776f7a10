"""The command line: parse, call, print."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import spdtokens

app = typer.Typer(
    name="spdtokens",
    help="Decode EEG from the geometry of its covariance matrices.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
bench_app = typer.Typer(
    help="Measure speed against the field's libraries, in one run.", no_args_is_help=True
)
app.add_typer(bench_app, name="bench")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spdtokens {spdtokens.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decode EEG from the geometry of its covariance matrices."""


def _print_json(data: dict[str, Any]) -> None:
    # Not through rich, which would wrap long lines.
    typer.echo(json.dumps(data, indent=2))


@app.command()
def theory(
    as_json: AsJson = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for theory.json and the two figures; made if missing."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random matrices.")] = 0,
) -> None:
    """Test each theoretical claim of the paper numerically."""
    from spdtokens._files import output_folder
    from spdtokens.paper.theory import CLAIMS, check_claims
    from spdtokens.paper.theory.show import theory_table, write_theory

    if folder is not None:
        try:
            output_folder(folder)
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--out") from error
    findings = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Testing claims", total=len(CLAIMS))
        for finding in check_claims(seed):
            findings.append(finding)
            progress.update(task, advance=1, description=f"Tested {finding['id']}")
    if as_json:
        _print_json({"claims": findings})
    else:
        Console().print(theory_table(findings))
    if folder is not None:
        for path in write_theory(findings, folder, seed):
            typer.echo(f"wrote {path}", err=True)


@bench_app.command()
def embed(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 15,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads for every library; default: torch's.")
    ] = None,
) -> None:
    """Time log and sqrt tokens against pyRiemann, spd_learn and plain torch."""
    import torch

    from spdtokens.bench.embed import OURS, bench_embed

    threads = threads or torch.get_num_threads()
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Timing", total=24)
        for row in bench_embed(repeats, threads):
            rows.append(row)
            progress.update(task, advance=1)
    if as_json:
        _print_json({"threads": threads, "repeats": repeats, "rows": rows})
        return
    table = Table(
        title=f"Tokens of covariance matrices: median milliseconds of {repeats} rounds, "
        f"{threads} thread(s) each",
        caption="ratio: our time over the fastest peer's; below 1 we are faster",
    )
    for name in ("matrices", "function", "pass", "dtype", OURS, "fastest peer", "ratio"):
        table.add_column(name, justify="right" if name in (OURS, "ratio") else "left")
    for row in rows:
        peer = row["fastest_peer"]
        table.add_row(
            f"{row['n']} of {row['d']} x {row['d']}",
            row["function"],
            row["pass"],
            row["dtype"],
            f"{row['milliseconds'][OURS]:.2f}",
            f"{peer} {row['milliseconds'][peer]:.2f}",
            f"{row['ratio']:.2f}",
        )
    Console().print(table)
    if not any("spd_learn" in row["milliseconds"] for row in rows):
        Console().print(
            "spd_learn is not installed and was left out: pip install 'spdtokens[baselines]'"
        )


datasets_app = typer.Typer(help="Data sets: what there is, and what is in it.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: what they hold, whether they are here, how to get them."""
    if context.invoked_subcommand is not None:
        return
    from spdtokens.data.registry import list_datasets
    from spdtokens.data.show import datasets_table

    listings = list_datasets()
    if as_json:
        _print_json({"datasets": [asdict(listing) for listing in listings]})
    else:
        Console().print(datasets_table(listings))


@datasets_app.command()
def check(
    name: Annotated[str, typer.Argument(help="A name, a folder of .npz files, or -epo.fif.")],
    subject: Annotated[
        list[str] | None, typer.Option(help="Check only this subject; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a data set: shape, classes, bad channels, line noise, rank."""
    from spdtokens.data import DataError, load_dataset
    from spdtokens.data.check import check_recording
    from spdtokens.data.show import check_table, describe

    try:
        dataset = load_dataset(name)
        wanted = [(s, q) for s in subject or dataset.subjects for q in dataset.sessions(s)]
        checks = []
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("Reading", total=len(wanted))
            for who, session in wanted:
                checks.append(check_recording(dataset, dataset.load(who, session)))
                progress.update(task, advance=1)
    except DataError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        about = {"name": dataset.name, "classes": dataset.classes, "sfreq": dataset.sfreq}
        _print_json(about | {"recordings": [check.as_dict() for check in checks]})
    else:
        Console().print(describe(dataset), highlight=False, markup=False)
        Console().print(check_table(checks, dataset.unit_in_volts))


@datasets_app.command()
def picture(
    name: Annotated[str, typer.Argument(help="A simulated data set: sim-mi, sim-erp, sim-ssvep.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("picture.png"),
) -> None:
    """Draw a simulated data set: topographies, spectra, time courses."""
    from spdtokens._files import written_whole
    from spdtokens.data.simulated import SIMULATED
    from spdtokens.data.simulated.figure import simulation_figure

    if name not in SIMULATED:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(SIMULATED)}.")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"There is no folder {out.parent}.", param_hint="--out")
    with written_whole(out) as path:
        simulation_figure(name).savefig(path, dpi=120)
    typer.echo(f"wrote {out}")


@app.command("tokenize")
def tokenize_dataset(
    name: Annotated[str, typer.Argument(help="A name, a folder of .npz files, or -epo.fif.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder for one .npz a recording.")],
    embedding: Annotated[str, typer.Option(help="Which token.")] = "log_euclidean",
    bands: Annotated[str, typer.Option(help="A preset of bands.")] = "broadband",
    subject: Annotated[
        list[str] | None, typer.Option(help="Only this subject; may be repeated.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compute anew.")] = False,
) -> None:
    """Write the tokens of a data set: arrays tokens, y, run, group, token_names."""
    from spdtokens._files import output_folder
    from spdtokens.data import DataError, load_dataset
    from spdtokens.data.cache import TokenCache
    from spdtokens.data.export import write_tokens
    from spdtokens.signal import SignalError
    from spdtokens.spd import NotSPDError

    try:
        dataset = load_dataset(name)
        output_folder(folder)
        wanted = tuple(subject or dataset.subjects)
        cache = TokenCache(enabled=not no_cache)
        for path in write_tokens(dataset, wanted, folder, embedding, bands, cache):
            typer.echo(f"wrote {path}")
    except (DataError, SignalError, NotSPDError, OSError, ValueError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def evaluate(
    name: Annotated[str, typer.Argument(help="A name, a folder of .npz files, or -epo.fif.")],
    method: Annotated[
        list[str] | None,
        typer.Option(help="token-log-euclidean, ts-lr, ...; may be repeated."),
    ] = None,
    subject: Annotated[
        list[str] | None, typer.Option(help="Only this subject; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many of the paper's seeds.")] = 5,
    preset: Annotated[str, typer.Option(help="Network and recipe: paper, paper-small.")] = "paper",
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the preset's.")] = None,
    bands: Annotated[str, typer.Option(help="A preset of bands.")] = "broadband",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Train on each subject's earlier sessions, test on the last; train beside test."""
    from spdtokens.data import DataError, load_dataset
    from spdtokens.evaluation import session_transfer
    from spdtokens.evaluation.show import as_json as scores_as_json
    from spdtokens.evaluation.show import scores_table
    from spdtokens.models import ModelError
    from spdtokens.signal import SignalError
    from spdtokens.spd import NotSPDError
    from spdtokens.training import STABILITY_SEEDS, TrainingError
    from spdtokens.training.presets import resolve_preset
    from spdtokens.training.progress import TrainingBars

    default = ["token-log-euclidean", "token-bures-wasserstein", "token-euclidean", "ts-lr"]
    try:
        dataset = load_dataset(name)
        with TrainingBars() as bars:
            scores = session_transfer(
                dataset,
                method or default,
                preset=resolve_preset(preset, epochs=epochs),
                subjects=subject or (),
                seeds=STABILITY_SEEDS[:seeds],
                bands=bands,
                device=device,
                bar=bars.add,
            )
    except (DataError, SignalError, NotSPDError, ModelError, TrainingError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        _print_json(scores_as_json(scores, len(dataset.classes)))
    else:
        title = f"{dataset.name}: last session, trained on the ones before (preset {preset})"
        Console().print(scores_table(scores, len(dataset.classes), title))


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all cached tokens.")] = False,
) -> None:
    """Show or clear the tokens kept on disk."""
    from spdtokens.data.cache import TokenCache

    store = TokenCache()
    if clear:
        typer.echo(f"removed {store.clear()} file(s) from {store.path}")
        return
    entries = store.entries()
    size = sum(size for _, size, _ in entries) / 1e6
    typer.echo(f"{store.path}: {len(entries)} file(s), {size:.1f} MB of {store.limit / 1e6:.0f} MB")


@bench_app.command()
def tokenize(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 5,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads for every library; default: torch's.")
    ] = None,
) -> None:
    """Time raw trials to log tokens against the obvious loop and pyRiemann + SciPy."""
    from spdtokens.bench.tokenize import bench_tokenize

    result = bench_tokenize(repeats, threads)
    if as_json:
        _print_json(result)
        return
    n, channels, samples = result["shape"]
    table = Table(
        title=f"{n} trials of {channels} channels x {samples} samples, three bands, "
        f"{result['threads']} thread(s)"
    )
    for name in ("way", "milliseconds", "we are faster by"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name, milliseconds in result["milliseconds"].items():
        speedup = result["speedup"].get(name)
        table.add_row(name, f"{milliseconds:.0f}", f"{speedup:.1f}x" if speedup else "")
    Console().print(table)


@bench_app.command()
def train(
    as_json: AsJson = False,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 7,
    runs: Annotated[int, typer.Option(min=1, help="Runs our engine trains together.")] = 45,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads for every way; default: torch's.")
    ] = None,
) -> None:
    """Time training against the obvious loop, with and without cached tokens."""
    from spdtokens.bench.show import train_tables
    from spdtokens.bench.train import bench_train

    console = Console(stderr=True)
    with console.status("Preparing") as status:
        result = bench_train(rounds, threads, runs, lambda text: status.update(f"Timing: {text}"))
    if as_json:
        _print_json(result)
        return
    for table in train_tables(result):
        Console().print(table)


@bench_app.command()
def latency(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=1000, help="Timed calls of each way.")] = 2000,
) -> None:
    """Time one trial from covariance to class probabilities against plain torch, one thread."""
    from spdtokens.bench.latency import OURS, PEER, bench_latency

    result = bench_latency(repeats)
    if as_json:
        _print_json(result)
        return
    table = Table(
        title=f"One trial, covariance to class probabilities: milliseconds of {result['calls']} "
        "single calls, one thread",
        caption=f"99 %: one call in a hundred takes longer. The paper states {result['paper']} "
        "for a forward pass.",
    )
    for name in ("trial", OURS, "99 %", PEER, "99 %", "we are faster by"):
        table.add_column(name, justify="left" if name == "trial" else "right")
    for row in result["rows"]:
        times = [row["milliseconds"][name] for name in (OURS, PEER)]
        table.add_row(
            f"{row['channels']} channels, {row['tokens']} token(s)",
            *(f"{t[key]:.3f}" for t in times for key in ("median", "p99")),
            f"{row['speedup']:.1f}x",
        )
    Console().print(table)
