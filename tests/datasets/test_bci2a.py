from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from spdtokens.datasets.official import OFFICIAL, bci2a, load_bci2a
from spdtokens.errors import DataError
from tests.helpers.recordings import write_gdf

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


def save_gdf(
    folder: Path,
    name: str = "A01T",
    cues_known: bool = True,
    labels: np.ndarray | None = None,
    left: int | None = None,
    **changes: Any,
) -> Path:
    """Write a session and, if labels are given, its label file; keep ``left`` bytes."""
    events, offset = [(0, 32766), (0, 1072)], EYES
    for run in range(RUNS):
        events.append((offset, 32766))
        for i in range(EACH):
            k = run * EACH + i
            at = offset + START + i * STEP
            events += [(at, 768), *([(at, 1023)] if ARTIFACTS[k] else [])]
            events.append((at + 500, 769 + int(LABELS[k]) if cues_known else 783))
        offset += LENGTH
    path = folder / f"{name}.gdf"
    given = {"names": NAMES, "sfreq": 250, "events": events} | changes
    write_gdf(path, microvolts=np.concatenate(signals(), axis=1)[: len(given["names"])], **given)
    path.write_bytes(path.read_bytes()[:left])
    if labels is not None:
        save_labels(folder, name, labels)
    return path


def save_labels(folder: Path, name: str, labels: np.ndarray = LABELS + 1) -> Path:
    path = folder / f"{name}.mat"
    scipy.io.savemat(path, {"classlabel": labels[:, None]})
    return path


def save_bnci(
    folder: Path, name: str = "A01T", content: Any = None, left: int | None = None, **changes: Any
) -> Path:
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
    scipy.io.savemat(path, content or {"data": cell})
    path.write_bytes(path.read_bytes()[:left])
    return path


