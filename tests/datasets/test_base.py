"""Subjects by name and by number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spdtokens.datasets import Dataset, from_arrays, load_dataset
from spdtokens.errors import DataError

ARRAYS = from_arrays(np.stack([np.eye(2)] * 4), [0, 1, 0, 1])


def people(*names: str) -> Dataset:
    return replace(ARRAYS, index=dict.fromkeys(names, ("1",)))


@pytest.mark.parametrize("subjects", [1, [1], "001", ["001"], np.int64(1), ("001", 1)])
def test_a_number_is_the_subject_whose_name_is_that_number(subjects) -> None:
    assert people("001", "002", "s1", "010").chosen(subjects) == ("001",)


def test_chosen_subjects_come_in_the_order_of_the_data_set() -> None:
    dataset = people("b", "a", "3")
    assert dataset.chosen() == ("b", "a", "3")
    assert dataset.chosen([3, "a"]) == ("a", "3")
    assert dataset.sessions(3) == ("1",)
    assert len(dataset.load(3, "1")) == 4


@pytest.mark.parametrize(
    ("subjects", "culprit"),
    [("1", "'1'"), (7, "7"), (["001", "x"], "'x'"), (2, "'2' or '02'")],
)
def test_subjects_that_are_not_there_or_may_be_two_are_refused(subjects, culprit: str) -> None:
    with pytest.raises(DataError, match=culprit):
        people("001", "2", "02").chosen(subjects)


def test_arrays_are_no_name_of_a_data_set() -> None:
    with pytest.raises(DataError, match=r"tuple.*from_arrays"):
        load_dataset((np.zeros((9, 9, 9)), np.zeros(9)))  # type: ignore[arg-type]
