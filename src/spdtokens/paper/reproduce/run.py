"""Run the experiments of the paper's tables; all tables share one store of runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from spdtokens._tables import counted
from spdtokens.classifiers.methods import get_method
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.classifiers.nn.networks import NETWORKS
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS
from spdtokens.datasets import Dataset, Selection
from spdtokens.datasets.official import OFFICIAL
from spdtokens.errors import DataError, StudyError
from spdtokens.evaluation.plan import Question, Source, plan
from spdtokens.evaluation.runs import RunSpec, code_digest
from spdtokens.experiments.config import Study
from spdtokens.experiments.executors import Executor
from spdtokens.experiments.run import Plan, Progress, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.experiments import (
    ACROSS,
    ROLES,
    Cell,
    Data,
    Experiment,
    Role,
    Split,
)
from spdtokens.paper.reproduce.scores import ScoreTable, cell_scores, run_scores

#: Methods with seeds that are trained one by one.
ONE_BY_ONE = (*NETWORKS, "token-adversarial")


@dataclass(frozen=True)
class Extent:
    """Data, split, subjects, seeds and epochs of a reproduction.

    Attributes
    ----------
    data : {'sim', 'real'}
        Simulated or real data.
    split : {'honest', 'paper'}
        Protocols without leakage, or the paper's, as far as its numbers reveal them.
    subjects : int or None
        Number of subjects per data set; None for all.
    seeds : int
        Number of seeds.
    network_seeds, across_seeds : int or None
        Number of seeds of networks that are not trained in batches, and of training on other
        subjects; None for ``seeds``.
    network_epochs : int or None
        Epochs of networks that are not trained in batches; None for those of the recipe.
    options : tuple of pairs
        Options for loading data sets, such as ``("bci2a.folder", "/path")``. With
        ``("bci2a.dataset", "/path")`` that data set takes the place of the paper's.
    """

    data: Data = "sim"
    split: Split = "honest"
    subjects: int | None = None
    seeds: int = 5
    network_seeds: int | None = None
    across_seeds: int | None = None
    network_epochs: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Accept lists, as read from a file, and check the names of the data sets."""
        object.__setattr__(self, "options", tuple((name, value) for name, value in self.options))
        known = [role.real for role in ROLES]
        for name, _ in self.options:
            dataset, dot, option = name.partition(".")
            if not (dot and option and dataset in known):
                raise StudyError(
                    f"A data set option must be {known[0]}.NAME, {known[1]}.NAME or "
                    f"{known[2]}.NAME, such as bci2a.folder, got {name!r}."
                )
        if self.options and self.data == "sim":
            raise StudyError("Data set options are for the paper's data sets. Add --data real.")

    @classmethod
    def quick(cls, data: Data, split: Split = "honest") -> Extent:
        """Return the extent of ``--quick``: three subjects, one or two seeds, few epochs."""
        few = cls(data, split, subjects=3, seeds=2)
        return replace(few, network_seeds=1, across_seeds=1, network_epochs=10)

    @property
    def is_whole(self) -> bool:
        """Whether it includes all subjects, seeds and epochs."""
        return self == replace(Extent(), data=self.data, split=self.split, options=self.options)

    @property
    def note(self) -> str:
        """The extent in words."""
        data = "simulated subjects, which stand for the paper's in their order only"
        if self.data == "real":
            data = "the paper's data sets"
        many = "all subjects" if self.subjects is None else counted(self.subjects, "subject")
        parts = [many if self.subjects is None else f"at most {many}", counted(self.seeds, "seed")]
        if self.network_seeds is not None:
            parts.append(f"{self.network_seeds} for other networks than token networks")
        if self.across_seeds is not None:
            parts.append(f"{self.across_seeds} for training on other subjects")
        if self.network_epochs is not None:
            epochs = counted(self.network_epochs, "epoch")
            parts.append(f"{epochs} for other networks than token networks")
        said = ", ".join(parts)
        short = f"QUICK: {said}" if self.subjects is not None else said[:1].upper() + said[1:]
        used = ", ".join(f"{name}={value}" for name, value in self.options)
        split = "; the paper's split, as its numbers suggest it" if self.split == "paper" else ""
        return f"{short}; {data}{f' ({used})' if used else ''}{split}."

    def command(self, name: str) -> str:
        """Return the command for a table or figure; empty if there is no option for the extent."""
        whole = replace(self, seeds=5, network_seeds=None, across_seeds=None)
        options: list[str] = []
        if replace(self, options=()) == Extent.quick(self.data, self.split):
            options.append("--quick")
        elif not whole.is_whole:
            return ""
        else:
            for key in ("seeds", "network_seeds", "across_seeds"):
                if (n := getattr(self, key)) != getattr(whole, key):
                    options += [f"--{key.replace('_', '-')}", str(n)]
        options += ["--data", self.data] if self.data != "sim" else []
        options += ["--split", self.split] if self.split != "honest" else []
        for key, value in self.options:
            options += ["--dataset-option", f"{key}={value}"]
        return shlex.join(["spdtokens", "reproduce", name, *options])

    def role(self, role: Role) -> Role:
        """Return a role with the user's data set and options."""
        mine = [(n.partition(".")[2], v) for n, v in self.options if n.split(".")[0] == role.real]
        options = dict(mine)
        if "dataset" in options:  # its trials are its own
            role = replace(role, real=options.pop("dataset"), paper_options={})
        return replace(role, options=options)


