"""Summaries as a table and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._words import counted
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.summary import Row

#: Metrics that are shares and shown in percent.
PERCENT = ("accuracy", "balanced_accuracy", "f1")
TESTS = {
    "permutation": "a sign-flip permutation test over subjects",
    "corrected_resampled_t": "a corrected resampled t-test over folds",
    "mcnemar": "McNemar's exact test over trials",
}


def summary_table(rows: Sequence[Row], question: Question, name: str) -> Table:
    """For people: train beside test, and what the numbers mean."""
    seen = question.access + (
        "" if question.alignment == "none" else f", {question.alignment} by {question.domain}"
    )
    table = Table(
        title=f"{escape(name)}: {question.protocol}, target access {seen}",
        caption=_caption(rows),
        box=box.SIMPLE,
        pad_edge=False,
    )
    table.add_column("method", no_wrap=True)
    for header in ("train", "test", "±", "chance", "n", "runs", "p"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        value = _number(row.score, row.metric)
        mark = " [red]leaky[/]" if row.leaky else ""
        style = "bold" if row.score > row.chance_bound else "dim"
        p = row.p_holm
        table.add_row(
            escape(row.method) + mark,
            _number(row.train_score, row.metric),
            f"[{style}]{value}[/]" if np.isfinite(row.chance_bound) else value,
            _number(row.std, row.metric),
            _number(row.chance, row.metric),
            str(row.n_test),
            str(row.n_runs),
            _p_value(p),
        )
    return table


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Every row as plain values."""
    return {"results": [row.values() for row in rows]}


def _number(value: float, metric: str) -> str:
    if not np.isfinite(value):
        return "-"
    if metric in PERCENT:
        return f"{100 * value:.1f}"
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def _p_value(p: float) -> str:
    if not np.isfinite(p):
        return "-"
    return "<.001" if p < 0.001 else "1" if p > 0.9995 else f"{p:.3f}".lstrip("0")


def _caption(rows: Sequence[Row]) -> str:
    if not rows:
        return "No runs."
    row = rows[0]
    unit = " in percent" if row.metric in PERCENT else ""
    title = METRICS[row.metric].title
    text = f"{title[0].upper()}{title[1:]}{unit}: mean over seeds, then folds, then "
    seeds = counted(max(r.n_seeds for r in rows), "seed")
    text += f"subjects ({seeds}, {counted(row.n_folds, 'fold')}, "
    text += (
        f"{counted(row.n_subjects, 'subject')}; {row.n_train:.0f} training trials a run, n test "
    )
    text += "trials). "
    spreads = dict.fromkeys(r.spread_over for r in rows if r.spread_over)
    if spreads:
        text += f"± standard deviation over {' or '.join(spreads)}. "
    if np.isfinite(row.chance_bound):
        text += f"Guesses exceed {_number(row.chance_bound, row.metric)} once in 20 times. "
    tests = dict.fromkeys(r.comparison.test for r in rows if r.comparison)
    if tests:
        named = ", ".join(TESTS[test] for test in tests)
        text += f"p against {escape(row.method)} by {named}, Holm-corrected. "
    for note in dict.fromkeys(r.note for r in rows if r.note):
        text += f"{escape(', '.join(r.method for r in rows if r.note == note))}: {note}. "
    leaks = dict.fromkeys(r.leaky for r in rows if r.leaky)
    if leaks:
        text += f"[red]Leaky: {'; '.join(leaks)}; these scores flatter.[/] "
    return text + "Only test tells how well it decodes."
