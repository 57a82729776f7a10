"""What every reader must do: keep all that a file tells of its trials, and give floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mne
import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from spdtokens import evaluate
from spdtokens.datasets import Dataset, Selection, from_arrays, load_dataset, select
from spdtokens.datasets.official import bci2a, load_bci2a, load_bcicha, load_mamem
from spdtokens.datasets.official import moabb as moabb_module
from spdtokens.errors import LeakError
from spdtokens.inference.predicting import predict
from tests.datasets import test_bci2a, test_bcicha, test_mamem, test_moabb
from tests.datasets import test_recordings as own
from tests.helpers.recordings import write_edf
from tests.inference.helpers import made

N = 12
#: Metadata that a file may contain.
METADATA = {
    "run": np.repeat(["a", "b"], N // 2),
    "group": np.arange(N) // 2,
    "onset": np.tile(np.arange(N // 2) * 150, 2),
    "imagined": np.arange(N) % 3,
    "stimulus": np.array(["arrow", "tone"] * (N // 2)),
    "gaze": np.linspace(0, 1, 2 * N).reshape(N, 2),
}


@dataclass(frozen=True)
class Read:
    """A data set, one of its recordings, and the metadata of its trials."""

    dataset: Dataset
    subject: str
    session: str
    metadata: dict[str, Any]


def arrays(n: int = N) -> dict[str, Any]:
    X = np.random.default_rng(0).standard_normal((n, 3, 100)).astype(np.float32)
    y = np.arange(n) % 2
    return {"X": X, "y": y, "sfreq": 100.0, "ch_names": own.NAMES, "classes": ["l", "r"]}


def npz_file(folder: Path, place: str = "sub-1_ses-2.npz") -> Read:
    np.savez(folder / "sub-1_ses-2.npz", **arrays(), **METADATA)
    return Read(load_dataset(folder / place), "1", "2", METADATA)


def npz_folder(folder: Path) -> Read:
    return npz_file(folder, ".")


def in_memory(_: Path) -> Read:
    metadata = dict(METADATA)
    given = arrays()
    run, group, classes = metadata.pop("run"), metadata.pop("group"), given.pop("classes")
    X, y, given["ch_names"] = given.pop("X"), given.pop("y"), tuple(given["ch_names"])
    made = from_arrays(X, y, run=run, group=group, about=metadata, classes=tuple(classes), **given)
    return Read(made, "1", "1", METADATA)


def recording(folder: Path) -> Read:
    write_edf(folder / "own.edf", own.recording())
    dataset = load_dataset(folder / "own.edf", events=own.EVENTS, tmin=0.5, tmax=1.5)
    return Read(dataset, "1", "1", {"onset": 150 + 200 * np.arange(N)})


def recordings_of_two_runs(folder: Path) -> Read:
    for run in (1, 2):
        write_edf(folder / f"sub-1_ses-1_run-{run}_eeg.edf", own.recording(seed=run))
    dataset = load_dataset(folder, events=own.EVENTS, tmin=0.5, tmax=1.5)
    metadata = {
        "onset": np.tile(150 + 200 * np.arange(N), 2),
        "run": np.repeat(["1", "2"], N),
        "group": np.arange(2 * N),
    }
    return Read(dataset, "1", "1", metadata)


def save_epochs(path: Path) -> dict[str, Any]:
    import pandas as pd

    metadata = {name: values for name, values in METADATA.items() if name not in ("gaze", "onset")}
    raw = own.recording()
    events, ids = mne.events_from_annotations(raw, verbose="error")
    options = {"baseline": None, "preload": True, "verbose": "error"}
    epochs = mne.Epochs(
        raw, events, ids, tmin=-0.5, tmax=1.0, metadata=pd.DataFrame(metadata), **options
    )
    epochs.save(path, verbose="error")
    return metadata | {"onset": 50 + 200 * np.arange(N)}


def epochs_file(folder: Path) -> Read:
    metadata = save_epochs(folder / "own-epo.fif")
    return Read(load_dataset(folder / "own-epo.fif"), "1", "1", metadata)


def epochs_of_two_runs(folder: Path) -> Read:
    for run in (1, 2):
        metadata = save_epochs(folder / f"sub-1_ses-1_run-{run}-epo.fif")
    twice = {name: np.tile(values, 2) for name, values in metadata.items()}
    twice["run"] = np.array([f"{run}/{inner}" for run in (1, 2) for inner in metadata["run"]])
    twice["group"] = np.concatenate([metadata["group"], metadata["group"] + N])
    return Read(load_dataset(folder), "1", "1", twice)


def official_2a(save: Callable[[Path], Any], folder: Path, before: int = 0) -> Read:
    """Six runs, after some samples of runs without trials."""
    save(folder)
    each, n = test_bci2a.EACH, test_bci2a.RUNS * test_bci2a.EACH
    run, trial = np.divmod(np.arange(n), each)
    cues = before + run * test_bci2a.LENGTH + test_bci2a.CUE + trial * test_bci2a.STEP
    metadata = {
        "run": (run + 1).astype(str),
        "group": np.arange(n),
        "onset": cues - 125,
        "artifact": test_bci2a.ARTIFACTS,
    }
    return Read(load_bci2a(folder), "1", "T", metadata)


def bci2a_gdf(folder: Path) -> Read:
    def save(folder: Path) -> None:
        test_bci2a.save_gdf(folder, "A01T", cues_known=True)

    return official_2a(save, folder, test_bci2a.EYES)


def bci2a_bnci(folder: Path) -> Read:
    return official_2a(lambda f: test_bci2a.save_bnci(f, "A01T"), folder)


def bcicha_kaggle(folder: Path) -> Read:
    test_bcicha.save(folder, "Data_S02_Sess01.csv", test_bcicha.table())
    test_bcicha.save_labels(folder, ["S02_Sess01"])
    onset = test_bcicha.FIRST + test_bcicha.STEP * np.arange(60) - 40
    return Read(load_bcicha(folder), "2", "1", {"onset": onset, "group": np.arange(60)})


def mamem_figshare(folder: Path) -> Read:
    test_mamem.save(folder)
    cues = test_mamem.FIRST + test_mamem.STEP * np.arange(25)
    onset = (cues[:, None] + 250 * np.arange(1, 5) - 125).ravel()
    metadata = {"onset": onset, "group": np.repeat(np.arange(25), 4)}
    return Read(load_mamem(folder, segments=4), "1", "1", metadata)


def moabb(_: Path) -> Read:
    dataset = load_dataset("moabb:FakeSource")
    metadata = {
        "onset": np.tile(np.array(test_moabb.FakeSource.ONSETS) + 50, 2),
        "run": np.repeat(["0", "1"], 4),
        "group": np.array([0, 1, 1, 2, 4, 5, 5, 6]),  # the second and third of a run overlap
    }
    return Read(dataset, "2", "0train", metadata)


READERS = [
    npz_file,
    npz_folder,
    in_memory,
    recording,
    recordings_of_two_runs,
    epochs_file,
    epochs_of_two_runs,
    bci2a_gdf,
    bci2a_bnci,
    bcicha_kaggle,
    mamem_figshare,
    moabb,
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bci2a, "TRIALS", test_bci2a.RUNS * test_bci2a.EACH)
    source = SimpleNamespace(FakeSource=test_moabb.FakeSource, fake=SimpleNamespace())
    monkeypatch.setattr(moabb_module, "_moabb", lambda: source)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_whatever_is_known_of_trials_is_kept(reader: Any, tmp_path: Path) -> None:
    read = reader(tmp_path)
    whole = read.dataset.load(read.subject, read.session)
    known = {"run": whole.run, "group": whole.group, **whole.about}
    assert known["onset"].dtype.kind == "i"
    for name, values in read.metadata.items():
        np.testing.assert_array_equal(known[name], values, err_msg=name)
    # A selection keeps it too, of the trials that it keeps.
    first = whole.run[0]
    for selection, rows in (
        (Selection(where={"run": first}), whole.run == first),
        (Selection(classes=read.dataset.classes[::-1]), np.ones(len(whole), bool)),
        (Selection(channels=read.dataset.ch_names[:2]), np.ones(len(whole), bool)),
    ):
        part = select(read.dataset, selection).load(read.subject, read.session)
        found = {"run": part.run, "group": part.group, **part.about}
        assert set(found) == set(known)
        for name, values in known.items():
            np.testing.assert_array_equal(found[name], values[rows], err_msg=name)


@pytest.mark.parametrize(
    ("load", "name", "shape", "session", "part", "sfreq"),
    [
        (load_bci2a, "BCIC_S02_E.mat", (288, 22, 563), "E", slice(None), 125.0),
        (load_bcicha, "Data_S02_Sess.mat", (340, 56, 160), "4", slice(180, 240), 128.0),
        (load_bcicha, "Data_S02_Sess.mat", (340, 56, 160), "5", slice(240, None), 128.0),
        (load_mamem, "U002.mat", (500, 8, 250), "3", slice(200, 300), 250.0),
    ],
)
def test_trials_of_matt(
    tmp_path: Path, load: Any, name: str, shape: Any, session: str, part: slice, sfreq: float
) -> None:
    X = np.random.default_rng(3).normal(size=shape).astype("f4")
    y = np.repeat(np.arange(shape[0] // 4) % 2, 4)
    scipy.io.savemat(tmp_path / name, {"x_test": X, "y_test": y})
    dataset = load(tmp_path)
    recording = dataset.load("2", session)
    np.testing.assert_array_equal(recording.X, X[part])
    np.testing.assert_array_equal(recording.y, y[part])
    assert (dataset.sfreq, dataset.unit_in_volts) == (sfreq, None)
    segments = 4 if load is load_mamem else 1
    np.testing.assert_array_equal(recording.group, np.arange(len(recording)) // segments)


@pytest.mark.parametrize("where", ["sub-1_ses-1.npz", "."], ids=["file", "folder"])
def test_overlapping_trials_are_refused_however_they_are_read(tmp_path: Path, where: str) -> None:
    """A single file lost ``onset``; the same file in a folder did not."""
    np.savez(tmp_path / "sub-1_ses-1.npz", **arrays(40), onset=np.arange(40) * 50)
    with pytest.raises(LeakError, match="1/1/"):
        evaluate(tmp_path / where, ["mdm"], "k-fold", protocol_options={"folds": 2})


DTYPES = ("int16", "int32", "float16", "float32", "float64")


@settings(max_examples=25, deadline=None)
@given(
    dtype=st.sampled_from((*DTYPES, "uint8", "int64", ">f4", ">i2")),
    shape=st.tuples(st.integers(2, 5), st.integers(1, 4), st.integers(8, 30)),
    seed=st.integers(0, 99),
    matrices=st.booleans(),
)
def test_numbers_are_kept_whatever_their_dtype(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    shape: tuple[int, int, int],
    seed: int,
    matrices: bool,
) -> None:
    n, channels, samples = shape
    size = (n, channels, channels if matrices else samples)
    scale = {"int16": 1e3, "int32": 1e8, "float16": 1e4}.get(dtype, 1.0)
    stored = (scale * np.random.default_rng(seed).standard_normal(size)).astype(dtype)
    folder = tmp_path_factory.mktemp("dtypes")
    given_arrays = {"C": stored} if matrices else {"X": stored, "sfreq": 100.0}
    y = ["a", "b", *"a" * (n - 2)]
    np.savez(folder / "sub-1_ses-1.npz", y=y, **given_arrays)
    rate = None if matrices else 100.0
    for dataset in (
        load_dataset(folder),
        load_dataset(folder / "sub-1_ses-1.npz"),
        from_arrays(stored, y, sfreq=rate),
    ):
        X = dataset.load("1", "1").X
        assert X.dtype == (np.float64 if dtype in ("int32", "int64", "float64") else np.float32)
        np.testing.assert_array_equal(X, stored.astype(np.float64))


@pytest.mark.parametrize("dtype", DTYPES)
def test_decisions_do_not_depend_on_the_dtype(tmp_path: Path, dtype: str) -> None:
    decoder = made("imagery").decoder
    shape = (4, len(decoder.ch_names), decoder.n_samples)
    stored = (100 * np.random.default_rng(2).standard_normal(shape)).astype(dtype)
    rows = []
    for signals in (stored, stored.astype(np.float64)):
        path = tmp_path / "own.npz"
        np.savez(path, X=signals, sfreq=decoder.sfreq, ch_names=decoder.ch_names)
        rows.append(predict(decoder, path, unit="uV").probabilities)
    np.testing.assert_allclose(*rows, atol=1e-6)
