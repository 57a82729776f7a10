"""BCI Competition IV 2a as BNCI Horizon 2020 gives it out: a MATLAB file a session.

A cell array ``data`` holds the runs of the session. The first ones record eye movements and have
no trials. ``trial`` marks where trials start, counted from one; the cue comes 2 s later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.official._places import matching
from spdtokens.datasets.official._reading import (
    expect,
    labels_from,
    mat_shapes,
    read_mat,
    whole_numbers,
)
from spdtokens.datasets.official.bci2a_session import CHANNELS, CLASSES, N_CHANNELS, SFREQ, Session

CUE_AFTER_START = 2.0


def files(folder: Path) -> dict[tuple[str, ...], Path]:
    """Files by subject and session. The competition's label files bear the same names."""
    return {
        (subject, session.upper()): path
        for (subject, session), path in matching(folder, r"A0([1-9])([TE])\.mat").items()
        if not is_label_file(path)
    }


def is_label_file(path: Path) -> bool:
    """Whether this is a label file of the competition; a damaged file is not."""
    try:
        return "classlabel" in mat_shapes(path)
    except ValueError:
        return False


def read(path: Path) -> Session:
    """Signals and events of a session."""
    signals, cues, labels, artifacts = [], [], [], []
    runs: list[NDArray[np.str_]] = []
    offset = 0
    for run in np.atleast_1d(read_mat(path, ["data"])["data"]):
        _check(run, path)
        starts = whole_numbers(run.trial, "'trial'", path)
        if not starts.size:
            continue
        y = labels_from(run.y, len(CLASSES), "'y'", path)
        marks = whole_numbers(run.artifacts, "'artifacts'", path)
        expect(
            len(y) == len(marks) == len(starts),
            f"{path}: a run has {len(starts)} trials, {len(y)} labels and {len(marks)} marks of "
            "artifacts.",
        )
        signals.append(np.asarray(run.X, dtype=float)[:, : len(CHANNELS)].T)
        cues.append(offset + starts - 1 + round(CUE_AFTER_START * SFREQ))
        offset += len(run.X)
        labels.append(y)
        runs.append(np.full(len(y), str(len(runs) + 1)))
        artifacts.append(marks.astype(bool))
    expect(bool(signals), f"{path}: no run has trials.")
    return Session(
        path,
        np.concatenate(signals, axis=1),
        np.concatenate(cues),
        np.concatenate(labels),
        np.concatenate(runs),
        np.concatenate(artifacts),
    )


def _check(run: Any, path: Path) -> None:
    missing = [n for n in ("X", "trial", "y", "fs", "artifacts") if not hasattr(run, n)]
    expect(not missing, f"{path}: a run of 'data' has no field {', '.join(missing)}.")
    expect(float(run.fs) == SFREQ, f"{path}: sampled at {run.fs} Hz; expected {SFREQ:g} Hz.")
    shape = np.shape(run.X)
    expect(
        len(shape) == 2 and shape[1] == N_CHANNELS,
        f"{path}: 'X' of a run has shape {shape}; expected (samples, {N_CHANNELS}): 22 EEG and 3 "
        "EOG channels.",
    )
    classes = getattr(run, "classes", None)
    if classes is not None and np.size(classes):
        names = tuple(str(name).strip() for name in np.atleast_1d(classes))
        expect(names == CLASSES, f"{path}: classes {names}; expected {CLASSES}.")
