"""Trials with equal samples, whatever their names and onsets say.

Trials that were copied, or cut from one recording, have a stretch of equal samples at some shift
in time. Scale and offset may differ: one file may be in volts, an epoch may have a baseline of its
own, a polarity may be swapped. Not found are copies that were filtered, resampled, re-referenced,
scaled channel by channel or rounded again. It takes a stretch of 25 to 50 samples; of a single
channel of few steps up to 200.

1. A fixed random mixture turns all channels into one signal. Equal samples of all channels stay
   equal. Its differences from sample to sample are compared.
2. Anchors are samples with the largest difference of their surroundings. These surroundings,
   relative to the difference at the anchor, are rounded and hashed. Two trials with an equal hash
   are a candidate.
3. The stretch of equal differences around the anchor is weighed: how likely would an unrelated
   signal continue in the same way, sample by sample? Each sample is predicted from those before it.
   Values nearer to the prediction are taken to be at least as likely as those farther from it,
   relative to how often they occur in the recording. The probability of a value is then at most its
   share of all values that are as near. So flat signals, ramps, sines and clipped samples prove
   little, and slow or coarsely rounded signals need longer stretches.
4. Two trials share samples if the probability of such a stretch by chance, at any shift of any pair
   of trials, is below 1e-6.

Covariance matrices have no time. They are compared as a whole, scaled to unit norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

if TYPE_CHECKING:
    from spdtokens.evaluation.trials import Index, TrialTable

#: How far equal samples may differ, relative to the largest of a trial. Float32 rounds by 1e-7.
TOLERANCE = 2e-6
#: Differences on either side of an anchor that are hashed; doubled while too many hashes are equal.
REACH = 4
#: Surroundings of an anchor are rounded to 1/64 of its difference. Steps do not begin at zero:
#: differences of integers often have simple ratios, which must not lie at the edge of a step.
STEPS, EDGE = 64, 0.382
#: Of a polynomial hash that overflows 64 bits.
FACTOR = np.int64(0x1E3779B97F4A7C15)
#: Candidates per trial that are worth weighing, and trials with an equal hash that are tried.
CANDIDATES, NEIGHBOURS = 8, 16
#: Differences from which the next one is predicted.
ORDER = 8
#: Bits for a probability of 1e-6, and for the scale and its sign, which are free.
SURE_BITS, SCALE_BITS = 20, 17


@dataclass(frozen=True)
class Fingerprint:
    """What the trials of a recording are compared by.

    Attributes
    ----------
    traces : ndarray, shape (n, samples - 1) or (n, up to 8)
        Signals: differences from sample to sample of a random mixture of channels. Matrices: random
        projections of the matrix of unit norm.
    tolerance : ndarray, shape (n,)
        How far equal differences may be apart.
    """

    traces: NDArray[Any]
    tolerance: NDArray[np.float64]

    @cached_property
    def values(self) -> NDArray[Any]:
        """All differences, sorted."""
        return np.sort(self.traces, axis=None)


def fingerprint(X: NDArray[Any], is_covariance: bool) -> Fingerprint:
    """Reduce the trials of a recording to what they are compared by.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples) or (n, d, d)
    is_covariance : bool
    """
    rng = np.random.default_rng(0)
    if is_covariance:
        flat = X[:, *np.triu_indices(X.shape[-1])].astype(np.float64)
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        # Of unit norm, a matrix has one free number less than it has entries.
        n_free = flat.shape[1] - 1
        sketch = flat @ rng.standard_normal((flat.shape[1], min(8, n_free)))
        # Of two channels there are two free numbers, so that different matrices come close.
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
    traces[~np.isfinite(traces)] = 0.0  # flat, and so equal to nothing
    return Fingerprint(traces, TOLERANCE * largest)


class Copies:
    """Trials that share samples with trials they have nothing to do with by name.

    Pairs of one group, or known to overlap in time, are not among them: folds are checked for
    these by what the table says.

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
        """Pairs, one of ``these`` and one of ``those``, that share samples; ``most`` at most."""
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
        """Pairs of rows, shape (pairs, 2), with equal projections."""
        sketch = np.concatenate([part.traces for part in self._fingerprints])
        tolerance = np.concatenate([part.tolerance for part in self._fingerprints])[:, None]
        found = [np.zeros((0, 2), dtype=np.int64)]
        if sketch.shape[1]:  # matrices of one channel are all equal
            order = np.argsort(sketch[:, 0])
            for lag in range(1, NEIGHBOURS + 1):
                one, other = order[:-lag], order[lag:]
                equal = (np.abs(sketch[one] - sketch[other]) < tolerance[one]).all(1)
                equal &= ~self._table.related(one, other)
                found.append(np.stack([one, other], axis=1)[equal])
        return np.concatenate(found)

    def _candidates(self) -> Index:
        """Pairs of rows with an equal hash, the shift, and where: shape (pairs, 4)."""
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
        # Once for every shift: where the difference is largest, as that tells the scale best.
        every = every[:, np.argsort(-size[every[4]], kind="stable")]
        one, other, shift = every[:3]
        span = 2 * max(part.traces.shape[1] for part in self._fingerprints)
        key = (one * len(self._table) + other) * span + shift
        return every[:4, np.unique(key, return_index=True)[1]].T

    def _evidence(self, one: int, other: int, shift: int, place: int) -> float:
        """Bits of the stretch of equal differences of two trials around an anchor."""
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
        """Differences of a trial, their tolerance, and all differences of the recording."""
        number = int(np.searchsorted(self._firsts, row, "right")) - 1
        part, i = self._fingerprints[number], row - self._firsts[number]
        return part.traces[i].astype(np.float64), float(part.tolerance[i]), part.values


