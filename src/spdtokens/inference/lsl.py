"""Streams of Lab Streaming Layer (LSL): find one, read it, publish decisions as another.

mne-lsl is imported inside functions, as it is an extra.
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

from spdtokens._extras import how_to_install, is_installed
from spdtokens.datasets.select import plain_name
from spdtokens.errors import DeployError, LiveError, StreamLostError
from spdtokens.inference.live import Decision, listed

FloatArray = NDArray[np.float64]
#: What senders and users call units, in volts.
UNITS = {
    **dict.fromkeys(("volts", "volt", "v"), 1.0),
    **dict.fromkeys(("millivolts", "millivolt", "mv", "-3"), 1e-3),
    **dict.fromkeys(("microvolts", "microvolt", "uv", "µv", "μv", "-6"), 1e-6),
    **dict.fromkeys(("nanovolts", "nanovolt", "nv", "-9"), 1e-9),
}
#: Seconds of signal that are kept for us while we are busy.
BUFFERED = 60
#: Seconds to wait for a connection, and for the offset of the sender's clock.
CONNECT, ANSWER = 10.0, 0.5
#: Samples taken at once at most.
AT_ONCE = 4096
#: Type of the stream of decisions, which is never read.
DECISIONS = "Probabilities"


def volts_of(unit: str | None) -> float | None:
    """Volts of a unit that a user names; None if none is named.

    Raises
    ------
    DeployError
    """
    if unit is None:
        return None
    if unit.casefold() not in UNITS:
        raise DeployError(f"There is no unit {unit!r}. There are: V, mV, uV, nV.")
    return UNITS[unit.casefold()]


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


@contextmanager
def liblsl_muted() -> Iterator[TextIO]:
    """Give standard error as it was, and let nobody else write to it meanwhile.

    liblsl tells of lost connections on standard error, from its own threads and in the middle of
    the view. What matters of it we tell ourselves.
    """
    try:
        ours = sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:  # someone has put something else in its place, and sees what we write there
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


def streams(timeout: float) -> list[Any]:
    """Descriptions of the streams that answer, decisions aside; the newest first."""
    from mne_lsl.lsl import resolve_streams

    found = (info for info in resolve_streams(timeout) if info.stype != DECISIONS)
    return sorted(found, key=lambda info: -info.created_at)


def find(wanted: Wanted, timeout: float) -> list[Any]:
    """Descriptions of the streams that may be meant: of this name, or else of this source id."""
    found = streams(timeout)
    if wanted.name is None:
        return [info for info in found if info.stype == "EEG"]
    by_name = [info for info in found if info.name == wanted.name]
    return by_name or [info for info in found if info.source_id == wanted.name]


def _listing() -> str:
    """The streams that are there, for messages."""
    found = streams(timeout=1.0)
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
            f"No {wanted.title} within {waited:g} s. {_listing()}. Start the sender, name the "
            "stream with --stream, wait longer with --timeout; on a network, look at the firewall. "
            "A recording is played as a stream by: spdtokens replay."
        )
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


def pick(
    wanted: Sequence[str],
    available: Sequence[str | None] | None,
    n_channels: int,
    given: Sequence[str] | None = None,
) -> list[int]:
    """Where in a stream the model's channels are: by name, written as labs do.

    Parameters
    ----------
    wanted : sequence of str
        The model's channels.
    available : sequence of str or None, optional
        Names in the stream's description, if it has any.
    n_channels : int
        Of the stream.
    given : sequence of str, optional
        Names of the stream's channels as the user has them, instead of the description's.

    Raises
    ------
    LiveError
        If a channel is missing or there is more than one of its name.
    """
    names = [name or "-" for name in given or available or ()]
    plain = [plain_name(name) for name in names]
    missing = [name for name in wanted if plain_name(name) not in plain]
    twice = [name for name in wanted if plain.count(plain_name(name)) > 1]
    wrong = ""
    if given is not None and len(given) != n_channels:
        wrong = f"--channels names {len(given)} channels, and the stream has {n_channels}"
    elif set(names) <= {"-"}:
        wrong = f"the stream does not name its {n_channels} channels"
    elif missing:
        wrong = f"the stream lacks {listed(missing)}. It has: {listed(names, 70)}"
    elif twice:
        wrong = f"the stream has more than one {twice[0]}"
    if wrong:
        raise LiveError(
            f"The model needs {len(wanted)} channels, and {wrong}. Name all channels of the "
            "stream in its order, with '-' for those that are not needed: "
            f"--channels {','.join(wanted)}"
        )
    return [plain.index(plain_name(name)) for name in wanted]


class Inlet:
    """A connection to a stream, from which the model's channels are read, in the model's unit.

    Parameters
    ----------
    info : mne_lsl.lsl.StreamInfo
    wanted : Wanted

    Raises
    ------
    LiveError
        If the stream has not the model's channels and rate.
    StreamLostError
        If it is gone already.
    """

    def __init__(self, info: Any, wanted: Wanted) -> None:
        from mne_lsl.lsl import StreamInlet

        self.uid = info.uid
        self.n_channels = info.n_channels
        self.title = f"connected to {info.name!r} on {info.hostname}"
        _check_rate(info, wanted)
        # Lost streams are looked for by us: liblsl would wait in silence, and for ever if the
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
        """Samples (channels, samples) and their stamps by the sender's clock.

        Waits for the first sample at most ``timeout`` seconds, and for no other.

        Raises
        ------
        StreamLostError
        """
        try:
            # Copied: each is a view of memory that the next call overwrites.
            pulled = [
                [array.copy() for array in self._inlet.pull_chunk(wait, most)]
                for wait, most in ((timeout, 1), (0.0, AT_ONCE))
            ]
        except (TimeoutError, RuntimeError) as error:
            raise StreamLostError(str(error)) from error
        X, stamps = (np.concatenate(parts) for parts in zip(*pulled, strict=True))
        return X.T[self._picks].astype(np.float64) * self.factor, stamps

    def correction(self) -> float | None:
        """Seconds to be added to the sender's stamps for this machine's clock; None if unknown.

        Waits at the first call only, unless the sender does not answer.
        """
        try:
            return float(self._inlet.time_correction(ANSWER))
        except (TimeoutError, RuntimeError):
            return None

    def close(self) -> None:
        """Let go of the stream."""
        self._inlet._del()


def _check_rate(info: Any, wanted: Wanted) -> None:
    """Refuse streams of text, or of another rate."""
    if info.dtype == "string":
        raise LiveError(
            f"Stream {info.name!r} carries text, not signals. Choose another with --stream. "
            f"{_listing()}."
        )
    if abs(info.sfreq - wanted.sfreq) > 1e-3 * wanted.sfreq:
        rate = f"{info.sfreq:g} samples a second" if info.sfreq else "no regular rate"
        raise LiveError(
            f"Stream {info.name!r} has {rate}, and the model decodes {wanted.sfreq:g}. Set the "
            f"amplifier to {wanted.sfreq:g} Hz, or train a model on recordings of the stream's "
            "rate; live signals are not resampled."
        )


def _by_channel(info: Any, what: str) -> list[str | None] | None:
    """Names or units of a stream's channels; None if it does not tell one of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong number of them, which we look at ourselves
        found = getattr(info, f"get_channel_{what}")()
    return found if found is not None and len(found) == info.n_channels else None


def described_units(info: Any, picks: Sequence[int]) -> FloatArray | None:
    """Volts of a unit of each picked channel, shape (channels, 1); None if one is not told."""
    names = _by_channel(info, "units")
    volts = [UNITS.get(str(names[i]).strip().casefold()) for i in picks] if names else [None]
    return None if None in volts else np.array(volts, dtype=np.float64)[:, None]


class ProbabilityOutlet:
    """An LSL stream of class probabilities.

    One channel a class, labelled by it, float32, without a regular rate since decisions may be
    withheld. The stamp of a sample is that of the last sample of the window, by the clock of this
    machine.

    Parameters
    ----------
    name : str
    classes : tuple of str
    about : mapping of str to str
        Written into the stream's description.
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
        """Publish a decision; nothing of one that was withheld."""
        if decision.probabilities is not None:
            self._outlet.push_sample(decision.probabilities.astype(np.float32), stamp)

    def close(self) -> None:
        """End the stream."""
        self._outlet._del()
