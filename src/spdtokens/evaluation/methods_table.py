"""The methods as a table and as plain values."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from spdtokens.models import SMALL, STANDARD
from spdtokens.models.networks import TrialShape
from spdtokens.training.methods import METHODS

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
    """Name, family, input, reference, paradigm and number of parameters of every method."""
    rows = []
    for method in METHODS.values():
        counts: dict[str, int | None] = {}
        for name, (shape, config) in SHAPES.items():
            counts[name] = None if method.parameters is None else method.parameters(shape, config)
        rows.append(
            {
                "name": method.name,
                "family": method.family,
                "input": method.input,
                "only_for": method.only_for,
                "needs_signals": method.needs_signals,
                "parameters": counts,
                "reference": method.reference,
                "extra": None,
                "installed": True,
            }
        )
    return rows


def methods_table(rows: list[dict[str, Any]], width: int) -> Table:
    """For people with a terminal of so many characters."""
    wide = width >= WIDE
    table = Table(
        title="Methods",
        caption="Parameters at the shapes of the paper's data sets; - where there is no fixed "
        "number. All are part of spdtokens; no extra is needed."
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
