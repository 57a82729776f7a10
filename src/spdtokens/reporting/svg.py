"""Figures of matplotlib as SVG within a page: small, sharp, in the page's own colours and font."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

#: Drawn colours by the page's variables of the same meaning, which differ in the dark.
COLOURS = {
    "#000000": "currentColor",
    "#666666": "var(--grey)",
    "#0072b2": "var(--blue)",
    "#d55e00": "var(--orange)",
    "#009e73": "var(--green)",
    "#cc79a7": "var(--pink)",
    "#56b4e9": "var(--sky)",
    "#e69f00": "var(--amber)",
}
#: Pixels of a screen to a point of matplotlib.
PIXELS = 96 / 72


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


def inline_svg(figure: Figure, label: str, name: str) -> str:
    """A figure as an ``<svg>`` element, for use within :func:`drawing`.

    Parameters
    ----------
    figure : Figure
    label : str
        What it shows, for those who do not see it.
    name : str
        That no other figure of the page has: ids are made unique by it.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    text = text.replace("xlink:href", "href")
    text = _ids(text, name)
    # Within tags only: a p-value or a name between them must stay as it is.
    text = re.sub(r"<[^>]*>", lambda tag: _slim(tag[0]), text)
    text = re.sub(r"\n\s*", "\n", text)
    width, height = (PIXELS * 72 * side for side in figure.get_size_inches())
    head = (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width / PIXELS:g} '
        f'{height / PIXELS:g}" width="{width:.0f}" height="{height:.0f}" '
        # Smaller than this its text could not be read: the box around it scrolls instead.
        f'style="min-width: {min(0.7 * width, 460):.0f}px">'
    )
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1).strip()


def _ids(text: str, name: str) -> str:
    """Only ids that are referred to, told apart from those of other figures."""
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))

    def kept(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in used else ""

    text = re.sub(r"\sid=\"([^\"]*)\"", kept, text)
    return re.sub(r"(url\(|href=\")#", rf"\g<1>#{name}-", text)


def _slim(tag: str) -> str:
    """A tag with the page's colours and font, and no more digits than can be seen."""
    # A hundredth of a point is below any screen's pixel.
    tag = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)
    for drawn, shown in COLOURS.items():
        tag = tag.replace(drawn, shown)
    # Matplotlib repeats its list of fonts with every word.
    return re.sub(r"font: (?:[a-z0-9]+ )*?([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
