"""Executors: run batches in this process, in several processes, or on many machines.

Workers return results; only the client writes the store. A batch that is run twice, because its
worker died or two studies overlap, gives the same results, so nothing is lost or duplicated.
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
#: Batches per worker: the current one and the next.
AHEAD = 2
#: Seconds to wait for the scheduler.
PATIENCE = 10.0


@dataclass(frozen=True)
class Failure:
    """A run that failed, and the reason."""

    spec: RunSpec
    reason: str

    def __str__(self) -> str:
        spec = self.spec
        seed = "" if spec.seed is None else f", seed {spec.seed}"
        where = f"{Path(spec.dataset).name}, {spec.method}, subject {spec.subject}"
        return f"{where}, fold {spec.fold}{seed}: {self.reason}"


@dataclass(frozen=True)
class Done:
    """Outcome of a batch.

    Parameters
    ----------
    results : list of RunResult
        Results of the runs that succeeded.
    failures : list of Failure
        Runs that failed.
    worker : str, default=''
        Machine and process that ran the batch; empty for this process.
    """

    results: list[RunResult]
    failures: list[Failure]
    worker: str = ""


def attempt(batch: Sequence[RunSpec], source: Source, listener: Listener | None = None) -> Done:
    """Run a batch; if it fails, each half of it, until the failing run is alone.

    A failing run (a defect of its recording or of a method) does not stop the others.
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
    # Unexpected: the location helps to find the reason.
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


#: Opened once per process, for all batches sent to it.
_source: Source | None = None
# Dask sends a worker as many batches at once as it has threads. The number of threads for linear
# algebra is set per process, so the batches take turns.
_turn = threading.Lock()


def attempt_in_worker(batch: list[dict[str, object]]) -> Done:
    """Run a batch sent to this process as plain values, with one thread."""
    import torch

    global _source
    with _turn:
        if _source is None:
            load_plugins()
            _source = Source()
            torch.set_num_threads(1)
        done = attempt([RunSpec.of(values) for values in batch], _source)
    return replace(done, worker=f"{platform.node()}, process {os.getpid()}")


#: Called with the outcome of a batch.
Report = Callable[[Done], None]


class Executor(Protocol):
    """Runs batches."""

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:
        """Run batches as workers become free, and report each when it is done."""


class InProcess:
    """Run batches in this process, token networks trained together.

    The fastest executor on one machine for token networks.

    Parameters
    ----------
    source : Source
        Provides the data sets.

    See Also
    --------
    Processes : Several processes on this machine.
    Cluster : Many machines.

    Examples
    --------
    >>> from spdtokens.evaluation.plan import Source
    >>> from spdtokens.experiments.executors import InProcess
    >>> executor = InProcess(Source())  # for spdtokens.experiments.run.run_study
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:
        """Run batches one after another.

        Parameters
        ----------
        batches : iterator of list of RunSpec
            The batches.
        report : callable
            Called with the :class:`Done` of each batch.
        listener : callable or None
            Called with the fraction of a run that has been trained.
        """
        for batch in batches:
            report(attempt(batch, self._source, listener))


class Processes:
    """Run batches in several processes of one thread each.

    The fastest executor on one machine for methods whose runs are trained one by one.

    Parameters
    ----------
    workers : int
        Number of processes, at least 1.

    See Also
    --------
    InProcess : This process only.
    Cluster : Many machines.

    Examples
    --------
    >>> from spdtokens.experiments.executors import Processes
    >>> executor = Processes(4)  # for spdtokens.experiments.run.run_study
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:  # noqa: ARG002
        """Run batches as workers become free.

        Parameters
        ----------
        batches : iterator of list of RunSpec
            The batches.
        report : callable
            Called with the :class:`Done` of each batch.
        listener : callable or None
            Not used.
        """
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive fork
        pool = ProcessPoolExecutor(self._workers, mp_context=context, initializer=_begin_worker)

        def submit(*call: Any) -> Future[Done]:
            with _interrupts_held():  # inherited by a worker that starts here
                return pool.submit(*call)

        try:
            for future in _finished(submit, lambda: self._workers, batches):
                report(future.result())
        except BrokenProcessPool as error:
            raise StudyError(
                "A worker process died, perhaps for lack of memory. Finished runs are kept: run "
                "the same command again with fewer workers."
            ) from error
        except BaseException:
            # Otherwise workers in the middle of a batch would delay the end after Ctrl-C.
            for process in list(pool._processes.values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


class Cluster:
    """Run batches on the workers of a Dask scheduler, on this machine or many.

    A context manager: leaving the ``with`` block closes the connection.

    Parameters
    ----------
    address : str
        Address of the scheduler: ``'tcp://host:8786'``.

    Raises
    ------
    StudyError
        If Dask is not installed, the address is malformed, or no scheduler answers there.

    See Also
    --------
    InProcess : This process only.
    Processes : Several processes on this machine.

    Examples
    --------
    >>> from spdtokens.experiments.executors import Cluster
    >>> with Cluster("tcp://host:8786") as executor:  # doctest: +SKIP
    ...     run_study(plan, store, executor)
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise StudyError(
                f"--cluster needs Dask, which is not installed: {how_to_install('cluster')}."
            ) from error
        self._distributed: Any = distributed
        # Dask notices a malformed address too, but leaves a client that hangs at exit.
        if not re.fullmatch(r"(tcp://|tls://)?([^:/\s]+|\[[0-9a-fA-F:.]+\]):\d+", address):
            raise StudyError(
                f"A Dask scheduler's address must look like tcp://host:8786, got {address!r}. "
                "`dask scheduler` prints it when it starts."
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
        """Close the connection; the cluster drops what it has not run for this client."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=5)

    @property
    def n_workers(self) -> int:
        """Number of workers that have joined so far."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def run(self, batches: Iterator[Batch], report: Report, listener: Listener | None) -> None:  # noqa: ARG002
        """Run batches as workers become free; another worker takes over if one dies.

        Parameters
        ----------
        batches : iterator of list of RunSpec
            The batches.
        report : callable
            Called with the :class:`Done` of each batch.
        listener : callable or None
            Not used.
        """
        pool = self._client.get_executor(pure=False)
        try:
            # Workers may come and go.
            for future in _finished(pool.submit, lambda: max(1, self.n_workers), batches):
                report(self._result(future))
        except (OSError, CancelledError) as error:
            raise StudyError(
                f"Lost the Dask scheduler at {self.address}. Finished runs are kept: start the "
                "scheduler and run the same command again."
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
            # Failures of runs are returned as results: this is a failure of the worker.
            raise StudyError(
                f"A worker of {self.address} failed: {type(error).__name__}: {error}. Workers "
                "need the same versions of Python and spdtokens as this process, and memory. "
                "Finished runs are kept: run the same command again."
            ) from error


def _finished(
    submit: Callable[..., Future[Done]], n_workers: Callable[[], int], batches: Iterator[Batch]
) -> Iterator[Future[Done]]:
    """Send batches to workers, with one waiting at each; yield the futures that have ended."""
    waiting: set[Future[Done]] = set()
    while True:
        for batch in islice(batches, max(0, AHEAD * n_workers() - len(waiting))):
            waiting.add(submit(attempt_in_worker, [spec.values() for spec in batch]))
        if not waiting:
            return
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        # Successful ones first: after a broken one nothing more is read.
        yield from sorted(ended, key=lambda f: f.cancelled() or f.exception() is not None)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C until the block ends; processes started in it never receive it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent process, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
