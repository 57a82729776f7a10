from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from spdtokens.datasets.official import OFFICIAL, bci2a, load_bci2a
from spdtokens.errors import DataError
from tests.helpers.gdf import write_gdf

NAMES = ["EEG"] * 22 + ["EOG-left", "EOG-central", "EOG-right"]
for i, site in {0: "Fz", 7: "C3", 9: "Cz", 11: "C4", 19: "Pz"}.items():
    NAMES[i] = f"EEG-{site}"
RUNS, EACH = 6, 2
STEP = 1100  # samples from trial to trial
START, CUE = 300, 800  # first trial and its cue in a run, 2 s apart
LENGTH = START + EACH * STEP + 1000
EYES = 400  # samples of the run without trials
LABELS = np.arange(RUNS * EACH) % 4
ARTIFACTS = np.arange(RUNS * EACH) % 5 == 2


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve trials instead of 288."""
    monkeypatch.setattr(bci2a, "TRIALS", RUNS * EACH)


def signals() -> list[np.ndarray]:
    """A run of eye movements, then six runs with trials, in microvolts."""
    rng = np.random.default_rng(0)
    return [rng.normal(0, 20, (25, n)).astype("f4").astype(float) for n in [EYES] + [LENGTH] * RUNS]


def expected() -> np.ndarray:
    """Trials from half a second before the cue to 4.5 s after it, in microvolts."""
    cues = [CUE + i * STEP for i in range(EACH)]
    return np.array([run[:22, cue - 125 : cue + 1125] for run in signals()[1:] for cue in cues])


def save_gdf(folder: Path, name: str, cues_known: bool, **changes: Any) -> Path:
    events, offset = [(0, 32766), (0, 1072)], EYES
    for run in range(RUNS):
        events.append((offset, 32766))
        for i in range(EACH):
            k = run * EACH + i
            at = offset + START + i * STEP
            events.append((at, 768))
            if ARTIFACTS[k]:
                events.append((at, 1023))
            events.append((at + 500, 769 + int(LABELS[k]) if cues_known else 783))
        offset += LENGTH
    path = folder / f"{name}.gdf"
    given = {"names": NAMES, "sfreq": 250, "events": events} | changes
    write_gdf(path, microvolts=np.concatenate(signals(), axis=1)[: len(given["names"])], **given)
    return path


def save_labels(folder: Path, name: str, labels: np.ndarray = LABELS + 1) -> Path:
    path = folder / f"{name}.mat"
    scipy.io.savemat(path, {"classlabel": labels[:, None]})
    return path


def save_bnci(folder: Path, name: str, **changes: Any) -> Path:
    runs = []
    for i, signal in enumerate(signals()):
        k = slice((i - 1) * EACH, i * EACH)
        trial = START + 1 + STEP * np.arange(EACH) if i else np.empty(0)
        run = {
            "X": signal.T,
            "trial": trial.astype("u4"),
            "y": (LABELS[k] + 1).astype("u1") if i else np.empty(0),
            "fs": 250,
            "classes": np.array(["left hand", "right hand", "feet", "tongue"], dtype=object),
            "artifacts": ARTIFACTS[k].astype("u1") if i else np.empty(0),
            "gender": "male",
            "age": 22,
        }
        runs.append(run | changes)
    path = folder / f"{name}.mat"
    cell = np.empty((1, len(runs)), dtype=object)
    cell[0] = runs
    scipy.io.savemat(path, {"data": cell})
    return path


def check(dataset: Any, session: str) -> None:
    recording = dataset.load("1", session)
    microvolts = recording.X * dataset.unit_in_volts * 1e6
    np.testing.assert_allclose(microvolts, expected(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(recording.y, LABELS)
    assert recording.run.tolist() == [str(1 + i // EACH) for i in range(RUNS * EACH)]
    np.testing.assert_array_equal(recording.group, np.arange(RUNS * EACH))
    np.testing.assert_array_equal(recording.about["artifact"], ARTIFACTS)


def test_gdf_files_with_labels_in_a_folder_of_their_own(tmp_path: Path) -> None:
    save_gdf(tmp_path, "A01T", cues_known=True)
    save_gdf(tmp_path, "A01E", cues_known=False)
    (tmp_path / "true_labels").mkdir()
    save_labels(tmp_path / "true_labels", "A01E")
    dataset = load_bci2a(tmp_path)
    assert dict(dataset.index) == {"1": ("T", "E")}
    assert (dataset.sfreq, dataset.tmin, dataset.window) == (250.0, -0.5, (0.5, 4.0))
    assert dataset.unit_in_volts == 1.0
    assert len(dataset.ch_names) == 22
    check(dataset, "T")
    check(dataset, "E")


def test_bnci_files_give_the_same_trials(tmp_path: Path) -> None:
    save_bnci(tmp_path, "A01T")
    dataset = load_bci2a(tmp_path)
    assert dict(dataset.index) == {"1": ("T",)}
    assert dataset.unit_in_volts == 1e-6
    check(dataset, "T")


def test_gdf_and_bnci_files_side_by_side(tmp_path: Path) -> None:
    save_gdf(tmp_path, "A01E", cues_known=False)
    save_bnci(tmp_path, "A01E")
    assert_refused(tmp_path, "E", "A01E.mat has no variable 'classlabel'")
    (tmp_path / "true_labels").mkdir()
    save_labels(tmp_path / "true_labels", "A01E")
    check(load_bci2a(tmp_path), "E")
    dataset = load_bci2a(tmp_path, layout="bnci")
    assert dataset.unit_in_volts == 1e-6
    check(dataset, "E")


def test_label_files_alone_are_not_the_data(tmp_path: Path) -> None:
    save_labels(tmp_path, "A01E")
    assert not OFFICIAL["bci2a"].is_present(tmp_path)


def test_the_papers_crop_at_250_hz_is_its_438_samples(tmp_path: Path) -> None:
    save_bnci(tmp_path, "A01T")
    window = load_bci2a(tmp_path, crop="paper-250").window
    first, last = (round((t + 0.5) * 250) for t in window)
    assert (first, last) == (124, 562)
    with pytest.raises(DataError, match="no crop 'all'"):
        load_bci2a(tmp_path, crop="all")  # type: ignore[arg-type]


def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPDTOKENS_DATA", raising=False)
    (tmp_path / "home" / "spdtokens_data" / "bci2a").mkdir(parents=True)
    save_bnci(tmp_path / "home" / "spdtokens_data" / "bci2a", "A03T")
    assert load_bci2a().subjects == ("3",)
    monkeypatch.setenv("SPDTOKENS_DATA", str(tmp_path / "data"))
    assert load_bci2a().subjects == ("3",)
    (tmp_path / "data" / "bci2a").mkdir(parents=True)
    save_bnci(tmp_path / "data" / "bci2a", "A04T")
    assert load_bci2a().subjects == ("4",)


def test_nothing_found_names_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPDTOKENS_DATA", str(tmp_path / "data"))
    assert not OFFICIAL["bci2a"].is_present()
    with pytest.raises(DataError) as caught:
        load_bci2a()
    for words in (
        str(tmp_path / "data" / "bci2a"),
        str(tmp_path / "home" / "spdtokens_data" / "bci2a"),
        "A01T.gdf",
        "BNCI Horizon 2020",
        "SPDTOKENS_DATA",
    ):
        assert words in str(caught.value)


def assert_refused(folder: Path, session: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_bci2a(folder).load("1", session)
    assert f"A01{session}" in str(caught.value)


def test_missing_labels(tmp_path: Path) -> None:
    save_gdf(tmp_path, "A01E", cues_known=False)
    assert_refused(tmp_path, "E", r"label file A01E\.mat .* is missing")


def test_labels_that_do_not_belong_to_the_file(tmp_path: Path) -> None:
    save_gdf(tmp_path, "A01T", cues_known=True)
    save_labels(tmp_path, "A01T", LABELS[:-1] + 1)
    assert_refused(tmp_path, "T", "has 11 labels, but .* has 12 cues")
    save_labels(tmp_path, "A01T", np.roll(LABELS, 1) + 1)
    assert_refused(tmp_path, "T", "disagree on the labels of 12 trials, first trial 1")
    save_labels(tmp_path, "A01T", LABELS)
    assert_refused(tmp_path, "T", r"between 1 and 4, found \[0\]")


@pytest.mark.parametrize("left", [100, 3000, 200_000])
def test_a_gdf_file_cut_short(tmp_path: Path, left: int) -> None:
    path = save_gdf(tmp_path, "A01T", cues_known=True)
    path.write_bytes(path.read_bytes()[:left])
    assert_refused(tmp_path, "T", "cut short")


def test_a_gdf_file_of_another_experiment(tmp_path: Path) -> None:
    save_gdf(tmp_path, "A01T", cues_known=True, names=[*NAMES[:7], "EEG-C5", *NAMES[8:]])
    assert_refused(tmp_path, "T", r"channels \['EEG-C5'\] are not where")
    save_gdf(tmp_path, "A01T", cues_known=True, names=NAMES[:24])
    assert_refused(tmp_path, "T", "24 channels; expected 25")
    save_gdf(tmp_path, "A01T", cues_known=True, sfreq=200)
    assert_refused(tmp_path, "T", "200 Hz; expected 250 Hz")
    save_gdf(tmp_path, "A01T", cues_known=True, events=[(0, 32766), (1, 768), (501, 769)])
    assert_refused(tmp_path, "T", "expected 6 runs of 2 trials, found 1 trials in 1 runs")


def test_the_full_number_of_trials_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bci2a, "TRIALS", 288)
    save_bnci(tmp_path, "A01T")
    assert_refused(tmp_path, "T", "expected 6 runs of 48 trials, found 12")


def test_bad_bnci_files(tmp_path: Path) -> None:
    path = save_bnci(tmp_path, "A01T", fs=200)
    assert_refused(tmp_path, "T", "200 Hz; expected 250 Hz")
    save_bnci(tmp_path, "A01T", X=np.zeros((50, 22)))
    assert_refused(tmp_path, "T", r"shape \(50, 22\); expected \(samples, 25\)")
    save_bnci(tmp_path, "A01T", classes=np.array(["a", "b"], dtype=object))
    assert_refused(tmp_path, "T", "classes")
    save_bnci(tmp_path, "A01T", X=np.zeros((50, 25)))
    assert_refused(tmp_path, "T", "trial .* needs samples .* but the recording has 300")
    save_bnci(tmp_path, "A01T", X=np.full((LENGTH, 25), np.nan))
    assert_refused(tmp_path, "T", "NaN")
    save_bnci(tmp_path, "A01T")
    path.write_bytes(path.read_bytes()[:10_000])
    assert_refused(tmp_path, "T", "damaged or cut short")
    scipy.io.savemat(path, {"other": 1})
    assert_refused(tmp_path, "T", "no variable 'data'; it holds: other")
    refused_layout = pytest.raises(DataError, match="no layout 'edf'")
    with refused_layout:
        load_bci2a(tmp_path, layout="edf")
