"""Folds that leak are refused, and the message names the trials."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spdtokens.datasets import Recording
from spdtokens.errors import EvaluationError, LeakError
from spdtokens.evaluation.protocols import Fold, check_fold
from tests.evaluation.made import planned, signals, table, trials

TRIALS = trials(
    table([("1", "a"), ("1", "b")], [8, 8], group=[0, 0, 1, 1, 2, 2, 3, 3, *range(4, 12)])
)


def fold(train: list[int], test: list[int], **more: list[int]) -> Fold:
    parts = {name: np.array(rows) for name, rows in more.items()}
    return Fold("1", "f", np.array(train), np.array(test), **parts)


def test_an_honest_fold_passes() -> None:
    honest = fold([0, 1, 2, 3], [8, 9], validation=[4, 5], calibration=[6, 7])
    check_fold(honest, TRIALS)
    np.testing.assert_array_equal(honest.rows, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("leak", "message"),
    [
        (fold([0, 1, 8], [8, 9]), "train and test share trials: 1/b/0"),
        (fold([0, 1], [8, 9], validation=[9]), "validation and test share trials: 1/b/1"),
        (fold([0, 1], [8], validation=[1]), "train and validation share trials: 1/a/1"),
        (fold([0, 1], [8], calibration=[8]), "calibration and test share trials: 1/b/0"),
        (fold([0, 1, 2], [3]), "train and test share groups of trials: 1/a/2"),
        (fold([0, 1], [3], validation=[2]), "validation and test share groups of trials: 1/a/2"),
        (fold([0, 1], [3], calibration=[2]), "calibration and test share groups of trials: 1/a/2"),
        (fold(list(range(8)), list(range(8))), r"1/a/0, 1/a/1, 1/a/2, 1/a/3, 1/a/4, \.\.\."),
    ],
)
def test_shared_trials_and_groups_are_refused(leak: Fold, message: str) -> None:
    with pytest.raises(LeakError, match=f"Subject 1, fold f: .*{message}"):
        check_fold(leak, TRIALS)


def test_marked_folds_may_share_groups_but_never_trials() -> None:
    check_fold(replace(fold([0, 1, 2], [3]), leaky="said so"), TRIALS)
    with pytest.raises(LeakError, match="1/a/2"):
        check_fold(replace(fold([0, 1, 2], [2]), leaky="said so"), TRIALS)


@pytest.mark.parametrize("part", ["train", "validation", "calibration"])
def test_shared_samples_are_refused(part: str) -> None:
    start = [*range(0, 80, 10), *range(0, 80, 10)]
    apart, close = (
        trials(table([("1", "a"), ("1", "b")], [8, 8], start=start, length=length))
        for length in (10, 11)
    )
    parts = {"train": [0, 1], part: [4, 3]}
    leak = fold(parts.pop("train"), [5, 6], **parts) if part != "train" else fold([4, 3], [5, 6])
    check_fold(leak, apart)
    with pytest.raises(LeakError, match=rf"{part} and test .* in time: 1/a/4\. "):
        check_fold(leak, close)
    # The same samples of another recording are others.
    check_fold(fold([4, 3], [13, 14]), close)


def test_overlap_in_time_is_refused_under_k_fold_and_avoided_by_blocks() -> None:
    def overlapping(recording: Recording) -> Recording:
        return replace(recording, about={"onset": np.arange(len(recording)) * 100})

    dataset = signals(change=overlapping)
    with pytest.raises(LeakError, match="in time: 1/a/"):
        planned(dataset, "ts-lr", protocol="k-fold")
    specs, _ = planned(dataset, "ts-lr", protocol="blocks")
    assert len(specs) == 10


def test_onsets_count_from_the_beginning_of_each_run() -> None:
    def by_run(recording: Recording) -> Recording:
        onset = np.tile(np.arange(len(recording) // 2) * 120, 2)
        return replace(recording, about={"onset": onset})

    def in_one_run(recording: Recording) -> Recording:
        return replace(by_run(recording), run=np.full(len(recording), "r1"))

    specs, _ = planned(signals(change=by_run), "ts-lr", protocol="leave-one-run-out")
    assert len(specs) == 8
    planned(signals(change=by_run), "ts-lr", protocol="k-fold")
    with pytest.raises(LeakError, match="in time: 1/a/"):
        planned(signals(change=in_one_run), "ts-lr", protocol="k-fold")


def test_one_recording_in_two_runs_is_refused_by_its_content() -> None:
    def twice(recording: Recording) -> Recording:
        X = recording.X.copy()
        X[12:] = X[:12]
        return replace(recording, X=X, about={"onset": np.tile(np.arange(12) * 120, 2)})

    with pytest.raises(LeakError, match=r"train and test .*: 1/a/12 and 1/a/0, "):
        planned(signals(change=twice), "ts-lr", protocol="leave-one-run-out")


def test_what_cannot_be_trained_on() -> None:
    with pytest.raises(EvaluationError, match="no trials to train on"):
        check_fold(fold([], [1]), TRIALS)
    with pytest.raises(EvaluationError, match="no trials to test on"):
        check_fold(fold([1], []), TRIALS)
    with pytest.raises(EvaluationError, match="no trial of b to train on"):
        check_fold(fold([0, 2], [8, 9]), TRIALS)
    check_fold(fold([0, 1], [8, 10]), TRIALS)  # a test without a class is a test
