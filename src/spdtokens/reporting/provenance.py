"""Where the numbers come from, and the commands that make them again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spdtokens._tables import counted
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.evaluation.runs import RunResult, as_text
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.numbers import listed
from spdtokens.reporting.table import Cell, Table

#: What a run's origin says, in words; other keys are versions of packages.
WORDS = {
    "code": "digest of the code",
    "git": "git revision",
    "machine": "machine",
    "system": "system",
    "time": "time",
}


def commands(path: Path, store: Path, *, any_code: bool) -> list[str]:
    """What to run to get every number of the report again."""
    where = [] if store == path.with_suffix(".sqlite") else ["--store", str(store)]
    end = [*where, *(["--any-code"] if any_code else [])]
    file = str(path)
    return [
        shlex.join(["spdtokens", "study", "run", file, *where]),
        shlex.join(["spdtokens", "study", "show", file, *end]),
        shlex.join(["spdtokens", "study", "compare", file, *end]),
        shlex.join(["spdtokens", "report", file, *end, "-o", "report.html"]),
    ]


def question_table(facts: Facts) -> Table:
    """What determined the runs of a question."""
    question = facts.answer.question
    protocol = PROTOCOLS[question.protocol]
    runs = facts.runs
    seeds = sorted({run.spec.seed for run in runs if run.spec.seed is not None})
    subjects = dict.fromkeys(run.spec.subject for run in runs)
    sizes = {
        part: sorted({run.sizes[part] for run in runs if run.sizes.get(part)})
        for part in dict.fromkeys(part for run in runs for part in run.sizes)
    }
    hashes = list(dict.fromkeys(run.spec.data_hash for run in runs))
    options = runs[0].spec.protocol_options if runs else question.protocol_options
    said = {
        "data set": question.dataset,
        "selection": as_text(question.selection.values()) if question.selection.values() else "all",
        "classes": ", ".join(facts.classes),
        "digest of the recordings": ", ".join(hashes) if hashes else "-",
        "protocol": question.protocol,
        "options": ", ".join(f"{name} = {as_text(v)}" for name, v in options.items()) or "none",
        "trained on": protocol.train,
        "tested": protocol.test,
        "access": f"{question.access}: {ACCESS[question.access].description}",
        "alignment": question.alignment
        + ("" if question.alignment == "none" else f", one reference a {question.domain}"),
        "subjects": f"{len(subjects)}: {listed(list(subjects), 20)}" if subjects else "-",
        "seeds": listed([str(seed) for seed in seeds], 12) if seeds else "none",
        "trials of a run": "; ".join(f"{part} {_span(n)}" for part, n in sizes.items() if n),
        "runs": f"{len(runs)} of {facts.planned}",
    }
    rows = [[Cell(name), Cell(text)] for name, text in said.items()]
    title = f"What determined the numbers of {facts.title}"
    return Table(f"settings-{facts.number}", title, ("what", "value"), rows)


def configurations(facts: Facts) -> dict[str, Any]:
    """What every method was given in full, by its name in tables."""
    return {
        name: {**runs[0].spec.estimator, **runs[0].spec.about}
        for name, runs in facts.answer.results.items()
        if runs
    }


def origin_table(runs: Iterable[RunResult]) -> Table:
    """Versions, code, machine and dates of all runs; more than one value is told with its count."""
    runs = list(runs)
    rows = []
    for key in dict.fromkeys(key for run in runs for key in run.origin):
        values = [run.origin[key] for run in runs if key in run.origin]
        text = f"{min(values)} to {max(values)}" if key == "time" else _counts(values)
        rows.append([Cell(WORDS.get(key, key)), Cell(text)])
    total = sum(run.seconds for run in runs)
    rows.append([Cell("runs"), Cell(str(len(runs)))])
    rows.append([Cell("time of all runs"), Cell(f"{total:.0f} s")])
    rows.append([Cell("most memory"), Cell(f"{max(run.memory for run in runs):.0f} MB")])
    return Table("origin", "Origin of the runs", ("what", "value"), rows)


def foreign(runs: Iterable[RunResult], code: str) -> int:
    """How many runs were made by other code than this."""
    return sum(run.origin.get("code") != code for run in runs)


def _counts(values: Sequence[str]) -> str:
    found = Counter(value or "none" for value in values)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{value} ({counted(n, 'run')})" for value, n in found.items())


def _span(numbers: Sequence[int]) -> str:
    low, high = numbers[0], numbers[-1]
    return str(low) if low == high else f"{low} to {high}"
