"""A report's content, before it is written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from spdtokens._tables import counted
from spdtokens.errors import ReportError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult, code_digest
from spdtokens.experiments.comparison import comparisons
from spdtokens.experiments.run import Plan
from spdtokens.experiments.store import RunStore
from spdtokens.reporting.decisions import Tell, decisions
from spdtokens.reporting.efficiency import efficiency_table
from spdtokens.reporting.facts import Facts, facts_of
from spdtokens.reporting.parameters import parameters_of
from spdtokens.reporting.provenance import commands, foreign, origin_table, question_table
from spdtokens.reporting.table import Table
from spdtokens.reporting.tables import differences_table, methods_table, overview_table, units_table


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
        n = foreign(self.runs, code_digest())
        if not n:
            return ""
        return (
            f"Made by other code than the spdtokens that wrote this report: {n} of "
            f"{counted(len(self.runs), 'run')}. The same command today may give other numbers."
        )

    @property
    def overview(self) -> Table:
        """One row a question."""
        return overview_table(self.found)

    @property
    def origin(self) -> Table:
        """Of all runs."""
        return origin_table(self.runs)

    def tables(self) -> list[Table]:
        """Every table, in the order of the page."""
        found = [self.overview] if len(self.found) > 1 else []
        for facts in self.found:
            found += [*question_tables(facts), question_table(facts)]
        return [*found, self.origin]


def question_tables(facts: Facts) -> list[Table]:
    """The tables of scores and costs of one question; none before its first run."""
    if not facts.rows:
        return []
    found = [methods_table(facts), units_table(facts)]
    complete = facts.units.complete()
    n = len(next(iter(complete.values())))
    if facts.units.paired and len(complete) > 1 and n > 1:
        found.append(differences_table(facts, comparisons(facts.answer, None)))
    return [*found, efficiency_table(facts)]


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
    study = planned.study
    found = facts_of(planned, store)
    if not any(facts.rows for facts in found):
        others = ""
        if planned.code is not None and set(store.codes()) - {planned.code}:
            others = " It has runs by other code of spdtokens, which --any-code counts."
        raise ReportError(
            f"{store.path} has no run of {study.path}: spdtokens study run {study.path}.{others}"
        )
    if explain:
        found = [_explained(facts, planned.source, tell) for facts in found]
    return Report(
        name=study.name,
        source=study.path.read_text(encoding="utf-8"),
        commands=commands(study.path, store.path, any_code=planned.code is None),
        found=found,
        written=datetime.now(UTC),
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
    dataset = source.dataset(answer.question.dataset, answer.question.selection)
    runs = {run.spec.key for found in answer.results.values() for run in found}
    facts = Facts(
        1,
        answer,
        dataset.name,
        tuple(map(str, dataset.classes)),
        len(runs),
        dataset.ch_names,
        parameters_of(answer, source, dataset),
    )
    return Report(
        name=name,
        source="",
        commands=list(commands),
        found=[_explained(facts, source, tell)],
        written=datetime.now(UTC),
    )


def _explained(facts: Facts, source: Source, tell: Tell) -> Facts:
    return replace(facts, decisions=tuple(decisions(facts.answer, source, tell)))
