"""Do what is missing of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from spdtokens.evaluation.answer import Evaluation, evaluation_of
from spdtokens.evaluation.batches import batches
from spdtokens.evaluation.origin import code_digest
from spdtokens.evaluation.plan import Source, plan
from spdtokens.evaluation.runs import RunSpec
from spdtokens.study.config import Study
from spdtokens.study.executors import Batch, Executor
from spdtokens.study.store import RunStore
from spdtokens.study.work import Done, Failure
from spdtokens.training.engine import Listener


@dataclass
class Progress:
    """What a study has come to; shown while it runs.

    Attributes
    ----------
    total, before : int
        Runs of the study, and those that were in the store when it began.
    done : int
        Runs stored since.
    failures : list of Failure
    """

    total: int
    before: int
    done: int = 0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """A study's runs, and which of them are in the store.

    Attributes
    ----------
    study : Study
    source : Source
    specs : tuple of tuple of RunSpec
        Runs of each question.
    code : str or None
        Only results by this code count; None for any.
    """

    study: Study
    source: Source
    specs: tuple[tuple[RunSpec, ...], ...]
    code: str | None

    def once(self) -> list[RunSpec]:
        """Every run once, in the order of the study."""
        return list({spec.key: spec for specs in self.specs for spec in specs}.values())

    def missing(self, store: RunStore) -> list[RunSpec]:
        """Runs that have no result yet."""
        runs = self.once()
        done = store.done([spec.key for spec in runs], self.code)
        return [spec for spec in runs if spec.key not in done]

    def evaluations(self, store: RunStore) -> list[Evaluation]:
        """The answer to each question, as far as there are results."""
        found = []
        for question, specs in zip(self.study.questions, self.specs, strict=True):
            results = store.results([spec.key for spec in specs], self.code)
            found.append(evaluation_of(question, self.source, results, self.study.metric))
        return found


def plan_study(study: Study, source: Source | None = None, *, any_code: bool = False) -> Plan:
    """All runs of a study, each fold checked for leaks; nothing is trained yet.

    Parameters
    ----------
    study : Study
    source : Source, optional
    any_code : bool
        Whether results by other code count as done.
    """
    source = source or Source()
    specs = tuple(tuple(plan(question, source)) for question in study.questions)
    return Plan(study, source, specs, None if any_code else code_digest())


def run_study(
    planned: Plan,
    store: RunStore,
    executor: Executor,
    *,
    tell: Callable[[Progress, Done], None] = lambda _progress, _done: None,
    listener: Listener | None = None,
) -> Progress:
    """Do the runs that are missing and store each batch when it is done.

    Killed at any moment, only batches under way are lost; run again, only they are done.
    """
    missing = planned.missing(store)
    total = len(planned.once())
    progress = Progress(total, total - len(missing))

    def report(done: Done) -> None:
        progress.done += store.add(done.results)
        progress.failures += done.failures
        tell(progress, done)

    executor.run(_still_missing(batches(missing), planned, store), report, listener)
    return progress


def _still_missing(wanted: Sequence[Batch], planned: Plan, store: RunStore) -> Iterator[Batch]:
    """Batches without what another process has done meanwhile."""
    for batch in wanted:
        done = store.done([spec.key for spec in batch], planned.code)
        left = [spec for spec in batch if spec.key not in done]
        if left:
            yield left
