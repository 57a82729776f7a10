from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, rankdata

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.statistics import critical_difference_of, friedman, rank_methods

# Demsar (2006), table 5(a): q at 0.05 for 2 to 10 classifiers.
Q = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
# His table 6: AUC of four variants of C4.5 on 14 data sets. He ranks 0.975 and 0.975 on the 13th
# as 2 and 3, so they differ in a digit not printed.
C45 = [
    0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.000, 0.940, 0.619, 0.972,
    0.957,
]  # fmt: skip
M = [
    0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.000, 0.962, 0.666, 0.981,
    0.978,
]  # fmt: skip
CF = [
    0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.000, 0.965, 0.614, 0.9751,
    0.946,
]  # fmt: skip
M_CF = [
    0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.000, 0.962, 0.669, 0.975,
    0.970,
]  # fmt: skip
DEMSAR = {"C4.5": C45, "C4.5+m": M, "C4.5+cf": CF, "C4.5+m+cf": M_CF}


def test_demsars_table_of_critical_values() -> None:
    for k, q in enumerate(Q, start=2):
        # His third digits are off by one in two places: exact are 2.3437 and 2.9483.
        unit = np.sqrt(k * (k + 1) / (6 * 14))
        assert critical_difference_of(k, 14) / unit == pytest.approx(q, abs=8e-4)


def test_demsars_example() -> None:
    ranking = rank_methods(DEMSAR)
    assert ranking.names == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    assert ranking.ranks == pytest.approx((1.964, 2.000, 2.893, 3.143), abs=5e-4)
    assert ranking.n == 14
    assert ranking.critical_difference == pytest.approx(1.25, abs=0.005)
    # He finds a difference by Friedman's test but none between pairs at 0.05.
    assert ranking.p_value < 0.05
    assert ranking.groups == ((0, 3),)
    # At 0.10 the critical difference is 1.12, and C4.5 is worse than both with m.
    loose = rank_methods(DEMSAR, alpha=0.1)
    assert loose.critical_difference == pytest.approx(1.12, abs=0.005)
    assert loose.groups == ((0, 2), (2, 3))


@given(st.integers(0, 2**32), st.integers(3, 8), st.integers(2, 20), st.integers(2, 30))
def test_friedman_is_that_of_scipy(seed: int, k: int, n: int, levels: int) -> None:
    scores = np.random.default_rng(seed).integers(0, levels, (k, n))
    ranks = rankdata(-scores, axis=0)
    if (ranks == ranks[0, 0]).all():
        assert friedman(ranks) == 1
    else:
        assert friedman(ranks) == pytest.approx(friedmanchisquare(*scores).pvalue)


def test_two_methods_are_a_sign_test() -> None:
    # Without ties Friedman's chi-square of two methods is that of wins against losses.
    ranking = rank_methods({"a": [1, 1, 1, 1, 1, 1, 0], "b": [0, 0, 0, 0, 0, 0, 1]})
    assert ranking.ranks == pytest.approx((8 / 7, 13 / 7))
    assert ranking.p_value == pytest.approx(0.0588, abs=1e-4)  # (6 - 1)**2 / 7 = 3.57
    assert ranking.groups == ((0, 1),)


def test_overlapping_groups_and_loners() -> None:
    # The same order on 40 data sets: neighbours are one rank apart.
    steady = {name: np.full(40, -i) for i, name in enumerate("abcdef")}
    assert critical_difference_of(6, 40) == pytest.approx(1.19, abs=0.01)
    ranking = rank_methods(steady)
    assert ranking.names == tuple("abcdef")
    assert ranking.groups == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    assert (
        rank_methods({k: v[:, None].repeat(3, 1).ravel() for k, v in steady.items()}).groups == ()
    )


def test_nothing_found_joins_all_and_ties_are_seen_through_rounding() -> None:
    tied = rank_methods({"a": [0.3, 0.3], "b": [0.1 + 0.2, 0.3], "c": [0.3, 0.3]})
    assert tied.ranks == (2, 2, 2)
    assert tied.p_value == 1
    assert tied.groups == ((0, 2),)


def test_pairs_are_looked_at_only_after_friedmans_test_finds_something() -> None:
    scores = {
        "a": [90, 80, 46, 114, 84, 107],
        "b": [42, 31, 48, 15, 26, 10],
        "c": [69, 49, 97, 5, 26, 48],
        "d": [59, 3, 22, 26, 31, 64],
    }
    ranking = rank_methods(scores)
    assert ranking.ranks[-1] - ranking.ranks[0] > ranking.critical_difference
    assert ranking.p_value > 0.05
    assert ranking.groups == ((0, 3),)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"a": [1, 2]}, "2 methods"),
        ({"a": [1, 2], "b": [1, 2, 3]}, r"'b' have shape \(3,\)"),
        ({"a": [1], "b": [1]}, "2 or more"),
        ({"a": [1, 2], "b": [1, np.nan]}, "'b' has no score at place 1"),
    ],
)
def test_refusals(scores: dict[str, list[float]], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        rank_methods(scores)
