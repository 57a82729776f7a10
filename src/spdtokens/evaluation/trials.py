"""Table of all trials of a data set, their signals on demand, and detection of copied trials."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from spdtokens.datasets import Dataset, Recording
from spdtokens.datasets.base import OTHER_UNIT
from spdtokens.errors import EvaluationError, UserError

# Detection of trials with identical samples, regardless of their names and onsets.
#
# Trials that were copied, or cut from one recording, have a stretch of equal samples at some time
# shift. Scale and offset may differ: one file may be in volts, an epoch may have its own baseline,
# the polarity may be inverted. Copies that were filtered, resampled, re-referenced, scaled per
# channel or rounded again are not found. A stretch of 25 to 50 samples is needed; up to 200 for a
# single channel with few quantisation steps.
#
# 1. A fixed random mixture turns all channels into one signal; its differences from sample
#    to sample are compared.
# 2. Anchors are samples with the largest difference of their neighbourhood. The neighbourhood,
#    relative to the difference at the anchor, is rounded and hashed. Two trials with an equal hash
#    are a candidate pair.
# 3. The evidence of the stretch of equal differences around the anchor is computed: the
#    probability that an unrelated signal continues in the same way. Each sample is predicted from
#    the previous ones. Values closer to the prediction are assumed to be at least as likely as
#    those farther away, relative to their frequency in the recording, so the probability of a value
#    is at most its share of all values that are as close. Flat signals, ramps, sines and clipped
#    samples therefore give little evidence, and slow or coarsely quantised signals need longer
#    stretches.
# 4. Two trials share samples if the probability of such a stretch by chance, at any shift of any
#    pair of trials, is below 1e-6.
#
# Covariance matrices have no time axis. They are compared as a whole, scaled to unit norm.

#: Tolerance of equal samples, relative to the largest of a trial. Float32 rounds by 1e-7.
TOLERANCE = 2e-6
#: Number of differences hashed on each side of an anchor; doubled while too many hashes are equal.
REACH = 4
#: The neighbourhood of an anchor is rounded to 1/64 of its difference. Steps do not start at zero,
#: as differences of integers often have simple ratios, which must not be at the edge of a step.
STEPS, EDGE = 64, 0.382
#: Factor of a polynomial hash that overflows 64 bits.
FACTOR = np.int64(0x1E3779B97F4A7C15)
#: Maximal candidates per trial, and neighbours with an equal hash that are tried.
CANDIDATES, NEIGHBOURS = 8, 16
#: Number of differences from which the next one is predicted.
ORDER = 8
#: Bits for a probability of 1e-6, and for the free scale and sign.
SURE_BITS, SCALE_BITS = 20, 17


@dataclass(frozen=True)
class Fingerprint:
    """Features by which the trials of a recording are compared.

    Attributes
    ----------
    traces : ndarray, shape (n, n_samples - 1) or (n, up to 8)
        Signals: differences from sample to sample of a random mixture of channels. Matrices: random
        projections of the matrix of unit norm.
    tolerance : ndarray, shape (n,)
        Tolerance of equal differences.
    """

    traces: NDArray[Any]
    tolerance: NDArray[np.float64]

    @cached_property
    def values(self) -> NDArray[Any]:
        """All differences of the recording, sorted."""
        return np.sort(self.traces, axis=None)


def fingerprint(X: NDArray[Any], is_covariance: bool) -> Fingerprint:
    """Compute the fingerprint of trials (n, n_channels, n_samples) or matrices (n, d, d)."""
    rng = np.random.default_rng(0)
    if is_covariance:
        flat = X[:, *np.triu_indices(X.shape[-1])].astype(np.float64)
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        # With unit norm, a matrix has one degree of freedom less than entries.
        n_free = flat.shape[1] - 1
        sketch = flat @ rng.standard_normal((flat.shape[1], min(8, n_free)))
        # Two channels have two degrees of freedom, so that different matrices are close.
        return Fingerprint(sketch, np.full(len(X), 3e-7 if n_free > 2 else 1e-12))
    weights = rng.standard_normal((X.shape[1],))
    weights /= np.linalg.norm(weights)
    traces = np.empty((len(X), X.shape[2] - 1), dtype=np.float32)
    largest = np.empty(len(X))
    with np.errstate(invalid="ignore", over="ignore"):
        for i, trial in enumerate(X):
            x = trial if trial.dtype == np.float64 else trial.astype(np.float32)
            traces[i] = np.diff(weights.astype(x.dtype) @ x)
            largest[i] = np.abs(x).max()
    traces[~np.isfinite(traces)] = 0.0  # flat, which matches nothing
    return Fingerprint(traces, TOLERANCE * largest)


class Copies:
    """Pairs of trials that share samples without being related by group or onset.

    Related trials are not among them: folds are checked for these by the table.

    Parameters
    ----------
    table : TrialTable
    fingerprints : sequence of Fingerprint
        Of all recordings, in the order of the table.
    is_covariance : bool
    """

    def __init__(
        self, table: TrialTable, fingerprints: Sequence[Fingerprint], is_covariance: bool
    ) -> None:
        self._table, self._fingerprints = table, fingerprints
        self._firsts = np.cumsum([0, *(len(part.traces) for part in fingerprints)])
        self._verdicts: dict[int, bool] = {}
        self._reach = REACH
        if is_covariance:
            self._pairs = self._equal_matrices()
            self._verdicts = dict.fromkeys(range(len(self._pairs)), True)
            return
        places = sum(part.traces.size for part in fingerprints)
        self._needed = 2 * np.log2(max(places, 1)) - 1 + SURE_BITS + SCALE_BITS
        self._pairs = self._candidates()
        longest = max(part.traces.shape[1] for part in fingerprints) // 4
        while len(self._pairs) > CANDIDATES * len(table) and 2 * self._reach <= longest:
            self._reach *= 2
            self._pairs = self._candidates()

    def between(self, these: Index, those: Index, most: int) -> list[tuple[int, int]]:
        """Find up to ``most`` pairs, of ``these`` and ``those``, that share samples."""
        side = np.zeros(len(self._table), dtype=np.int8)
        side[these], side[those] = 1, 2
        found: list[tuple[int, int]] = []
        one, other = self._pairs[:, 0], self._pairs[:, 1]
        for number in np.flatnonzero(side[one] * side[other] == 2).tolist():
            if number not in self._verdicts:
                self._verdicts[number] = self._evidence(*self._pairs[number]) > self._needed
            if self._verdicts[number]:
                pair = int(one[number]), int(other[number])
                found.append(pair if side[pair[0]] == 1 else pair[::-1])
            if len(found) == most:
                break
        return found

    def _equal_matrices(self) -> Index:
        """Pairs of rows, shape (n_pairs, 2), with equal projections."""
        sketch = np.concatenate([part.traces for part in self._fingerprints])
        tolerance = np.concatenate([part.tolerance for part in self._fingerprints])[:, None]
        found = [np.zeros((0, 2), dtype=np.int64)]
        if sketch.shape[1]:  # with one channel, all matrices are equal
            order = np.argsort(sketch[:, 0])
            for lag in range(1, NEIGHBOURS + 1):
                one, other = order[:-lag], order[lag:]
                equal = (np.abs(sketch[one] - sketch[other]) < tolerance[one]).all(1)
                equal &= ~self._table.related(one, other)
                found.append(np.stack([one, other], axis=1)[equal])
        return np.concatenate(found)

    def _candidates(self) -> Index:
        """Pairs of rows with an equal hash, their shift and anchor, shape (n_pairs, 4)."""
        found = [_anchors(part, self._reach) for part in self._fingerprints]
        row, place, size, code = (np.concatenate(column) for column in zip(*found, strict=True))
        row += np.repeat(self._firsts[:-1], [len(part[0]) for part in found])
        order = np.lexsort((row, code))
        row, place, size, code = row[order], place[order], size[order], code[order]
        pairs = [np.zeros((5, 0), dtype=np.int64)]
        for lag in range(1, NEIGHBOURS + 1):
            at = np.flatnonzero(code[lag:] == code[:-lag])
            if not len(at):
                break
            at = at[~self._table.related(row[at], row[at + lag])]
            shift = place[at + lag] - place[at]
            pairs.append(np.stack([row[at], row[at + lag], shift, place[at], at]))
        every = np.concatenate(pairs, axis=1)
        # One anchor per shift: the largest difference, which determines the scale best.
        every = every[:, np.argsort(-size[every[4]], kind="stable")]
        one, other, shift = every[:3]
        span = 2 * max(part.traces.shape[1] for part in self._fingerprints)
        key = (one * len(self._table) + other) * span + shift
        return every[:4, np.unique(key, return_index=True)[1]].T

    def _evidence(self, one: int, other: int, shift: int, place: int) -> float:
        """Evidence, in bits, of the stretch of equal differences around an anchor."""
        x, x_tolerance, x_values = self._trial(one)
        y, y_tolerance, y_values = self._trial(other)
        around = np.arange(place - self._reach, place + self._reach + 1)
        scale = x[around] @ y[around + shift] / (y[around + shift] @ y[around + shift])
        if not abs(scale) > 0:  # NaN too
            return 0.0
        first, last = max(0, -shift), min(len(x), len(y) - shift)
        apart = np.abs(x[first:last] - scale * y[first + shift : last + shift])
        unequal = np.flatnonzero(apart > x_tolerance + abs(scale) * y_tolerance) + first
        edges = np.r_[first - 1, unequal, last]
        edge = int(np.searchsorted(edges, place))
        start, stop = edges[edge - 1] + 1, edges[edge]
        if stop - start <= 2 * ORDER:
            return 0.0
        return min(
            _surprise(x[start:stop], x_tolerance, x_values),
            _surprise(y[start + shift : stop + shift], y_tolerance, y_values),
        )

    def _trial(self, row: int) -> tuple[NDArray[np.float64], float, NDArray[np.float32]]:
        """Differences of a trial, their tolerance, and those of the whole recording."""
        number = int(np.searchsorted(self._firsts, row, "right")) - 1
        part, i = self._fingerprints[number], row - self._firsts[number]
        return part.traces[i].astype(np.float64), float(part.tolerance[i]), part.values


def _anchors(part: Fingerprint, reach: int) -> tuple[Index, Index, NDArray[np.float32], Index]:
    """Row, position, size and hash of each anchor."""
    size = np.abs(part.traces)
    largest = maximum_filter1d(size, 2 * reach + 1, axis=1)
    # Differences that are equal up to rounding are all anchors.
    chosen = (size > (1 - 1e-3) * largest) & (size > 4 * part.tolerance[:, None])
    row, place = np.nonzero(chosen[:, reach : size.shape[1] - reach])
    place += reach
    steps = STEPS / part.traces[row, place]  # with its sign: a copy may be inverted
    code = np.zeros(len(row), dtype=np.int64)
    for offset in range(-reach, reach + 1):
        step = np.floor(part.traces[row, place + offset] * steps + EDGE).astype(np.int64)
        code = code * FACTOR + step  # overflow is intended
    return row, place, size[row, place], code


def _surprise(steps: NDArray[np.float64], tolerance: float, values: NDArray[np.float32]) -> float:
    """Lower bound of the evidence, in bits, of a stretch, given all values of the recording."""
    past, now = sliding_window_view(steps, ORDER)[:-1], steps[ORDER:]
    predicted = past @ np.linalg.lstsq(past, now, rcond=None)[0]

    def within(centre: NDArray[np.float64], radius: NDArray[np.float64]) -> Index:
        low, high = centre - radius - 2 * tolerance, centre + radius + 2 * tolerance
        return np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")

    share = within(now, np.zeros(len(now))) / within(predicted, np.abs(now - predicted))
    # The next value of a periodic signal has occurred before.
    rounded = np.rint(steps / max(4 * tolerance, np.finfo(float).tiny)).astype(np.int64)
    begun, continued = (_repeats(rounded, length) for length in (ORDER, ORDER + 1))
    again = continued / np.maximum(begun[:-1], 1)
    return float(-np.log2(np.clip(share, again, 1.0)).sum())


def _repeats(steps: Index, length: int) -> Index:
    """Number of other occurrences of each sequence in the stretch (n - length + 1,)."""
    codes = sliding_window_view(steps, length) @ FACTOR ** np.arange(length)
    _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return counts[which] - 1


Index = NDArray[np.int64]
#: Bytes of signals and derived arrays that are kept in memory.
KEPT_BYTES = 1 << 30


@dataclass(frozen=True)
class TrialTable:
    """Table with one row per trial, in the order of subject, session and time.

    Attributes
    ----------
    id : ndarray of str, shape (n,)
        ``'subject/session/number'``, unique.
    subject, session, run : ndarray of str, shape (n,)
        Sessions of different subjects may have equal names.
    recording : ndarray of int, shape (n,)
        Number of the recording, from 0.
    group : ndarray of int, shape (n,)
        Unique over all recordings.
    y : ndarray of int, shape (n,)
        Class.
    start, stop : ndarray of int, shape (n,)
        First sample of the run, and the one after the last; -1 if unknown.
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
        """Rows of a subject, in the order of time."""
        return np.flatnonzero(self.subject == subject)

    @cached_property
    def clock(self) -> Index:
        """Number of the run (n,). Samples can be compared within a run only."""
        runs = np.unique(self.run, return_inverse=True)[1]
        return self.recording * (runs.max(initial=0) + 1) + runs

    def overlapping(self, these: Index, those: Index) -> Index:
        """Return the trials among ``these`` that share samples of a run with ``those``."""
        found = np.zeros(len(these), dtype=bool)
        known = those[self.start[those] >= 0]
        for number in np.intersect1d(self.clock[these], self.clock[known]):
            others = known[self.clock[known] == number]
            mine = (self.clock[these] == number) & (self.start[these] >= 0)
            # Some trials that begin before this one ends have not ended when it begins.
            begun = np.searchsorted(np.sort(self.start[others]), self.stop[these[mine]], "left")
            ended = np.searchsorted(np.sort(self.stop[others]), self.start[these[mine]], "right")
            found[mine] = begun > ended
        return these[found]

    def related(self, one: Index, other: Index) -> NDArray[np.bool_]:
        """Whether pairs of trials (n,) are in one group, or known to overlap in time."""
        known = (self.clock[one] == self.clock[other]) & (self.start[[one, other]] >= 0).all(0)
        begun = np.maximum(self.start[one], self.start[other])
        overlap = known & (begun < np.minimum(self.stop[one], self.stop[other]))
        return overlap | (self.group[one] == self.group[other])


