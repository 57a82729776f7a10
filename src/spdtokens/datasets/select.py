"""Select a part of a data set, and bring recordings to common channels, rate and length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._channels import plain_name
from spdtokens.datasets.base import Dataset, Paradigm, Recording, take
from spdtokens.errors import DataError

#: Paradigms by the names accepted in Python, in study files and on the command line.
PARADIGMS: dict[str, Paradigm] = {
    "mi": "motor imagery",
    "motor imagery": "motor imagery",
    "erp": "erp",
    "p300": "erp",
    "ssvep": "ssvep",
    "other": "other",
}
#: Default begin of the window, in seconds after the cue: imagery takes half a second to begin, and
#: the response to flicker a second to settle.
BEGINS: dict[Paradigm, float] = {"motor imagery": 0.5, "ssvep": 1.0}
#: Stands for the channels that all recordings have in common.
COMMON = "common"
#: Relative difference below which sampling rates are the same: clocks are not more accurate.
SAME_RATE = 1e-3
#: Trials that are longer by at most this number of samples are cut at the end.
LONGER = 2


def get_paradigm(name: str) -> Paradigm:
    """Return the paradigm of a name, such as ``'mi'`` or ``'P300'``; case is ignored."""
    if name.lower() not in PARADIGMS:
        raise DataError(f"paradigm must be one of {', '.join(PARADIGMS)}, got {name!r}.")
    return PARADIGMS[name.lower()]


@dataclass(frozen=True)
class Selection:
    """Part of a data set to use, and properties that the data set does not state itself.

    Parameters
    ----------
    paradigm : {'mi', 'erp', 'ssvep', 'other'} or None, default=None
        Paradigm; that of the data set if None.
    stimulus_hz : tuple of float, default=()
        Flicker frequencies in Hz (SSVEP); those of the data set if empty.
    window : tuple of float or None, default=None
        Begin and end of the part to decode, in seconds after the cue. If None, the window of the
        data set; if that is the whole trial, it begins at 0.5 s for motor imagery and at 1 s for
        SSVEP.
    classes : tuple of str, default=()
        Classes to keep, in this order; all if empty.
    where : mapping of str to str, or tuple of pairs, default=()
        Keep trials whose metadata have these values, such as ``{"imagined": "1"}``. Stored as
        pairs.
    channels : tuple of str, default=()
        Channels to keep, in this order, or ``'common'`` for those that all recordings have; all if
        empty.
    resample : float or None, default=None
        New sampling rate in Hz, at most that of the recordings; not resampled if None.

    Raises
    ------
    DataError
        If ``classes``, ``where`` or ``channels`` is a single string, or a channel is named twice.

    See Also
    --------
    select : Apply a selection.

    Examples
    --------
    >>> from spdtokens.datasets import Selection
    >>> selection = Selection(classes=("left hand", "feet"), where={"run": "1"})
    >>> selection.values()
    {'classes': ('left hand', 'feet'), 'where': {'run': '1'}}
    """

    paradigm: str | None = None
    stimulus_hz: tuple[float, ...] = ()
    window: tuple[float, float] | None = None
    classes: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] | Mapping[str, str] = ()
    channels: tuple[str, ...] = ()
    resample: float | None = None

    def __post_init__(self) -> None:
        """Convert lists and mappings to tuples, which can be hashed."""
        for name, example in (("where", '{"imagined": "1"}'), ("classes", '("left", "right")')):
            if isinstance(value := getattr(self, name), str):
                raise DataError(f"{name} must be like {name}={example}, got {value!r}.")
        for name in ("stimulus_hz", "window", "classes"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        pairs = tuple((str(name), str(value)) for name, value in dict(self.where).items())
        object.__setattr__(self, "where", pairs)
        object.__setattr__(self, "channels", channel_names(self.channels))

    def values(self) -> dict[str, Any]:
        """Return the parameters that are not the default.

        Returns
        -------
        dict
            Values by name, which JSON can represent; ``Selection(**values)`` restores the
            selection.
        """
        values = {name: value for name, value in asdict(self).items() if value}
        return values | ({"where": dict(self.where)} if self.where else {})


def select(dataset: Dataset, selection: Selection) -> Dataset:
    """Apply a selection to a data set.

    Parameters
    ----------
    dataset : Dataset
        Data set, which is not changed.
    selection : Selection
        Part to keep.

    Returns
    -------
    Dataset
        Data set that reads the selected part.

    Raises
    ------
    DataError
        If the data set has no such class or channel, the window is not within its trials, or the
        flicker frequencies of an SSVEP data set are unknown. Metadata are checked when a recording
        is loaded.

    See Also
    --------
    spdtokens.load_dataset : Takes ``channels`` and ``resample`` directly.

    Examples
    --------
    >>> from spdtokens import load_dataset
    >>> from spdtokens.datasets import Selection, select
    >>> hands = Selection(classes=("left hand", "right hand"), window=(1.0, 3.0))
    >>> dataset = select(load_dataset("sim-mi"), hands)
    >>> dataset.classes, dataset.window
    (('left hand', 'right hand'), (1.0, 3.0))
    """
    paradigm = get_paradigm(selection.paradigm) if selection.paradigm else dataset.paradigm
    if selection.stimulus_hz and paradigm != "ssvep":
        raise DataError(
            f"stimulus_hz applies to SSVEP, but the paradigm of {dataset.name} is {paradigm}. Pass "
            "--paradigm ssvep (paradigm='ssvep' in Python), or omit stimulus_hz."
        )
    frequencies = selection.stimulus_hz or dataset.stimulus_hz
    if paradigm == "ssvep" and not frequencies and not dataset.is_covariance:
        raise DataError(
            f"{dataset.name}: the flicker frequencies are unknown. Pass them, such as "
            "--stimulus-hz 13,17,21 (stimulus_hz in Python and in study files)."
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
            f"window must have {dataset.tmin:g} <= begin < end (seconds after the cue; trials of "
            f"{dataset.name} begin at {dataset.tmin:g}), got {begin:g} to {end:g}."
        )
    return (begin, end)


def later_window(
    window: tuple[float, float], tmin: float, paradigm: Paradigm
) -> tuple[float, float]:
    """Let a window that is the whole trial begin when the response of the paradigm does."""
    begin, end = window
    start = BEGINS.get(paradigm)
    if start is None or begin > tmin or begin >= start or end - start < 1.0:
        return window
    return (start, end)


def _codes(dataset: Dataset, classes: Sequence[str]) -> list[int]:
    """Indices of the chosen classes; of all if none is named."""
    for name in classes:
        if name not in dataset.classes:
            near = get_close_matches(name, dataset.classes, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DataError(
                f"{dataset.name} has no class {name!r}.{hint} It has: {', '.join(dataset.classes)}."
            )
    if len(set(classes)) == 1 or len(set(classes)) < len(classes):
        raise DataError(f"classes must be two or more, all different, got {', '.join(classes)}.")
    return [dataset.classes.index(name) for name in classes or dataset.classes]


def _holds(recording: Recording, where: Mapping[str, str]) -> NDArray[np.bool_]:
    """Trials whose metadata have all values."""
    known = {"run": recording.run, **recording.about}
    kept = np.ones(len(recording), bool)
    for name, value in where.items():
        texts = known[name].astype(str) if name in known else np.array([], str)
        if value not in texts:
            problem = f"trials have no metadata {name!r}. They have: {', '.join(known)}"
            if name in known:
                there = ", ".join(np.unique(texts)[:10])
                problem = f"no trial has {name}={value}. Values of {name}: {there}"
            raise DataError(f"Subject {recording.subject}, session {recording.session}: {problem}.")
        kept &= texts == value
    return kept


@dataclass(frozen=True)
class Head:
    """Properties that files must have in common to be used together, from their headers.

    Attributes
    ----------
    ch_names : tuple of str
        Names of the channels.
    sfreq : float or None
        Sampling rate in Hz; None for covariance matrices.
    tmin : float
        Time of the first sample relative to the cue, in seconds.
    n_samples : int or None
        Samples per trial; None if unknown before the signals are read.
    unit_in_volts : float or None
        Unit of the signals in volts; None if unknown.
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
    """Return channel names as a tuple; refuse duplicates and any string except ``'common'``."""
    if isinstance(channels, str):
        if channels != COMMON:
            raise DataError(
                f'channels must be like channels=("C3", "C4") or channels={COMMON!r}, got '
                f"{channels!r}."
            )
        return (channels,)
    names = tuple(str(name) for name in channels)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"channels must be different, got {twice[0]!r} twice.")
    return names


