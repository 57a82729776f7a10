"""Band-pass filters: zero-phase for whole recordings, causal for live use.

Both have the magnitude of a Butterworth filter. Offline it is applied forwards and backwards, so
that nothing is shifted in time; computed as a product in the Fourier domain, one transform for all
bands. Live it is applied forwards only and keeps its state between chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
import scipy.signal
import torch
from numpy.typing import NDArray
from torch import Tensor

from spdtokens.signal.bands import UNFILTERED, Band
from spdtokens.spd.arrays import as_tensor

ORDER = 4
#: What a filter may pass of frequencies that a decimated signal cannot carry.
LEAST_GAIN = 1e-4
FloatArray = NDArray[np.float64]


def butterworth(band: Band, sfreq: float, order: int = ORDER) -> FloatArray:
    """Second-order sections of a Butterworth filter, shape (sections, 6)."""
    if band.low is not None and band.high is not None:
        edges: Any = (band.low, band.high)
        return scipy.signal.butter(order, edges, "bandpass", fs=sfreq, output="sos")
    if band.low is not None:
        return scipy.signal.butter(order, band.low, "highpass", fs=sfreq, output="sos")
    if band.high is not None:
        return scipy.signal.butter(order, band.high, "lowpass", fs=sfreq, output="sos")
    return np.array([[1.0, 0, 0, 1, 0, 0]])


def _ringing(band: Band, sfreq: float, samples: int) -> int:
    """Samples to pad at each side: the filter's memory, as far as the signal can supply it."""
    edges = [f for f in (band.low, band.high) if f is not None]
    width = edges[1] - edges[0] if len(edges) == 2 else (edges[0] if edges else sfreq)
    return min(samples - 1, int(np.ceil(3 * sfreq / width)))


def reach(bands: Sequence[Band], sfreq: float, samples: int) -> int:
    """Samples by which trials are continued at each side before they are filtered into bands."""
    real = [band for band in bands if band != UNFILTERED]
    return max((_ringing(band, sfreq, samples) for band in real), default=0)


def zero_phase(X: NDArray[Any], bands: Sequence[Band], sfreq: float) -> list[FloatArray]:
    """Filter signals into bands without shifting them in time.

    Parameters
    ----------
    X : ndarray, shape (..., samples)
    bands : sequence of Band
    sfreq : float

    Returns
    -------
    filtered : list of ndarray, shape (..., samples)
        One a band. Ends are padded by odd reflection, as ``scipy.signal.sosfiltfilt`` does.
    """
    return list(each_zero_phase(X, bands, sfreq))


def each_zero_phase(
    X: NDArray[Any], bands: Sequence[Band], sfreq: float, decimate: bool = False
) -> Iterator[FloatArray]:
    """:func:`zero_phase`, one band after another: of many bands, only one is held at a time.

    Parameters
    ----------
    X, bands, sfreq
        As for :func:`zero_phase`.
    decimate : bool, default=False
        Sample every band at the rate that carries it (:func:`decimated_length`). The first sample
        stays where it is; the number of samples tells the rate.
    """
    X = np.asarray(X, dtype=np.float64)
    for filtered in _each_band(as_tensor(X), bands, sfreq, decimate):
        yield filtered.numpy()


def zero_phase_tensor(X: Tensor, bands: Sequence[Band], sfreq: float) -> list[Tensor]:
    """:func:`zero_phase` for tensors, through which gradients flow.

    Parameters
    ----------
    X : Tensor, shape (..., samples)
        Any dtype. Computed in float64: a narrow band is often 1e-4 of the signal's power, and in
        float32 the rest of the signal would leave its rounding errors in it.
    bands : sequence of Band
    sfreq : float

    Returns
    -------
    filtered : list of Tensor of float64, shape (..., samples)
    """
    return list(_each_band(X, bands, sfreq))


def transform_length(samples: int, pad: int) -> int:
    """Length of the Fourier transform of a trial that is continued by ``pad`` at each side."""
    return int(scipy.fft.next_fast_len(samples + 3 * pad, real=True))


