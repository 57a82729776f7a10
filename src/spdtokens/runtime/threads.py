"""Run small computations on one thread.

Matrices of a few dozen rows do not gain from a second thread of BLAS or OpenMP. The threads wait
for each other after every product, and if other programs use the cores a fit takes ten times as
long. Estimators and decoders therefore run inside :func:`one_thread`. Large batches are split
instead (:func:`share_out`), among :func:`usable_threads` threads.

Sums are then always in the order of one thread: results do not depend on the number of threads.

The module works without ``threadpoolctl`` and torch, as on a device with NumPy only. BLAS then
keeps its own setting: set ``OPENBLAS_NUM_THREADS=1`` there.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator, ExitStack
from functools import cache
from typing import Any

try:
    from threadpoolctl import ThreadpoolController
except ImportError:  # a device with NumPy alone
    ThreadpoolController = None

_lock = threading.Lock()


class _Local(threading.local):
    depth = 0  # nested blocks of this thread
    shares = False  # whether it runs inside share_out


_local = _Local()
#: Number of Python threads inside a block.
_inside = 0
#: Settings to restore if they were not 1 (setter, value, whether for the process), and torch's.
_before: list[tuple[Callable[[int], None], int, bool]] = []
_torch: int | None = None
#: Loaded libraries, and the number of modules when they were searched for.
_libraries: list[tuple[Callable[[], int], Callable[[int], None], bool]] = []
_n_modules = 0


class one_thread(ContextDecorator):
    """Limit BLAS, OpenMP and torch to one thread, as a context manager or decorator.

    It costs about 5 microseconds, and almost nothing when nested. The number of BLAS threads
    belongs to the process: the last Python thread to leave restores it. The number of OpenMP
    threads belongs to each Python thread, which restores its own.
    """

    def __enter__(self) -> None:
        if _local.depth == 0:
            _enter()
        _local.depth += 1

    def __exit__(self, *_: object) -> None:
        _local.depth -= 1
        if _local.depth == 0:
            _leave()


def usable_threads() -> int:
    """Number of threads for large batches: that of torch outside of the limit.

    Set by ``torch.set_num_threads`` or ``OMP_NUM_THREADS``; 1 without torch.
    """
    threads = _torch if _local.depth else _torch_threads()
    return threads or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="spdtokens")


@one_thread()
def share_out(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Return ``[work(task) for task in tasks]``, computed on several threads.

    The calling thread works too and never waits for a helper that has not started: if other
    programs use the cores, it does all the work with little loss. After the first exception the
    other threads stop at the end of their current task, and the exception is raised here.
    """
    todo, found = iter(enumerate(tasks)), [None] * len(tasks)
    torch = sys.modules.get("torch")
    inference = torch is not None and torch.is_inference_mode_enabled()

    @one_thread()
    def loop() -> None:
        outer, _local.shares = _local.shares, True
        try:
            with ExitStack() as stack:
                if torch is not None:  # these modes belong to a thread
                    stack.enter_context(torch.inference_mode(inference))
                    stack.enter_context(torch.no_grad())
                for i, task in todo:
                    found[i] = work(task)
        except BaseException:
            list(todo)  # nothing is left for the others
            raise
        finally:
            _local.shares = outer

    n = 0 if _local.shares else min(usable_threads(), len(tasks)) - 1
    helpers = [_helpers().submit(loop) for _ in range(n)]
    try:
        loop()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in begun]
    for error in filter(None, errors):
        raise error
    return found


def _enter() -> None:
    global _inside, _before, _torch
    with _lock:
        if _inside == 0:
            _torch = _torch_threads()  # first: in a new thread this makes torch set OpenMP
            _before = [
                (change, before, of_process)
                for count, change, of_process in _loaded()
                if (before := count()) != 1
            ]
            for change, _, of_process in _before:
                if of_process:
                    change(1)
            _set_torch(1)
        _inside += 1
    for change, _, of_process in _before:
        if not of_process:
            change(1)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        last = _inside == 0
        if last and _torch is not None:
            _set_torch(_torch)
        for change, before, of_process in _before:
            if last or not of_process:
                change(before)


def _torch_threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _set_torch(threads: int) -> None:
    """Set the number of threads of torch, and of the MKL inside torch."""
    if _torch not in (None, 1):
        sys.modules["torch"].set_num_threads(threads)


def _loaded() -> list[tuple[Callable[[], int], Callable[[int], None], bool]]:
    """Libraries with threads: getter, setter, and whether the setting is for the whole process.

    They are searched for again only if modules were imported since.
    """
    global _libraries, _n_modules
    if ThreadpoolController is not None and len(sys.modules) != _n_modules:
        _libraries = [
            (
                library.get_num_threads,
                # Otherwise OpenBLAS accepts changes only from the first thread that set it.
                getattr(library, "_real_set_num_threads", library.set_num_threads),
                library.user_api == "blas",
            )
            for library in ThreadpoolController().lib_controllers
        ]
        _n_modules = len(sys.modules)
    return _libraries
