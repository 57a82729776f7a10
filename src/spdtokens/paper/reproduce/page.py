"""Reproduced tables and figures as one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.paper.audit import VERDICTS, audit_paper
from spdtokens.paper.reproduce.drawn import Drawn
from spdtokens.paper.reproduce.figures import FIGURES
from spdtokens.paper.reproduce.folder import Folder, Scores, read_folder
from spdtokens.paper.reproduce.picture import ours_against_reported
from spdtokens.paper.reproduce.sentences import METRIC, apart, nearer, once, sentences
from spdtokens.paper.reproduce.show import extent_note
from spdtokens.paper.reproduce.side import SIDES, side_tables
from spdtokens.reporting.page import (
    bullets,
    check_page_path,
    contents,
    drawing,
    figures_of,
    prose,
    to_html,
    whole_page,
)
from spdtokens.reporting.tables import (
    MINUS,
    Cell,
    Table,
    difference_text,
    origin_table,
    score_text,
)

TITLE = "The paper's tables and figures, reproduced"
NAN = float("nan")
GAP = f"train {MINUS} test"


@dataclass(frozen=True)
class PaperReport:
    """All that stands on the page.

    Attributes
    ----------
    folder : Folder
    checks : list of dict
        Of the audit.
    written : datetime
    """

    folder: Folder
    checks: list[dict[str, Any]]
    written: datetime

    def tables(self) -> Iterator[Table]:
        """Every table, in the order of the page."""
        if self.folder.scores:
            yield overview(self.folder)
        yield from map(scores_table, self.folder.scores)
        for name, content in self.folder.sides.items():
            yield from side_tables(name, content)
        yield verdicts(self.checks)
        yield checks_table(self.checks)
        yield commands_table(self.folder)
        if self.folder.runs:
            yield origin_table(self.folder.runs)


def make_paper_report(path: Path) -> PaperReport:
    """Read a folder and audit the paper."""
    return PaperReport(read_folder(path), list(audit_paper()), datetime.now(UTC))


def write_paper_report(found: PaperReport, path: Path) -> None:
    """Write the page."""
    check_page_path(path)
    text = page(found)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def page(found: PaperReport) -> str:
    """The whole page."""
    folder = found.folder
    body = [_summary(found)]
    body += [_section(table.name, table.title, table.label, _scores(table))
             for table in folder.scores]  # fmt: skip
    for name, content in folder.sides.items():
        tables = side_tables(name, content)
        # One table needs no heading beside its section's.
        shown = [prose(t) for t in tables] if tables[1:] else [to_html(tables[0], heading=False)]
        body.append(_section(name, *SIDES[name], "\n".join(shown)))
    for name, drawn in folder.figures.items():
        about = FIGURES[name]
        body.append(_section(name, about.title, about.label, _figure(drawn, about.caption)))
    body += [_audit(found.checks), _provenance(folder)]
    return whole_page(TITLE, body, found.written)


def _summary(found: PaperReport) -> str:
    folder = found.folder
    n = len(folder.scores) + len(folder.sides)
    scope = (
        f"{counted(n, 'table')}, {counted(len(folder.figures), 'figure')}, "
        f"{counted(len(folder.runs), 'run')}."
    )
    lines = [f"<p>{scope}</p>", '<h2 id="summary">Summary</h2>']
    lines.append(bullets(sentences(folder, found.checks)))
    if folder.scores:
        lines.append(to_html(overview(folder)))
        group = ours_against_reported(folder.scores)
        if group is not None:
            with drawing():
                lines.append(figures_of(group, "ours"))
    links = [(table.name, table.title) for table in folder.scores]
    links += [(name, SIDES[name][0]) for name in folder.sides]
    links += [(name, f"Figure: {FIGURES[name].title}") for name in folder.figures]
    links += [
        ("audit", "The printed numbers, audited"),
        ("provenance", "Where the numbers come from"),
    ]
    ids = [(f"section-{name}", title) for name, title in links]
    return "\n".join([*lines, contents(ids)])


def overview(folder: Folder) -> Table:
    """One row a table of accuracies."""
    rows = []
    for table in folder.scores:
        cells = once(table.cells)
        means = [
            float(np.mean(values)) if (values := [v for v in part if v is not None]) else NAN
            for part in ([c.train for c in cells], [c.test for c in cells], [c.gap for c in cells])
        ]
        near = Counter(cell.nearer for cell in cells if cell.nearer)
        asked = sum(near.values())
        rows.append(
            [
                Cell(table.title),
                Cell(str(len(cells)), len(cells)),
                *(Cell(score_text(value, METRIC), value) for value in means[:2]),
                Cell(difference_text(means[2], METRIC), means[2]),
                Cell(str(asked) if asked else "-", asked or NAN),
                Cell(f"{near['train']}" if asked else "-", near["train"] if asked else NAN),
                Cell(f"{near['test']}" if asked else "-", near["test"] if asked else NAN),
            ]
        )
    headers = ("table", "cells", "train", "test", GAP, "reported", "nearer train",
               "nearer test")  # fmt: skip
    return Table(
        "overview",
        "All tables of accuracies",
        headers,
        rows,
        note="Mean accuracy in % over different cells; of those for which the paper reports a "
        "value, how many are nearer to our train and how many nearer to our test score.",
    )


def scores_table(table: Scores) -> Table:
    """One row a cell: train, test, and what the paper reports."""
    rows = [
        [
            Cell(cell.row),
            Cell(cell.column),
            *(_score(value) for value in (cell.train, cell.test, cell.std)),
            Cell(difference_text(_known(cell.gap), METRIC), _known(cell.gap)),
            Cell(cell.reported.replace("+-", "±") or "-", _known(cell.printed)),
            Cell(cell.nearer or "-"),
            Cell(str(cell.n_runs), cell.n_runs),
        ]
        for cell in table.cells
    ]
    headers = ("row", "column", "train", "test", "±", GAP, "reported", "nearer to",
               "runs")  # fmt: skip
    note = " ".join(filter(None, (extent_note(table.extent), table.note)))
    return Table(table.name, table.title, headers, rows, f"Accuracy in %. {note}")


def _known(value: float | None) -> float:
    return NAN if value is None else value


def _score(value: float | None) -> Cell:
    return Cell(score_text(_known(value), METRIC), _known(value))


def _section(name: str, title: str, label: str, inside: str) -> str:
    where = f'<p class="note">The paper\'s <code>{escape(label)}</code>.</p>' if label else ""
    return f'<h2 id="section-{name}">{escape(title)}</h2>\n{where}\n{inside}'


def _scores(table: Scores) -> str:
    cells = once(table.cells)
    told = [f"{text[:1].upper()}{text[1:]}." for text in (apart(cells), nearer(cells)) if text]
    shown = to_html(scores_table(table), heading=False)
    return f'<p>{escape(" ".join(told))}</p>\n<div class="scores">{shown}</div>'


def _figure(drawn: Drawn, caption: str) -> str:
    data = base64.b64encode(drawn.path.read_bytes()).decode()
    # Drawn with 150 dots an inch: below some width its letters could not be read, and it scrolls.
    width = drawn.width * 96 // 150
    image = (
        f'<img src="data:image/png;base64,{data}" alt="{escape(drawn.label)}" width="{width}" '
        f'height="{drawn.height * 96 // 150}" style="min-width: {min(width, 640)}px">'
    )
    return (
        f'<figure><div class="scroll" tabindex="0">{image}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def verdicts(checks: Sequence[dict[str, Any]]) -> Table:
    """How many checks of the audit came to each verdict, and which."""
    rows = []
    for verdict in VERDICTS:
        names = [check["id"] for check in checks if check["verdict"] == verdict]
        if names:
            rows.append([Cell(verdict), Cell(str(len(names)), len(names)), Cell(", ".join(names))])
    return Table("audit", "Verdicts", ("verdict", "checks", "which"), rows)


def checks_table(checks: Sequence[dict[str, Any]]) -> Table:
    """Every check of the audit."""
    keys = ("id", "verdict", "where", "printed", "arithmetic")
    rows = [[Cell(str(check[key])) for key in keys] for check in checks]
    return Table("audit-checks", "Every check", keys, rows)


def _audit(checks: Sequence[dict[str, Any]]) -> str:
    return "\n".join(
        [
            '<h2 id="section-audit">The printed numbers, audited</h2>',
            "<p>What the paper prints, recomputed from what it prints elsewhere: "
            "<code>spdtokens audit</code>.</p>",
            prose(verdicts(checks)),
            f"<details><summary>All {len(checks)} checks</summary>"
            f"{prose(checks_table(checks), heading=False)}</details>",
        ]
    )


def commands_table(folder: Folder) -> Table:
    """The command that makes each table and figure again."""
    rows = [
        [Cell(name), Cell(command or "by Python: no option asks for this extent")]
        for name, command in folder.commands.items()
    ]
    return Table("commands", "What makes each again", ("table or figure", "command"), rows)


def _provenance(folder: Folder) -> str:
    lines = [
        '<h2 id="section-provenance">Where the numbers come from</h2>',
        "<p>Every accuracy comes from runs in <code>runs.sqlite</code>, beside this page when it "
        "was written. Each of these commands does what is missing and writes its table or figure "
        "again:</p>",
        prose(commands_table(folder)),
    ]
    if folder.runs:
        lines.append(prose(origin_table(folder.runs)))
    return "\n".join(lines)
