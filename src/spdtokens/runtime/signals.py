"""Covariance matrices of a trial: filters, delays, windows, estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tokens import Array, DecoderError

#: Covariance estimators of this runtime; the last two have class averages.
ESTIMATORS = ("sample", "scm", "oas", "erp", "xdawn")
#: Bytes of trials per part.
PART = 16_000_000
#: Largest number of samples per call of an estimator.
BATCH_SAMPLES = 1 << 16


@dataclass(frozen=True)
class Prototype:
    """Class averages that are stacked on a trial, for event-related potentials.

    Attributes
    ----------
    averages : ndarray, shape (rows, samples)
        Class averages.
    filters : ndarray, shape (filters, channels), or None
        Spatial filters of the trial.
    scale : float
        Signals are divided by it, and covariances multiplied by its square.
    """

    averages: Array
    filters: Array | None
    scale: float

    def size(self, channels: int) -> int:
        """Number of rows of :meth:`beside` for a number of channels."""
        return len(self.averages) + (channels if self.filters is None else len(self.filters))

    def beside(self, X: Array) -> Array:
        """Averages stacked on trials, (n, rows + channels, samples)."""
        X = X / self.scale
        if self.filters is not None:
            X = self.filters @ X
        P = np.broadcast_to(self.averages, (len(X), *self.averages.shape))
        return np.concatenate([P, X], axis=1)

    def covariances(self, X: Array) -> Array:
        """Covariances (n, d, d) of averages stacked on trials (n, channels, samples)."""
        return oas(self.beside(X)) * self.scale**2


@dataclass(frozen=True)
class Front:
    """Everything between a trial and its covariance matrices.

    Attributes
    ----------
    n_samples : int
        Number of samples of a trial.
    filtering : {'zero-phase', 'causal'}
        Kind of filter. Each trial is filtered by itself and never depends on later samples.
    sections : sequence of ndarray, shape (sections, 6), or None
        Second-order sections of the Butterworth filter of each band; None for an unfiltered band.
    passes_offset : sequence of bool
        Whether a band begins at 0 Hz.
    pad, length : int
        Number of samples added at each end of a trial, and of the Fourier transform.
    slices : sequence of pairs of int
        Windows in samples.
    delays : sequence of int
        Delays in samples.
    covariance : str
        Estimator, one of ``ESTIMATORS``.
    prototypes : sequence of Prototype
        Class averages of each matrix, for ``'erp'`` and ``'xdawn'``.
    relative, absolute : float
        Regularisation of the diagonal: a multiple of the mean variance, and a constant.
    scale : float
        Divisor of covariances.
    decimated : sequence of int, or None
        Number of samples, of the ``length``, to which each band is decimated. None for no
        decimation.
    n_means : int
        Number of equal parts of each window whose channel means are part of its matrix, as in
        :func:`with_means`. 0 for a covariance matrix.
    other : callable or None
        Estimator that is not in this runtime: maps signals (n, channels, samples) to covariances. A
        model with one cannot be saved.
    """

    n_samples: int
    filtering: str
    sections: Sequence[Array | None]
    passes_offset: Sequence[bool]
    pad: int
    length: int
    slices: Sequence[tuple[int, int]]
    delays: Sequence[int] = ()
    covariance: str = "sample"
    prototypes: Sequence[Prototype] = ()
    relative: float = 0.0
    absolute: float = 0.0
    scale: float = 1.0
    decimated: Sequence[int] | None = None
    n_means: int = 0
    other: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        _ = self.gains  # computed now, so that an unstable filter raises an error now

    @cached_property
    def gains(self) -> list[NDArray[Any] | None]:
        """Factors of the spectrum of a trial, one array per band; None if unfiltered."""
        gains = [None if sos is None else self._gain(sos) for sos in self.sections]
        if not all(gain is None or np.isfinite(gain).all() for gain in gains):
            raise DecoderError("A filter of the model is not stable.")
        return gains

    def _gain(self, sos: Array) -> NDArray[Any]:
        if self.filtering == "zero-phase":
            return np.abs(response(sos, self.length)) ** 2
        return np.fft.rfft(_impulse_response(sos, self.n_samples), self.length)

    def covariances(self, X: NDArray[Any]) -> Array:
        """Covariance matrices (n, matrices, d, d) of trials (n, channels, samples)."""
        X = np.asarray(X)
        check_trials(X)
        return np.concatenate([self.estimate(part) for part in in_parts(X)])

    def estimate(self, X: NDArray[Any]) -> Array:
        """Covariance matrices of trials that have been checked, all at once."""
        pieces = self.pieces(X)
        if self.prototypes:
            pairs = zip(pieces, self.prototypes, strict=True)
            made = [prototype.covariances(piece) for piece, prototype in pairs]
        else:
            made = self._in_batches(pieces)
        return self.regularised(np.stack(made, axis=1))

    def regularised(self, C: Array) -> Array:
        """Regularise covariances (n, matrices, d, d) in place, and divide them by ``scale``."""
        variances = np.einsum("...ii->...i", C)
        variances += self.relative * variances.mean(-1, keepdims=True) + self.absolute
        return C if self.scale == 1 else C / self.scale

    def pieces(self, X: NDArray[Any]) -> Iterator[Array]:
        """Signals (n, channels, samples) of every matrix, ordered by band and then by window."""
        # One band at a time, to limit memory.
        for band in self._filtered(np.asarray(X, dtype=np.float64)):
            rate = band.shape[-1] / self.n_samples
            late = with_delays(band, self.delays)
            for start, stop in self.slices:
                yield late[..., round(start * rate) : round(stop * rate)]

    def _in_batches(self, pieces: Iterator[Array]) -> list[Array]:
        """Covariances (n, d, d) of every piece; with few trials, several pieces per call."""
        found: list[Array] = []
        batch: list[Array] = []
        samples = cycle(stop - start for start, stop in self.slices)
        last = 0
        for piece, n in zip(pieces, samples, strict=False):
            full = piece.size * len(batch) > BATCH_SAMPLES
            if batch and (full or n != last or piece.shape != batch[0].shape):
                found += self._estimates(batch, last)
                batch = []
            batch.append(piece)
            last = n
        return found + self._estimates(batch, last)

    def _estimates(self, pieces: list[Array], samples: int) -> list[Array]:
        """Covariances of signals that represent a number of samples of a trial."""
        X = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if self.n_means:
            C = with_means(X, self.n_means)
        elif self.other is not None:
            C = self.other(X)
        else:
            C = oas(X, samples) if self.covariance == "oas" else scm(X)
            if self.covariance == "sample":
                C *= X.shape[-1] / (X.shape[-1] - 1)
        return [C] if len(pieces) == 1 else np.split(C, len(pieces))

    def _filtered(self, X: Array) -> Iterator[Array]:
        gains = self.gains
        if all(gain is None for gain in gains):
            yield from (X for _ in gains)
            return
        n, pad = self.n_samples, self.pad
        if self.filtering == "zero-phase":
            offset = X.mean(-1, keepdims=True)
            spectrum = np.fft.rfft(odd_reflection(X - offset, pad), self.length)
        else:  # as if the signal had been constant before
            offset, pad = X[..., :1], 0
            spectrum = np.fft.rfft(X - offset, self.length)
        lengths: Sequence[int] = [self.length] * len(gains)
        if self.decimated is not None:
            # Shift the trial to the start, so that it begins with a sample at every rate.
            shift = np.exp(2j * np.pi * pad / self.length * np.arange(spectrum.shape[-1]))
            spectrum, pad, lengths = spectrum * shift, 0, self.decimated
        for gain, passes, new in zip(gains, self.passes_offset, lengths, strict=True):
            if gain is None:
                yield X
                continue
            # The Nyquist frequency itself is ambiguous.
            used = new // 2 + 1 if self.decimated is None else (new + 1) // 2
            y = np.fft.irfft(spectrum[..., :used] * gain[:used], new)
            y = y[..., pad : pad + n * new // self.length]
            if new < self.length:
                y = y * (new / self.length)
            yield y + offset if passes else y


def in_parts(X: NDArray[Any]) -> list[NDArray[Any]]:
    """Split trials into views that are filtered one at a time, to limit memory."""
    return np.array_split(X, max(1, -(-X.nbytes // PART)))


def odd_reflection(X: Array, pad: int) -> Array:
    """Extend signals by odd reflection at both ends: (..., samples + 2 pad)."""
    before = 2 * X[..., :1] - X[..., pad:0:-1]
    after = 2 * X[..., -1:] - X[..., -2 : -pad - 2 : -1]
    return np.concatenate([before, X, after], axis=-1)


def with_delays(X: Array, delays: Sequence[int]) -> Array:
    """Trials with delayed copies of their channels; zero before the trial begins."""
    late = []
    for delay in delays:
        shifted = np.zeros_like(X)
        shifted[..., delay:] = X[..., :-delay]
        late.append(shifted)
    return np.concatenate([X, *late], axis=1) if late else X


def scm(X: Array) -> Array:
    """Sample covariances (n, d, d), normalised by the number of samples."""
    Z = X - X.mean(-1, keepdims=True)
    return Z @ Z.swapaxes(-1, -2) / X.shape[-1]


def with_means(X: Array, parts: int) -> Array:
    r"""Second moments of signals, together with their means in parts of the window.

    Boxcars, one per part, are stacked on the signals as constant channels, so that the matrix is
    :math:`\begin{pmatrix} s^2 I & s M \\ s M^\top & X X^\top / T \end{pmatrix}`. Each row of
    :math:`M` has the means of all channels in one part, times the square root of the part's share
    of the window. :math:`s^2` is the mean power of the trial, so that the matrix has one unit.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples)
        Signals.
    parts : int
        Number of parts.

    Returns
    -------
    ndarray, shape (n, parts + channels, parts + channels)
        Positive semidefinite matrices.
    """
    n, d, samples = X.shape
    edges = np.linspace(0, samples, parts + 1).round().astype(int)
    sums = np.add.reduceat(X, edges[:-1], axis=-1)
    C = np.zeros((n, parts + d, parts + d))
    C[:, parts:, parts:] = X @ X.swapaxes(-1, -2) / samples
    power = np.einsum("nii->n", C)[:, None, None] / d
    C[:, :parts, :parts] = power * np.eye(parts)
    means = sums / np.sqrt(np.diff(edges) * samples)
    C[:, parts:, :parts] = np.sqrt(power) * means
    C[:, :parts, parts:] = C[:, parts:, :parts].swapaxes(-1, -2)
    return C


def oas(X: Array, samples: int | None = None) -> Array:
    """Covariances with oracle approximating shrinkage (Chen et al. 2010), as in scikit-learn.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples)
        Signals.
    samples : int, default=None
        Number of samples before decimation, which determines the shrinkage. None for that of ``X``.
    """
    C = scm(X)
    n, d = samples or X.shape[-1], C.shape[-1]
    if d == 1:
        return C
    square = (C**2).mean((-2, -1))
    mean = np.einsum("nii->n", C) / d
    below = (n + 1) * (square - mean**2 / d)
    enough = below > 0
    share = np.where(enough, (square + mean**2) / np.where(enough, below, 1.0), 1.0)
    share = np.minimum(share, 1.0)[:, None, None]
    return (1 - share) * C + share * mean[:, None, None] * np.eye(d)


def response(sos: Array, length: int) -> NDArray[np.complex128]:
    """Frequency response at the frequencies of ``rfft`` for a number of samples."""
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(length))
    powers = np.stack([np.ones_like(z), z, z * z])
    return np.asarray(np.prod((sos[:, :3] @ powers) / (sos[:, 3:] @ powers), axis=0))


def _impulse_response(sos: Array, n: int) -> Array:
    x = [1.0] + [0.0] * (n - 1)
    for b0, b1, b2, _, a1, a2 in sos.tolist():
        first = second = 0.0
        for i, value in enumerate(x):
            y = b0 * value + first
            first = b1 * value - a1 * y + second
            second = b2 * value - a2 * y
            x[i] = y
    return np.array(x)


def check_trials(X: NDArray[Any], error: type[Exception] = DecoderError) -> None:
    """Raise an error for trials (n, channels, samples) with NaN, infinity or a flat channel.

    The message names the first such trial and its channel, and the number of such trials.
    """
    finite = np.isfinite(X)
    all_finite = finite.all()
    bad = np.ptp(X, axis=-1, keepdims=True) == 0 if all_finite else ~finite
    if bad.any():
        trial, channel, sample = np.argwhere(bad)[0]
        fault = " is flat" if all_finite else f", sample {sample} is NaN or infinite"
        raise error(
            f"Trial {trial}, channel number {channel}{fault} (in {int(bad.any((1, 2)).sum())} of "
            f"{len(X)} trials). Drop these trials, or the channel if it is dead."
        )
