from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from spdtokens.reporting.figures import (
    Group,
    Picture,
    groups,
    importance_figure,
    looks,
    train_against_test,
    training,
    what_decides,
)
from spdtokens.reporting.page import drawing, part
from tests.reporting.helpers import (
    CHANNELS,
    NASTY,
    Tree,
    made_decision,
    made_facts,
    made_run,
    many,
)


def inline_svg(figure: Figure, label: str, name: str) -> str:
    return part("svg", Picture(figure, label), name)


def by_gid(figure: Figure, gid: str):
    return next(line for line in figure.axes[0].lines if line.get_gid() == gid)


def test_the_scatter_has_train_across_and_the_diagonal() -> None:
    facts = made_facts(many())
    with drawing():
        figure = train_against_test(facts)
    diagonal = figure.axes[0].lines[0]
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    line = by_gid(figure, "dots:method-0")
    np.testing.assert_array_equal(line.get_xdata(), facts.units.train["method-0"])
    np.testing.assert_array_equal(line.get_ydata(), facts.units.test["method-0"])


def test_methods_differ_in_more_than_colour() -> None:
    found = [tuple(look.values()) for look in looks(map(str, range(56))).values()]
    assert len(set(found)) == 56
    for (colour, marker), (other, next_marker) in pairwise(found):
        assert colour != other
        assert marker != next_marker


def test_curves_of_runs_that_stopped_early() -> None:
    runs = [made_run("a", curves=True), made_run("a", curves=True)]
    runs[1].curves["train accuracy"] = np.full(10, 0.5)  # type: ignore[index]
    group = training(made_facts({"a": runs, "b": [made_run("b")]}))
    assert group is not None
    (picture,) = group.pictures
    line = picture.figure.axes[0].lines[0]
    curve = np.linspace(0.5, 1, 30)
    np.testing.assert_allclose(line.get_ydata()[:10], (curve[:10] + 0.5) / 2)
    np.testing.assert_allclose(line.get_ydata()[10:], curve[10:])
    diverged = made_run("a", curves=True)
    diverged.curves.pop("train accuracy")  # type: ignore[attr-defined]
    diverged.curves["train loss"][5:] = np.inf
    assert training(made_facts({"a": [diverged]})) is not None  # without a warning
    assert training(made_facts({"a": [made_run("a")]})) is None


def test_all_figures_of_a_question() -> None:
    facts = made_facts(many(curves=True))
    with drawing():
        found = {group.title: group.pictures for group in groups(facts)}
    counts = {title: len(pictures) for title, pictures in found.items()}
    assert counts == {"Scores": 3, "Training curves": 3, "Confusion matrices": 3}
    for pictures in found.values():
        for picture in pictures:
            assert len(picture.label) > 20
    assert "method-1 \N{MINUS SIGN}5.0" in found["Scores"][1].label


@pytest.mark.parametrize("name", ["_hidden", "$\\frac", "手", "a" * 80])
def test_any_name_can_be_drawn(name: str) -> None:
    results = {name: [made_run(name, s) for s in "12"], "b": [made_run("b", s) for s in "12"]}
    facts = made_facts(results)
    drawn = 0
    with drawing():
        for group in groups(facts):
            for i, picture in enumerate(group.pictures):
                Tree(inline_svg(picture.figure, picture.label, f"x{i}"))  # refuses what is not XML
                drawn += 1
    assert drawn >= 4


def test_svg_is_small_labelled_and_in_the_colours_of_the_page() -> None:
    with drawing():
        figure = train_against_test(made_facts(many()))
        text = inline_svg(figure, 'a "label" & more', "one")
        other = inline_svg(figure, "b", "two")
    svg = Tree(text).all("svg")[0]
    assert svg["aria-label"] == 'a "label" & more'
    assert svg["role"] == "img"
    assert "http" not in text
    assert "#000000" not in text
    assert "var(--blue)" in text
    assert NASTY in Tree(text).inside("text")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', other))
    for used in re.findall(r'(?:url\(|href=")#([^)"]+)', text):
        assert used in ids
    assert len(text) < 20_000


