"""MAMEM EEG SSVEP data set II: which of five flickering boxes is looked at? 11 subjects.

A MATLAB file a session: ``eeg`` (257 rows at 250 Hz: electrodes E1 to E256 of the HydroCel net,
then the reference), ``DIN_1`` (four rows, a column a flash of the screen: second row the time in
milliseconds, fourth row the sample counted from one) and ``labels`` (1 to 5, a trial each). Trials
are told from the flashes: a pause of more than 2 s parts them. The official files are called
T001a.mat to T011e.mat; the paper numbers subjects U001 to U011, as the files of data set III are.

Eight channels are used, as in MAtt: PO7, PO3, POz, PO4, PO8, O1, Oz, O2. The net has no such
sites; the electrodes that stand for them in the maker's table are taken. ``channels`` takes others.
The paper states 256 Hz; the recordings have 250.

A trial lasts 5 s. MAtt cuts four segments of 1 s, at 1, 2, 3 and 4 s. ``segments=4`` does so; the
segments of a trial then share a group, and must never be split between training and test. MAtt's
own files have such segments only: a file a subject, five sessions of 25 trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.official._files import (
    Files,
    OfficialSource,
    cut,
    expect,
    index_of,
    matching,
    matt_samples,
    matt_trials,
    numbers,
    read_mat,
    whole_numbers,
)

FREQUENCIES = (6.66, 7.50, 8.57, 10.00, 12.00)
CLASSES = tuple(f"{f:.2f} Hz" for f in FREQUENCIES)
SITES = {
    "PO7": "E97", "PO3": "E109", "POz": "E119", "PO4": "E140",
    "PO8": "E161", "O1": "E116", "Oz": "E126", "O2": "E150",
}  # fmt: skip
ELECTRODES = tuple(f"E{i + 1}" for i in range(256))
SFREQ, TRIALS, SESSIONS = 250.0, 25, "12345"
MARGIN = 0.5  # seconds around a trial, for the filters; the pause between trials is 5 s
PAUSE = 2000.0  # milliseconds without a flash that part trials
SHORTEST = 382  # samples; the makers' toolbox takes shorter trains of flashes for false starts
MATT_SEGMENTS = 4


def load_mamem(
    folder: Path | None = None,
    *,
    segments: int = 1,
    first_segment: float = 1.0,
    channels: Sequence[str] = tuple(SITES.values()),
    layout: str | None = None,
) -> Dataset:
    """MAMEM EEG SSVEP data set II from official files.

    Parameters
    ----------
    folder : Path, optional
        Where the files are; else ``$SPDTOKENS_DATA/mamem``, else ``~/spdtokens_data/mamem``.
    segments : int
        1: whole trials of 5 s. More: so many segments of 1 s a trial, sharing a group.
    first_segment : float
        Where the first segment begins, in seconds after the flicker's onset.
    channels : sequence of str
        Electrodes to use, ``E1`` to ``E256``.
    layout : {'figshare', 'matt'}, optional
        Kind of files to read, if a folder holds several.
    """
    strange = [name for name in channels if name not in ELECTRODES]
    expect(not strange, f"mamem has no electrodes {strange}; they are called E1 to E256.")
    expect(
        segments >= 1 and (segments == 1 or 0 <= first_segment <= 5 - segments),
        f"{segments} segments of 1 s from {first_segment:g} s on do not fit into a trial of 5 s.",
    )
    _, layout, files = SOURCE.find(folder, layout)
    matt = layout == "matt"
    window = (0.0, 5.0) if segments == 1 and not matt else (0.0, 1.0)
    shifts = [0.0] if segments == 1 else [first_segment + i for i in range(segments)]

    def read(subject: str, session: str) -> Recording:
        path, size = files[subject, session], TRIALS * MATT_SEGMENTS
        if not matt:
            return _read(path, subject, session, tuple(channels), shifts, window)
        part = slice(first := size * SESSIONS.index(session), first + size)
        total, names = size * len(SESSIONS), ("x_test", "y_test")
        X, y = matt_trials(path, names, total, len(SITES), len(CLASSES), part)
        return Recording(subject, session, X, y, np.full(size, "1"), segment_groups(y))

    # A segment of MAtt's is 1 s long.
    sfreq = float(matt_samples(min(files.values()), "x_test")) if matt else SFREQ
    return Dataset(
        name=SOURCE.name,
        description=SOURCE.description + (" (1-s segments made ready by MAtt)" if matt else ""),
        paradigm="ssvep",
        classes=CLASSES,
        ch_names=tuple(SITES if matt else channels),
        sfreq=sfreq,
        tmin=0.0 if matt else -MARGIN,
        window=window,
        index=index_of(files, SESSIONS),
        read=read,
        stimulus_hz=FREQUENCIES,
        unit_in_volts=None if matt else 1e-6,
    )


def _figshare_files(folder: Path) -> Files:
    """Sessions are lettered in the files, and numbered here."""
    found = matching(folder, r"[TU](\d{3})([a-e])\.mat", SESSIONS)
    return {(s, SESSIONS["ABCDE".index(letter)]): path for (s, letter), path in found.items()}


def _read(
    path: Path,
    subject: str,
    session: str,
    channels: tuple[str, ...],
    shifts: Sequence[float],
    window: tuple[float, float],
) -> Recording:
    eeg, flashes, labels = read_mat(path, "eeg", "DIN_1", "labels")
    eeg = np.asarray(eeg)
    expect(
        eeg.ndim == 2 and eeg.shape[0] in (256, 257),
        f"{path}: 'eeg' has shape {eeg.shape}; expected 256 electrodes and the reference in rows. "
        "(Data set III of MAMEM has 14 channels and other files.)",
    )
    y = whole_numbers(labels, "'labels'", path, (1, len(CLASSES))) - 1
    onsets = _onsets(flashes, path)
    expect(
        len(onsets) == len(y) == TRIALS,
        f"{path}: {len(onsets)} trains of flashes in 'DIN_1' and {len(y)} labels; expected "
        f"{TRIALS} of both.",
    )
    starts = (onsets[:, None] + np.round(np.array(shifts) * SFREQ).astype(np.int64)).ravel()
    interval = (window[0] - MARGIN, window[1] + MARGIN)
    rows = [ELECTRODES.index(name) for name in channels]
    X, _, onset = cut(eeg[rows], starts, SFREQ, interval, window, path)
    group = np.repeat(np.arange(len(y)), len(shifts))
    y, run = np.repeat(y, len(shifts)), np.full(len(starts), "1")
    return Recording(subject, session, X, y, run, group, {"onset": onset})


def _onsets(din: Any, path: Path) -> NDArray[np.int64]:
    """Samples at which trials start, counted from zero, from the flashes of the screen."""
    table = np.asarray(din)
    expect(
        table.ndim == 2 and table.shape[0] == 4,
        f"{path}: 'DIN_1' has shape {table.shape}; expected four rows, a column a flash.",
    )
    time, sample = (numbers(table[row], f"row {row + 1} of 'DIN_1'", path) for row in (1, 3))
    trains = np.split(sample, np.flatnonzero(np.diff(time) > PAUSE) + 1)
    starts = [train[0] - 1 for train in trains if train[-1] - train[0] > SHORTEST]
    return np.array(starts, dtype=np.int64)


def segment_groups(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which of MAtt's segments belong to one trial, from the order of the labels.

    The files do not tell in which order the segments lie. Segments of one trial have one label:
    if every four neighbours do, they are taken for a trial; if the labels repeat after a quarter of
    the session, the segments lie in four sweeps. Otherwise nothing is known, and the whole session
    is one group: it cannot be split, but nothing leaks.
    """
    n = len(y) // MATT_SEGMENTS
    if np.all(y.reshape(n, MATT_SEGMENTS) == y[::MATT_SEGMENTS, None]):
        return np.repeat(np.arange(n), MATT_SEGMENTS)
    if np.all(y.reshape(MATT_SEGMENTS, n) == y[:n]):
        return np.tile(np.arange(n), MATT_SEGMENTS)
    return np.zeros(len(y), dtype=np.int64)


SOURCE = OfficialSource(
    name="mamem",
    description=(
        "MAMEM EEG SSVEP data set II: five flicker frequencies at once; 11 subjects, 5 sessions of "
        "25 trials of 5 s, 8 of 256 channels, 250 Hz"
    ),
    how_to_get=(
        "Expected: T001a.mat to T011e.mat of 'MAMEM EEG SSVEP Dataset II (256 channels, 11 "
        "subjects, 5 frequencies presented simultaneously)' on figshare, linked from mamem.eu; or "
        "MAtt's U001.mat, ..."
    ),
    load=load_mamem,
    layouts={
        "figshare": _figshare_files,
        "matt": lambda folder: matching(folder, r"U(\d{3})\.mat", SESSIONS),
    },
)
