"""``spdtokens study`` as a user runs it."""

from __future__ import annotations

import csv
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from spdtokens.evaluation.runs import code_digest
from spdtokens.experiments.run import Progress, StudyBar
from spdtokens.experiments.store import RunStore
from tests.experiments.helpers import edit, write_study
from tests.helpers import run, run_json, unboxed

TEXT = """
datasets = ["data"]
protocols = ["session-transfer"]
seeds = 2
methods = ["mdm", "ts-lr", {name = "spd-token-mlp", epochs = 2, label = "small mlp"}]
"""
RUNS = 3 * (1 + 1 + 2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", TEXT, subjects=3)


def study(command: str, file: Path, *options: object, code: int = 0) -> Result:
    return run("study", command, file, *options, code=code, columns=100)


def test_run_status_show_export_compare(file: Path, tmp_path: Path) -> None:
    store = file.with_suffix(".sqlite")
    for command in ("status", "show", "compare"):
        early = study(command, file, code=1).stderr
        assert str(store) in early
        assert f"spdtokens study run {file}" in early
    ran = study("run", file)
    assert f"{RUNS} runs: 0 stored before, {RUNS} done now, 0 failed" in ran.stdout
    assert ran.stderr == ""  # no terminal, no bar
    assert f"{RUNS} runs: {RUNS} stored before, 0 done now" in study("run", file).stdout

    state = run_json("study", "status", file)
    assert (state["done"], state["total"]) == (RUNS, RUNS)
    assert state["methods"] == [
        {"method": "mdm", "done": 3, "total": 3},
        {"method": "ts-lr", "done": 3, "total": 3},
        {"method": "small mlp", "done": 6, "total": 6},
    ]
    assert list(state["codes"].values()) == [RUNS]
    assert "small mlp" in study("status", file).stdout

    (table,) = run_json("study", "show", file, "--metric", "kappa")["tables"]
    assert [row["method"] for row in table["results"]] == ["mdm", "ts-lr", "small mlp"]
    assert {row["metric"] for row in table["results"]} == {"kappa"}
    shown = study("show", file)
    assert shown.stderr == ""
    assert "session-transfer, target access train" in shown.stdout

    out = tmp_path / "runs.csv"
    assert str(out) in study("export", file, "--out", out).stdout
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    mine = [float(row["test_accuracy"]) for row in rows if row["method"] == "mdm"]
    (table,) = run_json("study", "show", file)["tables"]
    assert table["results"][0]["score"] == pytest.approx(np.mean(mine))
    trials = tmp_path / "trials.csv"
    study("export", file, "--out", trials, "--rows", "trials")
    assert len(trials.read_text().splitlines()) == 1 + 24 * RUNS

    compared = study("compare", file, "--reference", "ts-lr", "--out", tmp_path / "figures")
    assert "difference to ts-lr" in compared.stdout
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "data-session-transfer-train-differences.png",
        "data-session-transfer-train-ranks.png",
    }
    (found,) = run_json("study", "compare", file)["comparisons"]
    assert (found["reference"], found["over"], found["n"]) == ("mdm", "subjects", 3)
    assert [row["method"] for row in found["methods"]] == ["ts-lr", "small mlp"]


POOLED = """
datasets = ["data"]
methods = ["mdm", "ts-lr"]
[[protocols]]
name = "between-subjects"
test_subjects = [4, "2"]
[[protocols]]
name = "subjects-k-fold"
folds = 2
"""