def check(dataset: Any, session: str) -> None:
    recording = dataset.load("1", session)
    microvolts = recording.X * dataset.unit_in_volts * 1e6
    np.testing.assert_allclose(microvolts, expected(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(recording.y, LABELS)


def test_gdf_files_with_labels_in_a_folder_of_their_own(tmp_path: Path) -> None:
    save_gdf(tmp_path)
    save_gdf(tmp_path, "A01E", cues_known=False)
    assert_refused(tmp_path, "E", r"label file A01E\.mat .* is missing")
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
    save_gdf(tmp_path, "A01E", cues_known=False)
    save_bnci(tmp_path, "A01E")
    assert_refused(tmp_path, "E", "A01E.mat has no variable 'classlabel'")
    (tmp_path / "A01E.gdf").unlink()
    dataset = load_bci2a(tmp_path)
    assert dict(dataset.index) == {"1": ("E",)}
    assert dataset.unit_in_volts == 1e-6
    check(dataset, "E")


def test_label_files_alone_are_not_the_data(tmp_path: Path) -> None:
    save_labels(tmp_path, "A01E")
    assert not OFFICIAL["bci2a"].is_present(tmp_path)


@pytest.mark.parametrize(
    ("layout", "crop", "sfreq"),
    [("bnci", "paper-250", 250.0), ("matt", "paper-250", 250.0), ("matt", "matt", 125.0)],
)
def test_the_papers_crop_is_its_438_samples(
    tmp_path: Path, layout: str, crop: bci2a.Crop, sfreq: float
) -> None:
    """Whatever rate is assumed for MAtt's trials."""
    if layout == "bnci":
        save_bnci(tmp_path)
    scipy.io.savemat(tmp_path / "BCIC_S01_T.mat", {"x_train": np.ones((2, 22, 563))})
    dataset = load_bci2a(tmp_path, crop=crop)
    assert dataset.sfreq == sfreq
    assert [round((t + 0.5) * sfreq) for t in dataset.window] == [124, 562]
    with pytest.raises(DataError, match="'all'"):
        load_bci2a(tmp_path, crop="all")  # type: ignore[arg-type]


def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, data = tmp_path / "spdtokens_data" / "bci2a", tmp_path / "data" / "bci2a"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPDTOKENS_DATA", str(tmp_path / "data"))
    assert not OFFICIAL["bci2a"].is_present()
    with pytest.raises(DataError) as caught:
        load_bci2a()
    for words in (str(home), str(data), "A01T.gdf", "BNCI Horizon 2020", "SPDTOKENS_DATA"):
        assert words in str(caught.value)
    for folder, subject in ((home, "3"), (data, "4")):  # the second place is looked at first
        folder.mkdir(parents=True)
        save_bnci(folder, f"A0{subject}T")
        assert load_bci2a().subjects == (subject,)
    monkeypatch.delenv("SPDTOKENS_DATA")
    assert load_bci2a().subjects == ("3",)


@pytest.mark.parametrize("name", OFFICIAL)
def test_every_source_says_what_it_is_and_how_to_get_it(name: str, tmp_path: Path) -> None:
    source = OFFICIAL[name]
    assert source.name == name
    assert "\n" not in source.description
    assert source.how_to_get.startswith("Expected: ")
    assert not source.is_present(tmp_path)
    with pytest.raises(DataError) as caught:
        source.load(tmp_path / "nowhere")
    assert f"{tmp_path / 'nowhere'} (no such folder)" in str(caught.value)
    assert source.how_to_get in str(caught.value)


def assert_refused(folder: Path, session: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_bci2a(folder).load("1", session)
    assert f"A01{session}" in str(caught.value)


@pytest.mark.parametrize(
    ("save", "changes", "message"),
    [
        # Labels that do not belong to the file.
        (save_gdf, {"labels": LABELS[:-1] + 1}, "11 labels"),
        (save_gdf, {"labels": np.roll(LABELS, 1) + 1}, "A01T.mat and .*differ"),
        (save_gdf, {"labels": LABELS}, r"\[0\.0\]"),
        (save_gdf, {"labels": LABELS + 0.5}, r"0\.5"),
        # Files cut short, or of another experiment.
        *((save_gdf, {"left": left}, "truncated") for left in (100, 3000, 200_000)),
        (save_gdf, {"names": NAMES[:24]}, "3 EOG"),
        (save_gdf, {"sfreq": 200}, "200 Hz"),
        (save_gdf, {"events": [(0, 32766), (1, 768), (501, 769)]}, "1 labels .*in 1 runs"),
        (save_gdf, {"events": [(0, 32766), (1, 768)]}, "0 cues"),
        *((save_bnci, {"left": left}, "truncated") for left in (150, 10_000)),
        (save_bnci, {"content": {"other": 1}}, "'data'.*other"),
        (save_bnci, {"fs": 200}, "200 Hz"),
        (save_bnci, {"X": np.zeros((50, 22))}, r"shape \(50, 22\)"),
        (save_bnci, {"X": np.zeros((50, 25))}, "recording has 300"),
        (save_bnci, {"X": np.full((LENGTH, 25), np.nan)}, "NaN"),
        (save_bnci, {"trial": np.empty(0)}, "no run has trials"),
        (save_bnci, {"artifacts": np.zeros(1)}, "6 artifact flags"),
        (save_bnci, {"y": "left"}, "'y'"),
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, save: Callable[..., Path], changes: dict, message: str
) -> None:
    save(tmp_path, **changes)
    assert_refused(tmp_path, "T", message)


def test_a_session_with_fewer_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_bnci(tmp_path)
    monkeypatch.setattr(bci2a, "TRIALS", 288)
    assert_refused(tmp_path, "T", "48 trials.* 12 labels")


@pytest.mark.parametrize(
    ("n", "samples", "first", "message"),
    [(288, 438, 0, "got 438"), (10, 562, 0, r"\(288, 22, samples\)"), (288, 562, 1, r"4\.0")],
)
def test_other_files_of_matt(
    tmp_path: Path, n: int, samples: int, first: int, message: str
) -> None:
    arrays = {"x_train": np.ones((n, 22, samples)), "y_train": first + np.arange(n) % 4}
    scipy.io.savemat(tmp_path / "BCIC_S01_T.mat", arrays)
    with pytest.raises(DataError, match=message):
        load_bci2a(tmp_path).load("1", "T")
