"""Every check of the audit: its verdict on the paper, and that it hangs on the printed numbers."""

from __future__ import annotations

import csv
import json
import re
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D
from scipy import stats
from torch import nn
from typer.testing import CliRunner

from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.transformer import SMALL, STANDARD
from spdtokens.cli import app
from spdtokens.paper import audit, theory
from spdtokens.paper.audit import CHECKS, VERDICTS, Paper
from spdtokens.paper.audit.accuracies import (
    overall_spreads,
    paired_p_range,
    possible_spreads,
    wrong_answers,
)
from spdtokens.paper.audit.check import half_step, rounds_to
from spdtokens.paper.audit.granularity import Reported
from spdtokens.paper.audit.statements import FORMULAS, Shape, idle_parameters
from spdtokens.paper.findings import Outcome
from spdtokens.paper.tables import TABLES, Cell, paper_table
from spdtokens.paper.theory.claim import Claim

BY_ID = {check.id: check for check in CHECKS}
# What a check says of the paper; a place, what is printed there instead, and the verdict then.
# Where the verdict stays (the last entry is empty), the arithmetic must change.
with (Path(__file__).parent / "changes.csv").open(encoding="utf-8") as file:
    CASES = list(csv.DictReader(file))


def test_every_check_of_printed_numbers_has_a_case() -> None:
    assert [case["check"] for case in CASES] == [c.id for c in CHECKS if c.id not in FORMULAS]
    assert len(BY_ID) == len(CHECKS)


#: Words that judge; what is printed and the arithmetic give numbers, and the verdict judges.
JUDGING = re.compile(r"\b(true|untrue|false|holds?|wrong|correct|impossible|never|as printed)\b")
KEYS = ["id", "where", "printed", "expected", "arithmetic", "verdict", "numbers"]


def agrees(finding: dict[str, Any]) -> dict[str, Any]:
    """Plain data, and nothing that is said of a check contradicts its verdict."""
    assert list(finding) == KEYS
    assert json.dumps(finding)
    assert finding["verdict"] in VERDICTS
    holds = finding["verdict"] == "holds"
    assert finding["expected"].startswith("Met: ") == holds
    assert finding["expected"].endswith(".")
    assert not JUDGING.search(finding["printed"] + finding["arithmetic"])
    for answer in re.findall(r": (yes|no)\b", finding["arithmetic"]):
        assert (answer == "yes") == holds
    return finding


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["check"])
def test_verdict_hangs_on_what_is_printed(case: dict[str, str]) -> None:
    check = BY_ID[case["check"]]
    place = (case[key] for key in ("table", "row", "column"))
    before = agrees(check.run())
    after = agrees(check.run(Paper().changed(*place, case["instead"])))
    assert before["verdict"] == case["verdict"]
    assert after["verdict"] == (case["then"] or case["verdict"])
    assert (after["verdict"], after["arithmetic"]) != (before["verdict"], before["arithmetic"])


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
    texts = {"Tested on": "trying", "Found": "measured {x}", "Instead": "the truth"}
    stub = Claim(name, "there", "it is so", texts, lambda _: Outcome(finding, {"x": 1}))
    monkeypatch.setattr(theory, "CLAIMS", [stub])
    found = BY_ID[name].run()
    assert (found["verdict"] == "holds") == (finding == "holds")
    assert "measured 1" in found["arithmetic"]
    assert ("the truth" in found["arithmetic"]) == (finding != "holds")
    agrees(found)


def test_formulas_on_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ("index-formula", "backward-formula", "conditioning-name", "absolute-regulariser")
    verdicts = [BY_ID[name].run()["verdict"] for name in quick]
    assert verdicts == ["does not hold", "does not hold", "is something else", "does not hold"]
    # It is tested, and not just said.
    monkeypatch.setattr("spdtokens.paper.theory.tokens.printed_index", lambda i, j: 1000 * i + j)
    assert BY_ID["index-formula"].run()["verdict"] == "holds"


@pytest.mark.parametrize(("data", "config"), [("BCI2a", STANDARD), ("MAMEM", SMALL)])
def test_shape_is_that_of_our_network(data: str, config: object) -> None:
    shape = Shape.of(Paper(), data)
    net = SPDTokenTransformer(shape.token, 1, shape.classes, config)  # type: ignore[arg-type]
    ours = sum(p.numel() for p in net.parameters())
    # Ours has a position and the scale and shift of BN-Embed beyond what the paper counts.
    assert ours - 3 * shape.width == shape.parameters
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    assert sum(m.weight.numel() for m in linear) == shape.linear
    assert sum(p.numel() for n, p in net.named_parameters() if "query_key" in n) == shape.query_key


