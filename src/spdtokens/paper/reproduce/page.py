"""Reproduced tables and figures as one self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.paper.audit import audit_paper
from spdtokens.paper.claims import NAME as CLAIMS
from spdtokens.paper.claims import TITLE as TITLE_OF_CLAIMS
from spdtokens.paper.claims import check_statements, claims_tables, results_of
from spdtokens.paper.findings import tally
from spdtokens.paper.reproduce.figures import FIGURES, Drawn
from spdtokens.paper.reproduce.scores import ScoreTable, distinct
from spdtokens.paper.reproduce.tables import (
    MEASURED,
    Folder,
    derived_tables,
    difference,
    measured_tables,
    percent,
    read_folder,
    score_table,
)
from spdtokens.paper.tables import paper_table
from spdtokens.reporting.figures import BLUE, INK, ORANGE, Group, Picture, plain
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
from spdtokens.reporting.tables import MINUS, NAN, Cell, Table, listed, origin_table

TITLE = "The paper's tables and figures, reproduced"


@dataclass(frozen=True)
class PaperReport:
    """Content of the page.

    Attributes
    ----------
    folder : Folder
        The reproduced tables and figures.
    checks : list of dict
        Checks of the audit.
    claims : list of dict
        Statements of the paper, see :func:`spdtokens.paper.claims.check_statements`.
    written : datetime
        Time of the report.
    """

    folder: Folder
    checks: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    written: datetime

    def tables(self) -> Iterator[Table]:
        """Yield all tables, in the order of the page."""
        yield from claims_tables(self.claims)
        if self.folder.shown:
            yield overview(self.folder)
        for found in self.folder.shown:
            beside = self.folder.beside(found)
            yield score_table(found, paper_split=beside)
            yield from derived_tables(found, beside)
        for content in self.folder.measured.values():
            yield from measured_tables(content)
        yield checks_table(self.checks)
        yield commands_table(self.folder)
        if self.folder.runs:
            yield origin_table(self.folder.runs)


def make_paper_report(path: Path) -> PaperReport:
    """Read a folder and audit the paper."""
    folder, checks = read_folder(path), list(audit_paper())
    claims = check_statements(results_of(folder, checks))
    return PaperReport(folder, checks, claims, datetime.now(UTC))


def write_paper_report(found: PaperReport, path: Path) -> None:
    """Write the page."""
    check_page_path(path)
    text = page(found)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


# Summary


def all_cells(folder: Folder) -> pd.DataFrame:
    """Return the distinct cells of all tables of accuracies."""
    return distinct(pd.concat([table.frame for table in folder.shown]))


def apart_and_nearer(cells: pd.DataFrame) -> list[str]:
    """Describe the gap between train and test, and which of them the paper's values are nearer."""
    found = []
    if len(cells):
        mean = cells["gap"].mean()
        side = "above" if mean >= 0 else "below"
        found.append(f"train is {percent(abs(mean))} points {side} test on average")
    near = cells["nearer"].value_counts()
    if total := int(near.drop("", errors="ignore").sum()):
        equal = f", equally near to both in {near['equal']}" if "equal" in near else ""
        found.append(
            f"the paper's value is nearer to our train score in {near.get('train', 0)} of "
            f"{counted(total, 'cell')}, nearer to our test score in {near.get('test', 0)}{equal}"
        )
    return found


