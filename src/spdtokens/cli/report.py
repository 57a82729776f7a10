"""``spdtokens report``: a study, or what ``reproduce`` made, as one HTML file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from spdtokens._tables import counted
from spdtokens.cli.app import AnyCode, Store, app
from spdtokens.cli.study import open_store, plan_file


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
    from spdtokens.reporting.page import check_page_path

    folder = file.is_dir()
    if folder and (store is not None or any_code):
        raise ReportError(
            f"{file} is a folder of reproduced tables, which are shown as they were written: "
            "leave out --store and --any-code, or give them to spdtokens reproduce."
        )
    if out is None and not folder:
        raise ReportError(f"Say where to write the report: spdtokens report {file} -o FILE.html.")
    out = out or file / "report.html"
    check_page_path(out)
    if tables is not None:
        output_folder(tables)
    if folder:
        written = _reproduced(file, out, tables)
    else:
        written = _study(file, out, tables, store, any_code, explain)
    typer.echo(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if written:
        typer.echo(f"Written: {counted(len(written), 'file')} of tables to {tables}")


def _study(
    file: Path, out: Path, tables: Path | None, store: Path | None, any_code: bool, explain: bool
) -> list[Path]:
    from spdtokens.errors import ReportError
    from spdtokens.reporting.page import write_page, write_tables
    from spdtokens.reporting.report import make_report

    with open_store(file, store) as runs:
        if not len(runs):
            raise ReportError(f"{runs.path} has no runs yet: spdtokens study run {file}.")
        planned = plan_file(file, any_code)
        found = make_report(planned, runs, explain=explain, tell=partial(typer.echo, err=True))
    write_page(found, out)
    return [] if tables is None else write_tables(found, tables)


def _reproduced(folder: Path, out: Path, tables: Path | None) -> list[Path]:
    from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report
    from spdtokens.reporting.page import write_table_files

    found = make_paper_report(folder)
    write_paper_report(found, out)
    return [] if tables is None else write_table_files(found.tables(), tables)
