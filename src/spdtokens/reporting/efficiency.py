"""What methods cost."""

from __future__ import annotations

import numpy as np

from spdtokens.evaluation.summary import Row
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.numbers import UNKNOWN, metric_title, number_text, seconds_text
from spdtokens.reporting.table import Cell, Table
from spdtokens.reporting.tables import method_cell, tested_cell, winner


def efficiency_table(facts: Facts) -> Table:
    """One row a method: weights, time and memory beside the score they buy."""
    return Table(
        f"efficiency-{facts.number}",
        f"Efficiency on {facts.title}",
        ("method", "test", "parameters", "seconds", "longest", "trained on", "MB, at most"),
        [_row(facts, row) for row in facts.rows],
        f"Test: {metric_title(facts.metric)}. Parameters: weights of the network; - where their "
        "number is not fixed beforehand. Seconds: median over runs of the time to prepare, train "
        "and predict a run; runs that were trained together share it equally; longest: of all "
        "runs. Trained on: trials, median. MB: the most memory that the process had needed by the "
        "end of its leanest run of the method, whatever else it had done before.",
        "Efficiency",
    )


def _row(facts: Facts, row: Row) -> list[Cell]:
    runs = facts.answer.results[row.method]
    seconds = np.array([run.seconds for run in runs])
    memory = min(run.memory for run in runs)
    count = facts.parameters.get(row.method)
    trained = float(np.median([run.sizes["train"] for run in runs]))
    return [
        method_cell(row),
        tested_cell(row, best=row is winner(facts.rows)),
        Cell(UNKNOWN, np.nan) if count is None else Cell(f"{count:,}", count),
        Cell(seconds_text(float(np.median(seconds))), float(np.median(seconds))),
        Cell(seconds_text(float(seconds.max())), float(seconds.max())),
        Cell(number_text(trained, "g"), trained),
        Cell(number_text(memory, ".0f"), memory),
    ]
