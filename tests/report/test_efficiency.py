from __future__ import annotations

from dataclasses import replace

import pytest

from spdtokens import load_dataset
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Question
from spdtokens.report.efficiency import efficiency_table
from spdtokens.report.parameters import parameters_of
from tests.report.made import made_facts, made_run


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


@pytest.mark.parametrize(
    ("method", "settings", "weights"),
    [
        ("ts-lr", {}, None),
        # 22 channels, 4 classes: what `spdtokens methods` lists for BCI2a, which has this shape.
        ("token-log-euclidean", {}, 828_292),
        # Two more positions of 128 numbers.
        ("token-log-euclidean-multiband", {}, 828_292 + 2 * 128),
        # By hand: projection, positions, BN-Embed; a block; head.
        (
            "token-log-euclidean",
            {"changes": {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}},
            (253 * 8 + 8) + 8 + 16 + (4 * (64 + 8) + 2 * 16 + (8 * 16 + 16) + (16 * 8 + 8)) + 36,
        ),
        ("token-euclidean", {"covariance": "xdawn"}, None),
    ],
)
def test_weights_are_those_of_the_network(method: str, settings: dict, weights: int | None) -> None:
    run = made_run(method)
    run = replace(run, spec=replace(run.spec, settings=settings))
    answer = Evaluation(Question("sim-mi", ()), {"name": [run], "none yet": []}, [], ("a", "b"))
    expected = {} if weights is None else {"name": weights}
    assert parameters_of(answer, load_dataset("sim-mi")) == expected
