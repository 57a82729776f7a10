"""The tables of a report, and their conversion to Markdown and LaTeX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spdtokens._tables import counted, p_value
from spdtokens.classifiers.methods import METHODS
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.evaluation.runs import RunResult, as_text
from spdtokens.evaluation.summary import (
    PERCENT,
    TESTS,
    Row,
    chance_said,
    classes_said,
    subjects_of,
)
from spdtokens.experiments.comparison import comparisons

if TYPE_CHECKING:
    from spdtokens.reporting.report import Facts

T = TypeVar("T")
NAN = float("nan")
MINUS = "\N{MINUS SIGN}"
#: Stands for the seed of deterministic methods.
NO_SEED = "no seed"
#: Longer cells are wrapped in LaTeX.
LONG = 50
#: Names of origin keys; all other keys are versions of packages.
ORIGINS = {"code": "digest of the code", "git": "git revision"}


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by.

    Attributes
    ----------
    text : str
    value : float or None
        None for text, which is sorted as such. NaN (unknown) comes last.
    mark : str
        ``'best'``, ``'faint'``, ``'leaky'`` or nothing; never shown by colour alone.
    """

    text: str
    value: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headers.

    Attributes
    ----------
    name : str
        Stem of its files and its id in the page.
    title, note : str
        Above and below the table.
    short : str
        Title within a section of the page that names the rest.
    headers : tuple of str
    rows : sequence of sequence of Cell
        The first cell names the row.
    """

    name: str
    title: str
    headers: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    short: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Which columns contain numbers, and are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headers)
        return [bool(column) and all(c.value is not None for c in column) for column in columns]


def _by_row(columns: Mapping[str, Callable[[T], Cell]], items: Iterable[T]) -> dict[str, Any]:
    """Headers and rows of a table with one row per item."""
    rows = [[make(item) for make in columns.values()] for item in items]
    return {"headers": tuple(columns), "rows": rows}


# ------------------------------------------------------------------ numbers; unknown: a dash


def number_text(value: float, form: str) -> str:
    """Format a number for a table."""
    return format(value, form).replace("-", MINUS) if np.isfinite(value) else "-"


def score_text(value: float, metric: str, sign: str = "") -> str:
    """Format a score for a table: shares in percent, without the unit."""
    percent = metric in PERCENT
    return number_text(100 * value if percent else value, sign + (".1f" if percent else ".3f"))


def gap_text(value: float, metric: str) -> str:
    """Format a difference of scores for a sentence, without its sign."""
    return score_text(abs(value), metric) + (" points" if metric in PERCENT else "")


def metric_title(metric: str, *, capital: bool = False) -> str:
    """Name a metric, with its unit."""
    text = METRICS[metric].title + (" in %" if metric in PERCENT else "")
    return text[:1].upper() + text[1:] if capital else text


def listed(names: Sequence[str], most: int = 6) -> str:
    """List names in a sentence; beyond ``most``, say how many more there are."""
    if len(names) > most:
        return ", ".join(names[: most - 1]) + f" and {len(names) - most + 1} others"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


# ------------------------------------------------------------------ cells


def winner(rows: Sequence[Row]) -> Row:
    """Return the row with the highest test score; a leaky score never wins."""
    clean = [row for row in rows if not row.leaky] or rows
    return max(clean, key=lambda row: row.score if np.isfinite(row.score) else -np.inf)


def _method(row: Row) -> Cell:
    return Cell(f"{row.method} (leaky)", mark="leaky") if row.leaky else Cell(row.method)


def _number(value: float, form: str) -> Cell:
    return Cell(number_text(value, form), float(value))


def _score(value: float, metric: str, mark: str = "") -> Cell:
    return Cell(score_text(value, metric), float(value), mark)


def _tested(row: Row, best: Row | None = None) -> Cell:
    """A method's test score; in italics where it is not above chance."""
    faint = np.isfinite(row.chance_bound) and not row.score > row.chance_bound
    return _score(row.score, row.metric, "faint" if faint else "best" if row is best else "")


def _seconds(value: float) -> Cell:
    return _number(value, ".0f" if value >= 100 else ".3g")


# ------------------------------------------------------------------ scores and costs


