"""Folds of neighbours in time: groups stay whole, training parts have all classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from spdtokens.errors import SignalError
from spdtokens.preprocessing.folds import folds_in_time


def test_without_groups_they_are_stratified_and_not_shuffled() -> None:
    y = np.array(list("abc"))[np.arange(31) % 3]
    expected = StratifiedKFold(5).split(y, y)
    for (a, b), (c, d) in zip(folds_in_time(y, 5), expected, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


@given(st.integers(2, 60), st.integers(2, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_groups_stay_whole_and_no_class_is_missing(
    n: int, classes: int, size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    groups = np.arange(n) // size
    for train, test in folds_in_time(y, 5, groups):
        assert not np.intersect1d(groups[train], groups[test]).size
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(n))
        assert set(y[train]) == set(y)


def test_groups_of_other_trials_are_refused() -> None:
    with pytest.raises(SignalError, match="groups"):
        folds_in_time(np.arange(20) % 2, 5, groups=np.arange(19))


def test_a_class_of_one_group_cannot_be_held_out() -> None:
    y = np.array([0, 0, 0, 0, 1, 1])
    assert folds_in_time(y, 5, groups=np.array([0, 0, 1, 1, 2, 2])) == []
    assert len(folds_in_time(y, 5)) == 2
