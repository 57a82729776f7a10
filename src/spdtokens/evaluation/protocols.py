"""Evaluation protocols: how trials are split into training, validation and test sets.

A protocol is a function from the table of trials and a subject to folds, and an entry in
``PROTOCOLS``. The folds of a pooled protocol test several subjects at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import combinations, starmap
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens import _tables
from spdtokens.errors import EvaluationError, LeakError

# `spdtokens protocols` prints tables of this module: do not import torch, MNE or SciPy here.
if TYPE_CHECKING:
    from rich.table import Table

    from spdtokens.evaluation.trials import Trials, TrialTable

Index = NDArray[np.int64]
T = TypeVar("T")
#: Value of an option of a protocol: a number, a switch, or names of subjects.
Option: TypeAlias = int | bool | tuple[str | int, ...]


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Return the entry of a name; the error suggests the closest name and lists all."""
    if name in known:
        return known[name]
    names = f"Choose one of: {', '.join(known)}." if known else "There are none."
    raise EvaluationError(f"Unknown {kind} {name!r}.{nearest(name, known)} {names}")


def nearest(name: object, names: Iterable[str]) -> str:
    """Suggest the closest name, if there is one."""
    near = get_close_matches(str(name), list(names), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


# Names of target access are those of MOABB's ``CrossSubjectMode`` without the prefix
# ``train_and_target_``; ``online`` is ours.


@dataclass(frozen=True)
class Access:
    """Target access: data of the test session or subject that may be used without training on it.

    Parameters
    ----------
    name : str
        Name, as listed by ``spdtokens protocols``.
    share : float
        Fraction of the target's trials that is available: 0 for none; 1 for all, including the
        scored ones; in between, the first trials in time, which are not scored.
    labelled : bool
        Whether the labels of these trials are available.
    online : bool
        Whether each scored trial may be aligned by the scored trials before it.
    description : str
        One line for tables.

    See Also
    --------
    calibration_split : Split the target's trials by an access.

    Examples
    --------
    >>> from spdtokens.evaluation.protocols import get_access
    >>> access = get_access("labeled_20p")
    >>> access.share, access.labelled, access.calibrates
    (0.2, True, True)
    """

    name: str
    share: float
    labelled: bool
    online: bool
    description: str

    @property
    def calibrates(self) -> bool:
        """Whether some trials of the target are used for calibration and not scored."""
        return 0 < self.share < 1

    @property
    def transductive(self) -> bool:
        """Whether all scored trials are available at once."""
        return self.share == 1


ACCESS = {
    access.name: access
    for access in (
        Access("train", 0.0, False, False, "no data of the target"),
        Access("unlabeled_20p", 0.2, False, False, "first 20 % of its trials, without labels"),
        Access("unlabeled_50p", 0.5, False, False, "first 50 % of its trials, without labels"),
        Access("unlabeled_full", 1.0, False, False, "all scored trials at once, without labels"),
        Access("labeled_20p", 0.2, True, False, "first 20 % of its trials, with labels"),
        Access("labeled_50p", 0.5, True, False, "first 50 % of its trials, with labels"),
        Access("online", 0.0, False, True, "scored trials before each trial, without labels"),
    )
}


def get_access(name: str | Access) -> Access:
    """Look up a target access by its name.

    Parameters
    ----------
    name : str or Access
        Name, or an :class:`Access`, which is returned as it is.

    Returns
    -------
    Access
        The target access.

    Raises
    ------
    EvaluationError
        If the name is unknown. The message suggests the closest name and lists all.

    See Also
    --------
    get_protocol : Look up a protocol.

    Examples
    --------
    >>> from spdtokens.evaluation.protocols import get_access
    >>> get_access("online").description
    'scored trials before each trial, without labels'
    """
    return name if isinstance(name, Access) else look_up("access", name, ACCESS)


def calibration_split(
    order: ArrayLike, group: ArrayLike, access: str | Access
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split the trials of a target into calibration and test trials.

    For an access to a share of the trials, the first trials in time are for calibration and are
    not scored. A group, such as the segments of one trial, is never split: it is for calibration if
    all of it lies within the share, otherwise it is scored. If no group lies within the share, the
    group of the first trial is for calibration (MOABB, too, uses at least one trial). For any other
    access, all trials are scored.

    Parameters
    ----------
    order : array_like, shape (n,)
        Position of each trial in time.
    group : array_like, shape (n,)
        Group of each trial. Number the trials if there are no groups.
    access : str or Access
        Target access, such as ``'labeled_20p'``.

    Returns
    -------
    calibration_index : ndarray of int, shape (n_calibration,)
        Calibration trials, in the order of time.
    test_index : ndarray of int, shape (n_test,)
        Test trials, in the order of time.

    Raises
    ------
    EvaluationError
        If no trial is left to score.

    See Also
    --------
    spdtokens.evaluation.alignment.align : Align by calibration trials.

    Examples
    --------
    >>> from spdtokens.evaluation.protocols import calibration_split
    >>> calibration, test = calibration_split(range(10), range(10), "unlabeled_20p")
    >>> calibration.tolist(), test.tolist()
    ([0, 1], [2, 3, 4, 5, 6, 7, 8, 9])
    """
    access = get_access(access)
    order, group = np.asarray(order), np.asarray(group)
    if order.ndim != 1 or order.shape != group.shape or not len(order):
        raise EvaluationError(
            "order and group must have the same shape (n,), n >= 1, got "
            f"{order.shape} and {group.shape}."
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
            f"Access {access.name!r} leaves no trial to score: all {len(in_time)} trials of the "
            f"target are in group {group[in_time[0]]!s}, and groups are not split. Use an access "
            "without calibration (train, unlabeled_full, online), or smaller groups."
        )
    return in_time[~scored], in_time[scored]


#: Number of trials, or pairs of trials, that an error names.
NAMED = 5


@dataclass(frozen=True)
class Fold:
    """One split of the trials, as rows of the table of trials.

    Parameters
    ----------
    subject : str
        Test subject; of a pooled protocol, the first test subjects and the number of others.
    name : str
        Name such as ``'2E'`` or ``'block 3'``, unique among the folds of a subject, or of a pooled
        protocol.
    train : ndarray of int
        Training trials.
    test : ndarray of int
        Test trials.
    validation : ndarray of int, default=empty
        Trials to select an epoch by.
    calibration : ndarray of int, default=empty
        Trials of the target that are available and not scored: see :class:`Access`.
    leaky : str, default=''
        Why scores of this fold are optimistic; empty if they are not.

    See Also
    --------
    Protocol : Makes the folds of a subject.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.protocols import Fold
    >>> fold = Fold("1", "block 1", train=np.arange(20, 100), test=np.arange(20))
    >>> {name: len(rows) for name, rows in fold.parts().items()}
    {'train': 80, 'validation': 0, 'calibration': 0, 'test': 20}
    """

    subject: str
    name: str
    train: Index
    test: Index
    validation: Index = field(default_factory=lambda: np.arange(0))
    calibration: Index = field(default_factory=lambda: np.arange(0))
    leaky: str = ""

    @property
    def title(self) -> str:
        """Subject and name, as in ``'Subject 1, fold block 3'``."""
        return f"Subject {self.subject}, fold {self.name.removeprefix('fold ')}"

    def parts(self) -> dict[str, Index]:
        """Return the rows of all parts.

        Returns
        -------
        dict of str to ndarray of int
            Rows of ``'train'``, ``'validation'``, ``'calibration'`` and ``'test'``.
        """
        names = ("train", "validation", "calibration", "test")
        return {name: getattr(self, name) for name in names}

    @property
    def rows(self) -> Index:
        """Rows of all parts together."""
        return np.concatenate(list(self.parts().values()))


def check_fold(fold: Fold, trials: Trials) -> None:
    """Refuse a fold that leaks or cannot be trained on.

    Raises
    ------
    LeakError
        If two parts share a trial, a group, or samples of a recording. Shared samples are found by
        onset, and by content under any name. Folds marked leaky may share groups and onsets, but
        never trials or copies.
    EvaluationError
        If the training or test set is empty, or a class is missing from training.
    """
    table, classes = trials.table, trials.dataset.classes
    parts = {name: rows for name, rows in fold.parts().items() if len(rows)}
    for name in ("train", "test"):
        if name not in parts:
            raise EvaluationError(f"{fold.title}: the {name} set is empty.")
    for (one, these), (other, those) in combinations(parts.items(), 2):
        both = f"{fold.title}: {one.replace('train', 'training')} and {other}"
        _refuse(f"{both} sets share trials", table.id[np.intersect1d(these, those)].tolist())
        if not fold.leaky:
            shared = these[np.isin(table.group[these], table.group[those])]
            _refuse(f"{both} sets share groups of trials", table.id[shared].tolist())
            overlapping = table.id[table.overlapping(these, those)].tolist()
            remedy = " Use protocol blocks, which removes overlapping trials from training."
            _refuse(f"{both} trials overlap in time", overlapping, remedy)
        copies = trials.copies.between(these, those, NAMED + 1)
        _refuse(
            f"{both} trials have identical samples",
            [f"{table.id[i]} and {table.id[j]}" for i, j in copies],
            " Remove one trial of each pair. For overlapping epochs of one recording, store their "
            "first sample as 'onset' and use protocol blocks.",
        )
    missing = sorted(set(range(len(classes))) - set(table.y[fold.train].tolist()))
    if missing:
        raise EvaluationError(
            f"{fold.title}: no training trials of class {', '.join(classes[i] for i in missing)}. "
            "Use another protocol, or leave the class out."
        )


def _refuse(what: str, culprits: Sequence[str], remedy: str = "") -> None:
    if culprits:
        more = ", ..." if len(culprits) > NAMED else ""
        raise LeakError(f"{what}: {', '.join(culprits[:NAMED])}{more}.{remedy}")


Folds = Callable[..., list[Fold]]
#: Seed of shuffled splits; fixed, so that all methods and training seeds share the split.
SPLIT_SEED = 42
#: Validation and test parts of 20; spread out, as rare classes end up in neighbouring parts.
VALIDATES, TESTS = (3, 10, 16), (6, 13, 19)


@dataclass(frozen=True)
class Protocol:
    """An evaluation protocol: how the trials of a subject are split into folds.

    Parameters
    ----------
    name : str
        Name, as listed by ``spdtokens protocols``.
    train, test : str
        Training and test sets, in words.
    make : callable
        Function of the table of trials, the subject and the options that returns a list of
        :class:`Fold`.
    options : mapping of str to int, bool or tuple, default={}
        Options and their default values; an empty tuple for names of subjects, which must be given.
    sees_others : bool, default=False
        Whether the protocol trains on other subjects.
    pooled : bool, default=False
        Whether a fold tests several subjects. The folds are then the same for every subject.

    See Also
    --------
    get_protocol : Look up a protocol by its name.

    Examples
    --------
    >>> from spdtokens.evaluation.protocols import PROTOCOLS
    >>> protocol = PROTOCOLS["leave-one-run-out"]
    >>> protocol.train, protocol.test
    ('other runs of the subject', 'each run')
    """

    name: str
    train: str
    test: str
    make: Folds
    options: Mapping[str, Option] = field(default_factory=dict)
    sees_others: bool = False
    pooled: bool = False

    def folds(self, table: TrialTable, subject: str, **options: Any) -> list[Fold]:
        """Split the trials of a subject.

        Parameters
        ----------
        table : TrialTable
            All trials of the data set.
        subject : str
            Test subject; not used by a pooled protocol.
        **options : object
            Options of the protocol.

        Returns
        -------
        list of Fold
            Folds of the subject; all folds of a pooled protocol.

        Raises
        ------
        EvaluationError
            If the protocol does not have an option, or cannot be applied to the subject.
        """
        return self.make(table, subject, **self.checked(options))

    def checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Check options and add the default values.

        Parameters
        ----------
        options : mapping of str to object
            Options to change. Names of subjects are one name or number, or a sequence of these.

        Returns
        -------
        dict of str to int, bool or tuple
            Values of all options.

        Raises
        ------
        EvaluationError
            If an option is unknown or missing, or its value has the wrong type.
        """
        found: dict[str, Any] = dict(self.options)
        for name, value in options.items():
            kind: Any = type(look_up(f"option of protocol {self.name}", name, self.options))
            wanted = "true or false" if kind is bool else "an integer >= 2"
            right = type(value) is kind and not (kind is int and value < 2)
            found[name] = value
            if kind is tuple:
                wanted = "names or numbers of subjects"
                found[name] = names = tuple(value) if isinstance(value, list | tuple) else (value,)
                right = all(isinstance(v, str | int) and not isinstance(v, bool) for v in names)
            if not right:
                raise EvaluationError(
                    f"Protocol {self.name}: {name} must be {wanted}, got {value!r}."
                )
        for name in (name for name, value in found.items() if value == ()):
            raise EvaluationError(
                f"Protocol {self.name} needs {name}: --{name.replace('_', '-')} 1,2 on the command "
                f'line, protocol_options={{"{name}": [1, 2]}} in Python, {name} = [1, 2] in a '
                "study file."
            )
        return found


def get_protocol(name: str) -> Protocol:
    """Look up a protocol by its name.

    Parameters
    ----------
    name : str
        Name, as listed by ``spdtokens protocols``.

    Returns
    -------
    Protocol
        The protocol.

    Raises
    ------
    EvaluationError
        If the name is unknown. The message suggests the closest name and lists all.

    See Also
    --------
    get_access : Look up a target access.

    Examples
    --------
    >>> from spdtokens.evaluation.protocols import get_protocol
    >>> get_protocol("k-fold").options
    {'folds': 5}
    """
    return look_up("protocol", name, PROTOCOLS)


def _sessions(table: TrialTable, subject: str, least: int = 2) -> dict[str, Index]:
    """Trials of each session of a subject, in the order of time."""
    rows = table.of(subject)
    names = dict.fromkeys(table.session[rows].tolist())
    sessions = {name: rows[table.session[rows] == name] for name in names}
    _check_enough(len(sessions), least, "sessions", subject)
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
    firsts = rows[np.sort(np.unique(table.clock[rows], return_index=True)[1])]
    _check_enough(len(firsts), 2, "runs", subject)
    several = len(np.unique(table.session[firsts])) > 1
    folds = []
    for first in firsts:
        mine = table.clock[rows] == table.clock[first]
        session = f"session {table.session[first]}, " if several else ""
        name = f"{session}run {table.run[first]}"
        folds.append(Fold(subject, name, rows[~mine], rows[mine]))
    return folds


def _blocks(table: TrialTable, subject: str, folds: int) -> list[Fold]:
    """Contiguous blocks of whole groups; training trials that overlap the test are removed."""
    rows = table.of(subject)
    groups = list(dict.fromkeys(table.group[rows].tolist()))
    _check_enough(len(groups), folds, "trials or groups", subject)
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


def _split_70_15_15(table: TrialTable, subject: str) -> list[Fold]:
    """14 of 20 parts of whole groups for training, 3 for validation, 3 for testing."""
    rows = table.of(subject)
    parts = _stratified(table, subject, 20)
    validation, test = (np.isin(parts, numbers) for numbers in (VALIDATES, TESTS))
    return [Fold(subject, "70-15-15", rows[~(validation | test)], rows[test], rows[validation])]


def _paper_sessions(table: TrialTable, subject: str) -> list[Fold]:
    """Make the paper's split of BCI2a: 252 of 288 trials of session T, tested on session E.

    The paper prints accuracies of 252 trials. That the 36 others are random is our assumption.
    """
    *earlier, (name, test) = _sessions(table, subject).items()
    rows = _shuffled(np.concatenate([rows for _, rows in earlier]))
    n_train = len(rows) * 7 // 8
    return [_marked(table, Fold(subject, name, rows[:n_train], test, np.sort(rows[n_train:])))]


def _paper_shuffled(table: TrialTable, subject: str) -> list[Fold]:
    """Make the paper's split of BCIcha and MAMEM: int(0.7 n), int(0.15 n) and the rest.

    The sizes fit the printed accuracies (237 and 350 training trials). The permutation is our
    assumption. Segments of one trial are shuffled like trials, which leaks.
    """
    rows = _shuffled(table.of(subject))
    first, last = int(0.7 * len(rows)), int(0.7 * len(rows)) + int(0.15 * len(rows))
    train, validation, test = np.split(rows, [first, last])
    # In the order of time, as in all protocols.
    return [_marked(table, Fold(subject, "70-15-15", train, np.sort(test), np.sort(validation)))]


def _shuffled(values: NDArray[Any]) -> NDArray[Any]:
    return np.random.default_rng(SPLIT_SEED).permutation(values)


def _marked(table: TrialTable, fold: Fold) -> Fold:
    """Mark a fold as leaky if its parts share groups of trials or samples."""
    parts = [rows for rows in fold.parts().values() if len(rows)]
    for these, those in combinations(parts, 2):
        if np.isin(table.group[these], table.group[those]).any():
            return replace(fold, leaky="segments of one trial are in more than one set")
        if len(table.overlapping(these, those)):
            return replace(fold, leaky="trials of different sets overlap in time")
    return fold


def _leave_one_subject_out(table: TrialTable, subject: str) -> list[Fold]:
    rows = table.of(subject)
    others = np.setdiff1d(np.arange(len(table)), rows)
    _check_enough(len(np.unique(table.subject)), 2, "subjects", subject)
    return [Fold(subject, "all sessions", others, rows)]


def _leave_one_subject_out_calibrated(table: TrialTable, subject: str) -> list[Fold]:
    others = _leave_one_subject_out(table, subject)[0].train
    own = _leave_one_session_out(table, subject)
    return [replace(fold, train=np.concatenate([others, fold.train])) for fold in own]


def _subjects_k_fold(table: TrialTable, _subject: str, folds: int) -> list[Fold]:
    names = np.unique(table.subject)  # sorted: the split does not depend on the order of the table
    if len(names) < folds:
        raise EvaluationError(
            f"Protocol subjects-k-fold needs at least as many subjects as folds, got {len(names)} "
            f"subjects and {folds} folds. Use fewer folds, or more subjects."
        )
    return [
        _testing(table, group, f"group {number}")
        for number, group in enumerate(np.array_split(_shuffled(names), folds), 1)
    ]


def _between_subjects(
    table: TrialTable, _subject: str, test_subjects: tuple[str, ...]
) -> list[Fold]:
    names = set(table.subject.tolist())
    if unknown := [str(name) for name in test_subjects if name not in names]:
        raise EvaluationError(
            f"test_subjects: {', '.join(unknown)} not among the subjects that are evaluated "
            f"({', '.join(dict.fromkeys(table.subject.tolist()))})."
        )
    if not names.difference(test_subjects):
        raise EvaluationError(
            "Protocol between-subjects trains on the subjects that are not tested, but "
            f"test_subjects names all {len(names)}. Leave some out, or evaluate more subjects."
        )
    return [_testing(table, test_subjects, "test subjects")]


def _testing(table: TrialTable, subjects: ArrayLike, name: str) -> Fold:
    """Test some subjects, and train on all others."""
    tested = np.isin(table.subject, subjects)
    who = list(dict.fromkeys(table.subject[tested].tolist()))
    if slashed := [name for name in who if "/" in name]:
        raise EvaluationError(
            f"Names of test subjects must not contain slashes, got {', '.join(slashed)}."
        )
    title, more = ", ".join(who[:NAMED]), len(who) - NAMED
    title += f" and {_tables.counted(more, 'other')}" if more > 0 else ""
    return Fold(title, name, np.flatnonzero(~tested), np.flatnonzero(tested))


def _check_enough(n: int, least: int, what: str, subject: str) -> None:
    if n < least:
        raise EvaluationError(
            f"Subject {subject}: the protocol needs at least {least} {what}, got {n}. Use another "
            "protocol (blocks and k-fold need one recording) or fewer folds, or leave the subject "
            "out."
        )


def _stratified(table: TrialTable, subject: str, folds: int) -> NDArray[np.int64]:
    """Part (n,) of each trial; stratified, with whole groups."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    rows = table.of(subject)
    groups = table.group[rows]
    n_groups = len(np.unique(groups))
    _check_enough(n_groups, folds, "trials or groups", subject)
    # The same without groups, but much faster and better balanced.
    alone = n_groups == len(rows)
    kind = StratifiedKFold if alone else StratifiedGroupKFold
    splitter = kind(folds, shuffle=True, random_state=SPLIT_SEED)
    parts = np.empty(len(rows), dtype=np.int64)
    try:
        with warnings.catch_warnings():
            # A rare class cannot be in every part; check_fold refuses one missing from training.
            warnings.filterwarnings("ignore", "The least populated class")
            split = splitter.split(rows, table.y[rows], None if alone else groups)
            for number, (_, test) in enumerate(split):
                parts[test] = number
    except ValueError as error:
        raise EvaluationError(
            f"Subject {subject}: cannot split {len(rows)} trials into {folds} parts: {error}"
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
            "70 % of the subject's trials, shuffled, groups kept whole; 15 % for validation",
            "15 %",
            _split_70_15_15,
        ),
        Protocol(
            "paper-sessions",
            "7/8 of the earlier sessions, shuffled; 1/8 for validation: the paper's for BCI2a",
            "last session",
            _paper_sessions,
        ),
        Protocol(
            "paper-shuffled",
            "70 % of the subject's trials, shuffled; 15 % for validation: the paper's for BCIcha "
            "and MAMEM, leaky if segments of a trial are separated",
            "15 %",
            _paper_shuffled,
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
        Protocol(
            "subjects-k-fold",
            "subjects of the other groups",
            "each of k groups of subjects, shuffled; one model per group",
            _subjects_k_fold,
            {"folds": 5},
            sees_others=True,
            pooled=True,
        ),
        Protocol(
            "between-subjects",
            "all subjects that are not tested",
            "the named subjects, all by one model",
            _between_subjects,
            {"test_subjects": ()},
            sees_others=True,
            pooled=True,
        ),
    )
}


def protocols_table() -> Table:
    """Training and test sets of all protocols, as a table for the terminal."""
    return _tables.table(
        ("name", "training~", "test~", "options~"),
        [
            (p.name, p.train, p.test, ", ".join(starmap(_said, p.options.items())))
            for p in PROTOCOLS.values()
        ],
        "Protocols",
    )


def _said(option: str, default: Option) -> str:
    return f"{option} (required)" if default == () else f"{option} = {default}".lower()


def access_table() -> Table:
    """Target access, as a table for the terminal."""
    return _tables.table(
        ("name", "available~"),
        [(access.name, access.description) for access in ACCESS.values()],
        "Target access",
        "Data of the test subject or session that may be used in addition to the training set.",
    )
