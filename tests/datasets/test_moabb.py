from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mne
import numpy as np
import pytest

from spdtokens.datasets.official import load_bci2a, load_moabb
from spdtokens.datasets.official import moabb as module
from spdtokens.errors import DataError
from tests.datasets import test_bci2a

needs_moabb = pytest.mark.skipif(
    importlib.util.find_spec("moabb") is None,
    reason="MOABB is not installed (pip install 'spdtokens[moabb]')",
)


@pytest.fixture
def mne_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of MNE's data of this test's own, and no network."""
    monkeypatch.setenv("MNE_DATA", str(tmp_path))
    monkeypatch.setenv("MNE_DATASETS_BNCI_PATH", str(tmp_path))
    monkeypatch.setenv("_MNE_FAKE_HOME_DIR", str(tmp_path / "home"))
    monkeypatch.setattr(module, "_reachable", lambda _: False)
    return tmp_path


class FakeSource:
    """What is used of a MOABB data set, with events at known samples."""

    subject_list = (1, 2)
    event_id = {"13": 2, "rest": 7}  # noqa: RUF012
    interval = (1.0, 2.0)
    paradigm = "ssvep"
    unit_factor = 1e6
    ONSETS = (300, 500, 520, 900)
    LABELS = (1, 0, 0, 1)

    def __init__(self, stim: bool = True, error: Exception | None = None) -> None:
        self.stim, self.error = stim, error

    def signal(self, run: int) -> np.ndarray:
        return np.random.default_rng(run).normal(0, 1e-5, (3, 1300))

    def raw(self, run: int) -> mne.io.RawArray:
        names = ["Oz", "O1", "O2", "EOG", "STI"]
        info = mne.create_info(names, 100.0, ["eeg"] * 3 + ["eog", "stim"])
        data = np.vstack([self.signal(run), np.zeros((2, 1300))])
        if self.stim:
            data[4, list(self.ONSETS)] = [7, 2, 2, 7]
        raw = mne.io.RawArray(data, info, first_samp=50, verbose="ERROR")
        if not self.stim:
            raw.drop_channels(["STI"])
            names = ["rest", "13", "13", "rest", "noise"]
            raw.set_annotations(mne.Annotations([*(np.array(self.ONSETS) / 100), 1.0], 0, names))
        return raw

    def get_data(self, subjects: list[int]) -> dict[int, Any]:
        if self.error:
            raise self.error
        runs = {"0": self.raw(0), "1": self.raw(1)}
        return {subjects[0]: {"0train": runs}}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    """MOABB with one data set, so that this runs where MOABB is not installed."""
    datasets = SimpleNamespace(FakeSource=FakeSource, fake=SimpleNamespace())
    monkeypatch.setattr(module, "_moabb", lambda: datasets)
    return datasets


@pytest.mark.parametrize("stim", [True, False])
@pytest.mark.usefixtures("fake")
def test_trials_are_cut_at_the_events(stim: bool) -> None:
    dataset = load_moabb("moabb:FakeSource", stim=stim)
    assert dataset.name == "moabb:FakeSource"
    assert (dataset.sfreq, dataset.tmin, dataset.window) == (100.0, 0.5, (1.0, 2.0))
    assert (dataset.paradigm, dataset.classes) == ("ssvep", ("13", "rest"))
    assert (dataset.stimulus_hz, dataset.unit_in_volts) == ((13.0,), 1.0)
    assert dataset.ch_names == ("Oz", "O1", "O2")
    assert dataset.subjects == ("1", "2")
    assert dataset.sessions("2") == ("0train",)
    recording = dataset.load("2", "0train")
    source = FakeSource()
    cut = [source.signal(run)[:, at + 50 : at + 250] for run in (0, 1) for at in source.ONSETS]
    np.testing.assert_allclose(recording.X, cut, rtol=1e-6)
    assert recording.y.tolist() == [*source.LABELS] * 2
    with pytest.raises(DataError, match="no subject '3'"):
        dataset.load("3", "0train")


def test_the_runs_of_mamem_are_its_sessions(fake: Any) -> None:
    fake.MAMEM2 = FakeSource
    dataset = load_moabb("moabb:MAMEM2")
    assert dataset.sessions("1") == ("0", "1")
    np.testing.assert_allclose(
        dataset.load("1", "1").X[0], FakeSource().signal(1)[:, 350:550], rtol=1e-6
    )


@pytest.mark.usefixtures("fake")
def test_recordings_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = load_moabb("FakeSource")
    whole = FakeSource.raw
    monkeypatch.setattr(FakeSource, "raw", lambda self, run: whole(self, run).drop_channels(["O1"]))
    with pytest.raises(DataError, match=r"subject 2, .*channels: O1\."):
        dataset.load("2", "0train")


@pytest.mark.usefixtures("mne_data")
def test_moabbs_mirror_is_asked_only_if_it_answers(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(module.PROVIDER, raising=False)
    seen: list[str | None] = []

    class Watched(FakeSource):
        def get_data(self, subjects: list[int]) -> dict[int, Any]:
            seen.append(os.environ.get(module.PROVIDER))
            return super().get_data(subjects)

    fake.Watched = Watched
    load_moabb("Watched")
    monkeypatch.setattr(module, "_reachable", lambda _: True)
    load_moabb("Watched")
    assert seen == ["upstream", None]
    assert module.PROVIDER not in os.environ


@pytest.mark.parametrize(
    ("name", "options", "culprit"),
    [
        ("FakeSauce", {}, "FakeSource"),
        ("FakeSource", {"colour": "red"}, "colour"),
        ("FakeSource", {"error": ConnectionError("no route")}, r"subject 1 .*no route"),
        ("FakeSource", {"error": KeyError("eeg")}, "subject 1 .*eeg"),
    ],
)
@pytest.mark.usefixtures("fake", "mne_data")
def test_what_fails_is_named(name: str, options: dict, culprit: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=culprit) as caught:
        load_moabb(name, **options)
    assert ("error" in options) == (str(tmp_path) in str(caught.value))


def test_without_moabb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moabb", None)
    for name in [n for n in sys.modules if n.startswith("moabb.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(DataError, match=r"pip install 'spdtokens\[moabb\]'"):
        load_moabb("BNCI2014_001")


@needs_moabb
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("mne_data")
@pytest.mark.parametrize("annotations", [False, True])
def test_moabbs_own_fake_data_set(annotations: bool) -> None:
    options = {"n_subjects": 2, "n_sessions": 2, "n_runs": 2, "n_events": 12, "duration": 60}
    dataset = load_moabb(
        "moabb:FakeDataset", seed=1, stim=not annotations, annotations=annotations, **options
    )
    assert dataset.subjects == ("1", "2")
    assert dataset.classes == ("fake1", "fake2", "fake3")
    assert (dataset.sfreq, dataset.paradigm) == (128.0, "motor imagery")
    sessions = dataset.sessions("2")
    assert len(sessions) == 2
    recording = dataset.load("2", sessions[1])
    assert recording.X.shape[1:] == (3, (4 * 128))
    assert set(recording.y) == {0, 1, 2}


@needs_moabb
@pytest.mark.filterwarnings("ignore")
def test_bnci_files_where_moabb_keeps_them(mne_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = mne_data / "MNE-bnci-data" / "~bci" / "database" / "001-2014"
    folder.mkdir(parents=True)
    for session in ("A01T", "A01E"):
        test_bci2a.save_bnci(folder, session)
    dataset = load_moabb("moabb:BNCI2014_001")
    assert (dataset.sfreq, dataset.tmin, dataset.window) == (250.0, -0.5, (0.5, 4.0))
    assert len(dataset.ch_names) == 22
    assert dataset.sessions("1") == ("0train", "1test")
    # The same files read by ourselves give the same trials.
    monkeypatch.setattr(test_bci2a.bci2a, "TRIALS", 12)
    ours = load_bci2a(folder)
    mine, theirs = ours.load("1", "E"), dataset.load("1", "1test")
    assert dataset.unit_in_volts is not None
    np.testing.assert_allclose(theirs.X * 1e6 * dataset.unit_in_volts, mine.X, rtol=1e-4, atol=1e-4)
    assert [dataset.classes[i].replace("_", " ") for i in theirs.y] == [
        ours.classes[i] for i in mine.y
    ]
    np.testing.assert_array_equal(theirs.group, mine.group)
