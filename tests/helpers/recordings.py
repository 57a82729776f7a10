"""Recordings as a lab has them, made from a simulator: trials one after another, with events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mne
import numpy as np

from spdtokens import load_dataset

#: Seconds of signal between trials.
PAUSE = 0.5


def simulated(
    name: str = "sim-mi", session: int = 0, n: int = 60, classes: tuple[str, ...] = ()
) -> tuple[mne.io.RawArray, Any]:
    """A recording of the first trials of a simulated session, and their classes.

    Annotations say ``cue/CLASS`` where a trial begins.
    """
    data = load_dataset(name)
    subject = data.subjects[0]
    trials = data.load(subject, data.sessions(subject)[session])
    wanted = [data.classes.index(c) for c in classes or data.classes]
    kept = np.flatnonzero(np.isin(trials.y, wanted))[:n]
    X, y = trials.X[kept] * (data.unit_in_volts or 1e-6), trials.y[kept]
    assert data.sfreq is not None
    # A pause that joins two trials without a jump.
    pause = round(PAUSE * data.sfreq)
    pieces = []
    for trial, after in zip(X, [*X[1:], X[0]], strict=True):
        pieces += [trial, np.linspace(trial[:, -1], after[:, 0], pause, axis=1)]
    info = mne.create_info(list(data.ch_names), data.sfreq, "eeg")
    raw = mne.io.RawArray(np.concatenate(pieces, axis=1), info, verbose="error")
    length = (X.shape[-1] + pause) / data.sfreq
    onsets = np.arange(len(X)) * length - data.tmin
    names = [f"cue/{data.classes[label]}" for label in y]
    raw.set_annotations(mne.Annotations(onsets, 0.0, names))
    return raw, [data.classes[label] for label in y]


def write_edf(path: Path, raw: mne.io.RawArray) -> None:
    mne.export.export_raw(path, raw, physical_range="auto", verbose="error")
