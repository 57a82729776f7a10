"""Tables of trials, which of them depend on each other, and copies under other names."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spdtokens.datasets import Dataset, Recording, load_dataset
from spdtokens.errors import EvaluationError, LeakError
from spdtokens.evaluation.trials import (
    ORDER,
    Copies,
    Memory,
    Trials,
    _surprise,
    dependence,
    fingerprint,
)
from tests.evaluation.recordings import covariances, planned, signals, table

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
    """All as it is, but for one value of subject 1's first session."""

    def change(recording: Recording) -> Recording:
        if (recording.subject, recording.session) != ("1", "a"):
            return recording
        if what == "onset":
            return replace(recording, about={"onset": np.arange(24) * 500})
        new = np.array(getattr(recording, what))
        new[-1] = np.nextafter(new[-1], 9) if what == "X" else new[0]
        return replace(recording, **{what: new})

    return Trials(signals(change=change))


@pytest.mark.parametrize("what", ["X", "y", "run", "group", "onset"])
def test_hash_tells_of_any_change(what: str) -> None:
    before, after = Trials(signals()), changed(what)
    mine, others = before.table.of("1"), before.table.of("10")
    assert before.hash_of(mine) != after.hash_of(mine)
    assert before.hash_of(others) == after.hash_of(others)
    assert before.hash_of(mine[-1:]) == after.hash_of(mine[-1:])  # another session


def test_hash_knows_the_order_of_sessions_and_not_that_of_rows() -> None:
    one = Trials(signals({"1": ("a", "b", "c")}))
    other = Trials(signals({"1": ("b", "a", "c")}))
    everything = np.arange(len(one.table))
    assert one.hash_of(everything) != other.hash_of(everything)
    assert one.hash_of(everything) == one.hash_of(everything[::-1])


def test_a_subject_named_twice_is_refused() -> None:
    with pytest.raises(EvaluationError, match="made-up"):
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
    with pytest.raises(EvaluationError, match=r"subject 1, session a: 'onset'"):
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


LENGTH = 10


def partition(numbers: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(numbers == k).tolist()) for k in np.unique(numbers)}


@given(st.lists(st.integers(0, 60), min_size=1, max_size=9))
def test_stretches_are_the_most_trials_that_do_not_overlap(start: list[int]) -> None:
    made = table([("1", "a")], [len(start)], start=start, length=LENGTH)
    stretch, chain = dependence(made)
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


