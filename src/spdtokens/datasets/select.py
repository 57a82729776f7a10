"""A part of a data set, or the same trials under another name of their paradigm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Paradigm, Recording
from spdtokens.datasets.cutting import channel_names
from spdtokens.datasets.joining import Head, agree, conformed
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
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
        pairs = tuple((str(name), str(value)) for name, value in dict(self.where).items())
        object.__setattr__(self, "where", pairs)
        object.__setattr__(self, "channels", channel_names(self.channels))

    def values(self) -> dict[str, Any]:
        """As plain values, without what is left alone."""
        values = {name: value for name, value in asdict(self).items() if value}
        return values | ({"where": dict(self.where)} if self.where else {})

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From plain values, as a file or :meth:`values` gives them."""
        return cls(**values)


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
    head = Head(dataset.ch_names, dataset.sfreq)
    to = head
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
        X, about = conformed(recording.X, recording.about, head, to)
        recording = replace(recording, X=X, about=about)
        return _kept(recording, _wanted(recording, codes, dict(selection.where)), codes)

    return replace(changed, classes=tuple(dataset.classes[i] for i in codes), read=read)


def _window(
    dataset: Dataset, paradigm: Paradigm, asked: tuple[float, float] | None
) -> tuple[float, float]:
    if asked is None:
        return later_window(dataset.window, dataset.tmin, paradigm)
    if dataset.is_covariance:
        raise DataError(
            f"A window was given, but {dataset.name} holds covariance matrices, in which time is "
            "gone. Leave it out."
        )
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
    unknown = [name for name in classes if name not in dataset.classes]
    if unknown:
        near = get_close_matches(unknown[0], dataset.classes, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(
            f"{dataset.name} has no class {unknown[0]!r}.{hint} It has: "
            f"{', '.join(dataset.classes)}."
        )
    if len(set(classes)) == 1 or len(set(classes)) < len(classes):
        raise DataError(f"Name two or more different classes, not {', '.join(classes)}.")
    return [dataset.classes.index(name) for name in classes or dataset.classes]


def _wanted(
    recording: Recording, codes: Sequence[int], where: Mapping[str, str]
) -> NDArray[np.bool_]:
    wanted = np.isin(recording.y, codes)
    known = {"run": recording.run, **recording.about}
    for name, value in where.items():
        if name not in known:
            raise DataError(
                f"Subject {recording.subject}, session {recording.session}: nothing called "
                f"{name!r} is known of its trials. Known: {', '.join(known)}."
            )
        found = known[name].astype(str) == str(value)
        if not found.any():
            values = ", ".join(np.unique(known[name].astype(str))[:10])
            raise DataError(
                f"Subject {recording.subject}, session {recording.session}: no trial has {name} = "
                f"{value}. There are: {values}."
            )
        wanted &= found
    return wanted


def _kept(recording: Recording, wanted: NDArray[np.bool_], codes: Sequence[int]) -> Recording:
    new = np.full(max([*codes, *recording.y.tolist()]) + 1, -1)
    new[list(codes)] = range(len(codes))
    return replace(
        recording,
        X=recording.X[wanted],
        y=new[recording.y[wanted]],
        run=recording.run[wanted],
        group=recording.group[wanted],
        about={name: values[wanted] for name, values in recording.about.items()},
    )
