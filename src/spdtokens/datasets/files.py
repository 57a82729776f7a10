"""How trials are taken from the user's files, and trials in ``.npz`` files.

Every reader gives the :class:`Piece` of a file: :func:`read_npz_trials` here, recordings and epochs
in :mod:`.recordings`, which also makes a data set of pieces.
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
from spdtokens.errors import DataError

#: Annotations that do not mark trials begin like this.
NO_TRIALS = ("bad", "edge", "boundary", "new segment", "start", "stop", "rest ")
#: Without being named, events are classes if there are 2 to MOST kinds with at least LEAST trials.
LEAST, MOST = 5, 8
LAYOUT = (
    "An .npz file contains the arrays X (trials, channels, samples) and sfreq, or C (trials, "
    "channels, channels); y, text or integers that index classes; and where known ch_names, tmin, "
    "run, group, onset. In a folder, its name is like sub-01_ses-1.npz."
)
#: An .npz may unpack to MOST_TIMES its size, and to MOST_ANYHOW bytes in any case. Signals shrink
#: to a half, zeros to a thousandth.
MOST_TIMES, MOST_ANYHOW = 100, 100_000_000
NAMES = "iufbU"  # kinds of arrays that can be names
#: Arrays of an .npz: their kinds and the axis of X along which they run; None for any length.
ARRAYS: dict[str, tuple[str, int | None]] = {
    "y": (NAMES, 0),
    "run": (NAMES, 0),
    "group": ("iu", 0),
    "onset": ("iuf", 0),
    "ch_names": (NAMES, 1),
    "classes": (NAMES, None),
}
#: Single numbers of an .npz: their lowest and highest value.
NUMBERS = {
    "sfreq": (1e-3, 1e7),
    "tmin": (-math.inf, math.inf),
    "unit_in_volts": (1e-300, 1e300),
    "highpass": (-math.inf, math.inf),
    "lowpass": (-math.inf, math.inf),
}


@dataclass(frozen=True)
class Cutting:
    """How trials are cut out of recordings.

    Attributes
    ----------
    events : mapping of str to str, or None
        Class to event: the text of an annotation, or the number of a trigger. None for all kinds
        of events that occur often enough.
    tmin, tmax : float, or None
        From and to in seconds after the event. None for the whole epoch, or as long as the
        annotations last.
    label_from : str or None
        Where labels are: ``'annotations'`` or the name of a trigger channel of a recording, a
        column of the metadata of epochs, an array of an ``.npz`` file. None for what is usual.
    channels : tuple of str
        Only these, in this order; ``'common'`` for the EEG channels that all recordings have. If
        empty, all EEG channels, which must then be the same in all.
    resample : float, optional
        Rate in Hz that trials are brought to, at most that of the recordings. Default: theirs,
        which must then be the same in all.
    """

    events: Mapping[str, str] | None = None
    tmin: float | None = None
    tmax: float | None = None
    label_from: str | None = None
    channels: tuple[str, ...] = ()
    resample: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", channel_names(self.channels))
        if self.events is not None and not self.events:
            raise DataError("events names no class. Give it like {'left': '769', 'right': '770'}.")
        if self.tmin is not None and self.tmax is not None and not self.tmin < self.tmax:
            raise DataError(f"tmin must be before tmax, got {self.tmin:g} and {self.tmax:g} s.")

    def chosen(self, values: Iterable[Any], where: str) -> dict[str, str]:
        """Class to event, of the events of a file.

        Raises
        ------
        DataError
            If an event that is asked for is missing, or if none is and it cannot be told which mark
            trials; with what there is.
        """
        counts = dict(sorted(Counter(map(str, values)).items()))
        if self.events is None:
            often = (name for name, n in counts.items() if n >= LEAST)
            usual = [name for name in often if not name.lower().startswith(NO_TRIALS)]
            if 2 <= len(usual) <= MOST:
                return {name: name for name in usual}
            problem = f"{where}: it cannot be told which events are the classes."
        else:
            missing = [event for event in self.events.values() if event not in counts]
            if not missing:
                return dict(self.events)
            problem = f"{where} has no event {missing[0]!r}."
        there = ", ".join(f"{name} ({n} x)" for name, n in counts.items()) or "none at all"
        raise DataError(
            f"{problem} Its events: {there}. Name them as in --events left=769,right=770 (a class, "
            "=, an event of the file)."
        )

    def labels(self, values: NDArray[np.str_], where: str) -> NDArray[np.str_]:
        """Class of each trial whose event is given; empty where it is of none that is asked for."""
        if self.events is None:
            return values
        names = {event: name for name, event in self.chosen(values, where).items()}
        return np.array([names.get(value, "") for value in values])

    def part(self, tmin: float, sfreq: float, n_samples: int, where: str) -> tuple[int, int]:
        """First sample of the part of a trial that is asked for, and the one after its last."""
        first = 0 if self.tmin is None else round((self.tmin - tmin) * sfreq)
        last = n_samples if self.tmax is None else round((self.tmax - tmin) * sfreq)
        if not 0 <= first < last <= n_samples:
            raise DataError(
                f"{where}: its trials last from {tmin:g} to {tmin + n_samples / sfreq:g} s, and do "
                "not hold the part that is asked for. Change --tmin and --tmax."
            )
        return first, last


def parse_events(text: str) -> dict[str, str]:
    """``left=769,right=770``, or names alone: ``left,right``.

    Raises
    ------
    DataError
        For anything else.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, sign, event = (piece.strip() for piece in part.partition("="))
        if not name or (sign and not event) or name in found:
            raise DataError(f"Events must be like left=769,right=770 or left,right; got {text!r}.")
        found[name] = event or name
    return found


