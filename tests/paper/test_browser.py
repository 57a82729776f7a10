"""The page of reproduced tables in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report
from tests.helpers.browser import CHROMIUM, Tab, browser
from tests.paper.stand_ins import made_folder

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium")
WIDTHS = (400, 1280)
TEST = (
    "[...document.querySelectorAll('#geometry tbody tr')].map(r => Number(r.cells[3].textContent))"
)
REPORTED = "[...document.querySelectorAll('#bands tbody tr')].map(r => r.cells[6].textContent)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    folder = made_folder(tmp_path_factory.mktemp("made"), ("geometry", "bands", "cross-subject"))
    path = folder / "report.html"
    write_paper_report(make_paper_report(folder), path)
    with browser() as found:
        found.path = path  # type: ignore[attr-defined]
        yield found


@pytest.fixture(autouse=True)
def fresh(tab: Tab) -> Iterator[None]:
    tab.width(1280)
    tab.prefers("light")
    tab.open(tab.path)  # type: ignore[attr-defined]
    yield
    assert tab.problems == []
    asked = {url for url in tab.requests if not url.startswith("data:image/png")}
    assert asked == {tab.path.resolve().as_uri()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("pixels", WIDTHS)
def test_it_fits_the_window_and_all_figures_are_seen(tab: Tab, pixels: int) -> None:
    tab.width(pixels)
    assert tab.run("document.documentElement.scrollWidth") <= pixels
    boxes = tab.run(
        "[...document.querySelectorAll('.scroll')].map(b => b.getBoundingClientRect().right)"
    )
    assert max(boxes) <= pixels
    images = tab.run(
        "[...document.images].map(i => [i.complete && i.naturalWidth, i.clientWidth, i.alt])"
    )
    assert len(images) == 2
    for natural, shown, words in images:
        assert natural == 1350
        assert shown >= 640  # wide enough to be read; in a narrow window its box scrolls
        assert words
    sizes = tab.run("[...document.querySelectorAll('svg')].map(s => s.clientWidth)")
    assert len(sizes) == 1
    assert sizes[0] > 300


def test_a_click_sorts(tab: Tab) -> None:
    head = "#geometry thead th:nth-child(4) button"
    before = tab.run(TEST)
    tab.click(head)
    assert tab.run(TEST) == sorted(before, reverse=True)
    tab.click(head)
    assert tab.run(TEST) == sorted(before)
    assert len(set(before)) == 9


def test_a_table_without_reported_values_has_dashes(tab: Tab) -> None:
    assert tab.run(REPORTED) == ["-"] * 10


def test_dark_pictures_stand_on_white(tab: Tab) -> None:
    tab.prefers("dark")
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    colours = tab.run("[...document.images].map(i => getComputedStyle(i).backgroundColor)")
    assert colours == ["rgb(255, 255, 255)"] * 2
