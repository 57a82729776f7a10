"""Stand-ins for long work: sets of noise, and a reproduced folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.figure
import pandas as pd

from spdtokens.datasets import Recording
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import code_digest
from spdtokens.paper.reproduce import EXPERIMENTS, Extent, ScoreTable, tables
from spdtokens.paper.reproduce.experiments import ROLES
from spdtokens.paper.reproduce.figures import FIGURES, write_drawn
from spdtokens.paper.reproduce.scores import RUNS
from spdtokens.paper.theory import CLAIMS
from tests.evaluation.recordings import signals

QUICK = Extent.quick("sim")


def noise_source(last: float = 1.0) -> Source:
    """The three simulated sets, each replaced by a small one; the last session is scaled."""

    def scaled(recording: Recording) -> Recording:
        return replace(recording, X=recording.X * (last if recording.session == "3" else 1.0))

    index = {str(i): ("1", "2", "3") for i in range(1, 5)}
    return Source(
        {
            role.sim: signals(index, n=40, change=scaled, name=role.sim, unit_in_volts=1e-6)
            for role in ROLES
        }
    )


def made_table(name: str, split: str = "honest") -> ScoreTable:
    """A table whose scores fall by a thousandth from cell to cell, train as much as test.

    Each cell has two runs, of different subjects and seeds, a hundredth above and below; with the
    paper's split, test scores are 0.2 higher.
    """
    found, more = EXPERIMENTS[name], 0.2 if split == "paper" else 0.0
    cells, runs = [], []
    for i, cell in enumerate(found.cells(lambda role: role.subjects[:3])):
        train, test = 0.9 - 0.001 * i, 0.5 + more - 0.001 * i
        about = {"row": cell.row, "column": cell.column}
        cells.append(
            about
            | {"method": cell.choice.name, "protocol": "paper-sessions" if more else "k-fold"}
            | {"reported": cell.reported, "train": train, "test": test, "std": 0.05, "n_runs": 2}
        )
        for subject, seed, up in (("1", 42, 0.01), ("2", 123, -0.01)):
            known = {"subject": subject, "fold": "E", "seed": seed, "seconds": 5.0, "epochs": 50}
            runs.append(about | known | {"train": train + up, "test": test + up})
    about = (name, found.title, found.label, found.note, QUICK.command(name), code_digest())
    frames = (pd.DataFrame(cells), pd.DataFrame(runs)[list(RUNS)].astype(RUNS))
    return ScoreTable(*about, replace(QUICK, split=split), *frames)


def cost(name: str, parameters: int | None, forward: float) -> dict:
    """A row of ``bench methods``."""
    known = {"flops_per_trial": 2_500_000, "backward_milliseconds": 7.5, "training_megabytes": 12.0}
    known |= {"parameters": parameters, "paper_efficiency": 0.25}
    shown = known if parameters else dict.fromkeys(known)
    return {"name": name, "size_megabytes": 5.0, "forward_milliseconds": forward, **shown}


COSTS = [cost("mdm", None, 9.0), cost("token-log-euclidean", 827_000, 3.25)]


#: Rows of ``bench attention``.
ATTENTION = [
    {
        "channels": channels,
        "tokens": tokens,
        "batch_size": 64,
        "milliseconds": {"standard": 2.0, "distances once": 2.1, "distances in every block": 9.0},
        "ratio": {"distances once": 1.05, "distances in every block": 4.5},
        "printed_ratio": printed if tokens == 1 else None,
    }
    for channels, printed in ((8, 4.0), (56, 87.5))
    for tokens in (1, 3)
]


def made_findings() -> list[dict]:
    """The claims that the paper's table needs, really tested, and one that does not hold."""
    wrong = {"id": "wrong", "source": "thm:x", "claim": "1 < 0", "method": "", "numbers": {}}
    told = {"verdict": "fails", "evidence": "1 is 1", "counterexample": "1", "instead": ""}
    return [*(c.check(0) for c in CLAIMS if c.id.startswith("table-")), wrong | told]


def made_folder(folder: Path, names: tuple[str, ...] = ("geometry", "bands")) -> Path:
    """Tables, both measured ones and two figures, as ``reproduce`` leaves them."""
    for table in map(made_table, names):
        tables.write_scores(table, folder)
    measured = {
        "efficiency": {"batch": 32, "methods": COSTS, "attention": ATTENTION},
        "theory": {"claims": made_findings()},
    }
    for name, data in measured.items():
        content = tables.measured_content(name, QUICK.command(name), **data)
        tables.write_tables(tables.measured_tables(content), content, folder)
    for name in ("convergence", "attention"):
        figure = matplotlib.figure.Figure(figsize=(9, 3))
        axes = figure.add_subplot(title="small & quick")
        axes.plot([3.0, 0.25], label="Log-Euc")
        write_drawn(figure, FIGURES[name], QUICK, folder)
    return folder
