"""``train`` and ``predict`` as a new user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from tests.helpers.recordings import simulated, write_edf

RUNNER = CliRunner(env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    for session in (0, 1):
        raw, _ = simulated(session=session, n=40, classes=("left hand", "right hand"))
        write_edf(folder / f"day{session + 1}.edf", raw)
    return folder


def run(*args: object, code: int = 0) -> str:
    result = RUNNER.invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result.output


def test_from_a_recording_to_decisions(folder: Path, tmp_path: Path) -> None:
    model, report = tmp_path / "model.spdt", tmp_path / "report.html"
    said = run(
        "train",
        folder / "day1.edf",
        "--events",
        "left=cue/left hand,right=cue/right hand",
        "--tmin",
        0.5,
        "--tmax",
        3.5,
        "--out",
        model,
        "--report",
        report,
    )
    for part in (
        "22: Fz, FC3",
        "left (",
        "trials), right (",
        "250 Hz",
        "0.5 to 3.5 s after the event",
        "recommended",
        "Above chance",
        "trained on all 40 trials",
    ):
        assert part in said
    assert "spdtokens" in report.read_text()
    said = run("predict", model, folder / "day2.edf", "--out", tmp_path / "table.csv")
    assert "40 trials: left" in said
    assert "Right:" in said
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 41
    printed = run("predict", model, folder / "day2.edf", "--every", 2)
    assert printed.startswith("file,trial,onset_s,truth,predicted,p(left),p(right)\nday2.edf,0,0.0")


def test_for_machines(folder: Path, tmp_path: Path) -> None:
    result = RUNNER.invoke(
        app,
        [
            "train",
            str(folder),
            "--tmin",
            "0.5",
            "--tmax",
            "3.5",
            "--recentre",
            "--json",
            "--out",
            str(tmp_path / "model.spdt"),
        ],
    )
    found = json.loads(result.stdout)
    assert found["protocol"] == "leave-one-session-out"
    assert sum(found["trials"].values()) == 80
    assert found["above_chance"] is True


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing.edf", "--out", "m.spdt"], "There is no data set 'nothing.edf', and no such"),
        (["day1.edf", "--out", "m.pkl"], "does not end in .spdt"),
        (["day1.edf", "--out", "nowhere/m.spdt"], "There is no folder"),
        (["day1.edf", "--out", "m.spdt"], "--tmin 0.5 --tmax 3.5"),
        (["day1.edf", "--out", "m.spdt", "--events", "a=1,b=2"], "has no event '1'. Its events"),
        (["day1.edf", "--out", "m.spdt", "--report", "r.txt"], "does not end in .html"),
    ],
)
def test_mistakes_are_told_before_any_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert said in run("train", *args, code=1)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("out", ["nowhere/table.csv", "."])
def test_predict_looks_at_the_output_first(tmp_path: Path, out: str) -> None:
    """Not after an hour of recording was decoded: here there is not even a model."""
    said = run(
        "predict", tmp_path / "none.spdt", tmp_path / "none.edf", "-o", tmp_path / out, code=1
    )
    assert str(tmp_path / out) in said or str((tmp_path / out).parent) in said
    assert "none.spdt" not in said
