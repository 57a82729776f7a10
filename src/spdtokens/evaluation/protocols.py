"""Protocols as data: each says who is trained on, who chooses, who is tested.

Adding one is a function from the table of trials and a subject to folds, and a line in
``PROTOCOLS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens import _tables
from spdtokens._tables import counted
from spdtokens.errors import EvaluationError, LeakError

# `spdtokens protocols` prints tables of this module: it waits neither for torch, MNE nor SciPy.
if TYPE_CHECKING:
    from rich.table import Table

    from spdtokens.evaluation.trials import Trials, TrialTable

Index = NDArray[np.int64]
T = TypeVar("T")


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The entry of a name; else an error with the nearest name and all of them."""
    if name in known:
        return known[name]
    names = f"Choose one of: {', '.join(known)}." if known else "There are none."
    raise EvaluationError(f"Unknown {kind} {name!r}.{nearest(name, known)} {names}")


def nearest(name: object, names: Iterable[str]) -> str:
    """A question, if one of the names is near; else nothing."""
    near = get_close_matches(str(name), list(names), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


# What may be seen of the target: the subject or session that is scored.
#
# The names are those of MOABB's ``CrossSubjectMode`` without the prefix ``train_and_target_``;
# ``online`` is ours.


@dataclass(frozen=True)
class Access:
    """What may be seen of the target beyond its trials among the training trials.

    Attributes
    ----------
    name : str
    share : float
        Part of the target's trials that is seen: 0 none, 1 all of them, scored ones included; in
        between the first in time, which are then not scored.
    labelled : bool
        Whether the labels of the part seen are seen too.
    online : bool
        Whether each scored trial may be compared with the scored trials before it.
    description : str
    """

    name: str
    share: float
    labelled: bool
    online: bool
    description: str

    @property
    def calibrates(self) -> bool:
        """Whether some of the target's trials are seen and not scored."""
        return 0 < self.share < 1

    @property
    def transductive(self) -> bool:
        """Whether the scored trials themselves are seen, all of them at once."""
        return self.share == 1


ACCESS = {
    access.name: access
    for access in (
        Access("train", 0.0, False, False, "nothing of the target"),
        Access("unlabeled_20p", 0.2, False, False, "the first 20 % of its trials, no labels"),
        Access("unlabeled_50p", 0.5, False, False, "the first 50 % of its trials, no labels"),
        Access("unlabeled_full", 1.0, False, False, "all scored trials at once, no labels"),
        Access("labeled_20p", 0.2, True, False, "the first 20 % of its trials, with labels"),
        Access("labeled_50p", 0.5, True, False, "the first 50 % of its trials, with labels"),
        Access("online", 0.0, False, True, "the scored trials before each, no labels"),
    )
}


def get_access(name: str | Access) -> Access:
    """Look up an access by its name; an :class:`Access` of your own passes through."""
    return name if isinstance(name, Access) else look_up("access", name, ACCESS)


def calibration_split(
    order: ArrayLike, group: ArrayLike, access: str | Access
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split the target's trials into those seen first and those scored.

    Where the access is to a share, the trials of that share, the first in time, are for
    calibration and not scored. A group, such as the segments of one trial, is never split: it is
    for calibration if all of it lies within the share, else it is scored, so that no more than the
    share is seen. Only if no group lies within the share, the one of the first trial is for
    calibration (MOABB, too, sees one trial at least). For any other access all trials are scored.

    Parameters
    ----------
    order : array_like, shape (n,)
        Place of each trial in time.
    group : array_like, shape (n,)
        What must stay together; number the trials if nothing must.
    access : str or Access

    Returns
    -------
    calibration_index, test_index : ndarray, shape (n_calibration,), (n_test,)
        In the order of time.

    Raises
    ------
    EvaluationError
        If no trial is left to score.
    """
    access = get_access(access)
    order, group = np.asarray(order), np.asarray(group)
    if order.ndim != 1 or order.shape != group.shape or not len(order):
        raise EvaluationError(
            "order and group must have one entry for each of the target's trials, one or more; "
            f"got shapes {order.shape} and {group.shape}."
        )
    in_time = np.argsort(order, kind="stable")
    if not access.calibrates:
        return in_time[:0], in_time
    n_seen = int(access.share * len(in_time))
    scored = np.isin(group[in_time], group[in_time[n_seen:]])
    if scored.all():
        scored = group[in_time] != group[in_time[0]]
    if not scored.any():
        raise EvaluationError(
            f"Access {access.name} leaves no trial of the target to score: all of its trials, "
            f"{len(in_time)}, are of group {group[in_time[0]]!s}, and groups are not split. Use an "
            "access without calibration (train, unlabeled_full, online) or smaller groups."
        )
    return in_time[~scored], in_time[scored]


# Who is trained on, who chooses, who is tested; and the refusal of leaks.

#: Trials, or pairs of them, that an error names.
NAMED = 5


@dataclass(frozen=True)
class Fold:
    """One split of trials, as rows of a :class:`TrialTable`.

    Attributes
    ----------
    subject : str
        Who is tested.
    name : str
        Such as ``'2E'`` or ``'block 3'``; unique among a subject's folds.
    train, test : ndarray of int
    validation : ndarray of int
        To choose an epoch by; empty where the protocol has none.
    calibration : ndarray of int
        Trials of the target that may be seen, and are not scored: see ``access``.
    leaky : str
        Why scores of this fold flatter; empty for an honest one.
    """

    subject: str
    name: str
    train: Index
    test: Index
    validation: Index = field(default_factory=lambda: np.arange(0))
    calibration: Index = field(default_factory=lambda: np.arange(0))
    leaky: str = ""

    def parts(self) -> dict[str, Index]:
        """All parts by name."""
        names = ("train", "validation", "calibration", "test")
        return {name: getattr(self, name) for name in names}

    @property
    def rows(self) -> Index:
        """Rows of all parts."""
        return np.concatenate(list(self.parts().values()))


def check_fold(fold: Fold, trials: Trials) -> None:
    """Refuse a fold that leaks or cannot be trained on.

    Raises
    ------
    LeakError
        If two parts share a trial, a group, or samples of a recording; these are found by onset,
        and by content whatever trials are called. Groups and onsets are let through in a fold that
        is marked leaky, shared trials and copies never.
    EvaluationError
        If training or test is empty, or a class is missing from training.
    """
    table, classes = trials.table, trials.dataset.classes
    where = f"Subject {fold.subject}, fold {fold.name.removeprefix('fold ')}"
    parts = {name: rows for name, rows in fold.parts().items() if len(rows)}
    for name in ("train", "test"):
        if name not in parts:
            raise EvaluationError(f"{where}: there are no trials to {name} on.")
    for (one, these), (other, those) in combinations(parts.items(), 2):
        both = f"{where}: {one} and {other}"
        _refuse(f"{both} share trials", table.id[np.intersect1d(these, those)].tolist())
        if not fold.leaky:
            shared = these[np.isin(table.group[these], table.group[those])]
            _refuse(f"{both} share groups of trials", table.id[shared].tolist())
            overlapping = table.id[table.overlapping(these, those)].tolist()
            remedy = " Use protocol blocks, which leaves overlapping trials out of training."
            _refuse(f"{both} trials overlap in time", overlapping, remedy)
        copies = trials.copies.between(these, those, NAMED + 1)
        _refuse(
            f"{both} trials have equal content",
            [f"{table.id[i]} and {table.id[j]}" for i, j in copies],
            " Leave one of each pair out. Overlapping epochs of one recording need their first "
            "sample in it as 'onset', and protocol blocks.",
        )
    missing = sorted(set(range(len(classes))) - set(table.y[fold.train].tolist()))
    if missing:
        raise EvaluationError(
            f"{where}: there is no trial of {', '.join(classes[i] for i in missing)} to train on. "
            "Choose another protocol, or leave the class out."
        )


def _refuse(what: str, culprits: Sequence[str], remedy: str = "") -> None:
    if culprits:
        more = ", ..." if len(culprits) > NAMED else ""
        raise LeakError(f"{what}: {', '.join(culprits[:NAMED])}{more}.{remedy}")


Folds = Callable[..., list[Fold]]
#: Of shuffled splits; fixed, so that every method and seed of training meets the same split.
SPLIT_SEED = 42
#: Of 20 parts, 3 and 3; far apart, as rare classes and what is left by rounding are in neighbours.
VALIDATES, TESTS = (3, 10, 16), (6, 13, 19)


@dataclass(frozen=True)
class Protocol:
    """How trials are split.

    Attributes
    ----------
    name : str
    train, test : str
        Who is trained on and who is tested, in words.
    make : callable
        From a :class:`TrialTable`, a subject and the options to folds.
    options : mapping of str to int or bool
        What can be set, with the defaults.
    sees_others : bool
        Whether other subjects are trained on.
    """

    name: str
    train: str
    test: str
    make: Folds
    options: Mapping[str, int | bool] = field(default_factory=dict)
    sees_others: bool = False

    def folds(self, table: TrialTable, subject: str, **options: int | bool) -> list[Fold]:
        """Folds of a subject.

        Raises
        ------
        EvaluationError
            For an option the protocol does not have, or a subject it cannot be applied to.
        """
        return self.make(table, subject, **self.checked(options))

    def checked(self, options: Mapping[str, int | bool]) -> dict[str, int | bool]:
        """All options, the given ones in the place of defaults."""
        for name, value in options.items():
            kind = type(look_up(f"option of protocol {self.name}", name, self.options))
            if type(value) is not kind or (kind is int and value < 2):
                wanted = "true or false" if kind is bool else "a whole number >= 2"
                raise EvaluationError(
                    f"Protocol {self.name}: {name} must be {wanted}, got {value!r}."
                )
        return {**self.options, **options}


def get_protocol(name: str) -> Protocol:
    """A protocol by name.

    Raises
    ------
    EvaluationError
        With the nearest name, and all of them.
    """
    return look_up("protocol", name, PROTOCOLS)


def _sessions(table: TrialTable, subject: str, least: int = 2) -> dict[str, Index]:
    """Trials of a subject's sessions, in order of time."""
    rows = table.of(subject)
    names = dict.fromkeys(table.session[rows].tolist())
    sessions = {name: rows[table.session[rows] == name] for name in names}
    if len(sessions) < least:
        raise EvaluationError(
            f"Subject {subject} has {counted(len(sessions), 'session')} ({', '.join(sessions)}), "
            f"and the protocol needs {least} or more. Choose leave-one-run-out, blocks or k-fold, "
            "or leave the subject out."
        )
    return sessions


def _session_transfer(table: TrialTable, subject: str) -> list[Fold]:
    *earlier, (name, test) = _sessions(table, subject).items()
    return [Fold(subject, name, np.concatenate([rows for _, rows in earlier]), test)]


def _session_split(table: TrialTable, subject: str) -> list[Fold]:
    *train, (_, validation), (name, test) = _sessions(table, subject, 3).items()
    return [Fold(subject, name, np.concatenate([rows for _, rows in train]), test, validation)]


def _leave_one_session_out(table: TrialTable, subject: str) -> list[Fold]:
    rows = table.of(subject)
    return [
        Fold(subject, name, rows[table.session[rows] != name], test)
        for name, test in _sessions(table, subject).items()
    ]


def _leave_one_run_out(table: TrialTable, subject: str) -> list[Fold]:
    rows = table.of(subject)
    pairs = list(zip(table.session[rows].tolist(), table.run[rows].tolist(), strict=True))
    runs = list(dict.fromkeys(pairs))
    if len(runs) < 2:
        raise EvaluationError(
            f"Subject {subject} has one run only, and leave-one-run-out trains on the others. "
            "Choose blocks or k-fold."
        )
    several = len({session for session, _ in runs}) > 1
    folds = []
    for session, run in runs:
        mine = np.array([pair == (session, run) for pair in pairs])
        name = f"session {session}, run {run}" if several else f"run {run}"
        folds.append(Fold(subject, name, rows[~mine], rows[mine]))
    return folds


def _blocks(table: TrialTable, subject: str, folds: int) -> list[Fold]:
    """Contiguous in time; groups stay whole; trials that overlap the test are not trained on."""
    rows = table.of(subject)
    groups = list(dict.fromkeys(table.group[rows].tolist()))
    _enough(len(groups), folds, subject)
    result = []
    for number, block in enumerate(np.array_split(np.array(groups), folds), 1):
        mine = np.isin(table.group[rows], block)
        train, test = rows[~mine], rows[mine]
        train = np.setdiff1d(train, table.overlapping(train, test))
        result.append(Fold(subject, f"block {number}", train, test))
    return result


def _k_fold(table: TrialTable, subject: str, folds: int) -> list[Fold]:
    rows = table.of(subject)
    parts = _stratified(table, subject, folds)
    return [
        Fold(subject, f"fold {number + 1}", rows[parts != number], rows[parts == number])
        for number in range(folds)
    ]


def _split_70_15_15(table: TrialTable, subject: str, ungrouped: bool) -> list[Fold]:
    """The paper's: 14 of 20 parts train, 3 validate, 3 test."""
    rows = table.of(subject)
    parts = _stratified(table, subject, 20, ungrouped=ungrouped)
    held = [np.isin(parts, numbers) for numbers in (VALIDATES, TESTS)]
    validation, test, train = rows[held[0]], rows[held[1]], rows[~(held[0] | held[1])]
    groups = [np.unique(table.group[part]) for part in (train, validation, test)]
    split = len(np.unique(np.concatenate(groups))) < sum(map(len, groups))
    leaky = "segments of one trial are in more than one part of the split" if split else ""
    return [Fold(subject, "70-15-15", train, test, validation, leaky=leaky)]


def _leave_one_subject_out(table: TrialTable, subject: str) -> list[Fold]:
    rows = table.of(subject)
    others = np.setdiff1d(np.arange(len(table)), rows)
    if not len(others):
        raise EvaluationError(
            f"{subject} is the only subject, and leave-one-subject-out trains on the others."
        )
    return [Fold(subject, "all sessions", others, rows)]


def _leave_one_subject_out_calibrated(table: TrialTable, subject: str) -> list[Fold]:
    others = _leave_one_subject_out(table, subject)[0].train
    own = _leave_one_session_out(table, subject)
    return [replace(fold, train=np.concatenate([others, fold.train])) for fold in own]


def _enough(n: int, folds: int, subject: str) -> None:
    if n < folds:
        raise EvaluationError(
            f"Subject {subject} has {counted(n, 'trial')} (or groups of trials), too few for "
            f"{folds} parts."
        )


def _stratified(
    table: TrialTable, subject: str, folds: int, *, ungrouped: bool = False
) -> NDArray[np.int64]:
    """A part (n,) for every trial; classes spread evenly, groups whole unless asked otherwise."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    rows = table.of(subject)
    groups = np.arange(len(rows)) if ungrouped else table.group[rows]
    n_groups = len(np.unique(groups))
    _enough(n_groups, folds, subject)
    # Without groups the same, but a thousand times faster and more even.
    alone = n_groups == len(rows)
    kind = StratifiedKFold if alone else StratifiedGroupKFold
    splitter = kind(folds, shuffle=True, random_state=SPLIT_SEED)
    parts = np.empty(len(rows), dtype=np.int64)
    try:
        with warnings.catch_warnings():
            # A rare class cannot be in every part; one that is missing from training is refused.
            warnings.filterwarnings("ignore", "The least populated class")
            split = splitter.split(rows, table.y[rows], None if alone else groups)
            for number, (_, test) in enumerate(split):
                parts[test] = number
    except ValueError as error:
        raise EvaluationError(
            f"Subject {subject}: cannot split {len(rows)} trials in {folds}: {error}"
        ) from error
    return parts


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "session-transfer", "earlier sessions of the subject", "last session", _session_transfer
        ),
        Protocol(
            "session-split",
            "earlier sessions of the subject; the second to last for validation",
            "last session",
            _session_split,
        ),
        Protocol(
            "leave-one-session-out",
            "other sessions of the subject",
            "each session",
            _leave_one_session_out,
        ),
        Protocol("leave-one-run-out", "other runs of the subject", "each run", _leave_one_run_out),
        Protocol(
            "blocks",
            "other blocks of the subject, without trials that overlap the tested one",
            "each of k contiguous blocks",
            _blocks,
            {"folds": 5},
        ),
        Protocol(
            "k-fold",
            "other folds of the subject",
            "each of k shuffled, stratified folds; groups are kept whole",
            _k_fold,
            {"folds": 5},
        ),
        Protocol(
            "split-70-15-15",
            "70 % of the subject's trials, shuffled; 15 % for validation",
            "15 %",
            _split_70_15_15,
            {"ungrouped": False},
        ),
        Protocol(
            "leave-one-subject-out",
            "all other subjects",
            "each subject",
            _leave_one_subject_out,
            sees_others=True,
        ),
        Protocol(
            "leave-one-subject-out-calibrated",
            "all other subjects, and other sessions of the subject",
            "each session",
            _leave_one_subject_out_calibrated,
            sees_others=True,
        ),
    )
}


def protocols_table() -> Table:
    """Who is trained on, who is tested, as a table for a terminal."""
    return _tables.table(
        ("name", "trained on~", "tested~", "options~"),
        [
            (p.name, p.train, p.test, ", ".join(f"{k} = {v}" for k, v in p.options.items()).lower())
            for p in PROTOCOLS.values()
        ],
        "Protocols",
    )


def access_table() -> Table:
    """What may be seen of the target beside its training trials, as a table for a terminal."""
    return _tables.table(
        ("name", "seen~"),
        [(access.name, access.description) for access in ACCESS.values()],
        "Target access",
        "What may be seen of the subject or session that is tested, beside its trials that are "
        "trained on.",
    )
