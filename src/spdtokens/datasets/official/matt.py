"""Trials that the authors of MAtt made ready, for all three data sets of the paper.

Their files hold trials (n, channels, samples) and labels that count from zero. Which reference,
filter and unit they have is not told in them. How fast they were sampled follows from the length
of a trial where that is known; for BCI 2a it must be chosen, see :mod:`.bci2a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.official._places import matching
from spdtokens.datasets.official._reading import expect, labels_from, mat_shapes, read_mat

BCI2A = r"BCIC_S(0[1-9])_([TE])\.mat"
BCICHA = r"Data_S(\d\d)_Sess\.mat"
MAMEM = r"U(\d{3})\.mat"
CROP = (124, 562)  # the samples that MAtt and the paper take of a 2a trial
NAMES_2A = {"T": ("x_train", "y_train"), "E": ("x_test", "y_test")}
SFREQ_2A = {"matt": 125.0, "paper-250": 250.0}
SEGMENTS = 4


def _trials(
    path: Path, names: tuple[str, str], n_trials: int, n_channels: int, n_classes: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    found = read_mat(path, names)
    X = np.asarray(found[names[0]])
    y = labels_from(found[names[1]], n_classes, f"{names[1]!r}", path, first=0)
    expect(
        X.ndim == 3 and X.shape[:2] == (n_trials, n_channels) and len(y) == n_trials,
        f"{path}: {names[0]!r} has shape {X.shape} and {names[1]!r} {len(y)} labels; expected "
        f"({n_trials}, {n_channels}, samples) and {n_trials}.",
    )
    expect(bool(np.isfinite(X).all()), f"{path}: {names[0]!r} holds values that are not numbers.")
    return X.astype(np.float32), y


def _samples(path: Path, name: str) -> int:
    shape = mat_shapes(path).get(name, ())
    expect(
        len(shape) == 3, f"{path}: expected trials {name!r} (n, channels, samples), got {shape}."
    )
    return shape[2]


def bci2a(
    folder: Path,
    name: str,
    description: str,
    classes: tuple[str, ...],
    channels: tuple[str, ...],
    crop: str,
) -> Dataset:
    """BCIC_S01_T.mat, BCIC_S01_E.mat, ...: a file a session of 288 trials."""
    found = matching(folder, BCI2A)
    files = {(str(int(s)), session.upper()): path for (s, session), path in found.items()}
    path, (_, session) = next((p, key) for key, p in sorted(files.items()))
    n_samples = _samples(path, NAMES_2A[session][0])
    expect(
        n_samples >= CROP[1],
        f"{path}: trials of {n_samples} samples; MAtt's have at least {CROP[1]}.",
    )
    sfreq, tmin = SFREQ_2A[crop], -0.5

    def read(subject: str, session: str) -> Recording:
        X, y = _trials(files[subject, session], NAMES_2A[session], 288, len(channels), len(classes))
        return Recording(subject, session, X, y, np.full(288, "1"), np.arange(288))

    subjects = sorted({subject for subject, _ in files})
    return Dataset(
        name=name,
        description=f"{description} (trials made ready by MAtt)",
        paradigm="motor imagery",
        classes=classes,
        ch_names=channels,
        sfreq=sfreq,
        tmin=tmin,
        window=(tmin + CROP[0] / sfreq, tmin + CROP[1] / sfreq),
        index={s: tuple(k for k in "TE" if (s, k) in files) for s in subjects},
        read=read,
    )


def bcicha(
    folder: Path,
    name: str,
    description: str,
    classes: tuple[str, ...],
    channels: tuple[str, ...],
    feedbacks: Mapping[str, int],
) -> Dataset:
    """Data_S02_Sess.mat, ...: a file a subject, its five sessions one after the other."""
    files = {str(int(s)): path for (s,), path in matching(folder, BCICHA).items()}
    sfreq = _samples(next(iter(files.values())), "x_test") / 1.25  # a trial is 1.25 s long
    ends = np.cumsum(list(feedbacks.values()))

    def read(subject: str, session: str) -> Recording:
        n = int(ends[-1])
        X, y = _trials(files[subject], ("x_test", "y_test"), n, len(channels), len(classes))
        stop = int(ends[list(feedbacks).index(session)])
        part = slice(stop - feedbacks[session], stop)
        n = feedbacks[session]
        return Recording(subject, session, X[part], y[part], np.full(n, "1"), np.arange(n))

    return Dataset(
        name=name,
        description=f"{description} (trials made ready by MAtt)",
        paradigm="erp",
        classes=classes,
        ch_names=channels,
        sfreq=sfreq,
        tmin=0.0,
        window=(0.0, 1.25),
        index={s: tuple(feedbacks) for s in sorted(files, key=int)},
        read=read,
    )


def mamem(
    folder: Path,
    name: str,
    description: str,
    classes: tuple[str, ...],
    channels: tuple[str, ...],
    frequencies: tuple[float, ...],
) -> Dataset:
    """U001.mat, ...: a file a subject, five sessions of 25 trials cut into four 1-s segments."""
    files = {str(int(s)): path for (s,), path in matching(folder, MAMEM).items()}
    sfreq = float(_samples(next(iter(files.values())), "x_test"))  # a segment is 1 s long
    sessions = ("1", "2", "3", "4", "5")
    size = 25 * SEGMENTS

    def read(subject: str, session: str) -> Recording:
        n = size * len(sessions)
        X, y = _trials(files[subject], ("x_test", "y_test"), n, len(channels), len(classes))
        part = slice(size * sessions.index(session), size * (sessions.index(session) + 1))
        return Recording(
            subject, session, X[part], y[part], np.full(size, "1"), segment_groups(y[part])
        )

    return Dataset(
        name=name,
        description=f"{description} (1-s segments made ready by MAtt)",
        paradigm="ssvep",
        classes=classes,
        ch_names=channels,
        sfreq=sfreq,
        tmin=0.0,
        window=(0.0, 1.0),
        index=dict.fromkeys(sorted(files, key=int), sessions),
        read=read,
        stimulus_hz=frequencies,
    )


def segment_groups(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which segments belong to one trial, from the order of the labels.

    The files do not tell in which order the segments lie. Segments of one trial have one label:
    if every four neighbours do, they are taken for a trial; if the labels repeat after a quarter of
    the session, the segments lie in four sweeps. Otherwise nothing is known, and the whole session
    is one group: it cannot be split, but nothing leaks.
    """
    n = len(y) // SEGMENTS
    if np.all(y.reshape(n, SEGMENTS) == y[::SEGMENTS, None]):
        return np.repeat(np.arange(n), SEGMENTS)
    if np.all(y.reshape(SEGMENTS, n) == y[:n]):
        return np.tile(np.arange(n), SEGMENTS)
    return np.zeros(len(y), dtype=np.int64)
