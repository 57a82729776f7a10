"""Frequency bands and windows: presets, parsing, and checks against the recording."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spdtokens.errors import SignalError


@dataclass(frozen=True)
class Band:
    """Frequency band from ``low`` to ``high``.

    Parameters
    ----------
    low : float or None
        Lower edge in Hz. None for a low-pass filter.
    high : float or None
        Upper edge in Hz. None for a high-pass filter.

    See Also
    --------
    resolve_bands : Make bands from a name, text or pairs.

    Examples
    --------
    >>> from spdtokens.preprocessing import Band
    >>> str(Band(8, 13))
    '8-13 Hz'
    """

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
#: The default.
DEFAULT = "broadband"
#: Half width in Hz of the bands around stimulus frequencies, and their harmonics.
STIMULUS_HALF_WIDTH = 0.5
STIMULUS_HARMONICS = (1, 2)
#: Bands ``'ssvep'``: half widths in Hz around a stimulus frequency and its harmonic, and wide bands
#: that reflect attention and rest.
SSVEP_HALF_WIDTHS = (0.25, 1.0)
SSVEP_CONTEXT = (Band(4.0, 8.0), Band(8.0, 13.0), Band(13.0, 30.0), Band(30.0, 45.0))
#: Presets that depend on the stimulus frequencies.
OF_STIMULI = ("stimulus", "ssvep")

BandSpec = str | Sequence[tuple[float | None, float | None] | Band]


def stimulus_bands(
    frequencies: Sequence[float],
    *,
    half_width: float = STIMULUS_HALF_WIDTH,
    harmonics: Sequence[int] = STIMULUS_HARMONICS,
) -> tuple[Band, ...]:
    """Make narrow bands around stimulus frequencies and their harmonics.

    Parameters
    ----------
    frequencies : sequence of float
        Stimulus frequencies in Hz.
    half_width : float, default=0.5
        Half the width of a band in Hz.
    harmonics : sequence of int, default=(1, 2)
        Harmonics; 1 is the stimulus frequency itself.

    Returns
    -------
    tuple of Band
        Bands, ordered by harmonic and then by frequency.

    See Also
    --------
    resolve_bands : The preset ``'stimulus'``.

    Examples
    --------
    >>> from spdtokens.preprocessing import stimulus_bands
    >>> [str(band) for band in stimulus_bands((13, 17), harmonics=[1])]
    ['12.5-13.5 Hz', '16.5-17.5 Hz']
    """
    return tuple(
        Band(h * f - half_width, h * f + half_width) for h in harmonics for f in frequencies
    )


def _ssvep_bands(frequencies: Sequence[float], seconds: float) -> tuple[Band, ...]:
    """Bands of two widths around each stimulus frequency and its harmonic, and four wide bands."""
    least = 0.5001 / seconds  # slightly wider than the window resolves, despite rounding
    widths = dict.fromkeys(max(width, least) for width in SSVEP_HALF_WIDTHS)
    narrow = [stimulus_bands(frequencies, half_width=width) for width in widths]
    return (*(band for bands in narrow for band in bands), *SSVEP_CONTEXT)


def resolve_bands(
    bands: BandSpec, stimulus_hz: Sequence[float] = (), seconds: float = float("inf")
) -> tuple[Band, ...]:
    """Make bands from the name of a preset, from text, or from pairs.

    Parameters
    ----------
    bands : str or sequence of pairs
        Preset ``'none'`` (unfiltered), ``'broadband'`` (4-40 Hz), ``'paper3'`` (4-8, 8-13 and
        13-30 Hz), ``'filterbank'`` (nine bands of 4 Hz from 4 to 40 Hz [1]_), ``'stimulus'``
        (narrow bands around the stimulus frequencies) or ``'ssvep'`` (bands of two widths around
        them, and four wide bands); or edges in Hz, as text such as ``'8-13,13-30'`` or as pairs
        ``(low, high)`` with None for no limit.
    stimulus_hz : sequence of float, default=()
        Stimulus frequencies in Hz, required by ``'stimulus'`` and ``'ssvep'``.
    seconds : float, default=inf
        Length of the window in seconds. Bands of ``'ssvep'`` are not narrower than it resolves.

    Returns
    -------
    tuple of Band
        The bands.

    Raises
    ------
    SignalError
        If there is no such preset, an edge is invalid, or the stimulus frequencies are missing.

    See Also
    --------
    spdtokens.FilterBankCovariances : Covariance matrices of these bands.

    References
    ----------
    .. [1] K. K. Ang, Z. Y. Chin, H. Zhang and C. Guan, "Filter bank common spatial pattern (FBCSP)
       in brain-computer interface", IJCNN 2008, 2390-2397. https://doi.org/10.1109/IJCNN.2008.4634130

    Examples
    --------
    >>> from spdtokens.preprocessing import resolve_bands
    >>> [str(band) for band in resolve_bands("8-13,13-30")]
    ['8-13 Hz', '13-30 Hz']
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
        raise SignalError("bands must not be empty; use bands='none' for no filtering.")
    return tuple(band if isinstance(band, Band) else _pair(band) for band in bands)


