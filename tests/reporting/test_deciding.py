"""What decides: the pictures and their words, of made-up models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import AxesImage

from spdtokens.classifiers.methods import METHODS
from spdtokens.evaluation.plan import Source
from spdtokens.reporting.deciding import what_decides
from spdtokens.reporting.decisions import Unexplained, best_token_methods
from spdtokens.reporting.maps import importance_figure
from spdtokens.reporting.picture import Group
from spdtokens.reporting.refit import median_run
from spdtokens.reporting.svg import drawing, inline_svg
from tests.golden.sets import IMAGERY
from tests.reporting.made import CHANNELS, Tree, made_decision, made_facts, made_run, run_of


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
    assert "4-12 Hz 22 %, 12-20 Hz 22 %, 20-28 Hz 56 %" in channels.label
    assert (
        "40 test trials of subject 1, fold last, seed 7 (test accuracy 80.0 %)" in channels.caption
    )
    assert "Received on average: 4-12 Hz 50 %, 12-20 Hz 25 %" in attention.label
    assert "without any preference 33 %" in attention.label


@pytest.mark.parametrize(
    ("changed", "apart", "words"),
    [
        (0, 0.0, "It is the study's model: all 40 predictions are those that are stored."),
        (0, 3e-4, "All 40 predicted classes are those of the study, probabilities differ by"),
        (3, 0.6, "Not quite the study's model: trained again, it predicts another class for 3 of"),
    ],
)
def test_whether_it_is_the_model_of_the_study_is_said(
    changed: int, apart: float, words: str
) -> None:
    group = looked_into(made_decision(made_run("a"), 1, changed, apart))
    (picture,) = group.pictures  # one band has no attention to show
    assert words in picture.caption


def test_what_failed_and_what_is_mixed_is_said() -> None:
    one = made_decision(made_run("a"))
    assert "known by name for 6 of 6 channels." in looked_into(one).note
    few = looked_into(one, ch_names=("C3", "x", "y", "C4", "z", "EOG"))
    assert "for 2 of 6 channels: too few for a map." in few.note
    aligned = looked_into(one, alignment="recentre", access="unlabeled_full")
    assert "aligned (recentre)" in aligned.note
    failed = looked_into(Unexplained("b", "Rows are no channels."))
    assert failed.pictures == ()
    assert failed.note == "b could not be looked into: Rows are no channels."
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


def test_the_subject_in_the_middle_is_taken() -> None:
    runs = [
        made_run("a", subject, seed=seed, right=right + 0.1 * seed)
        for subject, right in (("1", 0.8), ("2", 0.5), ("3", 0.6), ("4", 0.9))
        for seed in (0, 1)
    ]
    found = median_run(runs, "accuracy").spec
    assert (found.subject, found.seed) == ("3", 0)
    assert median_run(runs[:6], "accuracy").spec.subject == "3"
    assert median_run(runs[:2], "accuracy").spec.subject == "1"


def test_only_the_best_token_methods_are_looked_into() -> None:
    scores = {
        "ts-lr": 0.95,
        "token-euclidean": 0.6,
        "token-cholesky": 0.7,
        "token-log-euclidean": 0.8,
        "token-log-cholesky": 0.9,
        "token-bures-wasserstein": 1.0,
    }
    leaky = {"token-bures-wasserstein": "all trials were seen"}
    source = Source()
    results = {
        name: [
            run_of(
                METHODS[name].make(IMAGERY), source, name, right=right, leaky=leaky.get(name, "")
            )
        ]
        for name, right in scores.items()
    }
    answer = made_facts(results).answer
    best = ["token-log-cholesky", "token-log-euclidean", "token-cholesky"]
    assert best_token_methods(answer, source) == best
    assert best_token_methods(answer, source, 9)[-1] == "token-bures-wasserstein"
