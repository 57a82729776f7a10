from __future__ import annotations

import io

import numpy as np
from rich.console import Console
from rich.table import Table

from spdtokens.experiments.comparison import Comparisons
from spdtokens.experiments.show import comparison_table, status_table


def printed(table: Table, width: int = 100) -> str:
    where = Console(file=io.StringIO(), width=width)
    where.print(table)
    return where.file.getvalue()  # type: ignore[attr-defined]


def cells(text: str, first: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.split()[:1] == [first]]
    return line.split()[1:]


def test_status_counts_and_sums() -> None:
    text = printed(status_table({"mdm": 4, "[b]": 12}, {"[b]": 5}, {"c0de": 11}, "c0de"))
    assert cells(text, "mdm") == ["4", "4"]
    assert cells(text, "[b]") == ["7", "12"]
    assert cells(text, "all") == ["11", "16"]
    assert "other code" not in text


def test_status_tells_of_other_code() -> None:
    codes = {"old": 3, "older": 4, "c0de": 1}
    text = " ".join(printed(status_table({"mdm": 4}, {}, codes, "c0de")).split())
    assert "has 7 runs by other code of spdtokens, not counted" in text
    assert "other code" not in printed(status_table({"mdm": 4}, {}, codes, None))


def test_a_comparison_fits_a_narrow_terminal() -> None:
    found = Comparisons(
        title="mine, blocks, train",
        metric="kappa",
        reference="ts-lr",
        over="subjects",
        n=9,
        scores={},
        methods=["mdm", "spd-token-mlp"],
        differences=np.array([-0.25, np.nan]),
        effects=np.array([-1.5, np.nan]),
        p_values={
            "paired_t": np.array([0.0001, np.nan]),
            "wilcoxon": np.array([0.04, np.nan]),
            "permutation": np.array([0.5, np.nan]),
        },
        no_p_because={"spd-token-mlp": "of a reason"},
    )
    text = printed(comparison_table(found), width=80)
    assert "mine, blocks, train: difference to ts-lr" in text
    assert cells(text, "mdm") == ["-0.250", "-1.50", "<.001", "0.040", "0.500"]
    assert cells(text, "spd-token-mlp") == ["-"] * 5
    assert "over 9 subjects" in " ".join(text.split())
    assert "No p for spd-token-mlp: of a reason." in " ".join(text.split())
