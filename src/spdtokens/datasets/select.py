"""A part of a data set; and what recordings must have in common to be used together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Paradigm, Recording, take
from spdtokens.errors import DataError

#: Paradigms by their names in Python, study files and on the command line.
PARADIGMS: dict[str, Paradigm] = {
    "mi": "motor imagery",
    "motor imagery": "motor imagery",
    "erp": "erp",
    "p300": "erp",
    "ssvep": "ssvep",
    "other": "other",
}
#: Seconds after the cue from which a trial is decoded where nothing else is known: imagery takes
#: half a second to begin, and the response to flicker a second to settle.
BEGINS: dict[Paradigm, float] = {"motor imagery": 0.5, "ssvep": 1.0}
#: Stands for the channels that all recordings have.
COMMON = "common"
#: Rates that differ by less are the same: amplifiers are not more exact.
SAME_RATE = 1e-3
#: Trials may be so many samples longer than those of another file; the end is cut off.
LONGER = 2


def get_paradigm(name: str) -> Paradigm:
    """The paradigm of a name, in any case: ``'mi'``, ``'P300'``.

    Raises
    ------
    DataError
        Listing the names there are.
    """
    if name.lower() not in PARADIGMS:
        raise DataError(f"There is no paradigm {name!r}. There are: {', '.join(PARADIGMS)}.")
    return PARADIGMS[name.lower()]


@dataclass(frozen=True)
class Selection:
    """What the user says about a data set, or wants of it. None leaves the data set's own.

    Attributes
    ----------
    paradigm : {'mi', 'erp', 'ssvep', 'other'}, optional
    stimulus_hz : tuple of float
        Flicker frequencies of SSVEP.
    window : tuple of float, optional
        From and to, in seconds after the cue.
    classes : tuple of str
        Only trials of these, in this order.
    where : mapping of str to str, or tuple of pairs
        Only trials of which the recording says so: ``{"imagined": "1"}``. Kept as pairs.
    channels : tuple of str
        Only these, in this order; ``'common'`` for those that all recordings have.
    resample : float, optional
        Rate in Hz that trials are brought to, at most that of the recordings.
    """

    paradigm: str | None = None
    stimulus_hz: tuple[float, ...] = ()
    window: tuple[float, float] | None = None
    classes: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] | Mapping[str, str] = ()
    channels: tuple[str, ...] = ()
    resample: float | None = None

    def __post_init__(self) -> None:
        """Take lists and mappings too, as files and people write them; keep what can be hashed."""
        for name, example in (("where", '{"imagined": "1"}'), ("classes", '("left", "right")')):
            if isinstance(value := getattr(self, name), str):
                raise DataError(f"{name}={value!r} is one text. Give it like {name}={example}.")
        for name in ("stimulus_hz", "window", "classes"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        pairs = tuple((str(name), str(value)) for name, value in dict(self.where).items())
        object.__setattr__(self, "where", pairs)
        object.__setattr__(self, "channels", channel_names(self.channels))

    def values(self) -> dict[str, Any]:
        """As plain values, without what is left alone."""
        values = {name: value for name, value in asdict(self).items() if value}
        return values | ({"where": dict(self.where)} if self.where else {})


def select(dataset: Dataset, selection: Selection) -> Dataset:
    """Apply a selection.

    Raises
    ------
    DataError
        For a paradigm, window, class or property that does not exist.
    """
    paradigm = get_paradigm(selection.paradigm) if selection.paradigm else dataset.paradigm
    if selection.stimulus_hz and paradigm != "ssvep":
        raise DataError(
            f"Stimulus frequencies were given, but {dataset.name} is taken as {paradigm}. Say that "
            "the paradigm is ssvep, or leave them out."
        )
    frequencies = selection.stimulus_hz or dataset.stimulus_hz
    if paradigm == "ssvep" and not frequencies and not dataset.is_covariance:
        raise DataError(
            f"{dataset.name}: its flicker frequencies are not known. Give them: --stimulus-hz "
            "13,17,21 (stimulus_hz in Python and in study files)."
        )
    head = to = Head(dataset.ch_names, dataset.sfreq)
    if selection.channels or selection.resample is not None:
        to = agree({dataset.name: head}, selection.channels, selection.resample)
    changed = replace(
        dataset,
        paradigm=paradigm,
        stimulus_hz=tuple(frequencies),
        window=_window(dataset, paradigm, selection.window),
        ch_names=to.ch_names,
        sfreq=to.sfreq,
    )
    if not selection.classes and not selection.where and to == head:
        return changed
    codes = _codes(dataset, selection.classes)

    def read(subject: str, session: str) -> Recording:
        recording = dataset.load(subject, session)
        kept = np.isin(recording.y, codes) & _holds(recording, dict(selection.where))
        part = take(recording, kept)
        X, about = conformed(part.X, part.about, head, to)
        y = np.array([codes.index(code) for code in part.y], dtype=np.int64)
        return replace(part, X=X, y=y, about=about)

    return replace(changed, classes=tuple(dataset.classes[i] for i in codes), read=read)


def _window(
    dataset: Dataset, paradigm: Paradigm, asked: tuple[float, float] | None
) -> tuple[float, float]:
    if asked is None:
        return later_window(dataset.window, dataset.tmin, paradigm)
    if dataset.is_covariance:
        raise DataError(f"{dataset.name} contains covariance matrices; window does not apply.")
    begin, end = asked
    if not dataset.tmin <= begin < end:
        raise DataError(
            f"Window {begin:g} to {end:g} s: trials of {dataset.name} begin {dataset.tmin:g} s "
            "after the cue, and a window ends after it begins."
        )
    return (begin, end)


def later_window(
    window: tuple[float, float], tmin: float, paradigm: Paradigm
) -> tuple[float, float]:
    """The window, begun later where it is the whole trial and the paradigm needs a moment."""
    begin, end = window
    start = BEGINS.get(paradigm)
    if start is None or begin > tmin or begin >= start or end - start < 1.0:
        return window
    return (start, end)


def _codes(dataset: Dataset, classes: Sequence[str]) -> list[int]:
    """Numbers of the chosen classes; of all if none is named."""
    for name in classes:
        if name not in dataset.classes:
            near = get_close_matches(name, dataset.classes, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DataError(
                f"{dataset.name} has no class {name!r}.{hint} It has: {', '.join(dataset.classes)}."
            )
    if len(set(classes)) == 1 or len(set(classes)) < len(classes):
        raise DataError(f"Name two or more different classes, not {', '.join(classes)}.")
    return [dataset.classes.index(name) for name in classes or dataset.classes]


def _holds(recording: Recording, where: Mapping[str, str]) -> NDArray[np.bool_]:
    """For which trials all of it is true."""
    known = {"run": recording.run, **recording.about}
    kept = np.ones(len(recording), bool)
    for name, value in where.items():
        texts = known[name].astype(str) if name in known else np.array([], str)
        if value not in texts:
            problem = f"nothing called {name!r} is known of its trials. Known: {', '.join(known)}"
            if name in known:
                there = ", ".join(np.unique(texts)[:10])
                problem = f"no trial has {name} = {value}. There are: {there}"
            raise DataError(f"Subject {recording.subject}, session {recording.session}: {problem}.")
        kept &= texts == value
    return kept


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


def channel_names(channels: str | Sequence[str]) -> tuple[str, ...]:
    """Channels as a tuple; ``'common'`` may be text.

    Raises
    ------
    DataError
        For any other text, and for a channel that is named twice.
    """
    if isinstance(channels, str):
        if channels != COMMON:
            raise DataError(
                f'channels={channels!r} is one text. Give it like channels=("C3", "C4"), or '
                f"channels={COMMON!r}."
            )
        return (channels,)
    names = tuple(str(name) for name in channels)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"Channel {twice[0]!r} is named twice.")
    return names


def plain_name(name: str) -> str:
    """A channel's name without what differs from lab to lab."""
    text = re.sub(r"^EEG[ :_-]+|[-_ ]+(REF|LE|AR|A1|A2|M1|M2)$", "", name.strip().upper())
    return text.strip(" .")


