"""Summaries as a table, as text, as HTML and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape as html_escape
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from spdtokens._extras import how_to_install
from spdtokens._tables import counted
from spdtokens.classifiers.methods import METHODS
from spdtokens.classifiers.nn import SMALL, STANDARD
from spdtokens.classifiers.nn.networks import TrialShape
from spdtokens.evaluation.metrics import METRICS, UNEQUAL
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.evaluation.summary import Row

if TYPE_CHECKING:
    import pandas as pd

#: Metrics that are shares and shown in percent.
PERCENT = ("accuracy", "balanced_accuracy", "f1")
TESTS = {
    "permutation": "a sign-flip permutation test over subjects",
    "corrected_resampled_t": "a corrected resampled t-test over folds",
    "mcnemar": "McNemar's exact test over trials",
    "trial_permutation": "a paired permutation test over trials (dependent ones swapped together)",
}


#: Columns of :meth:`spdtokens.evaluation.Evaluation.to_frame` that notebooks show, with headings.
_SHORT = {
    "train_score": "train",
    "score": "test",
    "std": "±",
    "chance": "chance",
    "n_test": "n",
    "n_runs": "runs",
    "p_holm": "p",
}


def summary_table(rows: Sequence[Row], question: Question, name: str) -> Table:
    """For people: train beside test, and what the numbers mean."""
    table = Table(
        title=f"{escape(name)}: {_setting(question)}",
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


def summary_text(rows: Sequence[Row], question: Question) -> str:
    """Summarise in a few lines: the setting, the chance level, and one line per method.

    Parameters
    ----------
    rows : sequence of Row
        One per method.
    question : Question

    Returns
    -------
    str
    """
    head = f"Evaluation of {question.dataset}: {_setting(question)}"
    if not rows:
        return f"{head}\nNo runs."
    row = rows[0]
    title = METRICS[row.metric].title
    tested = f"{counted(row.n_subjects, 'subject')}, {counted(row.n_folds, 'fold')}, "
    tested += f"{row.n_test} test trials"
    width = max(len(row.method) for row in rows)
    lines = [
        f"  {row.method:<{width}}  test {score_said(row.score, row.metric)}, "
        f"train {score_said(row.train_score, row.metric)}: {_verdict(row)}"
        for row in rows
    ]
    about = f"{title[0].upper()}{title[1:]}, {tested}. {chance_said(row)}"
    return "\n".join((head, about, *lines))


def summary_html(frame: pd.DataFrame, rows: Sequence[Row], question: Question) -> str:
    """Summarise as a table for notebooks, with the caption of the table in the terminal.

    Parameters
    ----------
    frame : DataFrame
        As :meth:`Evaluation.to_frame <spdtokens.evaluation.Evaluation.to_frame>` returns it.
    rows : sequence of Row
        The same rows, one per method.
    question : Question

    Returns
    -------
    str
        HTML.
    """
    head = f"<p><b>{html_escape(question.dataset)}</b>: {_setting(question)}</p>"
    caption = f"<p>{html_escape(Text.from_markup(_caption(rows)).plain)}</p>"
    if not rows:
        return head + caption
    shown = frame[list(_SHORT)].rename(columns=_SHORT).reset_index()
    shown["verdict"] = [_verdict(row) for row in rows]
    formatters: dict[str, Any] = {"p": _p_value}
    for name in ("train", "test", "±", "chance"):
        formatters[name] = partial(_number, metric=rows[0].metric)
    table = shown.to_html(index=False, border=0, na_rep="-", formatters=formatters)
    return head + table + caption


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Every row as plain values."""
    return {"results": [row.values() for row in rows]}


def _setting(question: Question) -> str:
    """Protocol, target access and alignment."""
    aligned = "" if question.alignment == "none" else f", {question.alignment} by {question.domain}"
    return f"{question.protocol}, target access {question.access}{aligned}"


