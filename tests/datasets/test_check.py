from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spdtokens.datasets import from_arrays, load_dataset
from spdtokens.datasets.check import RecordingCheck, check_recording, describe

SFREQ = 250.0
NAMES = ("Fz", "C3", "Cz", "C4")
BOTH = np.arange(20) % 2


def check(
    change: Callable[[Any], Any] = np.asarray, y: Any = BOTH, covariances: bool = False
) -> RecordingCheck:
    X, rate = change(np.random.default_rng(0).standard_normal((20, 4, 500))), SFREQ
    if covariances:
        X, rate = X @ X.transpose(0, 2, 1) / 500, None
    dataset = from_arrays(X, y, sfreq=rate, ch_names=NAMES, classes=("a", "b", "c")[: max(y) + 1])
    return check_recording(dataset, dataset.load("1", "1"))


@pytest.mark.parametrize("covariances", [False, True])
def test_clean(covariances: bool) -> None:
    found = check(covariances=covariances)
    assert found.problems == []
    assert (found.trials, found.shape[0], found.rank) == (20, 4, 4)
    assert found.classes == {"a": 10, "b": 10}
    assert 0.9 < found.rms < 1.1


def put(value: float, *where: Any) -> Callable[[Any], Any]:
    def change(X: Any) -> Any:
        X[where] = value
        return X

    return change


@pytest.mark.parametrize(
    ("change", "y", "said"),
    [
        (put(np.nan, 4, 1, 3), BOTH, "NaN or infinity in 1 trial, first in trial 4"),
        (put(np.nan), BOTH, "NaN or infinity in 20 trials"),
        (put(1.0, slice(5), 2), BOTH, "Cz is flat in 25% of trials"),
        (lambda X: X * [[1], [1], [1], [50]], BOTH, "C4 has 49 times"),
        (lambda X: X + 3 * np.sin(0.4 * np.pi * np.arange(500)), BOTH, "line noise at 50 Hz"),
        (lambda X: X - X.mean(1, keepdims=True), BOTH, "rank 3 of 4"),
        (np.asarray, 2 * BOTH, "no trial of class c"),
    ],
)
def test_problems_are_named(change: Any, y: Any, said: str) -> None:
    assert said in "; ".join(check(change, y).problems)


def test_descriptions() -> None:
    text = describe(load_dataset("sim-ssvep"))
    for words in ("11 subjects, 5 sessions each", "8 channels: PO7", "256", "6.66, 7.5"):
        assert words in text
    assert "covariance matrices" in describe(from_arrays(np.stack([np.eye(2)] * 4), [0, 1, 0, 1]))
