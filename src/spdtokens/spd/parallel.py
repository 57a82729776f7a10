"""Run a kernel over parts of a batch, several at a time.

LAPACK decomposes a batch of small matrices one after another, on one core, and long batches fall
out of the cache between two elementwise steps. Cutting the batch into parts that fit the cache,
one thread a part, mends both.

The threads are torch's own. After any parallel operation torch's OpenMP threads stay awake for
some milliseconds, waiting for the next one; threads of our own would have to share the cores with
them and lose what they gain. So the parts are handed to the same OpenMP team, through the entry
point that compiled code uses. Inside it torch and MKL know that they must not open threads of
their own. ``torch.set_num_threads(1)`` switches it off, and so does a torch without libgomp
(macOS, Windows, conda): the parts are then done one after another, with the same results.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

#: Entries of a part: 2 MB of float64 in each temporary array.
PART_ENTRIES = 1 << 18

_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def _open_parallel_region() -> Callable[..., None] | None:
    """``GOMP_parallel(body, data, threads, flags)`` of the OpenMP library that torch carries."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*")):
        try:
            function = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        function.argtypes = [_Body, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        function.restype = None
        return function
    return None


_state = threading.local()


def share_out(work: Callable[[Any], None], tasks: Iterable[Any], threads: int = 0) -> None:
    """Call ``work(task)`` for every task, each on one thread, several at a time.

    The first exception ends the others after their current task and is raised here.

    Parameters
    ----------
    work : callable
        Torch operations inside it do not open threads of their own.
    tasks : iterable
    threads : int
        By default as many as torch has; with 1 the tasks are done one after another.
    """
    threads = threads or torch.get_num_threads()
    region = None
    if threads > 1 and not getattr(_state, "inside", False):
        region = _open_parallel_region()
    todo = iter(tasks)
    turn = threading.Lock()
    errors: list[BaseException] = []

    def loop(_: Any = None) -> None:
        outer, _state.inside = getattr(_state, "inside", False), True
        try:
            with torch.no_grad():  # a thread starts with gradients on
                while not errors:
                    with turn:
                        task = next(todo, None)
                    if task is None:
                        return
                    work(task)
        except BaseException as error:  # it cannot cross the C call below
            errors.append(error)
        finally:
            _state.inside = outer

    if region is None:
        loop()
    else:
        region(_Body(loop), None, threads, 0)
    if errors:
        raise errors[0]


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
    threads = torch.get_num_threads()
    shared = (
        threads > 1
        and entries >= shared_from
        and not getattr(_state, "inside", False)
        and all(x.is_cpu for x in inputs)
        and _open_parallel_region() is not None
    )
    size = max(1, PART_ENTRIES * n // max(entries, 1))
    if shared:
        size = min(size, -(-n // (2 * threads)))
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
