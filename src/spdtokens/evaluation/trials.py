"""All trials of a data set: what a split must know of them, and their signals on demand."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._errors import UserError
from spdtokens.data import Dataset, Recording
from spdtokens.data.base import OTHER_UNIT
from spdtokens.evaluation.copies import Copies, Fingerprint, fingerprint
from spdtokens.evaluation.errors import EvaluationError

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
    recording : ndarray of int, shape (n,)
        Number of the recording, from 0, in the order of the table.
    group : ndarray of int, shape (n,)
        Unique over all recordings.
    y : ndarray of int, shape (n,)
    start, stop : ndarray of int, shape (n,)
        Samples of the run that a trial covers; -1 where not known.
    """

    id: NDArray[np.str_]
    subject: NDArray[np.str_]
    session: NDArray[np.str_]
    run: NDArray[np.str_]
    recording: NDArray[np.int64]
    group: NDArray[np.int64]
    y: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.id)

    def of(self, subject: str) -> Index:
        """Rows of a subject, in order of time."""
        return np.flatnonzero(self.subject == subject)

    @cached_property
    def clock(self) -> Index:
        """Number of the run of the recording (n,): only within one can samples be compared."""
        runs = np.unique(self.run, return_inverse=True)[1]
        return self.recording * (runs.max(initial=0) + 1) + runs

    def overlapping(self, these: Index, those: Index) -> Index:
        """Those of ``these`` that share samples of a run with one of ``those``."""
        found = np.zeros(len(these), dtype=bool)
        known = those[self.start[those] >= 0]
        for number in np.intersect1d(self.clock[these], self.clock[known]):
            others = known[self.clock[known] == number]
            mine = (self.clock[these] == number) & (self.start[these] >= 0)
            # Of those that begin before a trial ends, some have not ended when it begins.
            begun = np.searchsorted(np.sort(self.start[others]), self.stop[these[mine]], "left")
            ended = np.searchsorted(np.sort(self.stop[others]), self.start[these[mine]], "right")
            found[mine] = begun > ended
        return these[found]

    def related(self, one: Index, other: Index) -> NDArray[np.bool_]:
        """Whether two trials (n,) are one, of one group, or overlap in time as far as known."""
        known = (self.clock[one] == self.clock[other]) & (self.start[[one, other]] >= 0).all(0)
        begun = np.maximum(self.start[one], self.start[other])
        overlap = known & (begun < np.minimum(self.stop[one], self.stop[other]))
        return overlap | (self.group[one] == self.group[other])


class Memory:
    """Arrays by name, the least recently used forgotten when they become too many.

    Parameters
    ----------
    limit : int
        Bytes of all arrays together; one array is kept, however large.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.limit, self.nbytes = limit, 0
        self._kept: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of a name, made if it is not there."""
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        array = make()
        self._kept[name] = array
        self.nbytes += array.nbytes
        while len(self._kept) > 1 and self.nbytes > self.limit:
            self.nbytes -= self._kept.popitem(last=False)[1].nbytes
        return array


