"""The tables of a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spdtokens.evaluation.summary import TESTS, Row, chance_said, classes_said
from spdtokens.experiments.comparison import Comparisons
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.numbers import (
    difference_text,
    metric_title,
    number_text,
    p_text,
    score_text,
    seconds_text,
    sentence,
)
from spdtokens.reporting.table import Cell, Table
from spdtokens.reporting.units import NO_SEED

NAN = float("nan")


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
                method_cell(best),
                _score(best.train_score, facts.metric),
                tested_cell(best, best=False),
                _score(best.chance, facts.metric),
                Cell(f"{len(facts.runs)} of {facts.planned}", len(facts.runs) / facts.planned),
            ]
        )
    headers = ("no.", "data set", "protocol", "metric", "best method", "train", "test", "chance")
    return Table(
        "overview",
        "The best method of each data set and protocol",
        (*headers, "runs"),
        rows,
        "Scores of the method with the highest test score. Chosen by that score, it is flattered a "
        "little: the sections tell how far ahead it is of the others.",
    )


def methods_table(facts: Facts) -> Table:
    """One row a method: train beside test, spread, chance, significance, cost."""
    metric, reference = facts.metric, facts.rows[0].method
    best = winner(facts.rows).method
    rows = [
        [
            method_cell(row),
            _score(row.train_score, metric),
            tested_cell(row, best=row.method == best),
            _score(row.std, metric),
            Cell(row.std_over or "-"),
            _score(row.chance, metric),
            _score(row.chance_bound, metric),
            Cell(str(row.n_test), row.n_test),
            Cell(str(row.n_runs), row.n_runs),
            Cell(number_text(row.calibration_error, ".3f"), row.calibration_error),
            Cell("reference", NAN)
            if row.method == reference
            else Cell(p_text(row.p_holm), row.p_holm),
            Cell(seconds_text(row.seconds), row.seconds),
        ]
        for row in facts.rows
    ]
    tests = dict.fromkeys(
        row.comparison.test for row in facts.rows if row.comparison and not row.no_p_because
    )
    named = " or ".join(TESTS.get(test, test.replace("_", " ")) for test in tests)
    note = (
        f"{sentence(metric_title(metric))}{classes_said(facts.rows[0])}: mean over seeds, then "
        "folds, then subjects. "
        "Train: the same score on the trials trained on; only the test score measures "
        "generalisation. ±: standard deviation over what the next column names. "
        f"{chance_said(facts.rows[0])} Scores not above that bound are in italics. n: test trials. "
        "ECE: expected calibration error of test trials, 10 bins, lower is better. Seconds: of a "
        "run. "
    )
    if named:
        note += f"p: difference to {reference} ({named}), Holm-corrected over the table. "
    for row in facts.rows:
        note += f"No p for {row.method}: {row.no_p_because}. " if row.no_p_because else ""
    return Table(
        f"methods-{facts.number}",
        f"Methods on {facts.title}",
        (
            "method",
            "train",
            "test",
            "±",
            "over",
            "chance",
            "bound",
            "n",
            "runs",
            "ECE",
            "p",
            "seconds",
        ),
        rows,
        note.strip(),
        "Methods",
    )


def units_table(facts: Facts) -> Table:
    """Test scores subject by subject; the longer side goes down the page."""
    units, metric = facts.units, facts.metric
    scores = np.array(list(units.test.values()))  # (methods, units)
    methods, one = list(units.test), units.over.removesuffix("s")
    down = len(methods) <= len(units.names)
    names, headers = (units.names, methods) if down else (methods, list(units.names))
    values = scores.T if down else scores
    # Of a seed there is no best: other methods' runs with it have only a number in common.
    best = np.nanmax(scores, 0, initial=-np.inf) if units.paired else np.full(scores.shape[1], NAN)
    rows = []
    for i, name in enumerate(names):
        cells = []
        for j, value in enumerate(values[i]):
            top = value == best[i if down else j]
            cells.append(Cell(score_text(value, metric), float(value), "best" if top else ""))
        rows.append([Cell(name), *cells])
    first = one if down else "method"
    if not down:
        headers = [name if name == NO_SEED else f"{one} {name}" for name in headers]
    bold = f"; the best of each {one} is bold" if units.paired else ""
    return Table(
        f"{units.over}-{facts.number}",
        f"Test scores by {one} on {facts.title}",
        (first, *headers),
        rows,
        f"{sentence(metric_title(metric))} on test trials{bold}.",
        f"Test scores by {one}",
    )


def differences_table(facts: Facts, found: Comparisons) -> Table:
    """Every method against the reference, by every test."""
    metric = facts.metric
    rows = [
        [
            Cell(method),
            Cell(difference_text(found.differences[i], metric), float(found.differences[i])),
            Cell(number_text(found.effects[i]), float(found.effects[i])),
            *(Cell(p_text(p[i]), float(p[i])) for p in found.p_values.values()),
        ]
        for i, method in enumerate(found.methods)
    ]
    tests = [f"p, {test.replace('_', ' ')}" for test in found.p_values]
    return Table(
        f"differences-{facts.number}",
        f"Differences to {found.reference} on {facts.title}",
        ("method", "difference", "g", *tests),
        rows,
        f"{sentence(metric_title(metric))} over {found.n} {found.over}. g: Hedges' g of the "
        "paired differences. p-values are Holm-corrected within each column.",
        f"Differences to {found.reference}",
    )


def winner(rows: Sequence[Row]) -> Row:
    """The row of the highest test score, the first of equals; honest ones before leaky ones."""
    honest = [row for row in rows if not row.leaky] or rows
    return max(honest, key=lambda row: row.score if np.isfinite(row.score) else -np.inf)


def method_cell(row: Row) -> Cell:
    """A method's name, marked where its score flatters."""
    return Cell(f"{row.method} (leaky)", mark="leaky") if row.leaky else Cell(row.method)


def _score(value: float, metric: str) -> Cell:
    return Cell(score_text(value, metric), float(value))


def tested_cell(row: Row, *, best: bool) -> Cell:
    """A method's test score; in italics where it is not above chance."""
    faint = np.isfinite(row.chance_bound) and not row.score > row.chance_bound
    mark = "faint" if faint else "best" if best else ""
    return Cell(score_text(row.score, row.metric), float(row.score), mark)
