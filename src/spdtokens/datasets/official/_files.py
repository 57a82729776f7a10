"""Find the files of published data sets, read MATLAB files and cut trials."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, reading
from spdtokens.errors import DataError

#: Files by subject and session.
Files = dict[tuple[str, str], Path]


@dataclass(frozen=True)
class OfficialSource:
    """A data set that is read from the files that its authors publish.

    Attributes
    ----------
    name : str
        Name of the data set.
    description : str
        One line: what was recorded.
    how_to_get : str
        Which files are expected, and where to get them.
    load : callable
        Function from a folder (None for the default folders) and options to a :class:`Dataset`.
    layouts : mapping of str to callable
        For each layout that ``load`` knows, a function from a folder to its files.
    """

    name: str
    description: str
    how_to_get: str
    load: Callable[..., Dataset]
    layouts: Mapping[str, Callable[[Path], Files]]

    def folders(self, folder: Path | None = None) -> list[Path]:
        """Return the folders to search: the given one, or the default ones in order."""
        if folder is not None:
            return [Path(folder).expanduser()]
        own = os.environ.get("SPDTOKENS_DATA")
        places = [*([Path(own).expanduser()] if own else []), Path.home() / "spdtokens_data"]
        return [place / self.name for place in places]

    def is_present(self, folder: Path | None = None) -> bool:
        """Return whether files of this data set are in the folder, or in a default folder."""
        return any(files(p) for p in self.folders(folder) for files in self.layouts.values())

    def find(self, folder: Path | None) -> tuple[Path, str, Files]:
        """Return the first folder with files, the first layout found in it, and the files.

        Raises
        ------
        DataError
            If there are none. Lists the folders, the expected files and where to get them.
        """
        tried = self.folders(folder)
        for place in tried:
            for layout, files in self.layouts.items():
                if found := files(place):
                    return place, layout, found
        paths = "\n".join(f"  {p}{'' if p.is_dir() else ' (no such folder)'}" for p in tried)
        raise DataError(
            f"No files of {self.name} found in:\n{paths}\n{self.how_to_get}\nCopy them to one of "
            f"these folders, pass folder=..., or set SPDTOKENS_DATA to the parent of a folder "
            f"{self.name!r}."
        )


def matching(folder: Path, pattern: str, sessions: Sequence[str]) -> Files:
    """Find files by name in a folder and its direct subfolders.

    The pattern has a group for the subject and, unless a file contains all sessions, one for the
    session. Subjects lose their leading zeros. Archives unpack into ``train/`` or ``true_labels/``,
    so one level of folders is searched. A file nearer to the top wins.
    """
    found: Files = {}
    for path in [*sorted(folder.glob("*/*")), *sorted(folder.glob("*"))]:
        match = re.fullmatch(pattern, path.name, flags=re.IGNORECASE)
        if match and path.is_file():
            subject, *session = match.groups()
            for name in (text.upper() for text in session) if session else sessions:
                found[str(int(subject)), name] = path
    return found


def index_of(files: Files, sessions: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """List the sessions of every subject."""
    subjects = sorted({subject for subject, _ in files}, key=int)
    return {s: tuple(name for name in sessions if (s, name) in files) for s in subjects}


def mat_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the variables in a MATLAB file, by name."""
    import scipy.io

    with reading(path):
        return {name: shape for name, shape, _ in scipy.io.whosmat(str(path))}


def read_mat(path: Path, *names: str) -> list[Any]:
    """Read variables of a MATLAB file, structures as objects, without axes of length 1.

    Raises
    ------
    DataError
        If the file cannot be read, or lacks a variable.
    """
    import scipy.io

    with reading(path):
        found = scipy.io.loadmat(
            str(path), variable_names=list(names), squeeze_me=True, struct_as_record=False
        )
    missing = [name for name in names if name not in found]
    there = ", ".join(mat_shapes(path)) if missing else ""
    expect(not missing, f"{path} lacks the variables {missing}. It has: {there}.")
    return [found[name] for name in names]


def numbers(values: Any, what: str, path: Path) -> NDArray[np.float64]:
    """Return a MATLAB array, or cell array of scalars, as a flat array of numbers."""
    try:
        return np.array([float(np.squeeze(v)) for v in np.atleast_1d(values).ravel()])
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: {what} must be numbers ({error}).") from error


