"""Write a report as one self-contained HTML page, and its tables as LaTeX and Markdown."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

import spdtokens
from spdtokens._files import output_file, output_folder, written_whole
from spdtokens._tables import counted
from spdtokens.errors import ReportError
from spdtokens.reporting import figures
from spdtokens.reporting.report import Report
from spdtokens.reporting.sentences import opening, sentences
from spdtokens.reporting.tables import (
    Table,
    method_legend,
    origin_table,
    overview_table,
    question_tables,
    settings_table,
    to_latex,
    to_markdown,
)

#: Sentences that begin with these are highlighted.
WARNINGS = ("Leaky", "Unfinished", "No runs yet", "Not made yet", "Made by other code")
#: Functions called by the template.
TABLES = (overview_table, question_tables, method_legend, origin_table, settings_table)
#: Colours of figures, replaced by CSS variables, which change in dark mode.
COLOURS = {figures.INK: "currentColor"} | {
    getattr(figures, name.upper()): f"var(--{name})"
    for name in ("grey", "blue", "orange", "green", "pink", "sky", "amber")
}


# ------------------------------------------------------------------ files


def check_page_path(path: Path) -> None:
    """Check, before any work, that a page can be written to a path."""
    output_file(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"The name of a report must end in .html, got {path}.")


def write_page(report: Report, path: Path) -> None:
    """Write a report as one HTML file.

    The page needs no network: style, script and figures are part of the file.

    Parameters
    ----------
    report : Report
        The report, see :func:`~spdtokens.reporting.report.make_report`.
    path : Path
        The file to write, ending in ``.html``.

    Raises
    ------
    ReportError
        If the name does not end in ``.html`` or ``.htm``.
    OSError
        If the file cannot be written.

    See Also
    --------
    write_tables : Write the tables as LaTeX and Markdown.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> from spdtokens.evaluation.answer import answer
    >>> from spdtokens.evaluation.plan import Choice, Question, Source
    >>> from spdtokens.reporting.page import write_page, write_tables
    >>> from spdtokens.reporting.report import report_of
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> source = Source({data.name: data})
    >>> result = answer(Question(data.name, (Choice("mdm"),), "k-fold"), source)
    >>> report = report_of(result, source, name="mine")
    >>> with TemporaryDirectory() as folder:
    ...     write_page(report, Path(folder, "report.html"))
    ...     print(Path(folder, "report.html").read_text()[:15])
    <!DOCTYPE html>
    """
    check_page_path(path)
    text = page(report)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write every table of a report as LaTeX (booktabs) and Markdown.

    Parameters
    ----------
    report : Report
        The report, see :func:`~spdtokens.reporting.report.make_report`.
    folder : Path
        The folder to write to, created if it does not exist.

    Returns
    -------
    list of Path
        The files written.

    See Also
    --------
    write_page : Write the report as HTML.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from spdtokens.datasets import from_arrays
    >>> from spdtokens.evaluation.answer import answer
    >>> from spdtokens.evaluation.plan import Choice, Question, Source
    >>> from spdtokens.reporting.page import write_page, write_tables
    >>> from spdtokens.reporting.report import report_of
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = from_arrays(X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> source = Source({data.name: data})
    >>> result = answer(Question(data.name, (Choice("mdm"),), "k-fold"), source)
    >>> report = report_of(result, source, name="mine")
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in write_tables(report, Path(folder))][:2]
    ['methods-1.tex', 'methods-1.md']
    """
    return write_table_files(report.tables(), folder)


def write_table_files(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write tables as LaTeX (booktabs) and Markdown."""
    output_folder(folder)
    written = []
    for table in tables:
        for suffix, form in ((".tex", to_latex), (".md", to_markdown)):
            path = folder / f"{table.name}{suffix}"
            with written_whole(path) as temporary:
                temporary.write_text(form(table), encoding="utf-8")
            written.append(path)
    return written


# ------------------------------------------------------------------ templates


def page(report: Report) -> str:
    """Render a report as HTML."""
    with drawing():
        return _rendered("report.html", report.name, report.written, report=report)


def whole_page(title: str, body: Sequence[str], written: datetime) -> str:
    """Render a page from parts that are HTML already, with style, script, header and footer."""
    return _rendered("page.html", title, written, body=Markup("\n".join(body)))


def part(name: str, *values: Any, **options: Any) -> str:
    """Render a macro of ``parts.html``; figures need :func:`drawing` around them."""
    macro = getattr(_templates().get_template("parts.html").module, name)
    return str(macro(*values, **options))


to_html, prose, bullets, contents, figures_of = (
    partial(part, name) for name in ("table", "prose", "bullets", "contents", "figures")
)


def _rendered(template: str, title: str, written: datetime, **more: Any) -> str:
    about = {"title": title, "written": written, "version": spdtokens.__version__}
    return _templates().get_template(template).render(**about, **more)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "counted": counted,
        "drawn": drawn,
        **{make.__name__: make for make in (figures.groups, opening, sentences, *TABLES)},
    }
    made.tests["warning"] = lambda text: text.startswith(WARNINGS)
    made.filters["plain_json"] = partial(json.dumps, sort_keys=True)
    return made


# ------------------------------------------------------------------ figures as SVG


@contextmanager
def drawing() -> Iterator[None]:
    """Set matplotlib up for figures: names are plain text, never formulas."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcParams["text.parse_math"] = False
        mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small, sharp, searchable
        mpl.rcParams["font.size"] = 9.0
        # The browser has glyphs that matplotlib's font does not have.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def drawn(figure: Figure, name: str) -> Markup:
    """Convert a figure to the content of an ``<svg>`` element, in the page's colours and font.

    Parameters
    ----------
    figure : Figure
        The figure.
    name : str
        Prefix that makes ids unique within the page.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    text = re.sub(r"^.*?<svg[^>]*>|</svg>\s*$", "", buffer.getvalue(), flags=re.S)
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    text = text.replace("xlink:href", "href")
    # Keep only ids that are referred to, and make them unique.
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    kept = {found: f' id="{name}-{found}"' for found in used}
    text = re.sub(r"\sid=\"([^\"]*)\"", lambda found: kept.get(found[1], ""), text)
    text = re.sub(r"(url\(|href=\")#", rf"\g<1>#{name}-", text)
    # Within tags only: a p-value or a name between them must not change.
    text = re.sub(r"<[^>]*>", lambda tag: _slim(tag[0]), text)
    return Markup(re.sub(r"\n\s*", "\n", text).strip())


def _slim(tag: str) -> str:
    """Replace colours and fonts of a tag by the page's, and drop invisible digits."""
    # A hundredth of a point is less than a pixel.
    tag = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)
    for colour, shown in COLOURS.items():
        tag = tag.replace(colour, shown)
    # Matplotlib repeats its list of fonts for every text.
    return re.sub(r"font: (?:[a-z0-9]+ )*?([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
