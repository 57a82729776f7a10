"""What a data set is: trials of subjects in sessions, with everything needed to split them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.errors import DataError

Paradigm = Literal["motor imagery", "erp", "ssvep", "other"]
#: Signals so many times larger or smaller than others are in another unit.
OTHER_UNIT = 50.0


def as_float(X: NDArray[Any], where: str) -> NDArray[Any]:
    """Convert signals to float32 or float64, whichever holds every value of their dtype.

    Integers of up to 16 bits and float16 become float32: exact, at half the memory of float64.
    Longer integers become float64, as float32 has 24 bits. float32 and float64 are returned as
    they are. Filters and covariances are computed in float64 in any case.

    Parameters
    ----------
    X : ndarray
    where : str
        Named in the message.

    Raises
    ------
    DataError
        If ``X`` is not an array of real numbers.
    """
    if X.dtype.kind not in "iuf":
        raise DataError(f"{where}: signals must be integers or floats, got {X.dtype}.")
    narrow = X.dtype.itemsize <= (4 if X.dtype.kind == "f" else 2)
    return X.astype(np.float32 if narrow else np.float64, copy=False)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into a :class:`DataError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers, which users cannot change
            yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}). It may be damaged, cut "
            "short, or of another format than its name says."
        ) from error


@dataclass(frozen=True)
class Recording:
    """The trials of one subject in one session.

    Attributes
    ----------
    subject, session : str
    X : ndarray of float, shape (n, channels, samples), or (n, d, d) for covariance matrices
        Any other dtype is converted by :func:`as_float`.
    y : ndarray of int, shape (n,)
        Indices into the data set's ``classes``.
    run : ndarray of str, shape (n,)
        Part of the session in which a trial was recorded.
    group : ndarray of int, shape (n,)
        Trials with the same number are segments of one long trial, or overlap in time, and must
        never be split between training and test. Unique within the recording.
    about : mapping of str to ndarray, shape (n, ...)
        Whatever else is known of each trial. ``onset`` is the sample of its run at which a trial
        begins: two trials of one run that share samples overlap.
    """

    subject: str
    session: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    run: NDArray[np.str_]
    group: NDArray[np.int64]
    about: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.X)
        where = f"Subject {self.subject}, session {self.session}"
        if self.X.ndim != 3:
            raise DataError(
                f"{where}: expected trials (n, channels, samples) or covariances (n, d, d), got an "
                f"array of shape {self.X.shape}."
            )
        object.__setattr__(self, "X", as_float(self.X, where))
        told = {"y": self.y, "run": self.run, "group": self.group, **self.about}
        for name, values in told.items():
            if len(values) != n:
                raise DataError(f"{where}: {n} trials but {len(values)} entries in {name!r}.")

    def __len__(self) -> int:
        return len(self.X)


def take(recording: Recording, kept: NDArray[np.bool_]) -> Recording:
    """Keep some trials of a recording."""
    if kept.all():
        return recording
    arrays: dict[str, Any] = {
        name: getattr(recording, name)[kept] for name in ("X", "y", "run", "group")
    }
    arrays["about"] = {name: values[kept] for name, values in recording.about.items()}
    return replace(recording, **arrays)


def join(parts: Sequence[Recording]) -> Recording:
    """Join the runs of a session; groups are those of their run."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *map(len, parts)])
    groups = [np.unique(part.group, return_inverse=True)[1] for part in parts]
    known = [name for name in parts[0].about if all(name in part.about for part in parts)]
    return replace(
        parts[0],
        X=np.concatenate([part.X for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        run=np.concatenate([part.run for part in parts]),
        group=np.concatenate([group + n for group, n in zip(groups, before, strict=False)]),
        about={name: np.concatenate([part.about[name] for part in parts]) for name in known},
    )


@dataclass(frozen=True)
class Dataset:
    """A data set whose recordings are read, or made, when they are asked for.

    Attributes
    ----------
    name : str
    description : str
        One line: what was recorded, where it comes from.
    paradigm : {'motor imagery', 'erp', 'ssvep', 'other'}
    classes : tuple of str
        Names of the labels.
    ch_names : tuple of str
    sfreq : float or None
        Samples a second; None for covariance matrices.
    tmin : float
        Seconds from the cue to the first sample.
    window : tuple of float
        From and to, in seconds after the cue: the part of a trial to decode. What lies around it
        is there for the filters.
    index : mapping of str to tuple of str
        Sessions of every subject, in order of time.
    read : callable
        From subject and session to a :class:`Recording`.
    stimulus_hz : tuple of float
        For SSVEP: the flicker frequencies in Hz.
    filtered : tuple of float or None
        High-pass and low-pass, in Hz, already applied to the trials; None where not.
    is_covariance : bool
        Whether recordings hold covariance matrices instead of signals.
    unit_in_volts : float or None
        What one unit of the signal is in volts (1e-6 for microvolts); None if not calibrated.
    """

    name: str
    description: str
    paradigm: Paradigm
    classes: tuple[str, ...]
    ch_names: tuple[str, ...]
    sfreq: float | None
    tmin: float
    window: tuple[float, float]
    index: Mapping[str, tuple[str, ...]]
    read: Callable[[str, str], Recording]
    stimulus_hz: tuple[float, ...] = ()
    filtered: tuple[float | None, float | None] = (None, None)
    is_covariance: bool = False
    unit_in_volts: float | None = None

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects, in order."""
        return tuple(self.index)

    def chosen(self, subjects: str | int | Sequence[str | int] = ()) -> tuple[str, ...]:
        """Names of some subjects, in the order of the data set; of all if none is given.

        Parameters
        ----------
        subjects : str, int, or sequence of these
            Names. A whole number is the subject whose name is that number: 1 is ``'1'`` or
            ``'001'``.
        """
        if isinstance(subjects, str | int | np.integer):
            subjects = (subjects,)
        names = {self._name(subject) for subject in subjects}
        return tuple(name for name in self.index if name in names) or self.subjects

    def _name(self, subject: str | int) -> str:
        if isinstance(subject, str):
            found = [subject] if subject in self.index else []
        else:
            found = [name for name in self.index if name.isdecimal() and int(name) == subject]
        if len(found) == 1:
            return found[0]
        if found:
            names = " or ".join(map(repr, found))
            raise DataError(f"{self.name}: subject {subject} is ambiguous. Write {names}, as text.")
        raise DataError(f"{self.name} has no subject {subject!r}. It has: {', '.join(self.index)}.")

    def sessions(self, subject: str | int) -> tuple[str, ...]:
        """Sessions of a subject, in order of time."""
        return self.index[self._name(subject)]

    def load(self, subject: str | int, session: str) -> Recording:
        """Trials of one subject in one session."""
        subject = self._name(subject)
        if session not in self.sessions(subject):
            raise DataError(
                f"{self.name}: subject {subject} has no session {session!r}. There are: "
                f"{', '.join(self.sessions(subject))}."
            )
        recording = self.read(subject, session)
        strange = set(np.unique(recording.y)) - set(range(len(self.classes)))
        if strange:
            raise DataError(
                f"{self.name}, subject {subject}, session {session}: labels {sorted(strange)} are "
                f"not among the {len(self.classes)} classes."
            )
        return recording


def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sfreq: float | None = None,
    ch_names: tuple[str, ...] | None = None,
    classes: tuple[str, ...] | None = None,
    tmin: float = 0.0,
    run: ArrayLike | None = None,
    group: ArrayLike | None = None,
    about: Mapping[str, ArrayLike] | None = None,
    name: str = "arrays",
) -> Dataset:
    """Make a data set of one recording from arrays.

    Parameters
    ----------
    X : array, shape (n, channels, samples), or (n, d, d) for covariances
    y : array, shape (n,)
        Labels of any kind.
    sfreq : float, optional
        Samples per second; None for covariances.
    ch_names, classes : tuple of str, optional
        Names of channels, and of the sorted labels.
    tmin : float
        Seconds from the cue to the first sample.
    run, group : array, shape (n,), optional
        Values of any kind, see :class:`~spdtokens.datasets.base.Recording`: trials of one group are
        never split between training and test.
    about : mapping of str to array, shape (n, ...), optional
        Whatever else is known of each trial. ``onset``, the sample of its run at which a trial
        begins, keeps trials that overlap from standing in both training and test.
    name : str

    Raises
    ------
    DataError
        For arrays that are not trials and their labels.
    """
    X, y = np.asarray(X), np.asarray(y)
    if y.ndim != 1:
        raise DataError(f"y must be one label per trial, of shape (n,), got shape {y.shape}.")
    labels, coded = np.unique(y, return_inverse=True)
    runs = np.full(len(X), "1") if run is None else np.asarray(run).astype(str)
    groups = np.arange(len(X))
    if group is not None:
        groups = np.unique(np.asarray(group), return_inverse=True)[1]
    more = {key: np.asarray(values) for key, values in (about or {}).items()}
    recording = Recording("1", "1", X, coded.astype(np.int64), runs, groups, more)
    if sfreq is None and X.shape[1] != X.shape[2]:
        raise DataError(
            f"X of shape {X.shape} holds signals: pass sfreq, the samples per second, such as "
            "sfreq=250."
        )
    return Dataset(
        name=name,
        description="arrays given in Python",
        paradigm="other",
        classes=classes or tuple(str(label) for label in labels),
        ch_names=ch_names or tuple(f"channel {i}" for i in range(X.shape[1])),
        sfreq=sfreq,
        tmin=tmin,
        window=(tmin, tmin + X.shape[-1] / sfreq) if sfreq else (0.0, 0.0),
        index={"1": ("1",)},
        read=lambda *_: recording,
        is_covariance=sfreq is None,
    )
