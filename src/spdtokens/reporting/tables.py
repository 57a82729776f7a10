"""The tables of a report, the numbers in them, and how they are written as Markdown and LaTeX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spdtokens._tables import counted
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.evaluation.runs import RunResult, as_text
from spdtokens.evaluation.summary import PERCENT, TESTS, Row, chance_said, classes_said
from spdtokens.experiments.comparison import comparisons

if TYPE_CHECKING:
    from spdtokens.reporting.report import Facts

NAN = float("nan")
MINUS = "\N{MINUS SIGN}"
#: The name, among seeds, of runs of methods without chance in them.
NO_SEED = "no seed"
#: Letters beyond which a cell of LaTeX is broken into lines.
LONG = 50
#: What a run's origin says, in words; other keys are versions of packages.
ORIGINS = {"code": "digest of the code", "git": "git revision"}


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by.

    Attributes
    ----------
    text : str
    value : float or None
        None for a text, which is sorted as such. NaN, what is not known, comes last.
    mark : str
        ``'best'``, ``'faint'``, ``'leaky'`` or nothing; never told by colour alone.
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
        Of its files, and of its place in the page.
    title, note : str
        Above and below the table.
    short : str
        The title where the page around it says the rest.
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
        """Which columns hold numbers, and are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headers)
        return [bool(column) and all(c.value is not None for c in column) for column in columns]


# ------------------------------------------------------------------ numbers; not known: a dash


def number_text(value: float, form: str = ".2f") -> str:
    """A number for a table."""
    return format(value, form).replace("-", MINUS) if np.isfinite(value) else "-"


def score_text(value: float, metric: str) -> str:
    """A score for a table: shares in percent, without the sign."""
    return number_text(100 * value, ".1f") if metric in PERCENT else number_text(value, ".3f")


def said(value: float, metric: str) -> str:
    """A score within a sentence."""
    return score_text(value, metric) + (" %" if metric in PERCENT else "")


def gap_text(value: float, metric: str) -> str:
    """A difference of scores within a sentence, without its sign."""
    return score_text(abs(value), metric) + (" points" if metric in PERCENT else "")


def difference_text(value: float, metric: str) -> str:
    """A difference of scores for a table, with its sign."""
    return ("+" if value > 0 else "") + score_text(value, metric)


def p_text(value: float) -> str:
    """A p-value for a table."""
    return "< 0.001" if value < 0.001 else number_text(value, ".3f")


def seconds_text(value: float) -> str:
    """Seconds to three figures, more where there are more."""
    return number_text(value, ".0f" if value >= 100 else ".3g")


def metric_title(metric: str, *, capital: bool = False) -> str:
    """What the scores of a table are, with their unit."""
    text = METRICS[metric].title + (" in %" if metric in PERCENT else "")
    return text[:1].upper() + text[1:] if capital else text


def listed(names: list[str], most: int = 6) -> str:
    """Names in a sentence; beyond ``most``, how many more there are."""
    if len(names) > most:
        return ", ".join(names[: most - 1]) + f" and {len(names) - most + 1} others"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


# ------------------------------------------------------------------ cells


def winner(rows: Sequence[Row]) -> Row:
    """The row of the highest test score, the first of equals; honest ones before leaky ones."""
    honest = [row for row in rows if not row.leaky] or rows
    return max(honest, key=lambda row: row.score if np.isfinite(row.score) else -np.inf)


def _method(row: Row) -> Cell:
    """A method's name, marked where its score flatters."""
    return Cell(f"{row.method} (leaky)", mark="leaky") if row.leaky else Cell(row.method)


def _score(value: float, metric: str, mark: str = "") -> Cell:
    return Cell(score_text(value, metric), float(value), mark)


def _tested(row: Row, best: Row | None = None) -> Cell:
    """A method's test score; in italics where it is not above chance."""
    faint = np.isfinite(row.chance_bound) and not row.score > row.chance_bound
    return _score(row.score, row.metric, "faint" if faint else "best" if row is best else "")


def _seconds(value: float) -> Cell:
    return Cell(seconds_text(value), float(value))


# ------------------------------------------------------------------ scores and costs


