"""Run a kernel over parts of a batch, several at a time.

LAPACK decomposes a batch of small matrices one after another, on one core, and long batches fall
out of the cache between two elementwise steps. Cutting the batch into parts that fit the cache,
one thread per part, mends both.

Every part is computed by one thread, and the parts are the same for any number of threads: so is
every bit of the result. The calling thread works too and never waits for a helper that has not
begun: where other programs use the cores, it does all the work itself and loses little.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spdtokens.runtime.threads import one_thread, usable_threads

#: Entries of a part: 2 MB of float64 in each temporary array.
PART_ENTRIES = 1 << 18
#: Parts into which a batch that is just worth sharing is cut, and a larger one at most for the sake
#: of sharing: several per thread, as other programs may keep a thread waiting.
FEWEST, MOST = 4, 16

_state = threading.local()


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="spdtokens")


def _idle_cores() -> int:
    """Cores on which nothing runs at this moment, where the system tells; else all but ours."""
    cores = os.cpu_count() or 1
    running = 1
    with suppress(OSError, ValueError, IndexError):  # not Linux
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    return cores - max(running, 1)


@one_thread()
def share_out(work: Callable[[Any], None], tasks: Sequence[Any], threads: int = 0) -> None:
    """Call ``work(task)`` for every task, each on one thread, several at a time.

    The first exception ends the others after their current task and is raised here.

    Parameters
    ----------
    work : callable
        BLAS and torch inside it do not open threads of their own.
    tasks : sequence
    threads : int
        With 1 the tasks are done one after another. By default
        :func:`~spdtokens.runtime.threads.usable_threads`, but no more than there are idle cores.
    """
    todo = iter(tasks)
    turn = threading.Lock()
    errors: list[BaseException] = []
    inference = torch.is_inference_mode_enabled()

    @one_thread()
    def loop() -> None:
        outer, _state.inside = getattr(_state, "inside", False), True
        try:
            # A thread starts with gradients on, and outside the caller's inference mode.
            with torch.inference_mode(inference), torch.no_grad():
                while not errors:
                    with turn:
                        task = next(todo, None)
                    if task is None:
                        return
                    work(task)
        except BaseException as error:  # told below, by the thread that called
            errors.append(error)
        finally:
            _state.inside = outer

    helpers: list[Future[None]] = []
    if not getattr(_state, "inside", False):
        most = min(threads or usable_threads(), len(tasks)) - 1
        if most > 0 and not threads:
            most = min(most, _idle_cores())
        helpers = [_helpers().submit(loop) for _ in range(most)]
    loop()
    try:
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    except BaseException as error:  # Ctrl-C
        errors.append(error)
    if errors:
        raise errors[0]


@one_thread()
def in_parts(
    kernel: Callable[..., tuple[Tensor, ...]], *inputs: Tensor, shared_from: int
) -> tuple[Tensor, ...]:
    """``kernel(*inputs)``, computed part by part along the first axis.

    Parameters
    ----------
    kernel : callable
        From tensors (m, ...) to a tuple of tensors (m, ...), each row on its own.
    *inputs : Tensor, shapes (n, ...)
    shared_from : int
        Entries of the largest input from which it pays to wake other threads. Lower for a kernel
        that spends its time in one long operation; higher for one of many short operations,
        between which the threads wait for each other in the Python interpreter.

    Returns
    -------
    outputs : tuple of Tensor, shapes (n, ...)
    """
    n = len(inputs[0])
    entries = max(x.numel() for x in inputs)
    shared = entries >= shared_from and all(x.is_cpu for x in inputs)
    size = max(1, PART_ENTRIES * n // max(entries, 1))
    if shared:
        size = min(size, -(-n // min(MOST, FEWEST * entries // shared_from)))
    if size >= n:
        return kernel(*inputs)

    outputs: list[Tensor] = []
    first = threading.Lock()

    def work(part: slice) -> None:
        results = kernel(*(x[part] for x in inputs))
        with first:
            if not outputs:
                outputs.extend(x.new_empty((n, *x.shape[1:])) for x in results)
        for whole, result in zip(outputs, results, strict=True):
            whole[part] = result

    parts = [slice(start, start + size) for start in range(0, n, size)]
    share_out(work, parts, 0 if shared else 1)
    return tuple(outputs)
