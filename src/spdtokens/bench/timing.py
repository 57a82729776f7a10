"""Fair timing of several ways to do one thing."""

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
#: The thread pool of the way before goes on spinning for some 10 ms after its last task, and a
#: processor that slept is slow to wake. So each way first runs untimed for this long.
SETTLE_SECONDS = 0.04

Way = Callable[[], object]
Times = Mapping[str, NDArray[np.float64]]
Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Tell nobody what is being timed."""


@contextmanager
def thread_count(threads: int | None) -> Iterator[int]:
    """Give torch and every BLAS the same number of threads; torch's own for None."""
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
    """Time all ways in every round, so that a busy moment of the machine hits all of them alike.

    Each round begins with another way. Compare within rounds: :func:`ratio`.

    Parameters
    ----------
    ways : dict of str to callable
    rounds : int
    calls : int, default=1
        Timed calls of a way in a row.
    warm_up : int, optional
        Untimed calls before them; by default for ``SETTLE_SECONDS``.

    Returns
    -------
    dict of str to ndarray, shape (rounds, calls)
        Milliseconds.
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
    """Median of some calls of one way."""
    return medians(take_turns({"": way}, 1, calls, warm_up))[""]


def medians(times: Times) -> dict[str, float]:
    """Of each way, over all rounds and calls."""
    return {name: float(np.median(found)) for name, found in times.items()}


def ratio(times: Times, way: str, other: str) -> float:
    """Time of a way over that of another within a round, the median of rounds."""
    return float(np.median(np.median(times[way], -1) / np.median(times[other], -1)))


def random_covariances(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """SPD matrices (..., d, d) for a shape (..., d)."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(*shape, 4 * shape[-1], generator=generator, dtype=torch.float64)
    return (X @ X.mT / X.shape[-1]).to(dtype)


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns in a process of its own, whose memory is that of the function."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(function, *args).result()


def peak_megabytes() -> float:
    """Largest memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage reports there began with the parent's memory
        (peak,) = (row.split()[1] for row in status.read_text().splitlines() if "VmHWM" in row)
        return int(peak) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