def overview_table(found: Sequence[Facts]) -> Table:
    """One row a question: who won."""
    rows = []
    for facts in (f for f in found if f.rows):
        best = winner(facts.rows)
        rows.append(
            [
                Cell(f"{facts.number}", facts.number),
                Cell(facts.dataset),
                Cell(facts.protocol),
                Cell(metric_title(facts.metric)),
                _method(best),
                _score(best.train_score, facts.metric),
                _tested(best),
                _score(best.chance, facts.metric),
                Cell(f"{len(facts.runs)} of {facts.planned}", len(facts.runs) / facts.planned),
            ]
        )
    return Table(
        "overview",
        "The best method of each data set and protocol",
        (
            *("no.", "data set", "protocol", "metric", "best method", "train", "test", "chance"),
            "runs",
        ),
        rows,
        "Scores of the method with the highest test score. Chosen by that score, it is flattered a "
        "little: the sections tell how far ahead it is of the others.",
    )


def question_tables(facts: Facts) -> list[Table]:
    """The tables of scores and costs of one question; none before its first run."""
    if not facts.rows:
        return []
    compared = [] if facts.units.complete() is None else [differences_table(facts)]
    return [methods_table(facts), units_table(facts), *compared, efficiency_table(facts)]


def methods_table(facts: Facts) -> Table:
    """One row a method: train beside test, spread, chance, significance, cost."""
    metric, reference, best = facts.metric, facts.rows[0], winner(facts.rows)
    rows = [
        [
            _method(row),
            _score(row.train_score, metric),
            _tested(row, best),
            _score(row.std, metric),
            Cell(row.std_over or "-"),
            _score(row.chance, metric),
            _score(row.chance_bound, metric),
            Cell(str(row.n_test), row.n_test),
            Cell(str(row.n_runs), row.n_runs),
            Cell(number_text(row.calibration_error, ".3f"), row.calibration_error),
            Cell("reference", NAN) if row is reference else Cell(p_text(row.p_holm), row.p_holm),
            _seconds(row.seconds),
        ]
        for row in facts.rows
    ]
    tests = dict.fromkeys(
        row.comparison.test for row in facts.rows if row.comparison and not row.no_p_because
    )
    named = " or ".join(TESTS.get(test, test.replace("_", " ")) for test in tests)
    note = (
        f"{metric_title(metric, capital=True)}{classes_said(reference)}: mean over seeds, then "
        "folds, then subjects. "
        "Train: the same score on the trials trained on; only the test score measures "
        "generalisation. ±: standard deviation over what the next column names. "
        f"{chance_said(reference)} Scores not above that bound are in italics. n: test trials. "
        "ECE: expected calibration error of test trials, 10 bins, lower is better. Seconds: of a "
        "run. "
    )
    if named:
        note += f"p: difference to {reference.method} ({named}), Holm-corrected over the table. "
    for row in facts.rows:
        note += f"No p for {row.method}: {row.no_p_because}. " if row.no_p_because else ""
    headers = "method train test ± over chance bound n runs ECE p seconds"
    return Table(
        f"methods-{facts.number}",
        f"Methods on {facts.title}",
        tuple(headers.split()),
        rows,
        note.strip(),
        "Methods",
    )


def units_table(facts: Facts) -> Table:
    """Test scores subject by subject; the longer side goes down the page."""
    units, one = facts.units, facts.units.over.removesuffix("s")
    # Of a seed there is no best: other methods' runs with it have only a number in common.
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
        f"Test scores by {one} on {facts.title}",
        (one if down else "method", *headers),
        rows,
        f"{metric_title(facts.metric, capital=True)} on test trials{bold}.",
        f"Test scores by {one}",
    )


def differences_table(facts: Facts) -> Table:
    """Every method against the reference, by every test."""
    metric, found = facts.metric, comparisons(facts.answer)
    rows = [
        [
            Cell(str(method)),
            Cell(difference_text(difference, metric), difference),
            Cell(number_text(effect), effect),
            *(Cell(p_text(p), p) for p in p_values),
        ]
        for method, difference, effect, *p_values in found.frame.itertuples()
    ]
    tests = [f"p, {test.replace('_', ' ')}" for test in found.frame.columns[2:]]
    return Table(
        f"differences-{facts.number}",
        f"Differences to {found.reference} on {facts.title}",
        ("method", "difference", "g", *tests),
        rows,
        f"{metric_title(metric, capital=True)} over {found.n} {found.over}. g: Hedges' g of the "
        "paired differences. p-values are Holm-corrected within each column.",
        f"Differences to {found.reference}",
    )


