"""Find and read streams of Lab Streaming Layer (LSL), and publish decisions as a stream.

mne-lsl is an optional dependency and is imported inside functions.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from spdtokens._channels import plain_name
from spdtokens._extras import how_to_install, is_installed
from spdtokens.datasets.units import UNITS
from spdtokens.errors import LiveError, StreamLostError
from spdtokens.inference.live import Decision, listed

FloatArray = NDArray[np.float64]
#: Seconds of signal that liblsl buffers.
BUFFERED = 60
#: Seconds to wait for a connection, and for the offset of the sender's clock.
CONNECT, ANSWER = 10.0, 0.5
#: Maximum number of samples pulled at once.
AT_ONCE = 4096
#: Type of the streams of decisions, which are never read.
DECISIONS = "Probabilities"


def need_lsl() -> None:
    """Check that mne-lsl is installed.

    Raises
    ------
    LiveError
        If it is not.
    """
    if not is_installed("live"):
        raise LiveError(
            f"Live streams require mne-lsl, which is not installed: {how_to_install('live')}"
        )


@contextmanager
def liblsl_muted() -> Iterator[TextIO]:
    """Mute standard error, and return a file that still writes to it.

    liblsl reports lost connections on standard error, from its own threads and in the middle of the
    view. Events report them instead.
    """
    try:
        ours = sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:  # replaced, e.g. by a test runner
        yield sys.stderr
        return
    sys.stderr.flush()
    saved = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        with os.fdopen(os.dup(saved), "w", encoding=sys.stderr.encoding, buffering=1) as before:
            yield before
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


@dataclass(frozen=True)
class Wanted:
    """Stream to read, and what the model requires of it.

    Attributes
    ----------
    name : str or None
        Name or source id; None for the only stream of type EEG.
    ch_names : tuple of str
        Channels of the model.
    sfreq : float
        Sampling rate of the model in Hz.
    given : tuple of str or None
        Channel names of the stream, given by the user.
    unit_in_volts : float or None
        Unit of the model.
    unit : float or None
        Unit of the stream in volts, given by the user.
    """

    name: str | None
    ch_names: tuple[str, ...]
    sfreq: float
    given: tuple[str, ...] | None = None
    unit_in_volts: float | None = None
    unit: float | None = None

    @property
    def title(self) -> str:
        """Name of the stream in messages."""
        return f"stream {self.name!r}" if self.name else "stream of type EEG"


def streams(timeout: float) -> list[Any]:
    """Find all streams except those of decisions; the newest first."""
    from mne_lsl.lsl import resolve_streams

    found = (info for info in resolve_streams(timeout) if info.stype != DECISIONS)
    return sorted(found, key=lambda info: -info.created_at)


def find(wanted: Wanted, timeout: float) -> list[Any]:
    """Find the wanted streams: by name, or else by source id."""
    found = streams(timeout)
    if wanted.name is None:
        return [info for info in found if info.stype == "EEG"]
    by_name = [info for info in found if info.name == wanted.name]
    return by_name or [info for info in found if info.source_id == wanted.name]


def _listing() -> str:
    """List the available streams, for messages."""
    found = streams(timeout=1.0)
    if not found:
        return "No LSL stream of signals is available"
    return "Available streams: " + "; ".join(sorted(map(_described, found)))


def _described(info: Any) -> str:
    return (
        f"{info.name!r} (type {info.stype or '-'}, {info.n_channels} channels, {info.sfreq:g} Hz, "
        f"source id {info.source_id!r}, on {info.hostname})"
    )


def only(wanted: Wanted, found: Sequence[Any], waited: float) -> Any:
    """Return the only stream that was found.

    Parameters
    ----------
    wanted : Wanted
        The stream to read.
    found : sequence of mne_lsl.lsl.StreamInfo
        Streams that match.
    waited : float
        Seconds of the search.

    Returns
    -------
    mne_lsl.lsl.StreamInfo
        The stream.

    Raises
    ------
    LiveError
        If there is none, or more than one.
    """
    if not found:
        raise LiveError(
            f"No {wanted.title} found within {waited:g} s. {_listing()}. Start the sender, name "
            "the stream with --stream, or wait longer with --timeout; on a network, check the "
            "firewall. To play a recording as a stream, use `spdtokens replay`."
        )
    if len(found) == 1:
        return found[0]
    names, ids = [info.name for info in found], [info.source_id for info in found]
    choices = [name for name in names if names.count(name) == 1]
    choices += [key for key in ids if key and ids.count(key) == 1 and key not in names]
    remedy = "They have the same names and source ids: change one of them in the sender."
    if choices:
        remedy = f"Choose one by name or source id, e.g. --stream {shlex.quote(choices[0])}."
    lines = [f"There is more than one {wanted.title}:", *sorted(map(_described, found)), remedy]
    raise LiveError("\n".join(lines))


def pick(
    wanted: Sequence[str],
    available: Sequence[str | None] | None,
    n_channels: int,
    given: Sequence[str] | None = None,
) -> list[int]:
    """Find the channels of the model in a stream by name.

    Case and prefixes such as EEG are ignored, see
    :func:`~spdtokens._channels.plain_name`.

    Parameters
    ----------
    wanted : sequence of str
        Channels of the model.
    available : sequence of str or None
        Channel names in the stream's description; None if it has none.
    n_channels : int
        Number of channels of the stream.
    given : sequence of str, default=None
        Channel names of the stream, given by the user; they replace those of the description.

    Returns
    -------
    list of int
        Index in the stream of each channel of the model.

    Raises
    ------
    LiveError
        If a channel is missing, or several have its name.
    """
    names = [name or "-" for name in given or available or ()]
    plain = [plain_name(name) for name in names]
    missing = [name for name in wanted if plain_name(name) not in plain]
    twice = [name for name in wanted if plain.count(plain_name(name)) > 1]
    wrong = ""
    if given is not None and len(given) != n_channels:
        wrong = f"--channels must name {n_channels} channels, got {len(given)}"
    elif set(names) <= {"-"}:
        wrong = f"the stream does not name its {n_channels} channels"
    elif missing:
        wrong = f"the stream lacks {listed(missing)}. It has: {listed(names, 70)}"
    elif twice:
        wrong = f"the stream has more than one {twice[0]}"
    if wrong:
        raise LiveError(
            f"The model needs {len(wanted)} channels, but {wrong}. Name all channels of the "
            "stream in its order, with '-' for those that are not needed: "
            f"--channels {','.join(wanted)}"
        )
    return [plain.index(plain_name(name)) for name in wanted]


class Inlet:
    """Connection to a stream that returns the channels of the model in the unit of the model.

    Parameters
    ----------
    info : mne_lsl.lsl.StreamInfo
        The stream.
    wanted : Wanted
        What the model requires.

    Raises
    ------
    LiveError
        If the stream lacks channels of the model, or has another sampling rate.
    StreamLostError
        If the stream has ended.
    """

    def __init__(self, info: Any, wanted: Wanted) -> None:
        from mne_lsl.lsl import StreamInlet

        self.uid = info.uid
        self.n_channels = info.n_channels
        self.title = f"connected to {info.name!r} on {info.hostname}"
        _check_rate(info, wanted)
        # LiveRun searches for lost streams. liblsl would wait without a report, and forever if the
        # sender comes back with other channels.
        self._inlet = StreamInlet(info, max_buffered=BUFFERED, recover=False)
        try:
            self._inlet.open_stream(CONNECT)
            full = self._inlet.get_sinfo(CONNECT)
            names = _by_channel(full, "names")
            self._picks = pick(wanted.ch_names, names, info.n_channels, wanted.given)
        except Exception as error:
            self.close()
            if isinstance(error, TimeoutError | RuntimeError):
                raise StreamLostError(str(error)) from error
            raise
        units = described_units(full, self._picks) if wanted.unit is None else wanted.unit
        self.factor: Any = 1.0
        if wanted.unit_in_volts is not None and units is not None:
            self.factor = units / wanted.unit_in_volts

    def pull(self, timeout: float) -> tuple[FloatArray, FloatArray]:
        """Return new samples and their time stamps by the sender's clock.

        Parameters
        ----------
        timeout : float
            Maximum seconds to wait for the first sample.

        Returns
        -------
        X : ndarray, shape (n_channels, n_samples)
            Samples.
        stamps : ndarray, shape (n_samples,)
            Time stamps in seconds.

        Raises
        ------
        StreamLostError
            If the stream has ended.
        """
        try:
            # Copied, since the next call overwrites the memory.
            pulled = [
                [array.copy() for array in self._inlet.pull_chunk(wait, most)]
                for wait, most in ((timeout, 1), (0.0, AT_ONCE))
            ]
        except (TimeoutError, RuntimeError) as error:
            raise StreamLostError(str(error)) from error
        X, stamps = (np.concatenate(parts) for parts in zip(*pulled, strict=True))
        return X.T[self._picks].astype(np.float64) * self.factor, stamps

    def correction(self) -> float | None:
        """Return the offset in seconds to this machine's clock; None if the sender does not answer.

        Blocks only at the first call, or if the sender does not answer.
        """
        try:
            return float(self._inlet.time_correction(ANSWER))
        except (TimeoutError, RuntimeError):
            return None

    def close(self) -> None:
        """Close the connection."""
        self._inlet._del()


def _check_rate(info: Any, wanted: Wanted) -> None:
    """Refuse streams of text and streams with another sampling rate."""
    if info.dtype == "string":
        raise LiveError(
            f"Stream {info.name!r} must contain signals, got text. Choose another with --stream. "
            f"{_listing()}."
        )
    if abs(info.sfreq - wanted.sfreq) > 1e-3 * wanted.sfreq:
        rate = f"{info.sfreq:g} Hz" if info.sfreq else "no regular rate"
        raise LiveError(
            f"Stream {info.name!r} must have {wanted.sfreq:g} Hz, the sampling rate of the model, "
            f"got {rate}. Live signals are not resampled: set the amplifier to {wanted.sfreq:g} "
            "Hz, or train a model at the rate of the stream."
        )


def _by_channel(info: Any, what: str) -> list[str | None] | None:
    """Return names or units of a stream's channels; None unless there is one per channel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong number of them, checked below
        found = getattr(info, f"get_channel_{what}")()
    return found if found is not None and len(found) == info.n_channels else None


