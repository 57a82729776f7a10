"""The paper's numbers as data: one TOML file a table, every value as it is printed.

A cell is text, so that 99.60 keeps its decimals; ``**`` around it is bold type in the paper, ``+-``
stands between mean and standard deviation. Titles are ours; ``label`` is the paper's.

>>> paper_table("subjects-bci2a").cell("S2", "Min").number
Decimal('99.60')
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property
from importlib.resources import files

from spdtokens.errors import PaperError

# A minus between digits is a dash of a range; thousands have commas.
_NUMBER = re.compile(r"(?:(?<![\w.)-])[+-])?\d[\d,]*(?:\.\d+)?")
_SCALE = {"K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class Cell:
    """What is printed in one place of a table.

    Attributes
    ----------
    text : str
        As printed, without the marks of bold type.
    bold : bool
    """

    text: str
    bold: bool = False

    @classmethod
    def read(cls, text: str) -> Cell:
        """A cell of a TOML file: bold if between ``**``."""
        bold = len(text) > 4 and text.startswith("**") and text.endswith("**")
        return cls(text[2:-2] if bold else text, bold)

    @property
    def numbers(self) -> tuple[Decimal, ...]:
        """All numbers of the cell in their order, with the decimals they are printed with."""
        return tuple(Decimal(n.replace(",", "")) for n in _NUMBER.findall(self.text))

    @property
    def number(self) -> Decimal:
        """The first number: the mean, if a spread follows."""
        if not self.numbers:
            raise PaperError(f"There is no number in the cell {self.text!r}.")
        return self.numbers[0]

    @property
    def spread(self) -> Decimal:
        """The standard deviation, after ``+-``."""
        if "+-" not in self.text:
            raise PaperError(f"There is no standard deviation in the cell {self.text!r}.")
        return self.numbers[1]

    @property
    def amount(self) -> Decimal:
        """The number with its K, M or G multiplied out."""
        return self.number * _SCALE.get(self.text[-1:], 1)


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper.

    Attributes
    ----------
    name : str
        Ours: the name of the file.
    title : str
        Ours.
    label, section : str
        LaTeX labels of the table and of the section it belongs to.
    columns, units : sequence of str
    rows : sequence of tuple of Cell
        The first cell of a row is its name.
    seeds : sequence of int or int or None
        As stated, or only their number.
    epochs : int or None
    over : str
        What means and standard deviations are taken over.
    """

    name: str
    title: str
    label: str
    section: str
    columns: Sequence[str]
    units: Sequence[str]
    rows: Sequence[tuple[Cell, ...]]
    seeds: Sequence[int] | int | None = None
    epochs: int | None = None
    over: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the rows."""
        return tuple(row[0].text for row in self.rows)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the rows that are not an overall one."""
        return tuple(name for name in self.names if not name.startswith("Overall"))

    @property
    def overall(self) -> str:
        """Name of the row that sums the others up."""
        return next(name for name in self.names if name.startswith("Overall"))

    def _place(self, row: str, column: str) -> tuple[int, int]:
        for what, wanted, known in (("row", row, self.names), ("column", column, self.columns)):
            if wanted not in known:
                raise PaperError(
                    f"Table {self.name!r} has no {what} {wanted!r}. It has: {', '.join(known)}."
                )
        return self.names.index(row), self.columns.index(column)

    def cell(self, row: str, column: str) -> Cell:
        """What is printed in a row of a column, both by name."""
        i, j = self._place(row, column)
        return self.rows[i][j]

    def column(self, name: str) -> tuple[Cell, ...]:
        """A column without the overall row."""
        return tuple(self.cell(row, name) for row in self.subjects)

    def cells(self) -> Iterator[Cell]:
        """All cells, row by row."""
        for row in self.rows:
            yield from row

    def changed(self, row: str, column: str, text: str) -> PaperTable:
        """The table with something else printed in one place: to see what hangs on it."""
        i, j = self._place(row, column)
        cells = list(self.rows[i])
        cells[j] = Cell.read(text)
        return replace(self, rows=[*self.rows[:i], tuple(cells), *self.rows[i + 1 :]])


_FOLDER = files(__name__)
#: Names of all tables.
TABLES: tuple[str, ...] = tuple(
    sorted(f.name.removesuffix(".toml") for f in _FOLDER.iterdir() if f.name.endswith(".toml"))
)


@cache
def paper_table(name: str) -> PaperTable:
    """A table of the paper by its name in :data:`TABLES`.

    Raises
    ------
    PaperError
        If there is none of that name.
    """
    if name not in TABLES:
        raise PaperError(f"The paper has no table {name!r} here. There are: {', '.join(TABLES)}.")
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    rows = [tuple(map(Cell.read, row)) for row in found.pop("rows")]
    return PaperTable(name, rows=rows, **found)
