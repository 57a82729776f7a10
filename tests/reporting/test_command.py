"""``spdtokens report``, from a study that was really run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from tests.reporting.made import Tree

runner = CliRunner()
STUDY = """
name = "easy & fast"
datasets = [{ name = "easy" }]
methods = ["ts-lr", "mdm"]
protocols = ["session-transfer", { name = "blocks", folds = 2 }]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("study")
    (home / "easy").mkdir()
    for subject in ("01", "02", "03"):
        for session in ("1", "2"):
            rng = np.random.default_rng(int(subject + session))
            y = np.arange(40) % 2
            X = rng.standard_normal((40, 3, 40))
            X[:, 0] *= (1 + 0.5 * y)[:, None]
            np.savez(
                home / "easy" / f"sub-{subject}_ses-{session}.npz",
                C=X @ X.transpose(0, 2, 1) / 40,
                y=y,
                classes=np.array(["rest", "move"]),
                ch_names=np.array(["C3", "Cz", "C4"]),
            )
    path = home / "easy.toml"
    path.write_text(STUDY)
    result = runner.invoke(app, ["study", "run", str(path)])
    assert result.exit_code == 0, result.output
    return path


def test_it_says_what_study_show_says(study: Path, tmp_path: Path) -> None:
    out, tables = tmp_path / "report.html", tmp_path / "new" / "tables"
    command = ["report", str(study), "-o", str(out), "--tables", str(tables)]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    assert str(out) in result.stdout
    tree = Tree(out.read_text())
    assert "easy & fast" in tree.inside("h1")
    assert STUDY in tree.inside("code")
    assert any(f"spdtokens study run {study}" in told for told in tree.inside("code"))
    shown = json.loads(runner.invoke(app, ["study", "show", str(study), "--json"]).stdout)
    for number, table in enumerate(shown["tables"], 1):
        text = (tables / f"methods-{number}.md").read_text()
        for row in table["results"]:
            (line,) = (line for line in text.splitlines() if line.startswith(f"| {row['method']} "))
            assert f"{100 * row['score']:.1f}" in line
            assert f"{100 * row['train_score']:.1f}" in line
        best = max(table["results"], key=lambda row: row["score"])
        told = [text for text in tree.inside("li") if "highest test accuracy" in text]
        assert best["method"] in told[number - 1]
        assert f"{100 * best['score']:.1f} %" in told[number - 1]
    names = {path.stem for path in tables.iterdir()}
    assert {"overview", "methods-1", "subjects-2", "differences-1", "origin"} <= names
    assert len(list(tables.glob("*.tex"))) == len(list(tables.glob("*.md"))) == len(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "no/report.html"], "There is no folder no"),
        (["-o", "report.pdf"], "does not end in .html"),
        (["-o", "r.html", "--store", "none.sqlite"], "There is no store none.sqlite"),
    ],
)
def test_it_refuses_in_a_line(study: Path, options: list[str], message: str) -> None:
    result = runner.invoke(app, ["report", str(study), *options])
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_an_empty_store_and_one_of_another_study(study: Path, tmp_path: Path) -> None:
    from spdtokens.experiments.store import RunStore

    out = ["-o", str(tmp_path / "r.html")]
    RunStore(tmp_path / "new.sqlite").close()
    result = runner.invoke(
        app, ["report", str(study), *out, "--store", str(tmp_path / "new.sqlite")]
    )
    assert result.exit_code == 1
    assert "has no runs yet: spdtokens study run" in result.stderr
    other = study.parent / "other.toml"
    other.write_text('datasets = ["easy"]\nmethods = ["ts-lda"]\nprotocols = ["session-transfer"]')
    store = str(study.with_suffix(".sqlite"))
    result = runner.invoke(app, ["report", str(other), *out, "--store", store])
    assert result.exit_code == 1
    assert f"has no run of {other}" in result.stderr
    assert list(tmp_path.glob("*.html")) == []
