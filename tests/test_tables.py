"""Numbers and tables for people."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

import spdtokens
from spdtokens._tables import counted, fitted, number, p_value, table

SOURCE = Path(spdtokens.__file__).parent
NOUNS = "seeds|folds|subjects|tables|runs|files|sessions|methods|decisions"


def test_one_has_no_plural() -> None:
    assert [counted(n, "fold") for n in (0, 1, 2)] == ["0 folds", "1 fold", "2 folds"]
    assert counted(1, "class", "classes") == "1 class"
    assert counted(3, "class", "classes") == "3 classes"


def test_counts_that_are_printed_have_the_noun_that_fits() -> None:
    """Any of the counts that a command prints may be one."""
    for folder, pattern in ((".", r"\} \w+\(s\)"), ("cli", rf"\{{[^{{}}:!]+\}} ({NOUNS})\b")):
        for path in (SOURCE / folder).rglob("*.py"):
            assert not re.findall(pattern, path.read_text(encoding="utf-8")), path


def test_numbers_that_are_none_are_dashes() -> None:
    unknown = (None, float("nan"), float("inf"))
    assert [number(value) for value in (0.25, *unknown)] == ["0.250", *"---"]
    assert [p_value(p) for p in (0.0321, 1e-9, 0.9999, float("nan"))] == [".032", "<.001", "1", "-"]


def test_a_table_shows_text_as_it_is() -> None:
    console = Console(width=60, file=StringIO())
    console.print(table(("name", ">n"), [("[a]", 1.5), None, ("b", None)], "T [x]", "c"))
    lines = [line.strip() for line in console.file.getvalue().splitlines() if line.strip()]
    assert lines[0] == "T [x]"
    assert [line.split() for line in lines if line[0] in "[b"] == [["[a]", "1.5"], ["b", "-"]]
    assert lines[-1] == "c"


def test_wrapped_columns_go_below_the_row_where_the_terminal_is_narrow() -> None:
    made = table(("name", "text~", ">n"), [("a", "word " * 20, 1), ("b", "", 2)], "T", "c")
    assert fitted(made, 120) is made
    console = Console(width=40, file=StringIO())
    console.print(fitted(made, 40))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[:3] == [["T"], ["name", "n"], ["a", "1"]]
    assert lines[3][:2] == ["text:", "word"]
    assert lines[-3:] == [["b", "2"], ["c"], []]
    assert fitted("text", 40) == "text"
