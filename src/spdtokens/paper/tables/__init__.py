"""The paper's tables as data, in one TOML file per table.

A cell is text, so that 99.60 keeps its decimals. ``**`` around a cell means bold type, and ``+-``
is between mean and standard deviation. Titles are ours; ``label`` is the paper's.
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

# A minus sign between digits is the dash of a range; thousands are separated by commas.
_NUMBER = re.compile(r"(?:(?<![\w.)-])[+-])?\d[\d,]*(?:\.\d+)?")
_SCALE = {"K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
        The printed text, without the marks of bold type.
    bold : bool
        Whether the text is in bold type.
    """

    text: str
    bold: bool = False

    @classmethod
    def read(cls, text: str) -> Cell:
        """Make a cell from a text of a TOML file, which is bold if between ``**``."""
        bold = len(text) > 4 and text.startswith("**") and text.endswith("**")
        return cls(text[2:-2] if bold else text, bold)

    @property
    def numbers(self) -> tuple[Decimal, ...]:
        """All numbers of the cell, with their printed decimals."""
        return tuple(Decimal(n.replace(",", "")) for n in _NUMBER.findall(self.text))

    @property
    def number(self) -> Decimal:
        """The first number, which is the mean if a standard deviation follows."""
        if not self.numbers:
            raise PaperError(f"The cell must have a number, got {self.text!r}.")
        return self.numbers[0]

    @property
    def spread(self) -> Decimal:
        """The standard deviation, after ``+-``."""
        if "+-" not in self.text:
            raise PaperError(f"The cell must have a standard deviation, got {self.text!r}.")
        return self.numbers[1]

    @property
    def amount(self) -> Decimal:
        """The number times its prefix K, M or G."""
        return self.number * _SCALE.get(self.text[-1:], 1)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    Parameters
    ----------
    name : str
        Name of the table, see :func:`paper_table`.
    title : str
        Title in our words.
    label : str
        LaTeX label of the table in the paper.
    section : str
        LaTeX label of the section of the table.
    columns : sequence of str
        Names of the columns.
    units : sequence of str
        Units of the columns.
    rows : sequence of tuple of Cell
        Rows of cells. The first cell of a row is its name.
    seeds : sequence of int or int, default=None
        The stated seeds, or their number.
    epochs : int, default=None
        The stated number of epochs.
    over : str, default=""
        What means and standard deviations are taken over.

    See Also
    --------
    paper_table : Load a table by name.

    Examples
    --------
    >>> from spdtokens.paper.tables import paper_table
    >>> table = paper_table("depth")
    >>> table.names
    ('Depth 2', 'Depth 4', 'Depth 6 (std)', 'Depth 8')
    >>> table.cell("Depth 2", "BCI2a Best").number
    Decimal('94.84')
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
        """Names of the rows."""
        return tuple(row[0].text for row in self.rows)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the rows without the overall row."""
        return tuple(name for name in self.names if not name.startswith("Overall"))

    @property
    def overall(self) -> str:
        """Name of the overall row."""
        return next(name for name in self.names if name.startswith("Overall"))

    def _place(self, row: str, column: str) -> tuple[int, int]:
        for what, wanted, known in (("row", row, self.names), ("column", column, self.columns)):
            if wanted not in known:
                raise PaperError(
                    f"The {what} of table {self.name!r} must be one of {', '.join(known)}, got "
                    f"{wanted!r}."
                )
        return self.names.index(row), self.columns.index(column)

    def cell(self, row: str, column: str) -> Cell:
        """Return a cell.

        Parameters
        ----------
        row : str
            Name of the row.
        column : str
            Name of the column.

        Returns
        -------
        Cell
            The cell, with the attributes ``text``, ``bold``, ``number`` (the first number) and
            ``spread`` (the standard deviation).

        Raises
        ------
        PaperError
            If there is no such row or column.
        """
        i, j = self._place(row, column)
        return self.rows[i][j]

    def column(self, name: str) -> tuple[Cell, ...]:
        """Return a column without the overall row.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        tuple of Cell
            The cells of the column.
        """
        return tuple(self.cell(row, name) for row in self.subjects)

    def cells(self) -> Iterator[Cell]:
        """Iterate over all cells, row by row.

        Yields
        ------
        Cell
            The next cell.
        """
        for row in self.rows:
            yield from row

    def changed(self, row: str, column: str, text: str) -> PaperTable:
        """Return a copy of the table with another text in one cell.

        Parameters
        ----------
        row : str
            Name of the row.
        column : str
            Name of the column.
        text : str
            New text of the cell; bold if between ``**``.

        Returns
        -------
        PaperTable
            The changed table.
        """
        i, j = self._place(row, column)
        cells = list(self.rows[i])
        cells[j] = Cell.read(text)
        return replace(self, rows=[*self.rows[:i], tuple(cells), *self.rows[i + 1 :]])


_FOLDER = files(__name__)
#: Names of all tables, in alphabetical order.
TABLES: tuple[str, ...] = tuple(
    sorted(f.name.removesuffix(".toml") for f in _FOLDER.iterdir() if f.name.endswith(".toml"))
)


@cache
def paper_table(name: str) -> PaperTable:
    """Load a table of the paper.

    Parameters
    ----------
    name : str
        Name of the table, one of ``spdtokens.paper.tables.TABLES``.

    Returns
    -------
    PaperTable
        The table, with cells as printed.

    Raises
    ------
    PaperError
        If there is no table of that name.

    See Also
    --------
    PaperTable : The table.
    spdtokens.paper.audit.audit_paper : Check the printed numbers against each other.

    Examples
    --------
    >>> from spdtokens.paper.tables import paper_table
    >>> table = paper_table("subjects-bci2a")
    >>> table.label
    'tab:per_subject_log_euclidean'
    >>> table.cell("S2", "Min").number
    Decimal('99.60')
    """
    if name not in TABLES:
        raise PaperError(f"name must be one of {', '.join(TABLES)}, got {name!r}.")
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    rows = [tuple(map(Cell.read, row)) for row in found.pop("rows")]
    return PaperTable(name, rows=rows, **found)
