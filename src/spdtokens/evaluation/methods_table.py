"""The methods as a table and as plain values."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._extras import how_to_install
from spdtokens.classifiers.methods import METHODS
from spdtokens.models import SMALL, STANDARD
from spdtokens.models.networks import TrialShape

#: The paper's data sets as networks see them (channels, classes, samples, rate), and the size of
#: its transformer for them.
SHAPES = {
    "BCI2a": (TrialShape(22, 4, 438, 125.0), STANDARD),
    "BCIcha": (TrialShape(56, 2, 160, 128.0), STANDARD),
    "MAMEM": (TrialShape(8, 5, 125, 125.0), SMALL),
}
#: Characters of a terminal from which there is room for references.
WIDE = 120


def methods_rows() -> list[dict[str, Any]]:
    """Name, family, input, reference, paradigm and number of parameters of every method.

    The number is None where there is no fixed one, or the method's extra is not installed.
    """
    rows = []
    for method in METHODS.values():
        counts: dict[str, int | None] = {}
        for name, (shape, config) in SHAPES.items():
            count = method.parameters if method.installed else None
            counts[name] = None if count is None else count(shape, config)
        rows.append(
            {
                "name": method.name,
                "family": method.family,
                "input": method.input,
                "only_for": method.only_for,
                "needs_signals": method.needs_signals,
                "parameters": counts,
                "reference": method.reference,
                "extra": method.extra,
                "installed": method.installed,
            }
        )
    return rows


def methods_table(rows: list[dict[str, Any]], width: int) -> Table:
    """For people with a terminal of so many characters."""
    wide = width >= WIDE
    table = Table(
        title="Methods",
        caption="Parameters at the shapes of the paper's data sets; - where there is no fixed "
        "number."
        + "".join(_about_extra(row) for row in rows if row["extra"])
        + ("" if wide else " References: --json, or a wider terminal."),
        box=box.SIMPLE,
    )
    table.add_column("name", no_wrap=True)
    table.add_column("input", no_wrap=True)
    for name in SHAPES:
        table.add_column(name, justify="right", no_wrap=True)
    if wide:
        table.add_column("reference")
    family = None
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            table.add_section()
            table.add_row(f"[italic]{family}[/]")
        counts = (row["parameters"][name] for name in SHAPES)
        table.add_row(
            f"[bold]{row['name']}[/]",
            row["input"],
            *("-" if count is None else f"{count:,}" for count in counts),
            *([row["reference"]] if wide else []),
        )
    return table


def _about_extra(row: dict[str, Any]) -> str:
    if row["installed"]:
        return f" {row['name']} comes with an extra, {row['extra']}, which is installed."
    # Brackets are markup to rich.
    command = escape(how_to_install(row["extra"]))
    return f" {row['name']} comes with an extra that is not installed: {command}."
