"""Tokens on disk, so that the same trials are not filtered and decomposed twice.

A file's name is a digest of the trials, of the fitted steps and of the code that makes tokens:
a change of any of them is another file, so nothing stale can be read. The array within has the same
name and, as in every ``.npz``, a checksum: a damaged or exchanged file is noticed and made anew.
Files appear by renaming, so that several processes may share the folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline

from spdtokens._code import digest_of
from spdtokens._files import written_whole
from spdtokens.datasets.base import Dataset
from spdtokens.errors import DataError

DEFAULT_LIMIT = 2 * 1024**3
#: Rooms whose code makes tokens.
ROOMS = ("runtime", "geometry", "preprocessing")
#: Names of our files; those in .npy are of version 0.1. All others in the folder are not ours.
OURS = re.compile(r"[0-9a-f]{40}\.np[yz]")


def default_folder() -> Path:
    """``$SPDTOKENS_CACHE``, else ``spdtokens`` in the user's cache folder."""
    if own := os.environ.get("SPDTOKENS_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spdtokens"


@dataclass(frozen=True)
class TokenCache:
    """A bounded folder of tokens.

    Parameters
    ----------
    folder : Path, optional
        See :func:`default_folder`.
    limit : int
        Bytes; beyond it the files used longest ago are removed.
    enabled : bool
        False computes every time and touches no disk (``--no-cache``).
    """

    folder: Path | None = None
    limit: int = DEFAULT_LIMIT
    enabled: bool = True

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder or default_folder()

    def transform(self, steps: Pipeline, X: NDArray[Any]) -> NDArray[np.float64]:
        """``steps.transform(X)``, from disk where it is there.

        Raises
        ------
        DataError
            If the folder cannot be used.
        """
        if not self.enabled:
            return steps.transform(X)
        file = self.path / f"{digest(steps, X)}.npz"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            tokens = _read(file)
            if tokens is None:
                tokens = steps.transform(X)
                self._write(file, tokens)
        except OSError as error:
            raise DataError(
                f"The cache folder {self.path} cannot be used ({error}). Name another folder in "
                "the environment variable SPDTOKENS_CACHE, or do without a cache: --no-cache."
            ) from error
        return tokens

    def _write(self, file: Path, tokens: NDArray[np.float64]) -> None:
        """Write a file, and remove those used longest ago beyond the limit."""
        with written_whole(file) as temporary:
            np.savez(temporary, allow_pickle=False, **{file.stem: tokens})
        entries = self.entries()
        excess = sum(size for _, size, _ in entries) - self.limit
        for old, size, _ in entries:
            if excess > 0:
                old.unlink(missing_ok=True)
                excess -= size

    def entries(self) -> list[tuple[Path, int, float]]:
        """Files with their bytes and time of last use, longest ago first."""
        found = []
        for file in self.path.iterdir() if self.path.is_dir() else ():
            if OURS.fullmatch(file.name):
                with suppress(FileNotFoundError):  # another process removed it just now
                    status = file.stat()
                    found.append((file, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry[2])

    def clear(self) -> int:
        """Remove all files; returns how many."""
        entries = self.entries()
        for file, _, _ in entries:
            file.unlink(missing_ok=True)
        return len(entries)


def _read(file: Path) -> NDArray[np.float64] | None:
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            tokens: NDArray[np.float64] = archive[file.stem]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        warnings.warn(f"Removed a damaged cache file, {file} ({error}).", stacklevel=4)
        file.unlink(missing_ok=True)
        return None
    with suppress(OSError):  # removed just now, or somebody else's: it is read all the same
        os.utime(file)  # so that what is in use is not removed first
    return tokens


def digest(steps: Pipeline, X: NDArray[Any]) -> str:
    """Name of the tokens of ``X``: the same for the same trials, steps and code only."""
    state = hashlib.sha256(digest_of(ROOMS).encode())
    for _, step in steps.steps:
        parameters = step.get_params()
        learnt = {name: value for name, value in vars(step).items() if name not in parameters}
        for part in _parts([type(step).__name__, parameters, learnt]):
            state.update(part)
    state.update(repr((X.shape, X.dtype.str)).encode())
    state.update(np.ascontiguousarray(X).data)
    return state.hexdigest()[:40]


def _parts(value: Any) -> Iterator[bytes]:
    """Bytes that tell apart nested dicts and lists of arrays and plain values."""
    if hasattr(value, "detach"):  # of torch, which need not be imported for this
        value = value.numpy()
    if isinstance(value, np.ndarray):
        yield repr((value.shape, value.dtype.str)).encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, dict):
        for key in sorted(value):
            yield f"{key}=".encode()
            yield from _parts(value[key])
    elif isinstance(value, list | tuple):
        yield f"[{len(value)}]".encode()
        for item in value:
            yield from _parts(item)
    elif is_dataclass(value):
        yield from _parts(vars(value))
    else:
        yield f"{type(value).__name__}:{value!r};".encode()


def write_tokens(
    dataset: Dataset,
    subjects: tuple[str, ...],
    folder: Path,
    embedding: str,
    bands: str,
    cache: TokenCache,
) -> Iterator[Path]:
    """Write one ``.npz`` a recording, with tokens, y, run, group, classes and token_names.

    Raises
    ------
    DataError
        For an embedding that is fitted: which trials are training trials is not known here.
    """
    # These rooms import torch, which showing or clearing the cache does not need.
    from spdtokens.geometry import get_embedding
    from spdtokens.geometry.tokens import TokenEmbedding
    from spdtokens.preprocessing import FilterBankCovariances

    if get_embedding(embedding).needs_fit:
        raise DataError(
            f"{embedding} is fitted on training trials, and files of all trials have none set "
            "apart. Use spdtokens.TokenEmbedding inside your cross-validation instead."
        )
    steps = make_pipeline(TokenEmbedding(embedding))
    if dataset.sfreq is not None:
        filterbank = FilterBankCovariances(
            dataset.sfreq,
            tmin=dataset.tmin,
            windows=[dataset.window],
            bands=bands,
            stimulus_hz=dataset.stimulus_hz,
        )
        steps = make_pipeline(filterbank, TokenEmbedding(embedding))
    for subject in subjects:
        for session in dataset.sessions(subject):
            recording = dataset.load(subject, session)
            steps.fit(recording.X[:1])
            names = ["matrix 0"] if dataset.is_covariance else steps[0].matrix_names_
            flat = cache.transform(steps, recording.X)
            path = folder / f"sub-{subject}_ses-{session}_tokens.npz"
            with written_whole(path) as temporary:
                np.savez(
                    temporary,
                    tokens=flat.reshape(len(flat), len(names), -1),
                    y=recording.y,
                    run=recording.run,
                    group=recording.group,
                    classes=np.array(dataset.classes),
                    token_names=np.array(names),
                )
            yield path