def dataset_of(role: Role, extent: Extent, source: Source) -> Dataset:
    """Return the data set of a role."""
    mine = extent.role(role)
    options = mine.dataset_options(extent.data, extent.split)
    return source.dataset(mine.dataset(extent.data), Selection(), options)


def subjects_of(role: Role, extent: Extent, source: Source) -> tuple[dict[str, str], str]:
    """Find the paper's subjects in the data set of a role.

    Returns
    -------
    subjects : dict of str to str
        Names in the data set by the paper's names; empty if the data set is not there.
    reason : str
        Why it is not there; else empty.

    Raises
    ------
    DataError
        If the data set is there but has none of the paper's subjects, or an option is wrong.
    """
    mine = extent.role(role)
    name, folder = mine.dataset(extent.data), mine.options.get("folder")
    official = OFFICIAL.get(name)
    if not name:
        return {}, f"{role.name} has simulated data only."
    if official and not official.is_present(folder and Path(folder)):
        where = f"in {folder}" if folder else f"(--dataset-option {name}.folder=...)"
        return {}, f"{role.name}: no files {where}. {official.how_to_get}"
    there = dataset_of(role, extent, source).subjects
    found = role.found(extent.data, there)
    if not found:
        raise DataError(
            f"{name} must have one of the paper's subjects of {role.name} "
            f"({', '.join(role.subjects)}), got {', '.join(there)}."
        )
    return dict(list(found.items())[: extent.subjects]), ""


