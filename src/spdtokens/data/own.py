"""The user's own data: arrays, and ``.npz`` files."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.data.base import DataError, Dataset, Paradigm, Recording
from spdtokens.data.cutting import Cutting, chosen_events, refuse_one_class
from spdtokens.data.mne_files import pick_channels
from spdtokens.data.npz import read_npz, scalar
from spdtokens.data.select import later_window

NAME = re.compile(r"sub-(?P<subject>[^_]+)_ses-(?P<session>.+)")
HERTZ = re.compile(r"(\d{1,5}(?:\.\d+)?) ?Hz")
LAYOUT = (
    "A folder of .npz holds one file a subject and session, named sub-01_ses-1.npz, with the "
    "arrays X (trials, channels, samples) and sfreq, or C (trials, channels, channels); y (integer "
    "labels) and classes; and where known ch_names, tmin, run, group."
)

KNOWN = {"X", "C", "y", "classes", "ch_names", "run", "group"}


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
        Values of any kind, see :class:`~spdtokens.data.base.Recording`: trials of one group are
        never split between training and test.
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
    if group is not None:
        group = np.unique(np.asarray(group), return_inverse=True)[1]
    recording = Recording("1", "1", X, coded.astype(np.int64), *_run_and_group(run, group, len(X)))
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
        window=_whole(tmin, X, sfreq),
        index={"1": ("1",)},
        read=lambda *_: recording,
        is_covariance=sfreq is None,
    )


def from_npz_file(path: Path, cutting: Cutting | None = None) -> Dataset:
    """Read one ``.npz`` file: ``X`` and ``sfreq``, or ``C``; ``y`` with labels of any kind.

    Parameters
    ----------
    path : Path
        Besides these arrays it may hold those of ``LAYOUT``.
    cutting : Cutting, optional
        ``label_from`` names the array of labels, ``events`` says which of them to use; times and
        channels as of recordings.
    """
    cutting = cutting or Cutting()
    arrays = read_npz(path)
    _need(arrays, cutting.label_from or "y", path)
    trials = read_trials(path, cutting.label_from)
    X, values, sfreq = trials["X"], trials["labels"], trials["sfreq"]
    kept = np.ones(len(X), dtype=bool)
    classes = tuple(np.unique(values).tolist())
    if cutting.events is not None:
        kinds, counts = np.unique(values, return_counts=True)
        there = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
        names = {event: name for name, event in chosen_events(there, cutting, f"{path}").items()}
        values = np.array([names.get(value, "") for value in values])
        kept, classes = values != "", tuple(cutting.events)
    refuse_one_class(classes, f"{path}")
    tmin = scalar(arrays.get("tmin", np.array(0.0)), "tmin", path)
    X, ch_names, tmin = _part(X[kept], trials["ch_names"], sfreq, tmin, cutting, path)
    run, group = arrays.get("run"), arrays.get("group")
    codes = np.array([classes.index(value) for value in values[kept]], dtype=np.int64)
    dataset = from_arrays(
        X,
        codes,
        sfreq=sfreq,
        ch_names=ch_names,
        classes=classes,
        tmin=tmin,
        run=None if run is None else run[kept],
        group=None if group is None else group[kept],
        name=path.stem,
    )
    unit = trials["unit_in_volts"]
    return replace(dataset, description=f"trials of {path}", unit_in_volts=unit)


def read_trials(path: Path, label_from: str | None = None) -> dict[str, Any]:
    """Trials of an ``.npz`` file, and what is known of them.

    Returns
    -------
    dict
        ``X`` (n, channels, samples) or (n, d, d), ``labels`` (n,) as texts or None, ``ch_names``,
        ``sfreq`` or None, ``unit_in_volts`` or None.
    """
    arrays = read_npz(path)
    X = arrays["C"] if "C" in arrays else _need(arrays, "X", path)
    ch_names = tuple(str(name) for name in arrays.get("ch_names", range(X.shape[1])))
    labels = _need(arrays, label_from, path) if label_from else arrays.get("y")
    if labels is not None and labels.shape != X.shape[:1]:
        raise DataError(
            f"{path}: expected a label a trial, {len(X)}; got labels of shape {labels.shape}."
        )
    unit = arrays.get("unit_in_volts")
    sfreq = None if "C" in arrays else scalar(_need(arrays, "sfreq", path), "sfreq", path)
    return {
        "X": X,
        "labels": None if labels is None else _named(labels, arrays.get("classes"), path),
        "ch_names": ch_names,
        "sfreq": sfreq,
        "unit_in_volts": None if unit is None else scalar(unit, "unit_in_volts", path),
    }


def _named(labels: NDArray[Any], classes: NDArray[Any] | None, path: Path) -> NDArray[np.str_]:
    """Labels as texts; whole numbers index the names of classes where there are any."""
    if classes is None or labels.dtype.kind not in "iu":
        return labels.astype(str)
    if labels.size and not 0 <= labels.min() <= labels.max() < len(classes):
        raise DataError(
            f"{path}: labels go from {labels.min()} to {labels.max()}, and {len(classes)} classes "
            "are named. Labels count from 0."
        )
    return classes.astype(str)[labels]


def _part(
    X: NDArray[Any],
    ch_names: tuple[str, ...],
    sfreq: float | None,
    tmin: float,
    cutting: Cutting,
    path: Path,
) -> tuple[NDArray[Any], tuple[str, ...], float]:
    """The channels and the time that are asked for."""
    if cutting.channels:
        chosen = pick_channels(ch_names, cutting.channels, f"{path}")
        rows = [ch_names.index(name) for name in chosen]
        X, ch_names = X[:, rows], tuple(chosen)
        if sfreq is None:
            X = X[:, :, rows]
    if sfreq is None:
        if cutting.tmin is not None or cutting.tmax is not None:
            raise DataError(f"{path} holds covariance matrices, in which time is gone.")
        return X, ch_names, tmin
    n = X.shape[-1]
    first = 0 if cutting.tmin is None else round((cutting.tmin - tmin) * sfreq)
    last = n if cutting.tmax is None else round((cutting.tmax - tmin) * sfreq)
    if not 0 <= first < last <= n:
        raise DataError(
            f"{path}: its trials last from {tmin:g} to {tmin + n / sfreq:g} s, and do not hold the "
            "part that is asked for. Change --tmin and --tmax."
        )
    return X[..., first:last], ch_names, tmin + first / sfreq


def from_npz_folder(folder: Path) -> Dataset:
    """Read a folder of ``.npz`` files, one a subject and session.

    Parameters
    ----------
    folder : Path
        See ``LAYOUT``.
    """
    files = _by_subject(folder)
    first = read_npz(next(iter(next(iter(files.values())).values())))
    X = first["C"] if "C" in first else _need(first, "X", folder)
    sfreq = None if "C" in first else scalar(_need(first, "sfreq", folder), "sfreq", folder)
    tmin = scalar(first.get("tmin", np.array(0.0)), "tmin", folder)
    classes = tuple(str(c) for c in _need(first, "classes", folder))
    found = (HERTZ.fullmatch(name) for name in classes)
    frequencies = tuple(float(match[1]) for match in found if match)
    paradigm: Paradigm = "ssvep" if len(frequencies) > 1 else "other"
    return Dataset(
        name=folder.name,
        description=f"folder of .npz files, {folder}",
        paradigm=paradigm,
        classes=classes,
        ch_names=tuple(str(c) for c in first.get("ch_names", range(X.shape[1]))),
        sfreq=sfreq,
        tmin=tmin,
        window=later_window(_whole(tmin, X, sfreq), tmin, paradigm),
        index={subject: tuple(sessions) for subject, sessions in files.items()},
        read=lambda subject, session: _npz_recording(files[subject][session], subject, session),
        stimulus_frequencies=frequencies,
        filtered=(_limit(first, "highpass", folder), _limit(first, "lowpass", folder)),
        is_covariance=sfreq is None,
    )


def _by_subject(folder: Path) -> dict[str, dict[str, Path]]:
    files: dict[str, dict[str, Path]] = defaultdict(dict)
    for path in sorted(folder.glob("*.npz")):
        match = NAME.fullmatch(path.stem)
        if match is None:
            raise DataError(f"{path}: the name does not tell subject and session. {LAYOUT}")
        files[match["subject"]][match["session"]] = path
    if not files:
        raise DataError(f"{folder} has no .npz files. {LAYOUT}")
    return dict(files)


def _need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path} lacks the array {name!r}. {LAYOUT}")
    return arrays[name]


def _npz_recording(path: Path, subject: str, session: str) -> Recording:
    arrays = read_npz(path)
    X = arrays["C"] if "C" in arrays else _need(arrays, "X", path)
    y = _need(arrays, "y", path)
    if not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"{path}: y must hold integers that index classes, not {y.dtype}.")
    run, group = _run_and_group(arrays.get("run"), arrays.get("group"), len(X))
    about = {
        name: array
        for name, array in arrays.items()
        if name not in KNOWN and array.ndim and len(array) == len(X)
    }
    return Recording(subject, session, X, y.astype(np.int64), run, group, about)


def _run_and_group(
    run: ArrayLike | None, group: ArrayLike | None, n: int
) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """One run and one group a trial where nothing else is known."""
    runs = np.full(n, "1") if run is None else np.asarray(run).astype(str)
    groups = np.arange(n) if group is None else np.asarray(group).astype(np.int64)
    return runs, groups


def _whole(tmin: float, X: NDArray[Any], sfreq: float | None) -> tuple[float, float]:
    return (tmin, tmin + X.shape[-1] / sfreq) if sfreq else (0.0, 0.0)


def _limit(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> float | None:
    value = arrays.get(name)
    if value is None or (value.dtype.kind == "f" and not np.isfinite(value).any()):
        return None
    return scalar(value, name, path)