class Memory:
    """Cache of arrays that drops the least recently used.

    Parameters
    ----------
    limit : int
        Maximal bytes of all arrays together; at least one array is kept.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.limit, self.nbytes = limit, 0
        self._kept: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the array of a name, made if it is not in the cache."""
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

    Recordings are read once for the table, and again when their signals are needed and no longer in
    memory.

    Parameters
    ----------
    dataset : Dataset
    subjects : sequence of str
        All by default.
    memory : Memory, optional
        Shared with the trials of other data sets.

    Attributes
    ----------
    table : TrialTable
    hashes : list of str
        Digest of each recording: subject, session, trials, labels, runs, groups, onsets, and
        properties of the data set.
    """

    def __init__(
        self, dataset: Dataset, subjects: Sequence[str] = (), memory: Memory | None = None
    ) -> None:
        self.dataset = dataset
        self.subjects = tuple(subjects) or dataset.subjects
        self._memory = memory or Memory()
        self._where = [(s, session) for s in self.subjects for session in dataset.sessions(s)]
        self.hashes: list[str] = []
        self._fingerprints: list[Fingerprint] = []
        amplitudes: list[tuple[float, str]] = []
        parts: list[TrialTable] = []
        groups = 0
        for number, (subject, session) in enumerate(self._where):
            recording = dataset.load(subject, session)
            part = _rows(dataset, recording, number, groups)
            self.hashes.append(_digest(dataset, recording, part))
            self._fingerprints.append(fingerprint(recording.X, dataset.is_covariance))
            amplitude = _amplitude(recording.X, dataset.is_covariance)
            amplitudes.append((amplitude, f"{subject}/{session}"))
            self._memory.get(self._name(number), lambda X=recording.X: X)  # type: ignore[misc]
            groups += len(np.unique(recording.group))
            parts.append(part)
        names = TrialTable.__dataclass_fields__
        columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        self.table = TrialTable(**columns)
        self._first = np.cumsum([0, *map(len, parts)])
        if len(np.unique(self.table.id)) < len(self.table):
            raise EvaluationError(
                f"{dataset.name}: names of trials must be unique. Name each subject once, and "
                "without slashes."
            )
        known = sorted(pair for pair in amplitudes if pair[0])
        if known and known[-1][0] > OTHER_UNIT * known[0][0]:
            (small, one), (large, other) = known[0], known[-1]
            raise EvaluationError(
                f"{dataset.name}: signals of {other} (subject/session) are {large / small:.2g} "
                f"times as large as those of {one}, but all must have the same unit. Store "
                "unit_in_volts in every file (1e-6 for microvolts), or leave one out."
            )

    @cached_property
    def copies(self) -> Copies:
        """Pairs of trials with identical samples."""
        return Copies(self.table, self._fingerprints, self.dataset.is_covariance)

    def hash_of(self, rows: Index) -> str:
        """Return the digest of the recordings that these trials come from."""
        text = " ".join(self.hashes[number] for number in np.unique(self.table.recording[rows]))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def signals(self, rows: Index) -> NDArray[Any]:
        """Return trials (n, n_channels, n_samples), or the covariances of the data set."""
        return self._gathered(rows, self._signals)

    def computed(
        self, rows: Index, name: Hashable, compute: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[Any]:
        """Apply a function to trials, once per recording.

        Parameters
        ----------
        rows : ndarray of int, shape (n,)
            Trials, in any order and possibly repeated.
        name : hashable
            Key of the function in the cache.
        compute : callable
            From trials (n, ...) to an array (n, ...), trial by trial.
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

    def _gathered(self, rows: Index, made: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
        of = self.table.recording[rows]
        result: NDArray[Any] | None = None
        for number in np.unique(of):
            array, mine = made(int(number)), of == number
            if result is None:
                result = np.empty((len(rows), *array.shape[1:]), dtype=array.dtype)
            result[mine] = array[rows[mine] - self._first[number]]
        assert result is not None  # no part of a fold is empty
        return result

    def _signals(self, number: int) -> NDArray[Any]:
        return self._memory.get(
            self._name(number), lambda: self.dataset.load(*self._where[number]).X
        )

    def _name(self, number: int) -> tuple[Hashable, ...]:
        # By id, as data sets may share a name; they are kept by those who share the memory.
        return (id(self.dataset), *self._where[number])


def _amplitude(X: NDArray[Any], is_covariance: bool) -> float:
    """Median amplitude over channels and trials; 0 if unknown."""
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
            f"{dataset.name}, subject {recording.subject}, session {recording.session}: 'onset' "
            f"must be the first sample of each of {n} trials, an integer, got {start.dtype} of "
            f"shape {start.shape}. Multiply seconds by the sampling rate, or leave it out."
        )
    if dataset.is_covariance:
        start = np.full(n, -1)  # the length of trials is unknown
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


