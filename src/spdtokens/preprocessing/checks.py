"""Is this a batch of usable trials? If not: which trial, which channel, and what now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.errors import SignalError


def as_trials(X: ArrayLike) -> NDArray[Any]:
    """An array of trials (n, channels, samples) from whatever can be made one.

    Raises
    ------
    SignalError
        For another shape, no trials, or values that are not real numbers.
    """
    X = np.asarray(X)
    if X.dtype.kind in "OUS":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SignalError(f"Trials must be real numbers, got {X.dtype}: {error}.") from error
    if X.dtype.kind not in "fiub":
        raise SignalError(
            f"Trials must be real numbers, got {X.dtype}. Complex data not supported."
        )
    if X.ndim != 3 or 0 in X.shape:
        raise SignalError(
            f"Expected trials (n, channels, samples), none of them 0, got shape {X.shape}. Reshape "
            "your data."
        )
    return X


def _names(channels: NDArray[np.int64], ch_names: tuple[str, ...] | None) -> str:
    shown = [ch_names[c] if ch_names else f"number {c}" for c in channels[:5]]
    more = f" and {len(channels) - 5} more" if len(channels) > 5 else ""
    return ("channel " if len(channels) == 1 else "channels ") + ", ".join(shown) + more


def check_trials(X: NDArray[Any], ch_names: tuple[str, ...] | None = None) -> None:
    """Refuse trials from which no covariance can be computed.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples)
    ch_names : tuple of str, optional
        For the messages.

    Raises
    ------
    SignalError
        For NaN or infinity, a flat channel, a channel that repeats another, or fewer samples than
        two.
    """
    if X.shape[-1] < 2:
        raise SignalError(f"Trials of {X.shape[-1]} sample have no covariance.")
    finite = np.isfinite(X)
    if not finite.all():
        trial, channel, sample = np.argwhere(~finite)[0]
        count = int((~finite).any((1, 2)).sum())
        raise SignalError(
            f"Trial {trial}, {_names(np.array([channel]), ch_names)}, sample {sample} is not a "
            f"number (in {count} of {len(X)} trials). Drop these trials or repair them, say by "
            "interpolation."
        )
    spread = np.ptp(X, axis=-1)
    flat = spread == 0
    if flat.any():
        trial = int(np.argwhere(flat)[0][0])
        raise SignalError(
            f"Flat: {_names(np.flatnonzero(flat[trial]), ch_names)} in trial {trial}; "
            f"{int(flat.any(1).sum())} of {len(X)} trials have a flat channel. Drop the channel if "
            "it is dead, else these trials."
        )


def check_duplicates(C: NDArray[Any], ch_names: tuple[str, ...] | None = None) -> None:
    """Refuse channels that are multiples of each other, seen in covariances (n, d, d)."""
    deviation = np.sqrt(np.diagonal(C, axis1=-2, axis2=-1))
    correlation = np.abs(C) / (deviation[..., :, None] * deviation[..., None, :])
    lowest = correlation.min(0)  # in every trial
    same = np.argwhere(np.triu(lowest > 1 - 1e-9, 1))
    if len(same):
        raise SignalError(
            f"In every trial {_names(same[0], ch_names)} carry the same signal. Drop one of them: "
            "a covariance with both is singular."
        )
