"""The user's own files, good and bad."""

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
from spdtokens.datasets.files import from_npz
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
    dataset = from_npz(tmp_path)
    assert dataset.is_covariance
    assert dataset.sfreq is None
    assert dataset.paradigm == "ssvep"
    assert dataset.stimulus_hz == (13.0, 17.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "lacks the array 'y'"),
        ({"sfreq": None}, "lacks the array 'sfreq'"),
        ({"y": np.array([0, 1, 2, 0, 1, 7])}, r"labels \[.*2.*7.*\] are not among the 2 classes"),
        ({"y": np.array(["left", "up"] * 3)}, r"labels \['up'\]"),
        ({"y": np.linspace(0, 1, 6)}, r"'0\.2'"),
        *(
            ({key: value}, f"{key}.* must be one number")
            for key in ("sfreq", "tmin", "highpass", "unit_in_volts")
            for value in (np.array([1.0, 2.0]), "fast")
        ),
        *(({"sfreq": value}, "sfreq must be one number") for value in (0.0, -100.0, np.nan)),
        ({"unit_in_volts": -1e-6}, "unit_in_volts must be"),
        *(
            ({"X": X}, "expected trials")
            for X in (
                np.ones(6),
                np.ones((6, 50)),
                np.ones((6, 3, 0)),
                np.ones((6, 3, 50), complex),
            )
        ),
        ({"C": np.ones((6, 3, 4))}, "expected trials"),
        *(({key: np.array([0, 1])}, f"{key}' must hold 6") for key in ("y", "run", "onset")),
        ({"y": np.array(0)}, "'y' must hold 6 entries"),
        ({"group": np.full(6, "a")}, "'group' must hold 6"),
        ({"classes": np.array("left")}, "'classes' must hold some different names"),
        ({"classes": np.array(["a", "a"])}, "'classes' must hold some different names"),
        ({"ch_names": np.array(["C3"])}, "'ch_names' must hold 3 different names"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_arrays(tmp_path: Path, changes: dict, message: str) -> None:
    """Many of them were found by fuzzing: an error of NumPy, or taken for good."""
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=message):
        from_npz(tmp_path).load("01", "1")


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no .npz files"):
        load_dataset(tmp_path)
    path = write(tmp_path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"not a zip", b""):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="cannot be read"):
            load_dataset(tmp_path)
    np.savez(path, X=np.array([{"evil": 1}], dtype=object))
    with pytest.raises(DataError, match="Python objects, which are refused"):
        load_dataset(tmp_path)
    path.rename(tmp_path / "trial.npz")
    with pytest.raises(DataError, match="does not tell subject and session"):
        load_dataset(tmp_path)
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(DataError, match="not a data set"):
        load_dataset(tmp_path / "x.txt")
    with pytest.raises(DataError, match="no data set 'nowhere'"):
        load_dataset("nowhere")


def test_arrays() -> None:
    X = RNG.standard_normal((4, 2, 30))
    dataset = from_arrays(X, ["b", "a", "b", "a"], sfreq=50.0)
    assert dataset.classes == ("a", "b")
    assert dataset.load("1", "1").y.tolist() == [1, 0, 1, 0]


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    """Without a check: NumPy gives bytes for it."""
    with zipfile.ZipFile(write(tmp_path), "a") as archive:
        archive.writestr("onset.npy", b"no array")
    with pytest.raises(DataError, match="'onset' is no array"):
        load_dataset(tmp_path)


def test_frequencies_that_are_none(tmp_path: Path) -> None:
    """Without a check: infinity."""
    write(tmp_path, classes=np.array(["9" * 400 + "Hz", "13Hz"]))
    assert load_dataset(tmp_path).stimulus_hz == (13.0,)


def test_fif_tags_in_circles(tmp_path: Path) -> None:
    """Without a check: MNE follows them until the memory is full."""
    info = mne.create_info(2, 100.0, "eeg")
    path = tmp_path / "x-epo.fif"
    mne.EpochsArray(np.ones((2, 2, 10)), info, verbose="error").save(path, verbose="error")
    contents = bytearray(path.read_bytes())
    # After the file id comes where the directory is: nowhere, and the next tag is this one.
    contents[36 + 12 : 36 + 20] = struct.pack(">ii", 36, -1)
    for name, packed in (("x-epo.fif", bytes), ("x-epo.fif.gz", gzip.compress)):
        (tmp_path / name).write_bytes(packed(bytes(contents)))
        with pytest.raises(DataError, match="in circles"):
            load_dataset(tmp_path / name)


@pytest.mark.parametrize("code", [0x110000, 0xD800])
@pytest.mark.parametrize("order", "<>")
def test_names_of_characters_that_do_not_exist(tmp_path: Path, code: int, order: str) -> None:
    """Without a check: an error of Python's own strings, or a message that cannot be printed."""
    wrong = np.array([65, 66, code], f"{order}u4").view(f"{order}U1")
    write(tmp_path, ch_names=wrong)
    with pytest.raises(DataError, match="'ch_names' contains what is not text"):
        load_dataset(tmp_path)


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
    with pytest.raises(DataError, match="lacks the array 'label'"):
        load_dataset(path, label_from="label")
    with pytest.raises(DataError, match="'ch_names' must hold one label per trial"):
        load_dataset(path, label_from="ch_names")