def overview_table(found: Sequence[Facts]) -> Table:
    """One row per data set and protocol: the best method."""
    best = {facts.number: winner(facts.rows) for facts in found if facts.rows}
    columns: dict[str, Callable[[Facts], Cell]] = {
        "no.": lambda facts: _number(facts.number, "d"),
        "data set": lambda facts: Cell(facts.dataset),
        "protocol": lambda facts: Cell(facts.protocol),
        "metric": lambda facts: Cell(metric_title(facts.metric)),
        "best method": lambda facts: _method(best[facts.number]),
        "train": lambda facts: _score(best[facts.number].train_score, facts.metric),
        "test": lambda facts: _tested(best[facts.number]),
        "chance": lambda facts: _score(best[facts.number].chance, facts.metric),
        "runs": lambda facts: Cell(
            f"{len(facts.runs)} of {facts.planned}", len(facts.runs) / facts.planned
        ),
    }
    return Table(
        "overview",
        "The best method of each data set and protocol",
        **_by_row(columns, [facts for facts in found if facts.rows]),
        note="Scores of the method with the highest test score. It was selected by that score, "
        "which is therefore slightly optimistic.",
    )


def question_tables(facts: Facts) -> list[Table]:
    """Make the tables of scores and costs of a section; none before its first run."""
    if not facts.rows:
        return []
    compared = [] if facts.units.complete() is None else [differences_table(facts)]
    return [methods_table(facts), units_table(facts), *compared, efficiency_table(facts)]


def methods_table(facts: Facts) -> Table:
    """One row per method: train and test score, standard deviation, chance, p-value."""
    metric, reference, best = facts.metric, facts.rows[0], winner(facts.rows)
    columns: dict[str, Callable[[Row], Cell]] = {
        "method": _method,
        "train": lambda row: _score(row.train_score, metric),
        "test": lambda row: _tested(row, best),
        "±": lambda row: _score(row.std, metric),
        "chance": lambda row: _score(row.chance, metric),
        "bound": lambda row: _score(row.chance_bound, metric),
        "p": lambda row: Cell("reference" if row is reference else p_value(row.p_holm), row.p_holm),
        "ECE": lambda row: _number(row.calibration_error, ".3f"),
        "n": lambda row: _number(row.n_test, "d"),
        "runs": lambda row: _number(row.n_runs, "d"),
    }
    over = dict.fromkeys(row.std_over for row in facts.rows if row.std_over)
    tests = dict.fromkeys(
        TESTS.get(row.comparison.test, row.comparison.test)
        for row in facts.rows
        if row.comparison and not row.no_p_because
    )
    notes = [
        f"{metric_title(metric, capital=True)}{classes_said(reference)}: mean over seeds, then "
        "folds, then subjects.",
        "Train: score on the training trials; only the test score measures generalisation.",
        f"±: standard deviation over {' or '.join(over)}." if over else "",
        f"{chance_said(reference)} Bound: that percentile; scores not above it are in italics.",
        f"p: difference to {reference.method} ({' or '.join(tests)}), Holm-corrected over methods."
        if tests
        else "",
        *(f"No p for {row.method}: {row.no_p_because}." for row in facts.rows if row.no_p_because),
        "ECE: expected calibration error on test trials (10 bins, lower is better).",
        "n: test trials.",
    ]
    return Table(
        f"methods-{facts.number}",
        f"Methods on {facts.title}",
        **_by_row(columns, facts.rows),
        note=" ".join(filter(None, notes)),
        short="Methods",
    )


def units_table(facts: Facts) -> Table:
    """Test scores per subject; the longer side goes down the page."""
    units, one = facts.units, facts.units.over.removesuffix("s")
    # There is no best method of a seed: seeds of two methods share nothing but the number.
    best = units.test.eq(units.test.max(axis=1), axis=0) & units.paired
    scores, down = units.test, len(units.test.columns) <= len(units.test)
    headers = [str(name) for name in scores]
    if not down:
        scores, best = scores.T, best.T
        headers = [name if name == NO_SEED else f"{one} {name}" for name in scores]
    rows = [
        [
            Cell(str(name)),
            *(
                _score(value, facts.metric, "best" if top else "")
                for value, top in zip(values, tops, strict=True)
            ),
        ]
        for (name, *values), (_, *tops) in zip(scores.itertuples(), best.itertuples(), strict=True)
    ]
    bold = f"; the best of each {one} is bold" if units.paired else ""
    return Table(
        f"{units.over}-{facts.number}",
        f"Test scores per {one} on {facts.title}",
        (one if down else "method", *headers),
        rows,
        f"{metric_title(facts.metric, capital=True)} on test trials{bold}.",
        f"Test scores per {one}",
    )


