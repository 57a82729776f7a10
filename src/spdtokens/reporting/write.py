"""Write a report, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spdtokens._files import output_file, output_folder, written_whole
from spdtokens.errors import ReportError
from spdtokens.reporting.page import page
from spdtokens.reporting.report import Report
from spdtokens.reporting.table import Table, to_latex, to_markdown


def check_page_path(path: Path) -> None:
    """Refuse, before any work, a path that a page cannot be written to."""
    output_file(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"{path} does not end in .html, as a report must to be opened.")


def write_page(report: Report, path: Path) -> None:
    """Write the report as one HTML file."""
    check_page_path(path)
    text = page(report)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write every table as LaTeX (booktabs) and Markdown; a missing folder is made."""
    return write_table_files(report.tables(), folder)


def write_table_files(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write tables as LaTeX (booktabs) and Markdown; a missing folder is made."""
    output_folder(folder)
    written = []
    for table in tables:
        for suffix, form in ((".tex", to_latex), (".md", to_markdown)):
            path = folder / f"{table.name}{suffix}"
            with written_whole(path) as temporary:
                temporary.write_text(form(table), encoding="utf-8")
            written.append(path)
    return written
