"""``spdtokens audit``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from spdtokens.cli.app import AsJson, app, print_json

Folder = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for the JSON and the figure of the paper; created if missing."
    ),
]


@app.command()
def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV file of accuracies (value, n, seeds, group, label); default: the paper."
        ),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show all checks of the paper, not only contradictions.")
    ] = False,
    as_json: AsJson = False,
    folder: Folder = None,
    max_n: Annotated[
        int, typer.Option(min=1, max=100_000, help="Largest number of test trials to try for FILE.")
    ] = 400,
) -> None:
    """Check the paper's numbers against each other, or find possible n for accuracies of a FILE."""
    from spdtokens.paper import audit
    from spdtokens.paper.audit.granularity import audit_report, read_report, report_tables
    from spdtokens.paper.findings import findings_view, write_findings

    checked_folder(folder)
    if file is None:
        found = {"checks": collected(audit.audit_paper(), len(audit.CHECKS), "Checking")}
        show(found, findings_view("checks", found["checks"], show_all=show_all), as_json)
    else:
        found = audit_report(read_report(file), max_n)
        show(found, report_tables(found), as_json)
    if folder is not None:
        name = "audit.json" if file is None else "report.json"
        figures = {"granularity.png": audit.granularity_figure()} if file is None else {}
        for path in write_findings(folder, name, found, figures):
            typer.echo(f"wrote {path}", err=True)


def checked_folder(folder: Path | None) -> None:
    """Check that ``--out`` can be written to."""
    from spdtokens._files import output_folder

    try:
        if folder is not None:
            output_folder(folder)
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--out") from error


def collected(findings: Iterable[dict[str, Any]], total: int, doing: str) -> list[dict[str, Any]]:
    """Collect all findings, with a progress bar."""
    from rich.progress import track

    console = Console(stderr=True)
    return list(track(findings, doing, total, console=console, transient=True))


def show(data: dict[str, Any], tables: Iterable[RenderableType], as_json: bool) -> None:
    """Print JSON, or tables."""
    if as_json:
        print_json(data)
    else:
        for table in tables:
            Console().print(table)
