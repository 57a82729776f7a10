from __future__ import annotations

import numpy as np

from spdtokens.datasets import from_arrays
from spdtokens.datasets.check import check_recording

SFREQ = 250.0
NAMES = ("Fz", "C3", "Cz", "C4")


def check(change=lambda _: None, y=None):
    X = np.random.default_rng(0).standard_normal((20, 4, 500))
    change(X)
    dataset = from_arrays(
        X, np.arange(20) % 2 if y is None else y, sfreq=SFREQ, ch_names=NAMES, classes=("a", "b")
    )
    return check_recording(dataset, dataset.load("1", "1"))


def test_clean() -> None:
    found = check()
    assert found.problems == []
    assert (found.trials, found.shape, found.rank) == (20, (4, 500), 4)
    assert found.classes == {"a": 10, "b": 10}
    assert 0.9 < found.rms < 1.1


def problems(change=lambda _: None, y=None) -> str:
    return "; ".join(check(change, y).problems)


def test_problems_are_named() -> None:
    def nan(X):
        X[4, 1, 3] = np.nan

    def flat(X):
        X[:5, 2] = 1.0

    def loud(X):
        X[:, 3] *= 50

    def line(X):
        X += 3 * np.sin(2 * np.pi * 50 * np.arange(500) / SFREQ)

    def reference(X):
        X -= X.mean(1, keepdims=True)

    assert "NaN or infinity in 1 trial, first in trial 4" in problems(nan)
    assert "Cz is flat in 25% of trials" in problems(flat)
    assert "times as loud as the others" in problems(loud)
    assert "line noise at 50 Hz" in problems(line)
    assert "rank 3 of 4" in problems(reference)
    assert "only one class is present: a" in problems(y=np.zeros(20, int))


def test_all_nan() -> None:
    def everything(X):
        X[:] = np.nan

    assert "NaN or infinity in 20 trials" in problems(everything)
