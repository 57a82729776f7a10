"""Where batches of runs are done: in this process, in several, or on many machines.

Workers return results; only the client writes the store. A batch that is done twice, because its
worker died or two studies met, gives the same results, so nothing can be lost or doubled.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunSpec
from spdtokens.study.errors import StudyError
from spdtokens.study.work import Done, attempt, attempt_in_worker
from spdtokens.training.engine import Listener

Batch = list[RunSpec]
#: Batches that wait at each worker, so that none is ever idle.
AHEAD = 2


class Executor(Protocol):
    """Does batches."""

    def run(
        self, batches: Iterator[Batch], report: Callable[[Done], None], listener: Listener | None
    ) -> None:
        """Take batches as there is room for them, and report each when it is done."""


class InProcess:
    """The batched engine in this process: the fastest on one machine for token networks."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def run(
        self, batches: Iterator[Batch], report: Callable[[Done], None], listener: Listener | None
    ) -> None:
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
        if workers < 1:
            raise StudyError(f"There must be at least 1 worker, not {workers}.")
        self._workers = workers

    def run(
        self,
        batches: Iterator[Batch],
        report: Callable[[Done], None],
        listener: Listener | None,  # noqa: ARG002
    ) -> None:
        """Shared out as workers become free."""
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        pool = ProcessPoolExecutor(self._workers, mp_context=context)
        try:
            waiting: set[Future[Done]] = set()
            for batch in batches:
                waiting.add(pool.submit(attempt_in_worker, _sent(batch)))
                if len(waiting) >= AHEAD * self._workers:
                    waiting = _reported(waiting, report)
            while waiting:
                waiting = _reported(waiting, report)
        except BrokenProcessPool as error:
            raise StudyError(
                "A worker process died, perhaps for lack of memory. What was done is kept: run the "
                "same command again, with fewer workers."
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(pool)


class Cluster:
    """Workers of Dask, on this machine or many.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    """

    def __init__(self, address: str) -> None:
        self._distributed = _distributed()
        try:
            self._client = self._distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise StudyError(
                f"No Dask scheduler answers at {address} ({error}). Start one: dask scheduler; "
                f"then workers: dask worker {address} --nthreads 1."
            ) from error

    def run(
        self,
        batches: Iterator[Batch],
        report: Callable[[Done], None],
        listener: Listener | None,  # noqa: ARG002
    ) -> None:
        """Sent as there is room; those of a worker that dies are done by another."""
        client = self._client
        done = self._distributed.as_completed()
        left = True
        try:
            while left or done.count():
                # Workers may come and go: there is always room for two batches each.
                room = AHEAD * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
                while left and done.count() < room:
                    batch = next(batches, None)
                    if batch is None:
                        left = False
                    else:
                        done.add(client.submit(attempt_in_worker, _sent(batch), pure=False))
                if done.count():
                    report(_result(next(done)))
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone: nothing to close
                client.close(timeout=5)


def _result(future: Any) -> Done:
    try:
        done: Done = future.result()
        return done
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise StudyError(
                "A batch killed every worker it was given to, most likely for lack of memory. What "
                "was done is kept; give workers more memory and run the same command again."
            ) from error
        raise


def _reported(waiting: set[Future[Done]], report: Callable[[Done], None]) -> set[Future[Done]]:
    finished, still = wait(waiting, return_when=FIRST_COMPLETED)
    for future in finished:
        report(future.result())
    return still


def _end(pool: ProcessPoolExecutor) -> None:
    """Workers in the middle of a batch would keep the command waiting after Ctrl-C."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.terminate()


def _sent(batch: Batch) -> list[dict[str, Any]]:
    return [spec.values() for spec in batch]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise StudyError(
            "--cluster needs Dask, which is not installed: pip install 'spdtokens[cluster]'."
        ) from error
    return distributed
