"""Reproduced tables for people, as Markdown, LaTeX and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.paper.reproduce.run import Extent, Reproduced, Value

#: Between our training score, our test score and what the paper prints.
HEADER = "train / test / reported"


def extent_note(extent: Extent) -> str:
    """What was left out, and which data stand for the paper's."""
    data = "simulated data" if extent.data == "sim" else "the paper's data sets"
    if extent.is_whole:
        return f"All subjects and 5 seeds, {data}."
    parts = []
    if extent.subjects is not None:
        parts.append(f"at most {counted(extent.subjects, 'subject')}")
    parts.append(counted(extent.seeds, "seed"))
    if extent.pooled_seeds is not None:
        parts.append(f"{extent.pooled_seeds} in cells over several subjects")
    if extent.network_epochs is not None:
        parts.append(
            f"{counted(extent.network_epochs, 'epoch')} for networks that train one by one"
        )
    return f"QUICK: {', '.join(parts)}; {data}."


def cell_text(value: Value) -> str:
    """``train / test / reported``, in percent."""
    return " / ".join(
        (_percent(value.train), _percent(value.test, value.std), value.reported or "-")
    )


def _percent(score: float, std: float = float("nan")) -> str:
    if not np.isfinite(score):
        return "-"
    spread = f" ± {100 * std:.1f}" if np.isfinite(std) else ""
    return f"{100 * score:.1f}{spread}"


def rich_table(found: Reproduced) -> Table:
    """For a terminal: a line for each cell, which fits where nine columns do not."""
    experiment = found.experiment
    label = f" ({experiment.label})" if experiment.label else ""
    table = Table(
        "",
        title=f"{experiment.title}{label}",
        caption=" ".join((extent_note(found.extent), experiment.note)).strip(),
        box=box.SIMPLE,
    )
    table.add_column("", no_wrap=True)
    for column in ("train", "test", "reported"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in found.rows:
        cells = [(c, found.values[row, c]) for c in found.columns if (row, c) in found.values]
        for i, (column, value) in enumerate(cells):
            table.add_row(
                "" if i else row,
                column,
                _percent(value.train),
                f"[bold]{_percent(value.test, value.std)}[/]",
                escape(value.reported.replace("+-", "±")),
                end_section=column == cells[-1][0],
            )
    return table


def markdown(found: Reproduced) -> str:
    """A table of GitHub's Markdown with a heading and notes."""
    lines = [f"### {found.experiment.title}", ""]
    if found.experiment.label:
        lines += [f"The paper's `{found.experiment.label}`. ", ""]
    lines += [
        " ".join((extent_note(found.extent), found.experiment.note)).strip(),
        f"Cells: {HEADER}, accuracy in percent, ± over subjects or seeds.",
        "",
        "| | " + " | ".join(found.columns) + " |",
        "|---|" + "---|" * len(found.columns),
    ]
    for row in found.rows:
        values = [found.values.get((row, column)) for column in found.columns]
        cells = ("" if value is None else cell_text(value) for value in values)
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def latex(found: Reproduced) -> str:
    """A booktabs table."""
    rows = []
    for row in found.rows:
        values = [found.values.get((row, column)) for column in found.columns]
        cells = ["" if value is None else _tex(cell_text(value)) for value in values]
        rows.append(" & ".join([_tex(row), *cells]) + r" \\")
    head = " & ".join(["", *map(_tex, found.columns)]) + r" \\"
    note = _tex(" ".join((extent_note(found.extent), found.experiment.note)).strip())
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_tex(found.experiment.title)}. {_tex(HEADER)}. {note}}}",
            rf"\begin{{tabular}}{{l{'c' * len(found.columns)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _tex(text: str) -> str:
    for sign, escaped in (("\\", r"\textbackslash "), ("&", r"\&"), ("%", r"\%"), ("_", r"\_")):
        text = text.replace(sign, escaped)
    return text.replace("+-", "±").replace("±", r"$\pm$").replace("<", "$<$")


def write_tables(tables: list[Reproduced], folder: Path) -> list[Path]:
    """Each table as Markdown, LaTeX and JSON."""
    written = []
    for table in tables:
        texts = {
            ".md": markdown(table),
            ".tex": latex(table),
            ".json": json.dumps(table.plain(), indent=2) + "\n",
        }
        for suffix, text in texts.items():
            path = folder / f"{table.experiment.name}{suffix}"
            with written_whole(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
            written.append(path)
    return written
