"""Which bands and windows of a trial become tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spdtokens.signal.bands import (
    DEFAULT,
    Band,
    BandSpec,
    SignalError,
    check_band,
    default_bands,
    resolve_bands,
)

Window = tuple[float, float]


@dataclass(frozen=True)
class TokenPlan:
    """Bands times windows, in samples.

    Attributes
    ----------
    bands : tuple of Band
    windows : tuple of pairs
        From and to in seconds, on the clock of the trials.
    slices : tuple of pairs
        The same from and to in samples.
    n_samples : int
        Of a trial.
    """

    bands: tuple[Band, ...]
    windows: tuple[Window, ...]
    slices: tuple[tuple[int, int], ...]
    n_samples: int

    @property
    def names(self) -> list[str]:
        """What each token is: ``'8-13 Hz, 0.5-2.5 s'``."""
        many = len(self.windows) > 1
        return [
            f"{band}, {left:g}-{right:g} s" if many else str(band)
            for band in self.bands
            for left, right in self.windows
        ]

    def cut(self, filtered: Iterable[Any]) -> Iterator[Any]:
        """Signals (..., samples) of every token, given those of every band: windows run fastest.

        The number of a signal's samples tells its rate, if that is not the rate of the trials.
        """
        for signal in filtered:
            rate = signal.shape[-1] / self.n_samples
            for start, stop in self.slices:
                yield signal[..., round(start * rate) : round(stop * rate)]


def plan_tokens(
    *,
    sfreq: float,
    n_samples: int,
    bands: BandSpec | None = None,
    windows: Sequence[Window] | None = None,
    tmin: float = 0.0,
    stimulus_frequencies: Sequence[float] = (),
) -> TokenPlan:
    """Resolve bands and windows, and refuse what the signal cannot carry.

    Parameters
    ----------
    sfreq : float
        Samples a second.
    n_samples : int
        Of a trial.
    bands, windows, tmin, stimulus_frequencies
        As in :class:`~spdtokens.signal.Tokenizer`.
    """
    end = tmin + n_samples / sfreq
    chosen = tuple(windows) if windows is not None else ((tmin, end),)
    if bands is None:
        bands = default_bands(DEFAULT, sfreq, min(right - left for left, right in chosen))
    resolved = resolve_bands(bands, stimulus_frequencies)
    slices = []
    for left, right in chosen:
        start, stop = (round((t - tmin) * sfreq) for t in (left, right))
        if not 0 <= start < stop <= n_samples:
            raise SignalError(
                f"The window {left:g}-{right:g} s does not lie inside the trials, which last from "
                f"{tmin:g} to {end:g} s."
            )
        for band in resolved:
            check_band(band, sfreq, right - left)
        slices.append((start, stop))
    return TokenPlan(resolved, chosen, tuple(slices), n_samples)


def refuse_short_windows(plan: TokenPlan, n_channels: int) -> None:
    """Refuse windows whose sample covariance is singular."""
    for (start, stop), (left, right) in zip(plan.slices, plan.windows, strict=True):
        if stop - start <= n_channels:
            raise SignalError(
                f"The window {left:g}-{right:g} s has {stop - start} samples for "
                f"{n_channels} channels: such a covariance is singular. Use a longer window, "
                "or a shrinkage estimator such as covariance='oas'."
            )