def _lookup(there: Sequence[str]) -> Callable[[str], str | None]:
    """Return a function that finds a channel by its exact name, else by its normalised name."""
    exact, plain = set(there), {plain_name(name): name for name in there}
    return lambda name: name if name in exact else plain.get(plain_name(name))


def pick_channels(there: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """Find channels of a file by name.

    Names are compared exactly, then without case, spaces, dots, a prefix EEG and the reference:
    ``EEG C3-REF`` is ``C3``.

    Parameters
    ----------
    there : sequence of str
        Channels of the file.
    wanted : sequence of str
        Channels to find.
    where : str
        Name of the file, for the error message.

    Returns
    -------
    list of str
        For each wanted channel its name in the file.

    Raises
    ------
    DataError
        If channels are missing.
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
    """Find channels, sampling rate and trial length that recordings can be brought to.

    Parameters
    ----------
    heads : mapping of str to Head
        Properties of the files, by name. Channels are spelled and ordered as in the first.
    channels : tuple of str, default=()
        Channels to keep, in this order; ``('common',)`` for those that all files have. If empty,
        all files must have the same channels, in any order.
    resample : float or None, default=None
        Sampling rate in Hz. If None, all files must have the same.

    Returns
    -------
    Head
        Properties that :func:`conformed` brings trials to.

    Raises
    ------
    DataError
        If files differ: all differences, by file, and remedies.
    """
    first = next(iter(heads.values()))
    if len({head.sfreq is None for head in heads.values()}) > 1:
        kinds = _grouped(heads, lambda head: "covariances" if head.sfreq is None else "signals")
        raise DataError(f"Signals and covariances cannot be used together. {kinds}.")
    problems: list[str] = []
    ch_names = _agreed_channels(heads, channels, problems)
    sfreq = _agreed_rate(heads, resample, problems)
    if problems:
        raise DataError("\n".join(["The recordings differ.", *problems]))
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
            f"Use the {len(shared)} channels that all files have: --channels common (in Python and "
            f'study files: channels="common"); or name some: --channels {",".join(shared[:3])}.'
        )
    elif named:
        remedy = "No channel is in all files: remove some files."
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
                f"resample must be above 0 Hz and at most {lowest:g} Hz, the rate of {slowest}, "
                f"got {resample:g}. Use --resample {lowest:g}, or less."
            )
        return first if _same(first, resample) else resample
    if not all(_same(rate, first) for rate in rates.values()):
        problems += [
            f"{_grouped(heads, lambda head: f'{head.sfreq:g} Hz')}.",
            f"Resample them to one rate: --resample {lowest:g} (in Python and study files: "
            f"resample={lowest:g}).",
        ]
    return first


def _agreed_length(heads: Mapping[str, Head], sfreq: float) -> int:
    """Samples of the shortest trials; all must begin at the same time and be about as long."""
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
            f"Cut all to the same interval: spdtokens train --tmin {begin:g} --tmax {end:g}, or in "
            f"Python load_dataset(path, tmin={begin:g}, tmax={end:g})."
        )
        if begin >= end:
            remedy = "The intervals do not overlap: remove some files."
        raise DataError(f"Trials cover different intervals. {spans}. {remedy}")
    return min(lengths)


def conformed(
    X: NDArray[Any], about: Mapping[str, NDArray[Any]], head: Head, to: Head
) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Bring trials to other channels, unit, sampling rate and length.

    Parameters
    ----------
    X : ndarray, shape (n_trials, n_channels, n_samples) or (n_trials, n_channels, n_channels)
        Signals, or covariance matrices.
    about : mapping of str to ndarray
        Metadata of the trials; ``onset`` is converted to the new rate.
    head : Head
        Properties of the trials.
    to : Head
        Properties to bring them to, see :func:`agree`.

    Returns
    -------
    X : ndarray
        Converted trials.
    about : dict of str to ndarray
        Converted metadata.
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
    """Resample trials, each by itself, to another rate in Hz."""
    from scipy.signal import resample_poly  # slow to import, and rarely needed

    ratio = Fraction(wanted / sfreq).limit_denominator(1000)
    # The gain of SciPy's filter varies by 1e-4 between samples: a large offset would get a ripple.
    offset = X.mean(-1, keepdims=True)
    found = resample_poly(X - offset, ratio.numerator, ratio.denominator, axis=-1, padtype="line")
    return np.asarray(found + offset)


def _length(head: Head, sfreq: float) -> int:
    """Samples of a trial at a rate, rounded down so that adjacent trials do not overlap."""
    assert head.sfreq is not None
    assert head.n_samples is not None
    if _same(head.sfreq, sfreq):
        return head.n_samples
    return int(head.n_samples * sfreq / head.sfreq + 1e-6)


def _same(rate: float, other: float) -> bool:
    return abs(rate / other - 1) <= SAME_RATE


def _grouped(heads: Mapping[str, Head], what: Callable[[Head], str]) -> str:
    """Group files by a property: ``'100 Hz: a.edf, b.edf; 50 Hz: c.edf'``."""
    groups: dict[str, list[str]] = {}
    for where, head in heads.items():
        groups.setdefault(what(head), []).append(where)
    return "; ".join(f"{text}: {_listed(files, 3)}" for text, files in groups.items())


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
