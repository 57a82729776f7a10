"""A progress bar with rate and time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from spdtokens.classifiers.nn.engine import Listener


class RateColumn(ProgressColumn):
    """Steps a second: epochs of runs, or runs."""

    def render(self, task: Task) -> Text:
        """How fast it goes."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.0f}/s", style="progress.data.speed")


class TrainingBars:
    """Progress bars on standard error, one a training, while the context lasts."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            RateColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.tasks:
            self._progress.stop()

    def add(self, text: str, total: int) -> Listener:
        """Begin a bar over ``total`` run-epochs; returns what to call with each advance."""
        self._progress.start()  # with the first bar: nothing is shown before
        task = self._progress.add_task(text, total=total)
        return lambda done: self._progress.advance(task, done)


@contextmanager
def training_bar(text: str, total: int, *, enabled: bool) -> Iterator[Listener | None]:
    """A single bar, or none."""
    if not enabled:
        yield None
        return
    with TrainingBars() as bars:
        yield bars.add(text, total)
