"""A table, and the three ways it is written: HTML that sorts, Markdown, LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spdtokens.reporting.numbers import MINUS

#: Letters beyond which a cell of LaTeX is broken into lines.
LONG = 50


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by.

    Attributes
    ----------
    text : str
    value : float or None
        None for a text, which is sorted as such. NaN, what is not known, comes last.
    mark : str
        ``'best'``, ``'faint'``, ``'leaky'`` or nothing; never told by colour alone.
    """

    text: str
    value: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headers.

    Attributes
    ----------
    name : str
        Of its files, and of its place in the page.
    title, note : str
        Above and below the table.
    short : str
        The title where the page around it says the rest.
    headers : tuple of str
    rows : sequence of sequence of Cell
        The first cell names the row.
    """

    name: str
    title: str
    headers: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    short: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers, and are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headers)
        return [bool(column) and all(c.value is not None for c in column) for column in columns]


def to_html(table: Table, *, heading: bool = True) -> str:
    """In a box of its own, which scrolls where the window is narrow.

    Parameters
    ----------
    table : Table
    heading : bool
        Whether the title is shown; screen readers are told it anyway.
    """
    numeric = table.numeric
    head = "".join(
        f'<th scope="col"{_class(["n"] if n else [])}>'
        f'<button type="button">{escape(h)}</button></th>'
        for h, n in zip(table.headers, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_html_cell(c, i, numeric[i]) for i, c in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    title = f' aria-label="{escape(table.title)}"'
    shown = f"<h4>{escape(table.short or table.title)}</h4>\n" if heading else ""
    note = f'\n<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'{shown}<div class="scroll" tabindex="0" role="region"{title}>'
        f'<table id="{table.name}"{title}>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{note}"
    )


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, with its title and note."""
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [[_markdown(header) for header in table.headers], rules]
    lines += [
        [_marked(_markdown(c.text), c.mark, "**{}**", "*{}*") for c in row] for row in table.rows
    ]
    parts = [
        f"**{_markdown(table.title)}**",
        "\n".join("| " + " | ".join(line) + " |" for line in lines),
        *([_markdown(table.note)] if table.note else []),
    ]
    return "\n\n".join(parts) + "\n"


def to_latex(table: Table) -> str:
    """A floating table; the document needs the package booktabs."""
    columns = "".join(
        "r" if numeric else _latex_column([row[i].text for row in table.rows])
        for i, numeric in enumerate(table.numeric)
    )
    caption = _latex(f"{table.title}. {table.note}".strip())
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{caption}}}",
        f"  \\label{{tab:{table.name}}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        "    \\toprule",
        f"    {_latex_row([_latex(header) for header in table.headers])}",
        "    \\midrule",
        *("    " + _latex_row([_latex_cell(cell) for cell in row]) for row in table.rows),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _html_cell(cell: Cell, place: int, numeric: bool) -> str:
    classes = _class([*(["n"] if numeric else []), *([cell.mark] if cell.mark else [])])
    value = "" if cell.value is None or cell.value != cell.value else f"{cell.value:.9g}"
    sort = f' data-v="{value}"' if cell.value is not None else ""
    text = escape(cell.text)
    if place == 0:
        return f'<th scope="row"{classes}{sort}>{text}</th>'
    return f"<td{classes}{sort}>{text}</td>"


def _class(names: list[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""


def _marked(text: str, mark: str, bold: str, italic: str) -> str:
    return {"best": bold, "leaky": bold, "faint": italic}.get(mark, "{}").format(text)


def _markdown(text: str) -> str:
    """Everything that Markdown or HTML in it would take for its own, escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))


#: Beyond ASCII only what this package itself writes: modern LaTeX reads the rest of UTF-8.
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    MINUS: "$-$",
    "±": r"$\pm$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _latex_column(texts: Sequence[str]) -> str:
    """Left, and in lines where a text is too long for one."""
    return r"p{0.6\linewidth}" if max(map(len, texts), default=0) > LONG else "l"


def _latex_cell(cell: Cell) -> str:
    return _marked(_latex(cell.text), cell.mark, r"\textbf{{{}}}", r"\textit{{{}}}")


def _latex_row(cells: list[str]) -> str:
    # A row that begins with a bracket would be taken for an option of the line before.
    safe = [f"{{}}{cell}" if cell.startswith(("[", "*")) else cell for cell in cells]
    return " & ".join(safe) + r" \\"
