"""The index of the paper: complete, with commands that exist, and verdicts that can change."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main
from typer.testing import CliRunner

from spdtokens.classifiers.methods import PRESETS, get_method
from spdtokens.cli import app
from spdtokens.datasets.registry import list_datasets
from spdtokens.evaluation.protocols import get_protocol
from spdtokens.paper.audit import CHECKS
from spdtokens.paper.claims import (
    NAME,
    SECTIONS,
    STATEMENTS,
    Results,
    check_statements,
    claims_tables,
    results_of,
    settings,
)
from spdtokens.paper.claims.rules import RULES, Part, joined, look_up
from spdtokens.paper.reproduce import EXPERIMENTS, Extent, ScoreTable
from spdtokens.paper.reproduce.experiments import EMBEDDINGS
from spdtokens.paper.reproduce.figures import FIGURES
from spdtokens.paper.reproduce.scores import RUNS
from spdtokens.paper.reproduce.tables import NAMES, read_folder
from spdtokens.paper.theory import CLAIMS
from tests.paper.stand_ins import ATTENTION, made_folder

TEX = Path(__file__).parents[3] / "shared" / "paper" / "paper.tex"
KINDS = {
    "tab": ("table",),
    "fig": ("figure",),
    "thm": ("theorem",),
    "prop": ("proposition",),
    "lem": ("lemma",),
    "cor": ("corollary",),
    "alg": ("algorithm",),
}


# The index


@pytest.mark.skipif(not TEX.exists(), reason="no shared/paper beside this checkout")
def test_every_label_of_the_paper_is_in_the_index() -> None:
    labels = re.findall(r"\\label\{((?:tab|fig|thm|prop|lem|cor|alg):[^}]*)\}", TEX.read_text())
    assert len(labels) == len(set(labels)) > 30
    for label in labels:
        kinds = {one.kind for one in STATEMENTS if label in one.where.split("; ")}
        assert kinds & set(KINDS[label.split(":")[0]]), label


@pytest.mark.skipif(not TEX.exists(), reason="no shared/paper beside this checkout")
def test_places_exist() -> None:
    known = set(re.findall(r"\\label\{([^}]*)\}", TEX.read_text()))
    for one in STATEMENTS:
        for place in one.where.split("; "):
            name = place.split(" (")[0]
            assert name in known or name in ("abstract", "introduction"), one.id


def test_the_index_is_whole() -> None:
    assert len({one.id for one in STATEMENTS}) == len(STATEMENTS) > 100
    kinds = {kind for section in SECTIONS.values() for kind in section}
    assert {one.kind for one in STATEMENTS} == kinds
    assert all(one.says and one.command and one.rules for one in STATEMENTS)
    count = {kind: sum(one.kind == kind for one in STATEMENTS) for kind in kinds}
    assert (count["prediction"], count["contribution"]) == (4, 3)


def parsed(command: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a command, read by the command line itself."""
    first, *words = shlex.split(command)
    assert first == "spdtokens"
    group = typer.main.get_command(app)
    with group.make_context("spdtokens", words, resilient_parsing=True) as context:
        name, found, rest = group.resolve_command(context, words)  # type: ignore[attr-defined]
        assert found is not None
        return str(name), found.make_context(name, rest, parent=context).params


@pytest.mark.parametrize("command", sorted({one.command for one in STATEMENTS}))
def test_commands_are_accepted(command: str) -> None:
    name, values = parsed(command)
    if name == "reproduce":
        assert set(values["names"]) <= {*NAMES, NAME, "all"}
    if name == "evaluate":
        assert values["dataset"] in {one.name for one in list_datasets()}
        assert values["preset"] in PRESETS
        get_protocol(values["protocol"])
        for method in values["method"].split(","):
            get_method(method)


def test_a_wrong_command_would_be_found() -> None:
    with pytest.raises(Exception, match="no-such"):
        parsed("spdtokens evaluate --dataset sim-mi --no-such-option 3")


