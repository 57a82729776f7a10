"""``spdtokens report``: a study, or the output of ``reproduce``, as one HTML file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdtokens._tables import counted
from spdtokens.cli.app import command, existing, written
from spdtokens.cli.study import NO_STUDY, opened, run_command

if TYPE_CHECKING:
    from spdtokens.paper.reproduce.page import PaperReport
    from spdtokens.reporting.report import Report


@command()
def report(
    file: Path,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    store: Path | None = None,
    tables: Path | None = None,
    any_code: bool = False,
    explain: bool = True,
) -> None:
    """Write the results of a study, or the reproduced tables, as one self-contained HTML file.

    Parameters
    ----------
    file : path
        Study file (.toml), or folder that `spdtokens reproduce` wrote.
    out : path, default=report.html in the folder
        HTML file to write. Required for a study.
    tables : path
        Folder to write every table to, as .tex and .md files.
    explain : bool
        Refit one run of the three best token methods per section, to show which channels and bands
        their decisions depend on.
    """
    from spdtokens._files import output_folder
    from spdtokens.errors import ReportError
    from spdtokens.reporting.page import check_page_path, write_table_files

    existing(file, NO_STUDY)
    folder = file.is_dir()
    if folder and (store is not None or any_code):
        raise ReportError(
            f"{file} is a folder of reproduced tables, to which --store and --any-code do not "
            f"apply: spdtokens report {file}"
        )
    if out is None and not folder:
        raise ReportError(
            f"--out is required for a study: spdtokens report {file} -o {file.with_suffix('.html')}"
        )
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
        typer.echo(f"Written: {tables} ({counted(len(files), 'file')})")