def differences_table(facts: Facts) -> Table:
    """Every method against the reference, by every test."""
    found = comparisons(facts.answer)
    rows = [
        [
            Cell(str(method)),
            Cell(score_text(difference, facts.metric, "+"), difference),
            _number(effect, ".2f"),
            *(Cell(p_value(p), p) for p in p_values),
        ]
        for method, difference, effect, *p_values in found.frame.itertuples()
    ]
    tests = [f"p, {test.replace('_', ' ')}" for test in found.frame.columns[2:]]
    return Table(
        f"differences-{facts.number}",
        f"Differences to {found.reference} on {facts.title}",
        ("method", "difference", "g", *tests),
        rows,
        f"{metric_title(facts.metric, capital=True)} over {found.n} {found.over}. g: Hedges' g of "
        "the paired differences. p-values are Holm-corrected within each column.",
        f"Differences to {found.reference}",
    )


def efficiency_table(facts: Facts) -> Table:
    """One row per method: parameters, time and memory."""
    best, runs = winner(facts.rows), facts.answer.results

    def per_run(row: Row, name: str) -> list[float]:
        return [float(getattr(run, name)) for run in runs[row.method]]

    columns: dict[str, Callable[[Row], Cell]] = {
        "method": _method,
        "test": lambda row: _tested(row, best),
        "parameters": lambda row: _number(facts.parameters.get(row.method, NAN), ",.0f"),
        "seconds": lambda row: _seconds(float(np.median(per_run(row, "seconds")))),
        "longest": lambda row: _seconds(max(per_run(row, "seconds"))),
        "trained on": lambda row: _number(
            float(np.median([run.sizes["train"] for run in runs[row.method]])), "g"
        ),
        "MB, at most": lambda row: _number(min(per_run(row, "memory")), ".0f"),
    }
    return Table(
        f"efficiency-{facts.number}",
        f"Efficiency on {facts.title}",
        **_by_row(columns, facts.rows),
        note=f"Test: {metric_title(facts.metric)}. Parameters: weights of the network; - where the "
        "number is not fixed before fitting. Seconds: time to prepare, train and predict a run, "
        "median over runs; runs trained together share it equally; longest: maximum over runs. "
        "Trained on: training trials, median. MB: peak memory of the process, minimum over the "
        "method's runs; it includes whatever the process did before.",
        short="Efficiency",
    )


def method_legend(facts: Facts) -> dict[str, str]:
    """Explain each method's name: the steps of its estimator, and the paper of a named method."""
    found = {}
    for title, runs in facts.answer.results.items():
        if runs:
            values = as_text(runs[0].spec.estimator)
            classes = re.findall(r'"class":"(?:\w+\.)*(\w+)"', values)
            steps = [c for c in classes if not c.endswith(("Pipeline", "SearchCV", "KFold"))]
            steps += re.findall(r'"(?:embedding|network)":"(?!auto)(\w+)"', values)
            method = METHODS.get(runs[0].spec.method)
            found[title] = ", ".join(steps) + (f" ({method.reference})" if method else "")
    return found


# ------------------------------------------------------------------ provenance


def settings_table(facts: Facts) -> Table:
    """Everything that determines the runs of a section."""
    question, runs = facts.answer.question, facts.runs
    protocol = PROTOCOLS[question.protocol]
    seeds = sorted({run.spec.seed for run in runs if run.spec.seed is not None})
    subjects = list(dict.fromkeys(name for run in runs for name in subjects_of(run).tolist()))
    hashes = list(dict.fromkeys(run.spec.data_hash for run in runs))
    options = runs[0].spec.protocol_options if runs else question.protocol_options
    aligned = "" if question.alignment == "none" else f", one reference per {question.domain}"
    sizes = {
        part: sorted({run.sizes[part] for run in runs if run.sizes.get(part)})
        for part in dict.fromkeys(part for run in runs for part in run.sizes)
    }
    said = {
        "data set": question.dataset,
        "loaded with": _values(question.dataset_options),
        "selection": as_text(question.selection.values()) if question.selection.values() else "all",
        "classes": ", ".join(facts.classes),
        "hash of the recordings": ", ".join(hashes) or "-",
        "protocol": question.protocol,
        "options": _values(options),
        "trained on": protocol.train,
        "tested on": protocol.test,
        "target access": f"{question.access}: {ACCESS[question.access].description}",
        "alignment": question.alignment + aligned,
        "subjects": f"{len(subjects)}: {listed(subjects, 20)}" if subjects else "-",
        "seeds": listed([str(seed) for seed in seeds], 12) if seeds else "none",
        "trials per run": "; ".join(
            f"{part} {n[0]}" + (f" to {n[-1]}" if n[1:] else "") for part, n in sizes.items() if n
        ),
        "runs": f"{len(runs)} of {facts.planned}",
    }
    title = f"Settings of {facts.title}"
    return _texts(f"settings-{facts.number}", title, said)


