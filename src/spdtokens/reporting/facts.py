"""What is known of one question of a study: a data set under a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.runs import RunResult, as_text
from spdtokens.evaluation.summary import Row
from spdtokens.experiments.run import Plan
from spdtokens.experiments.store import RunStore
from spdtokens.reporting.decisions import Decision, Unexplained
from spdtokens.reporting.parameters import parameters_of
from spdtokens.reporting.units import Units, units_of


@dataclass(frozen=True)
class Facts:
    """A question, the answer and what both are about.

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


def facts_of(planned: Plan, store: RunStore) -> list[Facts]:
    """What a store knows of every question of a study."""
    found = []
    pairs = zip(planned.evaluations(store), planned.specs, strict=True)
    for number, (answer, specs) in enumerate(pairs, 1):
        question = answer.question
        dataset = planned.source.dataset(question.dataset, question.selection)
        name = Path(dataset.name).name
        found.append(
            Facts(
                number,
                answer,
                name,
                tuple(map(str, dataset.classes)),
                len({spec.key for spec in specs}),
                dataset.ch_names,
                parameters_of(answer, planned.source, dataset),
            )
        )
    return found
