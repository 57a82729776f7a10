"""Recordings and epochs of the user's own, in the formats of the field."""

from __future__ import annotations

from pathlib import Path

import mne
import numpy as np
import pytest

from spdtokens import load_dataset
from spdtokens.datasets.files import parse_events
from spdtokens.datasets.select import pick_channels, plain_name
from spdtokens.errors import DataError
from tests.helpers.recordings import write_edf, write_gdf

SFREQ, NAMES = 100.0, ["C3", "Cz", "C4"]
EVENTS = {"left": "769", "right": "770"}


def recording(n: int = 12, seed: int = 0) -> mne.io.RawArray:
    """Noise in volts with a cue every two seconds, the first after one."""
    rng = np.random.default_rng(seed)
    data = 1e-5 * rng.standard_normal((3, int(SFREQ) * (2 * n + 2)))
    raw = mne.io.RawArray(data, mne.create_info(NAMES, SFREQ, "eeg"), verbose="error")
    names = ["769", "770"] * (n // 2)
    raw.set_annotations(mne.Annotations(1.0 + 2 * np.arange(n), 0.0, names))
    return raw


def save(raw: mne.io.RawArray, path: Path) -> None:
    if path.suffix == ".fif":
        raw.save(path, verbose="error")
    elif path.suffix == ".gdf":
        marks = zip(raw.annotations.onset, raw.annotations.description, strict=True)
        events = [(round(onset * SFREQ), int(code)) for onset, code in marks]
        write_gdf(path, NAMES, 1e6 * raw.get_data(), int(SFREQ), events)
    elif path.suffix == ".edf":
        write_edf(path, raw)
    else:
        mne.export.export_raw(path, raw, verbose="error")


@pytest.mark.parametrize("name", ["own.edf", "own.gdf", "own.vhdr", "own_raw.fif"])
def test_a_recording_of_every_format(tmp_path: Path, name: str) -> None:
    raw = recording()
    save(raw, tmp_path / name)
    marks = EVENTS
    if name.endswith(".vhdr"):  # BrainVision has kinds of markers
        found = mne.io.read_raw(tmp_path / name, verbose="error").annotations.description
        marks = {key: next(t for t in found if t.endswith(code)) for key, code in EVENTS.items()}
    dataset = load_dataset(tmp_path / name, events=marks, tmin=0.5, tmax=1.5)
    assert dataset.classes == ("left", "right")
    assert dataset.ch_names == tuple(NAMES)
    assert dataset.sfreq == SFREQ
    assert dataset.window == (0.5, 1.5)
    trials = dataset.load("1", "1")
    assert trials.y.tolist() == [0, 1] * 6
    assert trials.about["onset"].tolist() == (150 + 200 * np.arange(12)).tolist()
    cut = np.stack([raw.get_data()[:, s : s + 100] for s in trials.about["onset"]])
    np.testing.assert_allclose(trials.X, cut, rtol=0, atol=1e-8)  # EDF has 16 bits


def test_events_are_found_if_they_are_plain(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.append([0.1, 5.3], [0.0, 0.0], ["BAD_blink", "New Segment/"])
    write_edf(tmp_path / "own.edf", raw)
    dataset = load_dataset(tmp_path / "own.edf", tmin=0, tmax=1)
    assert dataset.classes == ("769", "770")


def test_trials_marked_as_bad_are_left_out(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.append(3.2, 0.5, "BAD_muscle")
    raw.save(tmp_path / "own_raw.fif", verbose="error")
    dataset = load_dataset(tmp_path / "own_raw.fif", events=EVENTS, tmin=0.0, tmax=1.0)
    assert len(dataset.load("1", "1")) == 11
    assert "1 events" in dataset.description


def test_how_long_a_trial_lasts_may_be_told_by_the_file(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.set_durations(1.5)
    raw.save(tmp_path / "own_raw.fif", verbose="error")
    assert load_dataset(tmp_path / "own_raw.fif").window == (0.0, 1.5)


def test_a_trigger_channel(tmp_path: Path) -> None:
    raw = recording()
    raw.set_annotations(None)
    stim = mne.io.RawArray(
        np.zeros((1, raw.n_times)), mne.create_info(["STI"], SFREQ, "stim"), verbose="error"
    )
    stim._data[0, 100 + 200 * np.arange(12)] = [7, 9] * 6
    raw.add_channels([stim])
    raw.save(tmp_path / "own_raw.fif", verbose="error")
    dataset = load_dataset(
        tmp_path / "own_raw.fif",
        events={"left": "7", "right": "9"},
        tmin=0.0,
        tmax=1.0,
        label_from="STI",
    )
    assert dataset.load("1", "1").y.tolist() == [0, 1] * 6
    assert dataset.ch_names == tuple(NAMES)
    with pytest.raises(DataError, match="no channel 'STY' to take labels from"):
        load_dataset(tmp_path / "own_raw.fif", tmin=0.0, tmax=1.0, label_from="STY")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"events": {"a": "771", "b": "770"}}, r"no event '771'. Its events: 769 \(6 x\), 770"),
        ({"events": {"a": "769"}}, "all trials are of one class, a"),
        ({"tmax": None}, r"how long a trial of 769, 770 lasts is not told.*--tmin 0.5 --tmax 3.5"),
        ({"tmin": 2.0}, "tmin must be before tmax"),
        ({"tmin": 50.0, "tmax": 60.0}, "none of 12 events has 50 to 60 s of signal"),
        ({"channels": ("C3", "Oz")}, r"lacks 1 of 2 channels: Oz\. It has: C3, Cz, C4"),
    ],
)
def test_what_a_recording_does_not_have(tmp_path: Path, options: dict, said: str) -> None:
    write_edf(tmp_path / "own.edf", recording())
    with pytest.raises(DataError, match=said):
        load_dataset(tmp_path / "own.edf", **{"tmin": 0.0, "tmax": 1.0, **options})


