"""Cache of tokens on disk.

The name of a file is a digest of the trials, of the fitted steps and of the code that computes
tokens, so stale tokens are never read. The array in the file has the same name and, as in every
``.npz``, a checksum: damaged or exchanged files are detected and computed again. Files are written
under a temporary name and renamed, so several processes can share the folder.
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
#: Packages whose code computes tokens.
ROOMS = ("runtime", "geometry", "preprocessing")
#: Names of cache files (.npy in version 0.1). Other files in the folder are never touched.
OURS = re.compile(r"[0-9a-f]{40}\.np[yz]")


def default_folder() -> Path:
    """Return ``$SPDTOKENS_CACHE``, else ``spdtokens`` in the user's cache folder."""
    if own := os.environ.get("SPDTOKENS_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spdtokens"


@dataclass(frozen=True)
class TokenCache:
    """Cache of tokens in a folder of limited size.

    Parameters
    ----------
    folder : Path or None, default=None
        Folder; if None, ``$SPDTOKENS_CACHE``, else ``spdtokens`` in the user's cache folder.
    limit : int, default=2147483648
        Size in bytes above which the least recently used files are removed.
    enabled : bool, default=True
        Whether to use the disk; if False, tokens are computed every time.

    See Also
    --------
    spdtokens.TokenEmbedding : Covariance matrices to tokens.
    spdtokens.FilterBankCovariances : Signals to covariance matrices.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from spdtokens import FilterBankCovariances, TokenEmbedding
    >>> from spdtokens.datasets.cache import TokenCache
    >>> X = np.random.default_rng(0).standard_normal((10, 3, 200))
    >>> steps = make_pipeline(FilterBankCovariances(100.0), TokenEmbedding()).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = TokenCache(Path(folder))
    ...     tokens = cache.transform(steps, X)  # computed, and read from disk the next time
    ...     len(cache.entries()), cache.clear()
    (1, 1)
    """

    folder: Path | None = None
    limit: int = DEFAULT_LIMIT
    enabled: bool = True

    @property
    def path(self) -> Path:
        """Folder of the cache."""
        return self.folder or default_folder()

    def transform(self, steps: Pipeline, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return ``steps.transform(X)``, from disk if it was computed before.

        Parameters
        ----------
        steps : Pipeline
            Fitted pipeline of :class:`~spdtokens.FilterBankCovariances` and
            :class:`~spdtokens.TokenEmbedding`.
        X : ndarray, shape (n_trials, n_channels, n_samples)
            Trials.

        Returns
        -------
        ndarray
            Tokens of the trials.

        Raises
        ------
        DataError
            If the folder cannot be read or written.
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
                f"The cache folder {self.path} cannot be used ({error}). Set the environment "
                "variable SPDTOKENS_CACHE to another folder, or pass --no-cache."
            ) from error
        return tokens

    def _write(self, file: Path, tokens: NDArray[np.float64]) -> None:
        """Write a file; above the limit, remove the least recently used files."""
        with written_whole(file) as temporary:
            np.savez(temporary, allow_pickle=False, **{file.stem: tokens})
        entries = self.entries()
        excess = sum(size for _, size, _ in entries) - self.limit
        for old, size, _ in entries:
            if excess > 0:
                old.unlink(missing_ok=True)
                excess -= size

    def entries(self) -> list[tuple[Path, int, float]]:
        """List the files of the cache, the least recently used first.

        Returns
        -------
        list of (Path, int, float)
            Path, size in bytes and time of last use of each file.
        """
        found = []
        for file in self.path.iterdir() if self.path.is_dir() else ():
            if OURS.fullmatch(file.name):
                with suppress(FileNotFoundError):  # removed by another process
                    status = file.stat()
                    found.append((file, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry[2])

    def clear(self) -> int:
        """Remove all files of the cache.

        Returns
        -------
        int
            Number of files removed.
        """
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
        warnings.warn(f"Removed the damaged cache file {file} ({error}).", stacklevel=4)
        file.unlink(missing_ok=True)
        return None
    with suppress(OSError):  # removed by another process, or not writable
        os.utime(file)  # time of last use
    return tokens


def digest(steps: Pipeline, X: NDArray[Any]) -> str:
    """Return a name of the tokens of ``X`` that depends on trials, fitted steps and code."""
    state = hashlib.sha256(digest_of(ROOMS).encode())
    for _, step in steps.steps:
        parameters = step.get_params()
        fitted = {name: value for name, value in vars(step).items() if name not in parameters}
        for part in _parts([type(step).__name__, parameters, fitted]):
            state.update(part)
    state.update(repr((X.shape, X.dtype.str)).encode())
    state.update(np.ascontiguousarray(X).data)
    return state.hexdigest()[:40]


def _parts(value: Any) -> Iterator[bytes]:
    """Serialise nested dicts and lists of arrays and plain values."""
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
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
    """Write one ``.npz`` per recording, with tokens, y, run, group, classes and token_names.

    Raises
    ------
    DataError
        If the embedding needs to be fitted, because training trials are not defined here.
    """
    # These import torch, which showing or clearing the cache does not need.
    from spdtokens.geometry import get_embedding
    from spdtokens.geometry.tokens import TokenEmbedding
    from spdtokens.preprocessing import FilterBankCovariances

    if get_embedding(embedding).needs_fit:
        raise DataError(
            f"{embedding} must be fitted on training trials, and tokenize does not split trials. "
            "Use spdtokens.TokenEmbedding inside a cross-validation instead."
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
