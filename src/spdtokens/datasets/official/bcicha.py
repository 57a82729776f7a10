"""BCI Challenge at NER 2015: was the speller's feedback right? 16 subjects, five sessions.

The Kaggle files: a CSV file a session with the continuous EEG, and ``TrainLabels.csv``. Only the
training subjects have public labels.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.official import matt
from spdtokens.datasets.official._places import check_layout, first_layout, matching
from spdtokens.datasets.official._reading import (
    cut,
    expect,
    first_samples,
    labels_from,
    overlap_groups,
)
from spdtokens.errors import DataError

NAME = "bcicha"
AVAILABLE = (
    "BCI Challenge at NER 2015: error potentials after a P300 speller's feedback; 16 subjects, 5 "
    "sessions of 60, 60, 60, 60 and 100 trials, 56 channels, 200 Hz"
)
HOW_TO_GET = (
    "Expected: Data_S02_Sess01.csv, ... (archive train.zip, also in a folder train/) and "
    "TrainLabels.csv of the Kaggle competition 'BCI Challenge @ NER 2015' (inria-bci-challenge); "
    "or MAtt's Data_S02_Sess.mat, ..."
)
CLASSES = ("error", "correct")
_MONTAGE = """
    Fp1 Fp2 AF7 AF3 AF4 AF8 F7 F5 F3 F1 Fz F2 F4 F6 F8 FT7 FC5 FC3 FC1 FCz FC2 FC4 FC6 FT8
    T7 C5 C3 C1 Cz C2 C4 C6 T8 TP7 CP5 CP3 CP1 CPz CP2 CP4 CP6 TP8 P7 P5 P3 P1 Pz P2 P4 P6 P8
    PO7 POz PO8 O1 O2
"""
CHANNELS = tuple(_MONTAGE.split())
SUBJECTS = (2, 6, 7, 11, 12, 13, 14, 16, 17, 18, 20, 21, 22, 23, 24, 26)
FEEDBACKS = {"1": 60, "2": 60, "3": 60, "4": 60, "5": 100}
SFREQ = 200.0
INTERVAL = (-0.2, 1.3)
WINDOW = (0.0, 1.25)
LABELS = "TrainLabels.csv"


def _files(folder: Path) -> dict[tuple[str, str], Path]:
    """Session files of subjects with public labels: the test subjects' files look the same."""
    found = matching(folder, r"Data_S(\d\d)_Sess0([1-5])\.csv")
    return {
        (str(int(subject)), session): path
        for (subject, session), path in found.items()
        if int(subject) in SUBJECTS
    }


LAYOUTS: dict[str, Callable[[Path], bool]] = {
    "kaggle": lambda folder: bool(_files(folder)),
    "matt": lambda folder: bool(matching(folder, matt.BCICHA)),
}


def load_bcicha(folder: Path | None = None, *, layout: str | None = None) -> Dataset:
    """BCI Challenge at NER 2015 from the Kaggle files.

    Parameters
    ----------
    folder : Path, optional
        Where the files are; else ``$SPDTOKENS_DATA/bcicha``, else ``~/spdtokens_data/bcicha``.
    layout : {'kaggle', 'matt'}, optional
        Kind of files to read, if a folder holds several.
    """
    check_layout(NAME, layout, LAYOUTS)
    layouts = {layout: LAYOUTS[layout]} if layout else LAYOUTS
    place, layout = first_layout(NAME, folder, layouts, HOW_TO_GET)
    if layout == "matt":
        return matt.bcicha(place, NAME, AVAILABLE, CLASSES, CHANNELS, FEEDBACKS)
    files = _files(place)
    labels = matching(place, f"({LABELS})")
    expect(
        bool(labels),
        f"The label file {LABELS} is missing in {place}. It is a file of its own in the Kaggle "
        "competition; put it beside the session files.",
    )
    label_file = next(iter(labels.values()))

    def read(subject: str, session: str) -> Recording:
        return _read(files[subject, session], label_file, subject, session)

    subjects = sorted({subject for subject, _ in files}, key=int)
    return Dataset(
        name=NAME,
        description=AVAILABLE,
        paradigm="erp",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=SFREQ,
        tmin=INTERVAL[0],
        window=WINDOW,
        index={s: tuple(k for k in FEEDBACKS if (s, k) in files) for s in subjects},
        read=read,
        unit_in_volts=1e-6,
    )


def _read(path: Path, label_file: Path, subject: str, session: str) -> Recording:
    time, signal, event = _columns(path)
    step = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
    expect(
        abs(step * SFREQ - 1) < 0.01,
        f"{path}: samples are {step:g} s apart; expected {1 / SFREQ:g} s ({SFREQ:g} Hz).",
    )
    onsets = np.flatnonzero(np.diff(event != 0, prepend=False) & (event != 0))
    expect(
        len(onsets) == FEEDBACKS[session],
        f"{path}: {len(onsets)} feedback events; session {session} has {FEEDBACKS[session]}. The "
        "file is cut short or was edited.",
    )
    stem = f"S{int(subject):02d}_Sess0{session}_FB"
    known = _labels(label_file, label_file.stat().st_mtime_ns)
    names = [f"{stem}{i + 1:03d}" for i in range(len(onsets))]
    missing = [name for name in names if name not in known]
    expect(not missing, f"{label_file} has no label for {', '.join(missing[:3])}, ... of {path}.")
    return Recording(
        subject=subject,
        session=session,
        X=cut(signal, onsets, SFREQ, INTERVAL, WINDOW, path),
        y=np.array([known[name] for name in names], dtype=np.int64),
        run=np.full(len(onsets), "1"),
        group=overlap_groups(onsets, SFREQ, WINDOW),
        about={"onset": first_samples(onsets, SFREQ, INTERVAL)},
    )


def _columns(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Time, EEG (channels, samples) and feedback events of a session file."""
    with path.open(newline="") as file:
        # The files spell PO8 with a zero.
        header = [name.strip().replace("P08", "PO8") for name in next(csv.reader(file), [])]
    wanted = ["Time", *CHANNELS, "FeedBackEvent"]
    missing = [name for name in wanted if name not in header]
    expect(
        not missing,
        f"{path}: no column {', '.join(missing[:5])}. Expected Time, 56 channels, EOG and "
        "FeedBackEvent.",
    )
    try:
        table = np.loadtxt(
            path,
            delimiter=",",
            skiprows=1,
            usecols=[header.index(name) for name in wanted],
            dtype=np.float64,
            ndmin=2,
        )
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is damaged or cut short in the middle of a line ({error}). Get it again."
        ) from error
    return table[:, 0], table[:, 1:-1].T, table[:, -1]


@cache
def _labels(path: Path, _modified: int) -> dict[str, int]:
    """Labels by the name of the feedback; kept, for every session asks for the same file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expect(
        bool(rows) and {"IdFeedBack", "Prediction"} <= set(rows[0]),
        f"{path}: expected the columns IdFeedBack and Prediction.",
    )
    try:
        values = [float(row["Prediction"]) for row in rows]
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: Prediction must be 0 or 1 ({error}).") from error
    y = labels_from(np.array(values), len(CLASSES), "Prediction", path, first=0)
    return {row["IdFeedBack"].strip(): int(label) for row, label in zip(rows, y, strict=True)}
