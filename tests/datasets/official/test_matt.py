from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io

from spdtokens.datasets.official import load_bci2a, load_bcicha, load_mamem
from spdtokens.datasets.official.matt import segment_groups
from spdtokens.errors import DataError


def trials(n: int, channels: int, samples: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(n, channels, samples)).astype("f4")


def test_bci2a(tmp_path: Path) -> None:
    X, y = trials(288, 22, 563), np.arange(288) % 4
    scipy.io.savemat(tmp_path / "BCIC_S01_T.mat", {"x_train": X, "y_train": y})
    scipy.io.savemat(tmp_path / "BCIC_S01_E.mat", {"x_test": X[::-1], "y_test": y[::-1]})
    for crop, sfreq in (("matt", 125.0), ("paper-250", 250.0)):
        dataset = load_bci2a(tmp_path, crop=crop)  # type: ignore[arg-type]
        assert dict(dataset.index) == {"1": ("T", "E")}
        assert dataset.sfreq == sfreq
        # Whatever rate is assumed, the window is the 438 samples of the paper.
        samples = [round((t - dataset.tmin) * sfreq) for t in dataset.window]
        assert samples == [124, 562]
    recording = dataset.load("1", "E")
    np.testing.assert_array_equal(recording.X, X[::-1])
    np.testing.assert_array_equal(recording.y, y[::-1])
    assert dataset.unit_in_volts is None


def test_bci2a_refuses_other_files(tmp_path: Path) -> None:
    path = tmp_path / "BCIC_S01_T.mat"
    scipy.io.savemat(path, {"x_train": trials(288, 22, 438), "y_train": np.zeros(288)})
    with pytest.raises(DataError, match=r"BCIC_S01_T\.mat: trials of 438 samples"):
        load_bci2a(tmp_path)
    scipy.io.savemat(path, {"x_train": trials(10, 22, 562), "y_train": np.zeros(10)})
    with pytest.raises(DataError, match=r"shape \(10, 22, 562\).*expected \(288, 22, samples\)"):
        load_bci2a(tmp_path).load("1", "T")
    scipy.io.savemat(path, {"x_train": trials(288, 22, 562), "y_train": 1 + np.arange(288) % 4})
    with pytest.raises(DataError, match=r"between 0 and 3, found \[4\]"):
        load_bci2a(tmp_path).load("1", "T")
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(DataError, match="damaged or cut short"):
        load_bci2a(tmp_path)


def test_bcicha(tmp_path: Path) -> None:
    X, y = trials(340, 56, 160), np.arange(340) % 2
    scipy.io.savemat(tmp_path / "Data_S02_Sess.mat", {"x_test": X, "y_test": y})
    dataset = load_bcicha(tmp_path)
    assert dict(dataset.index) == {"2": ("1", "2", "3", "4", "5")}
    assert dataset.sfreq == 128.0
    np.testing.assert_array_equal(dataset.load("2", "4").X, X[180:240])
    np.testing.assert_array_equal(dataset.load("2", "5").X, X[240:])
    np.testing.assert_array_equal(dataset.load("2", "5").y, y[240:])


def test_mamem(tmp_path: Path) -> None:
    X, y = trials(500, 8, 250), np.repeat(np.arange(125) % 5, 4)
    scipy.io.savemat(tmp_path / "U001.mat", {"x_test": X, "y_test": y})
    dataset = load_mamem(tmp_path)
    assert (dataset.sfreq, dataset.window) == (250.0, (0.0, 1.0))
    recording = dataset.load("1", "3")
    np.testing.assert_array_equal(recording.X, X[200:300])
    np.testing.assert_array_equal(recording.y, y[200:300])
    np.testing.assert_array_equal(recording.group, np.repeat(np.arange(25), 4))


def test_segments_that_cannot_be_told_apart_stay_together() -> None:
    trial = np.arange(25) * 3 % 5
    np.testing.assert_array_equal(segment_groups(np.tile(trial, 4)), np.tile(np.arange(25), 4))
    shuffled = np.random.default_rng(0).permutation(np.repeat(trial, 4))
    np.testing.assert_array_equal(segment_groups(shuffled), np.zeros(100))
