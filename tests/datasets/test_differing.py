"""Recordings that differ in channels, rate or length: refused, or brought together."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spdtokens import evaluate, load_dataset, train
from spdtokens.cli import app
from spdtokens.datasets import Selection, select
from spdtokens.datasets.select import Head, conformed, pick_channels, resampled
from spdtokens.errors import DataError
from spdtokens.evaluation.trials import Trials
from tests.datasets.test_recordings import recording
from tests.helpers.recordings import write_edf

NAMES = ("Fz", "C3", "Cz", "C4", "Pz")
SECONDS = 2.0


def write(
    folder: Path,
    session: int,
    ch_names: Any = NAMES,
    sfreq: float = 100.0,
    n: int = 40,
    named: bool = True,
    **changes: Any,
) -> Path:
    """Trials whose classes differ in the power of C3; every channel has its own mean."""
    rng = np.random.default_rng(session)
    samples = round(changes.pop("seconds", SECONDS) * sfreq)
    X = rng.standard_normal((n, len(ch_names), samples))
    y = np.arange(n) % 2
    if ch_names and "C3" in ch_names:
        X[y == 1, ch_names.index("C3")] *= 2
    X += [[100 * (sum(map(ord, name)) % 97)] for name in ch_names]
    path = folder / f"sub-1_ses-{session}.npz"
    arrays = {"X": X.astype(np.float32), "y": y, "classes": ["a", "b"]}
    arrays |= {"ch_names": ch_names if named else None}
    arrays |= {"sfreq": sfreq, **changes}
    np.savez_compressed(path, **{k: v for k, v in arrays.items() if v is not None})
    return path


def spoil_signals(path: Path) -> None:
    """Damage X inside the archive, so that reading it fails."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("X.npy")
    contents = bytearray(path.read_bytes())
    begin = member.header_offset + member.compress_size // 2
    contents[begin : begin + 2000] = bytes(2000)
    path.write_bytes(contents)


def test_differences_are_found_from_headers(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2, (*NAMES[2:], "T7"))
    write(tmp_path, 3, sfreq=160.0)
    for path in tmp_path.iterdir():
        spoil_signals(path)
    with pytest.raises(DataError) as caught:
        load_dataset(tmp_path)
    message = str(caught.value)
    assert "lacks Fz, C3, has also T7: sub-1_ses-2.npz" in message
    assert "5 channels: sub-1_ses-1.npz" in message
    assert "160 Hz: sub-1_ses-3.npz" in message
    assert "--channels common" in message
    assert "--resample 100" in message
    # The remedy works, and signals are read only now.
    dataset = load_dataset(tmp_path, channels="common", resample=100)
    assert (dataset.ch_names, dataset.sfreq) == (("Cz", "C4", "Pz"), 100.0)
    with pytest.raises(DataError, match=r"ses-1\.npz cannot be read"):
        dataset.load("1", "1")


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(NAMES), more=st.booleans(), spelled=st.booleans())
def test_channels_are_found_by_name(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], more: bool, spelled: bool
) -> None:
    folder = tmp_path_factory.mktemp("orders")
    names = ["EOG"] * more + [f"EEG {name}-REF" if spelled else name for name in order]
    write(folder, 1)
    write(folder, 2, names)
    options = {"channels": "common"} if more else {}
    dataset = load_dataset(folder, **options)
    assert dataset.ch_names == NAMES
    with np.load(folder / "sub-1_ses-2.npz") as stored:
        rows = [more + order.index(name) for name in NAMES]
        np.testing.assert_array_equal(dataset.load("1", "2").X, stored["X"][:, rows])
    if more:
        with pytest.raises(DataError, match="has also EOG"):
            load_dataset(folder)


def test_the_exact_name_comes_first() -> None:
    """Channels with different references have the same normalised name."""
    there = ["C3-A1", "C3-A2", "EEG Cz"]
    assert pick_channels(there, there, "it") == there
    assert pick_channels(there, ["C3-A1", "CZ"], "it") == ["C3-A1", "EEG Cz"]


def test_covariances_have_their_channels_chosen_on_both_sides(tmp_path: Path) -> None:
    C = np.arange(2 * 25.0).reshape(2, 5, 5)
    C = C + C.transpose(0, 2, 1) + 100 * np.eye(5)
    for session, names in ((1, NAMES), (2, NAMES[::-1])):
        np.savez(tmp_path / f"sub-1_ses-{session}.npz", C=C, y=["a", "b"], ch_names=names)
    assert np.array_equal(load_dataset(tmp_path).load("1", "2").X, C[:, ::-1, ::-1])
    some = load_dataset(tmp_path, channels=["Pz", "C3"]).load("1", "1").X
    assert np.array_equal(some, C[:, [4, 1]][:, :, [4, 1]])
    with pytest.raises(DataError, match="resample does not apply"):
        load_dataset(tmp_path, resample=10)
    write(tmp_path, 3)
    with pytest.raises(DataError, match=r"signals: sub-1_ses-3\.npz"):
        load_dataset(tmp_path)


