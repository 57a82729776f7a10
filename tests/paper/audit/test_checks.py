"""Every check of the audit: its verdict on the paper, and that it hangs on the printed numbers."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from spdtokens.paper import theory
from spdtokens.paper.audit import CHECKS, VERDICTS, Paper
from spdtokens.paper.audit.formulas import FORMULAS
from spdtokens.paper.tables import TABLES, paper_table
from spdtokens.paper.theory.claim import Claim, Finding

BY_ID = {check.id: check for check in CHECKS}
# What a check says of the paper; a place, what is printed there instead, and the verdict then.
# Where the verdict stays (the last entry is empty), the arithmetic must change.
with (Path(__file__).parent / "changes.csv").open(encoding="utf-8") as file:
    CASES = list(csv.DictReader(file))


def test_every_check_of_printed_numbers_has_a_case() -> None:
    assert [case["check"] for case in CASES] == [c.id for c in CHECKS if c.id not in FORMULAS]
    assert len(BY_ID) == len(CHECKS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["check"])
def test_verdict_hangs_on_what_is_printed(case: dict[str, str]) -> None:
    check = BY_ID[case["check"]]
    place = (case[key] for key in ("table", "row", "column"))
    before, after = check.run(), check.run(Paper().changed(*place, case["instead"]))
    assert before["verdict"] == case["verdict"]
    assert after["verdict"] == (case["then"] or case["verdict"])
    assert (after["verdict"], after["arithmetic"]) != (before["verdict"], before["arithmetic"])


#: Words that judge; what is printed and the arithmetic give numbers, and the verdict judges.
JUDGING = re.compile(r"\b(true|untrue|false|holds?|wrong|correct|impossible|never|as printed)\b")


def agree(finding: dict[str, Any]) -> None:
    """Nothing that is said of a check contradicts its verdict."""
    holds = finding["verdict"] == "holds"
    assert finding["expected"].startswith("As it should be: ") == holds
    assert finding["expected"].endswith(".")
    assert not JUDGING.search(finding["printed"] + finding["arithmetic"])
    for answer in re.findall(r": (yes|no)\b", finding["arithmetic"]):
        assert (answer == "yes") == holds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["check"])
def test_texts_agree_with_their_verdict(case: dict[str, str]) -> None:
    """On the paper, and on one that is changed so that the verdict or its numbers are others."""
    check = BY_ID[case["check"]]
    agree(check.run())
    agree(check.run(Paper().changed(*(case[k] for k in ("table", "row", "column", "instead")))))


@pytest.mark.parametrize("name", [c.id for c in CHECKS if c.id not in FORMULAS])
def test_a_finding_is_plain_data(name: str) -> None:
    found = BY_ID[name].run()
    keys = ["id", "where", "printed", "expected", "arithmetic", "verdict", "numbers"]
    assert list(found) == keys
    assert json.loads(json.dumps(found)) is not None
    assert found["verdict"] in VERDICTS
    assert found["printed"]
    assert found["arithmetic"]


def test_places_are_labels_of_the_paper() -> None:
    tables = {paper_table(name).label for name in TABLES}
    sections = {cell.text for cell in paper_table("text").column("Section")}
    known = tables | sections | {"app:datasets", "app:architecture_rationale"}
    for check in CHECKS:
        if check.id not in FORMULAS:
            places = set(check.where.split("; "))
            assert {p for p in places if not p.startswith("fig:")} <= known, check.id


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("finding", ["holds", "corrected", "fails"])
def test_formulas_take_the_verdict_of_the_theory_bench(
    name: str, finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = Finding(finding, "measured", {"x": 1}, "the smallest", "the truth")  # type: ignore[arg-type]
    stub = Claim(name, "there", "it is so", "trying", lambda _: outcome)
    monkeypatch.setattr(theory, "CLAIMS", [stub])
    found = BY_ID[name].run()
    assert (found["verdict"] == "holds") == (finding == "holds")
    assert ("the truth" in found["arithmetic"]) == (finding != "holds")
    agree(found)


def test_the_index_formula_is_tested_and_not_just_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BY_ID["index-formula"].run()["verdict"] == "does not hold"
    monkeypatch.setattr("spdtokens.paper.theory.computing.printed_index", lambda i, j: 1000 * i + j)
    assert BY_ID["index-formula"].run()["verdict"] == "holds"


def test_formulas_on_the_paper() -> None:
    quick = ("backward-formula", "conditioning-name", "absolute-regulariser")
    verdicts = [BY_ID[name].run()["verdict"] for name in quick]
    assert verdicts == ["does not hold", "is something else", "does not hold"]