def _values(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {as_text(v)}" for name, v in options.items()) or "none"


def origin_table(runs: Iterable[RunResult]) -> Table:
    """Versions, code, machine and dates of all runs; differing values come with their counts."""
    runs, said = list(runs), {}
    for key in dict.fromkeys(key for run in runs for key in run.origin):
        counts = Counter(run.origin[key] or "none" for run in runs if key in run.origin)
        if key == "time":
            said[key] = f"{min(counts)} to {max(counts)}"
        elif len(counts) == 1:
            said[ORIGINS.get(key, key)] = next(iter(counts))
        else:
            parts = (f"{value} ({counted(n, 'run')})" for value, n in counts.items())
            said[ORIGINS.get(key, key)] = ", ".join(parts)
    said["runs"] = str(len(runs))
    said["total time"] = f"{sum(run.seconds for run in runs):.0f} s"
    said["peak memory"] = f"{max(run.memory for run in runs):.0f} MB"
    return _texts("origin", "Origin of the runs", said)


def _texts(name: str, title: str, said: dict[str, str]) -> Table:
    rows = [[Cell(what), Cell(text)] for what, text in said.items()]
    return Table(name, title, ("setting", "value"), rows)


# ------------------------------------------------------------------ Markdown and LaTeX


def to_markdown(table: Table) -> str:
    """Convert a table to GitHub's Markdown, with title and note."""
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [[_markdown(header) for header in table.headers], rules]
    lines += [
        [_marked(_markdown(c.text), c.mark, "**{}**", "*{}*") for c in row] for row in table.rows
    ]
    parts = [
        f"**{_markdown(table.title)}**",
        "\n".join("| " + " | ".join(line) + " |" for line in lines),
        *([_markdown(table.note)] if table.note else []),
    ]
    return "\n\n".join(parts) + "\n"


def to_latex(table: Table) -> str:
    """Convert a table to a LaTeX float, which needs the package booktabs."""
    import pandas as pd

    rows = [
        [_marked(_latex(c.text), c.mark, r"\textbf{{{}}}", r"\textit{{{}}}") for c in row]
        for row in table.rows
    ]
    frame = pd.DataFrame(rows, columns=[_latex(header) for header in table.headers])
    columns = ""
    for i, numeric in enumerate(table.numeric):
        long = max((len(row[i].text) for row in table.rows), default=0) > LONG
        columns += "r" if numeric else r"p{0.6\linewidth}" if long else "l"
    text: str = frame.style.hide(axis="index").to_latex(
        column_format=columns,
        hrules=True,
        position_float="centering",
        caption=_latex(f"{table.title}. {table.note}".strip()),
        label=f"tab:{table.name}",
    )
    return "% needs \\usepackage{booktabs}\n" + text


def _marked(text: str, mark: str, bold: str, italic: str) -> str:
    return {"best": bold, "leaky": bold, "faint": italic}.get(mark, "{}").format(text)


def _markdown(text: str) -> str:
    """Escape what Markdown, or HTML within it, would interpret."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))


#: Besides ASCII only what spdtokens itself writes: modern LaTeX reads UTF-8.
_LATEX: dict[str, Any] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    MINUS: "$-$",
    "±": r"$\pm$",
}


def _latex(text: str) -> str:
    escaped = " ".join(text.split()).translate(str.maketrans(_LATEX))
    # A row that begins with a bracket would be an option of the previous line.
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped
