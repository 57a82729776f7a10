"""The help of every command as a page, written from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

INTRODUCTION = """\
# Command line

Written from `spdtokens --help` and the help of every command when this site was built. `--json`
prints to standard output what a table shows; errors go to standard error in one line, and the exit
code is 1.
"""


def write_cli_page(path: Path) -> None:
    """Write the page, only if it changed, so that Sphinx need not read it again."""
    from spdtokens.cli import app

    root = typer.main.get_command(app)
    text = "\n".join([INTRODUCTION, *_sections(root, typer.Context(root), "spdtokens", 2)])
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _sections(command: Any, context: Any, name: str, level: int) -> Iterator[str]:
    """A section of the command and one of each that it has."""
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help" not in record[0] and "completion" not in record[0]:
            records[parameter.param_type_name].append(record)
    yield f"{'#' * level} {name}\n"
    yield f"{(command.help or '').strip()}\n"
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    for kind, rows in records.items():
        if rows:
            yield f"| {kind} | |\n|---|---|"
            yield "\n".join(f"| `{_cell(what)}` | {_prose(text)} |" for what, text in rows) + "\n"
    for child in command.list_commands(context) if hasattr(command, "list_commands") else ():
        found = command.get_command(context, child)
        if not found.hidden:
            inner = typer.Context(found, info_name=child, parent=context)
            yield from _sections(found, inner, f"{name} {child}", level + (level < 3))


def _cell(text: str) -> str:
    """Text that cannot end the cell of a table it stands in."""
    return " ".join(text.split()).replace("|", "\\|")


def _prose(text: str) -> str:
    """The same outside of code, where Markdown would take some signs for its own."""
    return re.sub(r"([<*_\[\]])", r"\\\1", _cell(text))
