"""Data sets and recordings: trials of subjects in sessions, with labels, runs and groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.datasets.units import volts_of
from spdtokens.errors import DataError

Paradigm = Literal["motor imagery", "erp", "ssvep", "other"]
#: Ratio of amplitudes above which two signals are taken to be in different units.
OTHER_UNIT = 50.0


def as_float(X: NDArray[Any], where: str) -> NDArray[Any]:
    """Convert signals to float32 if that is exact for their dtype, else to float64.

    Integers of up to 16 bits and float16 become float32, which halves the memory. Longer integers
    become float64, because float32 has a precision of 24 bits. Filters and covariances are computed
    in float64 in any case.

    Parameters
    ----------
    X : ndarray
        Signals of any dtype.
    where : str
        Source of the signals, for the error message.

    Returns
    -------
    ndarray of float32 or float64
        The signals; not a copy if they have this dtype already.

    Raises
    ------
    DataError
        If ``X`` does not contain integers or floats.
    """
    if X.dtype.kind not in "iuf":
        raise DataError(f"{where}: signals must be integers or floats, got {X.dtype}.")
    narrow = X.dtype.itemsize <= (4 if X.dtype.kind == "f" else 2)
    return X.astype(np.float32 if narrow else np.float64, copy=False)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise a :class:`DataError` that names the file for any error of the library reading it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers, which the user cannot change
            yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}). It may be damaged, "
            "truncated, or not of the format that its name suggests."
        ) from error


@dataclass(frozen=True)
class Recording:
    """Trials of one subject in one session.

    Parameters
    ----------
    subject : str
        Name of the subject.
    session : str
        Name of the session.
    X : ndarray, shape (n_trials, n_channels, n_samples) or (n_trials, n_channels, n_channels)
        Signals, or covariance matrices. Integers and float16 are converted to float32 or float64
        without loss.
    y : ndarray of int, shape (n_trials,)
        Labels, as indices into the ``classes`` of the data set.
    run : ndarray of str, shape (n_trials,)
        Run of the session in which each trial was recorded.
    group : ndarray of int, shape (n_trials,)
        Trials of the same group are segments of one long trial, or overlap in time. A group is
        never split between training and test. Numbers are unique within the recording.
    about : mapping of str to ndarray, shape (n_trials, ...), default={}
        Metadata of the trials. ``onset`` is the first sample of a trial, counted from the beginning
        of its run; it is used to find trials that overlap.

    Raises
    ------
    DataError
        If ``X`` does not have three dimensions or is not numeric, or if another array does not have
        one entry per trial.

    See Also
    --------
    Dataset : Recordings of several subjects and sessions.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.datasets import Recording
    >>> X, y = np.zeros((4, 3, 250)), np.array([0, 1, 0, 1])
    >>> recording = Recording("1", "1", X, y, run=np.full(4, "1"), group=np.arange(4))
    >>> len(recording), recording.X.shape
    (4, (4, 3, 250))
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
                f"{where}: X must have shape (n_trials, n_channels, n_samples), or (n_trials, "
                f"n_channels, n_channels) for covariances, got {self.X.shape}."
            )
        object.__setattr__(self, "X", as_float(self.X, where))
        arrays = {"y": self.y, "run": self.run, "group": self.group, **self.about}
        for name, values in arrays.items():
            if len(values) != n:
                raise DataError(
                    f"{where}: {name!r} must have one entry per trial, {n}, got {len(values)}."
                )

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
    """Concatenate the runs of a session; groups of different runs stay different."""
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
    """Recordings of several subjects and sessions, read on demand.

    Parameters
    ----------
    name : str
        Name of the data set.
    description : str
        One line: what was recorded, and where it comes from.
    paradigm : {'motor imagery', 'erp', 'ssvep', 'other'}
        Paradigm, on which default bands and methods depend.
    classes : tuple of str
        Names of the classes; labels are indices into it.
    ch_names : tuple of str
        Names of the channels.
    sfreq : float or None
        Sampling rate in Hz; None for covariance matrices.
    tmin : float
        Time of the first sample relative to the cue, in seconds.
    window : tuple of float
        Begin and end of the part of a trial to decode, in seconds after the cue. Samples around it
        are used by the filters only.
    index : mapping of str to tuple of str
        Sessions of every subject, in temporal order.
    read : callable
        Function that returns the :class:`Recording` of a subject and a session.
    stimulus_hz : tuple of float, default=()
        Flicker frequencies in Hz (SSVEP).
    filtered : tuple of float or None, default=(None, None)
        Cut-off frequencies in Hz of the high-pass and low-pass filters already applied.
    is_covariance : bool, default=False
        Whether the recordings contain covariance matrices instead of signals.
    unit_in_volts : float or None, default=None
        Unit of the signals in volts (1e-6 for microvolts); None if unknown.

    See Also
    --------
    spdtokens.load_dataset : Load a data set by name or path.
    from_arrays : Make a data set from arrays.
    select : Restrict a data set to some trials, classes or channels.

    Examples
    --------
    >>> from spdtokens import load_dataset
    >>> dataset = load_dataset("sim-ssvep")
    >>> dataset.subjects[:3], dataset.sessions("1")
    (('1', '2', '3'), ('1', '2', '3', '4', '5'))
    >>> recording = dataset.load("1", "2")
    >>> recording.X.shape  # trials, channels, samples
    (25, 8, 1280)
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
        """Names of all subjects, in order."""
        return tuple(self.index)

    def chosen(self, subjects: str | int | Sequence[str | int] = ()) -> tuple[str, ...]:
        """Return the names of some subjects, in the order of the data set.

        Parameters
        ----------
        subjects : str, int, or sequence of these, default=()
            Subjects by name, or by number: 1 is the subject ``'1'`` or ``'001'``. So are ``'1'``
            and ``'001'``, unless a subject has exactly this name. All subjects if empty.

        Returns
        -------
        tuple of str
            Names of the subjects.

        Raises
        ------
        DataError
            If a subject does not exist, or a number stands for several.
        """
        if isinstance(subjects, str | int | np.integer):
            subjects = (subjects,)
        names = {self._name(subject) for subject in subjects}
        return tuple(name for name in self.index if name in names) or self.subjects

    def _name(self, subject: str | int) -> str:
        found = [subject] if isinstance(subject, str) and subject in self.index else []
        if not found and (not isinstance(subject, str) or subject.isdecimal()):
            number = int(subject)
            found = [name for name in self.index if name.isdecimal() and int(name) == number]
        if len(found) == 1:
            return found[0]
        if found:
            names = " or ".join(map(repr, found))
            raise DataError(f"{self.name}: subject {subject} is ambiguous; pass {names} as str.")
        raise DataError(f"{self.name} has no subject {subject!r}. It has: {', '.join(self.index)}.")

    def sessions(self, subject: str | int) -> tuple[str, ...]:
        """Return the sessions of a subject, in temporal order.

        Parameters
        ----------
        subject : str or int
            Subject by name or number.

        Returns
        -------
        tuple of str
            Names of the sessions.
        """
        return self.index[self._name(subject)]

    def load(self, subject: str | int, session: str) -> Recording:
        """Read the trials of one subject in one session.

        Parameters
        ----------
        subject : str or int
            Subject by name or number.
        session : str
            Session by name.

        Returns
        -------
        Recording
            Trials, labels, runs and groups.

        Raises
        ------
        DataError
            If there is no such subject or session, or if its file cannot be read.
        """
        subject = self._name(subject)
        if session not in self.sessions(subject):
            raise DataError(
                f"{self.name}: subject {subject} has no session {session!r}. It has: "
                f"{', '.join(self.sessions(subject))}."
            )
        recording = self.read(subject, session)
        strange = set(np.unique(recording.y)) - set(range(len(self.classes)))
        if strange:
            raise DataError(
                f"{self.name}, subject {subject}, session {session}: labels must be indices into "
                f"the {len(self.classes)} classes, got {sorted(map(int, strange))}."
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
    unit: str | None = None,
) -> Dataset:
    """Make a data set of one subject and session from arrays.

    Parameters
    ----------
    X : array-like, shape (n_trials, n_channels, n_samples) or (n_trials, n_channels, n_channels)
        Signals, or covariance matrices.
    y : array-like, shape (n_trials,)
        Labels of any type.
    sfreq : float or None, default=None
        Sampling rate in Hz; None for covariance matrices.
    ch_names : tuple of str or None, default=None
        Names of the channels; ``'channel 0'``, ``'channel 1'``, ... if None.
    classes : tuple of str or None, default=None
        Names of the sorted labels; the labels themselves if None.
    tmin : float, default=0.0
        Time of the first sample relative to the cue, in seconds.
    run : array-like of shape (n_trials,) or None, default=None
        Run of each trial; one run if None.
    group : array-like of shape (n_trials,) or None, default=None
        Group of each trial; trials of one group are never split between training and test. Every
        trial is a group if None.
    about : mapping of str to array-like or None, default=None
        Metadata of the trials. With ``onset``, the first sample of each trial counted from the
        beginning of its run, trials that overlap are not split either.
    name : str, default='arrays'
        Name of the data set.
    unit : {'V', 'mV', 'uV', 'nV'} or None, default=None
        Unit of the signals, also if ``X`` is their covariances; None if it is unknown. Only the
        preset ``'paper'`` needs it.

    Returns
    -------
    Dataset
        Data set with the subject ``'1'`` and its session ``'1'``.

    Raises
    ------
    DataError
        If the arrays do not have one entry per trial, ``sfreq`` is missing for signals, or the
        unit is not known.

    See Also
    --------
    spdtokens.load_dataset : Load a data set by name or path.
    spdtokens.evaluate : Evaluate methods on arrays directly.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> X = np.random.default_rng(0).standard_normal((6, 3, 500))
    >>> dataset = from_arrays(X, ["left", "right"] * 3, sfreq=250, ch_names=("C3", "Cz", "C4"))
    >>> dataset.classes, dataset.window
    (('left', 'right'), (0.0, 2.0))
    """
    X, y = np.asarray(X), np.asarray(y)
    if y.ndim != 1:
        raise DataError(f"y must have one label per trial, shape (n_trials,), got {y.shape}.")
    labels, coded = np.unique(y, return_inverse=True)
    runs = np.full(len(X), "1") if run is None else np.asarray(run).astype(str)
    groups = np.arange(len(X))
    if group is not None:
        groups = np.unique(np.asarray(group), return_inverse=True)[1]
    more = {key: np.asarray(values) for key, values in (about or {}).items()}
    recording = Recording("1", "1", X, coded.astype(np.int64), runs, groups, more)
    if sfreq is None and X.shape[1] != X.shape[2]:
        raise DataError(
            f"X must be square matrices if sfreq is None, got shape {X.shape}. For signals pass "
            "the sampling rate in Hz, such as sfreq=250."
        )
    return Dataset(
        name=name,
        description="arrays",
        paradigm="other",
        classes=classes or tuple(str(label) for label in labels),
        ch_names=ch_names or tuple(f"channel {i}" for i in range(X.shape[1])),
        sfreq=sfreq,
        tmin=tmin,
        window=(tmin, tmin + X.shape[-1] / sfreq) if sfreq else (0.0, 0.0),
        index={"1": ("1",)},
        read=lambda *_: recording,
        is_covariance=sfreq is None,
        unit_in_volts=volts_of(unit),
    )
