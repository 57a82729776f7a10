"""What recordings must have in common to be used together, and how they are made to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from spdtokens.datasets.cutting import COMMON
from spdtokens.errors import DataError

#: Rates that differ by less are the same: amplifiers are not more exact.
SAME_RATE = 1e-3
#: Trials may be so many samples longer than those of another file; the end is cut off.
LONGER = 2


@dataclass(frozen=True)
class Head:
    """What files that are used together must have in common. Known without their signals.

    Attributes
    ----------
    ch_names : tuple of str
    sfreq : float or None
        None for covariance matrices.
    tmin : float
        Seconds from the cue to the first sample.
    n_samples : int or None
        None where it is not known before the signals are read.
    unit_in_volts : float or None
    named : bool
        Whether the file names its channels; otherwise they are numbered.
    """

    ch_names: tuple[str, ...]
    sfreq: float | None
    tmin: float = 0.0
    n_samples: int | None = None
    unit_in_volts: float | None = None
    named: bool = True


def pick_channels(there: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """Names of a file's channels for those that are wanted.

    Written alike but for case, spaces, dots and the words EEG and REF: ``EEG C3-REF`` is ``C3``.

    Raises
    ------
    DataError
        With those that are missing, and what there is.
    """
    found = _lookup(there)
    missing = [name for name in wanted if found(name) is None]
    if missing:
        raise DataError(
            f"{where} lacks {len(missing)} of {len(wanted)} channels: {_listed(missing)}. It has: "
            f"{', '.join(there)}."
        )
    return [str(found(name)) for name in wanted]


def plain_name(name: str) -> str:
    """A channel's name without what differs from lab to lab."""
    text = re.sub(r"^EEG[ :_-]+|[-_ ]+(REF|LE|AR|A1|A2|M1|M2)$", "", name.strip().upper())
    return text.strip(" .")


def _lookup(there: Sequence[str]) -> Callable[[str], str | None]:
    """Find a channel by its very name, else by its plain one."""
    exact, plain = set(there), {plain_name(name): name for name in there}
    return lambda name: name if name in exact else plain.get(plain_name(name))


def agree(
    heads: Mapping[str, Head], channels: tuple[str, ...] = (), resample: float | None = None
) -> Head:
    """Find the channels and the rate that recordings are brought to.

    Parameters
    ----------
    heads : mapping of str to Head
        By the names that messages use. Channels are spelled and ordered as in the first.
    channels : tuple of str
        Only these, in this order; ``('common',)`` for those that all have. If empty, all must have
        the same, in any order.
    resample : float, optional
        Rate in Hz. If not given, all must have the same.

    Raises
    ------
    DataError
        With everything that differs, by file, and what to do.
    """
    first = next(iter(heads.values()))
    if len({head.sfreq is None for head in heads.values()}) > 1:
        kinds = _by(heads, lambda head: "covariances" if head.sfreq is None else "signals")
        raise DataError(f"Signals and covariances cannot be used together. {_told(kinds)}.")
    ch_names, other_channels = _agreed_channels(heads, channels)
    sfreq, other_rates = _agreed_rate(heads, resample)
    if other_channels or other_rates:
        raise DataError("\n".join(["Recordings differ.", *other_channels, *other_rates]))
    return replace(first, ch_names=ch_names, sfreq=sfreq)


def _agreed_channels(
    heads: Mapping[str, Head], channels: tuple[str, ...]
) -> tuple[tuple[str, ...], list[str]]:
    """Channels for all, or what is wrong."""
    first = next(iter(heads.values()))
    if channels and channels != (COMMON,):
        for where, head in heads.items():
            pick_channels(head.ch_names, channels, where)
        return tuple(pick_channels(first.ch_names, channels, next(iter(heads)))), []
    lookups = [_lookup(head.ch_names) for head in heads.values()]
    shared = tuple(name for name in first.ch_names if all(found(name) for found in lookups))
    alike = all(len(head.ch_names) == len(shared) for head in heads.values())
    unnamed = {where: head for where, head in heads.items() if not head.named}
    if unnamed and not alike:
        counts = _by(unnamed, lambda head: f"{len(head.ch_names)} channels without names")
        return (), [f"{_told(counts)}. Store ch_names in every file."]
    if alike or (channels and shared):
        return shared, []
    # Most files are right: the others are compared with them.
    groups = _by(heads, lambda head: frozenset(map(plain_name, head.ch_names)))
    usual = max(groups, key=lambda names: len(groups[names]))
    lines = [f"{len(usual)} channels: {_listed(groups[usual], 3)}."]
    usual_names = heads[groups[usual][0]].ch_names
    for names, files in groups.items():
        if names == usual:
            continue
        mine = heads[files[0]].ch_names
        lacks = [name for name in usual_names if _lookup(mine)(name) is None]
        more = [name for name in mine if _lookup(usual_names)(name) is None]
        differing = {"lacks": lacks, "has also": more}
        told = ", ".join(f"{verb} {_listed(which)}" for verb, which in differing.items() if which)
        lines.append(f"{len(mine)} channels: {_listed(files, 3)}; {told}.")
    if shared:
        lines.append(
            f"Use the {len(shared)} channels that all have: --channels common (in Python and study "
            'files: channels="common"); or name some: --channels '
            f"{','.join(shared[:3])}."
        )
    else:
        lines.append("No channel is in all of them: leave files out.")
    return (), lines


