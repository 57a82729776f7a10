"""Options for reading trials from files, and the reader of ``.npz`` files.

A reader returns the :class:`Piece` of a file: :func:`read_npz_trials` for ``.npz``,
:func:`.recordings.read_piece` for recordings and epochs. :func:`.recordings.from_files` combines
pieces to a data set.
"""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import as_float, reading
from spdtokens.datasets.select import Head, channel_names
from spdtokens.datasets.units import agreed_unit, volts_of
from spdtokens.errors import DataError

#: Prefixes of annotations that do not mark trials.
NO_TRIALS = ("bad", "edge", "boundary", "new segment", "start", "stop", "rest ")
#: Unless events are named, those with at least LEAST trials are classes, if there are 2 to MOST.
LEAST, MOST = 5, 8
LAYOUT = (
    "An .npz file must contain X (trials, channels, samples) and sfreq, or C (trials, channels, "
    "channels); y, strings or indices into classes; and optionally ch_names, tmin, run, group, "
    "onset. Names like sub-01_ses-1.npz state subject and session."
)
#: Limit of the unpacked size of an .npz: MOST_TIMES that of the file, and at least MOST_ANYHOW
#: bytes. Compression halves signals; zeros shrink to a thousandth.
MOST_TIMES, MOST_ANYHOW = 100, 100_000_000
NAMES = "iufbU"  # kinds of dtype that can be converted to names
#: Arrays of an .npz: kinds of dtype, and the axis of X that has the same length; None for any.
ARRAYS: dict[str, tuple[str, int | None]] = {
    "y": (NAMES, 0),
    "run": (NAMES, 0),
    "group": ("iu", 0),
    "onset": ("iuf", 0),
    "ch_names": (NAMES, 1),
    "classes": (NAMES, None),
}
#: Scalars of an .npz: lowest and highest value.
NUMBERS = {
    "sfreq": (1e-3, 1e7),
    "tmin": (-math.inf, math.inf),
    "unit_in_volts": (1e-300, 1e300),
    "highpass": (-math.inf, math.inf),
    "lowpass": (-math.inf, math.inf),
}


@dataclass(frozen=True)
class Cutting:
    """Options for cutting trials out of recordings.

    Parameters
    ----------
    events : mapping of str to str, str or None, default=None
        Event of each class: the text of an annotation, or the number of a trigger; as a mapping or
        as text, ``'left=769,right=770'``. If None, every event that occurs at least five times is a
        class.
    tmin, tmax : float or None, default=None
        Begin and end of a trial, in seconds after the event. If None, the whole epoch, or the
        duration of the annotations.
    label_from : str or None, default=None
        Source of the labels: ``'annotations'`` or the name of a trigger channel of a recording, a
        metadata column of epochs, an array of an ``.npz`` file. If None, the annotations (the
        trigger channel if there are none), the event names, and the array ``y``.
    channels : tuple of str, default=()
        Channels to keep, in this order; ``'common'`` for the EEG channels that all recordings have.
        If empty, all EEG channels, which must be the same in all recordings.
    resample : float or None, default=None
        Sampling rate in Hz, at most that of the recordings. If None, theirs, which must be the same
        in all recordings.
    unit : {'V', 'mV', 'uV', 'nV'} or None, default=None
        Unit of the signals in files that do not state it; for covariance matrices, that of the
        signals they were computed from. If None, it stays unknown.
    """

    events: Any = None  # a mapping after __post_init__
    tmin: float | None = None
    tmax: float | None = None
    label_from: str | None = None
    channels: tuple[str, ...] = ()
    resample: float | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", channel_names(self.channels))
        volts_of(self.unit)  # refuse an unknown unit now
        if isinstance(self.events, str):
            object.__setattr__(self, "events", parse_events(self.events))
        if self.events is not None and not (isinstance(self.events, Mapping) and self.events):
            raise DataError(
                "events must be like {'left': '769', 'right': '770'} or 'left=769,right=770', got "
                f"{self.events!r}."
            )
        if self.tmin is not None and self.tmax is not None and not self.tmin < self.tmax:
            raise DataError(f"tmin must be less than tmax, got {self.tmin:g} and {self.tmax:g} s.")

    def chosen(self, values: Iterable[Any], where: str) -> dict[str, str]:
        """Return the event of each class, for the events of a file.

        Raises
        ------
        DataError
            If a named event is missing, or if no event is named and the classes are not obvious.
            Lists the events of the file.
        """
        counts = dict(sorted(Counter(map(str, values)).items()))
        if self.events is None:
            often = (name for name, n in counts.items() if n >= LEAST)
            usual = [name for name in often if not name.lower().startswith(NO_TRIALS)]
            if 2 <= len(usual) <= MOST:
                return {name: name for name in usual}
            problem = f"{where}: the events of the classes are not obvious."
        else:
            missing = [event for event in self.events.values() if event not in counts]
            if not missing:
                return dict(self.events)
            problem = f"{where} has no event {missing[0]!r}."
        there = ", ".join(f"{name} ({n} x)" for name, n in counts.items()) or "none"
        example = ",".join(f"class{i}={name}" for i, name in enumerate(list(counts)[:2], 1))
        raise DataError(
            f"{problem} Its events: {there}. Name classes and events, such as --events "
            f"{example or 'left=769,right=770'}."
        )

    def labels(self, values: NDArray[np.str_], where: str) -> NDArray[np.str_]:
        """Return the class of each trial by its event; empty if the event is not chosen."""
        if self.events is None:
            return values
        names = {event: name for name, event in self.chosen(values, where).items()}
        return np.array([names.get(value, "") for value in values])

    def part(self, tmin: float, sfreq: float, n_samples: int, where: str) -> tuple[int, int]:
        """Return the first sample between tmin and tmax, and the one after the last."""
        first = 0 if self.tmin is None else round((self.tmin - tmin) * sfreq)
        last = n_samples if self.tmax is None else round((self.tmax - tmin) * sfreq)
        if not 0 <= first < last <= n_samples:
            raise DataError(
                f"{where}: --tmin and --tmax must be within its trials, {tmin:g} to "
                f"{tmin + n_samples / sfreq:g} s, got {self.tmin} and {self.tmax}."
            )
        return first, last


