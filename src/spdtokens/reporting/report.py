"""The content of a report, before it is written."""

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
from spdtokens.evaluation.summary import Row, by_subject
from spdtokens.experiments.run import Plan
from spdtokens.experiments.store import RunStore
from spdtokens.reporting.decisions import Decision, Tell, decisions, parameters_of
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
    """Scores of every method per subject.

    Parameters
    ----------
    over : str
        What the rows are: ``'subjects'``, ``'folds'`` of one subject, or ``'seeds'`` of one fold.
    test, train : DataFrame
        One row per subject, fold or seed, one column per method: mean over seeds, then folds; NaN
        where a method has no run.
    """

    over: str
    test: pd.DataFrame
    train: pd.DataFrame

    @property
    def paired(self) -> bool:
        """Whether a row is the same test for every method; a seed is not."""
        return self.over != "seeds"

    def complete(self) -> pd.DataFrame | None:
        """Return the rows in which every method has a score; None if too few to compare."""
        known = self.test.dropna()
        return known if self.paired and min(known.shape) > 1 else None


def units_of(results: Mapping[str, Sequence[RunResult]], metric: str) -> Units:
    """Compute scores per subject; per fold for one subject, per seed for one fold.

    Parameters
    ----------
    results : mapping of str to sequence of RunResult
        Runs of each method, on one data set under one protocol; at least one method has runs.
    metric : str
        Name of the metric.
    """
    import pandas as pd  # slow to import

    rows = [
        (
            *(method, run.spec.subject, run.spec.fold),
            NO_SEED if run.spec.seed is None else str(run.spec.seed),
            *(part.get(metric, np.nan) for part in (run.test, run.train)),
        )
        for method, runs in results.items()
        for run in by_subject(runs)
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
    """Everything a section of the report is made from.

    Parameters
    ----------
    number : int
        Number of the section, from 1.
    answer : Evaluation
        Question and results.
    dataset : str
        Name of the data set.
    classes : tuple of str
        Names of the classes.
    planned : int
        Number of runs that the question needs.
    ch_names : tuple of str, default=()
        Names of the channels.
    parameters : mapping of str to int, default={}
        Number of weights of each method for which it is fixed.
    decisions : tuple of Decision, default=()
        Explanations of the best token methods.
    unexplained : mapping of str to str, default={}
        Why other methods cannot be explained.
    """

    number: int
    answer: Evaluation
    dataset: str
    classes: tuple[str, ...]
    planned: int
    ch_names: tuple[str, ...] = ()
    parameters: Mapping[str, int] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    unexplained: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """Summary of each method that has runs; the first is the reference."""
        return self.answer.rows

    @property
    def metric(self) -> str:
        """Metric of the scores; needs runs."""
        return self.rows[0].metric

    @property
    def runs(self) -> list[RunResult]:
        """Runs of all methods."""
        return [run for runs in self.answer.results.values() for run in runs]

    @property
    def protocol(self) -> str:
        """Protocol with its options, target access and alignment."""
        question = self.answer.question
        options = [
            f"{name} = {counted(len(v), 'subject') if isinstance(v, list | tuple) else as_text(v)}"
            for name, v in question.protocol_options.items()
        ]
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
        """Scores per subject; needs runs."""
        return units_of(self.answer.results, self.metric)

    def configurations(self) -> dict[str, Any]:
        """Return all parameters of every method."""
        return {
            name: {**runs[0].spec.estimator, **runs[0].spec.about}
            for name, runs in self.answer.results.items()
            if runs
        }


@dataclass(frozen=True)
class Report:
    """The content of a report.

    Parameters
    ----------
    name : str
        Title of the report.
    source : str
        Text of the study file; empty for the report of a trained model.
    commands : list of str
        Commands that reproduce every number.
    found : list of Facts
        One entry per data set and protocol.
    written : datetime
        When the report was made.

    See Also
    --------
    make_report : Report on a study.
    spdtokens.reporting.page.write_page : Write a report as HTML.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> from spdtokens.evaluation.answer import answer
    >>> from spdtokens.evaluation.plan import Choice, Question, Source
    >>> from spdtokens.reporting.page import write_page, write_tables
    >>> from spdtokens.reporting.report import report_of
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> source = Source({data.name: data})
    >>> result = answer(Question(data.name, (Choice("mdm"),), "k-fold"), source)
    >>> report = report_of(result, source, name="mine")
    >>> [table.name for table in report.tables()]
    ['methods-1', 'folds-1', 'efficiency-1', 'settings-1', 'origin']
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
        """Warning about runs computed by other code; empty if there are none."""
        n = sum(run.origin.get("code") != code_digest() for run in self.runs)
        if not n:
            return ""
        return (
            f"Computed by other code than the spdtokens that wrote this report: {n} of "
            f"{counted(len(self.runs), 'run')}. The same command may give other numbers today."
        )

    def tables(self) -> list[Table]:
        """Return every table, in the order of the page.

        Returns
        -------
        list of Table
            Tables of scores, cost, settings and origin.
        """
        found = [overview_table(self.found)] if len(self.found) > 1 else []
        for facts in self.found:
            found += [*question_tables(facts), settings_table(facts)]
        return [*found, origin_table(self.runs)]


def make_report(
    planned: Plan, store: RunStore, *, explain: bool = True, tell: Tell | None = None
) -> Report:
    """Report on a study: its results, and what its best models use.

    Parameters
    ----------
    planned : Plan
        The runs of the study, see :func:`~spdtokens.experiments.run.plan_study`.
    store : RunStore
        The store of results. The study may be unfinished.
    explain : bool, default=True
        Whether to refit one run of each of the best token methods to compute the importance of
        channels and bands. Nothing is trained otherwise.
    tell : callable, default=None
        Called with a line of text before each step that takes long.

    Returns
    -------
    Report
        The report, to be written with :func:`~spdtokens.reporting.page.write_page`.

    Raises
    ------
    ReportError
        If the store has no run of the study.

    See Also
    --------
    spdtokens.reporting.page.write_page : Write a report as HTML.
    spdtokens.reporting.page.write_tables : Write its tables as LaTeX and Markdown.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> from spdtokens.evaluation.plan import Choice, Question, Source
    >>> from spdtokens.experiments.config import Study
    >>> from spdtokens.experiments.executors import InProcess
    >>> from spdtokens.experiments.run import plan_study, run_study
    >>> from spdtokens.experiments.store import RunStore
    >>> from spdtokens.reporting.report import make_report
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> question = Question(data.name, (Choice("mdm"), Choice("ts-lr")), "k-fold")
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "mine.toml")
    ...     _ = file.write_text("# as read by read_study")
    ...     plan = plan_study(Study("mine", file, (question,)), Source({data.name: data}))
    ...     with RunStore(file.with_suffix(".sqlite")) as store:
    ...         _ = run_study(plan, store, InProcess(plan.source))
    ...         report = make_report(plan, store)
    >>> len(report.runs)
    10
    """
    path = planned.study.path
    answers = zip(planned.evaluations(store), planned.specs, strict=True)
    found = [
        _facts(n, answer, planned.source, len(specs), explain, tell)
        for n, (answer, specs) in enumerate(answers, 1)
    ]
    if not any(facts.rows for facts in found):
        others = ""
        if planned.code is not None and set(store.codes()) - {planned.code}:
            others = " It has runs computed by other code; --any-code counts them."
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
    tell: Tell | None = None,
) -> Report:
    """Report on one evaluation whose runs are in memory, with explanations of its models.

    Parameters
    ----------
    answer : Evaluation
        The evaluation.
    source : Source
        Provides the data set of the evaluation.
    name : str
        Title of the report.
    commands : sequence of str, default=()
        Commands that made the evaluation.
    tell : callable, default=None
        Called with a line of text before each step that takes long.
    """
    runs = {run.spec.key for found in answer.results.values() for run in found}
    facts = _facts(1, answer, source, len(runs), True, tell)
    return Report(name, "", list(commands), [facts], datetime.now(UTC))


def _facts(
    number: int,
    answer: Evaluation,
    source: Source,
    planned: int,
    explain: bool,
    tell: Tell | None,
) -> Facts:
    dataset = source.dataset_of(answer.question)
    return Facts(
        number,
        answer,
        Path(dataset.name).name,
        tuple(map(str, dataset.classes)),
        planned,
        dataset.ch_names,
        parameters_of(answer, source, dataset),
        *(decisions(answer, source, tell or (lambda _text: None)) if explain else ()),
    )