def sentences(folder: Folder, checks: Sequence[dict[str, Any]]) -> list[str]:
    """Return the sentences of the summary."""
    found = []
    if folder.shown and len(cells := all_cells(folder)):
        apart, *nearer = apart_and_nearer(cells)
        found.append(
            f"Mean accuracy over {counted(len(cells), 'distinct cell')} of "
            f"{counted(len(folder.shown), 'table')} is {percent(cells['train'].mean())} % on "
            f"training trials and {percent(cells['test'].mean())} % on test trials: {apart}."
        )
        found += [f"{text[:1].upper()}{text[1:]}." for text in nearer]
    if any(table.extent.data == "sim" for table in folder.shown):
        found.append(
            "Our values are from simulated data, the paper's from real data, so they cannot be "
            "compared directly. The gap between train and test shows how much the paper's "
            "configuration overfits."
        )
    for extent in dict.fromkeys(table.extent for table in folder.shown):
        names = [table.name for table in folder.shown if table.extent == extent]
        which = "every table" if len(names) == len(folder.shown) else listed(names, 20)
        found.append(f"Extent of {which}: {extent.note}")
    told = tally(checks)
    found.append(f"Of {len(checks)} checks of the paper's printed numbers: {told}.")
    if "theory" in folder.measured:
        claims = folder.measured["theory"]["claims"]
        told = tally(claims)
        found.append(f"Of {len(claims)} claims of the paper's theory: {told}.")
    empty = {t.name: int(t.cells["test"].isna().sum()) for t in folder.shown}
    if unfinished := [f"{name} ({n} of its cells)" for name, n in empty.items() if n]:
        found.append(f"Unfinished: {listed(unfinished)} have no runs.")
    if folder.missing:
        found.append(f"Not made yet: {listed(folder.missing, 30)}.")
    if folder.foreign:
        found.append(
            f"Made by other code than this page: {listed(folder.foreign, 30)}. The same command "
            "may now give other numbers."
        )
    return found


# Tables


def overview(folder: Folder) -> Table:
    """Make a table with one row per table of accuracies."""
    rows = []
    for table in folder.shown:
        cells = distinct(table.frame)
        train, test, gap = (cells[key].mean() for key in ("train", "test", "gap"))
        near = cells["nearer"][cells["nearer"] != ""]
        counts = [len(near), int((near == "train").sum()), int((near == "test").sum())]
        rows.append(
            [
                Cell(table.heading),
                Cell(str(len(cells)), len(cells)),
                Cell(percent(train), train),
                Cell(percent(test), test),
                Cell(difference(gap), gap),
                *(Cell(str(n), n) if len(near) else Cell("-", NAN) for n in counts),
            ]
        )
    headers = ("table", "cells", "train", "test", f"train {MINUS} test", "in the paper",
               "nearer train", "nearer test")  # fmt: skip
    note = (
        "Mean accuracy in % over distinct cells. The last columns count the cells for which the "
        "paper has a value, and those in which it is nearer to our train or our test score."
    )
    return Table("overview", "All tables of accuracies", headers, rows, note)


def checks_table(checks: Sequence[dict[str, Any]]) -> Table:
    """Make a table of all checks of the audit, failures first."""
    keys = ("id", "verdict", "where", "printed", "arithmetic")
    ordered = sorted(checks, key=lambda check: check["verdict"] == "holds")
    rows = [[Cell(str(check[key])) for key in keys] for check in ordered]
    return Table("audit", "Checks of the printed numbers", keys, rows, f"{tally(checks)}.")


def commands_table(folder: Folder) -> Table:
    """Make a table of the commands that make each table and figure."""
    rows = [
        [Cell(name), Cell(command or "Python only: there is no option for this extent")]
        for name, command in folder.commands.items()
    ]
    return Table("commands", "Commands", ("table or figure", "command"), rows)


# The page


