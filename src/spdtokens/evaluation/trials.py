"""All trials of a data set: what a split must know of them, and their signals on demand."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.data import Dataset, Recording

Index = NDArray[np.int64]
#: Bytes of signals, and of what is computed from them, that are kept in memory.
KEPT_BYTES = 1 << 30


@dataclass(frozen=True)
class TrialTable:
    """One row a trial, in order of subject, session and time.

    Attributes
    ----------
    id : ndarray of str, shape (n,)
        ``'subject/session/number'``, unique.
    subject, session, run : ndarray of str, shape (n,)
        Of a session the name tells nothing about that of another subject.
    group : ndarray of int, shape (n,)
        Unique over all recordings.
    y : ndarray of int, shape (n,)
    start, stop : ndarray of int, shape (n,)
        Samples of the recording that a trial covers; -1 where not known.
    """

    id: NDArray[np.str_]
    subject: NDArray[np.str_]
    session: NDArray[np.str_]
    run: NDArray[np.str_]
    group: NDArray[np.int64]
    y: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.id)

    def of(self, subject: str) -> Index:
        """Rows of a subject, in order of time."""
        return np.flatnonzero(self.subject == subject)

    def overlapping(self, these: Index, those: Index) -> Index:
        """Those of ``these`` that share samples of a recording with one of ``those``."""
        found = [
            i
            for i in these
            if self.start[i] >= 0
            and np.any(
                (self.subject[those] == self.subject[i])
                & (self.session[those] == self.session[i])
                & (self.start[those] >= 0)
                & (self.start[those] < self.stop[i])
                & (self.stop[those] > self.start[i])
            )
        ]
        return np.array(found, dtype=np.int64)


class Trials:
    """The trials of a data set.

    Recordings are read once to learn what they hold, and again when their signals are needed and
    no longer in memory.

    Parameters
    ----------
    dataset : Dataset
    subjects : sequence of str
        All by default.

    Attributes
    ----------
    table : TrialTable
    hashes : dict of (str, str) to str
        Digest of every recording: its trials, labels, runs and groups, and what the data set says.
    """

    def __init__(self, dataset: Dataset, subjects: Sequence[str] = ()) -> None:
        self.dataset = dataset
        self.subjects = tuple(subjects) or dataset.subjects
        self._kept: OrderedDict[Any, NDArray[Any]] = OrderedDict()
        self._first: dict[tuple[str, str], int] = {}
        self.hashes: dict[tuple[str, str], str] = {}
        parts: list[TrialTable] = []
        first = groups = 0
        for subject in self.subjects:
            for session in dataset.sessions(subject):
                recording = dataset.load(subject, session)
                part = _rows(recording, groups)
                self.hashes[subject, session] = _digest(dataset, recording)
                self._first[subject, session] = first
                self._keep((subject, session), recording.X)
                groups += len(np.unique(recording.group))
                first += len(part)
                parts.append(part)
        names = TrialTable.__dataclass_fields__
        columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        self.table = TrialTable(**columns)

    def hash_of(self, rows: Index) -> str:
        """Digest of the recordings that these trials come from."""
        pairs = sorted(set(zip(self.table.subject[rows], self.table.session[rows], strict=True)))
        text = " ".join(self.hashes[str(subject), str(session)] for subject, session in pairs)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def signals(self, rows: Index) -> NDArray[Any]:
        """Trials (n, channels, samples), or covariances where the data set has only these."""
        return self.computed(rows, None, lambda X: X)

    def computed(
        self, rows: Index, name: Any, compute: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[Any]:
        """What a function makes of trials, each recording done once.

        Parameters
        ----------
        rows : ndarray of int, shape (n,)
        name : hashable
            Of the function; None for the signals themselves.
        compute : callable
            From trials (n, ...) to an array (n, ...); trials do not influence each other.
        """
        parts, where = [], []
        pairs = list(zip(self.table.subject[rows], self.table.session[rows], strict=True))
        for pair in dict.fromkeys(pairs):
            key = (str(pair[0]), str(pair[1]))
            at = np.array([i for i, other in enumerate(pairs) if other == pair])
            made = self._made(key, name, compute)
            parts.append(made[rows[at] - self._first[key]])
            where.append(at)
        result = np.empty((len(rows), *parts[0].shape[1:]), dtype=parts[0].dtype)
        for at, part in zip(where, parts, strict=True):
            result[at] = part
        return result

    def _made(
        self, key: tuple[str, str], name: Any, compute: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[Any]:
        full = key if name is None else (*key, name)
        if full in self._kept:
            self._kept.move_to_end(full)
            return self._kept[full]
        if name is None:
            return self._keep(full, self.dataset.load(*key).X)
        return self._keep(full, compute(self._made(key, None, compute)))

    def _keep(self, key: Any, X: NDArray[Any]) -> NDArray[Any]:
        self._kept[key] = X
        while len(self._kept) > 1 and sum(a.nbytes for a in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)
        return X


def _rows(recording: Recording, groups: int) -> TrialTable:
    n = len(recording)
    where = f"{recording.subject}/{recording.session}"
    start = recording.about.get("onset")
    start = np.full(n, -1) if start is None else np.asarray(start)
    samples = recording.X.shape[-1]
    return TrialTable(
        id=np.array([f"{where}/{i}" for i in range(n)], dtype=np.str_),
        subject=np.full(n, recording.subject),
        session=np.full(n, recording.session),
        run=recording.run.astype(np.str_),
        group=groups + np.unique(recording.group, return_inverse=True)[1].astype(np.int64),
        y=recording.y,
        start=start.astype(np.int64),
        stop=np.where(start < 0, -1, start + samples).astype(np.int64),
    )


def _digest(dataset: Dataset, recording: Recording) -> str:
    digest = hashlib.blake2b(digest_size=16)
    about = (
        dataset.classes,
        dataset.ch_names,
        dataset.sfreq,
        dataset.tmin,
        dataset.is_covariance,
        recording.X.shape,
        str(recording.X.dtype),
        recording.run.tolist(),
    )
    digest.update(repr(about).encode())
    for array in (recording.X, recording.y, recording.group):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
