"""The trials of files, and a data set made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.cutting import Cutting, refuse_one_class
from spdtokens.datasets.joining import Head, agree, agree_times, conformed


@dataclass(frozen=True)
class Piece:
    """The trials of one file.

    Attributes
    ----------
    X : ndarray of float, shape (n, channels, samples), or (n, d, d) for covariance matrices
    head : Head
    labels : ndarray of str, shape (n,), or None
        Empty for trials that are not asked for. None if the file has no labels.
    classes : tuple of str
        Names of the classes in the order of the file, where it tells them.
    run, group : ndarray, shape (n,), or None
        See :class:`~spdtokens.datasets.base.Recording`.
    about : mapping of str to ndarray, shape (n, ...)
        Whatever else the file tells of each trial.
    filtered : pair of float or None
        High-pass and low-pass in Hz that the file tells of.
    dropped : int
        Trials at an end of the recording, or marked as bad.
    """

    X: NDArray[Any]
    head: Head
    labels: NDArray[np.str_] | None = None
    classes: tuple[str, ...] = ()
    run: NDArray[np.str_] | None = None
    group: NDArray[np.int64] | None = None
    about: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    filtered: tuple[float | None, float | None] = (None, None)
    dropped: int = 0


def from_pieces(
    name: str,
    description: str,
    seen: Mapping[Path, Piece],
    places: Mapping[Path, tuple[str, str, str]],
    read: Callable[[Path], Piece],
    cutting: Cutting,
) -> Dataset:
    """Files as a data set.

    Parameters
    ----------
    name, description : str
    seen : mapping of Path to Piece
        What is known of every file; signals may be missing.
    places : mapping of Path to tuple of str
        Subject, session and run of every file.
    read : callable
        The piece of a file, with signals.
    cutting : Cutting

    Raises
    ------
    DataError
        If files differ in what must be alike, or all trials are of one class.
    """
    heads = {file.name: piece.head for file, piece in seen.items()}
    to = agree_times(heads, agree(heads, cutting.channels, cutting.resample))
    classes = _classes(seen.values(), cutting)
    refuse_one_class(classes, description)
    index: dict[str, tuple[str, ...]] = {}
    for subject, session, _ in places.values():
        index[subject] = tuple(dict.fromkeys((*index.get(subject, ()), session)))

    def recording(subject: str, session: str) -> Recording:
        mine = [file for file, place in places.items() if place[:2] == (subject, session)]
        parts = [(places[file][2], read(file)) for file in mine]
        return _recording(subject, session, parts, classes, to)

    dropped = sum(piece.dropped for piece in seen.values())
    note = f"; {dropped} events at its ends or marked as bad left out" if dropped else ""
    first = next(iter(seen.values()))
    return Dataset(
        name=name,
        description=description + note,
        paradigm="other",
        classes=classes,
        ch_names=to.ch_names,
        sfreq=to.sfreq,
        tmin=to.tmin,
        window=(to.tmin, to.tmin + to.n_samples / to.sfreq)
        if to.sfreq is not None and to.n_samples is not None
        else (0.0, 0.0),
        index=index,
        read=recording,
        filtered=first.filtered,
        is_covariance=to.sfreq is None,
        unit_in_volts=to.unit_in_volts,
    )


def _recording(
    subject: str,
    session: str,
    parts: Sequence[tuple[str, Piece]],
    classes: tuple[str, ...],
    to: Head,
) -> Recording:
    """The trials of a session, which may be in several files."""
    X, y, runs = [], [], []
    groups: list[NDArray[np.int64]] = []
    abouts: list[dict[str, NDArray[Any]]] = []
    for name, piece in parts:
        assert piece.labels is not None
        kept = piece.labels != ""
        signals, about = conformed(piece.X, piece.about, piece.head, to)
        X.append(signals if kept.all() else signals[kept])
        abouts.append({key: values[kept] for key, values in about.items()})
        y.append(np.array([classes.index(label) for label in piece.labels[kept]], dtype=np.int64))
        run = np.full(len(kept), name) if piece.run is None else piece.run
        if piece.run is not None and len(parts) > 1:
            run = np.array([f"{name}/{inner}" for inner in piece.run])
        runs.append(run[kept])
        group = (np.arange(len(kept)) if piece.group is None else piece.group)[kept]
        if len(parts) > 1:  # a group is one of its file
            group = np.unique(group, return_inverse=True)[1] + sum(len(g) for g in groups)
        groups.append(group)
    known = [key for key in abouts[0] if all(key in about for about in abouts)]
    return Recording(
        subject,
        session,
        X[0] if len(X) == 1 else np.concatenate(X),
        np.concatenate(y),
        np.concatenate(runs),
        np.concatenate(groups),
        {key: np.concatenate([about[key] for about in abouts]) for key in known},
    )


def _classes(pieces: Collection[Piece], cutting: Cutting) -> tuple[str, ...]:
    """Names that occur: in the order of the files where they tell it, else sorted."""
    if cutting.events is not None:
        return tuple(cutting.events)
    labels = {str(label) for piece in pieces if piece.labels is not None for label in piece.labels}
    named = dict.fromkeys(name for piece in pieces for name in piece.classes if name in labels)
    return (*named, *sorted(labels - set(named)))
