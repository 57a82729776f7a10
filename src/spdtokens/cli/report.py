"""``spdtokens report``: a study, or what ``reproduce`` made, as one HTML file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from spdtokens._tables import counted
from spdtokens.cli.app import app, errors_told
from spdtokens.cli.study import AnyCode, Store, _planned, _store


@app.command()
def report(
    file: Annotated[
        Path, typer.Argument(help="A study's TOML file, or a folder that reproduce wrote to.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The HTML file to write; of a folder, its report.html by default."
        ),
    ] = None,
    store: Store = None,
    tables: Annotated[
        Path | None, typer.Option(help="Folder to write every table to, as .tex and .md.")
    ] = None,
    any_code: AnyCode = False,
    explain: Annotated[
        bool,
        typer.Option(
            help="Refit one run of the 3 best token methods of each section, to show which "
            "channels and bands decide."
        ),
    ] = True,
) -> None:
    """Write what a study found, or what was reproduced, as one HTML file that needs no network."""
    from spdtokens._files import output_folder
    from spdtokens.errors import ReportError
    from spdtokens.reporting.page import check_page_path, write_page, write_tables
    from spdtokens.reporting.report import make_report

    if file.is_dir():
        _reproduced(file, out or file / "report.html", store, tables, any_code)
        return
    with errors_told():
        if out is None:
            raise ReportError(
                f"Say where to write the report: spdtokens report {file} -o FILE.html."
            )
        check_page_path(out)
        if tables is not None:
            output_folder(tables)
        with _store(file, store) as runs:
            if not len(runs):
                raise ReportError(f"{runs.path} has no runs yet: spdtokens study run {file}.")
            planned = _planned(file, any_code)
            tell = partial(typer.echo, err=True)
            found = make_report(planned, runs, explain=explain, tell=tell)
        write_page(found, out)
        written = [] if tables is None else write_tables(found, tables)
    typer.echo(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if written:
        typer.echo(f"Written: {counted(len(written), 'file')} of tables to {tables}")


def _reproduced(
    folder: Path, out: Path, store: Path | None, tables: Path | None, any_code: bool
) -> None:
    from spdtokens._files import output_folder
    from spdtokens.errors import ReportError
    from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report
    from spdtokens.reporting.page import check_page_path, write_table_files

    with errors_told():
        if store is not None or any_code:
            raise ReportError(
                f"{folder} is a folder of reproduced tables, which are shown as they were written: "
                "leave out --store and --any-code, or give them to spdtokens reproduce."
            )
        check_page_path(out)
        if tables is not None:
            output_folder(tables)
        found = make_paper_report(folder)
        write_paper_report(found, out)
        written = [] if tables is None else write_table_files(found.tables(), tables)
    typer.echo(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if written:
        typer.echo(f"Written: {counted(len(written), 'file')} of tables to {tables}")
