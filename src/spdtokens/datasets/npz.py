"""``.npz`` files of users, read without trust."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.errors import DataError

#: A file may unpack to so many times its size, and to so many bytes in any case. Zeros shrink to a
#: thousandth, signals to a half.
MOST_TIMES, MOST_ANYHOW = 100, 100_000_000
#: Samples a second between which a rate can be one.
RATES = (1e-3, 1e7)
_NUMBERS, _NAMES = "iuf", "iufbUS"
#: Arrays with an entry a trial, and the kinds of their entries.
_BY_TRIAL = {"y": _NAMES, "run": _NAMES, "group": "iu", "onset": _NUMBERS}
_SCALARS = ("sfreq", "tmin", "unit_in_volts")
_SIGNALS = ("X", "C")
_HEADER = {*_SIGNALS, *_BY_TRIAL, *_SCALARS, "ch_names", "classes", "highpass", "lowpass"}


def read_npz(path: Path, header: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file and check those that we know.

    Parameters
    ----------
    path : Path
    header : tuple of str, optional
        If given, signals are not read: zeros of their shape and dtype, which take no memory,
        stand for them. Of the other arrays only those that describe trials are read, and those
        named here.

    Raises
    ------
    DataError
        If it cannot be read, is far larger than it seems, or an array is not what it should be.
    """
    try:
        _refuse_bomb(path)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {
                name: _claimed(archive, name) if header and name in _SIGNALS else archive[name]
                for name in archive.files
                if not header or name in _HEADER or name in header
            }
    except DataError:
        raise
    # Damage shows in many ways: in zlib, in the parser of Python, as a MemoryError.
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({error}). It may be truncated, no .npz at all, or hold Python "
            "objects, which are refused; write it again with numpy.savez and plain arrays."
        ) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path}: {name!r} is no array. Write it again with numpy.savez.")
        if array.dtype.kind == "U" and not _is_text(array):
            raise DataError(f"{path}: {name!r} is damaged: it contains what is not text.")
    _check(arrays, path)
    return arrays


def _is_text(array: NDArray[Any]) -> bool:
    """Whether all characters exist; NumPy makes strings of any numbers, and Python crashes."""
    codes = np.frombuffer(array.tobytes(), np.uint32)
    if not array.dtype.isnative:
        codes = codes.byteswap()
    return not ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()


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


def _refuse_bomb(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max(MOST_ANYHOW, MOST_TIMES * path.stat().st_size):
        raise DataError(
            f"{path} would unpack to {size / 1e9:.1f} GB, which no recording does. If it is yours, "
            "write it with numpy.savez instead of savez_compressed."
        )


def _check(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    name = "C" if "C" in arrays else "X"
    if name not in arrays:
        return  # told by who needs it
    X = arrays[name]
    square = name == "X" or X.shape[1:2] == X.shape[2:]
    if X.ndim != 3 or X.dtype.kind not in _NUMBERS or not X.size or not square:
        raise DataError(
            f"{path}: expected trials (n, channels, samples) in X or covariances (n, d, d) in C, "
            f"got {X.dtype} of shape {X.shape} in {name}."
        )
    for key, kinds in _BY_TRIAL.items():
        if key in arrays:
            _check_by_trial(arrays[key], key, kinds, len(X), path)
    for key, n in (("ch_names", X.shape[1]), ("classes", None)):
        if key in arrays:
            _check_names(arrays[key], key, n, path)
    for key in _SCALARS:
        if key in arrays:
            scalar(arrays[key], key, path)


def _check_by_trial(array: NDArray[Any], key: str, kinds: str, n: int, path: Path) -> None:
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise DataError(
            f"{path}: {key} has one entry a trial, not {array.dtype} of shape {array.shape}."
        )
    if len(array) != n:
        raise DataError(
            f"{path}: {n} trials but {len(array)} entries in {key!r}; they must go together."
        )


def _check_names(array: NDArray[Any], key: str, n: int | None, path: Path) -> None:
    names = {str(name) for name in array.ravel()}
    wrong = array.ndim != 1 or array.dtype.kind not in _NAMES or len(names) != array.size
    if wrong or not array.size or (n is not None and len(array) != n):
        wanted = "different names" if n is None else f"{n} different names, one a channel"
        raise DataError(
            f"{path}: {key} holds {wanted}, not {array.dtype} of shape {array.shape}"
            + (", some of them the same." if len(names) < array.size else ".")
        )


def scalar(value: NDArray[Any], name: str, path: Path) -> float:
    """The only number of an array.

    Raises
    ------
    DataError
        If it is something else, or none that ``name`` can be.
    """
    if value.shape not in ((), (1,)) or value.dtype.kind not in _NUMBERS or not np.isfinite(value):
        raise DataError(f"{path}: {name} is one number, not {value!r}.")
    number = float(value.reshape(()))
    if name == "sfreq" and not RATES[0] <= number <= RATES[1]:
        raise DataError(f"{path}: sfreq is samples a second, which {number:g} cannot be.")
    if name == "unit_in_volts" and number <= 0:
        raise DataError(f"{path}: unit_in_volts is positive, such as 1e-6, not {number:g}.")
    return number
