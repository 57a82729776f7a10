from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from spdtokens.reporting.figures import dots, train_against_test
from spdtokens.reporting.pictures import groups
from spdtokens.reporting.small import confusion, curve, curve_limits
from spdtokens.reporting.style import looks
from spdtokens.reporting.svg import drawing, inline_svg
from tests.reporting.made import NASTY, Tree, made_facts, made_run, many


def by_gid(figure: Figure, gid: str):
    return next(line for line in figure.axes[0].lines if line.get_gid() == gid)


def test_dots_and_lines_are_the_scores() -> None:
    facts = made_facts(many())
    with drawing():
        figure = dots(facts)
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [NASTY, "method-1", "method-0"]  # the best on top
    for height, name in enumerate(names):
        line = by_gid(figure, f"dots:{name}")
        np.testing.assert_array_equal(line.get_xdata(), facts.units.test[name])
        assert set(line.get_ydata()) == {height}
    joined = axes.lines[0]
    assert list(joined.get_xdata()) == [facts.units.test[name][0] for name in names]


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


def test_confusion_counts_all_runs() -> None:
    shares = confusion([made_run("a", right=1.0), made_run("a", right=0.5)])
    y = np.arange(40) % 2
    wrong = np.array([np.mean(np.arange(40)[y == c] >= 20) / 2 for c in (0, 1)])
    np.testing.assert_allclose(np.diag(shares), 1 - wrong)
    np.testing.assert_allclose(shares.sum(1), 1)


def test_curves_of_runs_that_stopped_early() -> None:
    runs = [made_run("a", curves=True), made_run("b", curves=True)]
    runs[1].curves["train accuracy"] = np.full(10, 0.5)  # type: ignore[index]
    table = curve(runs, "train accuracy")
    assert table.shape == (2, 30)
    assert np.isnan(table[1, 10:]).all()
    low, high = curve_limits([runs], "accuracy")
    assert low < 0.5
    assert high > 1
    assert curve_limits([[made_run("a")]], "accuracy") is None


def test_all_figures_of_a_question() -> None:
    facts = made_facts(many(curves=True))
    with drawing():
        found = {group.title: group.pictures for group in groups(facts)}
    counts = {title: len(pictures) for title, pictures in found.items()}
    assert counts == {"Scores": 2, "Differences": 2, "Training curves": 6, "Confusion matrices": 3}
    for pictures in found.values():
        for picture in pictures:
            assert len(picture.label) > 20
    assert "method-1 \N{MINUS SIGN}5.0" in found["Differences"][0].label


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
        figure = dots(made_facts(many()))
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
        text = inline_svg(dots(made_facts(results)), "alpha 0.0001", "one")
    tree = Tree(text)
    assert name in tree.inside("text")
    assert tree.all("svg")[0]["aria-label"] == "alpha 0.0001"
