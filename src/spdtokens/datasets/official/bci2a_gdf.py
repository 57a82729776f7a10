"""BCI Competition IV 2a as the competition gave it out: a GDF file a session.

The cues of the evaluation session are not told in the GDF file; the labels come in a MATLAB file
of the same name with the variable ``classlabel``.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.official._reading import expect, labels_from, read_mat
from spdtokens.datasets.official.bci2a_bnci import is_label_file
from spdtokens.datasets.official.bci2a_session import CHANNELS, CLASSES, N_CHANNELS, SFREQ, Session
from spdtokens.errors import DataError

RUN_START, TRIAL_START, UNKNOWN_CUE, REJECTED = "32766", "768", "783", "1023"
CUES = ("769", "770", "771", "772")
# The files name these channels only; the others are called 'EEG'.
NAMED = {0: "Fz", 7: "C3", 9: "Cz", 11: "C4", 19: "Pz"}


def read(path: Path, folder: Path, subject: str, session: str) -> Session:
    """Signals and events of a session, with labels from its label file where there is one."""
    raw = _open(path)
    _check_channels(raw, path)
    codes = np.array([str(code) for code in raw.annotations.description])
    at = np.round(raw.annotations.onset * SFREQ).astype(np.int64)
    order = np.argsort(at, kind="stable")
    codes, at = codes[order], at[order]

    is_cue = np.isin(codes, [*CUES, UNKNOWN_CUE])
    expect(bool(is_cue.any()), f"{path}: no cue (events 769 to 772, 783); the file is cut short.")
    cue = at[is_cue]
    starts = at[codes == RUN_START]
    expect(bool(starts.size), f"{path}: no start of a run (event {RUN_START}) in the file.")
    # Runs without trials record eye movements; a file may lack some, so runs are counted by trials.
    _, run = np.unique(np.searchsorted(starts, cue, side="right"), return_inverse=True)
    trial_starts = at[codes == TRIAL_START]
    rejected = np.isin(trial_starts, at[codes == REJECTED])
    expect(
        len(trial_starts) == len(cue),
        f"{path}: {len(trial_starts)} trials start (event {TRIAL_START}), but {len(cue)} cues "
        "appear.",
    )
    return Session(
        path,
        _signal(raw, path),
        cue,
        _labels(codes[is_cue], path, folder, subject, session),
        (run + 1).astype(str),
        rejected,
    )


def _open(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            # Of the official files MNE remarks: channels of one name, odd filter settings.
            warnings.simplefilter("ignore")
            raw = mne.io.read_raw_gdf(path, verbose=logging.ERROR)
    except Exception as error:  # damaged headers raise many kinds
        raise DataError(
            f"{path} cannot be read as a GDF file: it is damaged or cut short "
            f"({type(error).__name__}: {error}). Get it again."
        ) from error
    expect(
        raw.info["sfreq"] == SFREQ,
        f"{path}: sampled at {raw.info['sfreq']:g} Hz; expected {SFREQ:g} Hz.",
    )
    return raw


def _signal(raw: Any, path: Path) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return raw.get_data(picks=list(range(len(CHANNELS))), verbose=logging.ERROR)
    except Exception as error:  # a file cut short fails here
        raise DataError(
            f"{path}: the signals cannot be read; the file is cut short "
            f"({type(error).__name__}: {error}). Get it again."
        ) from error


def _check_channels(raw: Any, path: Path) -> None:
    names = list(raw.ch_names)
    expect(
        len(names) == N_CHANNELS,
        f"{path}: {len(names)} channels; expected {N_CHANNELS}: 22 EEG and 3 EOG.",
    )
    wrong = [
        name
        for i, name in enumerate(names)
        if not name.startswith("EEG" if i < len(CHANNELS) else "EOG")
        or (i in NAMED and name != f"EEG-{NAMED[i]}")
    ]
    expect(not wrong, f"{path}: channels {wrong} are not where data set 2a has them.")


def _labels(
    codes: NDArray[np.str_], path: Path, folder: Path, subject: str, session: str
) -> NDArray[np.int64]:
    told = np.array([CUES.index(c) if c in CUES else -1 for c in codes], dtype=np.int64)
    name = f"A0{subject}{session}.mat"
    # BNCI's files bear the same names, and may lie here too.
    found = [*folder.glob(name), *sorted(folder.glob(f"*/{name}"))]
    label_file = next((p for p in found if is_label_file(p)), None)
    if label_file is None:
        broken = f" ({found[0]} has no variable 'classlabel')" if found else ""
        expect(
            bool((told >= 0).all()),
            f"{path} does not tell its labels; the label file {name} of the competition (variable "
            f"'classlabel') is missing{broken}. Put it beside the GDF file.",
        )
        return told
    labels = labels_from(
        read_mat(label_file, ["classlabel"])["classlabel"],
        len(CLASSES),
        "'classlabel'",
        label_file,
    )
    expect(
        len(labels) == len(told),
        f"{label_file} has {len(labels)} labels, but {path} has {len(told)} cues.",
    )
    differing = np.flatnonzero((told >= 0) & (told != labels))
    expect(
        not differing.size,
        f"{label_file} and {path} disagree on the labels of {len(differing)} trials, first trial "
        f"{int(differing[0]) + 1 if differing.size else 0}.",
    )
    return labels
