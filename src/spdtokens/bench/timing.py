"""Time several implementations of one computation alternately."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

OURS = "spdtokens"
#: Seconds that each implementation first runs untimed: the thread pool of the previous one keeps
#: spinning for about 10 ms, and a sleeping processor wakes up slowly.
SETTLE_SECONDS = 0.04

Way = Callable[[], object]
Times = Mapping[str, NDArray[np.float64]]
Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Ignore what is being timed."""


@contextmanager
def thread_count(threads: int | None) -> Iterator[int]:
    """Limit torch and every BLAS to a number of threads; None keeps that of torch."""
    before = torch.get_num_threads()
    threads = threads or before
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield threads
    finally:
        torch.set_num_threads(before)


def take_turns(
    ways: Mapping[str, Way], rounds: int, calls: int = 1, warm_up: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Time all implementations in every round, so that other load affects all of them alike.

    Each round begins with another implementation. Compare times within rounds: :func:`ratio`.

    Parameters
    ----------
    ways : dict of str to callable
        Implementations, by name.
    rounds : int
        Number of rounds.
    calls : int, default=1
        Number of timed calls per implementation and round.
    warm_up : int, default=None
        Number of untimed calls before them; None calls for ``SETTLE_SECONDS``.

    Returns
    -------
    dict of str to ndarray, shape (rounds, calls)
        Milliseconds of each call.
    """
    names = list(ways)
    times = {name: np.empty((rounds, calls)) for name in names}
    for i in range(rounds):
        shift = i % len(names)
        for name in names[shift:] + names[:shift]:
            way, row = ways[name], times[name][i]
            if warm_up is None:
                settled = time.perf_counter() + SETTLE_SECONDS
                way()
                while time.perf_counter() < settled:
                    way()
            for _ in range(warm_up or 0):
                way()
            for j in range(calls):
                start = time.perf_counter()
                way()
                row[j] = time.perf_counter() - start
    return {name: 1e3 * found for name, found in times.items()}


def milliseconds(way: Way, calls: int, warm_up: int = 3) -> float:
    """Median time of some calls of one implementation."""
    return medians(take_turns({"": way}, 1, calls, warm_up))[""]


def medians(times: Times) -> dict[str, float]:
    """Median time of each implementation over all rounds and calls."""
    return {name: float(np.median(found)) for name, found in times.items()}


def ratio(times: Times, way: str, other: str) -> float:
    """Ratio of the times of two implementations within a round; median over rounds."""
    return float(np.median(np.median(times[way], -1) / np.median(times[other], -1)))


def random_covariances(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random SPD matrices of shape (..., d, d) for a shape (..., d)."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(*shape, 4 * shape[-1], generator=generator, dtype=torch.float64)
    return (X @ X.mT / X.shape[-1]).to(dtype)


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a new process, so that the memory measured is its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(function, *args).result()


def peak_megabytes() -> float:
    """Peak memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage includes the memory of the parent
        (peak,) = (row.split()[1] for row in status.read_text().splitlines() if "VmHWM" in row)
        return int(peak) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