def _verdict(row: Row) -> str:
    """Whether the score is above chance, and whether it is leaky."""
    if not np.isfinite(row.chance_bound):
        text = "no chance bound"
    else:
        text = "above chance" if row.score > row.chance_bound else "not above chance"
    return f"{text}, leaky" if row.leaky else text


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


def classes_said(row: Row) -> str:
    """Why balanced accuracy is shown; empty for other metrics and about equal classes."""
    if row.metric != "balanced_accuracy" or row.majority < UNEQUAL * row.chance:
        return ""
    return f", as classes are unequal (largest: {100 * row.majority:.0f} % of test trials)"


def chance_said(row: Row) -> str:
    """Chance level and its bound in a sentence, with the number of trials that counted."""
    text = f"Chance level {score_said(row.chance, row.metric)}"
    if row.n_independent is None:
        return f"{text} (no bound: it is not known which test trials depend on each other)."
    if not np.isfinite(row.chance_bound):
        return f"{text} (no bound for this metric and these classes)."
    of = "" if row.n_independent == row.n_test else f" independent of {row.n_test} test trials"
    bound = score_said(row.chance_bound, row.metric)
    return f"{text} (95th percentile for n = {row.n_independent}{of}: {bound})."


def score_said(value: float, metric: str) -> str:
    """A score within a sentence."""
    return _number(value, metric) + (" %" if metric in PERCENT else "")


def _caption(rows: Sequence[Row]) -> str:
    if not rows:
        return "No runs."
    row = rows[0]
    unit = " in percent" if row.metric in PERCENT else ""
    title = METRICS[row.metric].title
    text = f"{title[0].upper()}{title[1:]}{unit}{classes_said(row)}: mean over seeds, then folds, "
    text += f"then subjects ({counted(max(r.n_seeds for r in rows), 'seed')}, "
    text += f"{counted(row.n_folds, 'fold')}, {counted(row.n_subjects, 'subject')}; "
    text += f"{row.n_train:.0f} training trials per run, n test trials). "
    spreads = dict.fromkeys(r.spread_over for r in rows if r.spread_over)
    if spreads:
        text += f"± standard deviation over {' or '.join(spreads)}. "
    text += chance_said(row) + " "
    tests = dict.fromkeys(r.comparison.test for r in rows if r.comparison and not r.no_p_because)
    if tests:
        named = ", ".join(TESTS[test] for test in tests)
        text += f"p against {escape(row.method)} by {named}, Holm-corrected. "
    for note in dict.fromkeys(r.note for r in rows if r.note):
        text += f"{escape(', '.join(r.method for r in rows if r.note == note))}: {note}. "
    for why in dict.fromkeys(r.no_p_because for r in rows if r.no_p_because):
        who = ", ".join(escape(r.method) for r in rows if r.no_p_because == why)
        text += f"No p for {who}: {why}. "
    leaks = dict.fromkeys(r.leaky for r in rows if r.leaky)
    if leaks:
        text += f"[red]Leaky: {'; '.join(leaks)}; these scores flatter.[/] "
    return text + "Only the test score measures generalisation."


# The methods as a table and as plain values.

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


# Protocols and target access for people.


def protocols_table() -> Table:
    """Who is trained on, who is tested."""
    table = Table(title="Protocols", box=box.SIMPLE)
    for header in ("name", "trained on", "tested", "options"):
        table.add_column(header, no_wrap=header == "name")
    for protocol in PROTOCOLS.values():
        options = ", ".join(f"{name} = {value}" for name, value in protocol.options.items())
        table.add_row(f"[bold]{protocol.name}[/]", protocol.train, protocol.test, options.lower())
    return table


def access_table() -> Table:
    """What may be seen of the target beside its training trials."""
    table = Table(
        title="Target access",
        caption="What may be seen of the subject or session that is tested, beside its trials that "
        "are trained on.",
        box=box.SIMPLE,
    )
    table.add_column("name", no_wrap=True)
    table.add_column("seen")
    for access in ACCESS.values():
        table.add_row(f"[bold]{access.name}[/]", access.description)
    return table
