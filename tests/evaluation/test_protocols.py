"""Protocols and access: who is trained on and tested, and which folds are refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from moabb.evaluations.protocols import CrossSubjectMode

from spdtokens import evaluation
from spdtokens.datasets import Recording
from spdtokens.errors import EvaluationError, LeakError
from spdtokens.evaluation.protocols import (
    ACCESS,
    PROTOCOLS,
    Access,
    Fold,
    calibration_split,
    check_fold,
    get_access,
    get_protocol,
)
from spdtokens.evaluation.trials import TrialTable
from tests.evaluation.recordings import planned, signals, table, trials

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
        (3, "labeled_20p", 1),
        (4, "train", 0),
        (4, "unlabeled_full", 0),
        (4, "online", 0),
    ],
)
def test_the_first_in_time_calibrate(n: int, name: str, seen: int) -> None:
    order = np.random.default_rng(0).permutation(n)
    calibration, test = calibration_split(order, np.arange(n), name)
    assert order[calibration].tolist() == list(range(seen))
    assert order[test].tolist() == list(range(seen, n))


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
        with pytest.raises(EvaluationError, match=f"{name!r}"):
            calibration_split(order, groups, name)
        return
    calibration, test = calibration_split(order, groups, name)
    assert sorted([*calibration, *test]) == list(range(len(group)))
    assert not set(groups[calibration]) & set(groups[test])
    first = groups[order.argmin()]
    within_share = len(calibration) <= ACCESS[name].share * len(group)
    assert len(calibration)
    assert within_share or set(groups[calibration]) == {first}


EIGHT = trials(
    table([("1", "a"), ("1", "b")], [8, 8], group=[0, 0, 1, 1, 2, 2, 3, 3, *range(4, 12)])
)


def fold_of(train: list[int], test: list[int], **more: list[int]) -> Fold:
    parts = {name: np.array(rows) for name, rows in more.items()}
    return Fold("1", "f", np.array(train), np.array(test), **parts)


def test_an_honest_fold_passes() -> None:
    honest = fold_of([0, 1, 2, 3], [8, 9], validation=[4, 5], calibration=[6, 7])
    check_fold(honest, EIGHT)
    np.testing.assert_array_equal(honest.rows, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("leak", "message"),
    [
        (fold_of([0, 1, 8], [8, 9]), "training and test .* 1/b/0"),
        (fold_of([0, 1], [8, 9], validation=[9]), "validation and test .* 1/b/1"),
        (fold_of([0, 1], [8], validation=[1]), "training and validation .* 1/a/1"),
        (fold_of([0, 1], [8], calibration=[8]), "calibration and test .* 1/b/0"),
        (fold_of([0, 1, 2], [3]), "training and test .*groups.* 1/a/2"),
        (fold_of([0, 1], [3], validation=[2]), "validation and test .*groups.* 1/a/2"),
        (fold_of([0, 1], [3], calibration=[2]), "calibration and test .*groups.* 1/a/2"),
        (fold_of(list(range(8)), list(range(8))), r"1/a/0, 1/a/1, 1/a/2, 1/a/3, 1/a/4, \.\.\."),
    ],
)
def test_shared_trials_and_groups_are_refused(leak: Fold, message: str) -> None:
    with pytest.raises(LeakError, match=f"Subject 1, fold f: .*{message}"):
        check_fold(leak, EIGHT)


def test_marked_folds_may_share_groups_but_never_trials() -> None:
    check_fold(replace(fold_of([0, 1, 2], [3]), leaky="said so"), EIGHT)
    with pytest.raises(LeakError, match="1/a/2"):
        check_fold(replace(fold_of([0, 1, 2], [2]), leaky="said so"), EIGHT)


@pytest.mark.parametrize("part", ["train", "validation", "calibration"])
def test_shared_samples_are_refused(part: str) -> None:
    start = [*range(0, 80, 10), *range(0, 80, 10)]
    apart, close = (
        trials(table([("1", "a"), ("1", "b")], [8, 8], start=start, length=length))
        for length in (10, 11)
    )
    leak = fold_of(test=[5, 6], **({"train": [0, 1]} | {part: [4, 3]}))
    check_fold(leak, apart)
    with pytest.raises(LeakError, match=rf"{part}\w* and test .* in time: 1/a/4\. "):
        check_fold(leak, close)
    # The same samples of another recording are others.
    check_fold(fold_of([4, 3], [13, 14]), close)


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


@pytest.mark.parametrize(
    ("train", "test", "culprit"),
    [([], [1], "train"), ([1], [], "test"), ([0, 2], [8, 9], "class b")],
)
def test_what_cannot_be_trained_on(train: list[int], test: list[int], culprit: str) -> None:
    with pytest.raises(EvaluationError, match=culprit):
        check_fold(fold_of(train, test), EIGHT)
    check_fold(fold_of([0, 1], [8, 10]), EIGHT)  # a test without a class is a test


@st.composite
def tables(draw: st.DrawFn, least: int = 6) -> TrialTable:
    """Subjects of like names, with sessions of equal names, runs, and groups side by side."""
    names = draw(st.sampled_from([["1", "10"], ["1", "10", "11"], ["a/b", "a"]]))
    recordings = [
        (subject, session)
        for subject in names
        for session in ("0", "1", "2", "10")[: draw(st.integers(1, 4))]
    ]
    sizes = [draw(st.integers(least, least + 8)) for _ in recordings]
    n = sum(sizes)
    group, last = [], -1
    run: list[str] = []
    for size in sizes:
        for i in range(size):
            last += int(i == 0 or draw(st.integers(0, 2)) > 0)
            group.append(last)
        cut = draw(st.integers(0, size))
        run += ["x"] * cut + ["y"] * (size - cut)
    classes = draw(st.integers(2, 3))
    y = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    return table(recordings, sizes, y=y, group=group, run=run)


def folds(name: str, t: TrialTable, subject: str, **options: int | bool) -> list[Fold]:
    try:
        return get_protocol(name).folds(t, subject, **options)
    except EvaluationError:
        assume(False)
        raise


TESTED_ONCE = {
    "leave-one-session-out",
    "leave-one-run-out",
    "blocks",
    "k-fold",
    "leave-one-subject-out",
    "leave-one-subject-out-calibrated",
}


@pytest.mark.parametrize("name", [p.name for p in PROTOCOLS.values() if not p.pooled])
@settings(max_examples=20)
@given(data=st.data())
def test_what_every_protocol_promises(name: str, data: st.DataObject) -> None:
    t = data.draw(tables(least=14 if name == "split-70-15-15" else 6))
    subject = data.draw(st.sampled_from(sorted(set(t.subject.tolist()))))
    found = folds(name, t, subject)
    own = set(t.of(subject).tolist())
    assert len({fold.name for fold in found}) == len(found)
    for fold in found:
        parts = fold.parts()
        assert fold.subject == subject
        assert set(fold.test.tolist()) <= own  # never somebody else
        assert not len(fold.calibration)
        assert len(np.unique(fold.rows)) == len(fold.rows)  # disjoint
        for rows in (fold.test, fold.validation):
            assert (np.diff(rows) > 0).all()  # in the order of time, which online access needs
        if name.startswith("paper-"):  # may separate a group, and is marked as leaky then
            continue
        if name != "leave-one-run-out":  # a group that spans runs is refused by check_fold
            groups = [set(t.group[rows].tolist()) for rows in parts.values()]
            assert sum(map(len, groups)) == len(set.union(*groups))
        assert fold.leaky == ""
        if not PROTOCOLS[name].sees_others:
            assert set(fold.rows.tolist()) <= own
    tested = np.concatenate([fold.test for fold in found])
    assert len(np.unique(tested)) == len(tested)
    if name in TESTED_ONCE:
        assert set(tested.tolist()) == own


@settings(max_examples=20)
@given(tables())
def test_sessions(t: TrialTable) -> None:
    subject = "1" if "1" in t.subject else "a"
    rows = t.of(subject)
    names = list(dict.fromkeys(t.session[rows].tolist()))
    transfer = folds("session-transfer", t, subject)
    assert [set(t.session[f.test]) for f in transfer] == [{names[-1]}]
    assert set(t.session[transfer[0].train]) == set(names[:-1])
    np.testing.assert_array_equal(np.sort(transfer[0].rows), rows)
    for fold in folds("leave-one-session-out", t, subject):
        assert set(t.session[fold.test]) == {fold.name}
        np.testing.assert_array_equal(np.sort(fold.rows), rows)
    (split,) = folds("session-split", t, subject)
    assert set(t.session[split.train]) == set(names[:-2])
    assert set(t.session[split.validation]) == {names[-2]}
    assert set(t.session[split.test]) == {names[-1]}
    np.testing.assert_array_equal(np.sort(split.rows), rows)


@given(tables())
def test_runs_of_equal_name_in_two_sessions_are_two(t: TrialTable) -> None:
    subject = t.subject[0]
    found = folds("leave-one-run-out", t, subject)
    rows = t.of(subject)
    assert len(found) == len(set(zip(t.session[rows], t.run[rows], strict=True)))
    for fold in found:
        assert len(set(zip(t.session[fold.test], t.run[fold.test], strict=True))) == 1
        np.testing.assert_array_equal(np.sort(fold.rows), rows)


@settings(max_examples=20)
@given(tables(), st.integers(2, 6))
def test_blocks_are_contiguous_and_in_order(t: TrialTable, k: int) -> None:
    found = folds("blocks", t, "1" if "1" in t.subject else "a", folds=k)
    assert len(found) == k
    tested = np.concatenate([fold.test for fold in found])
    assert (np.diff(tested) == 1).all()


@given(st.data())
def test_blocks_keep_away_from_what_overlaps(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(3, 15), min_size=20, max_size=20))
    t = table([("1", "a"), ("1", "b")], [10, 10], start=np.cumsum(gaps).tolist())
    for fold in folds("blocks", t, "1", folds=4):
        check_fold(fold, trials(t))
        left_out = np.setdiff1d(t.of("1"), fold.rows)
        assert len(t.overlapping(left_out, fold.test)) == len(left_out)  # and from nothing else


@given(st.integers(1, 4), st.integers(2, 3))
def test_70_15_15(per_part: int, classes: int) -> None:
    n = 20 * per_part * classes
    t = table([("1", "a")], [n], y=(np.arange(n) % classes).tolist())
    (fold,) = folds("split-70-15-15", t, "1")
    sizes = [len(part) for part in (fold.train, fold.validation, fold.test)]
    assert sizes == [n * 14 // 20, n * 3 // 20, n * 3 // 20]
    for part in (fold.train, fold.validation, fold.test):  # classes evenly
        counts = np.bincount(t.y[part], minlength=classes)
        assert (counts == len(part) // classes).all()
    assert fold.leaky == ""  # no group has two trials


@settings(max_examples=20)
@given(tables(least=10))
def test_the_papers_split_is_marked_leaky_exactly_if_a_group_is_split(t: TrialTable) -> None:
    (fold,) = folds("paper-shuffled", t, t.subject[0])
    groups = [set(t.group[rows].tolist()) for rows in fold.parts().values()]
    assert bool(fold.leaky) == (sum(map(len, groups)) > len(set.union(*groups)))
    if not len(np.setdiff1d(np.unique(t.y), t.y[fold.train])):
        check_fold(fold, trials(t))  # marked, so let through


@pytest.mark.parametrize(
    ("protocol", "trials_of", "sizes"),
    [
        ("paper-sessions", [288, 288], (252, 36, 288)),  # BCI2a
        ("paper-shuffled", [60, 60, 60, 60, 100], (237, 51, 52)),  # BCIcha
        ("paper-shuffled", [100] * 5, (350, 75, 75)),  # MAMEM
    ],
)
def test_the_papers_sizes(protocol: str, trials_of: list[int], sizes: tuple[int, int, int]) -> None:
    t = table([("1", str(i)) for i in range(len(trials_of))], trials_of)
    (fold,) = folds(protocol, t, "1")
    assert (len(fold.train), len(fold.validation), len(fold.test)) == sizes
    if protocol == "paper-sessions":
        assert set(t.session[fold.test]) == {"1"}


@given(tables())
def test_others(t: TrialTable) -> None:
    subject = t.subject[0]
    rows, everything = t.of(subject), np.arange(len(t))
    (alone,) = folds("leave-one-subject-out", t, subject)
    np.testing.assert_array_equal(alone.test, rows)
    np.testing.assert_array_equal(alone.train, np.setdiff1d(everything, rows))
    for fold in folds("leave-one-subject-out-calibrated", t, subject):
        np.testing.assert_array_equal(np.sort(fold.rows), everything)
        own = fold.train[t.subject[fold.train] == subject]
        assert fold.name not in t.session[own]
        assert set(t.session[fold.test]) == {fold.name}


@st.composite
def people(draw: st.DrawFn, least: int = 2) -> TrialTable:
    """Recordings of subjects in any order, of one or two sessions with equal names."""
    numbers = draw(st.lists(st.integers(0, 200), min_size=least, max_size=12, unique=True))
    recordings = [
        (f"{number:03d}", session)
        for number in numbers
        for session in ("a", "b")[: draw(st.integers(1, 2))]
    ]
    return table(recordings, [draw(st.integers(1, 4)) for _ in recordings])


def who(t: TrialTable, rows: np.ndarray) -> set[str]:
    return set(t.subject[rows].tolist())


@given(t=people(), data=st.data())
def test_groups_of_subjects(t: TrialTable, data: st.DataObject) -> None:
    everybody = who(t, np.arange(len(t)))
    k = data.draw(st.integers(2, len(everybody)))
    found = PROTOCOLS["subjects-k-fold"].folds(t, "", folds=k)
    assert len({(fold.subject, fold.name) for fold in found}) == len(found) == k
    sizes = [len(who(t, fold.test)) for fold in found]
    assert max(sizes) - min(sizes) <= 1
    tested = np.concatenate([fold.test for fold in found])
    np.testing.assert_array_equal(np.sort(tested), np.arange(len(t)))  # each trial once
    for fold in found:
        assert not who(t, fold.train) & who(t, fold.test)
        assert who(t, fold.rows) == everybody
        assert (np.diff(fold.test) > 0).all()
    turned = np.argsort(t.subject, kind="stable")[::-1]
    other = replace(t, subject=t.subject[turned])
    again = PROTOCOLS["subjects-k-fold"].folds(other, "", folds=k)
    assert [who(t, fold.test) for fold in found] == [who(other, fold.test) for fold in again]


def test_groups_are_shuffled_once_for_all() -> None:
    t = table([(f"{i:02d}", "a") for i in range(1, 16)], [2] * 15)
    order = np.random.default_rng(42).permutation([f"{i:02d}" for i in range(1, 16)])
    groups = [who(t, fold.test) for fold in PROTOCOLS["subjects-k-fold"].folds(t, "")]
    assert groups == [set(part.tolist()) for part in np.split(order, 5)]


@given(t=people(), data=st.data())
def test_named_subjects_are_tested_by_one_fold(t: TrialTable, data: st.DataObject) -> None:
    everybody = sorted(who(t, np.arange(len(t))))
    names = data.draw(
        st.lists(st.sampled_from(everybody), min_size=1, max_size=len(everybody) - 1, unique=True)
    )
    (fold,) = PROTOCOLS["between-subjects"].folds(t, "", test_subjects=names)
    assert who(t, fold.test) == set(names)
    assert who(t, fold.train) == set(everybody) - set(names)
    np.testing.assert_array_equal(np.sort(fold.rows), np.arange(len(t)))
    for name in names[:1]:
        (alone,) = PROTOCOLS["between-subjects"].folds(t, "", test_subjects=name)
        (left_out,) = PROTOCOLS["leave-one-subject-out"].folds(t, name)
        for part, rows in alone.parts().items():
            np.testing.assert_array_equal(rows, getattr(left_out, part))


def test_copies_of_a_tested_subject_are_found() -> None:
    """Subject 3 is subject 1 under another name."""

    def copied(recording: Recording) -> Recording:
        if recording.subject != "3":
            return recording
        return replace(recording, X=-2 * signals().load("1", "a").X)

    dataset = signals({"1": ("a",), "2": ("a",), "3": ("a",)}, change=copied)
    for question in (
        {"protocol": "between-subjects", "protocol_options": {"test_subjects": [2, 3]}},
        {"protocol": "subjects-k-fold", "protocol_options": {"folds": 3}},
    ):
        with pytest.raises(LeakError, match=r"1/a/0 and 3/a/0|3/a/0 and 1/a/0"):
            planned(dataset, "mdm", **question)
    planned(
        dataset, "mdm", protocol="between-subjects", protocol_options={"test_subjects": [1, 3]}
    )  # both are tested


def test_a_rare_class_is_no_warning() -> None:
    t = table([("1", "a")], [60], y=[0] * 55 + [1] * 5)
    for name in ("k-fold", "split-70-15-15"):
        for fold in PROTOCOLS[name].folds(t, "1", **({"folds": 10} if name == "k-fold" else {})):
            check_fold(fold, trials(t))


ONE = table([("1", "a")], [12])
TWO = table([("1", "a"), ("x/y", "a")], [4, 4])
BETWEEN = PROTOCOLS["between-subjects"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get_protocol("kfold"), "'kfold'.*'k-fold'?.*blocks"),
        (lambda: PROTOCOLS["k-fold"].folds(ONE, "1", k=3), "k-fold 'k'.*folds"),
        (lambda: PROTOCOLS["session-split"].folds(ONE, "1", k=3), "session-split 'k'.*none"),
        (lambda: PROTOCOLS["k-fold"].folds(ONE, "1", folds=1), "folds.*got 1"),
        (lambda: PROTOCOLS["split-70-15-15"].folds(ONE, "1"), "Subject 1.* 20 trials.*got 12"),
        (lambda: PROTOCOLS["blocks"].folds(ONE, "1", folds=13), "Subject 1.* 13 trials.*got 12"),
        (lambda: PROTOCOLS["session-transfer"].folds(ONE, "1"), "Subject 1.* 2 sessions.*got 1"),
        (lambda: PROTOCOLS["leave-one-run-out"].folds(ONE, "1"), "Subject 1.* 2 runs.*got 1"),
        (lambda: PROTOCOLS["leave-one-subject-out"].folds(ONE, "1"), "2 subjects.*got 1"),
        (lambda: PROTOCOLS["subjects-k-fold"].folds(TWO, "", folds=3), "2 subjects and 3 folds"),
        (lambda: BETWEEN.folds(TWO, ""), "needs test_subjects.*--test-subjects"),
        (lambda: BETWEEN.folds(TWO, "", test_subjects=[]), "needs test_subjects"),
        (lambda: BETWEEN.folds(TWO, "", test_subjects=["7", "1", "8"]), "7, 8 .*1, x/y"),
        (lambda: BETWEEN.folds(TWO, "", test_subjects=["1", "x/y"]), "all 2"),
        (lambda: BETWEEN.folds(TWO, "", test_subjects=["x/y"]), "slashes, got x/y"),
        (lambda: BETWEEN.folds(TWO, "", test_subjects=[True]), r"numbers of .*got \[True\]"),
        (lambda: BETWEEN.folds(TWO, "", test_subjects={"1": 2}), "numbers of .*got {'1': 2}"),
        (lambda: calibration_split([0, 1, 2], [0, 1], "train"), r"\(3,\) and \(2,\)"),
        (lambda: get_access("some"), "'some'.*train, unlabeled_20p.*online"),
    ],
)
def test_mistakes_are_told(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        call()


def test_the_tables_wait_for_no_heavy_package() -> None:
    """`spdtokens protocols` answers at once."""
    code = """
import sys
from rich.console import Console
import spdtokens.evaluation
from spdtokens.evaluation.protocols import access_table, protocols_table
Console(width=200).print(protocols_table(), access_table())
heavy = {"torch", "sklearn", "scipy", "mne", "pandas", "pyriemann"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.stderr
    for name in (*PROTOCOLS, *ACCESS):
        assert name in done.stdout
    assert not hasattr(evaluation, "nothing")
