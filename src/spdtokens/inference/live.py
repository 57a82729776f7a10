"""Live decoding: chunks of signal in, decisions out, whoever brings the chunks.

:class:`LiveDecoder` is the core, which knows nothing of Lab Streaming Layer (LSL) and needs none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens._tables import counted
from spdtokens.datasets.base import OTHER_UNIT
from spdtokens.errors import LiveError, UserError
from spdtokens.runtime import Decoder
from spdtokens.runtime.signals import in_parts

FloatArray = NDArray[np.float64]
#: Share by which the rate may be off before it is told, and before nothing is decided.
OTHER_RATE, WRONG_RATE = 0.01, 0.1
#: Seconds for which the same is not told again of an electrode.
QUIET = 30.0
#: Electrodes are judged beside each other: by the spread of the median channel,
WEAK, HUGE = 0.01, 10.0
#: by its change from sample to sample,
NOISY = 5.0
#: and by the share of samples at the extreme values, where an amplifier is at its limits.
CLIPPED = 0.05
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
class Event:
    """Something happened.

    Attributes
    ----------
    kind : str
        ``'gap'``, ``'slip'``, ``'rate'``, ``'bad channel'``, ``'good channel'``, ``'withheld'``,
        ``'decides again'``; of the connection ``'connected'``, ``'silent'``, ``'samples again'``,
        ``'lost'``, ``'refused'``, ``'behind'``.
    text : str
        A sentence for people.
    sample : int or None
        How many samples had been taken.
    """

    kind: str
    text: str
    sample: int | None = None


@dataclass(frozen=True)
class Decision:
    """What was decided on a window, or why nothing was.

    Attributes
    ----------
    sample : int
        Samples taken of the stream up to the end of the window.
    time : float
        Stamp of the last sample of the window.
    probabilities : ndarray, shape (classes,), or None
    label : str
        The most probable class; empty where nothing was decided.
    withheld : str
        Why nothing was decided.
    learnt : bool
        Whether the recentring has learnt from the window.
    seconds : float
        It took from the window to the probabilities.
    """

    sample: int
    time: float
    probabilities: FloatArray | None
    label: str
    withheld: str
    learnt: bool
    seconds: float


class LiveDecoder:
    """Decide on the last samples of a stream, again and again.

    Every window is decided on by itself, from its own samples only: a decision never depends on
    samples after the window, on how the stream was cut into chunks, or on what time it is.

    If the model recentres, its reference follows the stream. It learns once in the length of a
    window, from windows that do not overlap, so that overlapping windows do not count as trials:
    with a step as long as the window every window is learnt from, which is the access ``online``
    of evaluations.

    Every window is as long as the trials trained on, and what the model does with a trial it does
    with the window.

    After a gap the window is filled anew: nothing is decided on windows that span a gap. Windows
    with samples that are not numbers, in another unit than the training data, at a rate that is off
    by more than a tenth by their stamps, or refused by the model give a decision that tells why it
    is withheld.

    Parameters
    ----------
    decoder : Decoder
    step : float
        Seconds from one decision to the next; rounded to samples.
    gap : float, optional
        Seconds by which a stamp may be late before samples count as missing; learnt from the
        stream if not given (:class:`~spdtokens.inference.live.Timeline`).
    tell : callable, optional
        Is told every :class:`Event`.

    Attributes
    ----------
    taken, lost, gaps, decided, withheld, learnt : int
        Samples taken, samples lost, gaps; decisions, decisions withheld, windows learnt from.
    recentres : bool
        Whether the model follows the mean of the session.
    quality : list of str
        A word for each channel, of the last second; empty for one that does well.
    """

    def __init__(
        self,
        decoder: Decoder,
        step: float = 0.1,
        *,
        gap: float | None = None,
        tell: Callable[[Event], None] = lambda _: None,
    ) -> None:
        if decoder.sfreq is None:
            raise LiveError(
                "The model decodes covariance matrices, and a stream brings signals. Train one on "
                "recordings: spdtokens train."
            )
        if not (np.isfinite(step) and round(step * decoder.sfreq) >= 1):
            raise LiveError(
                f"step must be at least a sample of {1 / decoder.sfreq:.4g} s, got {step:g}."
            )
        if gap is not None and not gap > 0:
            raise LiveError(f"gap must be a time above zero, got {gap:g}.")
        self.decoder = decoder
        self.sfreq = float(decoder.sfreq)
        self.step = round(step * self.sfreq)
        self.recentres = decoder.recentring is not None
        self._tell = tell
        self._session = decoder.session()
        self._ring = Ring(len(decoder.ch_names), decoder.n_samples)
        self._timeline = Timeline(self.sfreq, gap)
        self._refusing, self._looked = False, True
        self._lost_in_gaps = 0
        self.taken = self.gaps = self.decided = self.withheld = self.learnt = 0
        self.quality = [""] * len(decoder.ch_names)
        self._told: dict[tuple[str, str], int] = {}
        self.restart()

    @property
    def lost(self) -> int:
        """Samples lost, as far as time stamps tell."""
        return self._lost_in_gaps + self._timeline.slipped

    @property
    def filled(self) -> float:
        """Share of the window that is filled; 1 when decisions are made."""
        return min(1.0, self._ring.filled / self.decoder.n_samples)

    def feed(self, chunk: ArrayLike, stamps: ArrayLike | None = None) -> list[Decision]:
        """Take the next samples.

        Parameters
        ----------
        chunk : array_like, shape (channels, samples)
            Channels in the order of the decoder's ``ch_names``; any number of samples.
        stamps : array_like, shape (samples,), optional
            Seconds; without them samples are taken as gapless.

        Returns
        -------
        decisions : list of Decision
            Those that fell due, in the order of time.
        """
        X = np.asarray(chunk, dtype=np.float64)
        if X.ndim != 2 or len(X) != len(self.decoder.ch_names):
            raise LiveError(
                f"Expected a chunk of {len(self.decoder.ch_names)} channels x samples, got an "
                f"array of shape {X.shape}."
            )
        n = X.shape[1]
        exact = (self.taken + np.arange(n)) / self.sfreq
        times = exact if stamps is None else np.asarray(stamps, dtype=np.float64)
        if times.shape != (n,) or not np.isfinite(times).all():
            finite = counted(int(np.isfinite(times).sum()), "finite time stamp")
            raise LiveError(f"{counted(n, 'sample')} came with {finite}.")
        decisions: list[Decision] = []
        for piece in self._timeline.pieces(times):
            if piece.gap is not None:
                self._tell_gap(piece.gap)
            self._take(X[:, piece.start : piece.stop], times[piece.start : piece.stop], decisions)
            if piece.rate is not None:
                self._measured(piece.rate)
            if piece.slip and not self._off(OTHER_RATE):
                self._say(
                    "slip",
                    f"{counted(piece.slip, 'sample')} lost within two seconds; windows with so "
                    "small a gap are decided on",
                )
        return decisions

    def restart(self) -> None:
        """Fill the window anew, as after a lost connection. What was learnt is kept."""
        self._timeline.begin_anew()
        self._rate = self.sfreq  # it may be another sender
        self._refill()

    def _refill(self) -> None:
        self._look()
        self._ring.clear()
        self._due = self._learn_at = self.decoder.n_samples

    def _off(self, share: float) -> bool:
        return abs(self._rate / self.sfreq - 1) > share

    def _measured(self, rate: float) -> None:
        """Take the rate of the last seconds, and tell if it went wrong or right."""
        before, self._rate = self._off(OTHER_RATE), rate
        if self._off(OTHER_RATE) != before:
            again = f"samples come at {self.sfreq:g} Hz again, by their time stamps"
            self._say("rate", again if before else self._rate_text())

    def _rate_text(self) -> str:
        lost = ", or look for lost samples" if self._rate < self.sfreq else ""
        return (
            f"samples come at {self._rate:.4g} Hz by their time stamps, and the model decodes "
            f"{self.sfreq:g}. Set the amplifier to {self.sfreq:g} Hz{lost}"
        )

    def _tell_gap(self, seconds: float) -> None:
        self.gaps += 1
        what = f"time stamps went astray by {seconds:.3g} s"
        if seconds > 0:
            lost = max(1, round(seconds * self.sfreq))
            self._lost_in_gaps += lost
            what = f"{counted(lost, 'sample')} ({seconds:.3g} s) lost"
        wait = self.decoder.n_samples / self.sfreq
        self._say("gap", f"{what}; the next decision comes after {wait:.3g} s of whole signal")
        self._refill()

    def _take(self, X: FloatArray, times: FloatArray, decisions: list[Decision]) -> None:
        start = 0
        while start < X.shape[1]:
            self._look()
            n = min(X.shape[1] - start, self._due - self._ring.filled, self._ring.n_samples)
            self._ring.append(X[:, start : start + n])
            self.taken += n
            start += n
            if self._ring.filled == self._due:
                decisions.append(self._decide(float(times[start - 1])))
                self._due += self.step
                self._looked = False

    def _decide(self, stamp: float) -> Decision:
        began = time.perf_counter()
        window = self._ring.last(self.decoder.n_samples)
        learn = self.recentres and self._ring.filled >= self._learn_at
        found, reason = None, self._rate_text() if self._off(WRONG_RATE) else ""
        if not reason and (ratio := times_as_large(self.decoder, window[None])) is not None:
            reason = (
                f"signals are {ratio:.2g} times as large as those the model was trained on. If "
                "they come in another unit, say which (--unit)"
            )
        if not reason:
            try:
                found = np.asarray(self._session.probabilities(window, learn=learn), np.float64)
            except (UserError, np.linalg.LinAlgError) as error:
                reason = self._explained(window, error)
        seconds = time.perf_counter() - began
        if bool(reason) != self._refusing:
            self._refusing = bool(reason)
            if reason:
                self._say("withheld", f"decisions are withheld: {reason}")
            else:
                self._say("decides again", "decisions are made again")
        if found is None:
            self.withheld += 1
            return Decision(self.taken, stamp, None, "", reason, False, seconds)
        self.decided += 1
        if learn:
            self.learnt += 1
            self._learn_at = self._ring.filled + self.decoder.n_samples
        label = self.decoder.classes[int(found.argmax())]
        return Decision(self.taken, stamp, found, label, "", learn, seconds)

    def _explained(self, window: FloatArray, error: Exception) -> str:
        """Why the model refused a window: by the names of the channels, if they are the reason."""
        for bad, what in (
            (~np.isfinite(window).all(1), ": samples of the window are not numbers"),
            (np.ptp(window, axis=1) == 0, " flat for a whole window"),
        ):
            if bad.any():
                return listed(np.array(self.decoder.ch_names)[bad].tolist()) + what
        return str(error)

    def _look(self) -> None:
        """Judge the electrodes by the second before the last decision, and tell what changed.

        When more samples come, and not with the decision, which would be late by a fifth.
        """
        if self._looked:
            return
        self._looked = True
        words = judge(self._ring.last(max(2, round(self.sfreq))))
        news: dict[str, list[str]] = {}
        for name, word, before in zip(self.decoder.ch_names, words, self.quality, strict=True):
            # Not what was told a moment ago: electrodes at a limit come and go.
            last = self._told.get((name, word), -np.inf)
            if word != before and self.taken - last >= QUIET * self.sfreq:
                self._told[name, word] = self.taken
                news.setdefault(word, []).append(name)
        for word, names in sorted(news.items()):
            kind, text = ("bad channel", word) if word else ("good channel", "good again")
            self._say(kind, f"{listed(names)}: {text}")
        self.quality = words

    def _say(self, kind: str, text: str) -> None:
        self._tell(Event(kind, text, self.taken))


def times_as_large(decoder: Decoder, X: NDArray[Any]) -> float | None:
    """How many times as large signals are as those trained on, if so many tell another unit.

    Parameters
    ----------
    decoder : Decoder
    X : ndarray, shape (n, channels, samples)
    """
    trained = decoder.about.get("amplitude")
    if not isinstance(trained, int | float) or not trained > 0:
        return None  # before the spread, which takes a twentieth of the time of a decision
    with np.errstate(invalid="ignore"):
        spread = np.median(np.concatenate([part.std(-1) for part in in_parts(X)]))
    ratio = float(spread) / trained
    return ratio if spread > 0 and not 1 / OTHER_UNIT < ratio < OTHER_UNIT else None


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a row; the count of those beyond ``most``."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


class Ring:
    """Keep the last samples so that a window is one block of memory.

    Written forwards in a block of several windows; at its end the last window is moved to the
    front, which costs less than a copy a sample.

    Parameters
    ----------
    n_channels : int
    n_samples : int
        Of the window.
    """

    def __init__(self, n_channels: int, n_samples: int) -> None:
        self.n_samples = n_samples
        self._block = np.zeros((n_channels, 4 * n_samples))
        self._end = 0
        self.filled = 0

    def append(self, chunk: NDArray[np.float64]) -> None:
        """Take samples (channels, samples); at most a window at a time."""
        n = chunk.shape[1]
        if self._end + n > self._block.shape[1]:
            kept = min(self.filled, self.n_samples)
            self._block[:, :kept] = self._block[:, self._end - kept : self._end]
            self._end = kept
        self._block[:, self._end : self._end + n] = chunk
        self._end += n
        self.filled += n

    def last(self, n: int) -> NDArray[np.float64]:
        """A view of at most the last ``n`` samples, shape (channels, <= n)."""
        return self._block[:, self._end - min(n, self.filled, self.n_samples) : self._end]

    def clear(self) -> None:
        """Forget all samples."""
        self._end = self.filled = 0


def judge(signal: NDArray[np.float64]) -> list[str]:
    """A word for each channel; empty for one that does well.

    Parameters
    ----------
    signal : ndarray, shape (channels, samples)
        As it comes, not filtered.

    Returns
    -------
    words : list of str
        ``'not a number'``, ``'flat'`` (at least in the last third), ``'clipped'``, ``'huge'``,
        ``'noisy'``, ``'weak'`` or ``''``.
    """
    finite = np.asarray(np.isfinite(signal).all(1))
    if not finite.all():
        signal = np.where(finite[:, None], signal, 0.0)
    flat = np.ptp(signal[:, -max(2, signal.shape[1] // 3) :], axis=1) == 0
    alive = finite & ~flat
    if not alive.any():
        return ["not a number" if not ok else "flat" for ok in finite]
    spread = signal.std(1)
    change = np.diff(signal, axis=1).std(1)
    usual_spread, usual_change = np.median(spread[alive]), np.median(change[alive])
    words = {
        "not a number": ~finite,
        "flat": flat,
        "clipped": _clipped(signal),
        "huge": spread > HUGE * usual_spread,
        "noisy": change > NOISY * usual_change,
        "weak": spread < WEAK * usual_spread,
    }
    return list(map(str, np.select(list(words.values()), list(words), "")))


def _clipped(signal: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a channel (channels, samples) stays at its extremes for a while again and again."""
    low, high = signal.min(1, keepdims=True), signal.max(1, keepdims=True)
    at_limit = (signal == low) | (signal == high)
    stays = at_limit & (np.diff(signal, axis=1, prepend=np.nan) == 0)
    begins = (np.diff(stays, axis=1) & stays[:, 1:]).sum(1)
    return np.asarray((stays.mean(1) > CLIPPED) & (begins >= 3))


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
        self._first = self._last = 0.0
        self._count = 0
        self._largest, self._offset = 0.0, np.inf  # of the current second
        self._baseline: float | None = None
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
            if self._count == 0:
                self._first = float(stamps[start])
                self._last = self._first - self._period
            stop = min(len(stamps), start + self._second - self._count % self._second)
            late = np.diff(stamps[start:stop], prepend=self._last) - self._period
            odd = np.flatnonzero((late > self.tolerance) | (late < -BACK))
            at = start + int(odd[0]) if len(odd) else stop
            if at > start:
                self._follow(stamps[start:at], late[: at - start])
                whole = self._count % self._second == 0
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

    def _rate(self) -> float | None:
        """Samples per second, where a stretch ends.

        From the earliest stamp of its last second and of the second before it, so that stamps which
        are late now and then change nothing.
        """
        seconds = self._count // self._second
        if seconds % STRETCH != 1:
            return None
        nominal = STRETCH * self._second * self._period
        actual = nominal + self._offset - self._before_stretch
        known = seconds > 1 and actual > 0
        self._before_stretch = self._offset
        return STRETCH * self._second / actual if known else None

    def _end_second(self) -> int:
        """Learn from the second that ended; how many samples slipped away in it."""
        known = self._jitter or 0.0
        offset, baseline = self._offset, self._baseline
        before, self._jitter_before = self._jitter_before, known
        self._jitter = max(self._largest, FORGET * known)
        self._largest, self._offset = 0.0, np.inf
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
