"""Reproduced tables and figures as one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.paper.audit import audit_paper
from spdtokens.paper.findings import tally
from spdtokens.paper.reproduce.figures import FIGURES, Drawn
from spdtokens.paper.reproduce.run import ScoreTable, distinct
from spdtokens.paper.reproduce.tables import (
    MEASURED,
    Folder,
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
        yield from map(score_table, self.folder.scores)
        for content in self.folder.measured.values():
            yield from measured_tables(content)
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


# What a folder comes to, in sentences


def all_cells(folder: Folder) -> pd.DataFrame:
    """Different cells of all tables of accuracies."""
    return distinct(pd.concat([table.frame for table in folder.scores]))


def apart_and_nearer(cells: pd.DataFrame) -> list[str]:
    """How far train is from test, and how often the paper's value is nearer to which."""
    found = []
    if len(cells):
        mean = cells["gap"].mean()
        side = "above" if mean >= 0 else "below"
        found.append(f"train is on average {percent(abs(mean))} points {side} test")
    near = cells["nearer"].value_counts()
    if total := int(near.drop("", errors="ignore").sum()):
        equal = f", as far from both in {near['equal']}" if "equal" in near else ""
        found.append(
            f"the paper's value is nearer to our train than to our test score in "
            f"{near.get('train', 0)} of {counted(total, 'cell')}, nearer to test in "
            f"{near.get('test', 0)}{equal}"
        )
    return found


def sentences(folder: Folder, checks: Sequence[dict[str, Any]]) -> list[str]:
    """The summary, most important first; last what is missing, unfinished, or by other code."""
    found = []
    if folder.scores and len(cells := all_cells(folder)):
        apart, *nearer = apart_and_nearer(cells)
        found.append(
            f"Over {counted(len(cells), 'different cell')} of "
            f"{counted(len(folder.scores), 'table')}, accuracy is {percent(cells['train'].mean())} "
            f"% on training and {percent(cells['test'].mean())} % on test trials: {apart}."
        )
        found += [f"{text[:1].upper()}{text[1:]}." for text in nearer]
    if any(table.extent.data == "sim" for table in folder.scores):
        found.append(
            "Simulated recordings stand for the paper's. How near its values are to ours says "
            "nothing of its recordings; the distance of train from test shows what its "
            "configuration does where the truth is known."
        )
    for extent in dict.fromkeys(table.extent for table in folder.scores):
        names = [table.name for table in folder.scores if table.extent == extent]
        which = "every table" if len(names) == len(folder.scores) else listed(names, 20)
        found.append(f"Extent of {which}: {extent.note}")
    told = tally(checks)
    found.append(
        f"Of {len(checks)} checks of the paper's printed numbers against each other: {told}."
    )
    if "theory" in folder.measured:
        claims = folder.measured["theory"]["claims"]
        told = tally(claims)
        found.append(f"Of {len(claims)} claims of its theory, tested numerically: {told}.")
    empty = {t.name: int(t.cells["test"].isna().sum()) for t in folder.scores}
    if unfinished := [f"{name} ({n} of its cells)" for name, n in empty.items() if n]:
        found.append(f"Unfinished: {listed(unfinished)} have no runs.")
    if folder.missing:
        found.append(f"Not made yet: {listed(folder.missing, 30)}.")
    if folder.foreign:
        found.append(
            f"Made by other code than the spdtokens that wrote this page: "
            f"{listed(folder.foreign, 30)}. The same command today may give other numbers."
        )
    return found


# Tables


def overview(folder: Folder) -> Table:
    """One row per table of accuracies."""
    rows = []
    for table in folder.scores:
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
    headers = ("table", "cells", "train", "test", f"train {MINUS} test", "reported",
               "nearer train", "nearer test")  # fmt: skip
    note = (
        "Mean accuracy in % over different cells; of those for which the paper reports a "
        "value, how many are nearer to our train and how many nearer to our test score."
    )
    return Table("overview", "All tables of accuracies", headers, rows, note)