def parse_events(text: str) -> dict[str, str]:
    """Parse ``'left=769,right=770'``, or events that name their class: ``'left,right'``.

    Raises
    ------
    DataError
        If the text has another form.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, sign, event = (piece.strip() for piece in part.partition("="))
        if not name or (sign and not event) or name in found:
            raise DataError(f"events must be like left=769,right=770 or left,right, got {text!r}.")
        found[name] = event or name
    return found


@dataclass(frozen=True)
class Piece:
    """Trials of one file.

    Attributes
    ----------
    X : ndarray, shape (n_trials, n_channels, n_samples) or (n_trials, n_channels, n_channels)
        Signals, or covariance matrices.
    head : Head
        Channels, sampling rate, interval and unit.
    labels : ndarray of str, shape (n_trials,), or None
        Classes; empty for trials of other events. None if the file has no labels.
    classes : tuple of str
        Names of the classes in the order of the file; empty if it does not state them.
    run, group : ndarray, shape (n_trials,), or None
        See :class:`~spdtokens.datasets.Recording`.
    about : mapping of str to ndarray, shape (n_trials, ...)
        Metadata of the trials.
    filtered : tuple of float or None
        Cut-off frequencies in Hz of the high-pass and low-pass filters already applied.
    dropped : int
        Number of trials left out, at the ends of the recording or marked as bad.
    """

    X: NDArray[Any]
    head: Head
    labels: NDArray[np.str_] | None = None
    classes: tuple[str, ...] = ()
    run: NDArray[np.str_] | None = None
    group: NDArray[np.int64] | None = None
    about: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    filtered: tuple[float | None, float | None] = (None, None)
    dropped: int = 0


def read_npz_trials(path: Path, cutting: Cutting | None = None, signals: bool = True) -> Piece:
    """Read the trials of an ``.npz`` file and their metadata.

    Parameters
    ----------
    path : Path
        File.
    cutting : Cutting or None, default=None
        Options; channels and sampling rate are not changed here.
    signals : bool, default=True
        Whether to read the signals. If False, ``X`` is an array of zeros that takes no memory, and
        other metadata are left out.
    """
    cutting = cutting or Cutting()
    key = cutting.label_from or "y"
    with reading(path):
        arrays = _arrays(path, None if signals else {"X", "C", key, *ARRAYS, *NUMBERS})
    X = _checked(arrays, path)
    n = len(X)
    numbers = {name: _number(arrays[name], name, path) for name in NUMBERS if name in arrays}
    other = {"X", "C", "classes", "ch_names", "run", "group", *({"y"} if key == "y" else ())}
    about = {
        name: array
        for name, array in arrays.items()
        if name not in other and array.ndim and len(array) == n
    }
    tmin, sfreq = numbers.get("tmin") or 0.0, None
    if "C" not in arrays:
        _need(arrays, "sfreq", path)
        sfreq = numbers["sfreq"]
        assert sfreq is not None
        first, last = cutting.part(tmin, sfreq, X.shape[-1], f"{path}")
        X, tmin = X[..., first:last], tmin + first / sfreq
        if "onset" in about and about["onset"].dtype.kind in "iu":
            about["onset"] = about["onset"].astype(np.int64) + first
    elif cutting.tmin is not None or cutting.tmax is not None:
        raise DataError(f"{path} contains covariance matrices; tmin and tmax do not apply.")
    labels: NDArray[np.str_] | None = None
    classes: tuple[str, ...] = ()
    if "y" in arrays or key != "y":
        labels, classes = _labels(arrays, n, cutting, path)
    run, group = arrays.get("run"), arrays.get("group")
    return Piece(
        X=as_float(X, f"{path}") if signals else X,
        head=Head(
            ch_names=tuple(str(name) for name in arrays.get("ch_names", range(X.shape[1]))),
            sfreq=sfreq,
            tmin=tmin,
            n_samples=X.shape[-1],
            unit_in_volts=agreed_unit(
                numbers.get("unit_in_volts"), volts_of(cutting.unit), f"{path}"
            ),
            named="ch_names" in arrays,
        ),
        labels=labels,
        classes=classes,
        run=None if run is None else run.astype(str),
        group=None if group is None else group.astype(np.int64),
        about=about,
        filtered=(numbers.get("highpass"), numbers.get("lowpass")),
    )


def _arrays(path: Path, wanted: set[str] | None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an untrusted ``.npz``; if some are wanted, only the header of signals."""
    with zipfile.ZipFile(path) as zipped:
        size = sum(member.file_size for member in zipped.infolist())
    if size > max(MOST_ANYHOW, MOST_TIMES * path.stat().st_size):
        raise ValueError(
            f"it would unpack to {size / 1e9:.1f} GB, more than {MOST_TIMES} times its size; if "
            "the file is your own, write it with numpy.savez"
        )
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        names = [name for name in archive.files if wanted is None or name in wanted]
        return {
            name: (_claimed if wanted and name in ("X", "C") else _safe)(archive, name)
            for name in names
        }


