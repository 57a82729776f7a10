"""Frequency bands: presets, lists, and refusal of what a recording cannot carry."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spdtokens.errors import SignalError


@dataclass(frozen=True)
class Band:
    """Frequencies from ``low`` to ``high`` Hz; None where there is no limit."""

    low: float | None
    high: float | None

    def __str__(self) -> str:
        match self.low, self.high:
            case None, None:
                return "unfiltered"
            case None, high:
                return f"below {high:g} Hz"
            case low, None:
                return f"above {low:g} Hz"
        return f"{self.low:g}-{self.high:g} Hz"


UNFILTERED = Band(None, None)
PRESETS: dict[str, tuple[Band, ...]] = {
    "none": (UNFILTERED,),
    "broadband": (Band(4.0, 40.0),),
    # The paper calls these mu, beta and gamma; by convention they are theta, alpha and beta.
    "paper3": (Band(4.0, 8.0), Band(8.0, 13.0), Band(13.0, 30.0)),
    "filterbank": tuple(Band(float(f), float(f + 4)) for f in range(4, 40, 4)),
}
#: Where nobody asks for bands.
DEFAULT = "broadband"
#: Half the width in Hz of the bands around stimulus frequencies, and the harmonics taken.
STIMULUS_HALF_WIDTH = 0.5
STIMULUS_HARMONICS = (1, 2)
#: Of the bands ``'ssvep'``: Hz at each side of a stimulus frequency and its harmonics (the line,
#: and the line with its surroundings), and the bands in which attention and rest show.
SSVEP_HALF_WIDTHS = (0.25, 1.0)
SSVEP_CONTEXT = (Band(4.0, 8.0), Band(8.0, 13.0), Band(13.0, 30.0), Band(30.0, 45.0))
#: Names of bands that depend on the stimulus frequencies.
OF_STIMULI = ("stimulus", "ssvep")

BandSpec = str | Sequence[tuple[float | None, float | None] | Band]


def stimulus_bands(
    frequencies: Sequence[float],
    *,
    half_width: float = STIMULUS_HALF_WIDTH,
    harmonics: Sequence[int] = STIMULUS_HARMONICS,
) -> tuple[Band, ...]:
    """Narrow bands around each stimulus frequency and its harmonics.

    Parameters
    ----------
    frequencies : sequence of float
        Flicker frequencies in Hz.
    half_width : float
        In Hz, at each side.
    harmonics : sequence of int
        1 is the frequency itself.
    """
    return tuple(
        Band(h * f - half_width, h * f + half_width) for h in harmonics for f in frequencies
    )


def _ssvep_bands(frequencies: Sequence[float], seconds: float) -> tuple[Band, ...]:
    """Bands of two widths around each stimulus frequency and its harmonic, and four wide ones."""
    least = 0.5001 / seconds  # a little wider than the window resolves, whatever rounding does
    widths = dict.fromkeys(max(width, least) for width in SSVEP_HALF_WIDTHS)
    narrow = [stimulus_bands(frequencies, half_width=width) for width in widths]
    return (*(band for bands in narrow for band in bands), *SSVEP_CONTEXT)


def resolve_bands(
    bands: BandSpec, stimulus_hz: Sequence[float] = (), seconds: float = float("inf")
) -> tuple[Band, ...]:
    """Bands of a preset's name, of text such as ``'8-13,13-30'``, or of (low, high) pairs.

    Parameters
    ----------
    bands : str or sequence of pairs
        ``'none'``, ``'broadband'``, ``'paper3'``, ``'filterbank'``, ``'stimulus'``, ``'ssvep'``,
        or edges in Hz: as text, or as pairs with None for no limit.
    stimulus_hz : sequence of float
        Needed by ``'stimulus'`` and ``'ssvep'``.
    seconds : float, optional
        Length of the window, for ``'ssvep'``.
    """
    if isinstance(bands, str):
        if bands in OF_STIMULI:
            if not len(stimulus_hz):
                raise SignalError(
                    f"bands={bands!r} needs the flicker frequencies: pass stimulus_hz=(13, 17, 21)."
                )
            is_narrow = bands == "stimulus"
            return stimulus_bands(stimulus_hz) if is_narrow else _ssvep_bands(stimulus_hz, seconds)
        if bands in PRESETS:
            return PRESETS[bands]
        if not bands[:1].isdigit():
            known = ", ".join([*PRESETS, *OF_STIMULI])
            raise SignalError(
                f"There are no bands {bands!r}. Choose from {known}, or give edges in Hz such as "
                "'8-13,13-30'."
            )
        bands = [part.split("-") for part in bands.split(",")]  # type: ignore[misc]
    if not len(bands):
        raise SignalError("The list of bands is empty; use 'none' for no filtering.")
    return tuple(band if isinstance(band, Band) else _pair(band) for band in bands)


def _pair(pair: Any) -> Band:
    try:
        low, high = (None if x is None else float(x) for x in pair)
    except (TypeError, ValueError):
        low = high = -1.0
    if (low or 0.0) < 0 or (high is not None and not high > (low or 0.0)):
        text = isinstance(pair, list) and all(isinstance(x, str) for x in pair)
        given = "-".join(pair) if text else pair
        raise SignalError(f"A band is (low, high) in Hz with 0 <= low < high, got {given!r}.")
    return Band(low, high)


def cut_bands(
    bands: BandSpec, sfreq: float, seconds: float, stimulus_hz: Sequence[float] = ()
) -> tuple[BandSpec, list[str]]:
    """What a recording can carry of bands that nobody asked for.

    A band that reaches half the sampling rate loses its upper edge: there is nothing above to
    filter away. One of which less is left than the window resolves is left out.

    Parameters
    ----------
    bands : str or sequence of pairs
        As in :func:`resolve_bands`.
    sfreq : float
        Samples per second.
    seconds : float
        Length of the window.
    stimulus_hz : sequence of float
        Needed by ``'stimulus'`` and ``'ssvep'``.

    Returns
    -------
    bands : str or list of pairs
        As given where all of them fit.
    changes : list of str
        What was changed, such as ``'4-40 Hz cut to above 4 Hz'``.

    Raises
    ------
    SignalError
        If nothing is left.
    """
    nyquist = sfreq / 2
    wanted, kept, changes = resolve_bands(bands, stimulus_hz, seconds), [], []
    for band in wanted:
        if band.high is None or band.high < nyquist:
            kept.append(band)
        elif (nyquist - (band.low or 0.0)) * seconds >= 1:
            kept.append(Band(band.low, None))
            changes.append(f"{band} cut to {kept[-1]}")
        else:
            changes.append(f"{band} left out")
    if not kept:
        raise SignalError(
            f"At {sfreq:g} samples per second there is nothing above {nyquist:g} Hz, where all "
            f"default bands lie: {', '.join(map(str, wanted))}. Pass bands below {nyquist:g} Hz."
        )
    if not changes:
        return bands, []
    return [(band.low, band.high) for band in dict.fromkeys(kept)], changes


def default_bands(
    bands: BandSpec, sfreq: float, seconds: float, stimulus_hz: Sequence[float] = ()
) -> BandSpec:
    """Bands of :func:`cut_bands`, with a warning that tells what was changed."""
    kept, changes = cut_bands(bands, sfreq, seconds, stimulus_hz)
    if changes:
        warnings.warn(f"Default bands: {cut_note(changes, sfreq)}.", stacklevel=2)
    return kept


def cut_note(changes: Sequence[str], sfreq: float) -> str:
    """The changes of :func:`cut_bands` in words."""
    return f"{', '.join(changes)} (half the sampling rate is {sfreq / 2:g} Hz)"


def check_band(band: Band, sfreq: float, seconds: float) -> None:
    """Refuse a band that the sampling rate or the length of the window cannot carry.

    Parameters
    ----------
    band : Band
    sfreq : float
        Samples a second.
    seconds : float
        Length of the window from which a covariance is computed.
    """
    nyquist, low, high = sfreq / 2, band.low or 0.0, band.high
    if low >= nyquist or (high is not None and high >= nyquist):
        raise SignalError(
            f"Band {band}: at {sfreq:g} samples per second there is nothing above {nyquist:g} Hz. "
            "Lower the band's edges, or use data with a higher sampling rate."
        )
    if band.low is not None and high is not None and (high - low) * seconds < 1:
        raise SignalError(
            f"Band {band} is {high - low:g} Hz wide, but a window of {seconds:g} s resolves no "
            f"less than {1 / seconds:.2g} Hz. Widen the band or lengthen the window."
        )


# Which bands and windows of a trial become tokens.

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
    if windows is None or (isinstance(windows, str) and windows in WINDOWS):
        parts = WINDOWS[windows or "whole"]
        return tuple((begin + a * (end - begin), begin + b * (end - begin)) for a, b in parts)
    try:
        pairs: Any = windows
        return tuple((float(left), float(right)) for left, right in pairs)
    except (TypeError, ValueError) as error:
        raise SignalError(
            f"windows must be one of {', '.join(WINDOWS)}, or pairs in seconds such as "
            f"[(0.5, 2.5)], got {windows!r}."
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
    """

    bands: tuple[Band, ...]
    windows: tuple[Window, ...]
    slices: tuple[tuple[int, int], ...]

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
    if bands is None or (isinstance(bands, str) and bands == "ssvep"):
        # Made for the data by us: what the rate cannot carry is left out.
        bands = default_bands(bands or DEFAULT, sfreq, shortest, stimulus_hz)
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
    return TokenPlan(resolved, chosen, tuple(slices))


def refuse_short_windows(plan: TokenPlan, n_channels: int) -> None:
    """Refuse windows whose sample covariance is singular."""
    for (start, stop), (left, right) in zip(plan.slices, plan.windows, strict=True):
        if stop - start <= n_channels:
            raise SignalError(
                f"The window {left:g}-{right:g} s has {stop - start} samples for "
                f"{n_channels} channels: such a covariance is singular. Use a longer window, "
                "or a shrinkage estimator such as estimator='oas'."
            )
