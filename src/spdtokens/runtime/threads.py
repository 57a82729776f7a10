"""One thread for small work.

Matrices of a few dozen rows gain nothing from a second thread of BLAS or OpenMP. The threads wait
for each other after every product, and where other programs use the cores a fit takes ten times as
long. So the estimators and decoders work inside :func:`one_thread`. Large batches are shared out as
a whole instead (``spdtokens.spd.parallel``), among :func:`usable_threads` threads.

The order of every sum is then that of one thread: results do not depend on the number of threads.

Works without ``threadpoolctl`` and torch, as on a device with NumPy alone. BLAS then keeps its own
setting: set ``OPENBLAS_NUM_THREADS=1`` there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    from threadpoolctl import ThreadpoolController
except ImportError:  # a device with NumPy alone
    ThreadpoolController = None

_lock = threading.Lock()
_local = threading.local()
#: How many threads of the program are inside.
_inside = 0
#: What to restore: libraries of BLAS and of OpenMP with their numbers, and the number of torch.
_blas: list[tuple[Any, int]] = []
_openmp: list[tuple[Any, int]] = []
_torch: int | None = None
#: Loaded libraries, and how many modules there were when they were looked for.
_libraries: list[Any] = []
_n_modules = 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread; for a ``with`` block or as a decorator.

    Costs a few microseconds, and next to nothing inside another such block. The number of threads
    of BLAS belongs to the process: the last thread of the program to leave restores it. That of
    OpenMP belongs to each thread of the program, which restores its own.
    """
    if getattr(_local, "inside", False):
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


def usable_threads() -> int:
    """Threads among which a large batch may be shared: as many as torch has outside of the limit.

    Set by ``torch.set_num_threads`` or ``OMP_NUM_THREADS``; 1 without torch.
    """
    threads = _torch if getattr(_local, "inside", False) else _torch_threads()
    return threads or 1


def _enter() -> None:
    global _inside, _blas, _openmp, _torch
    with _lock:
        if _inside == 0:
            _torch = _torch_threads()  # first: in a new thread torch only now tells OpenMP
            found = [(library, library.get_num_threads()) for library in _loaded()]
            _blas = [pair for pair in found if pair[0].user_api == "blas"]
            _openmp = [pair for pair in found if pair[0].user_api == "openmp"]
            _set(_blas, 1)
            if _torch is not None:  # also for MKL, which torch hides in itself
                sys.modules["torch"].set_num_threads(1)
        _inside += 1
        _local.inside = True
    _set(_openmp, 1)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        _local.inside = False
        if _inside == 0:
            _set(_blas)
            if _torch is not None:
                sys.modules["torch"].set_num_threads(_torch)
        _set(_openmp)


def _set(libraries: list[tuple[Any, int]], threads: int | None = None) -> None:
    for library, before in libraries:
        if before != 1:
            # OpenBLAS otherwise listens only to the first thread that ever set it; here the last
            # to leave restores.
            change = getattr(library, "_real_set_num_threads", library.set_num_threads)
            change(threads or before)


def _torch_threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _loaded() -> list[Any]:
    """Libraries with threads. Looked for again only if modules were imported since."""
    global _libraries, _n_modules
    if ThreadpoolController is not None and len(sys.modules) != _n_modules:
        _libraries = ThreadpoolController().lib_controllers
        _n_modules = len(sys.modules)
    return _libraries
