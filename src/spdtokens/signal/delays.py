"""A signal beside itself as it was a moment before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spdtokens.signal.bands import SignalError


def delay_samples(delays: Sequence[float], sfreq: float, n_samples: int) -> tuple[int, ...]:
    """Delays in samples.

    Raises
    ------
    SignalError
        For a delay that is less than a sample or not shorter than a trial.
    """
    samples = tuple(round(delay * sfreq) for delay in delays)
    for delay, n in zip(delays, samples, strict=True):
        if not 1 <= n < n_samples:
            raise SignalError(
                f"A delay of {delay:g} s is {n} samples; it is at least 1 and less than the "
                f"{n_samples} of a trial."
            )
    return samples


def with_delays(X: NDArray[np.float64], delays: Sequence[int]) -> NDArray[np.float64]:
    """Trials (n, channels, samples) beside what they were so many samples before.

    Returns
    -------
    ndarray, shape (n, (1 + delays) * channels, samples)
        Zero where a trial had not begun.
    """
    if not delays:
        return X
    late = np.zeros((X.shape[0], len(delays), *X.shape[1:]))
    for i, delay in enumerate(delays):
        late[:, i, :, delay:] = X[..., :-delay]
    return np.concatenate([X, late.reshape(len(X), -1, X.shape[-1])], axis=1)
