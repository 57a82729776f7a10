"""Read MATLAB files and cut trials, with messages that name the file and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from spdtokens.errors import DataError


def mat_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the variables in a MATLAB file, without reading them."""
    try:
        return {name: shape for name, shape, _ in scipy.io.whosmat(str(path))}
    except Exception as error:
        raise _broken_mat(path, error) from error


def read_mat(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Variables of a MATLAB file, structures as objects, singleton axes dropped.

    Raises
    ------
    DataError
        If the file cannot be read, or a variable is not in it.
    """
    try:
        found = scipy.io.loadmat(
            str(path), variable_names=list(names), squeeze_me=True, struct_as_record=False
        )
    except Exception as error:  # SciPy raises many kinds on damaged files
        raise _broken_mat(path, error) from error
    missing = [name for name in names if name not in found]
    if missing:
        inside = ", ".join(mat_shapes(path)) or "nothing"
        raise DataError(f"{path} has no variable {missing[0]!r}; it holds: {inside}.")
    return {name: found[name] for name in names}


def _broken_mat(path: Path, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path} does not exist.")
    if isinstance(error, NotImplementedError):
        return DataError(
            f"{path} is a MATLAB 7.3 (HDF5) file; the official files are version 5. Save it again "
            "in MATLAB with '-v7'."
        )
    return DataError(
        f"{path} cannot be read as a MATLAB file: it is damaged or cut short "
        f"({type(error).__name__}: {error}). Get it again."
    )


def whole_numbers(values: Any, what: str, path: Path) -> NDArray[np.int64]:
    """A flat array of whole numbers, from whatever MATLAB made of it (also cell arrays)."""
    try:
        flat = np.array([float(np.squeeze(v)) for v in np.atleast_1d(values).ravel()])
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: {what} must be numbers, got {values!r}.") from error
    if not np.all(flat == np.round(flat)):  # also refuses NaN
        raise DataError(
            f"{path}: {what} must be whole numbers, got {flat[flat != np.round(flat)]}."
        )
    return flat.astype(np.int64)


def labels_from(
    values: Any, n_classes: int, what: str, path: Path, first: int = 1
) -> NDArray[np.int64]:
    """Labels that count from ``first``, as indices that count from zero."""
    labels = whole_numbers(values, what, path)
    last = first + n_classes - 1
    wrong = sorted(set(labels.tolist()) - set(range(first, last + 1)))
    if wrong:
        raise DataError(f"{path}: {what} must lie between {first} and {last}, found {wrong}.")
    return labels - first


def cut(
    signal: NDArray[Any],
    onsets: NDArray[np.int64],
    sfreq: float,
    interval: tuple[float, float],
    window: tuple[float, float],
    path: Path,
) -> NDArray[np.float32]:
    """Trials around onsets.

    Parameters
    ----------
    signal : ndarray, shape (channels, samples)
    onsets : ndarray of int, shape (n,)
        Sample of time zero of every trial, counted from zero.
    sfreq : float
    interval : tuple of float
        First and last second of a trial; the last sample is left out.
    window : tuple of float
        The seconds that will be decoded. They must lie within the recording; what lies around them
        only serves the filters, and repeats the outermost sample where a recording ends early.
    path : Path
        Named in messages.

    Returns
    -------
    ndarray, shape (n, channels, samples)
    """
    start, stop = (round(t * sfreq) for t in interval)
    first, last = (round(t * sfreq) for t in window)
    n_samples = signal.shape[1]
    outside = np.flatnonzero((onsets + first < 0) | (onsets + last > n_samples))
    if outside.size:
        i = int(outside[0])
        raise DataError(
            f"{path}: trial {i + 1} of {len(onsets)} needs samples {onsets[i] + first} to "
            f"{onsets[i] + last}, but the recording has {n_samples}. The file is cut short, or its "
            "events do not belong to it."
        )
    at = np.clip(onsets[:, None] + np.arange(start, stop), 0, n_samples - 1)
    trials = np.moveaxis(signal[:, at], 0, 1).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(trials).all(axis=(1, 2)))
    if bad.size:
        raise DataError(f"{path}: trials {(bad + 1).tolist()} hold NaN or infinite values.")
    return trials


def first_samples(
    onsets: NDArray[np.int64], sfreq: float, interval: tuple[float, float]
) -> NDArray[np.int64]:
    """Samples at which trials that :func:`cut` has cut begin."""
    return onsets + round(interval[0] * sfreq)


def overlap_groups(
    onsets: NDArray[np.int64], sfreq: float, window: tuple[float, float]
) -> NDArray[np.int64]:
    """Group numbers: trials whose decoded windows overlap in time share one."""
    length = round((window[1] - window[0]) * sfreq)
    apart = np.diff(onsets, prepend=onsets[:1] - length) >= length
    return np.cumsum(apart) - 1


def expect(condition: bool, message: str) -> None:
    """Raise a :class:`DataError` with the message unless the condition holds."""
    if not condition:
        raise DataError(message)
