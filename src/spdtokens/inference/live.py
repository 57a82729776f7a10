"""Decode a live signal: chunks of samples in, decisions out.

:class:`LiveDecoder` does not depend on Lab Streaming Layer (LSL); any program can feed it.
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
#: Relative error of the sampling rate that is reported, and that stops decisions.
OTHER_RATE, WRONG_RATE = 0.01, 0.1
#: Seconds before the same state of an electrode is reported again.
QUIET = 30.0
#: Limits of the standard deviation, relative to the median channel.
WEAK, HUGE = 0.01, 10.0
#: Limit of the standard deviation of sample-to-sample differences, relative to the median channel.
NOISY = 5.0
#: Fraction of samples at the extreme values above which a channel is clipped.
CLIPPED = 0.05
#: Bounds of the learnt gap tolerance in seconds. A jump of time stamps below the first is never a
#: gap, since computers stamp late by as much; a jump above the second always is.
LEAST, MOST = 0.02, 0.25
#: A gap is this many times larger than the largest recent jitter.
TIMES = 3.0
#: Decay of the largest jitter per second.
FORGET = 0.99
#: Seconds by which time stamps may go back; beyond, the sender's clock was set.
BACK = 1.0
#: Seconds over which the sampling rate is measured.
STRETCH = 10


@dataclass(frozen=True)
class Event:
    """Report of something that happened to the stream.

    Parameters
    ----------
    kind : str
        From the signal: ``'gap'``, ``'slip'`` (a loss too small for a gap), ``'rate'``,
        ``'bad channel'``, ``'good channel'``, ``'withheld'`` or ``'decides again'``. From the
        connection: ``'connected'``, ``'silent'``, ``'samples again'``, ``'lost'``, ``'refused'`` or
        ``'behind'``.
    text : str
        Description for the user.
    sample : int, default=None
        Number of samples received before the event.

    See Also
    --------
    LiveDecoder : Reports events to its argument ``tell``.

    Examples
    --------
    >>> from spdtokens.inference.live import Event
    >>> Event("bad channel", "C4: flat", 350)
    Event(kind='bad channel', text='C4: flat', sample=350)
    """

    kind: str
    text: str
    sample: int | None = None


@dataclass(frozen=True)
class Decision:
    """Class probabilities of one window, or the reason why there are none.

    Parameters
    ----------
    sample : int
        Number of samples received up to the end of the window.
    time : float
        Time stamp of the last sample of the window.
    probabilities : ndarray, shape (n_classes,), or None
        Class probabilities; None if the decision was withheld.
    label : str
        The most probable class; empty if the decision was withheld.
    withheld : str
        Why the decision was withheld; empty if it was not.
    learnt : bool
        Whether the recentring reference was updated with this window.
    seconds : float
        Computing time from the window to the probabilities.

    See Also
    --------
    LiveDecoder : Returns decisions.

    Examples
    --------
    >>> from spdtokens.inference.live import Decision
    >>> decision = Decision(500, 2.0, None, "", "C4 flat for a whole window", False, 1e-4)
    >>> decision.probabilities is None
    True
    """

    sample: int
    time: float
    probabilities: FloatArray | None
    label: str
    withheld: str
    learnt: bool
    seconds: float


class LiveDecoder:
    """Decode the last samples of a stream at regular steps.

    Each window has the length of the training trials and is processed like a trial, from its own
    samples only. A decision depends neither on later samples, nor on the size of the chunks, nor
    on the time of day.

    If the model recentres, its reference follows the stream. It is updated with windows that do not
    overlap, once per window length. With a step as long as the window it is updated with every
    window, as in evaluations with access ``'online'``.

    After a gap the window is filled again: no window spans a gap. The decision is withheld, with
    the reason, if the window contains NaN or infinite samples or a flat channel, if the amplitude
    suggests another unit than that of the training data, or if the sampling rate differs by more
    than 10 % according to the time stamps.

    Parameters
    ----------
    decoder : Decoder
        A model of signals, from :func:`spdtokens.load_model` or
        :func:`spdtokens.inference.as_decoder`.
    step : float, default=0.1
        Seconds between decisions, rounded to samples.
    gap : float, default=None
        Delay of a time stamp, in seconds, that counts as lost samples. If None, it is learnt from
        the jitter of the stream.
    tell : callable, default=lambda event: None
        Called with every :class:`Event`.

    Attributes
    ----------
    taken, lost, gaps : int
        Number of samples received, samples lost, and gaps.
    decided, withheld, learnt : int
        Number of decisions, of decisions withheld, and of windows used to update the reference.
    filled : float
        Fraction of the window that is filled.
    recentres : bool
        Whether the model has a recentring reference.
    quality : list of str
        State of each channel in the second before a decision; empty for a good channel. See
        :meth:`check_electrodes`.

    See Also
    --------
    Decision : Class probabilities of one window.
    spdtokens.runtime.Session : Decode trials one by one, without a stream.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import make_decoder
    >>> from spdtokens.inference import as_decoder
    >>> from spdtokens.inference.live import LiveDecoder
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20, 3, 200))  # trials of 2 s at 100 Hz
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> live = LiveDecoder(as_decoder(pipeline, ch_names=("C3", "Cz", "C4")), step=0.5)
    >>> decisions = live.feed(rng.standard_normal((3, 300)))
    >>> [decision.time for decision in decisions]
    [1.99, 2.49, 2.99]
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
                "The model must decode signals to be used on a stream, got a model of covariance "
                "matrices. Train one on recordings with `spdtokens train`."
            )
        if not (np.isfinite(step) and round(step * decoder.sfreq) >= 1):
            raise LiveError(
                f"step must be >= {1 / decoder.sfreq:.4g} s (one sample), got {step:g}."
            )
        if gap is not None and not gap > 0:
            raise LiveError(f"gap must be > 0, got {gap:g}.")
        self.decoder = decoder
        self.sfreq = float(decoder.sfreq)
        self.step = round(step * self.sfreq)
        self.recentres = decoder.recentring is not None
        self._tell = tell
        self._session = decoder.session()
        self._ring = Ring(len(decoder.ch_names), decoder.n_samples)
        self._timeline = Timeline(self.sfreq, gap)
        self._refusing, self._checked = False, True
        self._lost_in_gaps = 0
        self.taken = self.gaps = self.decided = self.withheld = self.learnt = 0
        self.quality = [""] * len(decoder.ch_names)
        self._told: dict[tuple[str, str], int] = {}
        self.restart()

    @property
    def lost(self) -> int:
        """Number of samples lost, according to the time stamps."""
        return self._lost_in_gaps + self._timeline.slipped

    @property
    def filled(self) -> float:
        """Fraction of the window that is filled."""
        return min(1.0, self._ring.filled / self.decoder.n_samples)

    def feed(self, chunk: ArrayLike, stamps: ArrayLike | None = None) -> list[Decision]:
        """Process the next samples.

        Parameters
        ----------
        chunk : array_like, shape (n_channels, n_samples)
            Samples of the channels in the order of ``decoder.ch_names``; any number of samples.
        stamps : array_like, shape (n_samples,), default=None
            Time stamps in seconds. If None, the samples follow the previous ones without a gap.

        Returns
        -------
        list of Decision
            Decisions that became due, in order of time.

        Raises
        ------
        LiveError
            If the chunk has another number of channels, or there is not one finite time stamp per
            sample.
        """
        X = np.asarray(chunk, dtype=np.float64)
        if X.ndim != 2 or len(X) != len(self.decoder.ch_names):
            raise LiveError(
                f"chunk must have shape ({len(self.decoder.ch_names)} channels, samples), got "
                f"{X.shape}."
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
                    f"{counted(piece.slip, 'sample')} lost within two seconds; too few to restart "
                    "the window",
                )
        return decisions

    def restart(self) -> None:
        """Empty the window, as after a lost connection; the recentring reference is kept."""
        self._timeline.begin_anew()
        self._rate = self.sfreq  # the sender may be another one
        self._refill()

    def _refill(self) -> None:
        self.check_electrodes()
        self._ring.clear()
        self._due = self._learn_at = self.decoder.n_samples

    def _off(self, share: float) -> bool:
        return abs(self._rate / self.sfreq - 1) > share

    def _measured(self, rate: float) -> None:
        """Store the measured rate, and report when it becomes wrong or right."""
        before, self._rate = self._off(OTHER_RATE), rate
        if self._off(OTHER_RATE) != before:
            again = f"sampling rate is {self.sfreq:g} Hz again, according to the time stamps"
            self._say("rate", again if before else self._rate_text())

    def _rate_text(self) -> str:
        lost = ", or look for lost samples" if self._rate < self.sfreq else ""
        return (
            f"sampling rate must be {self.sfreq:g} Hz, got {self._rate:.4g} Hz according to the "
            f"time stamps. Set the amplifier to {self.sfreq:g} Hz{lost}"
        )

    def _tell_gap(self, seconds: float) -> None:
        self.gaps += 1
        what = f"time stamps jumped by {seconds:.3g} s"
        if seconds > 0:
            lost = max(1, round(seconds * self.sfreq))
            self._lost_in_gaps += lost
            what = f"{counted(lost, 'sample')} ({seconds:.3g} s) lost"
        wait = self.decoder.n_samples / self.sfreq
        self._say("gap", f"{what}; next decision after {wait:.3g} s without a gap")
        self._refill()

    def _take(self, X: FloatArray, times: FloatArray, decisions: list[Decision]) -> None:
        start = 0
        while start < X.shape[1]:
            self.check_electrodes()
            n = min(X.shape[1] - start, self._due - self._ring.filled, self._ring.n_samples)
            self._ring.append(X[:, start : start + n])
            self.taken += n
            start += n
            if self._ring.filled == self._due:
                decisions.append(self._decide(float(times[start - 1])))
                self._due += self.step
                self._checked = False

    def _decide(self, stamp: float) -> Decision:
        began = time.perf_counter()
        window = self._ring.last(self.decoder.n_samples)
        learn = self.recentres and self._ring.filled >= self._learn_at
        found, reason = None, self._rate_text() if self._off(WRONG_RATE) else ""
        if not reason and (ratio := times_as_large(self.decoder, window[None])) is not None:
            reason = (
                f"signals are {ratio:.2g} times as large as the training data. If the stream has "
                "another unit, set it with --unit"
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
                self._say("withheld", f"decisions withheld: {reason}")
            else:
                self._say("decides again", "decisions resumed")
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
        """Explain why the model refused a window; name the bad channels, if any."""
        for bad, what in (
            (~np.isfinite(window).all(1), ": NaN or infinite samples in the window"),
            (np.ptp(window, axis=1) == 0, " flat for a whole window"),
        ):
            if bad.any():
                return listed(np.array(self.decoder.ch_names)[bad].tolist()) + what
        return str(error)

    def check_electrodes(self) -> None:
        """Judge the electrodes by the second before the last decision, and report changes.

        :meth:`feed` does this when the next samples come and not together with a decision, whose
        latency would grow by a fifth. Call it earlier, after publishing a decision, to use the time
        until then.
        """
        if self._checked:
            return
        self._checked = True
        words = judge(self._ring.last(max(2, round(self.sfreq))))
        news: dict[str, list[str]] = {}
        for name, word, before in zip(self.decoder.ch_names, words, self.quality, strict=True):
            # Electrodes close to a limit change state often: do not repeat recent reports.
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
    """Compare the amplitude of signals with the training data.

    Parameters
    ----------
    decoder : Decoder
        The model; ``about["amplitude"]`` is the amplitude of its training data.
    X : ndarray, shape (n_trials, n_channels, n_samples)
        Signals.

    Returns
    -------
    float or None
        Ratio of the amplitudes if it suggests another unit, else None.
    """
    trained = decoder.about.get("amplitude")
    if not isinstance(trained, int | float) or not trained > 0:
        return None  # skip the median below, which takes 5 % of the time of a decision
    with np.errstate(invalid="ignore"):
        spread = np.median(np.concatenate([part.std(-1) for part in in_parts(X)]))
    ratio = float(spread) / trained
    return ratio if spread > 0 and not 1 / OTHER_UNIT < ratio < OTHER_UNIT else None


def listed(names: Sequence[str], most: int = 6) -> str:
    """Join names by commas; count those beyond ``most``."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


class Ring:
    """Buffer of the last samples, in which a window is one block of memory.

    Samples are appended to a block of several windows. At its end, the last window is moved to the
    front, which is cheaper than moving it for every chunk.

    Parameters
    ----------
    n_channels : int
        Number of channels.
    n_samples : int
        Number of samples of a window.
    """

    def __init__(self, n_channels: int, n_samples: int) -> None:
        self.n_samples = n_samples
        self._block = np.zeros((n_channels, 4 * n_samples))
        self._end = 0
        self.filled = 0

    def append(self, chunk: NDArray[np.float64]) -> None:
        """Append samples (n_channels, n), at most one window."""
        n = chunk.shape[1]
        if self._end + n > self._block.shape[1]:
            kept = min(self.filled, self.n_samples)
            self._block[:, :kept] = self._block[:, self._end - kept : self._end]
            self._end = kept
        self._block[:, self._end : self._end + n] = chunk
        self._end += n
        self.filled += n

    def last(self, n: int) -> NDArray[np.float64]:
        """Return a view of the last samples, at most ``n`` and one window."""
        return self._block[:, self._end - min(n, self.filled, self.n_samples) : self._end]

    def clear(self) -> None:
        """Remove all samples."""
        self._end = self.filled = 0


def judge(signal: NDArray[np.float64]) -> list[str]:
    """Judge each channel in comparison with the others.

    Parameters
    ----------
    signal : ndarray, shape (n_channels, n_samples)
        The signal, not filtered.

    Returns
    -------
    list of str
        Per channel ``'not a number'``, ``'flat'`` (at least in the last third), ``'clipped'``,
        ``'huge'``, ``'noisy'``, ``'weak'``, or ``''`` for a good channel.
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
    """Find channels that stay at their extreme values repeatedly."""
    low, high = signal.min(1, keepdims=True), signal.max(1, keepdims=True)
    at_limit = (signal == low) | (signal == high)
    stays = at_limit & (np.diff(signal, axis=1, prepend=np.nan) == 0)
    begins = (np.diff(stays, axis=1) & stays[:, 1:]).sum(1)
    return np.asarray((stays.mean(1) > CLIPPED) & (begins >= 3))


@dataclass(frozen=True)
class Piece:
    """Samples ``start`` to ``stop`` of a chunk, without a gap.

    Attributes
    ----------
    start, stop : int
        First sample, and the one after the last.
    gap : float or None
        Seconds missing before these samples; negative if the clock went back.
    slip : int
        Number of samples, too few for a gap, found missing in the second that ends here.
    rate : float or None
        Samples per second in the 10 s that end here, according to the time stamps.
    """

    start: int
    stop: int
    gap: float | None = None
    slip: int = 0
    rate: float | None = None


class Timeline:
    """Find gaps in time stamps, and measure the sampling rate.

    A jump beyond the tolerance is a gap. Smaller losses are found within two seconds: a late chunk
    is followed by punctual ones, but after a loss all time stamps are later than the number of
    samples implies. Clock drift is much slower.

    The result does not depend on the size of the chunks.

    Parameters
    ----------
    sfreq : float
        Nominal sampling rate in Hz.
    tolerance : float, default=None
        Delay of a time stamp, in seconds, that counts as a gap. If None, it is learnt.

    Attributes
    ----------
    slipped : int
        Number of samples lost in portions too small for a gap.
    """

    def __init__(self, sfreq: float, tolerance: float | None = None) -> None:
        self._period = 1 / sfreq
        self._second = max(2, round(sfreq))
        self._fixed = tolerance
        #: Largest recent jitter: now, and one second ago.
        self._jitter: float | None = None
        self._jitter_before = 0.0
        self.slipped = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Start from the next sample, as after a gap; the learnt jitter is kept."""
        self._first = self._last = 0.0
        self._count = 0
        self._largest, self._offset = 0.0, np.inf  # of the current second
        self._baseline: float | None = None
        self._before_stretch = 0.0

    @property
    def tolerance(self) -> float:
        """Current delay, in seconds, beyond which a time stamp counts as a gap."""
        if self._fixed is not None:
            return self._fixed
        if self._jitter is None:
            return MOST
        return float(np.clip(TIMES * self._jitter, max(LEAST, 1.5 * self._period), MOST))

    def pieces(self, stamps: NDArray[np.float64]) -> Iterator[Piece]:
        """Split a chunk at gaps and at whole seconds.

        Parameters
        ----------
        stamps : ndarray, shape (n_samples,)
            Time stamps of the samples that follow those of the previous call.

        Yields
        ------
        Piece
            Samples without a gap. All pieces must be consumed.
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
        """Measure the sampling rate at the end of every 10 s.

        It compares the earliest time stamps of two seconds, so that late ones have no effect.
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
        """Update the jitter; return the number of samples lost in the second."""
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
        if slip > 0:  # a loss, not jitter
            self._jitter = self._jitter_before = before
        return max(slip, 0)
