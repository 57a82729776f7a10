"""The page of reproduced tables in a real browser; sorting and dark colours are the report's."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report
from tests.helpers.browser import CHROMIUM, browser
from tests.paper.stand_ins import made_folder

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium")


def test_it_fits_the_window_and_all_figures_are_seen(tmp_path: Path) -> None:
    folder = made_folder(tmp_path, ("geometry", "cross-subject"))
    path = folder / "report.html"
    write_paper_report(make_paper_report(folder), path)
    with browser() as tab:
        tab.prefers("dark")
        for pixels in (400, 1280):
            tab.width(pixels)
            tab.open(path)
            assert tab.run("document.documentElement.scrollWidth") <= pixels
            boxes = tab.run(
                "[...document.querySelectorAll('.scroll')].map(b =>"
                " b.getBoundingClientRect().right)"
            )
            assert max(boxes) <= pixels
            images = tab.run(
                "[...document.images].map(i => [i.naturalWidth, i.clientWidth, i.alt,"
                " getComputedStyle(i).backgroundColor])"
            )
            assert len(images) == 2
            for natural, shown, words, behind in images:
                assert natural == 1350
                assert shown >= 640  # wide enough to be read; in a narrow window its box scrolls
                assert words
                assert behind == "rgb(255, 255, 255)"
            sizes = tab.run("[...document.querySelectorAll('svg')].map(s => s.clientWidth)")
            assert len(sizes) == 1
            assert sizes[0] > 300
            assert tab.problems == []
            asked = {url for url in tab.requests if not url.startswith("data:image/png")}
            assert asked == {path.resolve().as_uri()}