def test_subjects_that_one_model_tests(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", POOLED, subjects=4)
    assert "6 runs: 0 stored before, 6 done now, 0 failed" in study("run", file).stdout
    edit(file, '[4, "2"]', '["02", "04"]')
    assert "6 runs: 6 stored before, 0 done now" in study("run", file).stdout
    named, groups = run_json("study", "show", file)["tables"]
    assert [list(row["subjects"]) for row in named["results"]] == [["02", "04"]] * 2
    assert [list(row["subjects"]) for row in groups["results"]] == [["01", "02", "03", "04"]] * 2
    assert [row["n_runs"] for row in (*named["results"], *groups["results"])] == [1, 1, 2, 2]
    compared = run_json("study", "compare", file)["comparisons"]
    assert [(found["over"], found["n"]) for found in compared] == [("subjects", 2), ("subjects", 4)]
    for found, shown in zip(compared, (named, groups), strict=True):
        mdm, ts_lr = (np.mean(list(row["subjects"].values())) for row in shown["results"])
        assert found["methods"][0]["difference"] == pytest.approx(ts_lr - mdm)
    edit(file, '["02", "04"]', '["02", "03"]')
    assert "6 runs: 4 stored before, 2 done now" in study("run", file).stdout
    edit(file, 'test_subjects = ["02", "03"]', "")
    assert "test_subjects" in study("run", file, code=1).stderr


@pytest.mark.parametrize(
    ("command", "options", "code", "culprit"),
    [
        ("run", ["--workers", "2", "--cluster", "h:1"], 2, "--workers and --cluster"),
        ("run", ["--cluster", "nowhere"], 1, "'nowhere'"),
        ("run", ["--store", "/nowhere/s.sqlite"], 1, "/nowhere"),
        ("export", ["--out", "runs.xlsx"], 2, "runs.xlsx"),
        ("show", ["--metric", "luck"], 1, "'luck'"),
        ("compare", ["--metric", "luck"], 1, "'luck'"),
    ],
)
def test_mistakes_are_named(
    file: Path, command: str, options: list[str], code: int, culprit: str
) -> None:
    assert culprit in unboxed(study(command, file, *options, code=code).stderr)


def test_ctrl_c_says_how_to_go_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell = StudyBar.tell

    def interrupt(bar: StudyBar, progress: Progress) -> None:
        tell(bar, progress)
        if progress.done == 6:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(StudyBar, "tell", interrupt)
        stopped = study("run", file, code=130).stderr
    assert "6 runs" in stopped
    assert f"{RUNS - 6} left" in stopped
    # What there is can be looked at, and it is said that it is not all.
    for command in ("show", "compare"):
        assert f"{RUNS - 6} of {RUNS} runs" in study(command, file).stderr
    assert f"{RUNS} runs: 6 stored before, {RUNS - 6} done now" in study("run", file).stdout


def test_a_run_that_fails_is_told_and_tried_again(file: Path) -> None:
    recording = file.parent / "data" / "sub-02_ses-1.npz"
    whole = recording.read_bytes()
    with np.load(recording) as opened:
        arrays = dict(opened)
    arrays["C"][5] = np.nan
    np.savez(recording, **arrays)
    for before in (0, 8):
        ran = study("run", file, code=1)
        assert f"{RUNS} runs: {before} stored before, {8 - before} done now, 4 failed" in ran.stdout
        failed = ran.stderr.splitlines()
        assert [line.split(": ")[1] for line in failed if line.startswith("Failed: ")] == [
            "data, mdm, subject 02, fold 2",
            "data, ts-lr, subject 02, fold 2",
            "data, spd-token-mlp, subject 02, fold 2, seed 42",
            "data, spd-token-mlp, subject 02, fold 2, seed 123",
        ]
    recording.write_bytes(whole)
    mended = study("run", file)
    assert mended.stderr == ""
    assert f"{RUNS} runs: 8 stored before, 4 done now, 0 failed" in mended.stdout


def test_compare_without_a_run(file: Path) -> None:
    RunStore(file.with_suffix(".sqlite")).close()
    assert f"spdtokens study run {file}" in study("compare", file, code=1).stderr
    assert "No runs." in study("show", file).stdout


def test_runs_that_were_not_made_alike_are_told(file: Path, tmp_path: Path) -> None:
    """Half of them by other code, and one with another torch."""
    study("run", file)
    store = file.with_suffix(".sqlite")
    for command in (["show"], ["compare"], ["export", "--out", str(tmp_path / "a.csv")]):
        assert study(command[0], file, *command[1:]).stderr == ""
    with RunStore(store) as runs:
        results = runs.results()
    store.unlink()
    changed = [
        replace(result, origin={**result.origin, "code": "0ld"} if i < 5 else result.origin)
        for i, result in enumerate(results)
    ]
    changed[-1] = replace(changed[-1], origin={**changed[-1].origin, "torch": "1.0"})
    with RunStore(store) as runs:
        runs.add(changed)
    code = code_digest()
    for command in (["show"], ["compare"], ["export", "--out", str(tmp_path / "a.csv")]):
        said = unboxed(study(command[0], file, *command[1:], "--any-code").stderr)
        assert f"code 0ld (5), {code} ({RUNS - 5})" in said
        assert "1.0 (1)" in said
        assert "time" not in said


def test_a_store_of_the_first_edition_is_refused_in_a_line(file: Path) -> None:
    """Its runs would not be found: not to be taken for a study that has not begun."""
    path = file.with_suffix(".sqlite")
    RunStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    new = path.with_name(f"{path.stem}-0.2{path.suffix}")
    report = ("report", file, "-o", file.with_suffix(".html"))
    for command in (("study", "run", file), ("study", "status", file), report):
        refused = run(*command, code=1)
        assert refused.stdout == ""
        assert "spdtokens 0.1" in refused.stderr
        assert str(new) in refused.stderr
    study("run", file, "--store", new)  # the remedy