def test_rules_name_what_exists() -> None:
    known = {
        (name, cell.row, cell.column)
        for name, experiment in EXPERIMENTS.items()
        for cell in experiment.cells()
    }
    findings = {
        "theory": {claim.id for claim in CLAIMS},
        "audit": {check.id for check in CHECKS},
        "noted": {check.id for check in CHECKS},
        "drawn": set(FIGURES),
        "ends_lower": {*FIGURES, *EMBEDDINGS},
        "shown": set(FIGURES),
    }
    for one in STATEMENTS:
        for rule, *values in one.rules:
            if rule in findings:
                assert set(values) <= findings[rule], one.id
            elif rule == "setting":
                assert settings.our_value(values[0]) is not None, one.id
            elif rule in ("gain", "printed"):
                columns = {column for table, _, column in known if table == values[0]}
                assert columns, one.id
                assert rule == "printed" or set(values[1:]) <= columns
            elif rule in ("above", "alike", "between", "steadier"):
                for path in (value for value in values if isinstance(value, str)):
                    place = tuple(path.split(" / "))
                    assert place in known, path
            else:
                assert rule in ("similar", "lowest", "attention_cost"), one.id


# The rules


def scores(cells: dict[str, tuple[float, ...]], data: str = "sim", name: str = "made") -> Results:
    """Results with one table; cells ``'row / column'``: test, std, n_runs, train, printed.

    More than ten runs, or nine, are of several subjects: five seeds of each if that is possible.
    """
    rows, runs = [], []
    for place, (test, std, n_runs, *more) in cells.items():
        row, column = place.split(" / ")
        train, reported = (*more, *(None, None)[len(more) :])
        rows.append(
            {
                "row": row,
                "column": column,
                "train": 0.9 if train is None else train,
                "test": test,
                "std": std,
                "reported": "" if reported is None else f"{100 * reported:.2f}",
                "n_runs": int(n_runs),
            }
        )
        seeds = 5 if n_runs > 10 and n_runs % 5 == 0 else 1 if n_runs in (9, 16) else int(n_runs)
        for i in range(int(n_runs)):
            about = {"subject": str(i // seeds), "fold": "", "seed": i % seeds}
            runs.append({"row": row, "column": column, **about, "train": 0.9, "test": test})
    extent = Extent(data)  # type: ignore[arg-type]
    made = pd.DataFrame(rows), pd.DataFrame(runs, columns=list(RUNS))
    table = ScoreTable(name, "Made", "", "", "", None, extent, *made)
    return Results(scores={name: table})


def applied(rule: str, results: Results, *values: Any) -> Part:
    return RULES[rule](results, *values)


def test_attention_cost() -> None:
    rows = [row for row in ATTENTION if row["printed_ratio"]]
    assert applied("attention_cost", Results(attention=rows[:1]), 1.5).verdict == "holds"
    assert applied("attention_cost", Results(attention=rows[1:]), 1.5).verdict == "fails"
    assert applied("attention_cost", Results(attention=rows), 1.5).verdict == "partly"
    assert applied("attention_cost", Results(), 1.5).verdict == "not tested"


def test_standard_errors_are_over_subjects_or_seeds() -> None:
    results = scores(
        {
            "a / x": (0.6, 0.1, 45),
            "b / x": (0.6, 0.1, 5),
            "c / x": (0.6, 0.1, 9),
            "d / x": (0.6, 0.1, 10),  # ten seeds of one subject
        }
    )
    errors = [look_up(results, f"made / {row} / x").error for row in "abcd"]  # type: ignore[union-attr]
    assert errors == pytest.approx([0.1 / 3, 0.1 / 5**0.5, 0.1 / 3, 0.1 / 10**0.5])
    assert look_up(results, "made / e / x") is None
    assert look_up(results, "other / a / x") is None


@pytest.mark.parametrize(
    ("test", "std", "verdict"),
    [
        (0.70, 0.05, "holds"),  # 10 points, standard error of the difference 3.2
        (0.62, 0.05, "undecided"),
        (0.50, 0.05, "fails"),
        (0.70, float("nan"), "undecided"),  # a single run
    ],
)
def test_above(test: float, std: float, verdict: str) -> None:
    results = scores({"a / x": (test, std, 5), "b / x": (0.6, 0.05, 5)})
    found = applied("above", results, "made / a / x", "made / b / x")
    assert found.verdict == verdict
    assert "simulated data" in found.evidence
    assert f"{100 * test:.1f}" in found.evidence
    assert applied("above", results, "made / a / x", "made / c / x").verdict == "not tested"
    assert "simulated" not in applied(
        "above", scores({"a / x": (0.7, 0.1, 5), "b / x": (0.6, 0.1, 5)}, "real"),
        "made / a / x", "made / b / x",
    ).evidence  # fmt: skip


def test_above_several() -> None:
    cells = {"a / x": (0.7, 0.05, 5), "b / x": (0.6, 0.05, 5), "c / x": (0.9, 0.05, 5)}
    paths = [f"made / {row} / x" for row in "abc"]
    assert applied("above", scores(cells), *paths).verdict == "partly"
    assert applied("above", scores(cells), paths[2], *paths[:2]).verdict == "holds"


def test_alike() -> None:
    near = scores({"a / x": (0.61, 0.05, 5), "b / x": (0.6, 0.05, 5)})
    far = scores({"a / x": (0.71, 0.05, 5), "b / x": (0.6, 0.05, 5)})
    pair = ("made / a / x", "made / b / x")
    assert [applied("alike", found, *pair).verdict for found in (near, far)] == ["holds", "fails"]
    assert applied("alike", Results(), *pair).verdict == "not tested"


def test_between() -> None:
    results = scores({"a / x": (0.30, 0.02, 5)})
    verdicts = [
        applied("between", results, "made / a / x", *r).verdict for r in ((20, 35), (40, 50))
    ]
    assert verdicts == ["holds", "fails"]


@pytest.mark.parametrize(
    ("std", "share", "verdict"),
    [(0.01, 89, "holds"), (0.05, 89, "partly"), (0.2, 89, "fails"), (0.05, 0, "holds")],
)
def test_steadier(std: float, share: float, verdict: str) -> None:
    results = scores({"a / x": (0.6, std, 5), "b / x": (0.6, 0.1, 5)})
    found = applied("steadier", results, "made / a / x", "made / b / x", share)
    assert found.verdict == verdict
    assert f"{100 * (1 - std / 0.1):.0f} %" in found.evidence


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ((0.05, 0.06, 0.04), "holds"),
        ((0.05, -0.06, 0.02), "undecided"),
        ((-0.1, -0.1, -0.09), "fails"),
    ],
)
def test_gain_is_paired(gains: tuple[float, ...], verdict: str) -> None:
    """Subjects differ much more than the two columns."""
    cells = {}
    for i, (base, more) in enumerate(zip((0.4, 0.6, 0.8), gains, strict=True)):
        cells |= {f"S{i} / one": (base, 0.1, 5), f"S{i} / three": (base + more, 0.1, 5)}
    cells |= {"Overall / one": (0.9, 0.1, 15), "Overall / three": (0.1, 0.1, 15)}
    found = applied("gain", scores(cells), "made", "three", "one")
    assert found.verdict == verdict
    assert f"{sum(g > 0 for g in gains)} of 3 subjects" in found.evidence


