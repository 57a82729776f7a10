"""A folder as ``reproduce`` leaves it, with known scores and without training."""

from __future__ import annotations

from pathlib import Path

import matplotlib.figure

from spdtokens.evaluation.runs import code_digest
from spdtokens.paper.reproduce import EXPERIMENTS, Extent, Reproduced, Value
from spdtokens.paper.reproduce.drawn import write_drawn
from spdtokens.paper.reproduce.figures import FIGURES
from spdtokens.paper.reproduce.show import write_tables
from spdtokens.paper.reproduce.side import side_content, write_side
from spdtokens.paper.theory import CLAIMS

QUICK = Extent.quick("sim")
COUNTS = {"BCI2a": 3, "BCIcha": 3, "MAMEM": 3}


def made_table(name: str, train: float = 0.9, test: float = 0.5) -> Reproduced:
    """A table whose scores fall by a thousandth from cell to cell, train as much as test."""
    cells = list(EXPERIMENTS[name].cells(COUNTS))
    values = {
        (cell.row, cell.column): Value(train - 0.001 * i, test - 0.001 * i, 0.05, cell.reported, 2)
        for i, cell in enumerate(cells)
    }
    rows, columns = (list(dict.fromkeys(key[i] for key in values)) for i in (0, 1))
    return Reproduced(EXPERIMENTS[name], QUICK, rows, columns, values, code_digest())


def cost(name: str, parameters: int | None, forward: float) -> dict:
    """A row of ``bench methods``."""
    return {
        "name": name,
        "parameters": parameters,
        "size_megabytes": 5.0,
        "flops_per_trial": None if parameters is None else 2_500_000,
        "forward_milliseconds": forward,
        "backward_milliseconds": None if parameters is None else 7.5,
        "training_megabytes": None if parameters is None else 12.0,
        "paper_efficiency": None if parameters is None else 0.25,
    }


COSTS = [cost("mdm", None, 9.0), cost("token-log-euclidean", 827_000, 3.25)]


def made_findings() -> list[dict]:
    """The claims that the paper's table needs, really tested, and one that does not hold."""
    wanted = [claim for claim in CLAIMS if claim.id.startswith("table-")]
    found = [claim.check(0) for claim in wanted]
    wrong = {"id": "wrong", "source": "thm:x", "claim": "1 < 0", "method": "", "numbers": {}}
    told = {"verdict": "fails", "evidence": "1 is 1", "counterexample": "1", "instead": ""}
    return [*found, {**wrong, **told}]


def made_folder(folder: Path, tables: tuple[str, ...] = ("geometry", "bands")) -> Path:
    """Tables, both sides and two figures."""
    write_tables([made_table(name) for name in tables], folder)
    sides = {
        "efficiency": {"batch": 32, "methods": COSTS},
        "theory": {"claims": made_findings()},
    }
    for name, data in sides.items():
        write_side(side_content(name, QUICK.command(name), **data), folder)
    for name in ("convergence", "attention"):
        figure = matplotlib.figure.Figure(figsize=(9, 3))
        axes = figure.add_subplot(title="small & quick")
        axes.plot([3.0, 0.25], label="Log-Euc")
        write_drawn(figure, FIGURES[name], QUICK, folder)
    return folder
