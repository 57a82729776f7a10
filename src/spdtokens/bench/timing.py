"""Fair timing of several ways to do one thing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

# The thread pool of the candidate before goes on spinning for some 10 ms after its last task, and
# a processor that slept is slow to wake. So each candidate first runs untimed for this long.
SETTLE_SECONDS = 0.04


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Give torch and every BLAS the same number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def interleaved_times(
    candidates: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, NDArray[np.float64]]:
    """Milliseconds of each candidate in each of ``repeats`` rounds, shape (repeats,).

    Every round runs all candidates once, each round beginning with another one, so that a busy
    moment of the machine and the order of calls hit all of them alike. Compare within rounds.
    """
    names = list(candidates)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(repeats):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            settled = time.perf_counter() + SETTLE_SECONDS
            candidates[name]()
            while time.perf_counter() < settled:
                candidates[name]()
            start = time.perf_counter()
            candidates[name]()
            samples[name].append(time.perf_counter() - start)
    return {name: 1e3 * np.array(times) for name, times in samples.items()}


def fastest_peer(times: Mapping[str, NDArray[np.float64]], ours: str) -> tuple[str, float]:
    """The peer that does best against us, and our time over its: median of the rounds' ratios."""
    ratios = {
        name: float(np.median(times[ours] / peer)) for name, peer in times.items() if name != ours
    }
    best = max(ratios, key=lambda name: ratios[name])
    return best, ratios[best]
