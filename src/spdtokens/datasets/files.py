"""The user's own files: what to take out of them, ``.npz`` files, files as a data set.

Recordings and epochs in the formats of MNE are read by :mod:`.recordings`; both give the
:class:`Piece` of a file, and :func:`from_pieces` makes a data set of pieces.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording, as_float
from spdtokens.datasets.select import Head, agree, channel_names, conformed, later_window
from spdtokens.errors import DataError

#: Annotations that mark no trials.
NO_TRIALS = ("bad", "edge", "boundary", "new segment", "start", "stop", "rest ")
#: Without being named, events are classes if there are 2 to MOST kinds with at least LEAST trials.
LEAST, MOST = 5, 8
LAYOUT = (
    "A folder of .npz holds one file a subject and session, named sub-01_ses-1.npz, with the "
    "arrays X (trials, channels, samples) and sfreq, or C (trials, channels, channels); y, text or "
    "integers that index classes; and where known ch_names, tmin, run, group, onset."
)
#: An .npz may unpack to so many times its size, and to so many bytes in any case. Zeros shrink to a
#: thousandth, signals to a half.
MOST_TIMES, MOST_ANYHOW = 100, 100_000_000
#: Lowest and highest that a number can be.
LIMITS = {"sfreq": (1e-3, 1e7), "unit_in_volts": (1e-300, 1e300)}
NAMES = "iufbU"  # kinds of arrays that can be names
#: What is read of an .npz before its signals are.
HEADER = {
    *("X", "C", "y", "run", "group", "onset", "ch_names", "classes"),
    *("sfreq", "tmin", "unit_in_volts", "highpass", "lowpass"),
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


def from_pieces(
    name: str,
    description: str,
    seen: Mapping[Path, Piece],
    places: Mapping[Path, tuple[str, str, str]],
    read: Callable[[Path], Piece],
    cutting: Cutting,
) -> Dataset:
    """Files as a data set.

    Parameters
    ----------
    name, description : str
    seen : mapping of Path to Piece
        What is known of every file; signals may be missing.
    places : mapping of Path to tuple of str
        Subject, session and run of every file.
    read : callable
        The piece of a file, with signals.
    cutting : Cutting

    Raises
    ------
    DataError
        If files differ in what must be alike, or all trials are of one class.
    """
    heads = {file.name: piece.head for file, piece in seen.items()}
    to = agree(heads, cutting.channels, cutting.resample)
    labels = {str(label) for piece in seen.values() for label in piece.labels}  # type: ignore[union-attr]
    # In the order of the files where they tell it, else sorted.
    named = dict.fromkeys(label for p in seen.values() for label in p.classes if label in labels)
    classes = tuple(cutting.events or (*named, *sorted(labels - named.keys())))
    if len(classes) < 2:
        raise DataError(
            f"{description}: all trials are of one class, {', '.join(classes)}. Look at the labels "
            "(y of an .npz file); of recordings, name the events: spdtokens train --events "
            "left=769,right=770."
        )
    index: dict[str, tuple[str, ...]] = {}
    for subject, session, _ in places.values():
        index[subject] = tuple(dict.fromkeys((*index.get(subject, ()), session)))

    def recording(subject: str, session: str) -> Recording:
        mine = [file for file, place in places.items() if place[:2] == (subject, session)]
        parts: list[tuple[NDArray[Any], ...]] = []
        abouts: list[dict[str, NDArray[Any]]] = []
        for file in mine:
            piece, name = read(file), places[file][2]
            assert piece.labels is not None
            X, about = conformed(piece.X, piece.about, piece.head, to)
            n, kept = len(X), piece.labels != ""
            y = np.array([classes.index(label) for label in piece.labels[kept]], dtype=np.int64)
            run = np.full(n, name) if piece.run is None else piece.run
            group = (np.arange(n) if piece.group is None else piece.group)[kept]
            if len(mine) > 1:  # runs and groups are those of their file
                if piece.run is not None:
                    run = np.array([f"{name}/{inner}" for inner in run])
                group = np.unique(group, return_inverse=True)[1] + sum(len(p[1]) for p in parts)
            parts.append((X if kept.all() else X[kept], y, run[kept], group))
            abouts.append({key: values[kept] for key, values in about.items()})
        X, y, run, group = parts[0]
        if len(mine) > 1:
            X, y, run, group = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        known = [key for key in abouts[0] if all(key in about for about in abouts)]
        told = {key: np.concatenate([about[key] for about in abouts]) for key in known}
        return Recording(subject, session, X, y, run, group, told)

    dropped = sum(piece.dropped for piece in seen.values())
    note = f"; {dropped} events at its ends or marked as bad left out" if dropped else ""
    length = to.n_samples / to.sfreq if to.sfreq and to.n_samples else 0.0
    return Dataset(
        name=name,
        description=description + note,
        paradigm="other",
        classes=classes,
        ch_names=to.ch_names,
        sfreq=to.sfreq,
        tmin=to.tmin,
        window=(to.tmin, to.tmin + length) if to.sfreq else (0.0, 0.0),
        index=index,
        read=recording,
        filtered=next(iter(seen.values())).filtered,
        is_covariance=to.sfreq is None,
        unit_in_volts=to.unit_in_volts,
    )


def from_npz(path: Path, cutting: Cutting | None = None) -> Dataset:
    """Read an ``.npz`` file, or a folder with one per subject and session.

    Parameters
    ----------
    path : Path
        See ``LAYOUT``. Headers are read at once, signals when they are asked for.
    cutting : Cutting, optional
        ``label_from`` names the array of labels, ``events`` says which of them to use; times and
        channels as of recordings.

    Raises
    ------
    DataError
        If a file cannot be read, lacks an array, or files do not go together.
    """
    cutting = cutting or Cutting()
    name, description = path.name, f"folder of .npz files, {path}"
    places = {path: ("1", "1", "1")}
    if path.is_file():
        name, description = path.stem, f"trials of {path}"
    else:
        found = {
            file: re.fullmatch(r"sub-([^_]+)_ses-(.+)", file.stem)
            for file in sorted(path.glob("*.npz"))
        }
        if not found:
            raise DataError(f"{path} has no .npz files. {LAYOUT}")
        places = {file: (match[1], match[2], "1") for file, match in found.items() if match}
        if strange := found.keys() - places.keys():
            raise DataError(f"{min(strange)}: the name does not tell subject and session. {LAYOUT}")
    seen = {file: read_npz_trials(file, cutting, signals=False) for file in places}
    for file, piece in seen.items():
        if piece.labels is None:
            raise DataError(f"{file} lacks the array 'y'. {LAYOUT}")
    dataset = from_pieces(
        name, description, seen, places, lambda file: read_npz_trials(file, cutting), cutting
    )
    matches = (re.fullmatch(r"(\d{1,5}(?:\.\d+)?) ?Hz", name) for name in dataset.classes)
    frequencies = tuple(float(match[1]) for match in matches if match)
    dataset = replace(dataset, stimulus_hz=frequencies)
    if len(frequencies) < 2:
        return dataset
    window = dataset.window
    if cutting.tmin is None and cutting.tmax is None and not dataset.is_covariance:
        window = later_window(window, dataset.tmin, "ssvep")
    return replace(dataset, paradigm="ssvep", window=window)


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
    arrays = _read_arrays(path, None if signals else {*HEADER, key})
    X = arrays["C"] if "C" in arrays else _need(arrays, "X", path)
    n = len(X)
    numbers = {
        name: _number(arrays[name], name, path)
        for name in ("sfreq", "tmin", "unit_in_volts", "highpass", "lowpass")
        if name in arrays
    }
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
    labels, classes = _labels(arrays, cutting, n, path)
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


def _labels(
    arrays: dict[str, NDArray[Any]], cutting: Cutting, n: int, path: Path
) -> tuple[NDArray[np.str_] | None, tuple[str, ...]]:
    """Labels as texts, if there are any, and the names of classes; integers index these."""
    if cutting.label_from is None and "y" not in arrays:
        return None, ()
    key = cutting.label_from or "y"
    labels = _need(arrays, key, path)
    if labels.shape != (n,):
        raise DataError(f"{path}: {key!r} must hold one label per trial, {n}, got {labels.shape}.")
    names = tuple(str(name) for name in arrays.get("classes", ()))
    numbers = labels.dtype.kind in "iu"
    if not names or not (numbers or key == "y"):
        return cutting.labels(labels.astype(str), f"{path}"), ()
    known: set[Any] = set(range(len(names))) if numbers else set(names)
    labels = labels if numbers else labels.astype(str)
    if strange := sorted(set(labels.tolist()) - known):
        raise DataError(
            f"{path}: labels {strange} are not among the {len(names)} classes "
            f"{', '.join(names)}. Integers count from 0."
        )
    return cutting.labels(np.array(names)[labels] if numbers else labels, f"{path}"), names


def _need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path} lacks the array {name!r}. {LAYOUT}")
    return arrays[name]


def _number(value: NDArray[Any], name: str, path: Path) -> float | None:
    """The only number of an array; None for limits of a filter that are not known."""
    if name in ("highpass", "lowpass") and value.dtype.kind == "f" and not np.isfinite(value).any():
        return None
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    if value.shape in ((), (1,)) and value.dtype.kind in "iuf" and np.isfinite(value):
        number = float(value.reshape(()))
        if low <= number <= high:
            return number
    between = f" from {low:g} to {high:g}" if name in LIMITS else ""
    raise DataError(f"{path}: {name} must be one number{between}, got {value!r}.")


def _read_arrays(path: Path, wanted: set[str] | None) -> dict[str, NDArray[Any]]:
    """Arrays of an ``.npz``, read without trust, and checked; of those wanted no signals."""
    try:
        with zipfile.ZipFile(path) as zipped:
            size = sum(member.file_size for member in zipped.infolist())
        if size > max(MOST_ANYHOW, MOST_TIMES * path.stat().st_size):
            raise ValueError(
                f"it would unpack to {size / 1e9:.1f} GB, which no recording does; if it is yours, "
                "do not use savez_compressed"
            )
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {
                name: _claimed(archive, name)
                if wanted and name in ("X", "C")
                else _safe(archive, name)
                for name in archive.files
                if wanted is None or name in wanted
            }
    # Damage shows in many ways: in zlib, in the parser of Python, as a MemoryError.
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({error}). It may be truncated, no .npz at all, or hold Python "
            "objects, which are refused; write it again with numpy.savez and plain arrays."
        ) from error
    _check(arrays, path)
    return arrays


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


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Refuse arrays that we know by name and that are not what they should be."""
    name = "C" if "C" in arrays else "X"
    if name not in arrays:
        return  # told by who needs it
    X = arrays[name]
    square = name == "X" or X.shape[1:2] == X.shape[2:]
    if X.ndim != 3 or X.dtype.kind not in "iuf" or not X.size or not square:
        raise DataError(
            f"{path}: expected trials (n, channels, samples) in X or covariances (n, d, d) in C, "
            f"got {X.dtype} of shape {X.shape} in {name}."
        )
    n, channels = X.shape[:2]
    for key, size, kinds in (
        ("y", n, NAMES),
        ("run", n, NAMES),
        ("group", n, "iu"),
        ("onset", n, "iuf"),
        ("ch_names", channels, NAMES),
        ("classes", None, NAMES),
    ):
        array = arrays.get(key)
        if array is None:
            continue
        good = array.ndim == 1 and array.dtype.kind in kinds and len(array) == (size or len(array))
        if good and key in ("ch_names", "classes"):
            good = 0 < len(array) == len({str(name) for name in array})
        if not good:
            what = "different names" if key in ("ch_names", "classes") else "entries, one per trial"
            raise DataError(
                f"{path}: {key!r} must hold {size or 'some'} {what}, got {array.dtype} of shape "
                f"{array.shape}."
            )
