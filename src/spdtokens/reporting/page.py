"""The report as one HTML page that needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from string import Template

import spdtokens
from spdtokens._tables import counted
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.picture import Group
from spdtokens.reporting.pictures import groups
from spdtokens.reporting.provenance import configurations, question_table
from spdtokens.reporting.report import Report, question_tables
from spdtokens.reporting.sentences import sentences
from spdtokens.reporting.svg import drawing, inline_svg
from spdtokens.reporting.table import Table, to_html

#: A sentence that begins so must not be overlooked.
WARNINGS = ("Leaky", "Unfinished", "No runs yet", "Not made yet", "Made by other code")


def page(report: Report) -> str:
    """The whole page."""
    body = [_summary(report), *(_section(facts) for facts in report.found), _provenance(report)]
    return whole_page(report.name, body, report.written)


def whole_page(title: str, body: Sequence[str], written: datetime) -> str:
    """HTML around the parts of a page: style, script, header and footer."""
    on = written.strftime("%Y-%m-%d %H:%M UTC")
    return Template(_text("page.html")).substitute(
        version=escape(spdtokens.__version__),
        title=escape(title),
        style=_text("page.css").strip(),
        script=_text("page.js").strip(),
        body="\n".join(body),
        footer=escape(f"Written by spdtokens {spdtokens.__version__} on {on}."),
    )


def _text(name: str) -> str:
    return (files("spdtokens.reporting") / name).read_text(encoding="utf-8")


def _summary(report: Report) -> str:
    methods = len({row.method for facts in report.found for row in facts.rows})
    scope = (
        f"{counted(methods, 'method')}, "
        f"{counted(len(report.found), 'data set and protocol', 'data sets and protocols')}, "
        f"{counted(len(report.runs), 'run')}."
    )
    lines = [f"<p>{scope}</p>"]
    if report.warning:
        lines.append(f'<p class="warn">{escape(report.warning)}</p>')
    lines.append('<h2 id="summary">Summary</h2>')
    if len(report.found) > 1:
        lines.append(to_html(report.overview))
    for facts in report.found:
        title = f"{facts.number}. {facts.title}"
        lines.append(f'<h3><a href="#section-{facts.number}">{escape(title)}</a></h3>')
        lines.append(bullets(sentences(facts)))
    links = [(f"section-{facts.number}", facts.title) for facts in report.found]
    links.append(("provenance", "Where the numbers come from"))
    return "\n".join([*lines, contents(links)])


def contents(links: Sequence[tuple[str, str]]) -> str:
    """Links to sections: the id of each and its title."""
    items = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in links)
    return f'<nav aria-label="Sections"><h3>Sections</h3><ol>{items}</ol></nav>'


def bullets(found: Sequence[str]) -> str:
    """Sentences as a list, those that warn marked."""
    marks = [' class="warn"' if text.startswith(WARNINGS) else "" for text in found]
    items = (f"<li{mark}>{escape(text)}</li>" for mark, text in zip(marks, found, strict=True))
    return f"<ul>{''.join(items)}</ul>"


def _section(facts: Facts) -> str:
    title = f"{facts.number}. {facts.title}"
    lines = [f'<h2 id="section-{facts.number}">{escape(title)}</h2>']
    if not facts.rows:
        return "\n".join([*lines, bullets(sentences(facts))])
    lines += [to_html(table) for table in question_tables(facts)]
    with drawing():
        for i, group in enumerate(groups(facts)):
            lines.append(figures_of(group, f"f{facts.number}-{i}"))
    return "\n".join(lines)


def figures_of(group: Group, name: str) -> str:
    """A group of figures, for use within :func:`spdtokens.reporting.svg.drawing`."""
    items = []
    for i, picture in enumerate(group.pictures):
        svg = inline_svg(picture.figure, picture.label, f"{name}-{i}")
        # Above a small figure the caption is its title, below a large one its explanation.
        words = f"<figcaption>{escape(picture.caption)}</figcaption>"
        box = f'<div class="scroll">{svg}</div>'
        inside = words + box if group.small else box + words
        items.append(f"<figure>{inside}</figure>")
    note = f'<p class="note lead">{escape(group.note)}</p>' if group.note else ""
    kind = "figures small" if group.small else "figures"
    figures = "\n".join(items)
    return f'<h3>{escape(group.title)}</h3>{note}\n<div class="{kind}">\n{figures}\n</div>'


def _provenance(report: Report) -> str:
    commands = "\n".join(report.commands)
    study = (
        "Every number of this page comes from the runs of one study. These commands do what is "
        "missing of it and show the same numbers again:"
    )
    once = "Every number of this page comes from one evaluation, made by:"
    lines = [
        '<h2 id="provenance">Where the numbers come from</h2>',
        f"<p>{study if report.source else once}</p>",
        f"<pre><code>{escape(commands)}</code></pre>",
        prose(report.origin),
        *(_folded(facts) for facts in report.found),
    ]
    if report.source:
        lines += ["<h3>The study</h3>", f"<pre><code>{escape(report.source)}</code></pre>"]
    return "\n".join(lines)


def prose(table: Table, *, heading: bool = True) -> str:
    """A table of texts, which are broken into lines."""
    return f'<div class="prose">{to_html(table, heading=heading)}</div>'


def _folded(facts: Facts) -> str:
    """What determined the numbers of a question: read by few, searched by more."""
    table = question_table(facts)
    # One line a method.
    lines = [
        f"{name}: {json.dumps(values, sort_keys=True)}"
        for name, values in configurations(facts).items()
    ]
    text = escape("\n".join(lines))
    methods = f"<h4>Configuration of every method</h4><pre><code>{text}</code></pre>"
    return (
        f"<details><summary>{escape(table.title)}</summary>{prose(table, heading=False)}"
        f"{methods if lines else ''}</details>"
    )