def _pair(pair: Any) -> Band:
    try:
        low, high = (None if x is None else float(x) for x in pair)
    except (TypeError, ValueError):
        low = high = -1.0
    if (low or 0.0) < 0 or (high is not None and not high > (low or 0.0)):
        text = isinstance(pair, list) and all(isinstance(x, str) for x in pair)
        given = "-".join(pair) if text else pair
        raise SignalError(f"A band must be (low, high) in Hz with 0 <= low < high, got {given!r}.")
    return Band(low, high)


def cut_bands(
    bands: BandSpec, sfreq: float, seconds: float, stimulus_hz: Sequence[float] = ()
) -> tuple[BandSpec, list[str]]:
    """Restrict default bands to what a recording contains.

    A band that reaches the Nyquist frequency loses its upper edge: there is nothing above it to
    remove. A band of which less remains than the window resolves is dropped.

    Parameters
    ----------
    bands : str or sequence of pairs
        As in :func:`resolve_bands`.
    sfreq : float
        Sampling rate in Hz.
    seconds : float
        Length of the window in seconds.
    stimulus_hz : sequence of float, default=()
        Stimulus frequencies in Hz, required by ``'stimulus'`` and ``'ssvep'``.

    Returns
    -------
    bands : str or list of pairs
        The argument if all bands fit, else the remaining pairs.
    changes : list of str
        Changes such as ``'4-40 Hz cut to above 4 Hz'``.

    Raises
    ------
    SignalError
        If no band remains.
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
            f"A sampling rate of {sfreq:g} Hz contains nothing above {nyquist:g} Hz, but all "
            f"default bands are higher: {', '.join(map(str, wanted))}. Pass bands below "
            f"{nyquist:g} Hz."
        )
    if not changes:
        return bands, []
    return [(band.low, band.high) for band in dict.fromkeys(kept)], changes


def default_bands(
    bands: BandSpec, sfreq: float, seconds: float, stimulus_hz: Sequence[float] = ()
) -> BandSpec:
    """Bands of :func:`cut_bands`, with a warning if they were changed."""
    kept, changes = cut_bands(bands, sfreq, seconds, stimulus_hz)
    if changes:
        warnings.warn(f"Default bands: {cut_note(changes, sfreq)}.", stacklevel=2)
    return kept


def cut_note(changes: Sequence[str], sfreq: float) -> str:
    """Describe the changes made by :func:`cut_bands`."""
    return f"{', '.join(changes)} (Nyquist frequency {sfreq / 2:g} Hz)"


def check_band(band: Band, sfreq: float, seconds: float) -> None:
    """Raise an error if the sampling rate or the window length is too small for a band.

    Parameters
    ----------
    band : Band
        The band.
    sfreq : float
        Sampling rate in Hz.
    seconds : float
        Length in seconds of the window from which a covariance is computed.
    """
    nyquist, low, high = sfreq / 2, band.low or 0.0, band.high
    if low >= nyquist or (high is not None and high >= nyquist):
        raise SignalError(
            f"Band {band} exceeds the Nyquist frequency: a sampling rate of {sfreq:g} Hz contains "
            f"nothing above {nyquist:g} Hz. Lower the band's edges, or use data with a higher "
            "sampling rate."
        )
    if band.low is not None and high is not None and (high - low) * seconds < 1:
        raise SignalError(
            f"Band {band} is {high - low:g} Hz wide, but a window of {seconds:g} s resolves only "
            f"{1 / seconds:.2g} Hz. Widen the band or lengthen the window."
        )


# Bands and windows of a trial, each of which becomes a matrix.

Window = tuple[float, float]
#: Windows by name: parts of the whole trial.
WINDOWS: dict[str, tuple[Window, ...]] = {
    "whole": ((0.0, 1.0),),
    # For event-related potentials.
    "nested": ((0.0, 1.0), (0.0, 0.75)),
}
WindowSpec = str | Sequence[Window]


def resolve_windows(windows: WindowSpec | None, begin: float, end: float) -> tuple[Window, ...]:
    """Make windows from a name, relative to a time range, or from pairs.

    Parameters
    ----------
    windows : str or sequence of pairs, or None
        ``'whole'`` (also for None), ``'nested'`` (the whole range and its first three quarters), or
        pairs in seconds.
    begin, end : float
        The range in seconds.

    Returns
    -------
    tuple of pairs
        Start and end of each window in seconds.
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
    """Bands and windows of a trial.

    Attributes
    ----------
    bands : tuple of Band
        Frequency bands.
    windows : tuple of pairs
        Start and end in seconds, on the time axis of the trials.
    slices : tuple of pairs
        The same in samples.
    """

    bands: tuple[Band, ...]
    windows: tuple[Window, ...]
    slices: tuple[tuple[int, int], ...]

    @property
    def names(self) -> list[str]:
        """Name of each matrix, such as ``'8-13 Hz, 0.5-2.5 s'``."""
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
    """Resolve bands and windows, and check them against the trials.

    Parameters
    ----------
    sfreq : float
        Sampling rate in Hz.
    n_samples : int
        Number of samples of a trial.
    bands, windows, tmin, stimulus_hz
        As in :class:`~spdtokens.FilterBankCovariances`.
    """
    end = tmin + n_samples / sfreq
    chosen = resolve_windows(windows, tmin, end)
    shortest = min((right - left for left, right in chosen), default=0.0)
    if shortest <= 0:
        raise SignalError(f"windows must be pairs (start, end) with start < end, got {windows!r}.")
    if bands is None or (isinstance(bands, str) and bands == "ssvep"):
        # Defaults are restricted to what the sampling rate allows.
        bands = default_bands(bands or DEFAULT, sfreq, shortest, stimulus_hz)
    resolved = resolve_bands(bands, stimulus_hz, shortest)
    slices = []
    for left, right in chosen:
        start, stop = (round((t - tmin) * sfreq) for t in (left, right))
        if not 0 <= start < stop <= n_samples:
            raise SignalError(
                f"Window {left:g}-{right:g} s must lie within the trials, {tmin:g} to {end:g} s."
            )
        for band in resolved:
            check_band(band, sfreq, right - left)
        slices.append((start, stop))
    return TokenPlan(resolved, chosen, tuple(slices))


def refuse_short_windows(plan: TokenPlan, n_channels: int) -> None:
    """Raise an error for windows whose sample covariance is singular."""
    for (start, stop), (left, right) in zip(plan.slices, plan.windows, strict=True):
        if stop - start <= n_channels:
            raise SignalError(
                f"Window {left:g}-{right:g} s has {stop - start} samples for {n_channels} "
                "channels: its sample covariance is singular. Use a longer window, or a shrinkage "
                "estimator such as estimator='oas'."
            )