def test_classes_are_joined_by_name(tmp_path: Path) -> None:
    """Files may list the classes in different orders."""
    y = np.array([0, 1, 1, 0] * 2)
    write(tmp_path, 1, n=8, y=y)
    write(tmp_path, 2, n=8, y=y, classes=["b", "a"])
    write(tmp_path, 3, n=8, y=np.array(["a", "b"] * 4), classes=None)
    dataset = load_dataset(tmp_path)
    assert dataset.classes == ("a", "b")
    found = [dataset.load("1", session).y.tolist() for session in "123"]
    assert found == [y.tolist(), (1 - y).tolist(), [0, 1] * 4]


def test_units_are_brought_together(tmp_path: Path) -> None:
    for session, unit in ((1, 1e-6), (2, 1.0), (3, None)):
        write(tmp_path, session, n=8, unit_in_volts=unit)
    dataset = load_dataset(tmp_path)
    assert dataset.unit_in_volts == 1e-6
    for session, factor in (("1", 1), ("2", 1e6), ("3", 1)):
        with np.load(tmp_path / f"sub-1_ses-{session}.npz") as stored:
            np.testing.assert_allclose(
                dataset.load("1", session).X, factor * stored["X"], rtol=1e-6
            )


@pytest.mark.parametrize(
    ("changes", "options", "culprit"),
    [
        ({"tmin": -0.5}, {}, r"0 to 2 s .*ses-1.npz; -0.5 to 1.5 s .*ses-2.npz"),
        ({"seconds": 2.5}, {}, r"0 to 2.5 s .*ses-2.npz.*--tmin 0 --tmax 2,"),
        ({"tmin": 5.0}, {}, r"ses-2.npz.*do not overlap"),
        ({"ch_names": ("T7", "T8")}, {}, r"ses-2.npz(.|\n)*No channel is in all files"),
        *(
            ({"ch_names": NAMES[:3], "named": False}, options, r"without names.*ses-2\.npz")
            for options in ({}, {"channels": "common"})
        ),
        ({"sfreq": 160.0}, {"resample": 160}, r"100 Hz, .*ses-1\.npz.*--resample 100"),
        *(({}, {"resample": wrong}, "above 0 Hz") for wrong in (0, -1, float("nan"))),
    ],
)
def test_what_cannot_be_used_together(
    tmp_path: Path, changes: dict, options: dict, culprit: str
) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2, **changes)
    with pytest.raises(DataError, match=culprit):
        load_dataset(tmp_path, **options)


@pytest.mark.parametrize(
    ("changes", "options", "n"),
    [({"tmin": -0.5}, {"tmin": 0.0, "tmax": 1.5}, 150), ({"seconds": 2.01}, {}, 200)],
)
def test_trials_are_cut_alike(tmp_path: Path, changes: dict, options: dict, n: int) -> None:
    """On request, or if they differ by one sample: MNE includes the last one."""
    write(tmp_path, 1)
    write(tmp_path, 2, **changes)
    dataset = load_dataset(tmp_path, **options)
    assert {dataset.load("1", s).X.shape for s in "12"} == {(40, 5, n)}


@pytest.mark.parametrize(("old", "new"), [(512.0, 128.0), (160.0, 100.0), (1000.0, 250.0)])
def test_a_wave_is_the_same_wave_at_another_rate(old: float, new: float) -> None:
    """Also with a large offset, from which SciPy alone makes a ripple of 0.24."""
    seconds, phases = 4.0, np.linspace(0, 6, 5)

    def waves(sfreq: float) -> np.ndarray:
        t = np.arange(round(seconds * sfreq)) / sfreq
        made = np.sin(2 * np.pi * 11 * t + phases[:, None]) + 1000
        return made[None].astype(np.float32)

    found = resampled(waves(old), old, new)
    middle = slice(round(new), -round(new))
    np.testing.assert_allclose(found[..., middle], waves(new)[..., middle], atol=0.01)


@settings(max_examples=60, deadline=None)
@given(
    old=st.sampled_from([80.0, 100.0, 128.0, 160.0, 250.0, 256.0, 512.0, 1000.0]),
    share=st.floats(0.2, 1.0),
    n=st.integers(20, 200),
    gaps=st.lists(st.integers(0, 3), min_size=2, max_size=12),
)
def test_neighbours_do_not_come_to_overlap(
    old: float, share: float, n: int, gaps: list[int]
) -> None:
    new = round(share * old, 1)
    onset = np.cumsum([0, *(n + gap for gap in gaps)])
    X = np.zeros((len(onset), 1, n))
    head = Head(("Cz",), old)
    found, about = conformed(X, {"onset": onset}, head, replace(head, sfreq=new))
    assert (np.diff(about["onset"]) >= found.shape[-1]).all()
    np.testing.assert_allclose(about["onset"], onset * new / old, atol=0.5 + 1e-3 * onset[-1])


