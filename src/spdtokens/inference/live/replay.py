"""Play a recording as a live stream, with its markers as a second one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spdtokens.errors import LiveError
from spdtokens.inference.live.playable import Playable

#: Seconds for which a stream is kept after its last sample: what is sent is not yet read.
LINGER = 1.0
#: Longest sleep, so that a change of the clock or Ctrl-C is noticed.
NAP = 0.2


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

        if not speed > 0:
            raise LiveError(f"A speed of {speed:g} plays nothing. Give one above zero.")
        if not chunk > 0:
            raise LiveError(f"Chunks of {chunk:g} s hold nothing. Give a time above zero.")
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
        return bool(self._signal.wait_for_consumers(seconds))

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
                self._sleep_until(begin + (done + n - 1) / (sfreq * self.speed))
                stamps = begin + (done + np.arange(n)) / sfreq
                self._send(part, stamps, start)
                done += n
                tell((start + n) / sfreq)
            if not loop:
                return

    def close(self) -> None:
        """End the streams, once what was sent can have been read."""
        time.sleep(LINGER)
        self._signal._del()
        self._markers._del()

    def _send(self, part: Any, stamps: Any, start: int) -> None:
        for at, text in self._between(start, start + len(part)):
            self._markers.push_sample([text], float(stamps[at - start]))
        if len(part) == 1:
            self._signal.push_sample(part[0], float(stamps[0]))
        else:
            self._signal.push_chunk(part, stamps)

    def _between(self, start: int, stop: int) -> list[tuple[int, str]]:
        from bisect import bisect_left

        markers = self.playable.markers
        low, high = (bisect_left(markers, at, key=lambda marker: marker[0]) for at in (start, stop))
        return markers[low:high]

    def _sleep_until(self, due: float) -> None:
        while (left := due - self._clock()) > 0:
            time.sleep(min(left, NAP))
