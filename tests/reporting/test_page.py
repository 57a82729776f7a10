"""The page of made-up runs, and ``spdtokens report`` of a study that was really run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.errors import ReportError
from spdtokens.experiments import run
from spdtokens.experiments.store import RunStore
from spdtokens.reporting import page as page_module
from spdtokens.reporting.page import check_page_path, page, write_page, write_tables
from tests.reporting.helpers import (
    CHANNELS,
    NASTY,
    Tree,
    made_decision,
    made_facts,
    made_report,
    made_run,
    many,
)


@pytest.fixture(scope="module")
def text() -> str:
    empty = replace(made_facts({"a": []}), number=2)
    return page(made_report(made_facts(many(curves=True)), empty))


def test_it_is_well_formed_and_says_what_the_runs_say(text: str) -> None:
    tree = Tree(text)
    assert "A & <B>" in tree.inside("h1")
    assert 'methods = ["<x>"]' in tree.inside("code")
    assert "spdtokens study run f.toml" in tree.inside("code")
    assert any("method-0 has the highest test accuracy" in told for told in tree.inside("p"))
    assert "No runs yet." in tree.inside("p")
    assert NASTY in tree.inside("th")
    ids = [found["id"] for _, found in tree.elements if "id" in found]
    assert len(set(ids)) == len(ids)
    for link in tree.all("a"):
        assert link["href"].removeprefix("#") in ids


def test_every_figure_is_told_of(text: str) -> None:
    tree = Tree(text)
    figures = tree.all("svg")
    assert len(figures) == 3 + 3 + 3
    assert all(found["role"] == "img" and found["aria-label"] for found in figures)
    assert all(found.get("alt") for found in tree.all("img"))


def test_it_loads_nothing(text: str) -> None:
    tree = Tree(text)
    assert "://" not in text
    assert "@import" not in text
    for tag, found in tree.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert "src" not in found
        assert found.get("href", "#").startswith("#")
    (policy,) = (m["content"] for m in tree.all("meta") if m.get("http-equiv"))
    assert "default-src 'none'" in policy


def test_origin_and_warnings_are_shown(text: str) -> None:
    assert "digest of the code" in text
    assert "other code" not in text
    run = made_run("a")
    foreign = replace(run, origin={**run.origin, "code": "0123"})
    text = page(made_report(made_facts({"a": [foreign]})))
    assert "other code than the spdtokens that wrote this report: 1 of 1 run." in text
    assert "0123" in text


@pytest.mark.parametrize("n_methods", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_thirty_methods_on_twelve_subjects_stay_small(n_methods: int) -> None:
    text = page(made_report(made_facts(many(n_methods, 12, seeds=2, curves=True))))
    assert len(text.encode()) < 3_000_000 * n_methods / 30
    assert len(re.findall("<svg", text)) == 2 + (n_methods <= 20) + 2 * n_methods


@pytest.mark.parametrize(
    ("name", "error"),
    [(".", IsADirectoryError), ("a.pdf", ReportError), ("no/a.html", FileNotFoundError)],
)
def test_paths_are_refused_before_work(tmp_path: Path, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=str(tmp_path)):
        check_page_path(tmp_path / name)


def test_files_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = made_report(made_facts(many()))
    write_page(report, tmp_path / "r.html")
    before = (tmp_path / "r.html").read_text()
    written = write_tables(report, tmp_path / "tables")
    assert {path.suffix for path in written} == {".tex", ".md"}
    assert len(written) == 2 * len(report.tables())

    def broken(_report) -> str:
        raise RuntimeError

    monkeypatch.setattr(page_module, "page", broken)
    with pytest.raises(RuntimeError):
        write_page(report, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "tables"]


@pytest.mark.parametrize("subjects", ["1", "12"])
def test_runs_without_scores_give_a_page_all_the_same(subjects: str) -> None:
    results = {m: [replace(made_run(m, s), test={}, train={}) for s in subjects] for m in "ab"}
    report = made_report(made_facts(results))
    Tree(page(report))
    assert report.tables()


def test_a_section_opens_with_words_the_main_figure_and_the_table(text: str) -> None:
    places = ["highest test accuracy", "Scatter plot of train", 'id="methods-1"', "Method names"]
    found = [text.index(words, text.index('id="section-1"')) for words in places]
    assert found == sorted(found)
    facts = replace(made_facts(many(2)), ch_names=CHANNELS)
    looked = replace(facts, decisions=(made_decision(facts.runs[0]),))
    model = page(replace(made_report(looked), source=""))
    places = ["highest test accuracy", "Confusion matrix", "Importance of each", 'id="methods-1"']
    found = [model.index(words) for words in places]
    assert found == sorted(found)


# ------------------------------------------------------------------ the command

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
        told = [text for text in tree.inside("p") if "highest test accuracy" in text]
        assert best["method"] in told[number - 1]
        assert f"{100 * best['score']:.1f} %" in told[number - 1]
    names = {path.stem for path in tables.iterdir()}
    assert {"overview", "methods-1", "subjects-2", "differences-1", "origin"} <= names
    assert len(list(tables.glob("*.tex"))) == len(list(tables.glob("*.md"))) == len(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "no/report.html"], "There is no folder no"),
        (["-o", "report.pdf"], "report.pdf"),
        (["-o", "r.html", "--store", "none.sqlite"], "none.sqlite"),
    ],
)
def test_it_refuses_in_a_line(study: Path, options: list[str], message: str) -> None:
    result = runner.invoke(app, ["report", str(study), *options])
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_store_without_runs_of_the_study_or_of_this_code(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with monkeypatch.context() as patched:
        patched.setattr(run, "code_digest", lambda: "other")
        result = runner.invoke(app, ["report", str(study), *out])
    assert result.exit_code == 1
    assert "--any-code" in result.stderr
    assert list(tmp_path.glob("*.html")) == []
