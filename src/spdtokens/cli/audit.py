"""``spdtokens audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from spdtokens.cli.app import AsJson, app, errors_told, print_json

Folder = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for the JSON and, of the paper, the figure; made if missing."
    ),
]


@app.command()
def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV of accuracies (value, n, seeds, group, label); default: the paper."
        ),
    ] = None,
    as_json: AsJson = False,
    folder: Folder = None,
    max_n: Annotated[
        int, typer.Option(min=1, max=100_000, help="Largest number of trials tried for a FILE.")
    ] = 400,
) -> None:
    """Recompute the paper's numbers from each other, or test reported accuracies for possible n."""
    from spdtokens._files import output_folder

    if folder is not None:
        try:
            output_folder(folder)
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--out") from error
    written = _paper(as_json, folder) if file is None else _report(file, as_json, folder, max_n)
    for path in written:
        typer.echo(f"wrote {path}", err=True)


def _paper(as_json: bool, folder: Path | None) -> list[Path]:
    from spdtokens.paper.audit import CHECKS, audit_paper
    from spdtokens.paper.audit.show import audit_table, write_audit

    findings = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Recomputing", total=len(CHECKS))
        for finding in audit_paper():
            findings.append(finding)
            progress.update(task, advance=1, description=f"Recomputed {finding['id']}")
    if as_json:
        print_json({"checks": findings})
    else:
        Console().print(audit_table(findings))
    return [] if folder is None else write_audit(findings, folder)


def _report(file: Path, as_json: bool, folder: Path | None, max_n: int) -> list[Path]:
    from spdtokens.paper.audit.own import audit_report, read_report
    from spdtokens.paper.audit.show import report_tables, write_report

    with errors_told():
        result = audit_report(read_report(file), max_n)
    if as_json:
        print_json(result)
    else:
        for table in report_tables(result):
            Console().print(table)
    return [] if folder is None else write_report(result, folder)
