"""Progress of a study: runs, runs a minute, time left, mean score so far."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from spdtokens.experiments.run import Progress


class _RateColumn(ProgressColumn):
    """Runs a minute, and the time left at this rate: batches come in lumps, so over all of it."""

    def render(self, task: Task) -> Text:
        """Nothing before the first run is done."""
        fresh = task.completed - task.fields["before"]
        if fresh <= 0 or not task.elapsed or task.total is None:
            return Text("")
        rate = fresh / task.elapsed
        left = timedelta(seconds=round(max(0.0, task.total - task.completed) / rate))
        return Text(f"{60 * rate:.1f} runs/min, {left} left")


class StudyBar:
    """A bar on standard error while a study runs; nothing where that is no terminal.

    Parameters
    ----------
    metric : str
        Whose mean over the runs done now is shown.
    console : Console, optional
        Instead of standard error.
    """

    def __init__(self, metric: str, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._metric = metric
        self._sure = self._parts = 0.0  # runs that are stored, and parts of those under way
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f} runs"),
            TimeElapsedColumn(),
            _RateColumn(),
            TextColumn("{task.fields[score]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("study", total=0, visible=False, before=0, score="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def tell(self, progress: Progress) -> None:
        """Move the bar to where the study is."""
        found = np.array([scores[self._metric] for scores in progress.scores])
        found = found[np.isfinite(found)]
        mean = f"mean {self._metric} {found.mean():.3f}" if len(found) else ""
        failed = f"{len(progress.failures)} failed" if progress.failures else ""
        others = progress.before + progress.elsewhere
        self._sure, self._parts = others + progress.done + len(progress.failures), 0.0
        self._bars.update(
            self._task,
            total=progress.total,
            completed=self._sure,
            visible=True,
            before=others,
            score=", ".join(filter(None, (mean, failed))),
        )

    def listen(self, part: float) -> None:
        """Move the bar by a part of a run that is under way."""
        self._parts += part
        # What failed is begun again, so that parts may add up to more than there is.
        total = self._bars.tasks[0].total or 0.0
        self._bars.update(self._task, completed=min(self._sure + self._parts, total))
