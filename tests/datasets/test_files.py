"""Trials in .npz files, valid and invalid."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import mne
import numpy as np
import pytest

from spdtokens.datasets import from_arrays, load_dataset
from spdtokens.errors import DataError

RNG = np.random.default_rng(0)


def write(folder: Path, name: str = "sub-01_ses-1.npz", **changes) -> Path:
    arrays = {
        "X": RNG.standard_normal((6, 3, 50)).astype(np.float32),
        "y": np.array([0, 1, 0, 1, 0, 1]),
        "classes": np.array(["left", "right"]),
        "sfreq": 100.0,
        "ch_names": np.array(["C3", "Cz", "C4"]),
        "tmin": -0.5,
    } | changes
    path = folder / name
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    return path


def test_what_is_slow_to_import_is_imported_late() -> None:
    script = "import sys, spdtokens.datasets; print({m.split('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for name in ("mne", "torch", "pandas", "matplotlib", "scipy", "moabb"):
        assert f"'{name}'" not in run.stdout


def test_npz_folder(tmp_path: Path) -> None:
    for name in ("sub-01_ses-1", "sub-01_ses-2", "sub-02_ses-1"):
        write(tmp_path, f"{name}.npz")
    dataset = load_dataset(tmp_path)
    assert dataset.index == {"01": ("1", "2"), "02": ("1",)}
    assert dataset.classes == ("left", "right")
    assert dataset.ch_names == ("C3", "Cz", "C4")
    assert (dataset.sfreq, dataset.tmin, dataset.window) == (100.0, -0.5, (-0.5, 0.0))
    assert len(np.unique(dataset.load("01", "2").group)) == 6


def test_covariances_and_stimuli(tmp_path: Path) -> None:
    write(
        tmp_path, X=None, C=np.stack([np.eye(3)] * 6), classes=np.array(["13Hz", "17 Hz", "rest"])
    )
    dataset = load_dataset(tmp_path)
    assert dataset.is_covariance
    assert dataset.sfreq is None
    assert dataset.paradigm == "ssvep"
    assert dataset.stimulus_hz == (13.0, 17.0)


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        *(({name: None}, f"'{name}'") for name in ("y", "sfreq")),
        ({"y": np.array([0, 1, 2, 0, 1, 7])}, "'y' .*got 2, 7"),
        ({"y": np.array(["left", "up"] * 3)}, "'y' .*got up"),
        ({"y": np.linspace(0, 1, 6)}, r"got 0\.0, 0\.2"),
        *(
            ({key: value}, f"{key} must be a number")
            for key in ("sfreq", "tmin", "highpass", "unit_in_volts")
            for value in (np.array([1.0, 2.0]), "fast")
        ),
        *(({"sfreq": value}, "sfreq must be a number") for value in (0.0, -100.0, np.nan)),
        ({"unit_in_volts": -1e-6}, "unit_in_volts must be"),
        *(
            ({"X": np.ones(shape, dtype)}, "must contain trials")
            for shape, dtype in ((6, "f8"), ((6, 50), "f8"), ((6, 3, 0), "f8"), ((6, 3, 5), "c8"))
        ),
        ({"C": np.ones((6, 3, 4))}, "must contain trials"),
        *(({key: np.array([0, 1])}, f"{key}' must be 6") for key in ("y", "run", "onset")),
        ({"y": np.array(0)}, "'y' must be 6"),
        ({"group": np.full(6, "a")}, "'group' must be 6"),
        *(({"classes": np.array(names)}, "'classes'") for names in ("left", ["a", "a"])),
        ({"ch_names": np.array(["C3"])}, "'ch_names'.* 3"),
        *(  # characters that do not exist
            ({"ch_names": np.array([65, 66, code], f"{order}u4").view(f"{order}U1")}, "'ch_names'")
            for code in (0x110000, 0xD800)
            for order in "<>"
        ),
        ({"X": np.array([{"evil": 1}], dtype=object)}, "cannot be read"),
    ],
)
def test_bad_arrays(tmp_path: Path, changes: dict, culprit: str) -> None:
    """Many were found by fuzzing: they raised errors of NumPy, or were accepted."""
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=culprit):
        load_dataset(tmp_path).load("01", "1")


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{tmp_path.name} has no recordings"):
        load_dataset(tmp_path)
    path = write(tmp_path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"not a zip", b""):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=rf"{path.name} cannot be read"):
            load_dataset(tmp_path)
    with zipfile.ZipFile(write(tmp_path), "a") as archive:
        archive.writestr("onset.npy", b"no array")  # NumPy gives bytes for it
    with pytest.raises(DataError, match="'onset'"):
        load_dataset(tmp_path)
    (tmp_path / "x.txt").write_text("hello")
    for wrong in (tmp_path / "x.txt", "nowhere"):
        with pytest.raises(DataError, match=Path(wrong).name):
            load_dataset(wrong)


def test_arrays() -> None:
    X = RNG.standard_normal((4, 2, 30))
    dataset = from_arrays(X, ["b", "a", "b", "a"], sfreq=50.0)
    assert dataset.classes == ("a", "b")
    assert dataset.load("1", "1").y.tolist() == [1, 0, 1, 0]


def test_frequencies_that_are_none(tmp_path: Path) -> None:
    """Digits beyond the range of floats gave infinity."""
    write(tmp_path, classes=np.array(["9" * 400 + "Hz", "13Hz"]))
    assert load_dataset(tmp_path).stimulus_hz == (13.0,)


def test_fif_tags_in_circles(tmp_path: Path) -> None:
    """MNE follows them until the memory is full."""
    info = mne.create_info(2, 100.0, "eeg")
    path = tmp_path / "x-epo.fif"
    mne.EpochsArray(np.ones((2, 2, 10)), info, verbose="error").save(path, verbose="error")
    contents = bytearray(path.read_bytes())
    # After the file id comes where the directory is: nowhere, and the next tag is this one.
    contents[36 + 12 : 36 + 20] = struct.pack(">ii", 36, -1)
    for name, packed in (("x-epo.fif", bytes), ("x-epo.fif.gz", gzip.compress)):
        (tmp_path / name).write_bytes(packed(bytes(contents)))
        with pytest.raises(DataError, match="cycle"):
            load_dataset(tmp_path / name)


def test_one_npz_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    X = rng.standard_normal((6, 3, 200))
    np.savez(
        path,
        X=X,
        y=["l", "r", "x"] * 2,
        sfreq=100.0,
        ch_names=["C3", "Cz", "C4"],
        tmin=-0.5,
        unit_in_volts=1e-6,
    )
    dataset = load_dataset(
        path, events={"left": "l", "right": "r"}, channels=("C4", "C3"), tmin=0.0, tmax=1.0
    )
    trials = dataset.load("1", "1")
    assert trials.y.tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(trials.X, X[[0, 1, 3, 4]][:, [2, 0], 50:150])
    assert dataset.unit_in_volts == 1e-6
    for wrong in ("label", "ch_names"):
        with pytest.raises(DataError, match=f"'{wrong}'"):
            load_dataset(path, label_from=wrong)


@pytest.mark.parametrize("covariances", [False, True])
def test_the_unit_of_files_that_do_not_state_it(tmp_path: Path, covariances: bool) -> None:
    changes = {"X": None, "C": np.stack([np.eye(3)] * 6)} if covariances else {}
    write(tmp_path, **changes)
    assert load_dataset(tmp_path).unit_in_volts is None
    assert load_dataset(tmp_path, unit="uV").unit_in_volts == 1e-6
    assert load_dataset(tmp_path, unit="mv").unit_in_volts == 1e-3
    write(tmp_path, unit_in_volts=1e-6, **changes)
    assert load_dataset(tmp_path, unit="uV").unit_in_volts == 1e-6
    with pytest.raises(DataError, match=r"sub-01_ses-1\.npz.*1e-06 V.*unit is 1 V"):
        load_dataset(tmp_path, unit="V")
    with pytest.raises(DataError, match="furlong"):
        load_dataset(tmp_path, unit="furlong")


def test_the_unit_of_named_data_sets() -> None:
    assert load_dataset("sim-ssvep", unit="V").unit_in_volts == 1.0
    with pytest.raises(DataError, match=r"sim-ssvep.*unit is 1e-06 V"):
        load_dataset("sim-ssvep", unit="uV")


def test_unknown_options_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    for name, own in (("sim-mi", "channels"), ("mamem", "segments"), (str(tmp_path), "tmin")):
        with pytest.raises(DataError) as caught:
            load_dataset(name, segment=4)
        for word in (name, "'segment'", own, "unit"):
            assert word in str(caught.value)