def test_sessions_that_differ_are_evaluated_and_trained_on(tmp_path: Path) -> None:
    """With the result of files that have the common channels only."""
    folders = tmp_path / "alike", tmp_path / "differ"
    for folder, options in zip(folders, ({}, {"ch_names": (*NAMES[::-1], "T7")}), strict=True):
        folder.mkdir()
        write(folder, 1)
        write(folder, 2, **options)
    with np.load(folders[1] / "sub-1_ses-2.npz") as stored:
        arrays = dict(stored) | {"X": stored["X"][:, [4, 3, 2, 1, 0]], "ch_names": NAMES}
    np.savez(folders[0] / "sub-1_ses-2.npz", **arrays)
    alike = evaluate(folders[0], ["ts-lr"])
    with pytest.raises(DataError, match="T7"):
        evaluate(folders[1], ["ts-lr"])
    common = evaluate(folders[1], ["ts-lr"], selection=Selection(channels="common"))
    for one, other in zip(alike.results["ts-lr"], common.results["ts-lr"], strict=True):
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
        assert one.spec.data_hash == other.spec.data_hash
    assert train(folders[1], channels=("common",)).decoder.ch_names == NAMES
    resampled_too = train(folders[1], channels=("C3", "C4"), resample=90.0).decoder
    assert (resampled_too.ch_names, resampled_too.sfreq) == (("C3", "C4"), 90.0)


def test_recordings_of_other_channels_and_rates(tmp_path: Path) -> None:
    write_edf(tmp_path / "a.edf", recording())
    write_edf(tmp_path / "b.edf", recording().resample(200.0).drop_channels(["C3"]))
    with pytest.raises(DataError, match=r"lacks C3: b.edf(.|\n)*--resample 100"):
        load_dataset(tmp_path, tmin=0.0, tmax=1.0)
    dataset = load_dataset(tmp_path, tmin=0.0, tmax=1.0, channels="common", resample=100)
    assert (dataset.ch_names, dataset.sfreq) == (("Cz", "C4"), 100.0)
    found = [dataset.load("1", session) for session in "ab"]
    assert {trials.X.shape for trials in found} == {(12, 2, 100)}
    np.testing.assert_array_equal(*(trials.about["onset"] for trials in found))


def test_any_data_set_can_be_reduced() -> None:
    whole = load_dataset("sim-mi")
    part = load_dataset("sim-mi", channels=["C4", "C3"], resample=125)
    assert (part.ch_names, part.sfreq, part.window) == (("C4", "C3"), 125.0, whole.window)
    rows = [whole.ch_names.index(name) for name in part.ch_names]
    X = whole.load("1", whole.sessions("1")[0]).X[:, rows]
    np.testing.assert_allclose(
        part.load("1", part.sessions("1")[0]).X, resampled(X, whole.sfreq, 125.0), rtol=1e-6
    )
    assert load_dataset("sim-mi", channels="common").ch_names == whole.ch_names
    with pytest.raises(DataError, match=r"sim-mi lacks 1 of 1 channels: Xz"):
        select(whole, Selection(channels=("Xz",)))
    for wrong in ("C3", ("C3", "C3")):
        with pytest.raises(DataError, match="C3"):
            Selection(channels=wrong)


def test_what_was_not_asked_for_changes_nothing(tmp_path: Path) -> None:
    """Stored runs are identified by the hash of their data."""
    write(tmp_path, 1)
    hashes = [
        Trials(select(load_dataset(tmp_path, **options), Selection(**options))).hashes
        for options in ({}, {"channels": "common"}, {"channels": NAMES}, {"resample": 100.0})
    ]
    assert all(found == hashes[0] for found in hashes)


@pytest.mark.parametrize(
    "command",
    [
        ("datasets", "check"),
        ("evaluate", "--method", "mdm", "--dataset"),
        ("train", "--out", "model.spdt"),
        ("tokenize", "--out", "tokens"),
    ],
    ids=lambda command: command[0],
)
def test_the_commands_offer_what_works(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "own"
    folder.mkdir()
    write(folder, 1)
    write(folder, 2, NAMES[:4], sfreq=160.0)
    refused = CliRunner().invoke(app, [*command, str(folder)])
    assert refused.exit_code == 1
    assert "lacks Pz: sub-1_ses-2.npz" in refused.stderr
    remedy = re.findall(r"(--channels common|--resample \d+)", refused.stderr)
    assert remedy == ["--channels common", "--resample 100"]
    options = " ".join(remedy).split()
    done = CliRunner().invoke(app, [*command, str(folder), *options])
    assert done.exit_code == 0, done.output
