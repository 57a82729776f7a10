from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from spdtokens._extras import is_installed
from spdtokens.classifiers.methods import methods_rows, methods_table


def shown(width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(methods_table(methods_rows(), width))
    # The caption is wrapped and centred.
    return " ".join(console.export_text().split())


def row_of(name: str) -> dict:
    return next(row for row in methods_rows() if row["name"] == name)


@pytest.mark.skipif(not is_installed("baselines"), reason="needs the extra baselines")
def test_an_extra_that_is_installed() -> None:
    row = row_of("tsmnet")
    assert (row["extra"], row["installed"]) == ("baselines", True)
    assert row["parameters"] == {"BCI2a": 5309, "BCIcha": 10327, "MAMEM": 3280}
    assert "tsmnet requires the extra baselines" in shown(80)
    assert [row["name"] for row in methods_rows() if row["extra"]] == ["tsmnet"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_stands_without_the_extra(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setitem(sys.modules, "spd_learn", None)  # as if it were not installed
    row = row_of("tsmnet")
    assert (row["extra"], row["installed"]) == ("baselines", False)
    json.dumps(methods_rows())
    text = shown(width)
    assert "tsmnet raw 5,309 10,327 3,280" in text
    assert "pip install 'spdtokens[baselines]'" in text