def _lookup(there: Sequence[str]) -> Callable[[str], str | None]:
    """Find a channel by its very name, else by its plain one."""
    exact, plain = set(there), {plain_name(name): name for name in there}
    return lambda name: name if name in exact else plain.get(plain_name(name))


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


def agree(
    heads: Mapping[str, Head], channels: tuple[str, ...] = (), resample: float | None = None
) -> Head:
    """Find the channels, the rate and the length that recordings are brought to.

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
        kinds = _grouped(heads, lambda head: "covariances" if head.sfreq is None else "signals")
        raise DataError(f"Signals and covariances cannot be used together. {kinds}.")
    problems: list[str] = []
    ch_names = _agreed_channels(heads, channels, problems)
    sfreq = _agreed_rate(heads, resample, problems)
    if problems:
        raise DataError("\n".join(["Recordings differ.", *problems]))
    to = replace(first, ch_names=ch_names, sfreq=sfreq)
    if sfreq is None or first.n_samples is None:
        return to
    return replace(to, n_samples=_agreed_length(heads, sfreq))


def _agreed_channels(
    heads: Mapping[str, Head], channels: tuple[str, ...], problems: list[str]
) -> tuple[str, ...]:
    if channels and channels != (COMMON,):
        picked = [pick_channels(head.ch_names, channels, where) for where, head in heads.items()]
        return tuple(picked[0])
    lookups = [_lookup(head.ch_names) for head in heads.values()]
    first = next(iter(heads.values())).ch_names
    shared = tuple(name for name in first if all(found(name) for found in lookups))
    alike = all(len(head.ch_names) == len(shared) for head in heads.values())
    named = all(head.named for head in heads.values())
    if alike or (channels and shared and named):
        return shared

    def difference(head: Head) -> str:
        lacks = [name for name in first if _lookup(head.ch_names)(name) is None]
        more = [name for name in head.ch_names if _lookup(first)(name) is None]
        text = f"{len(head.ch_names)} channels{'' if head.named else ' without names'}"
        text += f", lacks {_listed(lacks)}" if lacks else ""
        return text + (f", has also {_listed(more)}" if more else "")

    remedy = "Store ch_names in every file."
    if named and shared:
        remedy = (
            f"Use the {len(shared)} channels that all have: --channels common (in Python and study "
            f'files: channels="common"); or name some: --channels {",".join(shared[:3])}.'
        )
    elif named:
        remedy = "No channel is in all of them: leave files out."
    problems += [f"{_grouped(heads, difference)}.", remedy]
    return ()


def _agreed_rate(
    heads: Mapping[str, Head], resample: float | None, problems: list[str]
) -> float | None:
    rates = {where: head.sfreq for where, head in heads.items() if head.sfreq is not None}
    if not rates:
        if resample is not None:
            where = next(iter(heads))
            raise DataError(f"{where} contains covariance matrices; resample does not apply.")
        return None
    slowest = min(rates, key=lambda where: rates[where])
    lowest, first = rates[slowest], next(iter(rates.values()))
    if resample is not None:
        if not 0 < resample <= lowest * (1 + SAME_RATE):
            raise DataError(
                f"The rate to resample to must be above 0 Hz and at most {lowest:g} Hz, that of "
                f"{slowest}; got {resample:g}. Use --resample {lowest:g}, or less."
            )
        return first if _same(first, resample) else resample
    if not all(_same(rate, first) for rate in rates.values()):
        problems += [
            f"{_grouped(heads, lambda head: f'{head.sfreq:g} Hz')}.",
            f"Bring all to one rate: --resample {lowest:g} (in Python and study files: "
            f"resample={lowest:g}).",
        ]
    return first


def _agreed_length(heads: Mapping[str, Head], sfreq: float) -> int:
    """Samples of the shortest trials; all must begin at one time, and last about as long."""
    lengths = [_length(head, sfreq) for head in heads.values()]
    begins = [head.tmin for head in heads.values()]
    ends = [tmin + n / sfreq for tmin, n in zip(begins, lengths, strict=True)]
    late = max(abs(tmin - begins[0]) for tmin in begins) * sfreq
    if late > 0.5 or max(lengths) > min(lengths) + LONGER:
        spans = _grouped(
            heads, lambda h: f"{h.tmin:g} to {h.tmin + _length(h, sfreq) / sfreq:g} s after the cue"
        )
        begin, end = max(begins), min(ends)
        remedy = (
            f"Cut them alike: spdtokens train --tmin {begin:g} --tmax {end:g}, or in Python "
            f"load_dataset(path, tmin={begin:g}, tmax={end:g})."
        )
        if begin >= end:
            remedy = "They have no time in common: leave files out."
        raise DataError(f"Trials differ in time. {spans}. {remedy}")
    return min(lengths)


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
        See :func:`agree`.
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
    from scipy.signal import resample_poly  # slow to import, and rarely needed

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


def _grouped(heads: Mapping[str, Head], what: Callable[[Head], str]) -> str:
    """Files by what they have: ``'100 Hz: a.edf, b.edf; 50 Hz: c.edf'``."""
    groups: dict[str, list[str]] = {}
    for where, head in heads.items():
        groups.setdefault(what(head), []).append(where)
    return "; ".join(f"{text}: {_listed(files, 3)}" for text, files in groups.items())


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
