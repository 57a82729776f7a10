"""The command line: parse, call, print."""

from __future__ import annotations

import json
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
