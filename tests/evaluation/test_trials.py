from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.datasets import Recording
from spdtokens.errors import EvaluationError
from spdtokens.evaluation.trials import Memory, Trials
from tests.evaluation.made import covariances, signals, table

DATASET = signals({"1": ("a", "b"), "10": ("a",), "2": ("b", "a")}, n=6)
TRIALS = Trials(DATASET)


def test_table_is_that_of_the_recordings() -> None:
    t = TRIALS.table
    assert len(t) == 30
    assert t.id[6] == "1/b/0"
    assert len(np.unique(t.id)) == 30
    np.testing.assert_array_equal(t.of("1"), np.arange(12))
    np.testing.assert_array_equal(t.of("10"), np.arange(12, 18))
    assert t.session[t.of("2")].tolist() == ["b"] * 6 + ["a"] * 6  # the order of time
    np.testing.assert_array_equal(t.group, np.arange(30))  # never shared between recordings
    np.testing.assert_array_equal(t.recording, np.repeat(np.arange(5), 6))
    assert (t.start == -1).all()
    assert (t.stop == -1).all()


@given(st.lists(st.integers(0, 29), min_size=1, max_size=40))
def test_rows_in_any_order(chosen: list[int]) -> None:
    rows = np.array(chosen)
    X = TRIALS.signals(rows)
    means = TRIALS.computed(rows, "mean", lambda X: X.mean(-1))
    for row, x, mean in zip(rows, X, means, strict=True):
        subject, session, number = TRIALS.table.id[row].split("/")
        expected = DATASET.load(subject, session).X[int(number)]
        np.testing.assert_array_equal(x, expected)
        np.testing.assert_array_equal(mean, expected.mean(-1))


def test_each_recording_is_computed_once() -> None:
    calls = []
    trials = Trials(DATASET)
    for rows in (np.array([0, 29, 3]), np.arange(30)):
        trials.computed(rows, "counted", lambda X: calls.append(len(X)) or X[:, 0])  # type: ignore[func-returns-value]
    assert calls == [6] * 5
    with pytest.raises(EvaluationError, match="no trials were asked for"):
        trials.signals(np.arange(0))


def test_memory_is_bounded_over_everything_that_shares_it() -> None:
    one = DATASET.load("1", "a").X.nbytes
    memory = Memory(limit=3 * one)
    trials = [Trials(DATASET, (subject,), memory) for subject in DATASET.subjects]
    for _ in range(2):
        for mine in trials:
            rows = np.arange(len(mine.table))
            whole = mine.computed(rows, "twice", lambda X: 2 * X)
            np.testing.assert_array_equal(whole, 2 * mine.signals(rows))
            assert memory.nbytes <= 3 * one
    tiny = Memory(limit=1)
    assert tiny.get("a", lambda: np.ones(3)).sum() == 3
    assert tiny.get("b", lambda: np.ones(4)).sum() == 4
    assert tiny.nbytes == 32  # the last one stays, the others go
    assert tiny.get("a", lambda: np.zeros(3)).sum() == 0


def test_two_data_sets_of_one_name_do_not_meet_in_memory() -> None:
    memory = Memory()
    loud = signals(change=lambda r: replace(r, X=9 * r.X))
    one, other = Trials(signals(), ("1",), memory), Trials(loud, ("1",), memory)
    rows = np.arange(4)
    np.testing.assert_array_equal(9 * one.signals(rows), other.signals(rows))


def changed(what: str) -> Trials:
    def change(recording: Recording) -> Recording:
        if (recording.subject, recording.session) != ("1", "a"):
            return recording
        new = np.array(getattr(recording, what)) if what != "onset" else np.arange(24) * 500
        if what == "onset":
            return replace(recording, about={"onset": new})
        if what == "run":
            new[-1] = "r3"
        elif what == "X":
            new[-1, -1, -1] = np.nextafter(new[-1, -1, -1], 9)
        elif what == "group":
            new[-1] = new[-2]
        else:
            new[-1] = 1 - new[-1]
        return replace(recording, **{what: new})

    return Trials(signals(change=change))


@pytest.mark.parametrize("what", ["X", "y", "run", "group", "onset"])
def test_hash_tells_of_any_change(what: str) -> None:
    before, after = Trials(signals()), changed(what)
    mine, others = before.table.of("1"), before.table.of("10")
    assert before.hash_of(mine) != after.hash_of(mine)
    assert before.hash_of(mine[:1]) != after.hash_of(mine[:1])
    assert before.hash_of(others) == after.hash_of(others)
    assert before.hash_of(mine[-1:]) == after.hash_of(mine[-1:])  # another session


def test_hash_knows_the_order_of_sessions_and_not_that_of_rows() -> None:
    one = Trials(signals({"1": ("a", "b", "c")}))
    other = Trials(signals({"1": ("b", "a", "c")}))
    everything = np.arange(len(one.table))
    assert one.hash_of(everything) != other.hash_of(everything)
    assert one.hash_of(everything) == one.hash_of(everything[::-1])


def test_names_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(EvaluationError, match="two trials have the same name"):
        Trials(signals(), ("1", "1"))


def test_onsets() -> None:
    onset = np.arange(24) * 60

    def told(recording: Recording) -> Recording:
        return replace(recording, about={"onset": onset})

    t = Trials(signals(change=told)).table
    np.testing.assert_array_equal(t.start[:24], onset)
    np.testing.assert_array_equal(t.stop[:24], onset + 120)
    # The length of a trial is not known from its covariance.
    assert (Trials(covariances(change=told)).table.start == -1).all()
    seconds = signals(change=lambda r: replace(r, about={"onset": onset / 100}))
    with pytest.raises(EvaluationError, match=r"subject 1, session a: 'onset' is the sample.*Mult"):
        Trials(seconds)


@given(st.data())
def test_overlapping_is_that_of_every_pair(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=2))
    n = sum(sizes)
    start = data.draw(st.lists(st.integers(-1, 40), min_size=n, max_size=n))
    t = table([("1", "a"), ("1", "b")], sizes, start=start, length=data.draw(st.integers(1, 12)))
    rows = data.draw(st.permutations(range(n)))
    cut = data.draw(st.integers(0, n))
    these, those = np.array(rows[:cut], dtype=int), np.array(rows[cut:], dtype=int)
    expected = [
        i
        for i in these
        if any(
            t.session[i] == t.session[j]
            and min(t.start[i], t.start[j]) >= 0
            and set(range(t.start[i], t.stop[i])) & set(range(t.start[j], t.stop[j]))
            for j in those
        )
    ]
    assert t.overlapping(these, those).tolist() == expected
