"""A check of what is printed: what it should satisfy, the arithmetic, the verdict."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from spdtokens.paper.findings import Outcome, docstring_parts, told
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
#: What a verdict says of the requirement that was checked, where it is not "Not so".
OF_REQUIREMENT = {
    "holds": "As it should be",
    "cannot be both": "Contradicted",
    "undecided": "Undecided",
}
#: Seeds of every mean that the paper prints.
SEEDS = 5


@dataclass(frozen=True)
class Split:
    """Trials of a subject, from the data sets themselves; the paper prints few of them.

    Attributes
    ----------
    data, subject : str
        The data set, and the subject of the paper's ablations.
    train : int
    test : tuple of int
        What the stated split leaves, and for 15 % of 340 both ways of rounding.
    how : str
    """

    data: str
    subject: str
    train: int
    test: tuple[int, ...]
    how: str

    @property
    def key(self) -> str:
        """In names of tables."""
        return self.data.lower()


#: BCI2a has 288 trials a session, of which one in eight validates; BCIcha has 340 trials a subject
#: and MAMEM 500, split 70/15/15.
SPLITS = (
    Split("BCI2a", "BCI2a (S1)", 288 * 7 // 8, (288,), "288 x 7/8"),
    Split("BCIcha", "BCIcha (S2)", int(0.7 * 340), (51, 52), "int(0.7 x 340)"),
    Split("MAMEM", "MAMEM (S1)", int(0.7 * 500), (75,), "int(0.7 x 500)"),
)
DATA = tuple(split.data for split in SPLITS)


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
        """What is printed in one place; the row ``Overall`` is the one that sums up the others."""
        found = self.table(table)
        return found.cell(found.overall if row == "Overall" else row, column)

    def numbers(self, table: str, row: str, *columns: str) -> list[Decimal]:
        """The first number in each of some columns of a row."""
        return [self.cell(table, row, column).number for column in columns]

    def text(self, key: str) -> Cell:
        """A value of the running text by its id."""
        return self.cell("text", key, "Value")

    def changed(self, table: str, row: str, column: str, text: str) -> Paper:
        """The paper with something else printed in one place."""
        return Paper(self._changes | {table: self.table(table).changed(row, column, text)})


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
    texts : dict of str to str
        What the paper prints (``Printed``) and what follows from it (``Arithmetic``), with values
        of the outcome in braces.
    test : callable
        From the paper to an outcome; reads its tables anew each time.
    """

    id: str
    where: str
    required: str
    texts: Mapping[str, str]
    test: Callable[[Paper], Outcome]

    def run(self, paper: Paper | None = None) -> dict[str, Any]:
        """Do the arithmetic; everything about the check as plain data.

        Parameters
        ----------
        paper : Paper, optional
            Tables to check; those printed by default.

        Returns
        -------
        dict
            With the keys ``id``, ``where``, ``printed``, ``expected``, ``arithmetic``, ``verdict``
            and ``numbers``.
        """
        found = self.test(paper or Paper())
        return {
            "id": self.id,
            "where": self.where,
            "printed": found.fill(self.texts["Printed"]),
            # The verdict says whether it is so, never the check itself.
            "expected": f"{OF_REQUIREMENT.get(found.verdict, 'Not so')}: {self.required}",
            "arithmetic": found.fill(self.texts["Arithmetic"]),
            "verdict": found.verdict,
            "numbers": found.numbers,
        }


#: Every check, in the order of definition; see :func:`check`.
CHECKS: list[Check] = []
_Test = Callable[..., Outcome]


def check(where: str, name: str = "", *arguments: Any) -> Callable[[_Test], _Test]:
    """Register a function that recomputes something, given the paper and further arguments.

    The first paragraph of its docstring is what is required. The others begin with ``Printed:`` and
    ``Arithmetic:``, and may have values of the outcome in braces.

    Parameters
    ----------
    where : str
        LaTeX labels of the places.
    name : str
        Id of the check; the name of the function by default.
    *arguments
        For one of several checks of a kind.
    """

    def register(test: _Test) -> _Test:
        about = (name or test.__name__.replace("_", "-"), where, *docstring_parts(test))
        CHECKS.append(Check(*about, lambda paper: test(paper, *arguments)))
        return test

    return register


def labels(*tables: str) -> str:
    """The paper's labels of tables that we name."""
    return "; ".join(paper_table(name).label for name in tables)


def judge(holds: bool, otherwise: Verdict = "does not hold") -> Verdict:
    """``holds``, or what it is if not."""
    return "holds" if holds else otherwise


def recomputed(
    said: Mapping[str, Any],
    found: Mapping[str, Any],
    forms: tuple[str, str],
    agree: Callable[[Any, Any], bool] = operator.eq,
    otherwise: Verdict = "does not hold",
    **words: object,
) -> Outcome:
    """Compare what is printed with what is found, both by data set.

    Parameters
    ----------
    said, found : mapping
        Numbers by data set.
    forms : tuple of str
        How ``{printed}`` and ``{found}`` show a data set and its number.
    agree : callable
        Whether a found number is printed as the said one.
    otherwise : Verdict
        If they do not agree for every data set.
    **words
        Further words of the outcome.
    """
    verdict = judge(all(agree(found[data], said[data]) for data in said), otherwise)
    numbers = {data: n if isinstance(n, int) else float(n) for data, n in found.items()}
    words |= {"printed": told(forms[0], said), "found": told(forms[1], found)}
    return Outcome(verdict, numbers, **words)


def half_step(value: Decimal) -> Decimal:
    """Half of the last printed digit: how far rounding moves a value."""
    return Decimal(1).scaleb(int(value.as_tuple().exponent)) / 2


def rounds_to(computed: float | Decimal, printed: Decimal, slack: float = 0.0) -> bool:
    """Whether a computed value is printed so, where its inputs were rounded by up to ``slack``."""
    return abs(float(computed) - float(printed)) <= float(half_step(printed)) + slack + 1e-9
