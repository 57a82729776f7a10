"""A check of what is printed: what it should satisfy, the arithmetic, the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

from spdtokens.paper.tables import Cell, PaperTable, paper_table

#: ``holds``: what is printed satisfies it. ``does not hold``: it does not. ``cannot be both``: two
#: printed statements exclude each other. ``fits training size``: the values are possible for as
#: many trials as were trained on, not for as many as were tested on. ``is something else``: the
#: number is right, for something other than it is called. ``undecided``: what is printed is not
#: enough to tell.
Verdict = Literal[
    "holds",
    "does not hold",
    "cannot be both",
    "fits training size",
    "is something else",
    "undecided",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: What a verdict says of the requirement that was checked.
OF_REQUIREMENT: dict[Verdict, str] = {
    "holds": "As it should be",
    "does not hold": "Not so",
    "cannot be both": "Contradicted",
    "fits training size": "Not so",
    "is something else": "Not so",
    "undecided": "Undecided",
}


class Paper:
    """The printed tables, some of which may be changed to see what hangs on them.

    Parameters
    ----------
    changes : mapping of str to PaperTable, optional
        Tables in place of those of the package, by name.
    """

    def __init__(self, changes: Mapping[str, PaperTable] | None = None) -> None:
        self._changes = dict(changes or {})

    def table(self, name: str) -> PaperTable:
        """A table by its name."""
        return self._changes.get(name) or paper_table(name)

    def cell(self, table: str, row: str, column: str) -> Cell:
        """What is printed in one place."""
        return self.table(table).cell(row, column)

    def text(self, key: str) -> Cell:
        """A value of the running text by its id."""
        return self.cell("text", key, "Value")

    def changed(self, table: str, row: str, column: str, text: str) -> Paper:
        """The paper with something else printed in one place."""
        return Paper(self._changes | {table: self.table(table).changed(row, column, text)})


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    Attributes
    ----------
    verdict : Verdict
        Decided by the arithmetic.
    printed : str
        What the paper prints.
    arithmetic : str
        What follows from it.
    numbers : dict
        The same for machines.
    """

    verdict: Verdict
    printed: str
    arithmetic: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """Something printed that can be recomputed.

    Attributes
    ----------
    id : str
    where : str
        LaTeX labels of the places.
    required : str
        What should be true of it, in a sentence.
    test : callable
        From the paper to an outcome; reads its tables anew each time.
    """

    id: str
    where: str
    required: str
    test: Callable[[Paper], Outcome]

    def run(self, paper: Paper | None = None) -> dict[str, Any]:
        """Do the arithmetic; everything about the check as plain data."""
        outcome = asdict(self.test(paper or Paper()))
        return {
            "id": self.id,
            "where": self.where,
            "printed": outcome["printed"],
            # The verdict says whether it is so, never the check itself.
            "expected": f"{OF_REQUIREMENT[outcome['verdict']]}: {self.required}",
            "arithmetic": outcome["arithmetic"],
            "verdict": outcome["verdict"],
            "numbers": outcome["numbers"],
        }


def labels(*tables: str) -> str:
    """The paper's labels of tables that we name."""
    return "; ".join(paper_table(name).label for name in tables)


def judge(holds: bool, otherwise: Verdict = "does not hold") -> Verdict:
    """``holds``, or what it is if not."""
    return "holds" if holds else otherwise


def half_step(value: Decimal) -> Decimal:
    """Half of the last printed digit: how far rounding moves a value."""
    return Decimal(1).scaleb(int(value.as_tuple().exponent)) / 2


def rounds_to(computed: float | Decimal, printed: Decimal, slack: float = 0.0) -> bool:
    """Whether a computed value is printed so, where its inputs were rounded by up to ``slack``."""
    return abs(float(computed) - float(printed)) <= float(half_step(printed)) + slack + 1e-9
