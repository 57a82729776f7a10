"""Real processes, a real scheduler, real kills."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdtokens.errors import StudyError, UserError
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.runs import RunSpec
from spdtokens.experiments import executors
from spdtokens.experiments.executors import Cluster, Executor, Failure, Processes, attempt
from spdtokens.experiments.run import Progress, run_study
from spdtokens.experiments.store import RunStore
from tests.experiments.helpers import (
    LIMIT,
    RUNS,
    SPEC,
    SPELLED,
    SPELLED_RUNS,
    assert_by_hand,
    assert_undisturbed,
    environment,
    planned,
    rows_in,
    start,
    stored,
    wait_for,
    write_study,
)

psutil = pytest.importorskip("psutil")


def run_with(
    file: Path, executor: Executor, tell: Callable[[Progress], None] = lambda _: None
) -> Progress:
    with RunStore(file.with_suffix(".sqlite")) as store:
        return run_study(planned(file), store, executor, tell=tell)


def assert_done(file: Path, progress: Progress) -> None:
    assert (progress.done, progress.failures) == (SPELLED_RUNS, [])
    assert_by_hand(file, stored(file))


def started(file: Path) -> subprocess.Popen[str]:
    """``study run`` with two workers, as soon as a run is stored."""
    process = start(file, "--workers", "2")
    store = file.with_suffix(".sqlite")
    wait_for(lambda: rows_in(store) > 0 or process.poll() is not None, "a run")
    assert len(_alive(process.pid)) >= 3
    return process


# ------------------------------------------------------------------ processes


def test_spelled_out_estimators_in_two_processes(tmp_path: Path) -> None:
    """Workers build them from what the runs say."""
    file = write_study(tmp_path / "study", SPELLED)
    assert_done(file, run_with(file, Processes(2)))


def test_workers_load_the_data_with_its_options(tmp_path: Path) -> None:
    text = """
    datasets = [{name = "data", dataset_options = {label_from = "coin"}}]
    methods = ["mdm"]
    protocols = ["session-transfer"]
    """
    file = write_study(tmp_path / "study", text)
    for path in (tmp_path / "study" / "data").iterdir():
        with np.load(path) as opened:
            arrays = dict(opened)
        np.savez(path, **arrays, coin=np.array(["heads", "tails", "tails"] * 8))
    assert run_with(file, Processes(1)).failures == []
    results = stored(file)
    assert results
    for result in results:
        assert result.spec.dataset_options == {"label_from": "coin"}
        assert result.y.tolist() == [0, 1, 1] * 8


@pytest.mark.slow  # half a minute of starting processes
def test_a_worker_process_that_dies(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study")

    def kill(progress: Progress) -> None:
        if progress.done:
            os.kill(next(p.pid for p in active_children() if p.pid), signal.SIGKILL)

    with pytest.raises(StudyError, match="worker process died"):
        run_with(file, Processes(2), kill)
    there = rows_in(file.with_suffix(".sqlite"))
    assert 0 < there < RUNS
    assert active_children() == []
    again = run_with(file, Processes(2))
    assert (again.before, again.done) == (there, RUNS - there)
    assert active_children() == []
    assert_undisturbed(file)


def _alive(group: int) -> list[int]:
    """Processes of a group; those that have ended and wait to be noticed do not count."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            mine = os.getpgid(process.pid) == group
        except ProcessLookupError:
            continue
        if mine and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@pytest.mark.slow  # half a minute of starting processes
def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study")
    process = started(file)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = process.communicate(timeout=LIMIT)
    there = rows_in(file.with_suffix(".sqlite"))
    assert process.returncode == 130, err
    assert 0 < there < RUNS
    assert f"{there} runs stored, {RUNS - there} left" in err
    assert out == ""
    wait_for(lambda: _alive(process.pid) == [], "the end of the workers")


def test_killed_it_takes_its_workers_along(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study")
    process = started(file)
    process.kill()
    process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: _alive(process.pid) == [], "the end of the workers")


# ------------------------------------------------------------------ Dask


