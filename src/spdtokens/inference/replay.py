"""Play a recording as a live LSL stream, with its markers as a second one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets import Dataset, load_dataset
from spdtokens.datasets.recordings import holds_epochs, is_mne_file, open_mne
from spdtokens.errors import LiveError
from spdtokens.inference.lsl import UNITS

#: Seconds for which a stream is kept after its last sample: what is sent is not yet read.
LINGER = 1.0
#: Longest sleep, so that a change of the clock or Ctrl-C is noticed.
NAP = 0.2


@dataclass(frozen=True)
class Playable:
    """A signal with markers.

    Attributes
    ----------
    title : str
    X : ndarray, shape (channels, samples)
    sfreq : float
    ch_names : tuple of str
    unit : str
        As LSL names it; ``'none'`` if not known.
    markers : list of (int, str)
        Sample and text, in the order of time.
    """

    title: str
    X: NDArray[np.float64]
    sfreq: float
    ch_names: tuple[str, ...]
    unit: str
    markers: list[tuple[int, str]]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.X.shape[1] / self.sfreq


def open_playable(source: str, subject: str | None = None, session: str | None = None) -> Playable:
    """What a name or path stands for.

    Parameters
    ----------
    source : str
        A recording that MNE reads; epochs (``-epo.fif``), an ``.npz`` file or a folder of files, a
        data set's name: their trials one after another.
    subject, session : str, optional
        Of a data set; the first if not given.

    Raises
    ------
    LiveError, DataError
    """
    path = Path(source)
    if path.is_file() and is_mne_file(path) and not holds_epochs(path):
        if subject or session:
            raise LiveError(f"{path} is one recording: --subject and --session are for data sets.")
        return _raw(path)
    return _trials(load_dataset(source), subject, session)


def _trials(dataset: Dataset, subject: str | None, session: str | None) -> Playable:
    if dataset.sfreq is None:
        raise LiveError(f"{dataset.name} holds covariance matrices: there is no signal to play.")
    subject = subject or dataset.subjects[0]
    session = session or dataset.sessions(subject)[0]
    recording = dataset.load(subject, session)
    n, channels, samples = recording.X.shape
    X = np.asarray(recording.X, np.float64).transpose(1, 0, 2).reshape(channels, n * samples)
    units = (name for name, volts in UNITS.items() if volts == dataset.unit_in_volts)
    return Playable(
        title=f"{dataset.name}, subject {subject}, session {session}",
        X=X,
        sfreq=dataset.sfreq,
        ch_names=dataset.ch_names,
        unit=next(units, "none"),
        markers=[(i * samples, dataset.classes[code]) for i, code in enumerate(recording.y)],
    )


def _raw(path: Path) -> Playable:
    import mne

    raw = open_mne(path)
    try:
        raw.pick("eeg")
        X = raw.get_data()
    except Exception as error:
        raise LiveError(
            f"{path} cannot be played ({error}). Give a recording with EEG channels."
        ) from error
    events, codes = mne.events_from_annotations(raw, regexp=None, verbose="error")
    texts = {code: str(text) for text, code in codes.items()}
    return Playable(
        title=path.name,
        X=X,
        sfreq=float(raw.info["sfreq"]),
        ch_names=tuple(raw.ch_names),
        unit="volts",
        markers=[(int(at - raw.first_samp), texts[code]) for at, _, code in events],
    )


class Replay:
    """An LSL outlet that plays a recording.

    Stamps are exact: the first sample's time plus the count over the rate. Played faster or slower
    than it was recorded, the stream keeps its nominal rate and stamps tell the time of the
    recording, which then goes faster or slower than the clock.

    Parameters
    ----------
    playable : Playable
    name : str
        Of the stream; its markers are the stream ``NAME-markers``.
    speed : float
    chunk : float
        Seconds of the recording sent at once.
    """

    def __init__(
        self, playable: Playable, name: str, *, speed: float = 1.0, chunk: float = 0.02
    ) -> None:
        from mne_lsl.lsl import StreamInfo, StreamOutlet, local_clock

        if not (speed > 0 and chunk > 0):
            raise LiveError(f"speed and chunk must be above zero, got {speed:g} and {chunk:g}.")
        self.playable, self.name, self.speed = playable, name, speed
        self._n = max(1, round(chunk * playable.sfreq))
        self._clock = local_clock
        source = f"spdtokens-replay-{name}-{os.getpid()}"
        shape = (len(playable.ch_names), playable.sfreq, "float64")
        info: Any = StreamInfo(name, "EEG", *shape, source)
        info.set_channel_names(list(playable.ch_names))
        info.set_channel_types("eeg")
        info.set_channel_units(playable.unit)
        info.desc.append_child_value("recording", playable.title)
        info.desc.append_child_value("speed", f"{speed:g}")
        self._signal = StreamOutlet(info)
        about = (f"{name}-markers", "Markers", 1, 0.0, "string", f"{source}-markers")
        self._markers = StreamOutlet(StreamInfo(*about))
        # (samples, channels) in one block, as it is sent.
        self._samples = np.ascontiguousarray(playable.X.T)

    def wait(self, seconds: float) -> bool:
        """Until someone listens, at most so long; whether someone does."""
        end = time.monotonic() + seconds
        while not (heard := bool(self._signal.wait_for_consumers(NAP))) and time.monotonic() < end:
            pass  # in short waits, so that Ctrl-C is heard
        return heard

    def play(self, *, loop: bool = False, tell: Callable[[float], None] = lambda _: None) -> None:
        """Send all of it, again and again if ``loop``.

        Parameters
        ----------
        loop : bool
        tell : callable
            Told the second of the recording that was reached, after each chunk.
        """
        total, sfreq = len(self._samples), self.playable.sfreq
        begin = self._clock()
        done = 0
        while True:
            for start in range(0, total, self._n):
                part = self._samples[start : start + self._n]
                n = len(part)
                # Sent when its last sample would have been measured.
                due = begin + (done + n - 1) / (sfreq * self.speed)
                while (left := due - self._clock()) > 0:
                    time.sleep(min(left, NAP))
                self._send(part, begin + (done + np.arange(n)) / sfreq, start)
                done += n
                tell((start + n) / sfreq)
            if not loop:
                return

    def close(self) -> None:
        """End the streams, once what was sent can have been read."""
        time.sleep(LINGER)
        self._signal._del()
        self._markers._del()

    def _send(self, part: NDArray[np.float64], stamps: NDArray[np.float64], start: int) -> None:
        for at, text in self.playable.markers:
            if start <= at < start + len(part):
                self._markers.push_sample([text], float(stamps[at - start]))
        if len(part) == 1:
            self._signal.push_sample(part[0], float(stamps[0]))
        else:
            self._signal.push_chunk(part, stamps)
