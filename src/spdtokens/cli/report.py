"""``spdtokens report``: a study as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdtokens.cli.app import app, errors_told
from spdtokens.cli.study import AnyCode, File, Store, _planned, _store


@app.command()
def report(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")],
    store: Store = None,
    tables: Annotated[
        Path | None, typer.Option(help="Folder to write every table to, as .tex and .md.")
    ] = None,
    any_code: AnyCode = False,
) -> None:
    """Write what a study found as one HTML file that needs no network."""
    from spdtokens._files import output_folder
    from spdtokens.report.errors import ReportError
    from spdtokens.report.report import make_report
    from spdtokens.report.write import check_page_path, write_page, write_tables

    with errors_told():
        check_page_path(out)
        if tables is not None:
            output_folder(tables)
        with _store(file, store) as runs:
            if not len(runs):
                raise ReportError(f"{runs.path} has no runs yet: spdtokens study run {file}.")
            planned = _planned(file, any_code)
            found = make_report(planned, runs)
        write_page(found, out)
        written = [] if tables is None else write_tables(found, tables)
    typer.echo(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if written:
        typer.echo(f"Written: {len(written)} files of tables to {tables}")
