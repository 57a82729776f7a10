"""Numbers and tables as the commands print them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: Fewest characters of a wrapped column that is easy to read.
NARROW = 30


def counted(n: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: ``'1 fold'``, ``'3 folds'``."""
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"


def number(value: float | None, form: str = ".3f") -> str:
    """Format a number; ``'-'`` stands for None, NaN and infinity."""
    return "-" if value is None or not math.isfinite(value) else format(value, form)


def p_value(p: float | None) -> str:
    """Format a p-value as journals do: ``'.032'``, ``'<.001'``, ``'1'``."""
    if p is None or not math.isfinite(p):
        return "-"
    return "<.001" if p < 0.001 else "1" if p > 0.9995 else f"{p:.3f}".lstrip("0")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any] | None],
    title: str = "",
    caption: str = "",
    **options: Any,
) -> Table:
    """Make a table for a terminal.

    Parameters
    ----------
    columns : sequence of str
        Headings. A leading ``>`` aligns the column to the right; a trailing ``~`` allows to wrap
        it.
    rows : iterable of sequence or None
        Cells: str (without markup), :class:`rich.text.Text` or number. None starts a section.
    title, caption : str, default=""
        Text above and below, without markup.
    **options
        Other parameters of :class:`rich.table.Table`.

    Returns
    -------
    rich.table.Table
        The table.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(title) if title else None,
        caption=Text(caption) if caption else None,
        **{"box": box.SIMPLE, "pad_edge": False, **options},
    )
    for name in columns:
        right, wrap = name.startswith(">"), name.endswith("~")
        heading = name.removeprefix(">").removesuffix("~")
        made.add_column(Text(heading), justify="right" if right else "left", no_wrap=not wrap)
    for row in rows:
        if row is None:
            made.add_section()
        else:
            made.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    return made


def fitted(made: RenderableType, width: int) -> RenderableType:
    """Fit a table to the width of a terminal.

    Wrapped columns that would get less than ``NARROW`` characters are printed below each row.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not isinstance(made, Table):
        return made
    cells = [[str(cell) for cell in column.cells] for column in made.columns]
    natural = [max(map(len, column), default=0) for column in cells]
    widths = [
        max(n, len(str(c.header))) if c.no_wrap else min(n, NARROW)
        for n, c in zip(natural, made.columns, strict=True)
    ]
    wrapped = [i for i, column in enumerate(made.columns) if not column.no_wrap]
    if not wrapped or sum(widths) + 3 * len(widths) <= width:
        return made

    def line(texts: Sequence[str], style: str) -> Text:
        fixed = [
            text.rjust(n) if column.justify == "right" else text.ljust(n)
            for text, n, column in zip(texts, widths, made.columns, strict=True)
            if column.no_wrap
        ]
        return Text("   ".join(fixed), style)

    headings = [str(column.header) for column in made.columns]
    parts: list[RenderableType | None] = [made.title]
    if made.show_header and len(headings) > len(wrapped) + 1:
        parts.append(line(headings, ""))
    for row in zip(*cells, strict=True):
        parts.append(line(row, "bold"))
        for i in wrapped:
            if row[i]:
                parts.append(Padding(Text(f"{headings[i]}: {row[i]}"), (0, 0, 0, 4)))
    return Group(*(part for part in (*parts, made.caption, "") if part is not None))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return number(value, ".3g") if isinstance(value, float) else str(value)
