"""A report's content, before it is written down."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdtokens._tables import counted
from spdtokens.errors import ReportError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult, as_text, code_digest
from spdtokens.evaluation.summary import Row
from spdtokens.experiments.run import Plan
from spdtokens.experiments.store import RunStore
from spdtokens.reporting.decisions import Decision, Tell, Unexplained, decisions, parameters_of
from spdtokens.reporting.tables import (
    NO_SEED,
    Table,
    origin_table,
    overview_table,
    question_tables,
    settings_table,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Units:
    """Scores of every method on each subject.

    Attributes
    ----------
    over : str
        What the units are: ``'subjects'``, ``'folds'`` of one subject, or ``'seeds'`` of one fold.
    test, train : DataFrame
        One row a unit, one column a method: the mean over seeds, then folds; NaN where a method has
        no run.
    """

    over: str
    test: pd.DataFrame
    train: pd.DataFrame

    @property
    def paired(self) -> bool:
        """Whether a unit is the same test for every method; a seed is not."""
        return self.over != "seeds"

    def complete(self) -> pd.DataFrame | None:
        """Test scores of the units of which every method has one; None if too few to compare."""
        known = self.test.dropna()
        return known if self.paired and min(known.shape) > 1 else None


def units_of(results: Mapping[str, Sequence[RunResult]], metric: str) -> Units:
    """Subjects if there are several, else folds, else seeds.

    Parameters
    ----------
    results : mapping of str to sequence of RunResult
        Of each method, of one data set under one protocol; at least one has a run.
    metric : str
    """
    import pandas as pd  # takes half a second: not before there is a table

    rows = [
        (
            *(method, run.spec.subject, run.spec.fold),
            NO_SEED if run.spec.seed is None else str(run.spec.seed),
            *(part.get(metric, np.nan) for part in (run.test, run.train)),
        )
        for method, runs in results.items()
        for run in runs
    ]
    frame = pd.DataFrame(rows, columns=["method", "subjects", "folds", "seeds", "test", "train"])
    if frame["subjects"].nunique() > 1:
        over = "subjects"
    else:
        over = "folds" if frame["folds"].nunique() > 1 else "seeds"
    parts = [frame["method"], frame[over].rename("unit"), frame["folds"]]
    means = frame[["test", "train"]].groupby(parts).mean().groupby(level=[0, 1]).mean()
    names, methods = frame[over].unique(), frame["method"].unique()
    test, train = (means[part].unstack(0).loc[names, methods] for part in ("test", "train"))
    return Units(over, test, train)


@dataclass(frozen=True)
class Facts:
    """A question of a study, the answer and what both are about.

    Attributes
    ----------
    number : int
        Place in the study, from 1.
    answer : Evaluation
    dataset : str
        Name, as people know it.
    classes : tuple of str
    planned : int
        Runs that the question needs.
    ch_names : tuple of str
    parameters : mapping of str to int
        Weights of every method that has a fixed number of them.
    decisions : tuple of Decision or Unexplained
        Of the methods that were looked into.
    """

    number: int
    answer: Evaluation
    dataset: str
    classes: tuple[str, ...]
    planned: int
    ch_names: tuple[str, ...] = ()
    parameters: Mapping[str, int] = field(default_factory=dict)
    decisions: tuple[Decision | Unexplained, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """One a method that has runs; the first is the reference."""
        return self.answer.rows

    @property
    def metric(self) -> str:
        """Of the scores; only where there are runs."""
        return self.rows[0].metric

    @property
    def runs(self) -> list[RunResult]:
        """Of all methods."""
        return [run for runs in self.answer.results.values() for run in runs]

    @property
    def protocol(self) -> str:
        """With the options that were set, what is seen of the target, and the alignment."""
        question = self.answer.question
        options = [f"{name} = {as_text(v)}" for name, v in question.protocol_options.items()]
        seen = [] if question.access == "train" else [f"access {question.access}"]
        if question.alignment != "none":
            seen.append(f"{question.alignment} by {question.domain}")
        return ", ".join([question.protocol, *options, *seen])

    @property
    def title(self) -> str:
        """Data set and protocol."""
        return f"{self.dataset}: {self.protocol}"

    @cached_property
    def units(self) -> Units:
        """Scores subject by subject; only where there are runs."""
        return units_of(self.answer.results, self.metric)

    def configurations(self) -> dict[str, Any]:
        """What every method was given in full, by its name in tables."""
        return {
            name: {**runs[0].spec.estimator, **runs[0].spec.about}
            for name, runs in self.answer.results.items()
            if runs
        }


@dataclass(frozen=True)
class Report:
    """What there is to report of a study.

    Attributes
    ----------
    name : str
        Of the study.
    source : str
        Its file, as it stands.
    commands : list of str
        That make every number again.
    found : list of Facts
        Of each question.
    written : datetime
    """

    name: str
    source: str
    commands: list[str]
    found: list[Facts]
    written: datetime

    @cached_property
    def runs(self) -> list[RunResult]:
        """Every run once."""
        by_key = {run.spec.key: run for facts in self.found for run in facts.runs}
        return list(by_key.values())

    @property
    def warning(self) -> str:
        """What the reader should know of the code that made the numbers; empty if all is well."""
        n = sum(run.origin.get("code") != code_digest() for run in self.runs)
        if not n:
            return ""
        return (
            f"Made by other code than the spdtokens that wrote this report: {n} of "
            f"{counted(len(self.runs), 'run')}. The same command today may give other numbers."
        )

    def tables(self) -> list[Table]:
        """Every table, in the order of the page."""
        found = [overview_table(self.found)] if len(self.found) > 1 else []
        for facts in self.found:
            found += [*question_tables(facts), settings_table(facts)]
        return [*found, origin_table(self.runs)]


def make_report(
    planned: Plan, store: RunStore, *, explain: bool = True, tell: Tell = lambda _text: None
) -> Report:
    """All that a store knows of a study, and what some of its models decide by.

    Parameters
    ----------
    planned : Plan
        See :func:`spdtokens.experiments.run.plan_study`.
    store : RunStore
    explain : bool
        Whether to refit one run of each of the best token methods of every question, to see which
        channels and bands decide.
    tell : callable
        Told, line by line, of what takes long.

    Raises
    ------
    ReportError
        If the store has no run of the study.
    """
    path = planned.study.path
    answers = zip(planned.evaluations(store), planned.specs, strict=True)
    found = [
        _facts(n, answer, planned.source, len(specs), tell if explain else None)
        for n, (answer, specs) in enumerate(answers, 1)
    ]
    if not any(facts.rows for facts in found):
        others = ""
        if planned.code is not None and set(store.codes()) - {planned.code}:
            others = " It has runs by other code of spdtokens, which --any-code counts."
        raise ReportError(f"{store.path} has no run of {path}: spdtokens study run {path}.{others}")
    own = store.path == path.with_suffix(".sqlite")
    where = [] if own else ["--store", str(store.path)]
    end = [*where, *(["--any-code"] if planned.code is None else [])]
    commands = [
        ["study", "run", str(path), *where],
        ["study", "show", str(path), *end],
        ["study", "compare", str(path), *end],
        ["report", str(path), *end, "-o", "report.html"],
    ]
    return Report(
        planned.study.name,
        path.read_text(encoding="utf-8"),
        [shlex.join(["spdtokens", *words]) for words in commands],
        found,
        datetime.now(UTC),
    )


def report_of(
    answer: Evaluation,
    source: Source,
    *,
    name: str,
    commands: Sequence[str] = (),
    tell: Tell = lambda _text: None,
) -> Report:
    """A report of one evaluation, whose runs are in memory and in no store.

    Parameters
    ----------
    answer : Evaluation
    source : Source
        With the data set it was made with.
    name : str
        Of the report.
    commands : sequence of str
        That made it.
    tell : callable
        Told, line by line, of what takes long.
    """
    runs = {run.spec.key for found in answer.results.values() for run in found}
    facts = _facts(1, answer, source, len(runs), tell)
    return Report(name, "", list(commands), [facts], datetime.now(UTC))


def _facts(
    number: int, answer: Evaluation, source: Source, planned: int, tell: Tell | None
) -> Facts:
    """What is known of a question; models are refitted and explained if ``tell`` is given."""
    dataset = source.dataset(answer.question.dataset, answer.question.selection)
    return Facts(
        number,
        answer,
        Path(dataset.name).name,
        tuple(map(str, dataset.classes)),
        planned,
        dataset.ch_names,
        parameters_of(answer, source, dataset),
        () if tell is None else tuple(decisions(answer, source, tell)),
    )
