from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from spdtokens.errors import ReportError
from spdtokens.reporting import write
from spdtokens.reporting.page import page
from spdtokens.reporting.write import check_page_path, write_page, write_tables
from tests.reporting.made import NASTY, Tree, made_facts, made_report, made_run, many


@pytest.fixture(scope="module")
def text() -> str:
    empty = replace(made_facts({"a": []}), number=2)
    return page(made_report(made_facts(many(curves=True)), empty))


def test_it_is_well_formed_and_says_what_the_runs_say(text: str) -> None:
    tree = Tree(text)
    assert "A & <B>" in tree.inside("h1")
    assert 'methods = ["<x>"]' in tree.inside("code")
    assert "spdtokens study run f.toml" in tree.inside("code")
    assert any("method-0 has the highest test accuracy" in told for told in tree.inside("li"))
    assert "No runs yet." in tree.inside("li")
    assert NASTY in tree.inside("th")
    ids = [found["id"] for _, found in tree.elements if "id" in found]
    assert len(set(ids)) == len(ids)
    for link in tree.all("a"):
        assert link["href"].removeprefix("#") in ids


def test_every_figure_is_told_of(text: str) -> None:
    tree = Tree(text)
    figures = tree.all("svg")
    assert len(figures) == 13
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
    assert "Made by other code" not in text
    run = made_run("a")
    foreign = replace(run, origin={**run.origin, "code": "0123"})
    text = page(made_report(made_facts({"a": [foreign]})))
    assert "Made by other code than the spdtokens that wrote this report: 1 of 1 run." in text
    assert "0123" in text


@pytest.mark.parametrize("n_methods", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_thirty_methods_on_twelve_subjects_stay_small(n_methods: int) -> None:
    text = page(made_report(made_facts(many(n_methods, 12, seeds=2, curves=True))))
    assert len(text.encode()) < 3_000_000 * n_methods / 30
    assert len(re.findall("<svg", text)) == 2 + (1 + (n_methods <= 20)) + 3 * n_methods


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

    monkeypatch.setattr(write, "page", broken)
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
