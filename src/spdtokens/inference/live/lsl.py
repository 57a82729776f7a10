"""Streams of Lab Streaming Layer (LSL): find one, read it, and notice when it is gone.

The only file that decodes and imports mne-lsl; inside functions, as it is an extra.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._extras import how_to_install, is_installed
from spdtokens.errors import LiveError, StreamLostError
from spdtokens.inference.live.channels import pick

FloatArray = NDArray[np.float64]
#: What senders call units, in volts.
UNITS = {
    **dict.fromkeys(("volts", "volt", "v"), 1.0),
    **dict.fromkeys(("millivolts", "millivolt", "mv", "-3"), 1e-3),
    **dict.fromkeys(("microvolts", "microvolt", "uv", "µv", "μv", "-6"), 1e-6),
    **dict.fromkeys(("nanovolts", "nanovolt", "nv", "-9"), 1e-9),
}
#: Seconds of signal that are kept for us while we are busy.
BUFFERED = 60
#: Samples taken at once at most.
AT_ONCE = 4096
#: Type of the stream of decisions, which is never read.
DECISIONS = "Probabilities"
#: Seconds in which other streams that may be meant are to answer, and more than there will be.
OTHERS, ALL = 1.0, 1000


def need_lsl() -> None:
    """Refuse to go on without mne-lsl.

    Raises
    ------
    LiveError
    """
    if not is_installed("live"):
        raise LiveError(
            f"Live streams need mne-lsl, which is not installed: {how_to_install('live')}"
        )


@dataclass(frozen=True)
class Wanted:
    """Which stream to read, and what it must bring.

    Attributes
    ----------
    name : str or None
        Its name or its source id; None for the only stream of type EEG.
    ch_names : tuple of str
    sfreq : float
    given : tuple of str or None
        The stream's channels as the user names them.
    unit_in_volts : float or None
        Of the model.
    unit : float or None
        Of the stream, in volts, as the user has it; as the stream has it if not given.
    """

    name: str | None
    ch_names: tuple[str, ...]
    sfreq: float
    given: tuple[str, ...] | None = None
    unit_in_volts: float | None = None
    unit: float | None = None

    @property
    def title(self) -> str:
        """For messages."""
        return f"stream {self.name!r}" if self.name else "stream of type EEG"


def find(wanted: Wanted, timeout: float, minimum: int = 1) -> list[Any]:
    """Descriptions of the streams that may be meant, the newest first.

    Parameters
    ----------
    wanted : Wanted
    timeout : float
        Seconds to search; half of them by name, and if there is none, half by source id.
    minimum : int
        Return as soon as so many are found.
    """
    from mne_lsl.lsl import resolve_streams

    searches = [{"stype": "EEG"}]
    if wanted.name is not None:
        searches = [{"name": wanted.name}, {"source_id": wanted.name}]
    for by in searches:
        found = resolve_streams(timeout / len(searches), minimum=minimum, **by)
        if found and all(info.stype == DECISIONS for info in found):
            found = resolve_streams(timeout / len(searches), minimum=len(found) + 1, **by)
        if candidates := [info for info in found if info.stype != DECISIONS]:
            return sorted(candidates, key=lambda info: -info.created_at)
    return []


def listing(timeout: float = 1.0) -> str:
    """The streams that are there, for messages; streams of decisions aside."""
    from mne_lsl.lsl import resolve_streams

    found = [info for info in resolve_streams(timeout=timeout) if info.stype != DECISIONS]
    if not found:
        return "No LSL stream of signals was found"
    return "There are: " + "; ".join(sorted(map(_described, found)))


def _described(info: Any) -> str:
    return (
        f"{info.name!r} (type {info.stype or '-'}, {info.n_channels} channels, {info.sfreq:g} Hz, "
        f"source id {info.source_id!r}, on {info.hostname})"
    )


def only(wanted: Wanted, found: Sequence[Any], waited: float) -> Any:
    """The stream to begin with, of those that were found in so many seconds.

    Raises
    ------
    LiveError
        If there is none, or more than one that may be meant.
    """
    if not found:
        raise LiveError(
            f"No {wanted.title} within {waited:g} s. {listing()}. Start the sender, name the "
            "stream with --stream, wait longer with --timeout; on a network, look at the firewall. "
            "A recording is played as a stream by: spdtokens replay."
        )
    # The search ends with the first answer: the others have yet to come.
    found = list(dict.fromkeys((*find(wanted, OTHERS, ALL), *found)))
    if len(found) == 1:
        return found[0]
    names, ids = [info.name for info in found], [info.source_id for info in found]
    choices = [name for name in names if names.count(name) == 1]
    choices += [key for key in ids if key and ids.count(key) == 1 and key not in names]
    remedy = "They cannot be told apart: give them different names or source ids."
    if choices:
        remedy = f"Choose by name or source id, such as --stream {shlex.quote(choices[0])}."
    lines = [f"There is more than one {wanted.title}:", *sorted(map(_described, found)), remedy]
    raise LiveError("\n".join(lines))


class Inlet:
    """A connection to a stream, from which the model's channels are read, in the model's unit.

    Parameters
    ----------
    info : mne_lsl.lsl.StreamInfo
    wanted : Wanted
    timeout : float
        Seconds to wait for the connection.

    Raises
    ------
    LiveError
        If the stream has not the model's channels and rate.
    StreamLostError
        If it is gone already.
    """

    def __init__(self, info: Any, wanted: Wanted, timeout: float = 10.0) -> None:
        from mne_lsl.lsl import StreamInlet

        self.uid = info.uid
        self.name, self.hostname, self.n_channels = info.name, info.hostname, info.n_channels
        check_rate(info, wanted)
        # Lost streams are looked for by us: liblsl would wait in silence, and for ever if the
        # sender comes back with other channels.
        self._inlet = StreamInlet(info, max_buffered=BUFFERED, recover=False)
        try:
            self._inlet.open_stream(timeout)
            full = self._inlet.get_sinfo(timeout)
            self._picks = pick(
                wanted.ch_names, described_names(full), info.n_channels, wanted.given
            )
        except (TimeoutError, RuntimeError) as error:
            self.close()
            raise StreamLostError(str(error)) from error
        except LiveError:
            self.close()
            raise
        self.factor = np.ones((len(self._picks), 1))
        if wanted.unit_in_volts is not None:
            given = None if wanted.unit is None else np.float64(wanted.unit)
            units = described_units(full, self._picks) if given is None else given
            if units is not None:
                self.factor = self.factor * units / wanted.unit_in_volts

    def pull(self, timeout: float) -> tuple[FloatArray, FloatArray]:
        """Samples (channels, samples) and their stamps by the sender's clock.

        Waits for the first sample at most ``timeout`` seconds, and for no other.

        Raises
        ------
        StreamLostError
        """
        try:
            sample, stamp = self._inlet.pull_sample(timeout)
            if stamp is None:
                return np.empty((len(self._picks), 0)), np.empty(0)
            # Both are views of memory that the next call overwrites.
            chunks, stamps = [np.array(sample)[None]], [np.array([stamp])]
            more, later = self._inlet.pull_chunk(0.0, AT_ONCE)
            if len(later):
                chunks.append(np.array(more))
                stamps.append(np.array(later))
        except (TimeoutError, RuntimeError) as error:
            raise StreamLostError(str(error)) from error
        X = np.concatenate(chunks).T[self._picks].astype(np.float64)
        return X * self.factor, np.concatenate(stamps)

    def correction(self, timeout: float = 0.5) -> float | None:
        """Seconds to be added to the sender's stamps for this machine's clock; None if unknown.

        Waits at the first call only, unless the sender does not answer.
        """
        try:
            return float(self._inlet.time_correction(timeout))
        except (TimeoutError, RuntimeError):
            return None

    def close(self) -> None:
        """Let go of the stream."""
        self._inlet._del()


def check_rate(info: Any, wanted: Wanted) -> None:
    """Refuse streams of another kind or rate.

    Raises
    ------
    LiveError
    """
    if info.dtype == "string":
        raise LiveError(
            f"Stream {info.name!r} carries text, not signals. Choose another with --stream. "
            f"{listing()}."
        )
    if abs(info.sfreq - wanted.sfreq) > 1e-3 * wanted.sfreq:
        rate = f"{info.sfreq:g} samples a second" if info.sfreq else "no regular rate"
        raise LiveError(
            f"Stream {info.name!r} has {rate}, and the model decodes {wanted.sfreq:g}. Set the "
            f"amplifier to {wanted.sfreq:g} Hz, or train a model on recordings of the stream's "
            "rate; live signals are not resampled."
        )


def described_names(info: Any) -> Sequence[str | None] | None:
    """Channel names of a description; None if it names none or another number of channels."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong number of names, which we look at ourselves
        names = info.get_channel_names()
    return names if names is not None and len(names) == info.n_channels else None


def described_units(info: Any, picks: Sequence[int]) -> NDArray[np.float64] | None:
    """Volts of a unit of each picked channel, shape (channels, 1); None if one is not told."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = info.get_channel_units()
    if names is None or len(names) != info.n_channels:
        return None
    volts = [UNITS.get(str(names[i]).strip().casefold()) for i in picks]
    if any(v is None for v in volts):
        return None
    return np.array(volts, dtype=np.float64)[:, None]
