"""Numbers with their nouns."""

from __future__ import annotations

import re
from pathlib import Path

import spdtokens
from spdtokens._words import counted

SOURCE = Path(spdtokens.__file__).parent
#: What is printed to users in passing, where any of the counts may be one.
PRINTED = [*(SOURCE / "cli").glob("*.py"), *SOURCE.glob("*/show.py"), *SOURCE.glob("*/*/show.py")]
NOUNS = "seeds|folds|subjects|tables|runs|files|sessions|methods|decisions"


def test_one_has_no_plural() -> None:
    assert [counted(n, "fold") for n in (0, 1, 2)] == ["0 folds", "1 fold", "2 folds"]
    assert counted(1, "class", "classes") == "1 class"
    assert counted(3, "class", "classes") == "3 classes"


def test_counts_that_are_printed_have_the_noun_that_fits() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for path in SOURCE.rglob("*.py")
        for match in re.finditer(r"\} \w+\(s\)", path.read_text(encoding="utf-8"))
    }
    found |= {
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for path in PRINTED
        if path.parent.name != "bench"  # its sizes are fixed
        for match in re.finditer(rf"\{{[^{{}}:!]+\}} ({NOUNS})\b", path.read_text(encoding="utf-8"))
    }
    assert found == set()
