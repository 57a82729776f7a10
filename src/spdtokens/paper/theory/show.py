"""The theory bench as a table and as files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._files import written_whole
from spdtokens.paper.theory.figures import bilipschitz_figure, conditioning_figure

COLOURS = {"holds": "green", "corrected": "yellow", "fails": "red"}


def theory_table(findings: list[dict[str, Any]]) -> Table:
    """One row a claim: what is said, the verdict, the evidence and what is true instead."""
    counts = Counter(finding["verdict"] for finding in findings)
    table = Table(
        title="The paper's theory, tested numerically",
        caption=", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS if counts[verdict]),
        box=box.SIMPLE,
        show_lines=True,
    )
    table.add_column("claim", ratio=5)
    table.add_column("verdict", no_wrap=True)
    table.add_column("evidence", ratio=7)
    for finding in findings:
        evidence = escape(finding["evidence"])
        if finding["verdict"] != "holds":
            for label, key in (
                ("smallest counter-example", "counterexample"),
                ("instead", "instead"),
            ):
                if finding[key]:
                    evidence += f"\n[bold]{label}:[/] {escape(finding[key])}"
        colour = COLOURS[finding["verdict"]]
        table.add_row(
            f"[bold]{finding['id']}[/]\n{escape(finding['claim'])}\n"
            f"[dim]{escape(finding['source'])}; tested on: {escape(finding['method'])}[/]",
            f"[{colour}]{finding['verdict']}[/]",
            evidence,
        )
    return table


def write_theory(findings: list[dict[str, Any]], folder: Path, seed: int) -> list[Path]:
    """Write ``theory.json`` and the two figures; returns their paths."""
    data = folder / "theory.json"
    with written_whole(data) as path:
        path.write_text(json.dumps({"claims": findings}, indent=2) + "\n")
    figures = {
        folder / "conditioning.png": conditioning_figure(),
        folder / "bilipschitz.png": bilipschitz_figure(seed),
    }
    for target, figure in figures.items():
        with written_whole(target) as path:
            figure.savefig(path, dpi=150)
    return [data, *figures]
