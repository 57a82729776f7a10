"""The audit as tables and files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._files import written_whole
from spdtokens.paper.audit.check import VERDICTS
from spdtokens.paper.audit.figure import granularity_figure

COLOURS = {
    "holds": "green",
    "does not hold": "red",
    "cannot be both": "red",
    "fits training size": "magenta",
    "is something else": "yellow",
    "undecided": "dim",
}


def audit_table(findings: list[dict[str, Any]]) -> Table:
    """One row a check: what is printed, what follows, the verdict."""
    counts = Counter(finding["verdict"] for finding in findings)
    table = Table(
        title="The paper's numbers, recomputed from each other",
        caption=", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]),
        box=box.SIMPLE,
        show_lines=True,
    )
    table.add_column("printed", ratio=5)
    table.add_column("verdict", width=9)
    table.add_column("arithmetic", ratio=6)
    for finding in findings:
        colour = COLOURS[finding["verdict"]]
        table.add_row(
            f"[bold]{finding['id']}[/]\n{escape(finding['printed'])}\n"
            f"[dim]{escape(finding['where'])}[/]",
            f"[{colour}]{finding['verdict']}[/]",
            f"[dim]{escape(finding['expected'])}[/]\n{escape(finding['arithmetic'])}",
        )
    return table


def write_audit(findings: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Write ``audit.json`` and ``granularity.png``; returns their paths."""
    data, picture = folder / "audit.json", folder / "granularity.png"
    with written_whole(data) as path:
        path.write_text(json.dumps({"checks": findings}, indent=2) + "\n")
    with written_whole(picture) as path:
        granularity_figure().savefig(path, dpi=150)
    return [data, picture]


def report_tables(result: dict[str, Any]) -> list[Table]:
    """The values of a file and, in a second table, the sizes that explain a group of them."""
    values = Table(title="Reported accuracies", box=box.SIMPLE)
    for name in ("line", "label", "value", "seeds", "n"):
        values.add_column(name, justify="left" if name == "label" else "right")
    values.add_column("possible")
    for row in result["values"]:
        possible = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[row["possible"]]
        if not row["informative"]:
            possible = "[dim]yes, as any value[/]"
        values.add_row(
            str(row["line"]),
            escape(row["label"]),
            row["value"],
            str(row["seeds"]),
            "" if row["n"] is None else str(row["n"]),
            possible,
        )
    groups = Table(
        title=f"Numbers of test trials up to {result['max_n']} that explain all values",
        caption="Multiples of a number that fits, fit too, and are left out.",
        box=box.SIMPLE,
    )
    for name in ("group", "values", "impossible", "n that fit all"):
        groups.add_column(name, justify="right" if name in ("values", "impossible") else "left")
    for group in result["groups"]:
        fitting = list(map(str, group["smallest"]))
        shown = ", ".join(fitting[:12]) + (f" and {len(fitting) - 12} more" if fitting[12:] else "")
        groups.add_row(
            escape(group["group"]),
            str(group["values"]),
            str(group["impossible"]) if group["claimed"] else "",
            shown or "none",
        )
    return [values, groups]


def write_report(result: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``report.json``; returns its path."""
    data = folder / "report.json"
    with written_whole(data) as path:
        path.write_text(json.dumps(result, indent=2) + "\n")
    return [data]