def described_units(info: Any, picks: Sequence[int]) -> FloatArray | None:
    """Return the unit of each picked channel in volts, shape (n, 1); None if one is unknown."""
    names = _by_channel(info, "units")
    volts = [UNITS.get(str(names[i]).strip().casefold()) for i in picks] if names else [None]
    return None if None in volts else np.array(volts, dtype=np.float64)[:, None]


class ProbabilityOutlet:
    """LSL stream of class probabilities.

    It has one float32 channel per class, and no regular rate, since decisions can be withheld. The
    time stamp of a sample is that of the last sample of the window, by the clock of this machine.

    Parameters
    ----------
    name : str
        Name of the stream.
    classes : tuple of str
        Class names, which become channel names.
    about : mapping of str to str
        Entries of the stream's description.
    """

    def __init__(self, name: str, classes: tuple[str, ...], about: Mapping[str, str]) -> None:
        from mne_lsl.lsl import StreamInfo, StreamOutlet

        source = f"spdtokens-{name}-{os.getpid()}"
        info: Any = StreamInfo(name, DECISIONS, len(classes), 0.0, "float32", source)
        info.set_channel_names(list(classes))
        info.set_channel_types("probability")
        info.set_channel_units("none")
        node = info.desc.append_child("spdtokens")
        for key, value in about.items():
            node.append_child_value(key, value)
        self._outlet = StreamOutlet(info)

    def push(self, decision: Decision, stamp: float) -> None:
        """Publish a decision, unless it was withheld."""
        if decision.probabilities is not None:
            self._outlet.push_sample(decision.probabilities.astype(np.float32), stamp)

    def close(self) -> None:
        """End the stream."""
        self._outlet._del()
