"""The report as one HTML page that needs nothing but itself, and as files of tables."""

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

#: A sentence that begins so must not be overlooked.
WARNINGS = ("Leaky", "Unfinished", "No runs yet", "Not made yet", "Made by other code")
#: Called by the template.
TABLES = (overview_table, question_tables, method_legend, origin_table, settings_table)
#: Drawn colours by the page's variables of the same meaning, which differ in the dark.
COLOURS = {figures.INK: "currentColor"} | {
    getattr(figures, name.upper()): f"var(--{name})"
    for name in ("grey", "blue", "orange", "green", "pink", "sky", "amber")
}


# ------------------------------------------------------------------ files


def check_page_path(path: Path) -> None:
    """Refuse, before any work, a path that a page cannot be written to."""
    output_file(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"{path} does not end in .html, as a report must to be opened.")


def write_page(report: Report, path: Path) -> None:
    """Write the report as one HTML file."""
    check_page_path(path)
    text = page(report)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write every table as LaTeX (booktabs) and Markdown; a missing folder is made."""
    return write_table_files(report.tables(), folder)


def write_table_files(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write tables as LaTeX (booktabs) and Markdown; a missing folder is made."""
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
    """The whole page of a study."""
    with drawing():
        return _rendered("report.html", report.name, report.written, report=report)


def whole_page(title: str, body: Sequence[str], written: datetime) -> str:
    """A page of parts that are HTML already: with style, script, header and footer."""
    return _rendered("page.html", title, written, body=Markup("\n".join(body)))


def part(name: str, *values: Any, **options: Any) -> str:
    """A macro of ``parts.html`` as HTML; figures only within :func:`drawing`."""
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
    """What figures are made within: names of users are text, never formulas or fonts to find."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcParams["text.parse_math"] = False
        mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small, sharp, searchable
        mpl.rcParams["font.size"] = 9.0
        # The reader's browser has the letters that the font for measuring has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def drawn(figure: Figure, name: str) -> Markup:
    """What is within the ``<svg>`` of a figure, in the page's own colours and font.

    Parameters
    ----------
    figure : Figure
    name : str
        That no other figure of the page has: ids are made unique by it.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    text = re.sub(r"^.*?<svg[^>]*>|</svg>\s*$", "", buffer.getvalue(), flags=re.S)
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    text = text.replace("xlink:href", "href")
    # Only ids that are referred to, told apart from those of other figures.
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    kept = {found: f' id="{name}-{found}"' for found in used}
    text = re.sub(r"\sid=\"([^\"]*)\"", lambda found: kept.get(found[1], ""), text)
    text = re.sub(r"(url\(|href=\")#", rf"\g<1>#{name}-", text)
    # Within tags only: a p-value or a name between them must stay as it is.
    text = re.sub(r"<[^>]*>", lambda tag: _slim(tag[0]), text)
    return Markup(re.sub(r"\n\s*", "\n", text).strip())


def _slim(tag: str) -> str:
    """A tag with the page's colours and font, and no more digits than can be seen."""
    # A hundredth of a point is below any screen's pixel.
    tag = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)
    for colour, shown in COLOURS.items():
        tag = tag.replace(colour, shown)
    # Matplotlib repeats its list of fonts with every word.
    return re.sub(r"font: (?:[a-z0-9]+ )*?([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