def test_events_that_cannot_be_told(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.append(2.0, 0.0, "once")
    raw.annotations.description[:] = ["769"] * 12 + ["once"]
    raw.save(tmp_path / "own_raw.fif", verbose="error")
    with pytest.raises(DataError, match=r"cannot be told which.*769 \(12 x\), once \(1 x\)"):
        load_dataset(tmp_path / "own_raw.fif", tmin=0.0, tmax=1.0)


def test_a_folder_is_sessions_of_one_person(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        write_edf(tmp_path / f"{day}.edf", recording(seed=len(day)))
    dataset = load_dataset(tmp_path, events=EVENTS, tmin=0.0, tmax=1.0)
    assert dict(dataset.index) == {"1": ("monday", "tuesday")}
    assert not np.array_equal(dataset.load("1", "monday").X, dataset.load("1", "tuesday").X)


def test_a_folder_named_as_in_bids(tmp_path: Path) -> None:
    names = ["sub-01_ses-1_run-1", "sub-01_ses-1_run-2", "sub-01_ses-2_run-1", "sub-02_ses-1"]
    for i, name in enumerate(names):
        write_edf(tmp_path / f"{name}_eeg.edf", recording(seed=i))
    dataset = load_dataset(tmp_path, events=EVENTS, tmin=0.0, tmax=1.0)
    assert dict(dataset.index) == {"01": ("1", "2"), "02": ("1",)}
    first = dataset.load("01", "1")
    assert first.run.tolist() == ["1"] * 12 + ["2"] * 12
    np.testing.assert_array_equal(first.about["onset"], np.tile(100 + 200 * np.arange(12), 2))


def test_files_of_one_session_are_runs_of_their_own(tmp_path: Path) -> None:
    """Samples are counted from the beginning of each file."""
    for task in ("a", "b"):
        write_edf(tmp_path / f"sub-01_ses-1_task-{task}_eeg.edf", recording())
    found = load_dataset(tmp_path, events=EVENTS, tmin=0.0, tmax=1.0).load("01", "1")
    assert len(set(zip(found.run, found.about["onset"], strict=True))) == 24


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    write_edf(tmp_path / "a.edf", recording())
    write_edf(tmp_path / "b.edf", recording().rename_channels({"C3": "P3"}))
    with pytest.raises(DataError, match=r"lacks C3, has also P3: b.edf"):
        load_dataset(tmp_path, tmin=0.0, tmax=1.0)
    dataset = load_dataset(tmp_path, tmin=0.0, tmax=1.0, channels=("Cz", "C4"))
    assert dataset.ch_names == ("Cz", "C4")
    (tmp_path / "b.edf").unlink()
    write_edf(tmp_path / "b.edf", recording().resample(50.0))
    with pytest.raises(DataError, match=r"100 Hz: a.edf; 50 Hz: b.edf"):
        load_dataset(tmp_path, tmin=0.0, tmax=1.0)


def test_epochs_with_metadata(tmp_path: Path) -> None:
    import pandas as pd

    raw = recording()
    events, ids = mne.events_from_annotations(raw, verbose="error")
    metadata = pd.DataFrame({"hand": ["l", "r", "none"] * 4})
    epochs = mne.Epochs(
        raw,
        events,
        ids,
        tmin=-0.5,
        tmax=1.0,
        baseline=None,
        metadata=metadata,
        preload=True,
        verbose="error",
    )
    path = tmp_path / "own-epo.fif"
    epochs.save(path, verbose="error")
    dataset = load_dataset(
        path, label_from="hand", events={"left": "l", "right": "r"}, tmin=0.0, tmax=1.0
    )
    trials = dataset.load("1", "1")
    assert trials.y.tolist() == [0, 1] * 4
    assert trials.X.shape == (8, 3, 100)
    assert dataset.tmin == pytest.approx(0.0)
    with pytest.raises(DataError, match=r"no column 'foot' in its metadata.*hand"):
        load_dataset(path, label_from="foot")
    with pytest.raises(DataError, match=r"last from -0.5 to 1.01 s, and do not hold"):
        load_dataset(path, tmin=0.0, tmax=2.0)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "own.edf"
    write_edf(path, recording())
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"own.edf cannot be read"):
        load_dataset(path, tmin=0.0, tmax=1.0)


@pytest.mark.parametrize("name", ["C3", "c3", " C3 ", "EEG C3", "EEG C3-REF", "C3.", "C3-A2"])
def test_names_are_written_in_many_ways(name: str) -> None:
    assert plain_name(name) == "C3"
    assert pick_channels(["Oz", name], ["C3"], "a file") == [name]


def test_events_as_text() -> None:
    assert parse_events("left=769, right = 770") == EVENTS
    assert parse_events("left,right") == {"left": "left", "right": "right"}
    for wrong in ("left=", "=769", "", "a=1,a=2", "left=769,,"):
        with pytest.raises(DataError, match="left=769"):
            parse_events(wrong)


def test_one_npz_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    X = rng.standard_normal((6, 3, 200))
    np.savez(
        path, X=X, y=["l", "r", "x"] * 2, sfreq=100.0, ch_names=NAMES, tmin=-0.5, unit_in_volts=1e-6
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
    np.savez(path, X=X, y=np.arange(5), sfreq=100.0)
    with pytest.raises(DataError, match="'y' must hold 6 entries"):
        load_dataset(path)
