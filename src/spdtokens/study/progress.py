"""Progress of a study: runs, runs a minute, time left, mean score so far."""

from __future__ import annotations

import time
from typing import Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from spdtokens.study.run import Progress
from spdtokens.study.work import Done


class _RateColumn(ProgressColumn):
    """Runs a minute, and the time left at this rate: batches come in lumps, so over all of it."""

    def render(self, task: Task) -> Text:
        """Nothing before the first run is done."""
        fresh = task.completed - task.fields["before"]
        if not fresh or not task.elapsed or task.total is None:
            return Text("")
        rate = fresh / task.elapsed
        left = time.strftime("%H:%M:%S", time.gmtime((task.total - task.completed) / rate))
        return Text(f"{60 * rate:.1f} runs/min, {left} left")


class StudyBar:
    """A bar on standard error while a study runs; nothing where that is no terminal."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._scores: list[float] = []
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} runs"),
            TimeElapsedColumn(),
            _RateColumn(),
            TextColumn("{task.fields[score]}"),
            console=Console(stderr=True),
            disable=not Console(stderr=True).is_terminal,
        )

    def __enter__(self) -> Self:
        self._task = self._bars.add_task("study", total=None, before=0, score="")
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def tell(self, progress: Progress, done: Done) -> None:
        """Move the bar to where the study is."""
        found = [result.test[self._metric] for result in done.results]
        self._scores += [score for score in found if np.isfinite(score)]
        mean = f"mean {self._metric} {np.mean(self._scores):.3f}" if self._scores else ""
        failed = f", {len(progress.failures)} failed" if progress.failures else ""
        self._bars.update(
            self._task,
            total=progress.total,
            completed=progress.before + progress.done + len(progress.failures),
            before=progress.before,
            score=mean + failed,
        )