def _anchors(part: Fingerprint, reach: int) -> tuple[Index, Index, NDArray[np.float32], Index]:
    """Row, place, size and hash of every anchor."""
    size = np.abs(part.traces)
    largest = maximum_filter1d(size, 2 * reach + 1, axis=1)
    # Differences that are equal but for rounding are all anchors.
    chosen = (size > (1 - 1e-3) * largest) & (size > 4 * part.tolerance[:, None])
    row, place = np.nonzero(chosen[:, reach : size.shape[1] - reach])
    place += reach
    steps = STEPS / part.traces[row, place]  # with its sign: a copy may be inverted
    code = np.zeros(len(row), dtype=np.int64)
    for offset in range(-reach, reach + 1):
        step = np.floor(part.traces[row, place + offset] * steps + EDGE).astype(np.int64)
        code = code * FACTOR + step  # overflow is welcome
    return row, place, size[row, place], code


def _surprise(steps: NDArray[np.float64], tolerance: float, values: NDArray[np.float32]) -> float:
    """Bits that a stretch of differences is worth at least, given all that a recording has."""
    past, now = sliding_window_view(steps, ORDER)[:-1], steps[ORDER:]
    predicted = past @ np.linalg.lstsq(past, now, rcond=None)[0]

    def within(centre: NDArray[np.float64], radius: NDArray[np.float64]) -> Index:
        low, high = centre - radius - 2 * tolerance, centre + radius + 2 * tolerance
        return np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")

    share = within(now, np.zeros(len(now))) / within(predicted, np.abs(now - predicted))
    # What a periodic signal does next, it has done before.
    rounded = np.rint(steps / max(4 * tolerance, np.finfo(float).tiny)).astype(np.int64)
    begun, continued = (_repeats(rounded, length) for length in (ORDER, ORDER + 1))
    again = continued / np.maximum(begun[:-1], 1)
    return float(-np.log2(np.clip(share, again, 1.0)).sum())


def _repeats(steps: Index, length: int) -> Index:
    """How often each sequence of steps occurs elsewhere in the stretch (n - length + 1,)."""
    codes = sliding_window_view(steps, length) @ FACTOR ** np.arange(length)
    _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return counts[which] - 1
