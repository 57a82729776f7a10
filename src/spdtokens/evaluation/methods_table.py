"""The methods as a table and as plain values."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from spdtokens.models import ModelError
from spdtokens.models.networks import TrialShape
from spdtokens.training.methods import METHODS

#: The paper's data sets as networks see them: channels, classes, samples, rate.
SHAPES = {
    "BCI2a": TrialShape(22, 4, 438, 125.0),
    "BCIcha": TrialShape(56, 2, 160, 128.0),
    "MAMEM": TrialShape(8, 5, 125, 125.0),
}


def methods_rows() -> list[dict[str, Any]]:
    """Name, family, input, reference, paradigm and number of parameters of every method."""
    rows = []
    for method in METHODS.values():
        counts: dict[str, int | None] = {}
        for name, shape in SHAPES.items():
            try:
                counts[name] = None if method.parameters is None else method.parameters(shape)
            except ModelError:  # the network cannot be built at this shape
                counts[name] = None
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


def methods_table(rows: list[dict[str, Any]]) -> Table:
    """For people."""
    table = Table(
        title="Methods",
        caption="Parameters at the shapes of the paper's data sets; - for methods without a fixed "
        "number. All are part of spdtokens: no extra is needed.",
        box=box.SIMPLE,
    )
    table.add_column("name", no_wrap=True)
    for name in ("family", "input"):
        table.add_column(name)
    for name in SHAPES:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reference")
    for row in rows:
        counts = (row["parameters"][name] for name in SHAPES)
        table.add_row(
            f"[bold]{row['name']}[/]",
            row["family"],
            row["input"],
            *("-" if count is None else f"{count:,}" for count in counts),
            row["reference"],
        )
    return table