def test_printed_decides_on_the_papers_data_only() -> None:
    as_train = {"a / x": (0.6, 0.1, 5, 0.97, 0.95), "b / x": (0.6, 0.1, 5, 0.9, 0.88)}
    as_test = {"a / x": (0.6, 0.1, 5, 0.97, 0.61), "b / x": (0.6, 0.1, 5, 0.9, 0.88)}
    as_test |= {"c / x": (0.5, 0.1, 5, 0.97, 0.52)}
    assert applied("printed", scores(as_train), "made").verdict == ""
    assert "train score in 2 of 2 cells" in applied("printed", scores(as_train), "made").evidence
    verdicts = [applied("printed", scores(c, "real"), "made").verdict for c in (as_train, as_test)]
    assert verdicts == ["fails", "holds"]
    assert applied("printed", scores(as_test, "real"), "made", "b / x").verdict == "fails"


def test_costs() -> None:
    costs = {"a": {"ms": 1.0, "mb": 5.0}, "b": {"ms": 1.2, "mb": 4.0}, "c": {"ms": 2.0, "mb": None}}
    results = Results(costs=costs)
    assert [applied("similar", results, "a", o, "ms").verdict for o in "bc"] == ["holds", "fails"]
    assert [applied("lowest", results, m, "mb").verdict for m in "abc"] == [
        "fails",
        "holds",
        "not tested",
    ]
    assert applied("similar", Results(), "a", "b", "ms").verdict == "not tested"


