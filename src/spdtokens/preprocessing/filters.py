"""Band-pass filters: zero-phase for whole recordings, causal for live use.

Both have the magnitude of a Butterworth filter. Offline it is applied forwards and backwards, so
that nothing is shifted in time; computed as a product in the Fourier domain, one transform for all
bands. Live it is applied forwards only and keeps its state between chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
import scipy.signal
from numpy.typing import NDArray

from spdtokens.preprocessing.bands import UNFILTERED, Band
from spdtokens.runtime.signals import Front, response

ORDER = 4
#: What a filter may pass of frequencies that a decimated signal cannot carry.
LEAST_GAIN = 1e-4
FloatArray = NDArray[np.float64]


def butterworth(band: Band, sfreq: float, order: int = ORDER) -> FloatArray:
    """Second-order sections of a Butterworth filter, shape (sections, 6)."""
    edges: Any = [edge for edge in (band.low, band.high) if edge is not None]
    if not edges:
        return np.array([[1.0, 0, 0, 1, 0, 0]])
    kind = "lowpass" if band.low is None else "highpass" if band.high is None else "bandpass"
    edges = edges[0] if len(edges) == 1 else edges
    return scipy.signal.butter(order, edges, kind, fs=sfreq, output="sos")


def reach(bands: Sequence[Band], sfreq: float, samples: int) -> int:
    """Samples by which trials are continued at each side before they are filtered into bands.

    The filters' memory, as far as a trial can supply it.
    """
    edges = [[f for f in (band.low, band.high) if f is not None] for band in bands]
    widths = [e[1] - e[0] if len(e) == 2 else e[0] for e in edges if e]
    return min(samples - 1, max((int(np.ceil(3 * sfreq / width)) for width in widths), default=0))


def transform_length(samples: int, pad: int) -> int:
    """Length of the Fourier transform of a trial that is continued by ``pad`` at each side."""
    return int(scipy.fft.next_fast_len(samples + 3 * pad, real=True))


@lru_cache(maxsize=1024)
def decimated_length(band: Band, sfreq: float, length: int) -> int:
    """Samples that carry a band, of the ``length`` samples of a transform.

    What the band's filter passes of frequencies above half the new rate is at most
    :data:`LEAST_GAIN`.
    """
    passed = np.flatnonzero(np.abs(response(butterworth(band, sfreq), length)) ** 2 > LEAST_GAIN)
    # In steps of sqrt 2, so that neighbouring bands have the same length and go together.
    halvings = max(0, int(2 * np.log2(length / (2 * (int(passed[-1]) + 1))))) / 2
    return min(length, int(scipy.fft.next_fast_len(int(np.ceil(length / 2**halvings)), real=True)))


def make_front(
    bands: Sequence[Band],
    sfreq: float,
    n_samples: int,
    *,
    filtering: str = "zero-phase",
    decimate: bool = False,
    slices: Sequence[tuple[int, int]] | None = None,
    **more: Any,
) -> Front:
    """All that turns trials of so many samples into matrices, in the words of the runtime.

    Parameters
    ----------
    bands : sequence of Band
    sfreq : float
        Samples per second.
    n_samples : int
        Of a trial.
    filtering : {'zero-phase', 'causal'}, default='zero-phase'
    decimate : bool, default=False
        Sample every band at the rate that carries it (:func:`decimated_length`).
    slices : sequence of pairs of int, optional
        Windows in samples; the whole trial by default.
    **more
        Other fields of :class:`~spdtokens.runtime.signals.Front`.
    """
    pad = reach(bands, sfreq, n_samples)
    if filtering == "zero-phase":
        length = transform_length(n_samples, pad)
    else:  # a causal filter has no samples to continue into: room for the products to end
        length = int(scipy.fft.next_fast_len(2 * n_samples, real=True))
    return Front(
        n_samples=n_samples,
        filtering=filtering,
        sections=[None if band == UNFILTERED else butterworth(band, sfreq) for band in bands],
        passes_offset=[band.low is None for band in bands],
        pad=pad,
        length=length,
        decimated=[decimated_length(band, sfreq, length) for band in bands] if decimate else None,
        slices=((0, n_samples),) if slices is None else slices,
        **more,
    )


def zero_phase(
    X: NDArray[Any], bands: Sequence[Band], sfreq: float, *, decimate: bool = False
) -> list[FloatArray]:
    """Filter signals into bands without shifting them in time.

    Parameters
    ----------
    X : ndarray, shape (..., samples)
    bands : sequence of Band
    sfreq : float
        Samples per second.
    decimate : bool, default=False
        Sample every band at the rate that carries it (:func:`decimated_length`). The first sample
        stays where it is; the number of samples tells the rate.

    Returns
    -------
    filtered : list of ndarray, shape (..., samples)
        One per band. Ends are padded by odd reflection, as ``scipy.signal.sosfiltfilt`` does.
    """
    X = np.asarray(X)
    front = make_front(bands, sfreq, X.shape[-1], decimate=decimate)
    whole = X.reshape(-1, 1, X.shape[-1])
    return [piece.reshape(*X.shape[:-1], -1) for piece in front.pieces(whole)]


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
