"""The page as a reader meets it: in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spdtokens.reporting.page import write_page
from tests.helpers.browser import CHROMIUM, Tab, browser
from tests.reporting.helpers import CHANNELS, made_decision, made_facts, made_report, many

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium")
WIDTHS = (390, 1400)
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
PAPER = "getComputedStyle(document.body).backgroundColor"
FIRST = "[...document.querySelectorAll('#methods-1 tbody tr')].map(r => r.cells[0].textContent)"
SORTED = "[...document.querySelectorAll('#methods-1 th')].map(h => h.getAttribute('aria-sort'))"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    wide = replace(made_facts(many(14, 9)), number=2)
    results = many(5, 6, curves=True)
    first, second, *_ = (runs[0] for runs in results.values())
    looked = (made_decision(first), made_decision(second, bands=1))
    facts = replace(made_facts(results), ch_names=CHANNELS, decisions=looked)
    unknown = tuple(f"x{i}" for i in range(len(CHANNELS)))
    wide = replace(wide, ch_names=unknown, decisions=looked[:1])
    write_page(made_report(facts, wide), path)
    with browser() as found:
        found.path = path  # type: ignore[attr-defined]
        yield found


@pytest.fixture(autouse=True)
def fresh(tab: Tab) -> Iterator[None]:
    tab.width(1400)
    tab.prefers("light")
    tab.open(tab.path)  # type: ignore[attr-defined]
    tab.run("try { localStorage.clear() } catch {}")
    yield
    assert tab.problems == []
    asked = {url for url in tab.requests if not url.startswith("data:")}
    assert {url.split(":")[0] for url in asked} == {"file"}
    assert len(asked) == 1  # the page itself, and nothing else


@pytest.mark.parametrize("pixels", WIDTHS)
def test_it_fits_the_window(tab: Tab, pixels: int) -> None:
    tab.width(pixels)
    wide, window = tab.run("[document.documentElement.scrollWidth, window.innerWidth]")
    assert window == pixels
    assert wide <= pixels
    # What is too wide scrolls inside its own box.
    boxes = tab.run(
        "[...document.querySelectorAll('.scroll')].map(b => b.getBoundingClientRect().right)"
    )
    assert max(boxes) <= pixels
    inner, outer = tab.run(
        "(() => { const b = document.querySelector('#methods-2').parentElement;"
        "return [b.scrollWidth, b.clientWidth]; })()"
    )
    assert (inner > outer) == (pixels < 600)
    hint = "document.querySelector('#methods-2').parentElement.classList.contains('more')"
    assert tab.run(hint) == (pixels < 600)  # says that there is more to the right


@pytest.mark.parametrize("pixels", WIDTHS)
def test_all_figures_can_be_seen(tab: Tab, pixels: int) -> None:
    tab.width(pixels)
    sizes = tab.run(
        "[...document.querySelectorAll('svg')].map(s => { const b = s.getBoundingClientRect();"
        "return [b.width, b.height]; })"
    )
    assert len(sizes) == (3 + 3 + 5 + 5) + (3 + 2 + 14)
    assert min(min(size) for size in sizes) > 100
    letters = tab.run(
        "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(letters) > 5


def test_maps_are_painted_in_light_and_dark(tab: Tab) -> None:
    for scheme in ("light", "dark"):
        tab.prefers(scheme)
        images = tab.run(
            "[...document.querySelectorAll('svg image')].map(i => {"
            "const b = i.getBoundingClientRect(); return [b.width, b.height]; })"
        )
        assert len(images) == (3 + 1) + (1 + 1)  # maps and their scales; none without positions
        assert min(width for width, _ in images) > 50
        # A browser that could not read an image would not know its size.
        decoded = tab.run(
            "Promise.all([...document.querySelectorAll('svg image')].map(i => {"
            "const p = new Image(); p.src = i.href.baseVal;"
            "return p.decode().then(() => p.naturalWidth); }))"
        )
        assert min(decoded) > 50


def test_a_click_sorts_and_another_turns_it_round(tab: Tab) -> None:
    before = tab.run(FIRST)
    head = "#methods-1 thead th:nth-child(3) button"  # test scores
    tab.click(head)
    assert tab.run(SORTED)[2] == "descending"
    assert tab.run(FIRST) == before  # they were made from best to worst
    tab.click(head)
    assert tab.run(SORTED)[2] == "ascending"
    assert tab.run(FIRST) == before[::-1]
    tab.click("#methods-1 thead th:nth-child(1) button")
    assert tab.run(SORTED)[:3] == ["ascending", None, None]
    assert tab.run(FIRST) == sorted(before)


def test_what_is_not_known_comes_last_either_way(tab: Tab) -> None:
    for _ in range(2):
        tab.click("#methods-1 thead th:nth-child(7) button")  # p: the reference has none
        assert tab.run(FIRST)[-1] == "method-0"


def test_the_keyboard_sorts_too(tab: Tab) -> None:
    before = tab.run(FIRST)
    tab.run("document.querySelector('#methods-1 thead th:nth-child(2) button').focus()")
    tab.press("Tab")
    tab.press("Enter")
    tab.press("Enter")
    assert tab.run(SORTED)[2] == "ascending"
    assert tab.run(FIRST) == before[::-1]


def test_dark_follows_the_system_and_the_button(tab: Tab) -> None:
    ink = "getComputedStyle(document.querySelector('svg text')).fill"
    assert tab.run(PAPER) == LIGHT
    light = tab.run(ink)
    tab.prefers("dark")
    assert tab.run(PAPER) == DARK
    assert tab.run(ink) != light
    tab.click("#theme")
    assert tab.run(PAPER) == LIGHT
    tab.click("#theme")
    tab.prefers("light")
    assert tab.run(PAPER) == DARK


def test_it_prints_light_and_open(tab: Tab, tmp_path: Path) -> None:
    tab.prefers("dark")
    tab.run(
        "addEventListener('beforeprint', () => { window.seen = "
        "[document.querySelectorAll('details:not([open])').length, " + PAPER + "]; })"
    )
    tab.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert tab.run("window.seen[0]") == 0
    assert tab.run("document.querySelectorAll('details[open]').length") == 0
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.run(PAPER) == LIGHT
    tab.call("Emulation.setEmulatedMedia", media="")
