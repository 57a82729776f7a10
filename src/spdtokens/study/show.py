"""A study's state and comparisons for people."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich import box
from rich.table import Table

from spdtokens.evaluation.metrics import METRICS
from spdtokens.study.comparison import Comparisons


def status_table(
    total: Mapping[str, int], missing: Mapping[str, int], codes: Mapping[str, int], code: str | None
) -> Table:
    """Runs done of each method."""
    others = sum(n for other, n in codes.items() if other != code)
    note = ""
    if code is not None and others:
        note = (
            f"The store also has {others} runs by other code of spdtokens, which do not count; "
            "--any-code counts them."
        )
    table = Table(title="Runs done", caption=note, box=box.SIMPLE)
    table.add_column("method")
    table.add_column("done", justify="right")
    table.add_column("of", justify="right")
    for method, n in total.items():
        table.add_row(method, str(n - missing.get(method, 0)), str(n))
    table.add_section()
    left = sum(missing.values())
    table.add_row("all", str(sum(total.values()) - left), str(sum(total.values())))
    return table


def comparison_table(found: Comparisons) -> Table:
    """One row a method: difference to the reference, and what every test says."""
    table = Table(
        title=f"{found.title}: difference to {found.reference}",
        caption=f"{METRICS[found.metric].title.capitalize()} over {found.n} {found.over}. p-values "
        "are Holm-corrected within each column; g is Hedges' g of the paired differences.",
        box=box.SIMPLE,
    )
    table.add_column("method", no_wrap=True)
    tests = list(found.p_values)
    for header in ("difference", "g", *(test.replace("_", " ") for test in tests)):
        table.add_column(header, justify="right")
    for i, method in enumerate(found.methods):
        table.add_row(
            method,
            f"{found.differences[i]:+.3f}",
            _number(found.effects[i], "+.2f"),
            *(_number(found.p_values[test][i], ".3f") for test in tests),
        )
    return table


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "-"