def test_numbers_and_colours_within_texts_stay() -> None:
    name = "p < 0.001 #0072b2 1.23456"
    results = {name: [made_run(name, s) for s in "123"], "b": [made_run("b", s) for s in "123"]}
    with drawing():
        text = inline_svg(train_against_test(made_facts(results)), "alpha 0.0001", "one")
    tree = Tree(text)
    assert name in tree.inside("text")
    assert tree.all("svg")[0]["aria-label"] == "alpha 0.0001"


# ------------------------------------------------------------------ channel importance


def looked_into(*found, ch_names=CHANNELS, **asked) -> Group:
    facts = made_facts({"a": [made_run("a")]}, **asked)
    with drawing():
        group = what_decides(replace(facts, ch_names=ch_names, decisions=found))
    assert group is not None
    return group


def test_numbers_are_told_in_words() -> None:
    channels, attention = looked_into(made_decision(made_run("a", seed=7))).pictures
    # 17 shares of 1 and one of 10: C4 has 12 of 27 in all, its band 15.
    assert "Largest: C4 44 %, Fz 11 %" in channels.label
    assert "20-28 Hz 56 %, 4-12 Hz 22 %, 12-20 Hz 22 %" in channels.label
    assert (
        "40 test trials of subject 1, fold last, seed 7 (test accuracy 80.0 %)" in channels.caption
    )
    assert "Received on average: 4-12 Hz 50 %, 12-20 Hz 25 %" in attention.label
    assert "uniform attention: 33 %" in attention.label


@pytest.mark.parametrize(
    ("changed", "words"), [(0, "stored class of all 40"), (3, "another class for 3 of 40")]
)
def test_whether_it_is_the_model_of_the_study_is_said(changed: int, words: str) -> None:
    group = looked_into(made_decision(made_run("a"), 1, changed))
    (picture,) = group.pictures  # one band has no attention to show
    assert words in picture.caption


def test_what_failed_and_what_is_mixed_is_said() -> None:
    one = made_decision(made_run("a"))
    assert "6 of 6 channels known by name." in looked_into(one).note
    few = looked_into(one, ch_names=("C3", "x", "y", "C4", "z", "EOG"))
    assert "2 of 6 channels known by name, too few for a map." in few.note
    aligned = looked_into(one, alignment="recentre", access="unlabeled_full")
    assert "aligned (recentre)" in aligned.note
    facts = replace(made_facts({"a": [made_run("a")]}), unexplained={"b": "Rows."})
    failed = what_decides(facts)
    assert failed is not None
    assert (failed.pictures, failed.note) == ((), "b cannot be explained: Rows.")
    assert what_decides(made_facts({"a": [made_run("a")]})) is None


def images(figure) -> list[AxesImage]:
    return [image for axes in figure.axes for image in axes.images]


def test_maps_where_positions_are_known_else_bars() -> None:
    one = made_decision(made_run("a"))
    with drawing():
        figure = importance_figure(one.importance, one.names, CHANNELS)
        Tree(inline_svg(figure, "maps", "m"))
        bars = importance_figure(one.importance, one.names, [f"<{n}>" for n in CHANNELS])
        Tree(inline_svg(bars, "bars", "b"))
    assert [axes.get_title() for axes in figure.axes][:3] == [
        "4-12 Hz: 22 %",
        "12-20 Hz: 22 %",
        "20-28 Hz: 56 %",
    ]
    peaks = [float(np.nanmax(image.get_array())) for image in images(figure)[:3]]
    np.testing.assert_allclose(peaks[:2], 1 / 27)  # even
    assert peaks[2] > 5 / 27
    assert {image.get_clim() for image in images(figure)[:3]} == {(0, 10 / 27)}  # comparable
    assert images(bars) == []
    last = bars.axes[2]
    assert last.get_yticklabels()[0].get_text() == "<C4>"
    widths = [patch.get_width() for patch in last.patches]
    np.testing.assert_allclose(widths, 100 * np.array([10, 1, 1, 1, 1, 1]) / 27)


def test_one_band_has_a_map_and_bars() -> None:
    one = made_decision(made_run("a"), bands=1)
    with drawing():
        figure = importance_figure(one.importance, one.names, CHANNELS)
    assert len(figure.axes[0].images) == 1
    assert figure.axes[1].patches[0].get_width() == pytest.approx(1000 / 15)