def dependence(table: TrialTable) -> tuple[Index, Index]:
    """Number the trials such that dependent trials share a number.

    Dependent are segments of one trial (a group), and trials that overlap in time. A group covers
    the time from its first to its last sample. Groups without an onset are assumed to be
    independent. Onsets of different runs are not compared.

    Parameters
    ----------
    table : TrialTable
        All trials.

    Returns
    -------
    stretch : ndarray of int, shape (n,)
        Groups of one stretch overlap each other and count as one decision. There are as many
        stretches as groups that do not overlap can be chosen (interval scheduling).
    chain : ndarray of int, shape (n,)
        Stretches may overlap. A chain contains everything that is connected by overlaps, and is
        independent of other chains.
    """
    first, of = np.unique(table.group, return_index=True, return_inverse=True)[1:]
    start, stop = table.start[first].copy(), table.stop[first].copy()
    np.minimum.at(start, of, table.start)
    np.maximum.at(stop, of, table.stop)
    stretch, chain = np.arange(len(first)), np.arange(len(first))
    place = table.clock[first]
    known = np.flatnonzero(start >= 0)
    # Choose the group that ends first.
    pick, last = -1, None
    for g in known[np.lexsort((stop[known], place[known]))].tolist():
        if place[g] != last or start[g] >= stop[pick]:
            pick, last = g, place[g]
        stretch[g] = pick
    head, last, reach = -1, None, -1
    for g in known[np.lexsort((start[known], place[known]))].tolist():
        if place[g] != last or start[g] >= reach:
            head, last, reach = g, place[g], -1
        reach = max(reach, stop[g])
        chain[g] = head
    return stretch[of], chain[of]
