from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.evaluation.trials import dependence
from tests.evaluation.made import table

LENGTH = 10


def partition(numbers: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(numbers == k).tolist()) for k in np.unique(numbers)}


@given(st.lists(st.integers(0, 60), min_size=1, max_size=9))
def test_stretches_are_the_most_trials_that_do_not_overlap(start: list[int]) -> None:
    trials = table([("1", "a")], [len(start)], start=start, length=LENGTH)
    stretch, chain = dependence(trials)
    most = max(
        len(some)
        for r in range(len(start) + 1)
        for some in combinations(start, r)
        if all(abs(a - b) >= LENGTH for a, b in combinations(some, 2))
    )
    assert len(np.unique(stretch)) == most
    for members in partition(stretch):
        assert all(abs(start[a] - start[b]) < LENGTH for a, b in combinations(members, 2))
    # Chains by walking from trial to trial until nothing is added.
    left, walked = set(range(len(start))), set()
    while left:
        found = {left.pop()}
        while more := {b for a in found for b in left if abs(start[a] - start[b]) < LENGTH}:
            found |= more
            left -= more
        walked.add(frozenset(found))
    assert partition(chain) == walked


def test_only_trials_of_one_run_of_one_recording_overlap() -> None:
    start = [0, 5, 0, 5, 0, 5]
    run = ["1", "1", "1", "2", "1", "1"]
    trials = table([("1", "a"), ("1", "b"), ("2", "a")], [2, 2, 2], start=start, run=run)
    for numbers in dependence(trials):
        assert partition(numbers) == {
            frozenset({0, 1}), frozenset({2}), frozenset({3}), frozenset({4, 5})
        }  # fmt: skip


def test_a_group_covers_the_time_from_its_first_to_its_last_trial() -> None:
    # Segments of two trials, and a third trial that begins while the second lasts.
    trials = table([("1", "a")], [5], start=[0, 20, 100, 120, 125], group=[0, 0, 1, 1, 2])
    stretch, chain = dependence(trials)
    wanted = {frozenset({0, 1}), frozenset({2, 3, 4})}
    assert partition(stretch) == partition(chain) == wanted


def test_without_onsets_groups_are_all_that_is_known() -> None:
    trials = table([("1", "a"), ("1", "b")], [3, 2], group=[7, 7, 8, 9, 9])
    wanted = {frozenset({0, 1}), frozenset({2}), frozenset({3, 4})}
    for numbers in dependence(trials):
        assert partition(numbers) == wanted
