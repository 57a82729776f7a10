from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from spdtokens.datasets.official import load_mamem, mamem
from spdtokens.datasets.official.mamem import segment_groups
from spdtokens.errors import DataError

FIRST, STEP, N = 200, 2500, 25  # a trial every 10 s
LENGTH = FIRST + N * STEP
LABELS = 1 + np.arange(N) * 3 % 5
ROWS = np.array([int(name[1:]) - 1 for name in mamem.SITES.values()])


def signal() -> np.ndarray:
    """Small to write: all electrodes but the eight are flat."""
    eeg = np.zeros((257, LENGTH), dtype="f4")
    eeg[ROWS] = np.random.default_rng(2).normal(0, 10, (8, LENGTH))
    return eeg


def flashes(n: int = N) -> np.ndarray:
    """Flashes of the screen in trains of 5 s, after a false start; samples count from one."""
    samples = [20, 40, 60]
    for i in range(n):
        samples += range(FIRST + i * STEP + 1, FIRST + i * STEP + 1251, 25)
    cell = np.empty((4, len(samples)), dtype=object)
    for column, sample in enumerate(samples):
        # The false start lies well before the first trial in time.
        time = sample * 4.0 - (10_000 if sample < FIRST else 0)
        cell[:, column] = ["DIN1", time, 0, sample]
    return cell


def save(folder: Path, name: str = "T001a", **changes: Any) -> Path:
    labels = np.empty((1, N), dtype=object)
    labels[0] = list(LABELS)
    path = folder / f"{name}.mat"
    content = {"eeg": signal(), "DIN_1": flashes(), "labels": labels} | changes
    scipy.io.savemat(path, content, do_compression=True)
    return path


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mamem")
    save(folder)
    for other in ("T001x", "T001b", "T011e"):
        (folder / f"{other}.mat").touch()
    return folder


def test_whole_trials(official: Path) -> None:
    dataset = load_mamem(official)
    assert dict(dataset.index) == {"1": ("1", "2"), "11": ("5",)}  # x is the adaptation
    assert (dataset.sfreq, dataset.tmin, dataset.window) == (250.0, -0.5, (0.0, 5.0))
    assert dataset.stimulus_hz == (6.66, 7.5, 8.57, 10.0, 12.0)
    assert dataset.ch_names == ("E97", "E109", "E119", "E140", "E161", "E116", "E126", "E150")
    recording = dataset.load("1", "1")
    eeg = signal()[ROWS]
    starts = FIRST + STEP * np.arange(N)
    np.testing.assert_array_equal(recording.X, [eeg[:, s - 125 : s + 1375] for s in starts])
    np.testing.assert_array_equal(recording.y, LABELS - 1)
    np.testing.assert_array_equal(recording.group, np.arange(N))
    assert dataset.unit_in_volts == 1e-6


def toolbox_trials(eeg: np.ndarray, din: np.ndarray) -> np.ndarray:
    """MAMEM's Session.m, split, line by line; samples count from one."""
    times, samples = din[1], din[3]
    first, ranges = samples[0], []
    for i in range(1, din.shape[1]):
        if times[i] - times[i - 1] > 2000:
            if samples[i - 1] - first > 382:
                ranges.append((first, first + 1249))
            first = samples[i]
    ranges.append((first, first + 1249))
    return np.array([eeg[:, a - 1 : b] for a, b in ranges])