def _agreed_rate(
    heads: Mapping[str, Head], resample: float | None
) -> tuple[float | None, list[str]]:
    """Rate for all, or what is wrong."""
    rates = [head.sfreq for head in heads.values() if head.sfreq is not None]
    if not rates:
        if resample is not None:
            where = next(iter(heads))
            raise DataError(f"{where} contains covariance matrices; resample does not apply.")
        return None, []
    lowest = min(rates)
    if resample is not None:
        if not resample > 0:
            raise DataError(f"The rate to resample to must be above 0 Hz, got {resample:g}.")
        if resample > lowest * (1 + SAME_RATE):
            where = next(where for where, head in heads.items() if head.sfreq == lowest)
            raise DataError(
                f"{where} is sampled at {lowest:g} Hz: what was not sampled cannot be restored at "
                f"{resample:g} Hz. Use --resample {lowest:g}, or less."
            )
        return (rates[0] if _same(rates[0], resample) else resample), []
    if all(_same(rate, rates[0]) for rate in rates):
        return rates[0], []
    told = _told(_by(heads, lambda head: f"{head.sfreq:g} Hz"))
    return None, [
        f"{told}.",
        f"Bring all to one rate: --resample {lowest:g} (in Python and study files: "
        f"resample={lowest:g}).",
    ]


def agree_times(heads: Mapping[str, Head], to: Head) -> Head:
    """Find when trials begin and how long they are, at the rate that they are brought to.

    Raises
    ------
    DataError
        If they begin at other times, or differ by more than a few samples.
    """
    if to.sfreq is None:
        return to
    where, first = next(iter(heads.items()))
    lengths = {name: _length(head, to.sfreq) for name, head in heads.items()}
    n = min(lengths.values())
    for name, head in heads.items():
        if abs(head.tmin - first.tmin) * to.sfreq > 0.5 or lengths[name] > n + LONGER:
            spans = {k: (h.tmin, h.tmin + lengths[k] / to.sfreq) for k, h in heads.items()}
            begin, end = max(a for a, _ in spans.values()), min(b for _, b in spans.values())
            shortest = min(lengths, key=lambda k: lengths[k])
            other = name if name != where else shortest
            (a, b), (c, d) = spans[where], spans[other]
            raise DataError(
                f"Trials of {where} last from {a:g} to {b:g} s, those of {other} from {c:g} to "
                f"{d:g} s after the cue. Cut them alike"
                + (f", to {begin:g} to {end:g} s" if begin < end else "")
                + ": with --tmin and --tmax of spdtokens train, or in Python load_dataset(path, "
                "tmin=..., tmax=...)."
            )
    return replace(to, tmin=first.tmin, n_samples=n)


def conformed(
    X: NDArray[Any], about: Mapping[str, NDArray[Any]], head: Head, to: Head
) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Bring trials to channels, a unit, a rate and a length.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples), or (n, d, d)
    about : mapping of str to ndarray
        ``onset`` is counted at the new rate.
    head : Head
        Of these trials.
    to : Head
        See :func:`agree` and :func:`agree_times`.
    """
    rows = [head.ch_names.index(name) for name in pick_channels(head.ch_names, to.ch_names, "It")]
    if rows != list(range(X.shape[1])):
        X = X[:, rows] if to.sfreq is not None else X[:, rows][:, :, rows]
    if head.unit_in_volts and to.unit_in_volts and head.unit_in_volts != to.unit_in_volts:
        factor = head.unit_in_volts / to.unit_in_volts
        X = X * (factor if to.sfreq is not None else factor**2)
    changed = dict(about)
    if head.sfreq is None or to.sfreq is None:
        return X, changed
    n = to.n_samples or _length(replace(head, n_samples=X.shape[-1]), to.sfreq)
    if not _same(head.sfreq, to.sfreq):
        X = resampled(X, head.sfreq, to.sfreq)
        if (onset := about.get("onset")) is not None and onset.dtype.kind in "iu":
            changed["onset"] = np.round(onset * (to.sfreq / head.sfreq)).astype(np.int64)
    return X[..., :n], changed


def resampled(X: NDArray[Any], sfreq: float, wanted: float) -> NDArray[Any]:
    """Trials at another rate in Hz, each by itself."""
    if _same(sfreq, wanted):
        return X
    ratio = Fraction(wanted / sfreq).limit_denominator(1000)
    # The gain of SciPy's filter differs by 1e-4 from sample to sample: a large offset would ripple.
    offset = X.mean(-1, keepdims=True)
    found = resample_poly(X - offset, ratio.numerator, ratio.denominator, axis=-1, padtype="line")
    return np.asarray(found + offset)


def _length(head: Head, sfreq: float) -> int:
    """Samples of a trial at a rate, rounded down so that neighbours do not come to overlap."""
    assert head.sfreq is not None
    assert head.n_samples is not None
    if _same(head.sfreq, sfreq):
        return head.n_samples
    return int(head.n_samples * sfreq / head.sfreq + 1e-6)


def _same(rate: float, other: float) -> bool:
    return abs(rate / other - 1) <= SAME_RATE


def _by(heads: Mapping[str, Head], what: Callable[[Head], Any]) -> dict[Any, list[str]]:
    """Files by what they have."""
    found: dict[Any, list[str]] = {}
    for where, head in heads.items():
        found.setdefault(what(head), []).append(where)
    return found


def _told(groups: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{what}: {_listed(files, 3)}" for what, files in groups.items())


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