def _safe(archive: Any, name: str) -> NDArray[Any]:
    array = archive[name]
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name!r} is not an array")
    if array.dtype.kind == "S":
        return array.astype(str)
    if array.dtype.kind == "U":
        # NumPy does not check code points, and Python fails on invalid ones.
        codes = np.frombuffer(array.tobytes(), np.uint32)
        codes = codes if array.dtype.isnative else codes.byteswap()
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise ValueError(f"{name!r} contains invalid characters")
    return np.asarray(array)


def _claimed(archive: Any, name: str) -> NDArray[Any]:
    """Return zeros of the shape and dtype in the header of an array, after checking its size."""
    member = name if name in archive.zip.namelist() else f"{name}.npy"
    with archive.zip.open(member) as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        size = file.tell() + math.prod(shape) * dtype.itemsize
    if dtype.hasobject or size != archive.zip.getinfo(member).file_size:
        raise ValueError(f"the size of {name!r} is not that of {dtype} of shape {shape}")
    return np.broadcast_to(np.zeros((), dtype), shape)


def _need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path} lacks the array {name!r}. {LAYOUT}")
    return arrays[name]


def _checked(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """Return the trials; refuse arrays of a wrong type or shape."""
    X = arrays["C"] if "C" in arrays else _need(arrays, "X", path)
    square = "C" not in arrays or X.shape[1:2] == X.shape[2:]
    if X.ndim != 3 or X.dtype.kind not in "iuf" or not X.size or not square:
        raise DataError(
            f"{path} must contain trials (n, channels, samples) in X, or covariances (n, channels, "
            f"channels) in C, got {X.dtype} of shape {X.shape}."
        )
    for name in ARRAYS.keys() & arrays.keys():
        (kinds, axis), array = ARRAYS[name], arrays[name]
        size = array.size if axis is None else X.shape[axis]
        unique = name in ("ch_names", "classes")
        if (
            array.shape != (size,)
            or array.dtype.kind not in kinds
            or (unique and not 0 < size == len({str(value) for value in array}))
        ):
            what = f"{size} entries, one per trial"
            if unique:
                what = "different names" + (f", {size} of them" if axis is not None else "")
            raise DataError(
                f"{path}: {name!r} must be {what}, got {array.dtype} of shape {array.shape}."
            )
    return X


def _number(value: NDArray[Any], name: str, path: Path) -> float | None:
    """Return a scalar; None for the cut-off frequency of a filter that is unknown."""
    if name in ("highpass", "lowpass") and value.dtype.kind == "f" and not np.isfinite(value).any():
        return None
    low, high = NUMBERS[name]
    if value.shape in ((), (1,)) and value.dtype.kind in "iuf" and np.isfinite(value):
        number = float(value.reshape(()))
        if low <= number <= high:
            return number
    raise DataError(f"{path}: {name} must be a number from {low:g} to {high:g}, got {value!r}.")


def _labels(
    arrays: dict[str, NDArray[Any]], n: int, cutting: Cutting, path: Path
) -> tuple[NDArray[np.str_], tuple[str, ...]]:
    """Return labels as strings, and the names of the classes, which integers index."""
    key = cutting.label_from or "y"
    labels = _need(arrays, key, path)
    if labels.shape != (n,):
        raise DataError(f"{path}: {key!r} must be {n} labels, got shape {labels.shape}.")
    names = tuple(str(name) for name in arrays.get("classes", ()))
    numbers, texts = labels.dtype.kind in "iu", labels.astype(str)
    if not names or not (numbers or key == "y"):
        return cutting.labels(texts, f"{path}"), ()
    known = {str(i) if numbers else name: name for i, name in enumerate(names)}
    if strange := sorted(set(texts.tolist()) - known.keys()):
        raise DataError(
            f"{path}: {key!r} must be names of the classes {', '.join(names)}, or their indices "
            f"from 0, got {', '.join(strange)}."
        )
    return cutting.labels(np.array([known[text] for text in texts]), f"{path}"), names