def broken_off() -> np.ndarray:
    """The flashes of the last trial are recorded for one second only."""
    whole = flashes()
    return whole[:, : -(1250 - 250) // 25]


@pytest.mark.parametrize("din", [flashes(), broken_off()], ids=["whole", "broken off"])
def test_trials_are_those_of_the_toolbox(tmp_path: Path, din: np.ndarray) -> None:
    save(tmp_path, DIN_1=din)
    recording = load_mamem(tmp_path).load("1", "1")
    np.testing.assert_array_equal(
        recording.X[..., 125:1375], toolbox_trials(signal(), din)[:, ROWS]
    )
    np.testing.assert_array_equal(recording.y, LABELS - 1)


@pytest.mark.parametrize("din", [flashes(), broken_off()], ids=["whole", "broken off"])
def test_moabb_is_one_sample_late(tmp_path: Path, din: np.ndarray) -> None:
    moabb = pytest.importorskip("moabb.datasets.ssvep_mamem")
    save(tmp_path, DIN_1=din)
    recording = load_mamem(tmp_path).load("1", "1")
    stimulus = moabb.mamem_event(np.zeros((257, LENGTH)), din, labels=LABELS)[-1]
    theirs = np.flatnonzero(stimulus)
    np.testing.assert_array_equal(theirs, recording.about["onset"] + 125 + 1)
    np.testing.assert_array_equal(stimulus[theirs], recording.y + 1)


def test_segments_of_a_trial_share_a_group(official: Path) -> None:
    dataset = load_mamem(official, segments=4, channels=["E126", "E97"])
    assert dataset.window == (0.0, 1.0)
    recording = dataset.load("1", "1")
    assert recording.X.shape == (100, 2, 500)
    eeg = signal()[[125, 96]]
    at = FIRST + 2 * STEP + 250 * 4  # fourth segment of the third trial
    np.testing.assert_array_equal(recording.X[11][:, 125:375], eeg[:, at : at + 250])
    np.testing.assert_array_equal(recording.group, np.repeat(np.arange(N), 4))
    np.testing.assert_array_equal(recording.y, np.repeat(LABELS - 1, 4))


def test_the_electrodes_lie_where_they_are_said_to() -> None:
    import mne

    place = mne.channels.make_standard_montage("GSN-HydroCel-256").get_positions()["ch_pos"]
    at = {site: place[electrode] for site, electrode in mamem.SITES.items()}
    for left, right in (("PO7", "PO8"), ("PO3", "PO4"), ("O1", "O2")):
        np.testing.assert_allclose(at[left] * [-1, 1, 1], at[right], atol=2e-3)
        assert at[left][0] < 0
    for middle in ("POz", "Oz"):
        assert abs(at[middle][0]) < 1e-3
    assert all(site[1] < -0.06 for site in at.values())  # at the back of the head


def test_bad_options(official: Path) -> None:
    with pytest.raises(DataError, match=r"segments .* got 5 from 1 s"):
        load_mamem(official, segments=5)
    with pytest.raises(DataError, match="Oz"):
        load_mamem(official, channels=["Oz"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eeg": np.zeros((14, 100))}, r"'eeg'.*\(14, 100\)"),
        ({"eeg": np.zeros((257, 100), "f4")}, "trial 1 of 25 .*200 to 1450"),
        ({"labels": np.arange(25) % 6}, r"between 1 and 5.*\[0\.0\]"),
        ({"labels": LABELS[:-1]}, "DIN_1.* got 25 and 24"),
        ({"DIN_1": flashes(7)}, "DIN_1.* got 7 and 25"),
        ({"DIN_1": np.zeros((2, 7))}, r"'DIN_1'.*\(2, 7\)"),
        ({"DIN_1": np.full((4, 7), "x", object)}, "row 2 of 'DIN_1'"),
    ],
)
def test_bad_files(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    save(tmp_path, **({"eeg": np.zeros((257, 300), "f4")} | changes))
    with pytest.raises(DataError, match=message) as caught:
        load_mamem(tmp_path).load("1", "1")
    assert "T001a.mat" in str(caught.value)


def test_segments_that_cannot_be_told_apart_stay_together() -> None:
    trial = np.arange(25) * 3 % 5
    np.testing.assert_array_equal(segment_groups(np.tile(trial, 4)), np.tile(np.arange(25), 4))
    shuffled = np.random.default_rng(0).permutation(np.repeat(trial, 4))
    np.testing.assert_array_equal(segment_groups(shuffled), np.zeros(100))
