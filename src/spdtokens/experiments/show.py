"""A study's state and comparisons for people."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._tables import counted
from spdtokens.evaluation.metrics import METRICS
from spdtokens.experiments.comparison import Comparisons

#: Short enough for a table, and in full.
HEADERS = {
    "paired_t": "t",
    "wilcoxon": "Wilcoxon",
    "permutation": "sign flip",
    "corrected_resampled_t": "corrected t",
    "mcnemar": "McNemar",
    "trial_permutation": "permutation",
}
TITLES = {
    "paired_t": "paired t-test",
    "wilcoxon": "signed-rank test",
    "permutation": "sign-flip permutation test",
    "corrected_resampled_t": "corrected resampled t-test",
    "mcnemar": "exact test over trials",
    "trial_permutation": "paired permutation test over trials (dependent ones swapped together)",
}


def status_table(
    total: Mapping[str, int], missing: Mapping[str, int], codes: Mapping[str, int], code: str | None
) -> Table:
    """Runs done of each method.

    Parameters
    ----------
    total, missing : mapping of str to int
        Runs of each method, as tables show it.
    codes : mapping of str to int
        Runs in the store by each code.
    code : str or None
        Of which runs count; None for all.
    """
    others = sum(n for other, n in codes.items() if other != code)
    note = ""
    if code is not None and others:
        note = (
            f"The store also has {counted(others, 'run')} by other code of spdtokens, not counted; "
            "--any-code counts them."
        )
    table = Table(title="Runs done", caption=note, box=box.SIMPLE)
    table.add_column("method")
    table.add_column("done", justify="right")
    table.add_column("of", justify="right")
    for method, n in total.items():
        table.add_row(escape(method), str(n - missing.get(method, 0)), str(n))
    table.add_section()
    left = sum(missing.values())
    table.add_row("all", str(sum(total.values()) - left), str(sum(total.values())))
    return table


def comparison_table(found: Comparisons) -> Table:
    """One row a method: difference to the reference, and what every test says."""
    over = found.over if found.n != 1 else found.over.removesuffix("s")
    tests = list(found.p_values)
    named = ", ".join(f"{HEADERS[test]}: {TITLES[test]}" for test in tests)
    missing = "".join(f" No p for {name}: {why}." for name, why in found.no_p_because.items())
    table = Table(
        title=escape(f"{found.title}: difference to {found.reference}"),
        caption=f"{METRICS[found.metric].title.capitalize()} over {found.n} {over}; g: Hedges' g "
        f"of the paired differences; p by {named}, Holm-corrected over methods.{escape(missing)}",
        box=box.SIMPLE,
    )
    table.add_column("method", no_wrap=True)
    for header in ("difference", "g", *(HEADERS[test] for test in tests)):
        table.add_column(header, justify="right", no_wrap=True)
    for i, method in enumerate(found.methods):
        table.add_row(
            escape(method),
            _number(found.differences[i], "+.3f"),
            _number(found.effects[i], "+.2f"),
            *(_p_value(found.p_values[test][i]) for test in tests),
        )
    return table


def _p_value(p: float) -> str:
    return "<.001" if p < 0.001 else _number(p, ".3f")


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "-"
