"""Every protocol, on tables of trials of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.protocols import PROTOCOLS, Fold, check_fold, get_protocol
from spdtokens.evaluation.trials import TrialTable
from tests.evaluation.made import table, trials


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


@pytest.mark.parametrize("name", PROTOCOLS)
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


@given(st.integers(1, 4), st.integers(2, 3), st.booleans())
def test_70_15_15(per_part: int, classes: int, ungrouped: bool) -> None:
    n = 20 * per_part * classes
    t = table([("1", "a")], [n], y=(np.arange(n) % classes).tolist())
    (fold,) = folds("split-70-15-15", t, "1", ungrouped=ungrouped)
    sizes = [len(part) for part in (fold.train, fold.validation, fold.test)]
    assert sizes == [n * 14 // 20, n * 3 // 20, n * 3 // 20]
    for part in (fold.train, fold.validation, fold.test):  # classes evenly
        counts = np.bincount(t.y[part], minlength=classes)
        assert (counts == len(part) // classes).all()
    assert fold.leaky == ""  # no group has two trials


@given(st.integers(40, 400), st.integers(2, 4))
def test_70_15_15_of_any_size(n: int, classes: int) -> None:
    t = table([("1", "a")], [n], y=np.random.default_rng(n).integers(0, classes, n).tolist())
    (fold,) = folds("split-70-15-15", t, "1")
    assert abs(len(fold.train) - 0.7 * n) <= 2.5
    assert abs(len(fold.test) - 0.15 * n) <= 2


@settings(max_examples=20)
@given(tables(least=10))
def test_ungrouped_is_marked_leaky_exactly_if_a_group_is_split(t: TrialTable) -> None:
    (fold,) = folds("split-70-15-15", t, t.subject[0], ungrouped=True)
    groups = [set(t.group[rows].tolist()) for rows in fold.parts().values()]
    assert bool(fold.leaky) == (sum(map(len, groups)) > len(set.union(*groups)))
    if not len(np.setdiff1d(np.unique(t.y), t.y[fold.train])):
        check_fold(fold, trials(t))  # marked, so let through


def test_a_group_in_validation_and_test_only_is_a_leak_too() -> None:
    t = table([("1", "a")], [40])
    (plain,) = PROTOCOLS["split-70-15-15"].folds(t, "1", ungrouped=True)
    group = t.group.copy()
    group[plain.test[0]] = group[plain.validation[0]]
    (fold,) = PROTOCOLS["split-70-15-15"].folds(replace(t, group=group), "1", ungrouped=True)
    assert fold.leaky
    (honest,) = PROTOCOLS["split-70-15-15"].folds(table([("1", "a")], [40]), "1")
    assert not honest.leaky


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


def test_a_rare_class_is_no_warning() -> None:
    t = table([("1", "a")], [60], y=[0] * 55 + [1] * 5)
    for name in ("k-fold", "split-70-15-15"):
        for fold in PROTOCOLS[name].folds(t, "1", **({"folds": 10} if name == "k-fold" else {})):
            check_fold(fold, trials(t))


def test_stratified_as_scikit_learn_does_it() -> None:
    y = np.random.default_rng(0).integers(0, 3, 60)
    for group in (None, (np.arange(60) // 2).tolist()):
        t = table([("1", "a")], [60], y=y.tolist(), group=group)
        kind = StratifiedKFold if group is None else StratifiedGroupKFold
        splits = kind(5, shuffle=True, random_state=42).split(y, y, group)
        for fold, (train, test) in zip(PROTOCOLS["k-fold"].folds(t, "1"), splits, strict=True):
            np.testing.assert_array_equal(fold.train, train)
            np.testing.assert_array_equal(fold.test, test)


def test_splits_are_the_same_every_time() -> None:
    t = table([("1", "a"), ("2", "a")], [40, 40])
    for name in ("k-fold", "split-70-15-15"):
        one, again = PROTOCOLS[name].folds(t, "2"), PROTOCOLS[name].folds(t, "2")
        for a, b in zip(one, again, strict=True):
            np.testing.assert_array_equal(a.train, b.train)


ONE = table([("1", "a")], [12])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get_protocol("kfold"), "no protocol 'kfold'. Did you mean 'k-fold'?.*blocks"),
        (lambda: PROTOCOLS["k-fold"].folds(ONE, "1", k=3), "no option 'k'; it has folds"),
        (lambda: PROTOCOLS["session-split"].folds(ONE, "1", k=3), "it has none"),
        (lambda: PROTOCOLS["k-fold"].folds(ONE, "1", folds=1), "at least 2, not 1"),
        (lambda: PROTOCOLS["k-fold"].folds(ONE, "1", folds=True), "at least 2, not True"),
        (lambda: PROTOCOLS["split-70-15-15"].folds(ONE, "1", ungrouped=1), "true or false, not 1"),
        (lambda: PROTOCOLS["split-70-15-15"].folds(ONE, "1"), "has 12 trials .* few for 20 parts"),
        (lambda: PROTOCOLS["blocks"].folds(ONE, "1", folds=13), "too few for 13 parts"),
        (lambda: PROTOCOLS["session-transfer"].folds(ONE, "1"), r"1 session \(a\).*blocks"),
        (lambda: PROTOCOLS["session-split"].folds(ONE, "1"), "needs three"),
        (lambda: PROTOCOLS["leave-one-run-out"].folds(ONE, "1"), "one run only"),
        (lambda: PROTOCOLS["leave-one-subject-out"].folds(ONE, "1"), "1 is the only subject"),
    ],
)
def test_mistakes_are_told(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        call()
