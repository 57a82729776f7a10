from __future__ import annotations

import json
from pathlib import Path

import pytest

from spdtokens.classifiers.methods import METHODS
from spdtokens.paper.reproduce.side import (
    MODELS,
    efficiency_table,
    rich_side,
    side_content,
    theory_tables,
    write_side,
)
from spdtokens.paper.tables import paper_table
from tests.paper.reproduce.made import COSTS, made_findings


def test_costs_stand_before_the_papers() -> None:
    table = efficiency_table(COSTS, 32)
    assert [row[0].text for row in table.rows] == ["token-log-euclidean", "mdm"]  # its rows first
    ours, other = ([cell.text for cell in row[1:]] for row in table.rows)
    assert ours == [
        "827,000 / 827,908",
        "5.00 / 5.72",
        "3.25 / 2.85",
        "7.50 / 6.53",
        "2.50 / 26.42",
        "12.0 / 32.45",
        "0.25 / 0.42",
    ]
    assert other[0] == "- / -"
    assert other[2] == "9.00 / -"
    assert table.rows[0][1].value == 827_000  # sorted by ours
    assert rich_side(table).row_count == 2


def test_every_model_of_the_paper_is_ours_too() -> None:
    assert set(MODELS.values()) == set(paper_table("efficiency").names)
    assert set(MODELS) <= set(METHODS)


def test_operations_of_the_paper_are_millions() -> None:
    rows = [COSTS[1] | {"name": name} for name in ("spdnet-paper", "eeg-conformer")]
    shown = [row[5].text for row in efficiency_table(rows, 32).rows]
    assert shown == ["2.50 / 0.03", "2.50 / 78,620.00"]


def test_the_theory_is_told_beside_what_was_measured(tmp_path: Path) -> None:
    findings = made_findings()
    properties, claims = theory_tables(findings)
    paper = paper_table("theory")
    assert [row[0].text for row in properties.rows] == list(paper.names)
    for row in properties.rows:
        for cell, column in zip(row[1:], paper.columns[1:], strict=True):
            assert cell.text.endswith(f" / {paper.cell(row[0].text, column).text}")
    by_name = {row[0].text: [cell.text for cell in row[1:]] for row in properties.rows}
    assert [text.split(" ")[0] for text in by_name["K-matrix condition"]] == ["100", "1e+04", "1"]
    assert [text.split(" / ")[0][-5:] for text in by_name["Gradient bound"]] == [
        "-0.50",
        "-1.00",
        " 0.00",
    ]
    wrong = next(row for row in claims.rows if row[0].text == "wrong")
    assert [cell.text for cell in wrong][1:4] == ["fails", "1 < 0", "1 is 1. Counter-example: 1."]
    content = side_content("theory", "spdtokens reproduce theory", claims=findings)
    written = write_side(content, tmp_path)
    assert {path.name for path in written} == {"theory.json", "theory.md", "theory.tex"}
    again = json.loads((tmp_path / "theory.json").read_text())
    assert theory_tables(again["claims"]) == [properties, claims]
    assert (tmp_path / "theory.tex").read_text().count(r"\begin{tabular}") == 2


@pytest.mark.parametrize("name", ["efficiency", "theory"])
def test_where_it_comes_from_is_written(name: str) -> None:
    content = side_content(name, "the command")
    assert content["label"] == paper_table(name).label
    assert content["command"] == "the command"
    assert {"code", "machine", "time", "torch"} <= set(content["origin"])
