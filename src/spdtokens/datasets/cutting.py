"""What to take out of recordings: which events, which part of the signal, which channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spdtokens.errors import DataError

#: Annotations that mark no trials.
NO_TRIALS = ("bad", "edge", "boundary", "new segment", "start", "stop", "rest ")
#: Trials of an event, at least, for it to be taken as a class without being named.
LEAST = 5
#: Kinds of events, at most, that are taken as classes without being named.
MOST = 8
#: Stands for the channels that all recordings have.
COMMON = "common"


@dataclass(frozen=True)
class Cutting:
    """How trials are cut out of recordings.

    Attributes
    ----------
    events : mapping of str to str, or None
        Class to event: the text of an annotation, or the number of a trigger. None for all kinds
        of events that occur often enough.
    tmin, tmax : float, or None
        From and to in seconds after the event. None for the whole epoch, or as long as the
        annotations last.
    label_from : str or None
        Where labels are: ``'annotations'`` or the name of a trigger channel of a recording, a
        column of the metadata of epochs, an array of an ``.npz`` file. None for what is usual.
    channels : tuple of str
        Only these, in this order; ``'common'`` for the EEG channels that all recordings have. If
        empty, all EEG channels, which must then be the same in all.
    resample : float, optional
        Rate in Hz that trials are brought to, at most that of the recordings. Default: theirs,
        which must then be the same in all.
    """

    events: Mapping[str, str] | None = None
    tmin: float | None = None
    tmax: float | None = None
    label_from: str | None = None
    channels: tuple[str, ...] = ()
    resample: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", channel_names(self.channels))
        if self.events is not None and not self.events:
            raise DataError("Events were to be named, and none is.")
        if self.tmin is not None and self.tmax is not None and not self.tmin < self.tmax:
            raise DataError(f"A trial from {self.tmin:g} to {self.tmax:g} s ends before it begins.")


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
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"Channel {twice[0]!r} is named twice.")
    return names


def parse_events(text: str) -> dict[str, str]:
    """``left=769,right=770``, or names alone: ``left,right``.

    Raises
    ------
    DataError
        For anything else.
    """
    found: dict[str, str] = {}
    for part in (part.strip() for part in text.split(",")):
        name, sign, event = (piece.strip() for piece in part.partition("="))
        if not name or (sign and not event) or name in found:
            raise DataError(
                f"Events are CLASS=EVENT with commas between, such as left=769,right=770; not "
                f"{text!r}."
            )
        found[name] = event or name
    return found


def refuse_one_class(classes: Sequence[str], where: str) -> None:
    """Refuse what cannot be told apart from anything.

    Raises
    ------
    DataError
    """
    if len(classes) < 2:
        raise DataError(
            f"{where}: all trials are {', '.join(classes) or 'of no class'}, and it takes two "
            "classes. Look at the labels (y of an .npz file); of recordings, name the events: "
            "spdtokens train --events left=769,right=770."
        )


def chosen_events(counts: Mapping[str, int], cutting: Cutting, where: str) -> dict[str, str]:
    """Class to event, of the events that a recording has.

    Parameters
    ----------
    counts : mapping of str to int
        How often each event occurs.
    cutting : Cutting
    where : str
        The file, for messages.

    Raises
    ------
    DataError
        If an event that is asked for is missing, or if none is and it cannot be told which mark
        trials; with what there is.
    """
    there = ", ".join(f"{name} ({n} x)" for name, n in counts.items()) or "none at all"
    if cutting.events is not None:
        missing = [event for event in cutting.events.values() if event not in counts]
        if missing:
            raise DataError(
                f"{where} has no event {missing[0]!r}. Its events: {there}. Name them as in "
                "--events left=769,right=770 (a class, =, an event of the file)."
            )
        return dict(cutting.events)
    usual = [
        name for name, n in counts.items() if n >= LEAST and not name.lower().startswith(NO_TRIALS)
    ]
    if not 2 <= len(usual) <= MOST:
        raise DataError(
            f"{where}: it cannot be told which events are the classes. Its events: {there}. Say "
            "so: --events left=769,right=770 (a class, =, an event of the file)."
        )
    return {name: name for name in sorted(usual)}


def named_labels(values: NDArray[np.str_], cutting: Cutting, where: str) -> NDArray[np.str_]:
    """Class of each trial whose event is given; empty where it is of none that is asked for.

    Raises
    ------
    DataError
        If an event that is asked for is missing.
    """
    if cutting.events is None:
        return values
    kinds, counts = np.unique(values, return_counts=True)
    there = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    names = {event: name for name, event in chosen_events(there, cutting, where).items()}
    return np.array([names.get(value, "") for value in values])


def part_of(
    cutting: Cutting, tmin: float, sfreq: float, n_samples: int, where: str
) -> tuple[int, int]:
    """First sample of the part of a trial that is asked for, and the one after its last.

    Raises
    ------
    DataError
        If the trial does not hold it.
    """
    first = 0 if cutting.tmin is None else round((cutting.tmin - tmin) * sfreq)
    last = n_samples if cutting.tmax is None else round((cutting.tmax - tmin) * sfreq)
    if not 0 <= first < last <= n_samples:
        raise DataError(
            f"{where}: its trials last from {tmin:g} to {tmin + n_samples / sfreq:g} s, and do not "
            "hold the part that is asked for. Change --tmin and --tmax."
        )
    return first, last
