"""Recordings and epochs of the user's own, in the formats of the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mne
import numpy as np
import pytest

from spdtokens._channels import plain_name
from spdtokens.datasets import Dataset, load_dataset
from spdtokens.datasets.files import parse_events
from spdtokens.datasets.select import pick_channels
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


def load(raw: mne.io.RawArray, folder: Path, **options: Any) -> Dataset:
    raw.save(folder / "own_raw.fif", verbose="error", overwrite=True)
    return load_dataset(folder / "own_raw.fif", **{"tmin": 0.0, "tmax": 1.0, **options})


def test_events_are_found_if_they_are_plain(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.append([0.1, 5.3], [0.0, 0.0], ["BAD_blink", "New Segment/"])
    assert load(raw, tmp_path).classes == ("769", "770")
    raw.annotations.description[:] = ["769"] * 12 + ["once", "BAD_blink"]
    with pytest.raises(DataError, match=r"769 \(12 x\), BAD_blink \(1 x\), once \(1 x\)"):
        load(raw, tmp_path)


def test_trials_marked_as_bad_are_left_out(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.append(3.2, 0.5, "BAD_muscle")
    dataset = load(raw, tmp_path, events=EVENTS)
    assert len(dataset.load("1", "1")) == 11
    assert "1 event left out" in dataset.description
    raw.annotations.append(0.0, 99.0, "BAD_all")
    with pytest.raises(DataError, match="any of 12 events"):
        load(raw, tmp_path, events=EVENTS)


def test_how_long_a_trial_lasts_may_be_told_by_the_file(tmp_path: Path) -> None:
    raw = recording()
    raw.annotations.set_durations(1.5)
    assert load(raw, tmp_path, tmin=None, tmax=None).window == (0.0, 1.5)
    raw.annotations.append(0.0, 0.3, "BAD_start")  # other annotations do not matter
    assert load(raw, tmp_path, tmin=None, tmax=None).window == (0.0, 1.5)


def test_events_of_a_recording_as_text(tmp_path: Path) -> None:
    text = ",".join(f"{name}={event}" for name, event in EVENTS.items())
    assert load(recording(), tmp_path, events=text).classes == tuple(EVENTS)
    with pytest.raises(DataError, match="769"):
        load(recording(), tmp_path, events=["769"])


def test_a_trigger_channel(tmp_path: Path) -> None:
    raw = recording()
    raw.set_annotations(None)
    info = mne.create_info(["STI"], SFREQ, "stim")
    stim = mne.io.RawArray(np.zeros((1, raw.n_times)), info, verbose="error")
    stim._data[0, 100 + 200 * np.arange(12)] = [7, 9] * 6
    raw.add_channels([stim])
    for source in ("STI", None):
        dataset = load(raw, tmp_path, events={"left": "7", "right": "9"}, label_from=source)
        assert dataset.load("1", "1").y.tolist() == [0, 1] * 6
        assert dataset.ch_names == tuple(NAMES)
    with pytest.raises(DataError, match="'STY'"):
        load(raw, tmp_path, label_from="STY")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"events": {"a": "771", "b": "770"}}, r"'771'.*\(6 x\), 770 .*--events class1=769,"),
        ({"events": {"a": "769"}}, "class a"),
        ({"events": {}}, "events"),
        ({"tmax": None}, r"769, 770.*--tmin 0.5 --tmax 3.5"),
        ({"tmin": 2.0}, "tmin must be less than tmax"),
        ({"tmin": 50.0, "tmax": 60.0}, "50 to 60 s .*12 events"),
        ({"tmin": 0.999}, "0.999 to 1 s .*12 events"),
        ({"channels": ("C3", "Oz")}, r"lacks 1 of 2 channels: Oz\. It has: C3, Cz, C4"),
    ],
)
def test_what_a_recording_does_not_have(tmp_path: Path, options: dict, said: str) -> None:
    with pytest.raises(DataError, match=said):
        load(recording(), tmp_path, **options)


def test_a_recording_without_eeg(tmp_path: Path) -> None:
    raw = recording().set_channel_types(dict.fromkeys(NAMES, "eog"))
    with pytest.raises(DataError, match=r"no EEG channels. It has: C3"):
        load(raw, tmp_path)
    (tmp_path / "x-1.fif").touch()  # the rest of a long recording
    (tmp_path / "own_raw.fif").unlink()
    with pytest.raises(DataError, match="no recordings"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("names", "index"),
    [
        (("monday", "tuesday"), {"1": ("monday", "tuesday")}),
        (
            ("sub-01_ses-1_run-1", "sub-01_ses-1_run-2", "sub-01_ses-2_run-1", "sub-02_ses-1"),
            {"01": ("1", "2"), "02": ("1",)},
        ),
        (("sub-01_ses-1_task-a", "sub-01_ses-1_task-b"), {"01": ("1",)}),
    ],
)
def test_names_tell_subject_session_and_run(tmp_path: Path, names: tuple, index: dict) -> None:
    """Files of one session are runs of their own: samples are counted from their beginning."""
    for i, name in enumerate(names):
        write_edf(tmp_path / f"{name}.edf", recording(seed=i))
    dataset = load_dataset(tmp_path, events=EVENTS, tmin=0.0, tmax=1.0)
    assert dict(dataset.index) == index
    found = [dataset.load(s, session) for s, sessions in index.items() for session in sessions]
    assert sum(map(len, found)) == 12 * len(names)
    for trials in found:
        assert len(set(zip(trials.run, trials.about["onset"], strict=True))) == len(trials)


def test_epochs_with_metadata(tmp_path: Path) -> None:
    import pandas as pd

    raw = recording()
    events, ids = mne.events_from_annotations(raw, verbose="error")
    metadata = pd.DataFrame({"hand": ["l", "r", "none"] * 4})
    options = {"baseline": None, "metadata": metadata, "preload": True, "verbose": "error"}
    path = tmp_path / "own-epo.fif"
    mne.Epochs(raw, events, ids, tmin=-0.5, tmax=1.0, **options).save(path, verbose="error")
    dataset = load_dataset(
        path, label_from="hand", events={"left": "l", "right": "r"}, tmin=0.0, tmax=1.0
    )
    trials = dataset.load("1", "1")
    assert trials.y.tolist() == [0, 1] * 4
    assert trials.X.shape == (8, 3, 100)
    assert dataset.tmin == pytest.approx(0.0)
    with pytest.raises(DataError, match=r"hand, got 'foot'"):
        load_dataset(path, label_from="foot")
    with pytest.raises(DataError, match=r"-0.5 to 1.01 s"):
        load_dataset(path, tmin=0.0, tmax=2.0)


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


@pytest.mark.parametrize(("name", "unit"), [("own.edf", "uV"), ("own_raw.fif", "V")])
def test_the_unit_that_a_recording_states(tmp_path: Path, name: str, unit: str) -> None:
    save(recording(), tmp_path / name)
    options: dict[str, Any] = {"events": EVENTS, "tmin": 0.0, "tmax": 1.0}
    # MNE converts to volts.
    assert load_dataset(tmp_path / name, unit=unit, **options).unit_in_volts == 1.0
    with pytest.raises(DataError, match=name):
        load_dataset(tmp_path / name, unit="mV", **options)


def test_the_unit_of_a_recording_that_does_not_state_it(tmp_path: Path) -> None:
    path = tmp_path / "own.edf"
    save(recording(), path)
    content = bytearray(path.read_bytes())
    n = int(content[252:256])
    units = 256 + n * (16 + 80)  # eight characters per channel
    for i in range(len(NAMES)):
        content[units + 8 * i : units + 8 * i + 8] = b" " * 8
    path.write_bytes(content)
    options: dict[str, Any] = {"events": EVENTS, "tmin": 0.0, "tmax": 1.0}
    dataset = load_dataset(path, unit="uV", **options)
    assert dataset.unit_in_volts == 1e-6
    assert 5 < dataset.load("1", "1").X.std() < 20
