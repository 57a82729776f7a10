from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import ttest_1samp

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.difference_plots import critical_difference, paired_differences
from spdtokens.evaluation.statistics import rank_methods

NAMES = (
    "token-bures-wasserstein", "token-log-euclidean", "token-cholesky", "mdm", "ts-lr",
    "spdnet", "spd-token-mlp", "fb-ts-lr", "matt", "eegnet",
)  # fmt: skip


def scores(k: int = 10, n: int = 9, effect: float = 0.03) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    base = rng.uniform(0.4, 0.7, n)
    return {NAMES[i]: base + rng.normal(effect * (i - 5), 0.03, n) for i in range(k)}


def lines(figure: Figure, start: str) -> dict[str, Line2D]:
    """Lines by what follows ``start`` in their id."""
    found = [line for line in figure.axes[0].lines if (line.get_gid() or "").startswith(start)]
    return {f"{line.get_gid().removeprefix(start)}{i}": line for i, line in enumerate(found)}


def texts_apart(figure: Figure) -> int:
    """Number of texts drawn; fails if two overlap, or one leaves the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    axes = figure.axes[0]
    low, high = axes.get_xlim()  # ticks beyond are there, but not drawn
    ticks = [text for text in axes.get_xticklabels() if low <= text.get_position()[0] <= high]
    texts = [*axes.texts, axes.title, *ticks]
    if figure.legends:
        texts += [*axes.get_yticklabels(), axes.xaxis.label, *figure.legends[0].get_texts()]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    width, height = canvas.get_width_height()
    for box in boxes:
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    return len(boxes)


def test_critical_difference_draws_the_ranking() -> None:
    ranking = rank_methods(scores())
    figure = critical_difference(scores(), over="subjects")
    methods = lines(figure, "method:")
    assert len(methods) == 10
    for i, (name, rank) in enumerate(zip(ranking.names, ranking.ranks, strict=True)):
        x = methods[f"{name}{i}"].get_xdata()
        assert x[0] == x[1] == rank
        assert (x[2] < 1) == (i < 5)
    bars = [list(line.get_xdata()) for line in lines(figure, "group").values()]
    assert bars == [[ranking.ranks[i], ranking.ranks[j]] for i, j in ranking.groups]
    assert len(bars) > 1
    (gap,) = lines(figure, "critical").values()
    assert np.ptp(gap.get_xdata()) == pytest.approx(ranking.critical_difference)
    shown = {text.get_text() for text in figure.axes[0].texts}
    assert f"{ranking.names[0]}  {ranking.ranks[0]:.2f}" in shown
    assert "9 subjects" in figure.axes[0].get_title()


@pytest.mark.parametrize(("k", "n"), [(2, 9), (3, 9), (5, 3), (10, 9), (10, 2)])
def test_no_texts_overlap(k: int, n: int) -> None:
    figure = critical_difference(
        {f"{name}-long" * (1 + k // 10): row for name, row in scores(k, n).items()}
    )
    assert texts_apart(figure) == k + k + 2  # names, ranks, critical difference, title
    figure = paired_differences(scores(k, n), NAMES[0], metric="accuracy")
    assert texts_apart(figure) > k


def test_a_difference_longer_than_the_axis_and_nothing_found() -> None:
    figure = critical_difference(scores(4, 2, effect=0.0))
    (gap,) = lines(figure, "critical").values()
    assert list(gap.get_xdata()) == [1, 4]
    assert "no significant difference" in figure.axes[0].get_title()
    (bar,) = lines(figure, "group").values()
    ranks = rank_methods(scores(4, 2, effect=0.0)).ranks
    assert list(bar.get_xdata()) == [ranks[0], ranks[-1]]


def test_paired_differences_draws_the_differences() -> None:
    table = scores()
    figure = paired_differences(table, "ts-lr", metric="accuracy")
    axes = figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert set(labels) == set(NAMES) - {"ts-lr"}
    means = [np.mean(table[name] - table["ts-lr"]) for name in labels]
    assert means == sorted(means)
    for row, bar in enumerate(axes.containers):
        name = labels[row]
        d = table[name] - table["ts-lr"]
        (dots,) = (line for line in axes.lines if line.get_gid() == f"subjects:{name}")
        assert dots.get_xdata() == pytest.approx(d)
        assert np.abs(np.asarray(dots.get_ydata()) - row).max() < 0.5
        assert bar.lines[0].get_xdata() == pytest.approx([means[row]])
        ((low, _), (high, _)) = bar.lines[2][0].get_segments()[0]
        interval = ttest_1samp(d, 0).confidence_interval(0.95)
        assert (low, high) == pytest.approx((interval.low, interval.high))
    assert len(axes.containers) == 9
    zero = axes.lines[0]
    assert list(zero.get_xdata()) == [0, 0]
    assert "ts-lr" in axes.get_xlabel()


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(EvaluationError, match=r"mdm.*'csp'"):
        paired_differences(scores(), "csp")
