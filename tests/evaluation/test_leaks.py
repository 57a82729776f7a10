"""Nothing that is fitted knows a test trial: other signals in its place change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spdtokens.datasets import Dataset, Recording
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.runs import RunResult
from tests.evaluation.made import planned, same, signals

METHODS = ("ts-lr", "mdm", "eegnet", "token-affine-invariant", "spd-token-mlp")
#: Of these test trials the signals stay: the probe by which two trained models are compared.
PROBE = 4
INDEX = {"1": ("a", "b"), "2": ("a", "b")}


def replaced(numbers: np.ndarray, session: str) -> Callable[[Recording], Recording]:
    """Much louder noise in the place of some trials of subject 1, labels turned round."""

    def change(recording: Recording) -> Recording:
        if (recording.subject, recording.session) != ("1", session):
            return recording
        X, y = recording.X.copy(), recording.y.copy()
        X[numbers] = 40 * np.random.default_rng(9).standard_normal(X[numbers].shape)
        y[numbers] = 1 - y[numbers]
        return replace(recording, X=X, y=y)

    return change


def done(dataset: Dataset, method: str, fold: int, **question: Any) -> RunResult:
    specs, source = planned(dataset, method, subjects=("1",), **question)
    (result,) = execute(specs[fold : fold + 1], source)
    return result


def assert_trained_the_same(before: RunResult, after: RunResult) -> None:
    assert before.spec.data_hash != after.spec.data_hash  # the trials are others
    np.testing.assert_array_equal(before.ids, after.ids)
    assert before.train == after.train
    assert before.validation == after.validation
    assert before.epoch == after.epoch
    assert list(before.curves) == list(after.curves)
    for name in before.curves:
        np.testing.assert_array_equal(before.curves[name], after.curves[name])


def compared(method: str, **question: Any) -> tuple[RunResult, RunResult]:
    """With the last session as it is, and with all but the first of its trials replaced."""
    erp: dict[str, Any] = {"paradigm": "erp", "filtered": (1.0, 40.0)}
    more = erp if method == "xdawn-ts-lr" else {}
    before, after = (
        done(signals(INDEX, change=change, **more), method, 0, **question)
        for change in (same, replaced(np.arange(PROBE, 24), "b"))
    )
    assert_trained_the_same(before, after)
    return before, after


@pytest.mark.parametrize("method", [*METHODS, "xdawn-ts-lr"])
def test_nothing_fitted_knows_the_tested_session(method: str) -> None:
    before, after = compared(method)
    np.testing.assert_array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])
    assert not np.array_equal(before.probabilities[PROBE:], after.probabilities[PROBE:])


@pytest.mark.parametrize("method", METHODS)
def test_nothing_aligned_knows_the_future(method: str) -> None:
    before, after = compared(method, alignment="recentre", access="online")
    np.testing.assert_array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])
    assert not np.array_equal(before.probabilities[PROBE:], after.probabilities[PROBE:])


@pytest.mark.parametrize("method", METHODS)
def test_a_known_domain_is_aligned_by_its_training_trials(method: str) -> None:
    before, after = compared(method, alignment="recentre", domain="subject")
    np.testing.assert_array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])


@pytest.mark.parametrize("method", METHODS)
def test_training_does_not_know_what_the_test_may(method: str) -> None:
    before, after = compared(method, alignment="recentre", access="unlabeled_full")
    # The reference of the target is that of all its trials, as the access says.
    assert not np.array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])


@pytest.mark.parametrize("method", [*METHODS, "xdawn-ts-lr"])
def test_nothing_fitted_knows_the_tested_block(method: str) -> None:
    """Within a session, whose covariances are computed at once and kept."""
    erp: dict[str, Any] = {"paradigm": "erp", "filtered": (1.0, 40.0)}
    more = erp if method == "xdawn-ts-lr" else {}
    question: dict[str, Any] = {"protocol": "blocks", "protocol_options": {"folds": 3}}
    before, after = (
        done(signals({"1": ("a",)}, change=change, **more), method, 1, **question)
        for change in (same, replaced(np.arange(8 + PROBE, 16), "a"))
    )
    assert before.ids.tolist() == [f"1/a/{i}" for i in range(8, 16)]
    assert_trained_the_same(before, after)
    np.testing.assert_array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])


def test_the_training_trials_do_matter() -> None:
    """The other way round, or the tests above could not fail."""
    for method in METHODS:
        before, after = (
            done(signals(INDEX, change=change), method, 0)
            for change in (same, replaced(np.arange(20, 24), "a"))
        )
        assert not np.array_equal(before.probabilities, after.probabilities)


def test_other_subjects_are_trained_on_and_the_target_is_not() -> None:
    everybody = np.arange(24)
    question: dict[str, Any] = {"protocol": "leave-one-subject-out"}
    results = []
    for change in (same, replaced(everybody, "a")):
        specs, source = planned(signals(INDEX, change=change), "ts-lr", **question)
        results.append(execute(specs, source))
    (tested, trained), (tested_other, trained_other) = results
    assert tested.spec.subject == "1"
    assert tested.train == tested_other.train
    np.testing.assert_array_equal(tested.probabilities[24:], tested_other.probabilities[24:])
    assert not np.array_equal(trained.probabilities, trained_other.probabilities)
