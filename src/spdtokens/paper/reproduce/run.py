"""Run the experiments of the paper's tables; all tables share one store of runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from spdtokens._tables import counted
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.classifiers.nn.networks import NETWORKS
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Selection
from spdtokens.evaluation.plan import Choice, Question, Source, plan
from spdtokens.evaluation.runs import code_digest
from spdtokens.experiments.config import Study
from spdtokens.experiments.executors import Executor
from spdtokens.experiments.run import Plan, Progress, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.experiments import ROLES, Cell, Data, Experiment
from spdtokens.paper.reproduce.scores import ScoreTable, cell_scores, run_scores


@dataclass(frozen=True)
class Extent:
    """Data, subjects, seeds and epochs of a reproduction.

    Attributes
    ----------
    data : {'sim', 'real'}
        Simulated or real data.
    split : {'honest', 'paper'}
        Protocols without leakage, or the paper's.
    subjects : int or None
        Number of subjects per data set; None for all.
    seeds : int
        Number of seeds.
    network_epochs : int or None
        Epochs of networks that are not trained in batches; None for those of the recipe.
    pooled_seeds : int or None
        Number of seeds of cells over several subjects; None for ``seeds``.
    """

    data: Data = "sim"
    split: Literal["honest", "paper"] = "honest"
    subjects: int | None = None
    seeds: int = 5
    network_epochs: int | None = None
    pooled_seeds: int | None = None

    @classmethod
    def quick(cls, data: Data) -> Extent:
        """Return the extent of ``--quick``: three subjects, one or two seeds, few epochs."""
        return cls(data, subjects=3, seeds=2, network_epochs=10, pooled_seeds=1)

    @property
    def is_whole(self) -> bool:
        """Whether it includes all subjects, seeds and epochs."""
        return self == Extent(self.data)

    @property
    def note(self) -> str:
        """The extent in words."""
        data = "simulated data" if self.data == "sim" else "the paper's data sets"
        if self.is_whole:
            return f"All subjects and 5 seeds, {data}."
        parts = [counted(self.seeds, "seed")]
        if self.subjects is not None:
            parts.insert(0, f"at most {counted(self.subjects, 'subject')}")
        if self.pooled_seeds is not None:
            parts.append(f"{self.pooled_seeds} in cells over several subjects")
        if self.network_epochs is not None:
            epochs = counted(self.network_epochs, "epoch")
            parts.append(f"{epochs} for other networks than token transformers")
        return f"QUICK: {', '.join(parts)}; {data}."

    def command(self, name: str) -> str:
        """Return the command for a table or figure; empty if there is no option for the extent."""
        options = ["--quick"] if self == Extent.quick(self.data) else []
        if not options and not self.is_whole:
            return ""
        options += ["--data", self.data] if self.data != "sim" else []
        return shlex.join(["spdtokens", "reproduce", name, *options])


class Reproduction:
    """Run experiments and collect their tables.

    Parameters
    ----------
    experiments : sequence of Experiment
        Experiments to run.
    extent : Extent
        Data, subjects, seeds and epochs.
    source : Source, optional
        Source of the data sets.
    any_code : bool
        Whether to count results of other versions of the code.
    """

    def __init__(
        self,
        experiments: Sequence[Experiment],
        extent: Extent,
        source: Source | None = None,
        *,
        any_code: bool = False,
    ) -> None:
        self.extent, self.source = extent, source or Source()
        self.subjects = {
            role.name: self.source.dataset(role.dataset(extent.data), Selection()).subjects[
                : extent.subjects
            ]
            for role in ROLES
        }
        counts = {name: len(subjects) for name, subjects in self.subjects.items()}
        self.cells = {
            experiment.name: [(cell, self._question(cell)) for cell in experiment.cells(counts)]
            for experiment in experiments
        }
        self.experiments = list(experiments)
        # By their representation: settings contain mappings, which cannot be keys.
        questions = {repr(q): q for cells in self.cells.values() for _, q in cells}
        study = Study("reproduce", Path("reproduce"), tuple(questions.values()))
        specs = tuple(tuple(plan(question, self.source)) for question in study.questions)
        code = None if any_code else code_digest()
        self.planned = Plan(study, self.source, specs, code)
        self._specs = dict(zip(questions, specs, strict=True))

    def run(
        self,
        store: RunStore,
        executor: Executor,
        tell: Callable[[Progress], None] = lambda _progress: None,
        listener: Listener | None = None,
    ) -> Progress:
        """Do the runs that are not in the store."""
        return run_study(self.planned, store, executor, tell=tell, listener=listener)

    def tables(self, store: RunStore) -> list[ScoreTable]:
        """Return all tables with the results in the store."""
        return [self._table(experiment, store) for experiment in self.experiments]

    def _question(self, cell: Cell) -> Question:
        subjects, seeds = self.subjects[cell.role.name], self.extent.seeds
        if cell.subject is None:
            seeds = self.extent.pooled_seeds or seeds
        else:
            subjects = (subjects[min(cell.subject, len(subjects) - 1)],)
        return Question(
            dataset=cell.role.dataset(self.extent.data),
            choices=(self._shortened(cell.choice),),
            protocol=cell.protocol or cell.role.protocol,
            access=cell.access,
            alignment=cell.alignment,
            subjects=subjects,
            seeds=SEEDS[:seeds],
        )

    def _shortened(self, choice: Choice) -> Choice:
        if self.extent.network_epochs is None or choice.name not in NETWORKS:
            return choice
        return replace(choice, settings=replace(choice.settings, epochs=self.extent.network_epochs))

    def _table(self, experiment: Experiment, store: RunStore) -> ScoreTable:
        cells, runs = [], []
        for cell, question in self.cells[experiment.name]:
            keys = [spec.key for spec in self._specs[repr(question)]]
            results = store.results(keys, self.planned.code)
            about_cell = {"row": cell.row, "column": cell.column, "method": cell.choice.name}
            about_cell |= {"protocol": question.protocol, "reported": cell.reported}
            cells.append(about_cell | cell_scores(results) | {"n_runs": len(results)})
            runs.append(run_scores(cell.row, cell.column, results))
        about = (experiment.name, experiment.title, experiment.label, experiment.note)
        command, code = self.extent.command(experiment.name), self.planned.code
        frames = (pd.DataFrame(cells), pd.concat(runs, ignore_index=True))
        return ScoreTable(*about, command, code, self.extent, *frames)
