from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spdtokens.datasets.official import bcicha, load_bcicha
from spdtokens.errors import DataError

HEADER = ["Time", *bcicha.CHANNELS, "EOG", "FeedBackEvent"]
HEADER[HEADER.index("PO8")] = "P08"  # so do the official files
FIRST, STEP = 50, 260
LENGTH = FIRST + 60 * STEP


def table(n_events: int = 60, sfreq: float = 200.0, length: int = LENGTH) -> np.ndarray:
    signal = np.random.default_rng(1).normal(0, 30, (length, 57)).round(2)
    event = np.zeros(length)
    event[FIRST + STEP * np.arange(n_events)] = 1
    return np.column_stack([np.arange(length) / sfreq, signal, event])


def save(folder: Path, name: str, rows: np.ndarray, header: list[str] = HEADER) -> Path:
    path = folder / name
    formats = ["%.4f", *["%.2f"] * (rows.shape[1] - 2), "%d"]
    np.savetxt(path, rows, fmt=formats, delimiter=",", header=",".join(header), comments="")
    return path


def save_labels(folder: Path, sessions: list[str], n: int = 60) -> np.ndarray:
    labels = np.arange(n) % 3 == 0
    lines = ["IdFeedBack,Prediction"]
    for session in sessions:
        lines += [f"{session}_FB{i + 1:03d},{int(label)}" for i, label in enumerate(labels)]
    (folder / "TrainLabels.csv").write_text("\n".join(lines) + "\n")
    return labels.astype(int)


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bcicha")
    (folder / "train").mkdir()
    save(folder / "train", "Data_S02_Sess01.csv", table())
    save(folder / "train", "Data_S11_Sess02.csv", table(n_events=3, length=1000))
    (folder / "train" / "Data_S01_Sess01.csv").write_text("a test subject, without labels")
    save_labels(folder, ["S02_Sess01", "S11_Sess02"])
    return folder


def test_kaggle_files(official: Path) -> None:
    dataset = load_bcicha(official)
    assert dict(dataset.index) == {"2": ("1",), "11": ("2",)}
    assert (dataset.sfreq, dataset.tmin, dataset.window) == (200.0, -0.2, (0.0, 1.25))
    assert dataset.classes == ("error", "correct")
    assert len(dataset.ch_names) == 56
    recording = dataset.load("2", "1")
    signal = table()[:, 1:57].T
    onsets = FIRST + STEP * np.arange(60)
    cut = np.array([signal[:, at - 40 : at + 260] for at in onsets])
    np.testing.assert_allclose(recording.X, cut, rtol=1e-6)
    np.testing.assert_array_equal(recording.y, np.arange(60) % 3 == 0)
    np.testing.assert_array_equal(recording.group, np.arange(60))
    assert dataset.unit_in_volts == 1e-6


def test_a_margin_beyond_the_end_repeats_the_last_sample(tmp_path: Path) -> None:
    rows = table()[: FIRST + 59 * STEP + 255]  # 1.275 s after the last feedback
    save(tmp_path, "Data_S02_Sess01.csv", rows)
    save_labels(tmp_path, ["S02_Sess01"])
    last = load_bcicha(tmp_path).load("2", "1").X[-1]
    np.testing.assert_allclose(last[:, 40 + 254], rows[-1, 1:57], rtol=1e-6)
    np.testing.assert_array_equal(last[:, 295:], np.repeat(last[:, 294:295], 5, axis=1))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, r"TrainLabels\.csv"),
        ("IdFeedBack,Prediction\nS02_Sess02_FB001,1\n", "S02_Sess01_FB001"),
        ("Id,Label\n1,2\n", r"TrainLabels\.csv.*IdFeedBack"),
        ("", r"TrainLabels\.csv"),
        ("IdFeedBack,Prediction\nS02_Sess01_FB001,2\n", r"between 0 and 1.*\[2\.0\]"),
        ("IdFeedBack,Prediction\nS02_Sess01_FB001,right\n", "Prediction must be numbers"),
    ],
)
def test_missing_labels(tmp_path: Path, labels: str | None, message: str) -> None:
    save(tmp_path, "Data_S02_Sess01.csv", table())
    if labels is not None:
        (tmp_path / "TrainLabels.csv").write_text(labels)
    with pytest.raises(DataError, match=message):
        load_bcicha(tmp_path).load("2", "1")


def test_damaged_session_files(tmp_path: Path) -> None:
    save_labels(tmp_path, ["S02_Sess01"])
    path = save(tmp_path, "Data_S02_Sess01.csv", table())
    whole = path.read_text()
    save(tmp_path, path.name, table()[: FIRST + 59 * STEP + 240])
    ends_early = path.read_text()
    save(tmp_path, path.name, table(sfreq=600.0))
    for contents, message in (
        (ends_early, "trial 60 of 60"),
        (whole[:-20], "61 feedback events"),  # in the middle of a line
        (whole[: len(whole) // 2], "must have 60 feedback events"),
        (whole.replace(".", "x", 200), "cannot be read"),
        (whole.replace(HEADER[5], "XX", 1), HEADER[5]),
        (path.read_text(), r"0\.0017"),
        ("", "cannot be read"),
    ):
        path.write_text(contents)
        with pytest.raises(DataError, match=f"Data_S02_Sess01.csv.*{message}"):
            load_bcicha(tmp_path).load("2", "1")
