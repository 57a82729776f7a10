"""One thread for small work.

Matrices of a few dozen rows gain nothing from a second thread of BLAS or OpenMP. The threads wait
for each other after every product, and where other programs use the cores a fit takes ten times as
long. So the estimators and decoders work inside :func:`one_thread`. Large batches are shared out as
a whole instead (:func:`share_out`), among :func:`usable_threads` threads.

The order of every sum is then that of one thread: results do not depend on the number of threads.

Works without ``threadpoolctl`` and torch, as on a device with NumPy alone. BLAS then keeps its own
setting: set ``OPENBLAS_NUM_THREADS=1`` there.
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
    depth = 0  # blocks in which this thread is
    shares = False  # whether it works at what was shared out


_local = _Local()
#: How many threads of the program are inside.
_inside = 0
#: What to restore where it was not 1 (how, to what, whether for all threads), and torch's number.
_before: list[tuple[Callable[[int], None], int, bool]] = []
_torch: int | None = None
#: Loaded libraries, and how many modules there were when they were looked for.
_libraries: list[tuple[Callable[[], int], Callable[[int], None], bool]] = []
_n_modules = 0


class one_thread(ContextDecorator):
    """Limit BLAS, OpenMP and torch to one thread; for a ``with`` block or as a decorator.

    Costs some 5 microseconds, and next to nothing inside another such block. The number of threads
    of BLAS belongs to the process: the last thread of the program to leave restores it. That of
    OpenMP belongs to each thread of the program, which restores its own.
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
    """Threads among which a large batch may be shared: as many as torch has outside of the limit.

    Set by ``torch.set_num_threads`` or ``OMP_NUM_THREADS``; 1 without torch.
    """
    threads = _torch if _local.depth else _torch_threads()
    return threads or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="spdtokens")


@one_thread()
def share_out(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Return ``[work(task) for task in tasks]``, each on one thread, several at a time.

    The calling thread works too and never waits for a helper that has not begun: where other
    programs use the cores, it does all the work itself and loses little. The first exception ends
    the others after their current task and is raised here.
    """
    todo, found = iter(enumerate(tasks)), [None] * len(tasks)
    torch = sys.modules.get("torch")
    inference = torch is not None and torch.is_inference_mode_enabled()

    @one_thread()
    def loop() -> None:
        outer, _local.shares = _local.shares, True
        try:
            with ExitStack() as stack:
                if torch is not None:  # a thread starts with gradients on, outside that mode
                    stack.enter_context(torch.inference_mode(inference))
                    stack.enter_context(torch.no_grad())
                for i, task in todo:
                    found[i] = work(task)
        except BaseException:
            list(todo)  # leaves nothing to the others
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
            _torch = _torch_threads()  # first: in a new thread torch only now tells OpenMP
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
    """Also for MKL, which torch hides in itself."""
    if _torch not in (None, 1):
        sys.modules["torch"].set_num_threads(threads)


def _loaded() -> list[tuple[Callable[[], int], Callable[[int], None], bool]]:
    """Libraries with threads: how many, how to change it, and whether that is for all threads.

    Looked for again only if modules were imported since.
    """
    global _libraries, _n_modules
    if ThreadpoolController is not None and len(sys.modules) != _n_modules:
        _libraries = [
            (
                library.get_num_threads,
                # OpenBLAS otherwise listens only to the first thread that ever set it.
                getattr(library, "_real_set_num_threads", library.set_num_threads),
                library.user_api == "blas",
            )
            for library in ThreadpoolController().lib_controllers
        ]
        _n_modules = len(sys.modules)
    return _libraries
