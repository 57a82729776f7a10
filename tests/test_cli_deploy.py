"""``train`` and ``predict`` as a new user runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import run, run_json
from tests.helpers.recordings import simulated, write_edf

TIMES = ("--tmin", 0.5, "--tmax", 3.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    for session in (0, 1):
        raw, _ = simulated(session=session, n=40, classes=("left hand", "right hand"))
        write_edf(folder / f"day{session + 1}.edf", raw)
    return folder


def test_from_a_recording_to_decisions(folder: Path, tmp_path: Path) -> None:
    model, report = tmp_path / "model.spdt", tmp_path / "report.html"
    events = "left=cue/left hand,right=cue/right hand"
    options = ("--events", events, *TIMES, "--out", model, "--report", report)
    said = run("train", folder / "day1.edf", *options).output
    for part in (
        "Fz, FC3",
        "trials per class: left ",
        "0.5 to 3.5 s",
        "recommended",
        "above chance",
        "trained on all 40 trials",
    ):
        assert part in said
    assert "spdtokens" in report.read_text()
    said = run("predict", model, folder / "day2.edf", "--out", tmp_path / "table.csv").output
    assert "40 trials: left" in said
    assert " %" in said  # right, as the file has the classes
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 41
    printed = run("predict", model, folder / "day2.edf", "--every", 2).output
    assert printed.startswith("file,trial,onset_s,truth,predicted,p(left),p(right)\nday2.edf,0,0.0")


def test_for_machines(folder: Path, tmp_path: Path) -> None:
    options = (*TIMES, "--recentre", "--out", tmp_path / "model.spdt")
    found = run_json("train", folder, *options)
    assert found["protocol"] == "leave-one-session-out"
    assert sum(found["trials"].values()) == 80
    assert found["above_chance"] is True


def test_a_model_that_guesses_is_called_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((60, 3, 100)), rng.integers(0, 2, 60)
    np.savez(tmp_path / "noise.npz", X=X, y=y, sfreq=100.0)
    said = run("train", tmp_path / "noise.npz", "--out", tmp_path / "model.spdt").stdout
    assert "not significantly above chance" in said
    assert (tmp_path / "model.spdt").exists()


@pytest.mark.parametrize(
    ("args", "culprit"),
    [
        ("nothing.edf --out m.spdt", "nothing.edf"),
        ("day1.edf --out m.pkl", "m.pkl"),
        ("day1.edf --out nowhere/m.spdt", "nowhere"),
        ("day1.edf --out m.spdt", "--tmin 0.5 --tmax 3.5"),
        ("day1.edf --out m.spdt --events a=1,b=2", "'1'"),
        ("day1.edf --out m.spdt --report r.txt", "r.txt"),
    ],
)
def test_mistakes_are_told_before_any_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, args: str, culprit: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert culprit in run("train", *args.split(), code=1).stderr
    assert sorted(folder.iterdir()) == before


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        "predict nothing.spdt day1.edf",
        "export nothing.spdt m.onnx",
        "stream nothing.spdt",
        "report nothing.toml -o r.html",
        "study show nothing.toml",
        "study run nothing.toml",
    ):
        (name,) = (word for word in command.split() if "nothing" in word)
        assert f"Error: {name} does not exist. " in run(*command.split(), code=1).stderr


@pytest.mark.parametrize("out", ["nowhere/table.csv", "."])
def test_predict_looks_at_the_output_first(tmp_path: Path, out: str) -> None:
    """Not after an hour of recording was decoded: here there is not even a model."""
    model, data = tmp_path / "none.spdt", tmp_path / "none.edf"
    said = run("predict", model, data, "-o", tmp_path / out, code=1).stderr
    assert str(tmp_path / out) in said or str((tmp_path / out).parent) in said
    assert "none.spdt" not in said