def test_findings_and_figures() -> None:
    def one(verdict: str) -> dict[str, Any]:
        return {"verdict": verdict, "evidence": "measured", "arithmetic": "computed"}

    known = {"a": one("holds"), "b": one("corrected"), "c": one("undecided")}
    results = Results(audit=known, theory=known, figures={"curves": "ends at 0.5"})
    for rule, word in (("theory", "measured"), ("audit", "computed")):
        found = {n: applied(rule, results, *n) for n in ("a", "b", "c", "ab", "d")}
        verdicts = ["holds", "fails", "undecided", "partly", "not tested"]
        assert [part.verdict for part in found.values()] == verdicts
        assert word in found["ab"].evidence
    assert applied("noted", results, "b").verdict == ""
    assert applied("drawn", results, "curves").verdict == "holds"
    assert applied("drawn", Results(), "curves").verdict == "not tested"
    assert applied("shown", results, "curves") == Part("", "drawn: ends at 0.5")


@pytest.mark.parametrize(("end", "verdict"), [("0.01", "holds"), ("1e-01", "fails")])
def test_lines_of_figures(end: str, verdict: str) -> None:
    text = f"sim-mi: Log-Euc ends at 0.05; BWSPD ends at {end}."
    values = ("convergence", "BWSPD", "Log-Euc")
    assert applied("ends_lower", Results(figures={"convergence": text}), *values).verdict == verdict
    without = Results(figures={"convergence": "Log-Euc ends at 0.05."})
    for found in (Results(), without):
        assert applied("ends_lower", found, *values).verdict == "not tested"


def test_settings_are_read_from_the_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    assert applied("setting", Results(), "paper.n_layers", 6).verdict == "holds"
    assert applied("setting", Results(), "paper.n_layers", 5).verdict == "fails"
    assert applied("setting", Results(), "crop", [124, 562, 438]).verdict == "holds"
    assert applied("setting", Results(), "crop", [124, 562]).verdict == "fails"
    monkeypatch.setitem(PRESETS, "paper", {"n_layers": 2})
    assert applied("setting", Results(), "paper.n_layers", 6).verdict == "fails"
    monkeypatch.setattr(settings.bci2a, "MATT_CROP", (0, 438))
    assert settings.FACTS["crop"].__wrapped__() == (0, 438, 438)  # type: ignore[attr-defined]


def test_parts_are_joined() -> None:
    assert joined(["holds", "holds", ""]) == "holds"
    assert joined(["holds", "undecided"]) == "partly"
    assert joined(["fails", "not tested"]) == joined([""]) == "not tested"


# The verdicts of the paper


def test_our_settings_are_the_papers() -> None:
    found = [one for one in check_statements(Results()) if one["kind"] == "hyper-parameter"]
    assert {one["verdict"] for one in found} == {"holds"}


def test_results_decide(tmp_path: Path) -> None:
    """Of the made tables each score is a little lower than the one before."""
    folder = read_folder(made_folder(tmp_path, ("geometry", "bn-embed")))
    by_id = {one["id"]: one for one in check_statements(results_of(folder, []))}
    assert by_id["use-bn-embed"]["verdict"] == "partly"  # within the standard error
    assert "simulated data" in by_id["use-bn-embed"]["evidence"]
    assert by_id["use-log"]["verdict"] == "not tested"
    bn = next(table for table in folder.scores if table.name == "bn-embed")
    cells = bn.cells.assign(test=[0.9, 0.5, 0.9, 0.5, 0.7, 0.7], std=0.01)
    table = replace(bn, cells=cells)
    found = {s.id: s.check(Results(scores={"bn-embed": table})) for s in STATEMENTS}
    assert found["use-bn-embed"]["verdict"] == "holds"


def test_the_command_writes_the_index(tmp_path: Path) -> None:
    made_folder(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", "claims", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"{len(STATEMENTS)} statements" in " ".join(result.stdout.split())
    stored = json.loads((tmp_path / "claims.json").read_text())
    assert [one["id"] for one in stored["statements"]] == [one.id for one in STATEMENTS]
    assert all(one["command"] and one["evidence"] for one in stored["statements"])
    tables = claims_tables(stored["statements"])
    assert sum(len(table.rows) for table in tables) == len(STATEMENTS)
    text, tex = ((tmp_path / f"claims{end}").read_text() for end in (".md", ".tex"))
    assert all(f"**{title}**" in text for title in SECTIONS)
    assert tex.count(r"\begin{tabular}") == len(SECTIONS)
    page = (tmp_path / "report.html").read_text()
    sections = re.findall(r'<h2 id="section-([^"]*)"', page)
    assert sections[0] == NAME
    assert all(f'<table id="{table.name}"' in page for table in tables)