class Dask:
    """A scheduler and its workers, each a process on this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"
        )

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                stdout=log,
                stderr=log,
                env=environment(),
                cwd=self.folder,
            )

    def add_worker(self) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", str(LIMIT))
        self.workers.append(self._start("worker", self.address, *options))
        return self.workers[-1]

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextmanager
def connected(dask: Dask) -> Iterator[Cluster]:
    """A client, as soon as the scheduler answers."""
    with ExitStack() as stack:
        found: list[Cluster] = []

        def answers() -> bool:
            try:
                found.append(stack.enter_context(Cluster(dask.address)))
            except StudyError:
                return False
            return True

        wait_for(answers, "an answer of the scheduler")
        yield found[0]


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    pytest.importorskip("distributed")
    dask = Dask(tmp_path_factory.mktemp("dask"))
    try:
        dask.add_worker()
        dask.add_worker()
        yield dask
    finally:
        dask.end()


def _tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def test_ctrl_c_cancels_what_is_on_the_cluster(tmp_path: Path, dask: Dask) -> None:
    file = write_study(tmp_path / "study")

    def interrupt(progress: Progress) -> None:
        if progress.done:
            signal.raise_signal(signal.SIGINT)

    with connected(dask) as cluster:
        wait_for(lambda: cluster.n_workers == 2, "two workers")
        with pytest.raises(KeyboardInterrupt):
            run_with(file, cluster, interrupt)
        scheduler = cluster._client
        wait_for(lambda: scheduler.run_on_scheduler(_tasks) == 0, "the end of all tasks")
    assert 0 < rows_in(file.with_suffix(".sqlite")) < RUNS


def test_spelled_out_estimators_on_the_cluster(tmp_path: Path, dask: Dask) -> None:
    file = write_study(tmp_path / "study", SPELLED)
    with connected(dask) as cluster:
        wait_for(lambda: cluster.n_workers == 2, "two workers")
        assert_done(file, run_with(file, cluster))


def test_one_worker_killed_and_one_more_joining(tmp_path: Path, dask: Dask) -> None:
    file = write_study(tmp_path / "study")
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done >= 6 and not killed:
            dask.workers[0].kill()
            dask.add_worker()
            killed.append(progress.done)

    with connected(dask) as cluster:
        wait_for(lambda: cluster.n_workers == 2, "two workers")
        progress = run_with(file, cluster, kill)
    assert progress.done == RUNS
    assert killed
    assert killed[0] < RUNS
    assert dask.workers[0].wait(LIMIT) == -signal.SIGKILL
    assert_undisturbed(file)


def test_a_scheduler_that_goes_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    file = write_study(tmp_path / "study")
    dask = Dask(tmp_path)
    try:
        with connected(dask) as first:
            assert first.n_workers == 0
        monkeypatch.setattr(executors, "PATIENCE", 2.0)
        with Cluster(dask.address) as cluster:
            end = threading.Timer(1.0, dask.scheduler.kill)
            end.start()
            with pytest.raises(StudyError, match=dask.address):
                run_with(file, cluster)
    finally:
        dask.end()


def test_a_wrong_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "PATIENCE", 0.3)
    for wrong in ("127.0.0.1", "http://127.0.0.1:8786", "tcp://", "tcp://host:port", "a b:1"):
        with pytest.raises(StudyError, match=re.escape(repr(wrong))):
            Cluster(wrong)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        message = f"No Dask scheduler answers at tcp://{address} .*dask worker tcp://{address} "
        with pytest.raises(StudyError, match=message):
            Cluster(address)


def test_without_dask_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(StudyError, match=r"pip install 'spdtokens\[cluster\]'"):
        Cluster("tcp://127.0.0.1:8786")


# ------------------------------------------------------------------ a batch of which a run fails

TOKENS = """
datasets = ["data"]
protocols = ["session-transfer"]
seeds = 4
methods = [
    {name = "token-log-euclidean", epochs = 2, changes = {d_model = 16, n_layers = 1, n_heads = 2}},
]
"""


def test_a_failure_says_which_run() -> None:
    assert str(Failure(SPEC, "it rained")) == (
        "sim-mi, token-log-euclidean, subject 1, fold block 1, seed 0: it rained"
    )


@pytest.mark.parametrize("error", [UserError("no good"), KeyError("bad")])
def test_one_run_that_fails_does_not_stop_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    plan = planned(write_study(tmp_path / "study", TOKENS))
    batch = plan.once()
    whole = {result.spec.key: result for result in execute(batch, plan.source)}
    calls: list[int] = []

    def failing(specs: Sequence[RunSpec], *others: Any) -> Any:
        calls.append(len(specs))
        if batch[5] in specs:
            raise error
        return execute(specs, *others)

    monkeypatch.setattr(executors, "execute", failing)
    done = attempt(batch, plan.source)
    (failure,) = done.failures
    assert failure.spec == batch[5]
    reason = (
        "no good" if isinstance(error, UserError) else "KeyError: 'bad' (test_executors.py, line "
    )
    assert failure.reason.startswith(reason)
    assert [r.spec for r in done.results] == [spec for spec in batch if spec != batch[5]]
    for result in done.results:  # the same as in the batch that failed, whatever they were with
        np.testing.assert_array_equal(
            result.probabilities, whole[result.spec.key].probabilities, strict=True
        )
    assert calls == [8, 4, 4, 2, 1, 1, 2]  # halves, not one by one


def test_ctrl_c_is_not_a_failure_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(write_study(tmp_path / "study", TOKENS))

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(executors, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attempt(plan.once(), plan.source)
