"""From chunks of signal to decisions, whoever brings the chunks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens._tables import counted
from spdtokens.datasets.base import OTHER_UNIT
from spdtokens.errors import LiveError, UserError
from spdtokens.inference.live.events import Event, Tell, tell_nobody
from spdtokens.inference.live.quality import judge, listed
from spdtokens.inference.live.ring import Ring
from spdtokens.inference.live.timeline import Timeline
from spdtokens.runtime import Decoder

FloatArray = NDArray[np.float64]
#: Share by which the rate may be off before it is told, and before nothing is decided.
OTHER_RATE, WRONG_RATE = 0.01, 0.1
#: Seconds for which the same is not told again of an electrode.
QUIET = 30.0


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
        stream if not given (:class:`~spdtokens.inference.live.timeline.Timeline`).
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
        tell: Tell = tell_nobody,
    ) -> None:
        if decoder.sfreq is None:
            raise LiveError(
                "The model decodes covariance matrices, and a stream brings signals. Train one on "
                "recordings: spdtokens train."
            )
        if not (np.isfinite(step) and round(step * decoder.sfreq) >= 1):
            raise LiveError(
                f"A step of {step:g} s is less than a sample of {1 / decoder.sfreq:.4g} s. Give a "
                "longer one."
            )
        if gap is not None and not gap > 0:
            raise LiveError(f"A gap of {gap:g} s is none. Give a time above zero.")
        self.decoder = decoder
        self.sfreq = float(decoder.sfreq)
        self.step = round(step * self.sfreq)
        self.recentres = decoder.recentring is not None
        self._amplitude = _positive(decoder.about.get("amplitude"))
        self._tell = tell
        self._session = decoder.session()
        self._ring = Ring(len(decoder.ch_names), decoder.n_samples)
        self._timeline = Timeline(self.sfreq, gap)
        self._due = decoder.n_samples
        self._learn_at = decoder.n_samples
        self._refusing = False
        self._rate = self.sfreq
        self._lost_in_gaps = 0
        self.taken = self.gaps = self.decided = self.withheld = self.learnt = 0
        self.quality = [""] * len(decoder.ch_names)
        self._told: dict[tuple[int, str], int] = {}

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
        if stamps is None:
            times = (self.taken + np.arange(n)) / self.sfreq
        else:
            times = np.asarray(stamps, dtype=np.float64)
            if times.shape != (n,):
                raise LiveError(f"{counted(n, 'sample')} came with {times.shape} time stamps.")
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
        self._ring.clear()
        self._due = self._learn_at = self.decoder.n_samples

    def _off(self, share: float) -> bool:
        return abs(self._rate / self.sfreq - 1) > share

    def _measured(self, rate: float) -> None:
        """Take the rate of the last seconds, and tell if it went wrong or right."""
        before, self._rate = self._off(OTHER_RATE), rate
        if self._off(OTHER_RATE) and not before:
            self._say("rate", self._rate_text())
        elif before and not self._off(OTHER_RATE):
            self._say("rate", f"samples come at {self.sfreq:g} Hz again, by their time stamps")

    def _rate_text(self) -> str:
        lost = ", or look for lost samples" if self._rate < self.sfreq else ""
        return (
            f"samples come at {self._rate:.4g} Hz by their time stamps, and the model decodes "
            f"{self.sfreq:g}. Set the amplifier to {self.sfreq:g} Hz{lost}"
        )

    def _tell_gap(self, seconds: float) -> None:
        self.gaps += 1
        wait = self.decoder.n_samples / self.sfreq
        after = f"the next decision comes after {wait:.3g} s of whole signal"
        if np.isfinite(seconds) and seconds > 0:
            lost = max(1, round(seconds * self.sfreq))
            self._lost_in_gaps += lost
            self._say("gap", f"{counted(lost, 'sample')} ({seconds:.3g} s) lost; {after}")
        else:
            self._say("gap", f"time stamps went astray by {seconds:.3g} s; {after}")
        self._refill()

    def _take(self, X: FloatArray, times: FloatArray, decisions: list[Decision]) -> None:
        start = 0
        while start < X.shape[1]:
            n = min(X.shape[1] - start, self._due - self._ring.filled, self._ring.n_samples)
            self._ring.append(X[:, start : start + n])
            self.taken += n
            start += n
            if self._ring.filled == self._due:
                decisions.append(self._decide(float(times[start - 1])))
                self._due += self.step
                self._look()

    def _decide(self, stamp: float) -> Decision:
        began = time.perf_counter()
        window = self._ring.window()
        learn = self.recentres and self._ring.filled >= self._learn_at
        found, reason = None, self._rate_text() if self._off(WRONG_RATE) else ""
        reason = reason or self._not_finite(window) or self._other_unit(window)
        if not reason:
            try:
                found = np.asarray(self._session.probabilities(window, learn=learn), np.float64)
            except (UserError, np.linalg.LinAlgError) as error:
                reason = self._explain(window, str(error))
            else:
                if not np.isfinite(found).all():
                    found, reason = None, "the model gave no numbers for this window"
        seconds = time.perf_counter() - began
        self._count(reason)
        if found is None:
            return Decision(self.taken, stamp, None, "", reason, False, seconds)
        if learn:
            self.learnt += 1
            self._learn_at = self._ring.filled + self.decoder.n_samples
        label = self.decoder.classes[int(found.argmax())]
        return Decision(self.taken, stamp, found, label, "", learn, seconds)

    def _count(self, reason: str) -> None:
        if reason:
            self.withheld += 1
            if not self._refusing:
                self._say("withheld", f"decisions are withheld: {reason}")
        else:
            self.decided += 1
            if self._refusing:
                self._say("decides again", "decisions are made again")
        self._refusing = bool(reason)

    def _not_finite(self, window: FloatArray) -> str:
        bad = np.flatnonzero(~np.isfinite(window).all(1))
        if not len(bad):
            return ""
        return f"{self._named(bad)}: samples of the window are not numbers"

    def _other_unit(self, window: FloatArray) -> str:
        if self._amplitude is None:
            return ""
        ratio = float(np.median(window.std(1))) / self._amplitude
        if ratio == 0 or 1 / OTHER_UNIT < ratio < OTHER_UNIT:
            return ""
        return (
            f"signals are {ratio:.2g} times as large as those the model was trained on. If they "
            "come in another unit, say which (--unit)"
        )

    def _explain(self, window: FloatArray, error: str) -> str:
        flat = np.flatnonzero(np.ptp(window, axis=1) == 0)
        return f"{self._named(flat)} flat for a whole window" if len(flat) else error

    def _named(self, channels: Sequence[int] | NDArray[np.int64]) -> str:
        return listed([self.decoder.ch_names[i] for i in channels])

    def _look(self) -> None:
        """Judge the electrodes by the last second, and tell what changed."""
        words = judge(self._ring.last(max(2, round(self.sfreq))))
        changed = [i for i, word in enumerate(words) if word != self.quality[i]]
        for word in sorted({words[i] for i in changed}):
            which = [i for i in changed if words[i] == word and self._is_news(i, word)]
            if which:
                kind, text = ("bad channel", word) if word else ("good channel", "good again")
                self._say(kind, f"{self._named(which)}: {text}")
        self.quality = words

    def _is_news(self, channel: int, word: str) -> bool:
        """Not what was told of the channel a moment ago: electrodes at a limit come and go."""
        last = self._told.get((channel, word))
        if last is not None and self.taken - last < QUIET * self.sfreq:
            return False
        self._told[channel, word] = self.taken
        return True

    def _say(self, kind: str, text: str) -> None:
        self._tell(Event(kind, text, self.taken))


def _positive(value: object) -> float | None:
    """A number above zero, or None."""
    return float(value) if isinstance(value, int | float) and value > 0 else None
