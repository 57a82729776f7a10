"""Times of the last decisions, in memory of constant size."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray


class Latencies:
    """Median and 99th percentile of the last times.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int = 2000) -> None:
        self._seconds: deque[float] = deque(maxlen=most)

    def add(self, seconds: float) -> None:
        """Take a time."""
        self._seconds.append(seconds)

    def all(self) -> NDArray[np.float64]:
        """The times kept, in seconds, shape (n,)."""
        return np.array(self._seconds)

    def milliseconds(self) -> tuple[float, float] | None:
        """Median and 99th percentile; None before the first time."""
        if not self._seconds:
            return None
        median, high = np.percentile(self.all(), [50, 99])
        return 1e3 * float(median), 1e3 * float(high)


class Rate:
    """Samples a second by the clock of this machine, over the last seconds.

    Parameters
    ----------
    seconds : float
        Over which to count, about.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self._span = seconds
        self._marks: deque[tuple[float, int]] = deque()
        self._count = 0

    def add(self, now: float, samples: int) -> None:
        """Count samples that have come; keeps ten marks a second at most."""
        self._count += samples
        if not self._marks or now - self._marks[-1][0] >= 0.1:
            self._marks.append((now, self._count))
        while now - self._marks[0][0] > self._span:
            self._marks.popleft()

    def hertz(self) -> float | None:
        """None before a second has passed."""
        if len(self._marks) < 2 or self._marks[-1][0] - self._marks[0][0] < 1:
            return None
        (t0, n0), (t1, n1) = self._marks[0], self._marks[-1]
        return (n1 - n0) / (t1 - t0)
