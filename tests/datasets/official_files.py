"""Complete sessions in the formats that the authors of the paper's data sets publish.

Signals are noise in whole microvolts with little between trials. Some channels are stronger in
trials of some classes, so covariances tell the classes apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
from numpy.typing import NDArray

from spdtokens.datasets.official import bci2a, bcicha, mamem

Signal = NDArray[np.int16]


def informative(
    rng: np.random.Generator, y: NDArray[np.int64], n_channels: int, step: int, before: int = 0
) -> Signal:
    """Noise (n_channels, before + trials x step): in class c every fifth channel from c doubles."""
    noise = rng.standard_normal((len(y), n_channels, step), dtype=np.float32)
    louder = np.arange(n_channels) % 5 == y[:, None]
    signal = np.concatenate(noise * np.where(louder, 16, 8)[..., None], axis=1)
    return np.pad(signal, ((0, 0), (before, 0))).round().astype(np.int16)


def shuffled(rng: np.random.Generator, *counts: int) -> NDArray[np.int64]:
    """Labels, of each class as many as counted, in random order."""
    return rng.permutation(np.repeat(np.arange(len(counts)), counts))


def write_bci2a(folder: Path, subjects: Iterable[int]) -> None:
    """Both sessions of subjects of BCI Competition IV 2a, as BNCI publishes them (.mat)."""
    folder.mkdir(parents=True, exist_ok=True)
    each, step = bci2a.TRIALS // bci2a.RUNS, 1010  # windows of 4 s do not overlap
    for subject in subjects:
        for session in "TE":
            rng = np.random.default_rng([subject, ord(session)])
            runs = []
            for _ in range(bci2a.RUNS):
                y = shuffled(rng, *[each // 4] * 4)
                eeg = informative(rng, y, len(bci2a.CHANNELS), step, before=500)
                eog = np.zeros((3, eeg.shape[1]), dtype=np.int16)
                trial = 1 + step * np.arange(each)  # counted from one; the cue follows 2 s later
                about = {"classes": np.array(bci2a.CLASSES, dtype=object), "fs": 250}
                content = {"X": np.vstack([eeg, eog]).T, "trial": trial, "y": y + 1}
                runs.append(content | about | {"artifacts": np.zeros(each)})
            cell = np.empty((1, len(runs)), dtype=object)
            cell[0] = runs
            path = folder / f"A0{subject}{session}.mat"
            scipy.io.savemat(path, {"data": cell}, do_compression=True)


def write_bcicha(folder: Path, subjects: Iterable[int]) -> None:
    """The five sessions of subjects of the BCI Challenge, as Kaggle publishes them (.csv)."""
    (folder / "train").mkdir(parents=True, exist_ok=True)
    step = 260  # windows of 250 samples do not overlap
    lines = ["IdFeedBack,Prediction"]
    for subject in subjects:
        for session, n in bcicha.FEEDBACKS.items():
            rng = np.random.default_rng([subject, int(session)])
            y = shuffled(rng, round(0.3 * n), n - round(0.3 * n))
            eeg = informative(rng, y, len(bcicha.CHANNELS), step, before=50)
            table = pd.DataFrame(eeg.T, columns=list(bcicha.CHANNELS)).rename(
                columns={"PO8": "P08"}  # so do the official files
            )
            table.insert(0, "Time", np.round(np.arange(len(table)) / 200, 3))
            table["EOG"] = 0
            table["FeedBackEvent"] = 0
            table.loc[50 + step * np.arange(n), "FeedBackEvent"] = 1
            name = f"S{subject:02d}_Sess0{session}"
            table.to_csv(folder / "train" / f"Data_{name}.csv", index=False)
            lines += [f"{name}_FB{i + 1:03d},{label}" for i, label in enumerate(y)]
    (folder / "TrainLabels.csv").write_text("\n".join(lines) + "\n")


def write_mamem(folder: Path, subjects: Iterable[int]) -> None:
    """The five sessions of subjects of MAMEM's data set II, as figshare has them (.mat)."""
    folder.mkdir(parents=True, exist_ok=True)
    before, step = 200, 1875  # 5 s of flicker and a pause of 2.5 s
    for subject in subjects:
        for session in "abcde":
            rng = np.random.default_rng([subject, ord(session)])
            y = shuffled(rng, *[5] * 5)
            eight = informative(rng, y, len(mamem.SITES), step, before)
            t = np.arange(step) / 250
            waves = [4 * np.sin(2 * np.pi * mamem.FREQUENCIES[label] * t) for label in y]
            eight[:, before:] += np.concatenate(waves).round().astype(np.int16)
            eeg = np.zeros((257, eight.shape[1]), dtype=np.int16)
            eeg[[int(name[1:]) - 1 for name in mamem.SITES.values()]] = eight
            starts = before + 1 + step * np.arange(len(y))  # counted from one
            samples = (starts[:, None] + np.arange(0, 1250, 25)).ravel()
            din = np.empty((4, len(samples)), dtype=object)
            for column, sample in enumerate(samples.tolist()):
                din[:, column] = ["DIN1", sample * 4.0, 0, sample]
            labels = np.empty((1, len(y)), dtype=object)
            labels[0] = (y + 1).tolist()
            path = folder / f"T{subject:03d}{session}.mat"
            content = {"eeg": eeg, "DIN_1": din, "labels": labels}
            scipy.io.savemat(path, content, do_compression=True)