class Trials:
    """The trials of a data set.

    Recordings are read once to learn what they hold, and again when their signals are needed and
    no longer in memory.

    Parameters
    ----------
    dataset : Dataset
    subjects : sequence of str
        All by default.
    memory : Memory, optional
        Shared with the trials of other data sets, so that all together keep to its limit.

    Attributes
    ----------
    table : TrialTable
    hashes : list of str
        Digest of every recording: who, its trials, labels, runs, groups and onsets, and what the
        data set says.
    """

    def __init__(
        self, dataset: Dataset, subjects: Sequence[str] = (), memory: Memory | None = None
    ) -> None:
        self.dataset = dataset
        self.subjects = tuple(subjects) or dataset.subjects
        self._memory = memory or Memory()
        self._where = [(s, session) for s in self.subjects for session in dataset.sessions(s)]
        self._first: list[int] = []
        self.hashes: list[str] = []
        self._fingerprints: list[Fingerprint] = []
        self._amplitudes: list[float] = []
        parts: list[TrialTable] = []
        first = groups = 0
        for number, (subject, session) in enumerate(self._where):
            recording = dataset.load(subject, session)
            part = _rows(dataset, recording, number, groups)
            self.hashes.append(_digest(dataset, recording, part))
            self._fingerprints.append(fingerprint(recording.X, dataset.is_covariance))
            self._amplitudes.append(_amplitude(recording.X, dataset.is_covariance))
            self._first.append(first)
            self._memory.get(self._name(number), lambda X=recording.X: X)  # type: ignore[misc]
            groups += len(np.unique(recording.group))
            first += len(part)
            parts.append(part)
        names = TrialTable.__dataclass_fields__
        columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        self.table = TrialTable(**columns)
        if len(np.unique(self.table.id)) < len(self.table):
            raise EvaluationError(
                f"{dataset.name}: two trials have the same name. Subjects are named once, and "
                "without slashes."
            )
        self._refuse_other_units()

    @cached_property
    def copies(self) -> Copies:
        """Trials with equal samples."""
        return Copies(self.table, self._fingerprints, self.dataset.is_covariance)

    def hash_of(self, rows: Index) -> str:
        """Digest of the recordings that these trials come from, in order."""
        text = " ".join(self.hashes[number] for number in np.unique(self.table.recording[rows]))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def signals(self, rows: Index) -> NDArray[Any]:
        """Trials (n, channels, samples), or covariances where the data set has only these."""
        return self._gathered(rows, self._signals)

    def computed(
        self, rows: Index, name: Hashable, compute: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[Any]:
        """What a function makes of trials, each recording done once.

        Parameters
        ----------
        rows : ndarray of int, shape (n,)
            In any order, any of them repeatedly.
        name : hashable
            Of the function.
        compute : callable
            From trials (n, ...) to an array (n, ...); trials do not influence each other.
        """

        def computed(number: int) -> NDArray[Any]:
            try:
                return compute(self._signals(number))
            except UserError as error:
                subject, session = self._where[number]
                raise type(error)(f"Subject {subject}, session {session}: {error}") from error

        def made(number: int) -> NDArray[Any]:
            return self._memory.get((*self._name(number), name), lambda: computed(number))

        return self._gathered(rows, made)

    def _refuse_other_units(self) -> None:
        """Refuse recordings of which some are in another unit than others, by their amplitude."""
        named = zip(self._amplitudes, map("/".join, self._where), strict=True)
        known = sorted(pair for pair in named if pair[0])
        if known and known[-1][0] > OTHER_UNIT * known[0][0]:
            (small, one), (large, other) = known[0], known[-1]
            raise EvaluationError(
                f"{self.dataset.name}: signals of {other} (subject/session) are "
                f"{large / small:.2g} times as large as those of {one}, but must be in one unit. "
                "Store unit_in_volts in every file (1e-6 for microvolts), or leave one out."
            )

    def _gathered(self, rows: Index, made: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
        of = self.table.recording[rows]
        result: NDArray[Any] | None = None
        for number in np.unique(of):
            array, mine = made(int(number)), of == number
            if result is None:
                result = np.empty((len(rows), *array.shape[1:]), dtype=array.dtype)
            result[mine] = array[rows[mine] - self._first[number]]
        if result is None:
            raise EvaluationError(f"{self.dataset.name}: no trials were asked for.")
        return result

    def _signals(self, number: int) -> NDArray[Any]:
        return self._memory.get(
            self._name(number), lambda: self.dataset.load(*self._where[number]).X
        )

    def _name(self, number: int) -> tuple[Hashable, ...]:
        # Two data sets may have one name, as do parts of one; whoever shares the memory keeps them.
        return (id(self.dataset), *self._where[number])


def _amplitude(X: NDArray[Any], is_covariance: bool) -> float:
    """Of a typical channel in a typical trial; 0 if it is not known."""
    if is_covariance:
        spread = np.sqrt(np.einsum("nii->ni", X).clip(0))
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            spread = X.std(-1)
    known = spread[np.isfinite(spread) & (spread > 0)]
    return float(np.median(known)) if known.size else 0.0


def _rows(dataset: Dataset, recording: Recording, number: int, groups: int) -> TrialTable:
    n = len(recording)
    where = f"{recording.subject}/{recording.session}"
    start = np.asarray(recording.about.get("onset", np.full(n, -1)))
    if start.shape != (n,) or start.dtype.kind not in "iu":
        raise EvaluationError(
            f"{dataset.name}, subject {recording.subject}, session {recording.session}: 'onset' is "
            f"the sample at which each of {n} trials begins, a whole number; got {start.dtype} of "
            f"shape {start.shape}. Multiply seconds by the samples a second, or leave it out."
        )
    if dataset.is_covariance:
        start = np.full(n, -1)  # how long a trial was is not known
    return TrialTable(
        id=np.array([f"{where}/{i}" for i in range(n)], dtype=np.str_),
        subject=np.full(n, recording.subject),
        session=np.full(n, recording.session),
        run=recording.run.astype(np.str_),
        recording=np.full(n, number),
        group=groups + np.unique(recording.group, return_inverse=True)[1].astype(np.int64),
        y=recording.y,
        start=start.astype(np.int64),
        stop=np.where(start < 0, -1, start + recording.X.shape[-1]).astype(np.int64),
    )


def _digest(dataset: Dataset, recording: Recording, rows: TrialTable) -> str:
    digest = hashlib.blake2b(digest_size=16)
    about = (
        recording.subject,
        recording.session,
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
    for array in (recording.X, recording.y, recording.group, rows.start):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
