"""Run what is missing of a study, and show its progress."""

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
    """Progress of a study that runs.

    Parameters
    ----------
    total : int
        Number of runs of the study.
    before : int
        Runs that were in the store when it started.
    done : int, default=0
        Runs stored since.
    elsewhere : int, default=0
        Runs that another process has stored meanwhile.
    failures : list of Failure
        Runs that failed.
    scores : list of dict of str to float
        Test scores of the runs done now, by metric.
    """

    total: int
    before: int
    done: int = 0
    elsewhere: int = 0
    failures: list[Failure] = field(default_factory=list)
    scores: list[Mapping[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """The runs of a study.

    Parameters
    ----------
    study : Study
        The study.
    source : Source
        The data sets.
    specs : tuple of tuple of RunSpec
        Runs of each question of the study.
    code : str or None
        Only results computed by this code count as done; None accepts any.

    See Also
    --------
    plan_study : Make the plan of a study.
    run_study : Run what is missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> from spdtokens.evaluation.plan import Choice, Question, Source
    >>> from spdtokens.experiments.config import Study
    >>> from spdtokens.experiments.run import plan_study
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> question = Question(data.name, (Choice("ts-lr"), Choice("mdm")), "k-fold")
    >>> study = Study("mine", Path("mine.toml"), (question,))
    >>> plan = plan_study(study, Source({data.name: data}))
    >>> {title: len(specs) for title, specs in plan.by_title().items()}
    {'ts-lr': 5, 'mdm': 5}
    """

    study: Study
    source: Source
    specs: tuple[tuple[RunSpec, ...], ...]
    code: str | None

    def once(self) -> list[RunSpec]:
        """List every run once, in the order of the study.

        Returns
        -------
        list of RunSpec
            Runs that two questions share are listed once.
        """
        return list({spec.key: spec for specs in self.specs for spec in specs}.values())

    def missing(self, store: RunStore) -> list[RunSpec]:
        """List the runs that have no result yet.

        Parameters
        ----------
        store : RunStore
            The store of results.

        Returns
        -------
        list of RunSpec
            The missing runs, in the order of the study.
        """
        runs = self.once()
        done = store.done([spec.key for spec in runs], self.code)
        return [spec for spec in runs if spec.key not in done]

    def by_title(self) -> dict[str, list[RunSpec]]:
        """Group the runs by the title of their method in tables.

        Returns
        -------
        dict of str to list of RunSpec
            Every run once.
        """
        found: dict[str, list[RunSpec]] = {}
        seen: set[str] = set()
        for question, specs in zip(self.study.questions, self.specs, strict=True):
            for title, mine in by_choice(question, self._dataset(question), specs).items():
                new = {spec.key: spec for spec in mine if spec.key not in seen}
                found.setdefault(title, []).extend(new.values())
                seen |= set(new)
        return found

    def results(self, store: RunStore) -> list[RunResult]:
        """Return the results of the study's runs that are in the store.

        A run is identified by the meaning of its settings: another study may have stored it, with
        the same settings spelled differently or the same recordings in another folder. Results
        are returned with the specs of this study.

        Parameters
        ----------
        store : RunStore
            The store of results.

        Returns
        -------
        list of RunResult
            One result per run, in the order of the study.
        """
        named = {spec.key: spec for spec in self.once()}
        return [replace(r, spec=named[r.spec.key]) for r in store.results(named, self.code)]

    def metric_of(self, number: int) -> str:
        """Return the metric of a question: the study's, or the one that suits the data.

        Parameters
        ----------
        number : int
            Index of the question.

        Returns
        -------
        str
            Name of the metric.
        """
        dataset = self._dataset(self.study.questions[number])
        return self.study.metric or suited_metric(dataset, self.source, self.specs[number])

    def _dataset(self, question: Question) -> Dataset:
        return self.source.dataset_of(question)

    def evaluations(self, store: RunStore) -> list[Evaluation]:
        """Summarise the results of each question, as far as there are any.

        Parameters
        ----------
        store : RunStore
            The store of results.

        Returns
        -------
        list of Evaluation
            One per question of the study.
        """
        results, metric = self.results(store), self.study.metric
        return [
            evaluation_of(question, self.source, specs, results, metric)
            for question, specs in zip(self.study.questions, self.specs, strict=True)
        ]


def plan_study(study: Study, source: Source | None = None, *, any_code: bool = False) -> Plan:
    """Check a study, each fold for leakage too, and list its runs. Nothing is trained.

    Parameters
    ----------
    study : Study
        The study.
    source : Source, default=None
        Provides the data sets and keeps those it opens. None creates one.
    any_code : bool, default=False
        Whether results computed by other code of spdtokens count as done.

    Returns
    -------
    Plan
        The runs of the study.

    Raises
    ------
    StudyError
        If the study does not fit its data sets.
    UserError
        If training and test trials of a fold overlap, or an alignment is not allowed by the
        target access.

    See Also
    --------
    spdtokens.experiments.config.read_study : Read a study from a TOML file.
    run_study : Run what is missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> from spdtokens.evaluation.plan import Choice, Question, Source
    >>> from spdtokens.experiments.config import Study
    >>> from spdtokens.experiments.run import plan_study
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> question = Question(data.name, (Choice("mdm"),), "k-fold", {"folds": 2})
    >>> study = Study("mine", Path("mine.toml"), (question,))
    >>> len(plan_study(study, Source({data.name: data})).once())
    2
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
    tell: Callable[[Progress], None] | None = None,
    listener: Listener | None = None,
) -> Progress:
    """Run what is missing of a study, and store each batch when it is done.

    If the process is killed at any moment, only the batches under way are lost, and only they are
    run by the next call.

    Parameters
    ----------
    planned : Plan
        The runs of the study.
    store : RunStore
        The store of results.
    executor : Executor
        Runs the batches: :class:`~spdtokens.experiments.executors.InProcess`,
        :class:`~spdtokens.experiments.executors.Processes` or
        :class:`~spdtokens.experiments.executors.Cluster`.
    tell : callable, default=None
        Called with the :class:`Progress` before the first batch and after each one.
    listener : callable, default=None
        Called with the fraction of a run that has been trained, by executors that know it.

    Returns
    -------
    Progress
        How many runs were there, done and failed.

    Raises
    ------
    StudyError
        If a worker has other code than this process and the plan does not accept any code. The
        results of that worker are not stored.

    See Also
    --------
    plan_study : List the runs of a study.
    spdtokens.reporting.report.make_report : Report the results.

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
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> question = Question(data.name, (Choice("mdm"),), "k-fold")
    >>> study = Study("mine", Path("mine.toml"), (question,))
    >>> plan = plan_study(study, Source({data.name: data}))
    >>> with TemporaryDirectory() as folder, RunStore(Path(folder, "runs.sqlite")) as store:
    ...     first = run_study(plan, store, InProcess(plan.source))
    ...     again = run_study(plan, store, InProcess(plan.source))
    >>> first.done, again.before, again.done
    (5, 5, 0)
    """
    missing = planned.missing(store)
    total = len(planned.once())
    progress = Progress(total, total - len(missing))
    tell = tell or (lambda _progress: None)
    tell(progress)

    def still_missing() -> Iterator[Batch]:
        for batch in batches(missing, planned.source):
            done = store.done([spec.key for spec in batch], planned.code)
            left = [spec for spec in batch if spec.key not in done]
            progress.elsewhere += len(batch) - len(left)
            if left:
                yield left

    def report(done: Done) -> None:
        for result in done.results:
            code = result.origin.get("code")
            if planned.code not in (None, code):
                revision = result.origin.get("git") or "no git revision"
                raise StudyError(
                    f"The worker on {done.worker} has other code of spdtokens ({code}, {revision}) "
                    f"than this process ({planned.code}). Its results were not stored; all other "
                    "results are kept. Install the same spdtokens there and run the command again, "
                    "or accept results of any code with --any-code."
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
    """Table of the runs done per method; the caption counts runs computed by other code."""
    others = 0 if code is None else sum(n for other, n in codes.items() if other != code)
    rows = [(name, n - missing.get(name, 0), n) for name, n in total.items()]
    all_of_them = ("all", sum(row[1] for row in rows), sum(row[2] for row in rows))
    note = (
        f"The store also has {counted(others, 'run')} computed by other code of spdtokens, not "
        "counted here; --any-code counts them."
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