def whole_numbers(
    values: Any, what: str, path: Path, between: tuple[float, float] = (-np.inf, np.inf)
) -> NDArray[np.int64]:
    """Return a MATLAB array, or cell array of scalars, as a flat array of integers."""
    flat = numbers(values, what, path)
    right = (flat == np.round(flat)) & (flat >= between[0]) & (flat <= between[1])  # not NaN
    expect(
        bool(right.all()),
        f"{path}: {what} must be integers between {between[0]:g} and {between[1]:g}, got "
        f"{np.unique(flat[~right]).tolist()}.",
    )
    return flat.astype(np.int64)


def matt_trials(
    path: Path,
    names: tuple[str, str],
    n_trials: int,
    n_channels: int,
    n_classes: int,
    part: slice = slice(None),
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read trials as the authors of MAtt preprocessed them, and labels, which count from zero.

    Their files do not state reference, filter and unit.
    """
    X, y = read_mat(path, *names)
    X = np.asarray(X)
    y = whole_numbers(y, f"{names[1]!r}", path, (0, n_classes - 1))
    expect(
        X.ndim == 3 and X.shape[:2] == (n_trials, n_channels) and len(y) == n_trials,
        f"{path}: {names[0]!r} must have shape ({n_trials}, {n_channels}, samples) and "
        f"{names[1]!r} {n_trials} labels, got {X.shape} and {len(y)}.",
    )
    expect(bool(np.isfinite(X).all()), f"{path}: {names[0]!r} contains NaN or infinite values.")
    return X[part].astype(np.float32), y[part]


def matt_samples(path: Path, name: str) -> int:
    """Return the length of MAtt's trials, from which their sampling rate follows."""
    shape = mat_shapes(path).get(name, ())
    expect(
        len(shape) == 3,
        f"{path}: {name!r} must have shape (n, channels, samples), got {shape}.",
    )
    return shape[2]


def cut(
    signal: NDArray[Any],
    onsets: NDArray[np.int64],
    sfreq: float,
    interval: tuple[float, float],
    window: tuple[float, float],
    where: Path | str,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Cut trials around onsets.

    Parameters
    ----------
    signal : ndarray, shape (n_channels, n_samples)
        Continuous recording.
    onsets : ndarray of int, shape (n_trials,)
        Sample of the cue of every trial, counted from zero.
    sfreq : float
        Sampling rate in Hz.
    interval : tuple of float
        Begin and end of a trial in seconds after the cue; the end is excluded.
    window : tuple of float
        Begin and end of the part to decode. It must be within the recording. Samples around it are
        for the filters only; beyond the ends of the recording they repeat its outermost sample.
    where : Path or str
        Source of the signal, for error messages.

    Returns
    -------
    trials : ndarray, shape (n_trials, n_channels, n_samples)
        Trials.
    group : ndarray of int, shape (n_trials,)
        Group of each trial; trials whose windows overlap belong to the same group.
    onset : ndarray of int, shape (n_trials,)
        First sample of each trial.
    """
    start, stop = (round(t * sfreq) for t in interval)
    first, last = (round(t * sfreq) for t in window)
    n_samples = signal.shape[1]
    outside = np.flatnonzero((onsets + first < 0) | (onsets + last > n_samples))
    if outside.size:
        i = int(outside[0])
        raise DataError(
            f"{where}: trial {i + 1} of {len(onsets)} needs samples {onsets[i] + first} to "
            f"{onsets[i] + last}, but the recording has {n_samples}. The file is truncated, or its "
            "events belong to another recording."
        )
    at = np.clip(onsets[:, None] + np.arange(start, stop), 0, n_samples - 1)
    trials = np.moveaxis(signal[:, at], 0, 1).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(trials).all(axis=(1, 2)))
    expect(not bad.size, f"{where}: trials {(bad + 1).tolist()} contain NaN or infinite values.")
    length = round((window[1] - window[0]) * sfreq)
    apart = np.diff(onsets, prepend=onsets[:1] - length) >= length
    return trials, np.cumsum(apart) - 1, onsets + start


def expect(condition: bool, message: str) -> None:
    """Raise a :class:`DataError` with the message unless the condition is true."""
    if not condition:
        raise DataError(message)