class Reproduction:
    """Run experiments and collect their tables.

    Cells of data sets that are not there, and of methods that do not apply to them, are left out.

    Parameters
    ----------
    experiments : sequence of Experiment
        Experiments to run.
    extent : Extent
        Data, split, subjects, seeds and epochs.
    source : Source, optional
        Source of the data sets.
    any_code : bool
        Whether to count results of other versions of the code.

    Attributes
    ----------
    left_out : dict of str to str
        Reasons by the name of the data set, or of the data set and the method.

    Raises
    ------
    DataError
        If nothing is left.
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
        self.left_out: dict[str, str] = {}
        self._present: dict[str, dict[str, str]] = {}
        self.cells = {
            experiment.name: [
                (cell, self._question(cell))
                for cell in experiment.cells(lambda role: tuple(self._subjects(role)))
                if self._applies(cell)
            ]
            for experiment in experiments
        }
        self.experiments = [one for one in experiments if self.cells[one.name]]
        if experiments and not self.experiments:
            raise DataError(" ".join(self.left_out.values()))
        # By their representation: settings contain mappings, which cannot be keys.
        questions = {repr(q): q for cells in self.cells.values() for _, q in cells}
        study = Study("reproduce", Path("reproduce"), tuple(questions.values()))
        specs = tuple(tuple(plan(question, self.source)) for question in study.questions)
        code = None if any_code else code_digest()
        self.planned = Plan(study, self.source, specs, code)
        self._specs = dict(zip(questions, specs, strict=True))

    def _subjects(self, role: Role) -> dict[str, str]:
        """Names of the subjects in the data set, by the paper's; none if it is not there."""
        if role.name not in self._present:
            found, reason = subjects_of(role, self.extent, self.source)
            self._present[role.name] = found
            if reason:
                self.left_out[role.name] = reason
        return self._present[role.name]

    def _applies(self, cell: Cell) -> bool:
        """Whether the data of a cell are there and its method applies to them."""
        subjects, name = self._subjects(cell.role), cell.role.name
        if not subjects:
            return False
        if cell.subject is not None and cell.subject not in subjects:
            there = ", ".join(subjects)
            self.left_out[f"{name}, {cell.subject}"] = (
                f"{name}: subject {cell.subject} is not there, only {there}."
            )
            return False
        assert isinstance(cell.choice.method, str)
        dataset = dataset_of(cell.role, self.extent, self.source)
        reason = get_method(cell.choice.method).why_not(dataset)
        if dataset.is_covariance and cell.choice.settings.bands != cell.role.bands:
            reason = f"{dataset.name} contains covariance matrices, whose bands cannot be chosen"
        if reason is None and cell.protocol == ACROSS and len(subjects) < 2:
            reason = f"{ACROSS} needs at least two subjects of {name}"
        if reason is not None:
            self.left_out[f"{name}, {reason}"] = f"{reason}."
        return reason is None

    def specs(self, question: Question) -> tuple[RunSpec, ...]:
        """Return the runs of a question."""
        return self._specs[repr(question)]

    def specs_of(self, name: str) -> list[RunSpec]:
        """Return the runs of a table, each once."""
        found = (spec for _, question in self.cells[name] for spec in self.specs(question))
        return list({spec.key: spec for spec in found}.values())

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
        extent, role = self.extent, self.extent.role(cell.role)
        subjects, seeds = self._subjects(cell.role), extent.seeds
        if cell.seeds is not None and seeds == len(SEEDS):
            seeds = cell.seeds
        choice = cell.choice
        if choice.name in ONE_BY_ONE:
            seeds = extent.network_seeds or seeds
            epochs = extent.network_epochs or choice.settings.epochs
            choice = replace(choice, settings=replace(choice.settings, epochs=epochs))
        if cell.protocol == ACROSS:
            seeds = extent.across_seeds or seeds
        names = tuple(subjects) if cell.subject is None else (cell.subject,)
        own = role.protocol if extent.split == "honest" else role.paper_protocol
        return Question(
            dataset=role.dataset(extent.data),
            choices=(choice,),
            protocol=cell.protocol or own,
            access=cell.access,
            alignment=cell.alignment,
            subjects=tuple(subjects[name] for name in names),
            seeds=STABILITY_SEEDS[:seeds],
            dataset_options=role.dataset_options(extent.data, extent.split),
        )

    def _table(self, experiment: Experiment, store: RunStore) -> ScoreTable:
        cells, runs = [], []
        for cell, question in self.cells[experiment.name]:
            keys = [spec.key for spec in self.specs(question)]
            results = store.results(keys, self.planned.code)
            about_cell = {"row": cell.row, "column": cell.column, "method": cell.choice.name}
            about_cell |= {"protocol": question.protocol, "reported": cell.reported}
            cells.append(about_cell | cell_scores(results) | {"n_runs": len(results)})
            runs.append(run_scores(cell.row, cell.column, results))
        roles = {cell.role.name: cell.role for cell, _ in self.cells[experiment.name]}
        some = [
            f"{name}: {', '.join(self._subjects(role))} only."
            for name, role in roles.items()
            if self.extent.subjects is None and len(self._subjects(role)) < len(role.subjects)
        ]
        note = " ".join(filter(None, [experiment.note, *some]))
        about = (experiment.name, experiment.title, experiment.label, note)
        command, code = self.extent.command(experiment.name), self.planned.code
        frames = (pd.DataFrame(cells), pd.concat(runs, ignore_index=True))
        return ScoreTable(*about, command, code, self.extent, *frames)
