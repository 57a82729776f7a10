"""``spdtokens theory``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from spdtokens.cli.app import AsJson, app, print_json


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
        print_json({"claims": findings})
    else:
        Console().print(theory_table(findings))
    if folder is not None:
        for path in write_theory(findings, folder, seed):
            typer.echo(f"wrote {path}", err=True)
