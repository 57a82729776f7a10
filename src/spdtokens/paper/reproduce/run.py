"""Run the experiments of the paper's tables; all tables share one store of runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spdtokens._tables import counted
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.classifiers.nn.networks import NETWORKS
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Selection
from spdtokens.evaluation.plan import Choice, Question, Source, plan
from spdtokens.evaluation.runs import RunResult, code_digest
from spdtokens.evaluation.summary import summarise
from spdtokens.experiments.config import Study
from spdtokens.experiments.executors import Executor
from spdtokens.experiments.run import Plan, Progress, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.experiments import ROLES, Cell, Data, Experiment
from spdtokens.paper.tables import Cell as Printed
from spdtokens.reporting.tables import NAN


@dataclass(frozen=True)
class Extent:
    """Data, subjects, seeds and epochs of a reproduction.

    Attributes
    ----------
    data : {'sim', 'real'}
        Simulated or real data.
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


@dataclass(frozen=True)
class ScoreTable:
    """A table of our accuracies and those of the paper.

    Attributes
    ----------
    name, title, note : str
        As in :class:`Experiment`.
    label : str
        LaTeX label in the paper; empty for future work.
    command : str
        Command that makes the table.
    code : str or None
        Digest of the code that made the runs; None for any code.
    extent : Extent
        Data, subjects, seeds and epochs.
    cells : DataFrame
        One row per cell, with the columns ``row``, ``column``, ``train``, ``test``, ``std`` (from 0
        to 1, NaN without runs), ``reported`` (the paper's text, or empty) and ``n_runs``.
    """

    name: str
    title: str
    label: str
    note: str
    command: str
    code: str | None
    extent: Extent
    cells: pd.DataFrame

    @property
    def heading(self) -> str:
        """The title; says so if the data are simulated."""
        return self.title + (" (simulated data)" if self.extent.data == "sim" else "")

    @property
    def frame(self) -> pd.DataFrame:
        """The cells with three further columns.

        ``printed`` is the paper's accuracy from 0 to 1, ``gap`` is train minus test. ``nearer`` is
        the score that the paper's value is nearer to: ``train``, ``test`` or ``equal``; empty if a
        value is missing.
        """
        frame = self.cells.copy()
        frame["printed"] = [_accuracy(text) for text in frame["reported"]]
        frame["gap"] = frame["train"] - frame["test"]
        further = (frame["printed"] - frame["train"]).abs() - (
            frame["printed"] - frame["test"]
        ).abs()
        frame["nearer"] = np.select(
            [further.isna(), further.abs() < 1e-9, further > 0], ["", "equal", "test"], "train"
        )
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data; missing values are None."""
        cells = [
            {key: None if value == "" or value != value else value for key, value in cell.items()}
            for cell in self.cells.to_dict("records")
        ]
        return {
            "name": self.name,
            "title": self.title,
            "label": self.label or None,
            "note": self.note,
            "command": self.command,
            "code": self.code,
            "whole": self.extent.is_whole,
            "extent": asdict(self.extent),
            "cells": cells,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ScoreTable:
        """Restore a table from :meth:`to_dict`; KeyError, TypeError or ValueError if invalid."""
        cells = [{**cell, "reported": cell["reported"] or ""} for cell in found["cells"]]
        frame = pd.DataFrame(cells).astype({"train": float, "test": float, "std": float})
        about = {key: found[key] or "" for key in ("name", "title", "label", "note", "command")}
        return cls(**about, code=found["code"], extent=Extent(**found["extent"]), cells=frame)


def _accuracy(reported: str) -> float:
    """Return the paper's accuracy from 0 to 1; NaN for a range or an empty text."""
    numbers = Printed(reported).numbers
    one = len(numbers) == 1 or "+-" in reported
    return float(numbers[0]) / 100 if numbers and one else NAN


def distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """Return cells with results, without duplicates."""
    same = ["train", "test", "std", "n_runs", "reported"]
    return frame.drop_duplicates(same).dropna(subset=["gap"])


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
        cells = []
        for cell, question in self.cells[experiment.name]:
            keys = [spec.key for spec in self._specs[repr(question)]]
            results = store.results(keys, self.planned.code)
            place = {"row": cell.row, "column": cell.column}
            printed = {"reported": cell.reported, "n_runs": len(results)}
            cells.append(place | _scores(results) | printed)
        about = (experiment.name, experiment.title, experiment.label, experiment.note)
        command, code = self.extent.command(experiment.name), self.planned.code
        return ScoreTable(*about, command, code, self.extent, pd.DataFrame(cells))


def _scores(results: Sequence[RunResult]) -> dict[str, float]:
    """Return the scores of a cell."""
    if not results:
        return {"train": NAN, "test": NAN, "std": NAN}
    (row,) = summarise({"": results}, "accuracy")
    return {"train": row.train_score, "test": row.score, "std": row.std}
