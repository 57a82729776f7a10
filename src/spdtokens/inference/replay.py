"""Play a recording as a live LSL stream, and its markers as a second one."""

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
from spdtokens.datasets.units import UNITS
from spdtokens.errors import LiveError

#: Seconds to keep a stream open after its last sample, so that readers receive it.
LINGER = 1.0
#: Maximum sleep in seconds, so that Ctrl-C and changes of the clock are noticed.
NAP = 0.2


@dataclass(frozen=True)
class Playable:
    """Continuous signal with markers.

    Attributes
    ----------
    title : str
        Description of the source.
    X : ndarray, shape (n_channels, n_samples)
        The signal.
    sfreq : float
        Sampling rate in Hz.
    ch_names : tuple of str
        Channel names.
    unit : str
        Unit as LSL names it; ``'none'`` if unknown.
    markers : list of (int, str)
        Sample and text of each marker, in order of time.
    """

    title: str
    X: NDArray[np.float64]
    sfreq: float
    ch_names: tuple[str, ...]
    unit: str
    markers: list[tuple[int, str]]

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.X.shape[1] / self.sfreq


def open_playable(source: str, subject: str | None = None, session: str | None = None) -> Playable:
    """Load a recording or a data set to be played.

    Parameters
    ----------
    source : str
        A recording that MNE reads; or epochs (``-epo.fif``), an ``.npz`` file, a folder of files or
        the name of a data set, whose trials are concatenated.
    subject, session : str, default=None
        Subject and session of a data set. If None, the first.

    Returns
    -------
    Playable
        The signal and its markers.

    Raises
    ------
    LiveError, DataError
        If the source cannot be read or contains no signals.
    """
    path = Path(source)
    if path.is_file() and is_mne_file(path) and not holds_epochs(path):
        if subject or session:
            raise LiveError(
                f"--subject and --session apply to data sets only, but {path} is one recording."
            )
        return _raw(path)
    return _trials(load_dataset(source), subject, session)


def _trials(dataset: Dataset, subject: str | None, session: str | None) -> Playable:
    if dataset.sfreq is None:
        raise LiveError(
            f"{dataset.name} must contain signals to be played, got covariance matrices."
        )
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
            f"{path} must be a recording with EEG channels to be played ({error})."
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
    """LSL stream that plays a recording.

    Time stamps are exact: the time of the first sample plus the sample number over the sampling
    rate. At another speed the stream keeps its nominal rate, and the time stamps follow the time of
    the recording, which then differs from the clock.

    Parameters
    ----------
    playable : Playable
        The signal.
    name : str
        Name of the stream; the stream of markers is called ``NAME-markers``.
    speed : float, default=1.0
        Speed relative to the recording.
    chunk : float, default=0.02
        Seconds of the recording sent at once.
    """

    def __init__(
        self, playable: Playable, name: str, *, speed: float = 1.0, chunk: float = 0.02
    ) -> None:
        from mne_lsl.lsl import StreamInfo, StreamOutlet, local_clock

        if not (speed > 0 and chunk > 0):
            raise LiveError(f"speed and chunk must be > 0, got {speed:g} and {chunk:g}.")
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
        # (n_samples, n_channels) in C order, as LSL sends it.
        self._samples = np.ascontiguousarray(playable.X.T)

    def wait(self, seconds: float) -> bool:
        """Wait for a listener, at most some seconds; return whether there is one."""
        end = time.monotonic() + seconds
        while not (heard := bool(self._signal.wait_for_consumers(NAP))) and time.monotonic() < end:
            pass  # short waits that Ctrl-C can interrupt
        return heard

    def play(self, *, loop: bool = False, tell: Callable[[float], None] = lambda _: None) -> None:
        """Send the recording.

        Parameters
        ----------
        loop : bool, default=False
            Whether to repeat it until interrupted.
        tell : callable, default=lambda seconds: None
            Called after each chunk with the position in the recording, in seconds.
        """
        total, sfreq = len(self._samples), self.playable.sfreq
        begin = self._clock()
        done = 0
        while True:
            for start in range(0, total, self._n):
                part = self._samples[start : start + self._n]
                n = len(part)
                # A chunk is sent when its last sample would have been measured.
                due = begin + (done + n - 1) / (sfreq * self.speed)
                while (left := due - self._clock()) > 0:
                    time.sleep(min(left, NAP))
                self._send(part, begin + (done + np.arange(n)) / sfreq, start)
                done += n
                tell((start + n) / sfreq)
            if not loop:
                return

    def close(self) -> None:
        """End the streams after a delay in which readers receive the last samples."""
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
