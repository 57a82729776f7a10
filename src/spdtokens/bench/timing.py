"""Fair timing of several ways to do one thing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits

# Thread pools of BLAS and OpenMP go on spinning for some milliseconds after their last task. Wait
# until the one before has stopped, or it is charged to the one after.
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


def interleaved_medians(
    candidates: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, float]:
    """Median milliseconds of each candidate.

    Every round runs all candidates once, each round beginning with another one, so that a busy
    moment of the machine and the order of calls hit all of them alike.
    """
    names = list(candidates)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        candidates[name]()  # first calls load libraries
    for round_ in range(repeats):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            time.sleep(SETTLE_SECONDS)
            start = time.perf_counter()
            candidates[name]()
            samples[name].append(time.perf_counter() - start)
    return {name: 1e3 * float(np.median(times)) for name, times in samples.items()}