def test_idle_parameters_are_queries_and_keys() -> None:
    assert idle_parameters(16, 2, 24, 3) == 3 * 2 * (16 * 16 + 16)


def test_wrong_answers_are_all_multisets() -> None:
    for total in (0, 1, 5, 9):
        every = {
            tuple(sorted(p, reverse=True)) for p in product(range(5), repeat=5) if sum(p) == total
        }
        assert sorted(every) == sorted(wrong_answers(total, 4))


def test_possible_spreads_are_numpys() -> None:
    # BCI2a S2: 3 wrong of 5 x 252, best seed 252 and worst 251 right.
    found = possible_spreads(
        Reported(Decimal("99.76"), 5), 252, Reported(Decimal("99.60")), Reported(Decimal("100.00"))
    )
    seeds = 100 * np.array([251, 251, 251, 252, 252]) / 252
    assert found is not None
    assert list(found["n - 1"]) == [pytest.approx(np.std(seeds, ddof=1))]
    assert list(found["n"]) == [pytest.approx(np.std(seeds))]
    twice = np.std(np.concatenate([seeds, seeds]), ddof=1)
    assert list(found["seeds counted twice"]) == [pytest.approx(twice)]
    assert possible_spreads(Reported(Decimal("50.00"), 5), 252) is None


def test_overall_spreads_are_those_of_all_runs_and_of_means() -> None:
    runs = np.random.default_rng(0).normal(90, 5, (9, 5))
    means = runs.mean(1)
    for ddof in (0, 1):
        found = overall_spreads(means.tolist(), runs.std(1, ddof=ddof).tolist())
        for total in (0, 1):
            assert any(np.isclose(v, runs.std(ddof=total)) for v in found["all runs"])
            subjects = found["means of subjects"]
            assert any(np.isclose(v, means.std(ddof=total)) for v in subjects)


def test_bounds_of_p_hold_for_any_pairs_and_are_reached() -> None:
    rng = np.random.default_rng(1)
    ratios = []
    for correlation in np.linspace(-1, 1, 41):
        z = rng.normal(size=(2, 5))
        x = z[0]
        y = 2 * (correlation * z[0] + np.sqrt(1 - correlation**2) * z[1]) + 0.7
        p = stats.ttest_rel(x, y).pvalue
        cells = [Cell(f"{v.mean():.6f} +- {v.std(ddof=1):.6f}") for v in (x, y)]
        low, high = paired_p_range(*cells)
        assert low - 1e-9 <= p <= high + 1e-9
        ratios.append(p / low)
    assert min(ratios) < 1.1


def test_rounding_helpers() -> None:
    assert half_step(Decimal("99.60")) == Decimal("0.005")
    assert half_step(Decimal("96")) == Decimal("0.5")
    assert rounds_to(99.6049, Decimal("99.60"))
    assert not rounds_to(99.606, Decimal("99.60"))
    assert rounds_to(99.606, Decimal("99.60"), slack=0.01)


def test_the_command_on_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [BY_ID[name] for name in ("granularity-bci2a", "gains", "seed-42-s2")]
    monkeypatch.setattr(audit, "CHECKS", few)
    result = CliRunner().invoke(app, ["audit", "--json", "--out", str(tmp_path)])
    checks = json.loads(result.stdout)["checks"]
    assert [check["id"] for check in checks] == ["granularity-bci2a", "gains", "seed-42-s2"]
    assert (tmp_path / "granularity.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "audit.json").read_text())["checks"] == checks
    short, whole = (
        CliRunner().invoke(app, ["audit", *more], env={"COLUMNS": "100"}).stdout
        for more in ([], ["--all"])
    )
    for text in (short, whole):
        assert text.startswith("3 checks: 1 holds, 1 contradiction")
        assert max(map(len, text.splitlines())) <= 100
        assert "98.81" in text
    assert ("differences" in short, "differences" in whole) == (False, True)
    assert "1 holds: gains" in short


def test_the_figure_marks_training_and_test_sizes() -> None:
    lines = [
        line
        for axes in audit.granularity_figure().axes
        for line in axes.get_children()
        if isinstance(line, Line2D) and line.get_gid()
    ]
    marks = {(str(line.get_gid()).split(":")[0], int(line.get_xdata()[0])) for line in lines}
    trained, tested = ({n for kind, n in marks if kind == k} for k in ("train", "test"))
    assert (trained, tested) == ({252, 237, 350}, {288, 51, 52, 75})
    for line in lines:
        share = line.get_ydata()[0]
        assert share == 1 if line.get_gid() == "train" else share < 0.2
