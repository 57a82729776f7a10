"""How the electrodes do, judged from the signal beside that of the others, in any unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Of the spread of the median channel.
WEAK, HUGE = 0.01, 10.0
#: Times the sample-to-sample change of the median channel.
NOISY = 5.0
#: Share of samples that lie at the extreme values, above which an amplifier is at its limits.
CLIPPED = 0.05


def judge(signal: NDArray[np.float64]) -> list[str]:
    """A word for each channel; empty for one that does well.

    Parameters
    ----------
    signal : ndarray, shape (channels, samples)
        As it comes, not filtered.

    Returns
    -------
    words : list of str
        ``'not a number'``, ``'flat'`` (at least in the last third), ``'clipped'``, ``'huge'``,
        ``'noisy'``, ``'weak'`` or ``''``.
    """
    finite = np.asarray(np.isfinite(signal).all(1))
    if not finite.all():
        signal = np.where(finite[:, None], signal, 0.0)
    flat = np.ptp(signal[:, -max(2, signal.shape[1] // 3) :], axis=1) == 0
    alive = finite & ~flat
    if not alive.any():
        return ["not a number" if not ok else "flat" for ok in finite]
    spread = signal.std(1)
    change = np.diff(signal, axis=1).std(1)
    usual_spread, usual_change = np.median(spread[alive]), np.median(change[alive])
    words = np.select(
        [
            ~finite,
            flat,
            _clipped(signal),
            spread > HUGE * usual_spread,
            change > NOISY * usual_change,
            spread < WEAK * usual_spread,
        ],
        ["not a number", "flat", "clipped", "huge", "noisy", "weak"],
        "",
    )
    return [str(word) for word in words]


def _clipped(signal: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a channel (channels, samples) stays at its extremes for a while again and again."""
    low, high = signal.min(1, keepdims=True), signal.max(1, keepdims=True)
    stays = np.zeros(signal.shape, bool)
    for extreme in (low, high):
        there = signal == extreme
        stays[:, 1:] |= there[:, 1:] & there[:, :-1]
    begins = (stays[:, 1:] & ~stays[:, :-1]).sum(1)
    return np.asarray((stays.mean(1) > CLIPPED) & (begins >= 3))


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a row; the count of those beyond ``most``."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
