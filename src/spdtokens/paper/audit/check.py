"""Checks of the paper's printed numbers: requirement, arithmetic and verdict."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from spdtokens.paper.findings import Outcome, docstring_parts, told
from spdtokens.paper.tables import Cell, PaperTable, paper_table

#: ``holds``: the printed numbers meet the requirement. ``does not hold``: they do not.
#: ``contradiction``: two printed statements contradict each other. ``fits training size``: the
#: values are possible for the number of training trials, but not for the number of test trials.
#: ``is something else``: the number is right, but measures something else than stated.
#: ``undecided``: the printed numbers do not suffice.
Verdict = Literal[
    "holds",
    "does not hold",
    "contradiction",
    "fits training size",
    "is something else",
    "undecided",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: What a verdict says of the requirement; "Not met" for all others.
OF_REQUIREMENT = {"holds": "Met", "contradiction": "Contradicted", "undecided": "Undecided"}
#: Number of seeds of every mean in the paper.
SEEDS = 5


@dataclass(frozen=True)
class Split:
    """Numbers of trials per subject, taken from the data sets; the paper states few of them.

    Attributes
    ----------
    data, subject : str
        The data set, and the subject of the paper's ablations.
    train : int
        Number of training trials.
    test : tuple of int
        Possible numbers of test trials; 15 % of 340 can be rounded up or down.
    how : str
        Formula of the number of training trials.
    """

    data: str
    subject: str
    train: int
    test: tuple[int, ...]
    how: str

    @property
    def key(self) -> str:
        """Name of the data set in the names of tables."""
        return self.data.lower()


#: BCI2a has 288 trials per session, one in eight of them for validation. BCIcha has 340 trials per
#: subject and MAMEM 500, split 70/15/15.
SPLITS = (
    Split("BCI2a", "BCI2a (S1)", 288 * 7 // 8, (288,), "288 x 7/8"),
    Split("BCIcha", "BCIcha (S2)", int(0.7 * 340), (51, 52), "int(0.7 x 340)"),
    Split("MAMEM", "MAMEM (S1)", int(0.7 * 500), (75,), "int(0.7 x 500)"),
)
DATA = tuple(split.data for split in SPLITS)


class Paper:
    """The printed tables, some of them possibly changed.

    Parameters
    ----------
    changes : mapping of str to PaperTable, optional
        Tables to use instead of the paper's, by name.
    """

    def __init__(self, changes: Mapping[str, PaperTable] | None = None) -> None:
        self._changes = dict(changes or {})

    def table(self, name: str) -> PaperTable:
        """Return a table by name."""
        return self._changes.get(name) or paper_table(name)

    def cell(self, table: str, row: str, column: str) -> Cell:
        """Return a cell; the row ``Overall`` is the summary row, whatever its full name."""
        found = self.table(table)
        return found.cell(found.overall if row == "Overall" else row, column)

    def numbers(self, table: str, row: str, *columns: str) -> list[Decimal]:
        """Return the first number of each of the given columns of a row."""
        return [self.cell(table, row, column).number for column in columns]

    def text(self, key: str) -> Cell:
        """Return a value of the running text by its id."""
        return self.cell("text", key, "Value")

    def changed(self, table: str, row: str, column: str, text: str) -> Paper:
        """Return the paper with another text in one cell."""
        return Paper(self._changes | {table: self.table(table).changed(row, column, text)})


@dataclass(frozen=True)
class Check:
    """A check of printed numbers.

    Attributes
    ----------
    id : str
        Name of the check.
    where : str
        LaTeX labels of the tables and sections.
    required : str
        The requirement, in a sentence.
    texts : dict of str to str
        What the paper prints (``Printed``) and what follows from it (``Arithmetic``), with values
        of the outcome in braces.
    test : callable
        Function from a :class:`Paper` to an outcome.
    """

    id: str
    where: str
    required: str
    texts: Mapping[str, str]
    test: Callable[[Paper], Outcome]

    def run(self, paper: Paper | None = None) -> dict[str, Any]:
        """Run the check.

        Parameters
        ----------
        paper : Paper, optional
            Tables to check; the paper's by default.

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
            "expected": f"{OF_REQUIREMENT.get(found.verdict, 'Not met')}: {self.required}",
            "arithmetic": found.fill(self.texts["Arithmetic"]),
            "verdict": found.verdict,
            "numbers": found.numbers,
        }


#: All checks, in the order of definition; see :func:`check`.
CHECKS: list[Check] = []
_Test = Callable[..., Outcome]


def check(where: str, name: str = "", *arguments: Any) -> Callable[[_Test], _Test]:
    """Register a function as a check; it takes the paper and, optionally, further arguments.

    The first paragraph of its docstring is the requirement. The others begin with ``Printed:`` and
    ``Arithmetic:``, and may contain values of the outcome in braces.

    Parameters
    ----------
    where : str
        LaTeX labels of the tables and sections.
    name : str
        Id of the check; by default the name of the function.
    *arguments
        Further arguments of the function.
    """

    def register(test: _Test) -> _Test:
        about = (name or test.__name__.replace("_", "-"), where, *docstring_parts(test))
        CHECKS.append(Check(*about, lambda paper: test(paper, *arguments)))
        return test

    return register


def labels(*tables: str) -> str:
    """Return the LaTeX labels of tables."""
    return "; ".join(paper_table(name).label for name in tables)


def judge(holds: bool, otherwise: Verdict = "does not hold") -> Verdict:
    """Return ``holds``, or the other verdict."""
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
        Format of a data set and its number in ``{printed}`` and in ``{found}``.
    agree : callable
        Whether a found number agrees with the printed one.
    otherwise : Verdict
        Verdict if they do not agree for every data set.
    **words
        Further words of the outcome.
    """
    verdict = judge(all(agree(found[data], said[data]) for data in said), otherwise)
    numbers = {data: n if isinstance(n, int) else float(n) for data, n in found.items()}
    words |= {"printed": told(forms[0], said), "found": told(forms[1], found)}
    return Outcome(verdict, numbers, **words)


def half_step(value: Decimal) -> Decimal:
    """Return half a unit of the last printed digit, the largest rounding error."""
    return Decimal(1).scaleb(int(value.as_tuple().exponent)) / 2


def rounds_to(computed: float | Decimal, printed: Decimal, slack: float = 0.0) -> bool:
    """Whether a value rounds to the printed one, given an error of its inputs up to ``slack``."""
    return abs(float(computed) - float(printed)) <= float(half_step(printed)) + slack + 1e-9
