"""``spdtokens report``: a study, or what ``reproduce`` made, as one HTML file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdtokens._tables import counted
from spdtokens.cli.app import AnyCode, Store, app, argument, option, written
from spdtokens.cli.study import opened, run_command

if TYPE_CHECKING:
    from spdtokens.paper.reproduce.page import PaperReport
    from spdtokens.reporting.report import Report


@app.command()
def report(
    file: Annotated[Path, argument("A study's TOML file, or a folder that reproduce wrote to.")],
    out: Annotated[
        Path | None,
        option("The HTML file to write; of a folder, its report.html by default.", "--out", "-o"),
    ] = None,
    store: Store = None,
    tables: Annotated[
        Path | None, option("Folder to write every table to, as .tex and .md.")
    ] = None,
    any_code: AnyCode = False,
    explain: Annotated[
        bool,
        option(
            "Refit one run of the 3 best token methods of each section, to show which channels and "
            "bands decide."
        ),
    ] = True,
) -> None:
    """Write what a study found, or what was reproduced, as one HTML file that needs no network."""
    from spdtokens._files import output_folder
    from spdtokens.errors import ReportError
    from spdtokens.reporting.page import check_page_path, write_table_files

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
    found: Report | PaperReport
    if folder:
        from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report

        found = make_paper_report(file)
        write_paper_report(found, out)
    else:
        from spdtokens.reporting.page import write_page
        from spdtokens.reporting.report import make_report

        with opened(file, store, any_code) as (planned, runs):
            if not len(runs):
                raise ReportError(f"{runs.path} has no runs yet: {run_command(file, store)}")
            found = make_report(planned, runs, explain=explain, tell=partial(typer.echo, err=True))
        write_page(found, out)
    written(out)
    if tables is not None:
        files = write_table_files(found.tables(), tables)
        typer.echo(f"Written: {counted(len(files), 'file')} of tables to {tables}")