def page(found: PaperReport) -> str:
    """Return the page as HTML."""
    folder, checks = found.folder, found.checks
    sections: list[tuple[str, str, str, str]] = [
        (CLAIMS, TITLE_OF_CLAIMS, "", _index(found.claims))
    ]
    sections += [
        (table.name, table.heading, table.label, _scores(table, folder.beside(table)))
        for table in folder.shown
    ]
    for name, content in folder.measured.items():
        tables = measured_tables(content)
        # A single table has the heading of its section.
        shown = [prose(t) for t in tables] if tables[1:] else [to_html(tables[0], heading=False)]
        sections.append((name, MEASURED[name], paper_table(name).label, "\n".join(shown)))
    for name, drawn in folder.figures.items():
        about = FIGURES[name]
        image = _image(drawn, about.caption)
        sections.append((name, f"Figure: {about.title}", about.label, image))
    audited = (
        "<p>The paper's printed numbers, checked against each other by "
        f"<code>spdtokens audit</code>. {tally(checks)}.</p>"
        f"<details><summary>All {len(checks)} checks</summary>"
        f"{prose(checks_table(checks), heading=False)}</details>"
    )
    made = (
        "<p>Accuracies are computed from the runs in <code>runs.sqlite</code> in the same folder. "
        "Each command does missing runs and rewrites its table or figure:</p>"
        f"{prose(commands_table(folder))}"
        + (prose(origin_table(folder.runs)) if folder.runs else "")
    )
    sections.append(("audit", "Audit of the printed numbers", "", audited))
    sections.append(("provenance", "Provenance", "", made))
    scope = (
        f"{counted(len(folder.shown) + len(folder.measured), 'table')}, "
        f"{counted(len(folder.figures), 'figure')}, {counted(len(folder.runs), 'run')}."
    )
    body = [f'<p>{scope}</p>\n<h2 id="summary">Summary</h2>', bullets(sentences(folder, checks))]
    if folder.shown:
        body += [to_html(overview(folder)), _ours_against_reported(all_cells(folder))]
    body.append(contents([(f"section-{name}", title) for name, title, _, _ in sections]))
    for name, title, label, inside in sections:
        where = f'<p class="note">The paper\'s <code>{escape(label)}</code>.</p>' if label else ""
        heading = escape(title.removeprefix("Figure: "))
        body.append(f'<h2 id="section-{name}">{heading}</h2>\n{where}\n{inside}')
    return whole_page(TITLE, body, found.written)


def _index(claims: Sequence[dict[str, Any]]) -> str:
    said = f"{counted(len(claims), 'statement')} of the paper: {tally(claims)}."
    shown = (
        f"<details><summary>{escape(t.title)}: {escape(t.note)}</summary>"
        f"{prose(replace(t, note=''), heading=False)}</details>"
        for t in claims_tables(claims)
    )
    return f"<p>{escape(said)}</p>\n" + "\n".join(shown)


def _scores(table: ScoreTable, paper_split: ScoreTable | None) -> str:
    told = [f"{t[:1].upper()}{t[1:]}." for t in apart_and_nearer(distinct(table.frame))]
    shown = to_html(score_table(table, paper_split=paper_split), heading=False)
    shown += "".join(to_html(other) for other in derived_tables(table, paper_split))
    return f'<p>{escape(" ".join(told))}</p>\n<div class="scores">{shown}</div>'


def _image(drawn: Drawn, caption: str) -> str:
    data = base64.b64encode(drawn.path.read_bytes()).decode()
    # Drawn at 150 dpi. Narrow windows scroll, so that the text stays readable.
    width = drawn.width * 96 // 150
    image = (
        f'<img src="data:image/png;base64,{data}" alt="{escape(drawn.label)}" width="{width}" '
        f'height="{drawn.height * 96 // 150}" style="min-width: {min(width, 640)}px">'
    )
    return (
        f'<figure><div class="scroll" tabindex="0">{image}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _ours_against_reported(cells: pd.DataFrame) -> str:
    """Draw train and test of every cell against the paper's value, if there is any."""
    cells = cells[cells["nearer"] != ""]
    if cells.empty:
        return ""
    with drawing():
        figure = Figure(figsize=(4.9, 4.6), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 100], [0, 100], color=INK, lw=1)
        for key, colour, marker in (("train", ORANGE, "s"), ("test", BLUE, "o")):
            axes.plot(
                100 * cells["printed"], 100 * cells[key], ls="", ms=5.5, mew=0, alpha=0.75,
                color=colour, marker=marker, label=f"our {key}",
            )  # fmt: skip
        axes.set(xlim=(0, 102), ylim=(0, 102), xlabel="paper, accuracy in %",
                 ylabel="ours, accuracy in %", aspect="equal")  # fmt: skip
        plain(axes)
        figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=8.5)
        near = cells["nearer"].value_counts()
        label = (
            f"Scatter of our accuracy against the paper's for {len(cells)} cells. Nearer to the "
            f"paper's: train in {near.get('train', 0)}, test in {near.get('test', 0)}."
        )
        caption = (
            "One square (train) and one dot (test) per distinct cell. On the diagonal, our score "
            "equals the paper's value."
        )
        picture = Picture(figure, label, caption)
        return figures_of(Group("Our accuracy against the paper's", (picture,)), "ours")
