from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from spdtokens.evaluation.summary import unit_scores
from spdtokens.reporting.page import to_html
from spdtokens.reporting.report import units_of
from spdtokens.reporting.tables import (
    Cell,
    Table,
    efficiency_table,
    methods_table,
    origin_table,
    question_tables,
    settings_table,
    to_latex,
    to_markdown,
    units_table,
)
from tests.evaluation.recordings import evaluated, signals
from tests.reporting.helpers import NASTY, Tree, made_facts, made_report, made_run, many


def test_methods_against_the_runs_themselves() -> None:
    results = many(3, 6, seeds=2)
    facts = made_facts(results)
    table = methods_table(facts)
    for row, (name, runs) in zip(table.rows, results.items(), strict=True):
        cells = dict(zip(table.headers, row, strict=True))
        by_subject = [
            np.mean([r.test["accuracy"] for r in runs if r.spec.subject == s])
            for s in map(str, range(1, 7))
        ]
        assert cells["method"].text == name
        assert cells["test"].value == pytest.approx(np.mean(by_subject))
        assert cells["test"].text == f"{100 * np.mean(by_subject):.1f}"
        assert cells["±"].value == pytest.approx(np.std(by_subject, ddof=1))
        assert cells["train"].text == "95.0"
        assert cells["chance"].text == "50.0"
        assert cells["n"].text == "240"
        assert cells["runs"].text == "12"
    assert [row[2].mark for row in table.rows] == ["best", "", ""]
    p, error = table.headers.index("p"), table.headers.index("ECE")
    assert table.rows[0][p].text == "reference"
    assert table.rows[1][p].value == facts.rows[1].p_holm
    assert table.rows[1][error].value == facts.rows[1].calibration_error


def test_subjects_that_one_model_tests_are_units() -> None:
    index = {str(i): ("a",) for i in range(1, 6)}
    options = {"protocol": "between-subjects", "protocol_options": {"test_subjects": [2, 5]}}
    result = evaluated(signals(index), "mdm", "ts-lr", **options)
    units = units_of(result.results, "accuracy")
    assert units.over == "subjects"
    for row in result.rows:
        assert units.test[row.method].to_dict() == row.subjects
    facts = made_facts(result.results, **options)
    assert facts.title.endswith("between-subjects, test_subjects = 2 subjects")
    said = {row[0].text: row[1].text for row in settings_table(facts).rows}
    assert said["subjects"] == "2: 2 and 5"
    assert said["options"] == 'test_subjects = ["2","5"]'
    assert said["runs"] == "2 of 2"


def test_names_of_metrics_keep_their_capitals() -> None:
    table = methods_table(made_facts(many(2, 2), metric="roc_auc"))
    assert table.note.startswith("ROC AUC: mean over seeds")


def test_scores_at_chance_and_leaks_are_marked() -> None:
    results = {"low": [made_run("low", right=0.5)], "bad": [made_run("bad", leaky="shared")]}
    table = methods_table(made_facts(results))
    assert table.rows[0][2].mark == "faint"
    assert "*50.0*" in to_markdown(table)
    assert r"\textit{50.0}" in to_latex(table)
    assert table.rows[1][0].text == "bad (leaky)"


@pytest.mark.parametrize(("n_methods", "n_subjects"), [(3, 6), (6, 3)])
def test_subjects_go_down_where_there_are_more(n_methods: int, n_subjects: int) -> None:
    facts = made_facts(many(n_methods, n_subjects))
    table = units_table(facts)
    assert len(table.rows) == max(n_methods, n_subjects)
    values = np.array([[cell.value for cell in row[1:]] for row in table.rows])
    wanted = facts.units.test.to_numpy()
    np.testing.assert_array_equal(values, wanted if n_subjects > n_methods else wanted.T)
    best = np.array([[cell.mark == "best" for cell in row[1:]] for row in table.rows])
    assert best.sum() == n_subjects


def test_a_missing_score_is_a_dash_and_not_the_best() -> None:
    results = {"a": [made_run("a", "1"), made_run("a", "2")], "b": [made_run("b", "1", right=0.9)]}
    table = units_table(made_facts(results))
    assert [cell.text for cell in table.rows[1]] == ["2", "80.0", "-"]
    assert table.rows[1][1].mark == "best"
    assert table.rows[1][2].mark == ""


def test_html_can_be_parsed_and_sorted() -> None:
    row = [Cell(NASTY), Cell("1.0", 1.0, "best"), Cell("-", float("nan"))]
    tree = Tree(to_html(Table("t", NASTY, ("a<b", "x", "y"), [row], note="<&>")))
    assert NASTY in tree.inside("th")
    assert tree.inside("button") == ["a<b", "x", "y"]
    assert [found.get("data-v") for found in tree.all("td")] == ["1", ""]
    assert tree.all("table")[0]["aria-label"] == NASTY


def unescaped(text: str, signs: str) -> list[str]:
    return re.findall(rf"(?<!\\)[{re.escape(signs)}]", text)


def test_latex_is_escaped_and_balanced() -> None:
    name = NASTY + ' ^ ~ \\ "q" \N{MINUS SIGN} ±'
    text = to_latex(Table("t", name, ("name", "x"), [[Cell(name), Cell("1", 1.0)]] * 2))
    line = next(line for line in text.splitlines() if "1 \\\\" in line)
    cell = line.split(" & 1 ")[0].strip()
    plain = re.sub(r"\\text\w+\{\}", "", cell).replace("$-$", "").replace(r"$\pm$", "")
    assert not unescaped(plain, "&%$#_{}~^")
    assert len(unescaped(line, "&")) == 1
    assert len(unescaped(text, "{")) == len(unescaped(text, "}"))
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lr}"):
        assert word in text
    assert text.isascii()


