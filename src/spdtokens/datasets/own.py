"""The user's own data: arrays, and ``.npz`` files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.datasets.base import Dataset, Recording, as_float
from spdtokens.datasets.cutting import Cutting, named_labels, part_of
from spdtokens.datasets.joining import Head
from spdtokens.datasets.npz import read_npz, scalar
from spdtokens.datasets.pieces import Piece, from_pieces
from spdtokens.datasets.select import later_window
from spdtokens.errors import DataError

NAME = re.compile(r"sub-(?P<subject>[^_]+)_ses-(?P<session>.+)")
HERTZ = re.compile(r"(\d{1,5}(?:\.\d+)?) ?Hz")
LAYOUT = (
    "A folder of .npz holds one file a subject and session, named sub-01_ses-1.npz, with the "
    "arrays X (trials, channels, samples) and sfreq, or C (trials, channels, channels); y, text or "
    "integers that index classes; and where known ch_names, tmin, run, group, onset."
)
#: Arrays that a recording has by other names; all others with one entry per trial are kept.
KNOWN = {"X", "C", "classes", "ch_names", "run", "group"}


def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sfreq: float | None = None,
    ch_names: tuple[str, ...] | None = None,
    classes: tuple[str, ...] | None = None,
    tmin: float = 0.0,
    run: ArrayLike | None = None,
    group: ArrayLike | None = None,
    about: Mapping[str, ArrayLike] | None = None,
    name: str = "arrays",
) -> Dataset:
    """Make a data set of one recording from arrays.

    Parameters
    ----------
    X : array, shape (n, channels, samples), or (n, d, d) for covariances
    y : array, shape (n,)
        Labels of any kind.
    sfreq : float, optional
        Samples per second; None for covariances.
    ch_names, classes : tuple of str, optional
        Names of channels, and of the sorted labels.
    tmin : float
        Seconds from the cue to the first sample.
    run, group : array, shape (n,), optional
        Values of any kind, see :class:`~spdtokens.datasets.base.Recording`: trials of one group are
        never split between training and test.
    about : mapping of str to array, shape (n, ...), optional
        Whatever else is known of each trial. ``onset``, the sample of its run at which a trial
        begins, keeps trials that overlap from standing in both training and test.
    name : str

    Raises
    ------
    DataError
        For arrays that are not trials and their labels.
    """
    X, y = np.asarray(X), np.asarray(y)
    if y.ndim != 1:
        raise DataError(f"y must be one label per trial, of shape (n,), got shape {y.shape}.")
    labels, coded = np.unique(y, return_inverse=True)
    runs = np.full(len(X), "1") if run is None else np.asarray(run).astype(str)
    groups = np.arange(len(X))
    if group is not None:
        groups = np.unique(np.asarray(group), return_inverse=True)[1]
    more = {key: np.asarray(values) for key, values in (about or {}).items()}
    recording = Recording("1", "1", X, coded.astype(np.int64), runs, groups, more)
    if sfreq is None and X.shape[1] != X.shape[2]:
        raise DataError(
            f"X of shape {X.shape} holds signals: pass sfreq, the samples per second, such as "
            "sfreq=250."
        )
    return Dataset(
        name=name,
        description="arrays given in Python",
        paradigm="other",
        classes=classes or tuple(str(label) for label in labels),
        ch_names=ch_names or tuple(f"channel {i}" for i in range(X.shape[1])),
        sfreq=sfreq,
        tmin=tmin,
        window=(tmin, tmin + X.shape[-1] / sfreq) if sfreq else (0.0, 0.0),
        index={"1": ("1",)},
        read=lambda *_: recording,
        is_covariance=sfreq is None,
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
    one = path.is_file()
    places = {path: ("1", "1", "1")} if one else _places(path)
    seen = {file: read_npz_trials(file, cutting, signals=False) for file in places}
    for file, piece in seen.items():
        if piece.labels is None:
            raise DataError(f"{file} lacks the array 'y'. {LAYOUT}")
    dataset = from_pieces(
        path.stem if one else path.name,
        f"trials of {path}" if one else f"folder of .npz files, {path}",
        seen,
        places,
        lambda file: read_npz_trials(file, cutting),
        cutting,
    )
    found = (HERTZ.fullmatch(name) for name in dataset.classes)
    frequencies = tuple(float(match[1]) for match in found if match)
    if len(frequencies) < 2:
        return replace(dataset, stimulus_hz=frequencies)
    whole = cutting.tmin is not None or cutting.tmax is not None or dataset.is_covariance
    return replace(
        dataset,
        paradigm="ssvep",
        stimulus_hz=frequencies,
        window=dataset.window if whole else later_window(dataset.window, dataset.tmin, "ssvep"),
    )


def read_npz_trials(path: Path, cutting: Cutting | None = None, signals: bool = True) -> Piece:
    """Read the trials of an ``.npz`` file, and all that it tells of them.

    Parameters
    ----------
    path : Path
    cutting : Cutting, optional
        Channels and rate are left as they are.
    signals : bool
        False reads headers only: see :func:`~spdtokens.datasets.npz.read_npz`.
    """
    cutting = cutting or Cutting()
    label_from = cutting.label_from or "y"
    arrays = read_npz(path, () if signals else (label_from,))
    X = arrays["C"] if "C" in arrays else _need(arrays, "X", path)
    n = len(X)
    about = {
        name: array
        for name, array in arrays.items()
        if name not in KNOWN and name != "y" and array.ndim and len(array) == n
    }
    if label_from != "y" and "y" in arrays:
        about["y"] = arrays["y"]
    tmin, sfreq = scalar(arrays.get("tmin", np.array(0.0)), "tmin", path), None
    if "C" not in arrays:
        sfreq = scalar(_need(arrays, "sfreq", path), "sfreq", path)
        first, last = part_of(cutting, tmin, sfreq, X.shape[-1], f"{path}")
        X, tmin = X[..., first:last], tmin + first / sfreq
        if "onset" in about and about["onset"].dtype.kind in "iu":
            about["onset"] = about["onset"].astype(np.int64) + first
    elif cutting.tmin is not None or cutting.tmax is not None:
        raise DataError(f"{path} contains covariance matrices; tmin and tmax do not apply.")
    unit = arrays.get("unit_in_volts")
    labels, classes = _labels(arrays, cutting, n, path)
    run, group = arrays.get("run"), arrays.get("group")
    return Piece(
        X=as_float(X, f"{path}") if signals else X,
        head=Head(
            ch_names=tuple(str(name) for name in arrays.get("ch_names", range(X.shape[1]))),
            sfreq=sfreq,
            tmin=tmin,
            n_samples=X.shape[-1],
            unit_in_volts=None if unit is None else scalar(unit, "unit_in_volts", path),
            named="ch_names" in arrays,
        ),
        labels=labels,
        classes=classes,
        run=None if run is None else run.astype(str),
        group=None if group is None else group.astype(np.int64),
        about=about,
        filtered=(_limit(arrays, "highpass", path), _limit(arrays, "lowpass", path)),
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
        raise DataError(f"{path}: expected one label per trial, {n}; got shape {labels.shape}.")
    names = tuple(str(name) for name in arrays.get("classes", ()))
    if not names or (key != "y" and labels.dtype.kind not in "iu"):
        return named_labels(labels.astype(str), cutting, f"{path}"), ()
    known: set[Any] = set(names)
    if labels.dtype.kind in "US":
        labels = labels.astype(str)
    elif labels.dtype.kind in "iu":
        known = set(range(len(names)))
    else:
        raise DataError(f"{path}: y must hold integers that index classes, not {labels.dtype}.")
    if strange := sorted(set(labels.tolist()) - known):
        raise DataError(
            f"{path}: labels {strange} are not among the {len(names)} classes "
            f"{', '.join(names)}. Integers count from 0."
        )
    texts = labels if labels.dtype.kind == "U" else np.array(names)[labels]
    return named_labels(texts, cutting, f"{path}"), names


def _places(folder: Path) -> dict[Path, tuple[str, str, str]]:
    """Subject, session and run of every file."""
    files = {}
    for path in sorted(folder.glob("*.npz")):
        match = NAME.fullmatch(path.stem)
        if match is None:
            raise DataError(f"{path}: the name does not tell subject and session. {LAYOUT}")
        files[path] = (match["subject"], match["session"], "1")
    if not files:
        raise DataError(f"{folder} has no .npz files. {LAYOUT}")
    return files


def _need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path} lacks the array {name!r}. {LAYOUT}")
    return arrays[name]


def _limit(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> float | None:
    value = arrays.get(name)
    if value is None or (value.dtype.kind == "f" and not np.isfinite(value).any()):
        return None
    return scalar(value, name, path)