def checks_table(checks: Sequence[dict[str, Any]]) -> Table:
    """Every check of the audit, those that do not hold first."""
    keys = ("id", "verdict", "where", "printed", "arithmetic")
    ordered = sorted(checks, key=lambda check: check["verdict"] == "holds")
    rows = [[Cell(str(check[key])) for key in keys] for check in ordered]
    return Table("audit", "Checks of the printed numbers", keys, rows, f"{tally(checks)}.")


def commands_table(folder: Folder) -> Table:
    """The command that makes each table and figure again."""
    rows = [
        [Cell(name), Cell(command or "by Python: no option asks for this extent")]
        for name, command in folder.commands.items()
    ]
    return Table("commands", "What makes each again", ("table or figure", "command"), rows)


# The page


def page(found: PaperReport) -> str:
    """The whole page."""
    folder, checks = found.folder, found.checks
    sections: list[tuple[str, str, str, str]] = [
        (table.name, table.heading, table.label, _scores(table)) for table in folder.scores
    ]
    for name, content in folder.measured.items():
        tables = measured_tables(content)
        # One table needs no heading beside its section's.
        shown = [prose(t) for t in tables] if tables[1:] else [to_html(tables[0], heading=False)]
        sections.append((name, MEASURED[name], paper_table(name).label, "\n".join(shown)))
    for name, drawn in folder.figures.items():
        about = FIGURES[name]
        image = _image(drawn, about.caption)
        sections.append((name, f"Figure: {about.title}", about.label, image))
    audited = (
        "<p>What the paper prints, recomputed from what it prints elsewhere: "
        f"<code>spdtokens audit</code>. {tally(checks)}.</p>"
        f"<details><summary>All {len(checks)} checks</summary>"
        f"{prose(checks_table(checks), heading=False)}</details>"
    )
    made = (
        "<p>Every accuracy comes from runs in <code>runs.sqlite</code>, beside this page when it "
        "was written. Each of these commands does what is missing and writes its table or figure "
        f"again:</p>{prose(commands_table(folder))}"
        + (prose(origin_table(folder.runs)) if folder.runs else "")
    )
    sections.append(("audit", "The printed numbers, audited", "", audited))
    sections.append(("provenance", "Where the numbers come from", "", made))
    scope = (
        f"{counted(len(folder.scores) + len(folder.measured), 'table')}, "
        f"{counted(len(folder.figures), 'figure')}, {counted(len(folder.runs), 'run')}."
    )
    body = [f'<p>{scope}</p>\n<h2 id="summary">Summary</h2>', bullets(sentences(folder, checks))]
    if folder.scores:
        body += [to_html(overview(folder)), _ours_against_reported(all_cells(folder))]
    body.append(contents([(f"section-{name}", title) for name, title, _, _ in sections]))
    for name, title, label, inside in sections:
        where = f'<p class="note">The paper\'s <code>{escape(label)}</code>.</p>' if label else ""
        heading = escape(title.removeprefix("Figure: "))
        body.append(f'<h2 id="section-{name}">{heading}</h2>\n{where}\n{inside}')
    return whole_page(TITLE, body, found.written)


def _scores(table: ScoreTable) -> str:
    told = [f"{t[:1].upper()}{t[1:]}." for t in apart_and_nearer(distinct(table.frame))]
    shown = to_html(score_table(table), heading=False)
    return f'<p>{escape(" ".join(told))}</p>\n<div class="scores">{shown}</div>'


def _image(drawn: Drawn, caption: str) -> str:
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


def _ours_against_reported(cells: pd.DataFrame) -> str:
    """Train and test of every cell against the printed value; empty where nothing is printed."""
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
        axes.set(xlim=(0, 102), ylim=(0, 102), xlabel="reported by the paper, accuracy in %",
                 ylabel="ours, accuracy in %", aspect="equal")  # fmt: skip
        plain(axes)
        figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=8.5)
        near = cells["nearer"].value_counts()
        label = (
            f"Scatter of our accuracy against the paper's for {len(cells)} cells. Nearer to the "
            f"paper's: train in {near.get('train', 0)}, test in {near.get('test', 0)}."
        )
        caption = (
            "One square (train) and one dot (test) for each different cell. On the diagonal our "
            "score is what the paper reports."
        )
        picture = Picture(figure, label, caption)
        return figures_of(Group("Ours against reported", (picture,)), "ours")
