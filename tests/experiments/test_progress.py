from __future__ import annotations

import io

from rich.console import Console

from spdtokens.experiments.progress import StudyBar
from spdtokens.experiments.run import Progress
from spdtokens.experiments.work import Failure
from tests.experiments.made import SPEC


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)


def shown(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def test_what_was_there_is_shown_before_the_first_run_is_done() -> None:
    where = console(terminal=True)
    with StudyBar("accuracy", where) as bar:
        bar.tell(Progress(total=40, before=12))
        bar._bars.refresh()
        assert "12/40 runs" in shown(where)
        assert "runs/min" not in shown(where)


def test_rate_time_left_score_and_failures() -> None:
    where = console(terminal=True)
    progress = Progress(total=40, before=10)
    with StudyBar("accuracy", where) as bar:
        bar.tell(progress)
        task = bar._bars.tasks[0]
        assert task.start_time is not None
        task.start_time -= 120  # two minutes ago
        progress.done, progress.elsewhere = 9, 5
        progress.failures.append(Failure(SPEC, "no"))
        progress.scores += [{"accuracy": 0.5}, {"accuracy": 0.75}, {"accuracy": float("nan")}]
        bar.tell(progress)
        bar._bars.refresh()
    last = shown(where).split("\r")[-1]
    # 10 runs in 2 minutes, 15 left; what another process did says nothing of the rate.
    assert "25/40 runs" in last
    assert "5.0 runs/min, 0:03:00 left" in last
    assert "mean accuracy 0.625, 1 failed" in last


def test_parts_of_runs_move_it_but_not_beyond_the_end() -> None:
    with StudyBar("accuracy", console(terminal=True)) as bar:
        progress = Progress(total=4, before=1)
        bar.tell(progress)
        task = bar._bars.tasks[0]
        bar.listen(0.5)
        bar.listen(0.25)
        assert task.completed == 1.75
        bar.listen(7.0)
        assert task.completed == 4
        progress.done = 1
        bar.tell(progress)
        assert task.completed == 2  # parts are in the runs now


def test_days_left_are_days() -> None:
    where = console(terminal=True)
    progress = Progress(total=100_001, before=0)
    with StudyBar("accuracy", where) as bar:
        bar.tell(progress)
        task = bar._bars.tasks[0]
        assert task.start_time is not None
        task.start_time -= 60
        progress.done = 1
        bar.tell(progress)
        bar._bars.refresh()
    assert "69 days, " in shown(where)


def test_nothing_where_there_is_no_terminal() -> None:
    where = console(terminal=False)
    with StudyBar("accuracy", where) as bar:
        bar.tell(Progress(total=40, before=12))
        bar.listen(0.5)
    assert shown(where) == ""
