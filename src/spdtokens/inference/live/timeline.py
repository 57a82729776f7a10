"""Are samples missing? Told from their time stamps, though stamps are never quite regular."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Seconds. A jump of stamps below the first is never a gap at once, since computers are late by as
#: much; above the second it always is. Between them it is one if nothing of the kind has come
#: before: senders that stamp chunks when they arrive have stamps that jump to and fro.
LEAST, MOST = 0.02, 0.25
#: A gap is so many times the largest irregularity of late.
TIMES = 3.0
#: Irregularities are forgotten by this factor a second.
FORGET = 0.99
#: Seconds by which stamps may go back; by more the sender's clock was set anew.
BACK = 1.0
#: Seconds over which the rate is measured.
STRETCH = 10


@dataclass(frozen=True)
class Piece:
    """Samples ``start`` to ``stop`` of a chunk, without a gap among them.

    Attributes
    ----------
    start, stop : int
    gap : float or None
        Seconds that are missing before them; below zero if the clock went back.
    slip : int
        Samples that are found missing within the second that ends here, too few for a gap.
    rate : float or None
        Samples per second by the stamps of the last ten seconds, if such a stretch ends here.
    """

    start: int
    stop: int
    gap: float | None = None
    slip: int = 0
    rate: float | None = None


class Timeline:
    """Find gaps in time stamps, and the rate that they tell.

    A jump beyond the tolerance is a gap. What is lost in smaller portions is found within two
    seconds: a chunk that came late is followed by some that did not, but after a loss all stamps
    are later than the count of samples says. Clocks drift far more slowly than this.

    The result does not depend on how samples are cut into chunks.

    Parameters
    ----------
    sfreq : float
    tolerance : float, optional
        Seconds by which a stamp may be late without a gap; learnt from the stream if not given.

    Attributes
    ----------
    slipped : int
        Samples lost in portions too small for a gap.
    """

    def __init__(self, sfreq: float, tolerance: float | None = None) -> None:
        self._period = 1 / sfreq
        self._second = max(2, round(sfreq))
        self._fixed = tolerance
        #: Largest irregularity of late: now, and a second ago.
        self._jitter: float | None = None
        self._jitter_before = 0.0
        self.slipped = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Count from the next sample, as after a gap; how irregular stamps are stays known."""
        self._last: float | None = None
        self._first = 0.0
        self._count = 0
        self._in_second = 0
        self._largest = 0.0
        self._offset = np.inf
        self._baseline: float | None = None
        self._seconds = 0
        self._before_stretch = 0.0

    @property
    def tolerance(self) -> float:
        """Seconds by which a stamp may now be late without a gap."""
        if self._fixed is not None:
            return self._fixed
        if self._jitter is None:
            return MOST
        return float(np.clip(TIMES * self._jitter, max(LEAST, 1.5 * self._period), MOST))

    def pieces(self, stamps: NDArray[np.float64]) -> Iterator[Piece]:
        """Cut a chunk where samples are missing, and at whole seconds.

        Parameters
        ----------
        stamps : ndarray, shape (samples,)
            Of the samples that follow those of the call before. All pieces must be taken.
        """
        start, gap = 0, None
        while start < len(stamps):
            if self._last is None:
                self._first = float(stamps[start])
                self._last = self._first - self._period
            stop = min(len(stamps), start + self._second - self._in_second)
            late = np.diff(stamps[start:stop], prepend=self._last) - self._period
            odd = np.flatnonzero((late > self.tolerance) | (late < -BACK) | ~np.isfinite(late))
            at = start + int(odd[0]) if len(odd) else stop
            if at > start:
                self._follow(stamps[start:at], late[: at - start])
                whole = self._in_second == self._second
                rate = self._rate() if whole else None
                yield Piece(start, at, gap, self._end_second() if whole else 0, rate)
                gap = None
            if len(odd):
                gap = float(late[odd[0]])
                self.begin_anew()
            start = at

    def _follow(self, stamps: NDArray[np.float64], late: NDArray[np.float64]) -> None:
        n = len(stamps)
        self._largest = max(self._largest, float(np.abs(late).max()))
        due = self._first + self._period * np.arange(self._count, self._count + n)
        self._offset = min(self._offset, float((stamps - due).min()))
        self._last = float(stamps[-1])
        self._count += n
        self._in_second += n

    def _rate(self) -> float | None:
        """Samples per second, where a stretch ends.

        From the earliest stamp of its last second and of the second before it, so that stamps which
        are late now and then change nothing.
        """
        self._seconds += 1
        if self._seconds % STRETCH != 1:
            return None
        nominal = STRETCH * self._second * self._period
        actual = nominal + self._offset - self._before_stretch
        known = self._seconds > 1 and actual > 0
        self._before_stretch = self._offset
        return STRETCH * self._second / actual if known else None

    def _end_second(self) -> int:
        """Learn from the second that ended; how many samples slipped away in it."""
        known = self._jitter or 0.0
        offset, baseline = self._offset, self._baseline
        before, self._jitter_before = self._jitter_before, known
        self._jitter = max(self._largest, FORGET * known)
        self._in_second, self._largest, self._offset = 0, 0.0, np.inf
        self._baseline = offset
        if baseline is None:
            return 0
        later = offset - baseline
        if abs(later) < max(0.75 * self._period, FORGET**2 * self._jitter):
            return 0
        slip = max(round(later / self._period), -self.slipped)
        self.slipped += slip
        if slip > 0:  # it was a loss, not an irregularity
            self._jitter = self._jitter_before = before
        return max(slip, 0)
