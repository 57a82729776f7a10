"""Numbers, and tables of them, for people: what every command prints comes from here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``'1 fold'``, ``'3 folds'``."""
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"


def number(value: float | None, form: str = ".3f") -> str:
    """A number in a format; ``'-'`` for None and whatever is not finite."""
    return "-" if value is None or not math.isfinite(value) else format(value, form)


def p_value(p: float | None) -> str:
    """A p-value as journals print it: ``'.032'``, ``'<.001'``, ``'1'``."""
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
        Headings. One that begins with ``>`` heads numbers, set to the right; one that ends with
        ``~`` may be wrapped.
    rows : iterable of sequences, or None
        Cells: text as it is, a :class:`rich.text.Text`, or a number. None draws a line.
    title, caption : str
        Above and below, without markup.
    **options
        Others of :class:`rich.table.Table`.

    Returns
    -------
    rich.table.Table
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


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return number(value, ".3g") if isinstance(value, float) else str(value)