@pytest.mark.parametrize(
    ("recordings", "columns", "together"),
    [
        # Only trials of one run of one recording overlap.
        (
            [("1", "a"), ("1", "b"), ("2", "a")],
            {"start": [0, 5, 0, 5, 0, 5], "run": ["1", "1", "1", "2", "1", "1"]},
            [{0, 1}, {2}, {3}, {4, 5}],
        ),
        # A group covers the time from its first to its last trial.
        (
            [("1", "a")],
            {"start": [0, 20, 100, 120, 125, 200], "group": [0, 0, 1, 1, 2, 3]},
            [{0, 1}, {2, 3, 4}, {5}],
        ),
        # Without onsets, groups are all that is known.
        ([("1", "a"), ("1", "b")], {"group": [7, 7, 8, 9, 9, 9]}, [{0, 1}, {2}, {3, 4, 5}]),
    ],
    ids=["runs", "groups", "no onsets"],
)
def test_what_depends_on_each_other(recordings: Any, columns: Any, together: Any) -> None:
    for numbers in dependence(
        table(recordings, [6 // len(recordings)] * len(recordings), **columns)
    ):
        assert partition(numbers) == set(map(frozenset, together))


REAL = Path(__file__).parents[3] / "shared" / "data"


T = 200


CHANNELS = (1, 2, 3, 64)


def noise(rng: np.random.Generator, n: int, channels: int, kind: str, T: int = T) -> NDArray[Any]:
    """Noise of unit variance, of which the power falls with the frequency to the power of kind."""
    f = np.fft.rfftfreq(4 * T)
    f[0] = f[1]
    spectrum = np.fft.rfft(rng.standard_normal((n, channels, 4 * T)))
    X = np.fft.irfft(spectrum / f ** (float(kind) / 2))[..., :T]
    return X / X.std()


def rounded(X: NDArray[Any], size: float) -> NDArray[np.int16]:
    return np.rint(size * X).astype(np.int16)


def found(
    one: NDArray[Any], other: NDArray[Any], *, is_covariance: bool = False
) -> set[tuple[int, int]]:
    """Pairs of equal trials of two recordings, by their places."""
    n = len(one)
    t = table([("1", "a"), ("2", "b")], [n, len(other)])
    copies = Copies(t, [fingerprint(X, is_covariance) for X in (one, other)], is_covariance)
    pairs = copies.between(np.arange(n), np.arange(n, len(t)), len(t) ** 2)
    return {(i, j - n) for i, j in pairs}


@cache
def recorded(channels: int) -> NDArray[np.float64]:
    """One long recording (channels, samples)."""
    return noise(np.random.default_rng(channels), 1, channels, "1", 30 * T)[0]


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_trials_of_one_recording_are_found_at_any_shift_scale_and_offset(
    channels: int, dtype: type, data: st.DataObject
) -> None:
    whole = (
        rounded(recorded(channels), 20) if dtype is np.int16 else recorded(channels).astype(dtype)
    )
    least = data.draw(st.integers(60, T))  # samples in common
    shifts = data.draw(st.lists(st.integers(least - T, T - least), min_size=10, max_size=10))
    starts = 3 * T * np.arange(10) + T
    one, other = (
        np.stack([whole[:, start : start + T] for start in begun])
        for begun in (starts, starts + shifts)
    )
    scale, offset = data.draw(st.sampled_from([(1, 0), (-3.7, 0), (1e-6, 2.5), (2.0**20, 7)]))
    if scale != 1:  # else as it is: integers beside integers
        kind = np.float64 if dtype is np.float64 else np.float32
        other = (other.astype(kind) + kind(offset)) * kind(scale)
    assert found(one, other) == {(i, i) for i in range(10)}


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("kind", ["0", "1", "2", "4"])
@pytest.mark.parametrize("size", [1, 3, 30])
def test_chance_is_no_copy(channels: int, kind: str, size: float) -> None:
    rng = np.random.default_rng([channels, int(kind), size])
    X = noise(rng, 40, channels, kind)
    clipped = np.clip(X, -0.3, 0.3)
    gated = X * np.repeat(rng.random((40, 1, T // 20)) < 0.3, 20, 2)
    flat = X.copy()
    flat[:, 1:] = 0
    for made in (X, clipped, gated, flat):
        whole = rounded(made, size)
        assert found(whole[:20], whole[20:]) == set()


def test_what_can_be_foretold_proves_nothing() -> None:
    t, phase = np.arange(T), np.random.default_rng(0).random((40, 1, 1))
    sine = np.sin(2 * np.pi * (t / 5 + phase))
    alike = {
        "flat": np.zeros((40, 2, T)),
        "ramps": t * (0.5 + phase) * np.ones((1, 2, 1)),
        "decays": np.exp(-t / 30) * (0.5 + phase) * np.ones((1, 2, 1)),
        "sines": np.repeat(sine, 2, axis=1),
        "rounded sines": rounded(np.repeat(sine, 2, axis=1), 1),
        "square waves": np.repeat(np.sign(sine), 2, axis=1),
        "rails": 32767 * np.sign(noise(np.random.default_rng(1), 40, 2, "2")),
    }
    for X in alike.values():
        assert found(X[:20], X[20:]) == set()
    # Not even in a trial that has more to tell elsewhere.
    noisy = noise(np.random.default_rng(2), 40, 2, "1")
    noisy[..., 50:150] = np.sin(np.arange(100) / 3)
    assert found(noisy[:20], noisy[20:]) == set()
    noisy[25] = noisy[3]
    assert found(noisy[:20], noisy[20:]) == {(3, 5)}


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("kind", ["0", "1", "2", "4"])
def test_evidence_is_no_more_than_the_rarity_of_chance_matches(channels: int, kind: str) -> None:
    """Over all places of all pairs, b bits are reached by less than a share of 2^-b, times 2^6."""
    rng = np.random.default_rng([channels, int(kind)])
    n = 10
    for size, limit in ((1, 9), (3, 9), (3, 0.3), (15, 9)):
        part = fingerprint(
            rounded(np.clip(noise(rng, n, channels, kind), -limit, limit), size), False
        )
        x = part.traces.astype(np.float64)
        reached = []
        for (i, j), shift in product(combinations(range(n), 2), range(-T + 20, T - 20)):
            first, last = max(0, -shift), min(T - 1, T - 1 - shift)
            same = np.abs(x[i, first:last] - x[j, first + shift : last + shift]) < 1e-3
            edges = np.flatnonzero(np.diff(np.r_[False, same, False])) + first
            for start, stop in edges.reshape(-1, 2):
                pair = (
                    (x[i, start:stop], part.tolerance[i]),
                    (x[j, start + shift : stop + shift], part.tolerance[j]),
                )
                if stop - start > 2 * ORDER:
                    reached.append(min(_surprise(*one, part.values) for one in pair))
        every = np.array(reached)
        places = n * (n - 1) / 2 * (T - 1) ** 2
        for b in range(1, 60):
            seen = int((every >= b).sum())
            assert seen <= max(1, places * 2.0 ** (6 - b))


def test_numbers_that_are_none_and_short_trials() -> None:
    X = noise(np.random.default_rng(0), 4, 2, "1")
    X[1, 0, 7], X[2, 1, 9] = np.nan, np.inf
    assert found(X, X) >= {(0, 0), (3, 3)}
    for samples in (1, 2, 9, 12):
        found(X[..., :samples], X[..., :samples])


@pytest.mark.parametrize("d", [2, 3, 22])
def test_matrices(d: int) -> None:
    rng = np.random.default_rng(d)
    A = rng.standard_normal((400, d, 3 * d + 2))
    C = A @ A.swapaxes(1, 2)
    one, other = C[:200], C[200:].copy()
    assert found(one, other, is_covariance=True) == set()
    other[7], other[9] = 3.7e-6 * one[3], one[4]
    assert found(one, other, is_covariance=True) == {(3, 7), (4, 9)}
    if d > 2:
        in_float32 = (1e6 * one).astype(np.float32)
        assert found(one, in_float32, is_covariance=True) == {(i, i) for i in range(200)}


def test_matrices_of_one_channel_tell_nothing() -> None:
    assert found(np.ones((3, 1, 1)), np.ones((3, 1, 1)), is_covariance=True) == set()


def copied(dataset: Dataset, of: tuple[str, str], to: tuple[str, str], scale: float) -> Dataset:
    """The same signals under another name, as other numbers, with labels of their own."""

    def read(subject: str, session: str) -> Recording:
        if (subject, session) != to:
            return dataset.read(subject, session)
        mine = dataset.read(*of)
        return replace(mine, subject=subject, session=session, X=scale * mine.X[::-1], y=1 - mine.y)

    return replace(dataset, read=read)


@pytest.mark.parametrize("make", [signals, covariances])
@pytest.mark.parametrize("scale", [1, 3.7])
def test_copies_under_other_names_are_refused(make: Any, scale: float) -> None:
    index = {"1": ("a", "b", "c"), "2": ("a", "b", "c")}
    for to, question, names in [
        (("1", "c"), {"protocol": "session-transfer"}, "training and test"),
        (("1", "b"), {"protocol": "session-split"}, "training and validation"),
        (("2", "a"), {"protocol": "leave-one-subject-out"}, "training and test"),
    ]:
        dataset = copied(make(index), ("1", "a"), to, scale)
        with pytest.raises(LeakError, match=f"{names} ") as refused:
            planned(dataset, "mdm", **question)
        pairs = re.findall(r"(./.)/([0-9]+) and (./.)/([0-9]+)", str(refused.value))
        assert pairs
        for one, i, other, j in pairs:
            assert {one, other} == {"1/a", "/".join(to)}
            assert int(i) + int(j) == 23  # copied in the opposite order


def test_copies_within_a_part_are_let_through() -> None:
    dataset = copied(signals({"1": ("a", "b", "c")}), ("1", "a"), ("1", "b"), 2.0)
    specs, _ = planned(dataset, "mdm", protocol="session-transfer")
    assert len(specs) == 1


def test_a_trial_that_is_calibrated_with_and_scored() -> None:
    def repeated(recording: Recording) -> Recording:
        X = recording.X.copy()
        X[20] = 2 * X[1]
        return replace(recording, X=X)

    question = {"protocol": "session-transfer", "alignment": "recentre"}
    dataset = signals({"1": ("a", "b")}, change=repeated)
    planned(dataset, "mdm", **question, access="unlabeled_full")  # all are seen as it is
    with pytest.raises(LeakError, match=r"calibration and test .*: 1/b/1 and 1/b/20\."):
        planned(dataset, "mdm", **question, access="unlabeled_20p")


def test_trials_known_to_belong_together_are_left_to_their_groups_and_onsets() -> None:
    rng = np.random.default_rng(0)
    whole = noise(rng, 1, 4, "1", 24 * 60 + 120)[0]
    onset = 60 * np.arange(24)

    def cut(recording: Recording) -> Recording:
        return replace(recording, X=np.stack([whole[:, i : i + 120] for i in onset]))

    def told(recording: Recording) -> Recording:
        return replace(cut(recording), about={"onset": onset}, run=np.full(24, "1"))

    def grouped(recording: Recording) -> Recording:
        return replace(cut(recording), group=np.repeat([0, 1], 12))

    one = {"1": ("a",)}
    specs, _ = planned(signals(one, change=told), "mdm", protocol="blocks")
    assert len(specs) == 5
    for protocol in ("k-fold", "blocks"):
        with pytest.raises(LeakError, match=r"1/a/[0-9]+ and 1/a/[0-9]+"):
            planned(signals(one, change=cut), "mdm", protocol=protocol)
    with pytest.raises(LeakError, match=r"1/a/12 and 1/a/11\."):  # of two groups
        planned(
            signals(one, change=grouped),
            "mdm",
            protocol="blocks",
            protocol_options={"folds": 2},
        )


@pytest.mark.skipif(
    not REAL.is_dir(), reason="the real recordings are not beside this checkout (shared/data)"
)
def test_real_epochs_that_overlap_are_those_whose_onsets_say_so() -> None:
    dataset = load_dataset(REAL / "brain-invaders-p300")
    (recording,) = (dataset.load("01", "1"),)
    onset = recording.about["onset"]
    trials = Trials(replace(dataset, read=lambda *_: replace(recording, about={})))
    n = len(onset)
    even, odd = np.arange(0, n, 2), np.arange(1, n, 2)
    pairs = np.array(trials.copies.between(even, odd, n * n))
    overlap = 128 - np.abs(np.subtract.outer(onset, onset))
    assert (overlap[tuple(pairs.T)] > 0).all()
    missed = overlap[np.ix_(even, odd)]
    missed[pairs[:, 0] // 2, pairs[:, 1] // 2] = 0
    assert missed.max() < 40
