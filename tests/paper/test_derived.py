"""The other columns of the paper's tables, against arithmetic by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from math import atan, pi, sqrt
from pathlib import Path

import pandas as pd
import pytest

from spdtokens.classifiers.methods import METHODS
from spdtokens.errors import ReportError
from spdtokens.paper.reproduce import EXPERIMENTS, ScoreTable, tables
from spdtokens.paper.reproduce.derived import DERIVED, Derived
from spdtokens.paper.reproduce.scores import RUNS
from spdtokens.paper.tables import TABLES, paper_table
from spdtokens.reporting.tables import MINUS
from tests.paper.stand_ins import QUICK, made_table

#: Subject, seed, train and test of a run.
Runs = list[tuple[str, int, float, float]]
S, N = 42, 123


def by_hand(name: str, found: dict[tuple[str, str], Runs], **more: object) -> ScoreTable:
    """A table from its runs; the times of its cells are 1, 2, ... seconds."""
    runs = pd.DataFrame(
        [
            (*place, subject, "E", seed, train, test, float(i), 10.0)
            for i, (place, all_) in enumerate(found.items(), 1)
            for subject, seed, train, test in all_
        ],
        columns=list(RUNS),
    ).astype(RUNS)
    mean = runs.groupby(["row", "column", "subject"])[["train", "test"]].mean()
    mean = mean.groupby(["row", "column"]).mean().reindex(list(found))
    cells = pd.DataFrame(
        [
            {"row": row, "column": column, "method": "token-log-euclidean", "protocol": "k-fold"}
            | {"reported": "", **mean.loc[(row, column)], "std": 0.1}
            | {"n_runs": len(found[row, column])}
            for row, column in found
        ]
    )
    return replace(made_table(name), cells=cells.assign(**more), runs=runs)


def one(table: ScoreTable, row: str, column: str) -> Derived:
    (found,) = (each for each in table.derived if (each.row, each.column) == (row, column))
    return found


def shown(table: ScoreTable, row: str, column: str) -> tuple[str, str, str]:
    found = one(table, row, column)
    return found.text("train"), found.text("test"), found.printed


def p_of_two(a: float, b: float) -> float:
    """Two-sided p-value of two differences: with one degree of freedom, t is Cauchy."""
    t = abs(a + b) / abs(a - b)  # the mean over the standard error, both halved
    return 1 - 2 / pi * atan(t)


def p_of_three(a: float, b: float, c: float) -> float:
    """Two-sided p-value of three differences: with two degrees of freedom, a closed form."""
    mean = (a + b + c) / 3
    error = sqrt(sum((x - mean) ** 2 for x in (a, b, c)) / 2 / 3)
    t = abs(mean) / error
    return 1 - t / sqrt(2 + t**2)


def test_geometry() -> None:
    where, other = "BCI2a (S1)", "BCIcha (S2)"
    table = by_hand(
        "geometry",
        {
            ("Log-Euclidean", where): [("1", S, 0.9, 0.6), ("1", N, 1.0, 0.7)],
            ("Log-Euclidean", other): [("2", S, 0.9, 0.5), ("2", N, 0.9, 0.6)],
            # In another order: runs are paired by seed.
            ("BWSPD", where): [("1", N, 0.7, 0.65), ("1", S, 0.8, 0.5)],
            ("BWSPD", other): [("2", S, 0.8, 0.4), ("2", N, 0.8, 0.5)],
        },
    )
    p = one(table, "BWSPD", f"p, {where}")
    assert (p.train, p.test) == pytest.approx((p_of_two(0.1, 0.3), p_of_two(0.1, 0.05)))
    assert p.printed == "0.003"
    assert shown(table, "BWSPD", f"p, {other}") == ("-", "-", "")  # constant differences
    assert shown(table, "Log-Euclidean", "Time/Epoch") == ("0.1 s", "", "0.30s")
    assert shown(table, "BWSPD", "Time/Epoch") == ("0.3 s", "", "0.28s")
    assert shown(table, "BWSPD", "Rel. Cost") == ("3.0x", "", "1.0x")
    assert not [e for e in table.derived if e.row == "Log-Euclidean" and e.kind == "p"]


def test_all_subjects() -> None:
    table = by_hand(
        "all-subjects",
        {
            ("MAMEM", "Log-Euc"): [("1", S, 1.0, 0.5), ("2", S, 0.9, 0.4), ("2", N, 0.7, 0.4)],
            ("MAMEM", "TS+LR"): [("1", -1, 0.7, 0.55), ("2", -1, 0.6, 0.45)],
        },
    )
    assert shown(table, "MAMEM", "Subjects") == ("2", "", "11")
    # Subjects have the same weight, however many seeds they have.
    assert shown(table, "MAMEM", f"Log-Euc {MINUS} TS+LR") == ("+25.0", f"{MINUS}5.0", "+70.5")


def test_multiband() -> None:
    table = by_hand(
        "multiband",
        {
            ("BCI2a", "Single-Token"): [("1", S, 0.8, 0.2), ("2", S, 0.6, 0.4), ("3", S, 0.7, 0.6)],
            ("BCI2a", "Multi-Band"): [("1", S, 0.9, 0.3), ("2", S, 0.8, 0.4), ("3", S, 0.7, 0.5)],
            ("BCIcha", "Single-Token"): [("1", S, 0.8, 0.2)],
            ("BCIcha", "Multi-Band"): [("1", S, 0.8, 0.3)],
        },
    )
    assert shown(table, "BCI2a", "Improvement") == ("+10.0", "+0.0", "+3.96pp")
    assert shown(table, "BCIcha", "Improvement")[2] == "+4.24pp, +3.75"
    for over in ("runs", "subjects"):  # one run each: 0.1 instead of 0.1, and 0.1 instead of 0.2
        found = one(table, "BCI2a", f"Std over {over} reduced by (%)")
        assert (found.train, found.test) == pytest.approx((0.0, 0.5))
    assert shown(table, "BCI2a", "Std over runs reduced by (%)")[1:] == ("50", "96, 87")
    assert shown(table, "BCIcha", "Std over runs reduced by (%)") == ("-", "-", "91, 81")
    p = one(table, "BCI2a", "p over subjects")
    assert p.train == pytest.approx(p_of_three(0.1, 0.2, 0.0))
    assert p.test == pytest.approx(1.0)
    assert p.printed == "<0.001"
    assert shown(table, "BCI2a", "Subjects that improve") == ("2/3", "1/3", "7/9")
    assert shown(table, "BCIcha", "Subjects that improve") == ("0/1", "1/1", "14/16")


def test_subjects_with_one_band_and_three() -> None:
    runs: dict[tuple[str, str], Runs] = {
        ("S2", "Single-Token"): [("2", S, 0.9, 0.5)],
        ("S2", "Multi-Band"): [("2", S, 1.0, 0.45)],
    }
    table = by_hand("multiband-bci2a", runs)
    assert shown(table, "S2", "Improvement") == ("+10.0", f"{MINUS}5.0", "-0.55pp")
    everyone: Runs = [("1", S, 0.9, 0.4), ("1", N, 0.7, 0.6), ("2", S, 0.8, 0.3)]
    table = by_hand(
        "subjects-bci2a", {("S1", "Accuracy"): everyone[:2], ("Overall", "Accuracy"): everyone}
    )
    assert shown(table, "S1", "Min") == ("70.0", "40.0", "76.59")
    assert shown(table, "S1", "Max") == ("90.0", "60.0", "100.00")
    assert shown(table, "Overall", "Min") == ("70.0", "30.0", "38.49")


def test_bn_embed_and_geometric_attention() -> None:
    row = "BCI2a (253)"
    table = by_hand(
        "bn-embed",
        {
            (row, "With BN"): [("1", S, 0.9, 0.6), ("1", N, 0.8, 0.5)],
            (row, "Without BN"): [("1", S, 0.5, 0.3), ("1", N, 0.6, 0.4)],
        },
    )
    assert shown(table, row, "Delta") == ("+30.0", "+20.0", "+23.25")
    p = one(table, row, "p")
    assert (p.train, p.test) == pytest.approx((p_of_two(0.4, 0.2), p_of_two(0.3, 0.1)))
    assert p.printed == "0.053"

    row, runs = "MAMEM (S1)", [("1", S, 0.9, 0.6), ("1", N, 0.8, 0.5)]
    table = by_hand("geometric-attention", {(row, "Standard"): runs, (row, "Geometric"): runs})
    assert shown(table, row, "Delta") == ("+0.0", "+0.0", "+0.74")
    assert shown(table, row, "p") == ("-", "-", "0.8531")
    assert shown(table, row, "Time (Std)") == ("1 s", "", "3.97s")
    assert shown(table, row, "Time (Geo)") == ("2 s", "", "7.31s")


def test_best_seeds() -> None:
    runs: Runs = [("2", S, 1.0, 0.6), ("2", N, 1.0, 0.7), ("2", 456, 0.9, 0.5)]
    table = by_hand("depth", {("Depth 2", "BCIcha (S2)"): runs})
    assert shown(table, "Depth 2", "BCIcha Best") == ("100.0 (2/3)", "70.0 (1/3)", "100.00% (4/5)")


def test_baselines() -> None:
    runs: Runs = [("1", S, 1.0, 0.6)]
    rows = {"Log-Euc": "token-log-euclidean", "EEGNet": "eegnet"}
    cells = {(row, column): runs for row in rows for column in ("BCI2a (S1)", "BCIcha (S2)")}
    table = by_hand("baselines", cells, method=[m for m in rows.values() for _ in range(2)])
    for row, name in rows.items():
        ours, test, printed = shown(table, row, "Params")
        assert ours == f"{METHODS[name].counts[0]:,}"  # type: ignore[index]
        assert (test, printed) == ("", paper_table("baselines").cell(row, "Params").text)
    assert shown(table, "EEGNet", "Input") == ("raw", "", "Raw EEG")
    assert shown(table, "EEGNet", "Time/Epoch") == ("0.3 s", "", "11.0s")  # the third cell


def test_cross_subject() -> None:
    plain: Runs = [("1", S, 0.5, 0.3), ("1", N, 0.5, 0.2), ("2", S, 0.6, 0.2), ("3", S, 0.4, 0.4)]
    aligned: Runs = [("1", S, 0.5, 0.4), ("2", S, 0.5, 0.5), ("3", S, 0.5, 0.6)]
    column, row = "Log-Euc", "BCI2a, Euclidean alignment"
    table = by_hand("cross-subject", {("BCI2a", column): plain, (row, column): aligned})
    assert shown(table, "BCI2a", "Folds") == ("3", "", "9")
    ranges = ("40.0 (3) - 60.0 (2)", "20.0 (2) - 40.0 (3)", "[25.24-41.27]")
    assert shown(table, "BCI2a", "Log-Euc [min-max]") == ranges
    # 0.5 instead of 0.5 on training trials; 0.5 instead of the mean of 0.25, 0.2 and 0.4
    assert shown(table, row, "Log-Euc, gain by alignment") == ("+0.0", "+21.7", "+3.68")


def test_input() -> None:
    table = by_hand(
        "input",
        {
            ("BCI2a", "SPD tokens"): [("1", S, 0.9, 0.5), ("2", S, 0.8, 0.4)],
            ("BCI2a", "Raw time series"): [("1", S, 0.6, 0.2), ("2", N, 0.6, 0.3)],
        },
    )
    assert shown(table, "BCI2a", f"SPD tokens {MINUS} raw") == (
        "+25.0",
        "+20.0",
        "22.4-39.5, 27-44",
    )
    p = one(table, "BCI2a", "p over subjects")
    assert (p.train, p.test) == pytest.approx((p_of_two(0.3, 0.2), p_of_two(0.3, 0.1)))
    assert p.printed == "<0.001"
    ranges = ("60.0 (1) - 60.0 (2)", "20.0 (1) - 30.0 (2)", "20-37")
    assert shown(table, "BCI2a", "Raw, range over subjects") == ranges


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) & set(TABLES)))
def test_every_column_of_the_paper_is_there(name: str) -> None:
    """Every printed cell is among the scores or the derived values, and none twice."""
    table, paper = made_table(name), paper_table(name)
    there = {*table.cells["reported"], *(each.printed for each in table.derived)}
    rows = {"Overall" if row.startswith("Overall") else row: row for row in paper.names}
    for row in rows.keys() & set(table.cells["row"]):
        for column in paper.columns[1:]:
            text = paper.cell(rows[row], column).text
            if name == "geometry" and column == "p":
                assert all(part.split(" ")[0] in there for part in text.split(", ") if part != "-")
            elif name == "multiband" and column == "Improvement":
                assert any(printed.startswith(text) for printed in there)
            else:
                assert text in there, (row, column)
    places = [(each.row, each.column) for each in table.derived]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_without_runs(name: str) -> None:
    table = made_table(name)
    nothing = table.cells.assign(train=float("nan"), test=float("nan"), std=float("nan"), n_runs=0)
    table = replace(table, cells=nothing, runs=table.runs.iloc[:0])
    derived = [each for each in table.derived if each.column not in ("Input", "Params")]
    assert derived
    assert {each.text("train") for each in derived} == {"-"}
    assert {each.text("test") for each in derived} <= {"-", ""}
    again = ScoreTable.from_dict(json.loads(json.dumps(table.to_dict(), allow_nan=False)))
    assert again.derived[0].text("train") == table.derived[0].text("train")
    pd.testing.assert_frame_equal(again.runs, table.runs)


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_the_file_is_the_table(name: str, tmp_path: Path) -> None:
    table = made_table(name)
    table.runs.loc[0, "epochs"] = float("nan")
    text, _, plain = (path.read_text() for path in tables.write_scores(table, tmp_path))
    (again,) = tables.read_folder(tmp_path).scores
    pd.testing.assert_frame_equal(again.cells, table.cells)
    pd.testing.assert_frame_equal(again.runs, table.runs)
    assert [each.to_dict() for each in again.derived] == [e.to_dict() for e in table.derived]
    assert plain.count("\n") < 40 + 11 * len(table.cells) + 8 * len(table.derived)
    assert ("other columns" in text) == (name in DERIVED)


def test_a_file_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    tables.write_scores(made_table("depth"), tmp_path)
    file = tmp_path / "depth.json"
    found = json.loads(file.read_text())
    del found["runs"]
    file.write_text(json.dumps(found))
    with pytest.raises(ReportError, match=r"depth\.json"):
        tables.read_folder(tmp_path)


def test_the_terminal_has_the_other_columns() -> None:
    (found,) = tables.derived_tables(made_table("depth"))
    assert found.headers == ("row", "column", "ours (train)", "ours (test)", "paper")
    assert [cell.text for cell in found.rows[0]] == [
        *("Depth 2", "BCI2a Best", "91.0 (1/2)", "51.0 (1/2)", "94.84%")
    ]
    assert tables.derived_tables(made_table("bands")) == []
    assert QUICK.note not in found.note  # said once, by the table of scores
