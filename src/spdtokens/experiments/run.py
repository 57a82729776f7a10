"""Do what is missing of a study, and show how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from spdtokens._tables import counted, table
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.datasets import Dataset
from spdtokens.errors import StudyError
from spdtokens.evaluation.answer import Evaluation, by_choice, evaluation_of, suited_metric
from spdtokens.evaluation.plan import Question, Source, batches, plan
from spdtokens.evaluation.runs import RunResult, RunSpec, code_digest
from spdtokens.experiments.config import Study, check_study
from spdtokens.experiments.executors import Batch, Done, Executor, Failure
from spdtokens.experiments.store import RunStore


@dataclass
class Progress:
    """What a study has come to; shown while it runs.

    Attributes
    ----------
    total, before : int
        Runs of the study, and those that were in the store when it began.
    done : int
        Runs stored since.
    elsewhere : int
        Runs that another process has stored meanwhile.
    failures : list of Failure
    scores : list of dict of str to float
        Test scores of runs done now, every metric by name.
    """

    total: int
    before: int
    done: int = 0
    elsewhere: int = 0
    failures: list[Failure] = field(default_factory=list)
    scores: list[Mapping[str, float]] = field(default_factory=list)


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

    def by_title(self) -> dict[str, list[RunSpec]]:
        """Every run once, by the name that tables show for its method."""
        found: dict[str, list[RunSpec]] = {}
        seen: set[str] = set()
        for question, specs in zip(self.study.questions, self.specs, strict=True):
            for title, mine in by_choice(question, self._dataset(question), specs).items():
                new = {spec.key: spec for spec in mine if spec.key not in seen}
                found.setdefault(title, []).extend(new.values())
                seen |= set(new)
        return found

    def results(self, store: RunStore) -> list[RunResult]:
        """What there is of the study's runs, every run once, under the specs of the study.

        A store knows a run by what its settings mean: it may have been made by a study that said
        the same in other words, or had the same recordings in another folder.
        """
        named = {spec.key: spec for spec in self.once()}
        return [replace(r, spec=named[r.spec.key]) for r in store.results(named, self.code)]

    def metric_of(self, number: int) -> str:
        """The metric of a question: the study's, or what suits the data."""
        dataset = self._dataset(self.study.questions[number])
        return self.study.metric or suited_metric(dataset, self.source, self.specs[number])

    def _dataset(self, question: Question) -> Dataset:
        return self.source.dataset(question.dataset, question.selection)

    def evaluations(self, store: RunStore) -> list[Evaluation]:
        """The answer to each question, as far as there are results."""
        results, metric = self.results(store), self.study.metric
        return [
            evaluation_of(question, self.source, specs, results, metric)
            for question, specs in zip(self.study.questions, self.specs, strict=True)
        ]


def plan_study(study: Study, source: Source | None = None, *, any_code: bool = False) -> Plan:
    """All runs of a study, all of it checked, each fold for leaks; nothing is trained yet.

    Parameters
    ----------
    study : Study
    source : Source, optional
    any_code : bool
        Whether results by other code count as done.
    """
    source = source or Source()
    check_study(study, source)
    specs = tuple(tuple(plan(question, source)) for question in study.questions)
    return Plan(study, source, specs, None if any_code else code_digest())


def run_study(
    planned: Plan,
    store: RunStore,
    executor: Executor,
    *,
    tell: Callable[[Progress], None] = lambda _progress: None,
    listener: Listener | None = None,
) -> Progress:
    """Do the runs that are missing and store each batch when it is done.

    Killed at any moment, only batches under way are lost; run again, only they are done.

    Parameters
    ----------
    planned : Plan
    store : RunStore
    executor : Executor
    tell : callable
        Told before the first batch and after every one.
    listener : callable, optional
        Told of parts of runs that are done, by executors that know.

    Raises
    ------
    StudyError
        If a worker has other code than this process, unless the plan takes results by any; its
        results are not stored.
    """
    missing = planned.missing(store)
    total = len(planned.once())
    progress = Progress(total, total - len(missing))
    tell(progress)

    def still_missing() -> Iterator[Batch]:
        for batch in batches(missing, planned.source):
            done = store.done([spec.key for spec in batch], planned.code)
            left = [spec for spec in batch if spec.key not in done]
            progress.elsewhere += len(batch) - len(left)
            if left:
                yield left

    def report(done: Done) -> None:
        for result in done.results:  # what the plan would not find again
            code = result.origin.get("code")
            if planned.code not in (None, code):
                revision = result.origin.get("git") or "no git revision"
                raise StudyError(
                    f"The worker on {done.worker} has other code of spdtokens ({code}, {revision}) "
                    f"than this process ({planned.code}). Its results were not stored; all others "
                    "are kept. Install the same spdtokens there and run the same command again, or "
                    "take results by any code with --any-code."
                )
        new = store.add(done.results)
        progress.done += new
        progress.elsewhere += len(done.results) - new
        progress.failures += done.failures
        progress.scores += [result.test for result in done.results]
        tell(progress)

    executor.run(still_missing(), report, listener)
    tell(progress)
    return progress


def status_table(
    total: Mapping[str, int], missing: Mapping[str, int], codes: Mapping[str, int], code: str | None
) -> Table:
    """Runs done of each method, by what tables call it, and how many runs are by other code."""
    others = 0 if code is None else sum(n for other, n in codes.items() if other != code)
    rows = [(name, n - missing.get(name, 0), n) for name, n in total.items()]
    all_of_them = ("all", sum(row[1] for row in rows), sum(row[2] for row in rows))
    note = (
        f"The store also has {counted(others, 'run')} by other code of spdtokens, not counted; "
        "--any-code counts them."
    )
    return table(
        ["method", ">done", ">of"], [*rows, None, all_of_them], "Runs done", note if others else ""
    )


class StudyBar:
    """Progress bar on standard error while a study runs; silent where that is not a terminal.

    Parameters
    ----------
    metric : str
        Metric whose mean over the runs done now is shown.
    console : Console, optional
        Used instead of standard error.
    """

    def __init__(self, metric: str, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._metric = metric
        self._stored = self._parts = 0.0  # runs that are stored, and parts of those under way
        self._bars = Bars(
            TextColumn("study"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f} runs"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=1e6,  # over all of it: batches come in lumps
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def tell(self, progress: Progress) -> None:
        """Move the bar to where the study is."""
        if not self._bars.tasks:  # runs that were there say nothing of the speed
            self._bars.add_task("", total=progress.total, completed=progress.before)
        found = np.array([scores[self._metric] for scores in progress.scores])
        found = found[np.isfinite(found)]
        mean = f"mean {self._metric} {found.mean():.3f}" if len(found) else ""
        failed = f"{len(progress.failures)} failed" if progress.failures else ""
        self._parts = 0.0
        self._stored = progress.before + progress.elsewhere + progress.done + len(progress.failures)
        self._bars.update(
            self._bars.tasks[0].id,
            completed=self._stored,
            total=progress.total,
            description=", ".join(filter(None, (mean, failed))),
        )

    def listen(self, part: float) -> None:
        """Move the bar by a part of a run that is under way."""
        self._parts += part
        # Failed runs are started again: parts may add up to more than there is.
        task = self._bars.tasks[0]
        self._bars.update(task.id, completed=min(self._stored + self._parts, task.total or 0.0))