@dataclass(frozen=True)
class Piece:
    """The trials of one file.

    Attributes
    ----------
    X : ndarray of float, shape (n, channels, samples), or (n, d, d) for covariance matrices
    head : Head
    labels : ndarray of str, shape (n,), or None
        Empty for trials that are not asked for. None if the file has no labels.
    classes : tuple of str
        Names of the classes in the order of the file, where it tells them.
    run, group : ndarray, shape (n,), or None
        See :class:`~spdtokens.datasets.base.Recording`.
    about : mapping of str to ndarray, shape (n, ...)
        Whatever else the file tells of each trial.
    filtered : pair of float or None
        High-pass and low-pass in Hz that the file tells of.
    dropped : int
        Trials at an end of the recording, or marked as bad.
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
    """Read the trials of an ``.npz`` file, and all that it tells of them.

    Parameters
    ----------
    path : Path
    cutting : Cutting, optional
        Channels and rate are left as they are.
    signals : bool
        False reads headers only: zeros of the same shape, which take no memory, stand for signals,
        and arrays that are not needed to plan are left out.
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
            unit_in_volts=numbers.get("unit_in_volts"),
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
    """Arrays of an ``.npz``, read without trust; of those wanted no signals."""
    with zipfile.ZipFile(path) as zipped:
        size = sum(member.file_size for member in zipped.infolist())
    if size > max(MOST_ANYHOW, MOST_TIMES * path.stat().st_size):
        raise ValueError(
            f"it would unpack to {size / 1e9:.1f} GB, which no recording does; if it is yours, do "
            "not use savez_compressed"
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
        raise TypeError(f"{name!r} is no array")
    if array.dtype.kind == "S":
        return array.astype(str)
    if array.dtype.kind == "U":
        # NumPy makes strings of any numbers, and Python crashes on characters that do not exist.
        codes = np.frombuffer(array.tobytes(), np.uint32)
        codes = codes if array.dtype.isnative else codes.byteswap()
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise ValueError(f"{name!r} contains what is not text")
    return np.asarray(array)


def _claimed(archive: Any, name: str) -> NDArray[Any]:
    """Zeros of the shape and dtype that an array of an archive has, if it is as large as that."""
    member = name if name in archive.zip.namelist() else f"{name}.npy"
    with archive.zip.open(member) as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        size = file.tell() + math.prod(shape) * dtype.itemsize
    if dtype.hasobject or size != archive.zip.getinfo(member).file_size:
        raise ValueError(f"{name} is not {dtype} of shape {shape}, as it claims")
    return np.broadcast_to(np.zeros((), dtype), shape)


def _need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path} lacks the array {name!r}. {LAYOUT}")
    return arrays[name]


def _checked(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """Return the trials, or refuse arrays that are not what their names say."""
    X = arrays["C"] if "C" in arrays else _need(arrays, "X", path)
    square = "C" not in arrays or X.shape[1:2] == X.shape[2:]
    if X.ndim != 3 or X.dtype.kind not in "iuf" or not X.size or not square:
        raise DataError(
            f"{path}: expected trials (n, channels, samples) in X or covariances (n, d, d) in C, "
            f"got {X.dtype} of shape {X.shape}."
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
    """The only number of an array; None for limits of a filter that are not known."""
    if name in ("highpass", "lowpass") and value.dtype.kind == "f" and not np.isfinite(value).any():
        return None
    low, high = NUMBERS[name]
    if value.shape in ((), (1,)) and value.dtype.kind in "iuf" and np.isfinite(value):
        number = float(value.reshape(()))
        if low <= number <= high:
            return number
    raise DataError(f"{path}: {name} must be one number from {low:g} to {high:g}, got {value!r}.")


def _labels(
    arrays: dict[str, NDArray[Any]], n: int, cutting: Cutting, path: Path
) -> tuple[NDArray[np.str_], tuple[str, ...]]:
    """Labels as texts, and the names of the classes, which integers index."""
    key = cutting.label_from or "y"
    labels = _need(arrays, key, path)
    if labels.shape != (n,):
        raise DataError(f"{path}: {key!r} must hold one label per trial, {n}, got {labels.shape}.")
    names = tuple(str(name) for name in arrays.get("classes", ()))
    numbers, texts = labels.dtype.kind in "iu", labels.astype(str)
    if not names or not (numbers or key == "y"):
        return cutting.labels(texts, f"{path}"), ()
    known = {str(i) if numbers else name: name for i, name in enumerate(names)}
    if strange := sorted(set(texts.tolist()) - known.keys()):
        raise DataError(
            f"{path}: labels {strange} are not among the {len(names)} classes "
            f"{', '.join(names)}. Integers count from 0."
        )
    return cutting.labels(np.array([known[text] for text in texts]), f"{path}"), names
