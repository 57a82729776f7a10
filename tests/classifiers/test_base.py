from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.classifiers.base import encode, held_back, seed_of
from spdtokens.errors import ModelError


@given(
    counts=st.lists(st.integers(2, 12), min_size=2, max_size=5),
    share=st.floats(0.01, 0.4),
    seed=st.integers(0, 2**40),
)
def test_every_class_is_held_back_and_trained_on(
    counts: list[int], share: float, seed: int
) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    n, classes = len(y), len(counts)
    plan = held_back(seed, y, None, share)
    assert plan.validation is not None
    np.testing.assert_array_equal(
        np.sort(np.concatenate([plan.train, plan.validation])), np.arange(n)
    )
    assert len(plan.validation) == max(math.ceil(share * n), classes)
    assert set(y[plan.train]) == set(range(classes))
    again = held_back(seed, y, None, share)
    np.testing.assert_array_equal(again.validation, plan.validation)
    np.testing.assert_array_equal(again.train, plan.train)


@given(st.lists(st.integers(1, 5), min_size=4, max_size=12), st.integers(0, 99))
def test_groups_are_never_split(sizes: list[int], seed: int) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    plan = held_back(seed, np.arange(len(groups)) % 2, groups, 0.25)
    assert plan.validation is not None
    assert not set(groups[plan.train]) & set(groups[plan.validation])
    assert len(set(groups[plan.validation])) == math.ceil(len(sizes) / 4)


def test_nothing_is_held_back_unless_asked() -> None:
    plan = held_back(3, np.arange(6) % 2, None, None)
    assert plan.validation is None
    np.testing.assert_array_equal(plan.train, np.arange(6))


def test_what_cannot_be_held_back() -> None:
    y = np.arange(6) % 2
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(ModelError, match=r"in \(0, 1\)"):
            held_back(0, y, None, share)
    with pytest.raises(ModelError, match="99%"):
        held_back(0, y, None, 0.99)
    with pytest.raises(ModelError, match="50%"):
        held_back(0, y, np.zeros(6), 0.5)


def test_labels_and_seeds() -> None:
    classes, codes = encode(["b", "a", "b"], 3)
    assert (classes.tolist(), codes.tolist()) == (["a", "b"], [1, 0, 1])
    with pytest.raises(ModelError, match=r"\(2,\)"):
        encode([0, 1, 0], 2)
    with pytest.raises(ModelError, match="class, 1"):
        encode([1, 1], 2)
    assert seed_of(np.int64(7)) == 7
    assert seed_of(np.random.RandomState(1)) == seed_of(np.random.RandomState(1))
