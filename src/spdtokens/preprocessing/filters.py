"""Band-pass filters: zero-phase for whole recordings, causal for live use.

Both are Butterworth filters. The zero-phase filter is applied forwards and backwards, computed as
a product in the Fourier domain with one transform for all bands. The causal filter is applied
forwards and keeps its state between chunks.
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
#: Largest gain of a filter above the Nyquist frequency of the decimated signal.
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
    """Number of samples by which trials are extended at each end before filtering.

    It is the memory of the filters, limited by the length of the trial.
    """
    edges = [[f for f in (band.low, band.high) if f is not None] for band in bands]
    widths = [e[1] - e[0] if len(e) == 2 else e[0] for e in edges if e]
    return min(samples - 1, max((int(np.ceil(3 * sfreq / width)) for width in widths), default=0))


def transform_length(samples: int, pad: int) -> int:
    """Length of the Fourier transform of a trial that is extended by ``pad`` at each end."""
    return int(scipy.fft.next_fast_len(samples + 3 * pad, real=True))


@lru_cache(maxsize=1024)
def decimated_length(band: Band, sfreq: float, length: int) -> int:
    """Number of samples that represent a band, out of the ``length`` samples of a transform.

    The gain of the band's filter above the new Nyquist frequency is at most :data:`LEAST_GAIN`.
    """
    passed = np.flatnonzero(np.abs(response(butterworth(band, sfreq), length)) ** 2 > LEAST_GAIN)
    # In steps of sqrt(2), so that neighbouring bands have the same length.
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
    """Build the computation of covariance matrices from trials.

    Parameters
    ----------
    bands : sequence of Band
        Frequency bands.
    sfreq : float
        Sampling rate in Hz.
    n_samples : int
        Number of samples of a trial.
    filtering : {'zero-phase', 'causal'}, default='zero-phase'
        Kind of filter.
    decimate : bool, default=False
        Resample every band at a lower rate (:func:`decimated_length`).
    slices : sequence of pairs of int, default=None
        Windows in samples. None for the whole trial.
    **more
        Other fields of :class:`~spdtokens.runtime.signals.Front`.
    """
    pad = reach(bands, sfreq, n_samples)
    if filtering == "zero-phase":
        length = transform_length(n_samples, pad)
    else:  # no extension: length for a linear convolution
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
    """Filter signals into bands with zero phase.

    Parameters
    ----------
    X : ndarray, shape (..., n_samples)
        Signals.
    bands : sequence of Band
        Frequency bands.
    sfreq : float
        Sampling rate in Hz.
    decimate : bool, default=False
        Resample every band at a lower rate that represents it. The first sample keeps its time; the
        new rate follows from the number of samples.

    Returns
    -------
    list of ndarray, shape (..., n_samples)
        Filtered signals, one array per band. The ends are padded by odd reflection, as in
        ``scipy.signal.sosfiltfilt``.

    See Also
    --------
    causal : Filter that uses past samples only.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.preprocessing import resolve_bands, zero_phase
    >>> X = np.random.default_rng(0).standard_normal((10, 4, 500))
    >>> alpha, beta = zero_phase(X, resolve_bands("8-13,13-30"), sfreq=250)
    >>> alpha.shape
    (10, 4, 500)
    """
    X = np.asarray(X)
    front = make_front(bands, sfreq, X.shape[-1], decimate=decimate)
    whole = X.reshape(-1, 1, X.shape[-1])
    return [piece.reshape(*X.shape[:-1], -1) for piece in front.pieces(whole)]


class CausalFilter:
    """Band-pass filters that use past samples only, with a state for live use.

    Filtering a recording in chunks of any size gives the same result as filtering it at once.

    Parameters
    ----------
    bands : sequence of Band
        Frequency bands.
    sfreq : float
        Sampling rate in Hz.

    See Also
    --------
    causal : Filter a whole recording at once.
    zero_phase : Filter offline without delay.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.preprocessing import Band, CausalFilter
    >>> live = CausalFilter([Band(8, 13)], sfreq=250)
    >>> for chunk in np.split(np.random.default_rng(0).standard_normal((4, 500)), 10, axis=1):
    ...     (filtered,) = live.process(chunk)
    >>> filtered.shape
    (4, 50)
    """

    def __init__(self, bands: Sequence[Band], sfreq: float) -> None:
        self._sections = [butterworth(band, sfreq) for band in bands]
        self._states: list[FloatArray] | None = None

    def process(self, chunk: NDArray[Any]) -> list[FloatArray]:
        """Filter the next chunk of the signals.

        Parameters
        ----------
        chunk : ndarray, shape (..., n_samples)
            Next samples of all signals.

        Returns
        -------
        list of ndarray, shape (..., n_samples)
            Filtered samples, one array per band.
        """
        chunk = np.asarray(chunk, dtype=np.float64)
        if self._states is None:
            # Start as if the signal had been constant before, so that an offset does not ring.
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
        """Reset the state, as before the first chunk."""
        self._states = None


def causal(X: NDArray[Any], bands: Sequence[Band], sfreq: float) -> list[FloatArray]:
    """Filter trials with causal filters, as in live use.

    Parameters
    ----------
    X : ndarray, shape (..., n_samples)
        Signals.
    bands : sequence of Band
        Frequency bands.
    sfreq : float
        Sampling rate in Hz.

    Returns
    -------
    list of ndarray, shape (..., n_samples)
        Filtered signals, one array per band.

    See Also
    --------
    CausalFilter : Filter in chunks.
    zero_phase : Filter offline without delay.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.preprocessing import Band, causal
    >>> X = np.random.default_rng(0).standard_normal((4, 500))
    >>> causal(X, [Band(8, 13)], sfreq=250)[0].shape
    (4, 500)
    """
    return CausalFilter(bands, sfreq).process(X)