def efficiency_table(facts: Facts) -> Table:
    """One row a method: weights, time and memory beside the score they buy."""
    rows, best = [], winner(facts.rows)
    for row in facts.rows:
        runs = facts.answer.results[row.method]
        seconds = [run.seconds for run in runs]
        memory = min(run.memory for run in runs)
        count = facts.parameters.get(row.method)
        trained = float(np.median([run.sizes["train"] for run in runs]))
        rows.append(
            [
                _method(row),
                _tested(row, best),
                Cell("-", NAN) if count is None else Cell(f"{count:,}", count),
                _seconds(float(np.median(seconds))),
                _seconds(max(seconds)),
                Cell(number_text(trained, "g"), trained),
                Cell(number_text(memory, ".0f"), memory),
            ]
        )
    return Table(
        f"efficiency-{facts.number}",
        f"Efficiency on {facts.title}",
        ("method", "test", "parameters", "seconds", "longest", "trained on", "MB, at most"),
        rows,
        f"Test: {metric_title(facts.metric)}. Parameters: weights of the network; - where their "
        "number is not fixed beforehand. Seconds: median over runs of the time to prepare, train "
        "and predict a run; runs that were trained together share it equally; longest: of all "
        "runs. Trained on: trials, median. MB: the most memory that the process had needed by the "
        "end of its leanest run of the method, whatever else it had done before.",
        "Efficiency",
    )


# ------------------------------------------------------------------ provenance


def settings_table(facts: Facts) -> Table:
    """What determined the runs of a question."""
    question, runs = facts.answer.question, facts.runs
    protocol = PROTOCOLS[question.protocol]
    seeds = sorted({run.spec.seed for run in runs if run.spec.seed is not None})
    subjects = list(dict.fromkeys(run.spec.subject for run in runs))
    hashes = list(dict.fromkeys(run.spec.data_hash for run in runs))
    options = runs[0].spec.protocol_options if runs else question.protocol_options
    aligned = "" if question.alignment == "none" else f", one reference a {question.domain}"
    sizes = []
    for part in dict.fromkeys(part for run in runs for part in run.sizes):
        if n := sorted({run.sizes[part] for run in runs if run.sizes.get(part)}):
            sizes.append(f"{part} {n[0]}" + (f" to {n[-1]}" if len(n) > 1 else ""))
    said = {
        "data set": question.dataset,
        "selection": as_text(question.selection.values()) if question.selection.values() else "all",
        "classes": ", ".join(facts.classes),
        "digest of the recordings": ", ".join(hashes) or "-",
        "protocol": question.protocol,
        "options": ", ".join(f"{name} = {as_text(v)}" for name, v in options.items()) or "none",
        "trained on": protocol.train,
        "tested": protocol.test,
        "access": f"{question.access}: {ACCESS[question.access].description}",
        "alignment": question.alignment + aligned,
        "subjects": f"{len(subjects)}: {listed(subjects, 20)}" if subjects else "-",
        "seeds": listed([str(seed) for seed in seeds], 12) if seeds else "none",
        "trials of a run": "; ".join(sizes),
        "runs": f"{len(runs)} of {facts.planned}",
    }
    title = f"What determined the numbers of {facts.title}"
    return _texts(f"settings-{facts.number}", title, said)


def origin_table(runs: Iterable[RunResult]) -> Table:
    """Versions, code, machine and dates of all runs; more than one value is told with its count."""
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
    said["time of all runs"] = f"{sum(run.seconds for run in runs):.0f} s"
    said["most memory"] = f"{max(run.memory for run in runs):.0f} MB"
    return _texts("origin", "Origin of the runs", said)


def _texts(name: str, title: str, said: dict[str, str]) -> Table:
    rows = [[Cell(what), Cell(text)] for what, text in said.items()]
    return Table(name, title, ("what", "value"), rows)


# ------------------------------------------------------------------ Markdown and LaTeX


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, with its title and note."""
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
    """A floating table; the document needs the package booktabs."""
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
    """Everything that Markdown or HTML in it would take for its own, escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))


#: Beyond ASCII only what this package itself writes: modern LaTeX reads the rest of UTF-8.
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
    # A row that begins with a bracket would be taken for an option of the line before.
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped
