"""MAMEM EEG SSVEP data set II: five flicker frequencies, 11 subjects, five sessions.

The MATLAB file of a session contains ``eeg`` (257 rows at 250 Hz: electrodes E1 to E256 of the
HydroCel net and the reference), ``DIN_1`` (four rows, one column per flash of the screen: row two
is the time in milliseconds, row four the sample counted from one) and ``labels`` (1 to 5, one per
trial). Trials are separated by pauses of more than 2 s between flashes. The files are called
T001a.mat to T011e.mat (MAMEM's toolbox calls those of the eleventh subject T013a.mat, ...); the
paper numbers subjects U001 to U011, as in data set III.

Trials are those of MAMEM's own toolbox [1]_, whose MATLAB code takes ``eeg(:, s:s+1249)`` from the
first flash ``s`` of a train: samples count from one. It ignores trains of at most 382 samples,
false starts, but always counts the last train, also one whose flashes break off. MOABB 1.7 adapted
this code to Python and uses ``s`` as an index that counts from zero: the trials of ``moabb:MAMEM2``
begin one sample (4 ms) later than ours.

Eight channels are used, as in MAtt: PO7, PO3, POz, PO4, PO8, O1, Oz, O2. The net has no electrodes
of these names; the equivalent ones of the manufacturer's table are used, or those of ``channels``.
The paper states 256 Hz; the recordings have 250 Hz.

A trial lasts 5 s. MAtt cuts four segments of 1 s, which begin at 1, 2, 3 and 4 s; so does
``segments=4``. Segments of a trial belong to one group, which is never split between training and
test. MAtt's files contain these segments only, five sessions of 25 trials per subject.

References
----------
.. [1] MAMEM eeg-processing-toolbox, ``split`` in ``+eegtoolkit/+util/@Session/Session.m``,
   https://github.com/MAMEM/eeg-processing-toolbox.
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
PAUSE = 2000.0  # milliseconds without a flash that separate trials
SHORTEST = 382  # samples; MAMEM's toolbox ignores trains of flashes up to here, but for the last
MATT_SEGMENTS = 4


def load_mamem(
    folder: Path | None = None,
    *,
    segments: int = 1,
    first_segment: float = 1.0,
    channels: Sequence[str] = tuple(SITES.values()),
) -> Dataset:
    """Load MAMEM EEG SSVEP data set II from its published files.

    Parameters
    ----------
    folder : Path or None, default=None
        Folder of the files; if None, ``$SPDTOKENS_DATA/mamem`` or ``~/spdtokens_data/mamem``.
        MAMEM's files are preferred to MAtt's.
    segments : int, default=1
        Number of segments of 1 s per trial, which belong to one group; 1 for whole trials of 5 s.
    first_segment : float, default=1.0
        Begin of the first segment, in seconds after the onset of the flicker.
    channels : sequence of str
        Electrodes, ``E1`` to ``E256``. Default: eight parieto-occipital ones.
    """
    strange = [name for name in channels if name not in ELECTRODES]
    expect(not strange, f"channels of mamem must be E1 to E256, got {', '.join(strange)}.")
    expect(
        segments >= 1 and (segments == 1 or 0 <= first_segment <= 5 - segments),
        f"segments of 1 s must fit into a trial of 5 s, got {segments} from {first_segment:g} s.",
    )
    _, layout, files = SOURCE.find(folder)
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

    # MAtt's segments last 1 s.
    sfreq = float(matt_samples(min(files.values()), "x_test")) if matt else SFREQ
    return Dataset(
        name=SOURCE.name,
        description=SOURCE.description + (" (1-s segments preprocessed by MAtt)" if matt else ""),
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
    """Find the session files; sessions a to e of their names are called 1 to 5."""
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
        f"{path}: 'eeg' must have 256 electrodes and the reference in rows, got shape {eeg.shape}. "
        "(Data set III of MAMEM has 14 channels and other files.)",
    )
    y = whole_numbers(labels, "'labels'", path, (1, len(CLASSES))) - 1
    onsets = _onsets(flashes, path)
    expect(
        len(onsets) == len(y) == TRIALS,
        f"{path} must have {TRIALS} trains of flashes in 'DIN_1' and {TRIALS} labels, got "
        f"{len(onsets)} and {len(y)}.",
    )
    starts = (onsets[:, None] + np.round(np.array(shifts) * SFREQ).astype(np.int64)).ravel()
    interval = (window[0] - MARGIN, window[1] + MARGIN)
    rows = [ELECTRODES.index(name) for name in channels]
    X, _, onset = cut(eeg[rows], starts, SFREQ, interval, window, path)
    group = np.repeat(np.arange(len(y)), len(shifts))
    y, run = np.repeat(y, len(shifts)), np.full(len(starts), "1")
    return Recording(subject, session, X, y, run, group, {"onset": onset})


def _onsets(din: Any, path: Path) -> NDArray[np.int64]:
    """Return the first sample of each trial, counted from zero, from the flashes."""
    table = np.asarray(din)
    expect(
        table.ndim == 2 and table.shape[0] == 4,
        f"{path}: 'DIN_1' must have four rows and one column per flash, got shape {table.shape}.",
    )
    time, sample = (numbers(table[row], f"row {row + 1} of 'DIN_1'", path) for row in (1, 3))
    trains = np.split(sample, np.flatnonzero(np.diff(time) > PAUSE) + 1)
    *before, last = trains
    starts = [train[0] - 1 for train in before if train[-1] - train[0] > SHORTEST]
    starts.append(last[0] - 1)
    return np.array(starts, dtype=np.int64)


def segment_groups(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Group the segments of MAtt's files by trial, from the order of the labels.

    The files do not state the order of segments. If every four consecutive segments have the same
    label, they are a trial; if the labels repeat after a quarter of the session, segments are
    ordered by their position in the trial. Otherwise the whole session is one group, which cannot
    be split, so nothing leaks.
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
