"""Where batches of runs are done: in this process, in several, or on many machines.

Workers return results; only the client writes the store. A batch that is done twice, because its
worker died or two studies met, gives the same results, so nothing can be lost or doubled.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import platform
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self

from spdtokens._extras import how_to_install
from spdtokens._plugins import load_plugins
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.errors import StudyError, UserError
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult, RunSpec

Batch = list[RunSpec]
#: Batches at each worker: the one it does, and the next.
AHEAD = 2
#: Seconds to wait for the scheduler.
PATIENCE = 10.0


@dataclass(frozen=True)
class Failure:
    """A run that could not be done, and why."""

    spec: RunSpec
    reason: str

    def __str__(self) -> str:
        spec = self.spec
        seed = "" if spec.seed is None else f", seed {spec.seed}"
        where = f"{Path(spec.dataset).name}, {spec.method}, subject {spec.subject}"
        return f"{where}, fold {spec.fold}{seed}: {self.reason}"


@dataclass(frozen=True)
class Done:
    """What became of a batch.

    Attributes
    ----------
    results : list of RunResult
    failures : list of Failure
    worker : str
        Machine and process that did it; empty for the process that asked.
    """

    results: list[RunResult]
    failures: list[Failure]
    worker: str = ""


def attempt(batch: Sequence[RunSpec], source: Source, listener: Listener | None = None) -> Done:
    """Do a batch; where it fails, each half of it, until the run that cannot be done is alone.

    Whatever a run fails of, a flaw of its recording or of a method, does not stop the others.
    """
    try:
        return Done(execute(batch, source, listener), [])
    except Exception as error:
        if len(batch) == 1:
            return Done([], [Failure(batch[0], _reason(error))])
    half = len(batch) // 2
    one, other = (attempt(part, source, listener) for part in (batch[:half], batch[half:]))
    return Done(one.results + other.results, one.failures + other.failures)


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    # Not foreseen: the place helps to find out why.
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


#: Opened in this process once, for all batches it is sent.
_source: Source | None = None
# Dask gives a worker as many batches at once as it has threads; how many threads add up numbers is
# set for a process as a whole, so they take turns.
_turn = threading.Lock()


def attempt_in_worker(batch: list[dict[str, object]]) -> Done:
    """A batch sent to another process as plain values; that process works with one thread."""
    import torch

    global _source
    with _turn:
        if _source is None:
            load_plugins()
            _source = Source()
            torch.set_num_threads(1)
        done = attempt([RunSpec.of(values) for values in batch], _source)
    return replace(done, worker=f"{platform.node()}, process {os.getpid()}")


#: Told what became of a batch.
Report = Callable[[Done], None]


class Executor(Protocol):
    """Does batches."""

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:
        """Take batches as there is room for them, and report each when it is done."""


class InProcess:
    """The batched engine in this process: the fastest on one machine for token networks."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:
        """One after another."""
        for batch in batches:
            report(attempt(batch, self._source, listener))


class Processes:
    """Several processes of one thread each: the fastest for methods that train one by one.

    Parameters
    ----------
    workers : int
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:  # noqa: ARG002
        """Shared out as workers become free."""
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        pool = ProcessPoolExecutor(self._workers, mp_context=context, initializer=_begin_worker)

        def submit(*call: Any) -> Future[Done]:
            with _interrupts_held():  # a worker that begins here has them blocked for good
                return pool.submit(*call)

        try:
            for future in _finished(submit, lambda: self._workers, batches):
                report(future.result())
        except BrokenProcessPool as error:
            raise StudyError(
                "A worker process died, perhaps for lack of memory. What was done is kept: run the "
                "same command again, with fewer workers."
            ) from error
        except BaseException:
            # Else workers in the middle of a batch would keep the command waiting after Ctrl-C.
            for process in list(pool._processes.values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


class Cluster:
    """Workers of Dask, on this machine or many; closed at the end of a ``with`` block.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.

    Raises
    ------
    StudyError
        If no scheduler answers there.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise StudyError(
                f"--cluster needs Dask, which is not installed: {how_to_install('cluster')}."
            ) from error
        self._distributed: Any = distributed
        # Dask would notice what is no address too, but leave half a client that hangs at exit.
        if not re.fullmatch(r"(tcp://|tls://)?([^:/\s]+|\[[0-9a-fA-F:.]+\]):\d+", address):
            raise StudyError(
                f"{address!r} is not the address of a Dask scheduler, which looks like "
                "tcp://host:8786; `dask scheduler` prints it when it starts."
            )
        self.address = address if "://" in address else f"tcp://{address}"
        try:
            self._client: Any = self._distributed.Client(
                self.address, timeout=PATIENCE, set_as_default=False
            )
        except (OSError, ValueError, TimeoutError) as error:
            raise StudyError(
                f"No Dask scheduler answers at {self.address} ({error}). Start one: dask "
                f"scheduler; then workers: dask worker {self.address} --nthreads 1."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, which forgets what it was still to do for this client."""
        with contextlib.suppress(Exception):  # the scheduler may be gone: nothing to close
            self._client.close(timeout=5)

    @property
    def n_workers(self) -> int:
        """Workers that have joined by now."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:  # noqa: ARG002
        """Sent as there is room; those of a worker that dies are done by another."""
        pool = self._client.get_executor(pure=False)
        try:
            # Workers may come and go.
            for future in _finished(pool.submit, lambda: max(1, self.n_workers), batches):
                report(self._result(future))
        except (OSError, CancelledError) as error:
            raise StudyError(
                f"The Dask scheduler at {self.address} has gone. What was done is kept; when there "
                "is a scheduler again, the same command goes on."
            ) from error
        finally:
            with contextlib.suppress(Exception):
                pool.shutdown(wait=False)  # cancels what is not done

    def _result(self, future: Future[Done]) -> Done:
        try:
            return future.result()
        except (OSError, CancelledError):
            raise
        except Exception as error:
            # Failures of runs come back as results: this is one of a worker.
            raise StudyError(
                f"A worker of {self.address} cannot do runs: {type(error).__name__}: {error}. "
                "Workers need the same versions of Python and spdtokens as this process, and "
                "memory enough. What was done is kept: run the same command again."
            ) from error


def _finished(
    submit: Callable[..., Future[Done]], n_workers: Callable[[], int], batches: Iterator[Batch]
) -> Iterator[Future[Done]]:
    """Send batches to workers, some ahead so that none is ever idle; yield those that ended."""
    waiting: set[Future[Done]] = set()
    while True:
        for batch in islice(batches, max(0, AHEAD * n_workers() - len(waiting))):
            waiting.add(submit(attempt_in_worker, [spec.values() for spec in batch]))
        if not waiting:
            return
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        # Those that succeeded first: a broken one is the last that is looked at.
        yield from sorted(ended, key=lambda f: f.cancelled() or f.exception() is not None)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the block is left; processes that begin in it never see one."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Leave Ctrl-C to the process that asked, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
