"""The user's own data: arrays, a folder of ``.npz`` files, MNE epochs."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.data.base import DataError, Dataset, Paradigm, Recording
from spdtokens.data.select import later_window

NAME = re.compile(r"sub-(?P<subject>[^_]+)_ses-(?P<session>.+)")
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
        Samples a second; None for covariances.
    ch_names, classes : tuple of str, optional
        Names of channels, and of the sorted labels.
    tmin : float
        Seconds from the cue to the first sample.
    run, group : array, shape (n,), optional
        See :class:`~spdtokens.data.base.Recording`.
    name : str
    """
    X, y = np.asarray(X), np.asarray(y)
    labels, coded = np.unique(y, return_inverse=True)
    recording = Recording("1", "1", X, coded.astype(np.int64), *_run_and_group(run, group, len(X)))
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


def from_npz_folder(folder: Path) -> Dataset:
    """Read a folder of ``.npz`` files, one a subject and session.

    Parameters
    ----------
    folder : Path
        See ``LAYOUT``.
    """
    files = _by_subject(folder)
    first = _read_npz(next(iter(next(iter(files.values())).values())))
    sfreq = None if "C" in first else float(_need(first, "sfreq", folder))
    X = first["C"] if "C" in first else _need(first, "X", folder)
    tmin = float(first.get("tmin", 0.0))
    classes = tuple(str(c) for c in _need(first, "classes", folder))
    frequencies = tuple(float(m) for c in classes for m in re.findall(r"^(\d+(?:\.\d+)?) ?Hz$", c))
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
        filtered=tuple(_limit(first, k) for k in ("highpass", "lowpass")),  # type: ignore[arg-type]
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


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} cannot be read ({error}). It may be truncated, no .npz at all, or hold Python "
            "objects, which are refused; write it again with numpy.savez and plain arrays."
        ) from error


def _need(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path} lacks the array {name!r}. {LAYOUT}")
    return arrays[name]


def _npz_recording(path: Path, subject: str, session: str) -> Recording:
    arrays = _read_npz(path)
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


def _limit(arrays: dict[str, NDArray[Any]], name: str) -> float | None:
    return float(arrays[name]) if name in arrays and np.isfinite(arrays[name]).all() else None


def from_epochs_file(path: Path) -> Dataset:
    """Read MNE epochs (``-epo.fif``); the event names are the classes."""
    import mne

    try:
        epochs = mne.read_epochs(path, preload=True, verbose="error")
    except Exception as error:
        raise DataError(
            f"{path} cannot be read as MNE epochs ({error}). Write it with epochs.save()."
        ) from error
    epochs.pick("eeg")
    names = sorted(epochs.event_id, key=lambda name: epochs.event_id[name])
    codes = {epochs.event_id[name]: i for i, name in enumerate(names)}
    y = np.array([codes[code] for code in epochs.events[:, 2]], dtype=np.int64)
    sfreq = float(epochs.info["sfreq"])
    X = epochs.get_data(copy=False)
    recording = Recording("1", "1", X, y, *_run_and_group(None, None, len(X)))
    return Dataset(
        name=path.stem.removesuffix("-epo"),
        description=f"MNE epochs, {path}",
        paradigm="other",
        classes=tuple(names),
        ch_names=tuple(epochs.ch_names),
        sfreq=sfreq,
        tmin=float(epochs.tmin),
        window=_whole(float(epochs.tmin), X, sfreq),
        index={"1": ("1",)},
        read=lambda *_: recording,
        filtered=(float(epochs.info["highpass"]), float(epochs.info["lowpass"])),
        unit_in_volts=1.0,
    )
