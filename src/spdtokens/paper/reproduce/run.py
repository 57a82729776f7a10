"""Do the runs of the paper's tables; all tables share one store, so no run is done twice."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spdtokens.classifiers.nn.engine import Listener
from spdtokens.classifiers.nn.networks import NETWORKS
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Selection
from spdtokens.evaluation.plan import Choice, Question, Source, plan
from spdtokens.evaluation.runs import code_digest
from spdtokens.evaluation.summary import summarise
from spdtokens.experiments.config import Study
from spdtokens.experiments.executors import Executor
from spdtokens.experiments.run import Plan, Progress, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.experiments import Cell, Experiment
from spdtokens.paper.reproduce.roles import ROLES, Data


@dataclass(frozen=True)
class Extent:
    """How much of the paper is done.

    Attributes
    ----------
    data : {'sim', 'real'}
    subjects : int or None
        Of each data set, the first ones; None for all.
    seeds : int
    network_epochs : int or None
        Of networks that train one by one; None for the recipe's.
    pooled_seeds : int or None
        Seeds of cells over several subjects, whose spread is over subjects; None for ``seeds``.
    """

    data: Data = "sim"
    subjects: int | None = None
    seeds: int = 5
    network_epochs: int | None = None
    pooled_seeds: int | None = None

    @classmethod
    def quick(cls, data: Data) -> Extent:
        """Three subjects, two seeds or one, and few epochs for networks that train one by one."""
        return cls(data, subjects=3, seeds=2, network_epochs=10, pooled_seeds=1)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self == Extent(self.data)

    def command(self, name: str) -> str:
        """What makes a table or figure of this extent; empty for one that no option asks for."""
        options = ["--quick"] if self == Extent.quick(self.data) else []
        if not options and not self.is_whole:
            return ""
        options += ["--data", self.data] if self.data != "sim" else []
        return shlex.join(["spdtokens", "reproduce", name, *options])


@dataclass(frozen=True)
class Value:
    """What a cell came to, scores from 0 to 1.

    Attributes
    ----------
    train, test, std : float
        NaN where there is no run yet.
    reported : str
        What the paper prints.
    n_runs : int
    """

    train: float
    test: float
    std: float
    reported: str
    n_runs: int


@dataclass(frozen=True)
class Reproduced:
    """A table of the paper with our values.

    Attributes
    ----------
    experiment : Experiment
    extent : Extent
    rows, columns : list of str
    values : dict of (row, column) to Value
    code : str or None
        Digest of the code whose runs count; None for any.
    """

    experiment: Experiment
    extent: Extent
    rows: list[str]
    columns: list[str]
    values: dict[tuple[str, str], Value]
    code: str | None = None

    def plain(self) -> dict[str, Any]:
        """As plain values; what is not known is None."""
        cells = [
            {
                "row": row,
                "column": column,
                "train": _plain(value.train),
                "test": _plain(value.test),
                "std": _plain(value.std),
                "reported": value.reported or None,
                "n_runs": value.n_runs,
            }
            for (row, column), value in self.values.items()
        ]
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "label": self.experiment.label or None,
            "note": self.experiment.note,
            "command": self.extent.command(self.experiment.name),
            "code": self.code,
            "whole": self.extent.is_whole,
            "extent": asdict(self.extent),
            "cells": cells,
        }


class Reproduction:
    """Experiments under way.

    Parameters
    ----------
    experiments : sequence of Experiment
    extent : Extent
    source : Source, optional
    any_code : bool
        Whether results by other code count.
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
        self.subjects = {role.name: self._subjects(role.dataset(extent.data)) for role in ROLES}
        counts = {name: len(subjects) for name, subjects in self.subjects.items()}
        self.cells = {
            experiment.name: [(cell, self._question(cell)) for cell in experiment.cells(counts)]
            for experiment in experiments
        }
        self.experiments = list(experiments)
        questions = tuple(
            dict.fromkeys(
                _Hashed(question) for cells in self.cells.values() for _, question in cells
            )
        )
        study = Study("reproduce", Path("reproduce"), tuple(q.question for q in questions))
        specs = tuple(tuple(plan(question, self.source)) for question in study.questions)
        code = None if any_code else code_digest()
        self.planned = Plan(study, self.source, specs, code)
        self._specs = {q.key: found for q, found in zip(questions, specs, strict=True)}

    def run(
        self,
        store: RunStore,
        executor: Executor,
        tell: Callable[[Progress], None] = lambda _progress: None,
        listener: Listener | None = None,
    ) -> Progress:
        """Do what is missing."""
        return run_study(self.planned, store, executor, tell=tell, listener=listener)

    def tables(self, store: RunStore) -> list[Reproduced]:
        """Every table, as far as there are results."""
        return [self._table(experiment, store) for experiment in self.experiments]

    def _subjects(self, dataset: str) -> tuple[str, ...]:
        everybody = self.source.dataset(dataset, Selection()).subjects
        return everybody[: self.extent.subjects]

    def _question(self, cell: Cell) -> Question:
        everybody = self.subjects[cell.role.name]
        subjects, seeds = everybody, self.extent.pooled_seeds or self.extent.seeds
        if cell.subject is not None:
            subjects = (everybody[min(cell.subject, len(everybody) - 1)],)
            seeds = self.extent.seeds
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

    def _table(self, experiment: Experiment, store: RunStore) -> Reproduced:
        values: dict[tuple[str, str], Value] = {}
        for cell, question in self.cells[experiment.name]:
            keys = [spec.key for spec in self._specs[_Hashed(question).key]]
            results = store.results(keys, self.planned.code)
            rows = summarise({"": results}, "accuracy")
            if rows:
                row = rows[0]
                values[cell.row, cell.column] = Value(
                    row.train_score, row.score, row.std, cell.reported, row.n_runs
                )
            else:
                nan = float("nan")
                values[cell.row, cell.column] = Value(nan, nan, nan, cell.reported, 0)
        return Reproduced(
            experiment,
            self.extent,
            list(dict.fromkeys(row for row, _ in values)),
            list(dict.fromkeys(column for _, column in values)),
            values,
            self.planned.code,
        )


class _Hashed:
    """A question that can be a key: settings hold mappings, which cannot."""

    def __init__(self, question: Question) -> None:
        self.question, self.key = question, repr(question)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
