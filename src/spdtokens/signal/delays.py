"""Delays of a signal that is put beside its past."""

from __future__ import annotations

from collections.abc import Sequence

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
