from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moabb.evaluations.protocols import CrossSubjectMode

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.protocols import ACCESS, Access, calibration_split, get_access

CALIBRATING = [name for name, access in ACCESS.items() if access.calibrates]


def test_same_as_moabb() -> None:
    """Names, shares and labels; trialwise prediction changes nothing for methods like ours."""
    moabb = {
        mode.value.removeprefix("train_and_target_"): (
            mode.calibration_size,
            mode.calibration_labeled,
        )
        for mode in CrossSubjectMode
        if not mode.trialwise
    }
    ours = {a.name: (a.share, a.labelled) for a in ACCESS.values() if not a.online}
    assert ours == moabb


def test_unknown_access_lists_the_names() -> None:
    with pytest.raises(EvaluationError, match=r"'some'.*train, unlabeled_20p.*online"):
        get_access("some")


def test_own_access_passes_through() -> None:
    mine = Access("labeled_10p", 0.1, True, False, "the first tenth")
    assert get_access(mine) is mine
    calibration, _ = calibration_split(np.arange(30), np.arange(30), mine)
    assert calibration.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("n", "name", "seen"),
    [
        (10, "unlabeled_20p", 2),
        (288, "labeled_50p", 144),
        (9, "labeled_20p", 1),
        (3, "labeled_20p", 1),
    ],
)
def test_first_in_time(n: int, name: str, seen: int) -> None:
    order = np.random.default_rng(0).permutation(n)
    calibration, test = calibration_split(order, np.arange(n), name)
    assert order[calibration].tolist() == list(range(seen))
    assert order[test].tolist() == list(range(seen, n))


@pytest.mark.parametrize("name", ["train", "unlabeled_full", "online"])
def test_others_score_everything(name: str) -> None:
    order = np.array([3, 1, 2, 0])
    calibration, test = calibration_split(order, np.zeros(4), name)
    assert len(calibration) == 0
    assert test.tolist() == [3, 1, 2, 0]


def test_straddling_group_is_scored() -> None:
    group = np.array(["a", "a", "b", "b", "b", "c", "c", "c", "d", "d"])
    calibration, test = calibration_split(np.arange(10), group, "unlabeled_50p")
    assert calibration.tolist() == [0, 1, 2, 3, 4]
    calibration, test = calibration_split(np.arange(8), group[:8], "unlabeled_50p")
    assert calibration.tolist() == [0, 1]
    assert test.tolist() == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("name", CALIBRATING)
@given(group=st.lists(st.integers(0, 5), min_size=1, max_size=25), seed=st.integers(0, 99))
def test_split_is_a_partition_by_groups(name: str, group: list[int], seed: int) -> None:
    groups = np.array(group)
    order = np.random.default_rng(seed).permutation(len(group))
    if len(set(group)) == 1:
        with pytest.raises(EvaluationError, match=f"{name} leaves no trial.*are of group"):
            calibration_split(order, groups, name)
        return
    calibration, test = calibration_split(order, groups, name)
    assert sorted([*calibration, *test]) == list(range(len(group)))
    assert not set(groups[calibration]) & set(groups[test])
    first = groups[order.argmin()]
    within_share = len(calibration) <= ACCESS[name].share * len(group)
    assert len(calibration)
    assert within_share or set(groups[calibration]) == {first}


def test_wrong_shapes_and_no_trials() -> None:
    with pytest.raises(EvaluationError, match=r"shapes \(3,\) and \(2,\)"):
        calibration_split([0, 1, 2], [0, 1], "train")
    with pytest.raises(EvaluationError, match="no trials"):
        calibration_split([], [], "train")
