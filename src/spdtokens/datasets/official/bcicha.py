"""BCI Challenge at NER 2015: error potentials after feedback, 16 subjects, five sessions.

The Kaggle files are one CSV file per session with the continuous EEG, and ``TrainLabels.csv``. Only
the training subjects have public labels. MAtt's files contain the trials of all five sessions of a
subject.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdtokens.datasets.base import Dataset, Recording, reading
from spdtokens.datasets.official._files import (
    Files,
    OfficialSource,
    cut,
    expect,
    index_of,
    matching,
    matt_samples,
    matt_trials,
    whole_numbers,
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
SFREQ, INTERVAL, WINDOW = 200.0, (-0.2, 1.3), (0.0, 1.25)
LABELS = "TrainLabels.csv"


def load_bcicha(folder: Path | None = None) -> Dataset:
    """Load the BCI Challenge at NER 2015 from its published files.

    Parameters
    ----------
    folder : Path or None, default=None
        Folder of the files; if None, ``$SPDTOKENS_DATA/bcicha`` or ``~/spdtokens_data/bcicha``.
        The Kaggle files are preferred to MAtt's.
    """
    place, layout, files = SOURCE.find(folder)
    matt = layout == "matt"
    sfreq = matt_samples(min(files.values()), "x_test") / 1.25 if matt else SFREQ
    label_files = [*place.glob(LABELS), *sorted(place.glob(f"*/{LABELS}"))]
    expect(
        matt or bool(label_files),
        f"{place} lacks the label file {LABELS}, a separate file of the Kaggle competition. Copy "
        "it to the folder of the session files.",
    )

    def read(subject: str, session: str) -> Recording:
        path, n = files[subject, session], FEEDBACKS[session]
        if not matt:
            return _read(path, label_files[0], subject, session)
        names, total = ("x_test", "y_test"), sum(FEEDBACKS.values())
        part = slice(first := 60 * (int(session) - 1), first + n)
        X, y = matt_trials(path, names, total, len(CHANNELS), len(CLASSES), part)
        return Recording(subject, session, X, y, np.full(n, "1"), np.arange(n))

    return Dataset(
        name=SOURCE.name,
        description=SOURCE.description + (" (trials preprocessed by MAtt)" if matt else ""),
        paradigm="erp",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=sfreq,
        tmin=0.0 if matt else INTERVAL[0],
        window=WINDOW,
        index=index_of(files, tuple(FEEDBACKS)),
        read=read,
        unit_in_volts=None if matt else 1e-6,
    )


def _kaggle_files(folder: Path) -> Files:
    """Find the session files of the training subjects; test subjects have no public labels."""
    found = matching(folder, r"Data_S(\d\d)_Sess0([1-5])\.csv", tuple(FEEDBACKS))
    return {key: path for key, path in found.items() if int(key[0]) in SUBJECTS}


def _read(path: Path, label_file: Path, subject: str, session: str) -> Recording:
    import pandas as pd  # slow to import

    with reading(path):
        table = pd.read_csv(path, dtype=np.float64, float_precision="round_trip")
    # The files spell PO8 with a zero.
    table.columns = [name.strip().replace("P08", "PO8") for name in table.columns]
    missing = [n for n in ("Time", *CHANNELS, "FeedBackEvent") if n not in table.columns]
    expect(not missing, f"{path} lacks the columns {', '.join(missing[:5])}.")
    signal = table[list(CHANNELS)].to_numpy().T
    time, event = table["Time"].to_numpy(), table["FeedBackEvent"].to_numpy()
    step = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
    onsets = np.flatnonzero(np.diff(event != 0, prepend=False) & (event != 0))
    expect(
        abs(step * SFREQ - 1) < 0.01 and len(onsets) == FEEDBACKS[session],
        f"{path}: session {session} must have {FEEDBACKS[session]} feedback events and samples "
        f"{1 / SFREQ:g} s apart, got {len(onsets)} feedback events and {step:g} s. The file is "
        "truncated or was edited.",
    )
    with reading(label_file):
        labels = pd.read_csv(label_file, dtype=str, index_col="IdFeedBack")["Prediction"]
        predictions = whole_numbers(labels, "Prediction", label_file, (0, 1))
        known = dict(zip(labels.index.str.strip(), predictions, strict=True))
    names = [f"S{int(subject):02d}_Sess0{session}_FB{i + 1:03d}" for i in range(len(onsets))]
    missing = [name for name in names if name not in known]
    expect(not missing, f"{label_file} lacks labels of {path}: {', '.join(missing[:3])}, ...")
    X, group, onset = cut(signal, onsets, SFREQ, INTERVAL, WINDOW, path)
    y = np.array([known[name] for name in names], dtype=np.int64)
    return Recording(subject, session, X, y, np.full(len(y), "1"), group, {"onset": onset})


SOURCE = OfficialSource(
    name="bcicha",
    description=(
        "BCI Challenge at NER 2015: error potentials after a P300 speller's feedback; 16 subjects, "
        "5 sessions of 60, 60, 60, 60 and 100 trials, 56 channels, 200 Hz"
    ),
    how_to_get=(
        "Expected: Data_S02_Sess01.csv, ... (archive train.zip, also in a folder train/) and "
        "TrainLabels.csv of the Kaggle competition 'BCI Challenge @ NER 2015' "
        "(inria-bci-challenge); or MAtt's Data_S02_Sess.mat, ..."
    ),
    load=load_bcicha,
    layouts={
        "kaggle": _kaggle_files,
        "matt": lambda folder: matching(folder, r"Data_S(\d\d)_Sess\.mat", tuple(FEEDBACKS)),
    },
)