def test_a_row_that_begins_with_a_bracket_is_no_option() -> None:
    text = to_latex(Table("t", "t", ("name",), [[Cell("[1]")], [Cell("*")]]))
    assert "{}[1]" in text
    assert "{}*" in text


def test_markdown_is_escaped() -> None:
    text = to_markdown(Table("t", "t", ("name", "x"), [[Cell(NASTY), Cell("1", 1.0)]]))
    line = text.splitlines()[-1]
    assert len(unescaped(line, "|")) == 3
    assert r"\_" in line
    assert r"\<c\>" in line
    assert "| --- | ---: |" in text


def test_every_table_has_a_name_of_its_own() -> None:
    report = made_report(made_facts(many()))
    names = [table.name for table in report.tables()]
    assert len(set(names)) == len(names)
    scores = ["methods-1", "subjects-1", "differences-1"]
    assert names == [*scores, "efficiency-1", "settings-1", "origin"]
    for table in report.tables():
        assert {len(row) for row in table.rows} == {len(table.headers)}


def test_one_subject_one_fold_has_no_differences() -> None:
    facts = made_facts({"a": [made_run("a")], "b": [made_run("b", right=0.6)]})
    names = [table.name for table in question_tables(facts)]
    assert names == ["methods-1", "seeds-1", "efficiency-1"]


def test_long_texts_are_broken_into_lines_by_latex() -> None:
    rows = [[Cell("a"), Cell("word " * 30)]]
    assert r"\begin{tabular}{lp{0.6\linewidth}}" in to_latex(Table("t", "t", ("x", "y"), rows))


def test_a_row_has_weights_median_time_and_least_memory() -> None:
    runs = [replace(made_run("a", s), seconds=t, memory=m)
            for s, t, m in (("1", 1.0, 300.0), ("2", 9.0, 250.0), ("3", 2.0, 400.0))]  # fmt: skip
    facts = made_facts({"a": runs, "b": [made_run("b", leaky="all was seen")]})
    table = efficiency_table(replace(facts, parameters={"a": 12345}))
    assert table.headers[2:] == ("parameters", "seconds", "longest", "trained on", "MB, at most")
    first, second = table.rows
    assert [cell.text for cell in first] == ["a", "80.0", "12,345", "2", "9", "80", "250"]
    values = [cell.value for cell in first[1:]]
    assert values == pytest.approx([0.8, 12345, 2.0, 9.0, 80.0, 250.0])
    assert second[0].text == "b (leaky)"
    assert second[2].text == "-"


def test_subjects_are_means_over_seeds_then_folds() -> None:
    runs = [
        made_run("a", "1", "x", 0, right=1.0),
        made_run("a", "1", "x", 1, right=0.5),
        made_run("a", "1", "y", 0, right=0.5),
        made_run("a", "2", "x", 0, right=0.7),
    ]
    units = units_of({"a": runs, "b": runs[-1:]}, "accuracy")
    assert (units.over, list(units.test.index)) == ("subjects", ["1", "2"])
    assert units.test["a"].tolist() == pytest.approx([0.625, 0.7])
    assert units.train["a"].tolist() == pytest.approx([0.95, 0.95])
    assert np.isnan(units.test["b"].iloc[0])
    assert units.complete() is None  # one subject that both have is too few
    more = units_of({"a": runs, "b": runs}, "accuracy").complete()
    assert more["a"].tolist() == pytest.approx([0.625, 0.7])


@pytest.mark.parametrize("subjects", [("1",), ("1", "2", "3")])
def test_they_agree_with_the_summary(subjects: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    results = {
        name: [
            made_run(name, s, fold, seed, right=rng.uniform(0.4, 1))
            for s in subjects
            for fold in ("x", "y", "z")
            for seed in (1, 2)
        ]
        for name in ("a", "b")
    }
    over, scores = unit_scores(results, "accuracy")
    units = units_of(results, "accuracy")
    assert units.over == over
    for name, values in scores.items():
        assert units.test[name].tolist() == pytest.approx(values)


def test_one_fold_is_looked_at_by_seed() -> None:
    runs = [made_run("a", seed=seed, right=0.6 + 0.1 * seed) for seed in (1, 2)]
    units = units_of({"a": runs, "b": [made_run("b", right=0.5)]}, "accuracy")
    assert (units.over, list(units.test.index)) == ("seeds", ["1", "2", "no seed"])
    assert not units.paired
    assert units.test["a"].tolist()[:2] == pytest.approx([0.7, 0.8])
    assert units.test["b"].tolist()[2] == pytest.approx(0.5)


def test_origins_that_differ_are_counted_and_the_protocol_is_told_in_full() -> None:
    runs = [made_run("a", s) for s in "123"]
    runs[2] = replace(runs[2], origin={**runs[2].origin, "code": "0ld", "time": "2026-11-18"})
    told = {row[0].text: row[1].text for row in origin_table(runs).rows}
    code = runs[0].origin["code"]
    assert told["digest of the code"] == f"{code} (2 runs), 0ld (1 run)"
    assert told["time"] == "2026-11-16 to 2026-11-18"
    facts = made_facts({"a": runs}, protocol="blocks", protocol_options={"folds": 4})
    assert facts.protocol == "blocks, folds = 4"
    aligned = made_facts({"a": runs}, access="unlabeled_full", alignment="recentre")
    assert aligned.protocol == "session-transfer, access unlabeled_full, recentre by session"
