"""``spdtokens theory``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdtokens.cli.app import AsJson, app
from spdtokens.cli.audit import checked_folder, collected, show


@app.command()
def theory(
    show_all: Annotated[
        bool, typer.Option("--all", help="Show all claims, not only those that do not hold.")
    ] = False,
    as_json: AsJson = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for theory.json and two figures; created if missing."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random matrices.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder or file of trials or covariances to test what the theory assumes about "
            "EEG; besides the simulated data sets."
        ),
    ] = None,
) -> None:
    """Test the theoretical claims of the paper numerically."""
    from spdtokens.datasets import load_dataset
    from spdtokens.paper import theory
    from spdtokens.paper.findings import findings_view, write_findings

    checked_folder(folder)
    if data is not None:
        load_dataset(data)  # an error in the data comes before the claims
    found = {"claims": collected(theory.check_claims(seed, data), len(theory.CLAIMS), "Testing")}
    show(found, findings_view("claims", found["claims"], show_all=show_all), as_json)
    if folder is not None:
        figures = {
            "conditioning.png": theory.gradients.conditioning_figure(),
            "bilipschitz.png": theory.distances.bilipschitz_figure(seed),
        }
        for path in write_findings(folder, "theory.json", found, figures):
            typer.echo(f"wrote {path}", err=True)
