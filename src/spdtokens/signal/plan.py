"""Which bands and windows of a trial become tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
#: Windows by name: parts of the whole trial.
WINDOWS: dict[str, tuple[Window, ...]] = {
    "whole": ((0.0, 1.0),),
    # Where potentials are looked for.
    "nested": ((0.0, 1.0), (0.0, 0.75)),
}
WindowSpec = str | Sequence[Window]


def resolve_windows(windows: WindowSpec | None, begin: float, end: float) -> tuple[Window, ...]:
    """Windows of a name, within a stretch of time, or as they are given.

    Parameters
    ----------
    windows : str or sequence of pairs, optional
        ``'whole'`` (the default), ``'nested'`` (the whole stretch, and its first three quarters),
        or pairs in seconds.
    begin, end : float
        The stretch, in seconds.
    """
    if windows is None or isinstance(windows, str):
        if windows is not None and windows not in WINDOWS:
            raise SignalError(
                f"There are no windows {windows!r}. Choose from {', '.join(WINDOWS)}, or give "
                "pairs in seconds such as [(0.5, 2.5)]."
            )
        parts = WINDOWS[windows or "whole"]
        return tuple((begin + a * (end - begin), begin + b * (end - begin)) for a, b in parts)
    try:
        return tuple((float(left), float(right)) for left, right in windows)
    except (TypeError, ValueError) as error:
        raise SignalError(
            f"windows must be pairs in seconds such as [(0.5, 2.5)], got {windows!r}."
        ) from error


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


def plan_tokens(
    *,
    sfreq: float,
    n_samples: int,
    bands: BandSpec | None = None,
    windows: WindowSpec | None = None,
    tmin: float = 0.0,
    stimulus_hz: Sequence[float] = (),
) -> TokenPlan:
    """Resolve bands and windows, and refuse what the signal cannot carry.

    Parameters
    ----------
    sfreq : float
        Samples a second.
    n_samples : int
        Of a trial.
    bands, windows, tmin, stimulus_hz
        As in :class:`~spdtokens.FilterBankCovariances`.
    """
    end = tmin + n_samples / sfreq
    chosen = resolve_windows(windows, tmin, end)
    shortest = min((right - left for left, right in chosen), default=0.0)
    if shortest <= 0:
        raise SignalError(f"windows must be one or more, each ending after it begins: {windows!r}.")
    if bands is None:
        bands = default_bands(DEFAULT, sfreq, shortest)
    elif isinstance(bands, str) and bands == "ssvep":
        # Made for the data by us: what the rate cannot carry is left out.
        bands = default_bands(bands, sfreq, shortest, stimulus_hz)
    resolved = resolve_bands(bands, stimulus_hz, shortest)
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
                "or a shrinkage estimator such as estimator='oas'."
            )
