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
segments of a trial then share a group, and must never be split between training and test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.official import matt
from spdtokens.datasets.official._places import check_layout, first_layout, matching
from spdtokens.datasets.official._reading import cut, expect, first_samples, labels_from, read_mat
from spdtokens.errors import DataError

NAME = "mamem"
AVAILABLE = (
    "MAMEM EEG SSVEP data set II: five flicker frequencies at once; 11 subjects, 5 sessions of 25 "
    "trials of 5 s, 8 of 256 channels, 250 Hz"
)
HOW_TO_GET = (
    "Expected: T001a.mat to T011e.mat of 'MAMEM EEG SSVEP Dataset II (256 channels, 11 subjects, 5 "
    "frequencies presented simultaneously)' on figshare, linked from mamem.eu; or MAtt's U001.mat, "
    "..."
)
FREQUENCIES = (6.66, 7.50, 8.57, 10.00, 12.00)
CLASSES = tuple(f"{f:.2f} Hz" for f in FREQUENCIES)
SITES = {
    "PO7": "E97",
    "PO3": "E109",
    "POz": "E119",
    "PO4": "E140",
    "PO8": "E161",
    "O1": "E116",
    "Oz": "E126",
    "O2": "E150",
}
ELECTRODES = tuple(f"E{i + 1}" for i in range(256))
SFREQ = 250.0
TRIALS = 25
SESSIONS = "abcde"
MARGIN = 0.5  # seconds around a trial, for the filters; the pause between trials is 5 s
PAUSE = 2000.0  # milliseconds without a flash that part trials
SHORTEST = 382  # samples; the makers' toolbox takes shorter trains of flashes for false starts


def _files(folder: Path) -> dict[tuple[str, str], Path]:
    found = matching(folder, r"[TU](\d{3})([a-e])\.mat")
    return {(str(int(s)), letter.lower()): path for (s, letter), path in found.items()}


LAYOUTS: dict[str, Callable[[Path], bool]] = {
    "figshare": lambda folder: bool(_files(folder)),
    "matt": lambda folder: bool(matching(folder, matt.MAMEM)),
}


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
    check_layout(NAME, layout, LAYOUTS)
    strange = [name for name in channels if name not in ELECTRODES]
    expect(not strange, f"mamem has no electrodes {strange}; they are called E1 to E256.")
    expect(
        segments >= 1 and (segments == 1 or 0 <= first_segment <= 5 - segments),
        f"{segments} segments of 1 s from {first_segment:g} s on do not fit into a trial of 5 s.",
    )
    layouts = {layout: LAYOUTS[layout]} if layout else LAYOUTS
    place, layout = first_layout(NAME, folder, layouts, HOW_TO_GET)
    if layout == "matt":
        return matt.mamem(place, NAME, AVAILABLE, CLASSES, tuple(SITES), FREQUENCIES)
    files = _files(place)
    window = (0.0, 5.0) if segments == 1 else (0.0, 1.0)
    shifts = [0.0] if segments == 1 else [first_segment + i for i in range(segments)]

    def read(subject: str, session: str) -> Recording:
        path = files[subject, SESSIONS[int(session) - 1]]
        return _read(path, subject, session, tuple(channels), shifts, window)

    subjects = sorted({subject for subject, _ in files}, key=int)
    return Dataset(
        name=NAME,
        description=AVAILABLE,
        paradigm="ssvep",
        classes=CLASSES,
        ch_names=tuple(channels),
        sfreq=SFREQ,
        tmin=-MARGIN,
        window=window,
        index={
            s: tuple(str(i + 1) for i, letter in enumerate(SESSIONS) if (s, letter) in files)
            for s in subjects
        },
        read=read,
        stimulus_hz=FREQUENCIES,
        unit_in_volts=1e-6,
    )


def _read(
    path: Path,
    subject: str,
    session: str,
    channels: tuple[str, ...],
    shifts: Sequence[float],
    window: tuple[float, float],
) -> Recording:
    found = read_mat(path, ["eeg", "DIN_1", "labels"])
    eeg = np.asarray(found["eeg"])
    expect(
        eeg.ndim == 2 and eeg.shape[0] in (256, 257),
        f"{path}: 'eeg' has shape {eeg.shape}; expected 256 electrodes and the reference in rows. "
        "(Data set III of MAMEM has 14 channels and other files.)",
    )
    y = labels_from(found["labels"], len(CLASSES), "'labels'", path)
    onsets = _onsets(found["DIN_1"], path)
    expect(
        len(onsets) == len(y) == TRIALS,
        f"{path}: {len(onsets)} trains of flashes in 'DIN_1' and {len(y)} labels; expected "
        f"{TRIALS} of both.",
    )
    shift = np.round(np.array(shifts) * SFREQ).astype(np.int64)
    starts = (onsets[:, None] + shift).ravel()
    interval = (window[0] - MARGIN, window[1] + MARGIN)
    rows = [ELECTRODES.index(name) for name in channels]
    return Recording(
        subject=subject,
        session=session,
        X=cut(eeg[rows], starts, SFREQ, interval, window, path),
        y=np.repeat(y, len(shifts)),
        run=np.full(len(starts), "1"),
        group=np.repeat(np.arange(len(y)), len(shifts)),
        about={"onset": first_samples(starts, SFREQ, interval)},
    )


def _onsets(din: Any, path: Path) -> NDArray[np.int64]:
    """Samples at which trials start, counted from zero, from the flashes of the screen."""
    table = np.asarray(din)
    expect(
        table.ndim == 2 and table.shape[0] == 4,
        f"{path}: 'DIN_1' has shape {table.shape}; expected four rows, a column a flash.",
    )
    try:
        time, sample = (np.array([float(np.squeeze(v)) for v in table[row]]) for row in (1, 3))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: rows 2 and 4 of 'DIN_1' must be numbers ({error}).") from error
    trains = np.split(sample, np.flatnonzero(np.diff(time) > PAUSE) + 1)
    starts = [train[0] - 1 for train in trains if train[-1] - train[0] > SHORTEST]
    return np.array(starts, dtype=np.int64)
