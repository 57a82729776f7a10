"""Recordings as a lab has them, made from a simulator: trials one after another, with events."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

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


FLOAT32, MICROVOLT = 16, 4275  # of GDF


def write_gdf(
    path: Path,
    names: Sequence[str],
    microvolts: NDArray[np.float64],
    sfreq: int,
    events: Sequence[tuple[int, int]],
) -> None:
    """GDF 2.1, as small as MNE can read it; events are (sample counted from zero, code)."""
    n, samples = microvolts.shape
    limits = np.tile(np.array([[-1e4], [1e4], [-1e4], [1e4]]), (1, n))
    fixed = b"GDF 2.10".ljust(8) + b"X X".ljust(66) + bytes(10 + 4) + b"test".ljust(64)
    fixed += bytes(4 + 12 + 8 + 8)  # place, date, birthday
    fixed += struct.pack("<H", n + 1) + bytes(6 + 8 + 6 + 6 + 12 + 12)  # header in 256-byte blocks
    fixed += struct.pack("<qIIHH", samples, 1, sfreq, n, 0)
    assert len(fixed) == 256
    channels = b"".join(name.encode().ljust(16) for name in names)
    channels += bytes(80 * n) + bytes(6 * n)
    channels += np.full(n, MICROVOLT, "<u2").tobytes()
    channels += limits.astype("<f8").tobytes()
    channels += bytes(68 * n) + np.repeat([100.0, 0.5, 50.0], n).astype("<f4").tobytes()
    channels += np.repeat([1, FLOAT32], n).astype("<i4").tobytes()
    channels += bytes(12 * n) + bytes(n) + bytes(19 * n)
    assert len(channels) == 256 * n
    table = struct.pack("<B", 1) + struct.pack("<I", len(events))[:3] + struct.pack("<f", sfreq)
    table += np.array([at + 1 for at, _ in events], "<u4").tobytes()
    table += np.array([code for _, code in events], "<u2").tobytes()
    path.write_bytes(fixed + channels + microvolts.T.astype("<f4").tobytes() + table)