@lru_cache(maxsize=1024)
def decimated_length(band: Band, sfreq: float, length: int) -> int:
    """Samples that carry a band, of the ``length`` samples of a transform.

    What the band's filter passes of frequencies above half the new rate is at most
    :data:`LEAST_GAIN`.
    """
    passed = np.flatnonzero(_zero_phase_gain(band, sfreq, length) > LEAST_GAIN)
    # In steps of sqrt 2, so that neighbouring bands have the same length and go together.
    halvings = max(0, int(2 * np.log2(length / (2 * (int(passed[-1]) + 1))))) / 2
    return min(length, int(scipy.fft.next_fast_len(int(np.ceil(length / 2**halvings)), real=True)))


def _each_band(
    X: Tensor, bands: Sequence[Band], sfreq: float, decimate: bool = False
) -> Iterator[Tensor]:
    X = X.double()
    samples = X.shape[-1]
    if all(band == UNFILTERED for band in bands):
        yield from (X for _ in bands)
        return
    # A constant offset passes through reflection untouched but would ring: take it out first.
    offset = X.mean(-1, keepdim=True)
    pad = reach(bands, sfreq, samples)
    padded = _odd_reflection(X - offset, pad)
    length = transform_length(samples, pad)
    # torch's transform shares its threads with the matrix products that follow.
    spectrum = torch.fft.rfft(padded, length)
    if decimate:  # the trial first, so that it begins with a sample at every rate
        bins = torch.arange(spectrum.shape[-1], dtype=X.dtype, device=X.device)
        spectrum = spectrum * torch.exp(2j * torch.pi * pad / length * bins)
        pad = 0
    for band in bands:
        if band == UNFILTERED:
            yield X
            continue
        gain = torch.from_numpy(_zero_phase_gain(band, sfreq, length)).to(X.device)
        new = decimated_length(band, sfreq, length) if decimate else length
        # What is at half the rate itself cannot be told apart from its mirror image.
        kept, used = samples * new // length, (new + 1) // 2 if decimate else new // 2 + 1
        out = torch.fft.irfft(spectrum[..., :used] * gain[:used], new)[..., pad : pad + kept]
        if new < length:
            out = out * (new / length)
        yield out + offset if band.low is None else out


@lru_cache(maxsize=1024)
def _zero_phase_gain(band: Band, sfreq: float, length: int) -> FloatArray:
    """Gain of the filter applied forwards and backwards, at the frequencies of ``rfft``."""
    frequencies = np.fft.rfftfreq(length, 1 / sfreq)
    _, response = scipy.signal.sosfreqz(butterworth(band, sfreq), worN=frequencies, fs=sfreq)
    gain: FloatArray = np.abs(response) ** 2
    return gain


def _odd_reflection(X: Tensor, pad: int) -> Tensor:
    """Continue signals past their ends, mirrored in the end points: (..., samples + 2 pad)."""
    first, last = X[..., :1], X[..., -1:]
    before = 2 * first - X[..., 1 : pad + 1].flip(-1)
    after = 2 * last - X[..., -pad - 1 : -1].flip(-1)
    return torch.cat([before, X, after], -1)


class CausalFilter:
    """A band-pass filter that sees only the past, for live use.

    Feeding a recording in chunks of any size gives the same numbers as feeding it at once.

    Parameters
    ----------
    bands : sequence of Band
    sfreq : float
    """

    def __init__(self, bands: Sequence[Band], sfreq: float) -> None:
        self._sections = [butterworth(band, sfreq) for band in bands]
        self._states: list[FloatArray] | None = None

    def process(self, chunk: NDArray[Any]) -> list[FloatArray]:
        """Filter the next samples (..., samples); one array a band."""
        chunk = np.asarray(chunk, dtype=np.float64)
        if self._states is None:
            # Start as if the first value had always been there, so that an offset does not ring.
            self._states = [
                scipy.signal.sosfilt_zi(sos).reshape(len(sos), *[1] * (chunk.ndim - 1), 2)
                * chunk[..., :1]
                for sos in self._sections
            ]
        out = []
        for i, sos in enumerate(self._sections):
            y, self._states[i] = scipy.signal.sosfilt(sos, chunk, axis=-1, zi=self._states[i])
            out.append(y)
        return out

    def reset(self) -> None:
        """Forget the past."""
        self._states = None


def causal(X: NDArray[Any], bands: Sequence[Band], sfreq: float) -> list[FloatArray]:
    """Filter whole trials (..., samples) as a live system would; one array a band."""
    return CausalFilter(bands, sfreq).process(X)
