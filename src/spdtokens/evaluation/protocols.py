"""Protocols as data: each says who is trained on, who chooses, who is tested.

Adding one is a function from the table of trials and a subject to folds, and a line in
``PROTOCOLS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from spdtokens._words import counted
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.evaluation.folds import Fold
from spdtokens.evaluation.trials import Index, TrialTable

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
            if name not in self.options:
                has = ", ".join(self.options) or "none"
                raise EvaluationError(f"Protocol {self.name} has no option {name!r}; it has {has}.")
            kind = type(self.options[name])
            if type(value) is not kind or (kind is int and value < 2):
                wanted = "true or false" if kind is bool else "a whole number of at least 2"
                raise EvaluationError(f"Protocol {self.name}: {name} is {wanted}, not {value!r}.")
        return {**self.options, **options}


def get_protocol(name: str) -> Protocol:
    """A protocol by name.

    Raises
    ------
    EvaluationError
        With the nearest name, and all of them.
    """
    if name not in PROTOCOLS:
        near = get_close_matches(name, PROTOCOLS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise EvaluationError(
            f"There is no protocol {name!r}.{hint} There are: {', '.join(PROTOCOLS)}."
        )
    return PROTOCOLS[name]


def _sessions(table: TrialTable, subject: str, least: int, why: str) -> list[tuple[str, Index]]:
    """Sessions of a subject, in order of time, with their trials."""
    rows = table.of(subject)
    names = list(dict.fromkeys(table.session[rows].tolist()))
    if len(names) < least:
        raise EvaluationError(
            f"Subject {subject} has {counted(len(names), 'session')} ({', '.join(names)}), and "
            f"{why}. Choose leave-one-run-out, blocks or k-fold, or leave the subject out."
        )
    return [(name, rows[table.session[rows] == name]) for name in names]


def _session_transfer(table: TrialTable, subject: str) -> list[Fold]:
    *earlier, (name, test) = _sessions(
        table, subject, 2, "session-transfer trains on those before the last"
    )
    return [Fold(subject, name, np.concatenate([rows for _, rows in earlier]), test)]


def _session_split(table: TrialTable, subject: str) -> list[Fold]:
    sessions = _sessions(
        table, subject, 3, "session-split needs three: to train on, to validate, to test"
    )
    *train, (_, validation), (name, test) = sessions
    return [Fold(subject, name, np.concatenate([rows for _, rows in train]), test, validation)]


def _leave_one_session_out(table: TrialTable, subject: str) -> list[Fold]:
    sessions = _sessions(table, subject, 2, "leave-one-session-out trains on the others")
    return [
        Fold(subject, name, np.concatenate([r for other, r in sessions if other != name]), test)
        for name, test in sessions
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
    _enough(len(np.unique(table.group[rows])), folds, subject)
    parts = _stratified(table, rows, folds)
    return [
        Fold(subject, f"fold {number}", rows[parts != number - 1], rows[parts == number - 1])
        for number in range(1, folds + 1)
    ]


def _split_70_15_15(table: TrialTable, subject: str, ungrouped: bool) -> list[Fold]:
    """The paper's: 14 of 20 parts train, 3 validate, 3 test."""
    rows = table.of(subject)
    _enough(len(rows if ungrouped else np.unique(table.group[rows])), 20, subject)
    parts = _stratified(table, rows, 20, ungrouped=ungrouped)
    held = [np.isin(parts, numbers) for numbers in (VALIDATES, TESTS)]
    validation, test, train = rows[held[0]], rows[held[1]], rows[~(held[0] | held[1])]
    groups = [np.unique(table.group[part]) for part in (train, validation, test)]
    split = ungrouped and len(np.unique(np.concatenate(groups))) < sum(map(len, groups))
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
    own = _leave_one_session_out(table, subject)
    others = _leave_one_subject_out(table, subject)[0].train
    return [
        Fold(subject, fold.name, np.concatenate([others, fold.train]), fold.test) for fold in own
    ]


def _enough(n: int, folds: int, subject: str) -> None:
    if n < folds:
        raise EvaluationError(
            f"Subject {subject} has {counted(n, 'trial')} (or groups of trials), too few for "
            f"{folds} parts."
        )


def _stratified(
    table: TrialTable, rows: Index, folds: int, *, ungrouped: bool = False
) -> NDArray[np.int64]:
    """A part (n,) for every trial; classes spread evenly, groups whole unless asked otherwise."""
    groups = table.group[rows]
    alone = ungrouped or len(np.unique(groups)) == len(groups)
    # Without groups the same, but a thousand times faster and more even.
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
            f"Cannot split {counted(len(rows), 'trial')} in {folds}: {error}"
        ) from error
    return parts


_TARGET = "each session of the subject in turn"
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "session-transfer",
            "the subject's sessions before the last",
            "the last session",
            _session_transfer,
        ),
        Protocol(
            "session-split",
            "the subject's sessions before the last two; the last but one validates",
            "the last session",
            _session_split,
        ),
        Protocol(
            "leave-one-session-out",
            "the subject's other sessions",
            _TARGET,
            _leave_one_session_out,
        ),
        Protocol(
            "leave-one-run-out",
            "the subject's other runs",
            "each run of the subject in turn",
            _leave_one_run_out,
        ),
        Protocol(
            "blocks",
            "the subject's other blocks, without trials that overlap the tested one",
            "each of k contiguous blocks in time",
            _blocks,
            {"folds": 5},
        ),
        Protocol(
            "k-fold",
            "the subject's other folds",
            "each of k shuffled folds, stratified, groups whole",
            _k_fold,
            {"folds": 5},
        ),
        Protocol(
            "split-70-15-15",
            "70 % of the subject's trials, shuffled; 15 % validate",
            "15 %",
            _split_70_15_15,
            {"ungrouped": False},
        ),
        Protocol(
            "leave-one-subject-out",
            "all other subjects",
            "each subject in turn",
            _leave_one_subject_out,
            sees_others=True,
        ),
        Protocol(
            "leave-one-subject-out-calibrated",
            "all other subjects and the subject's other sessions",
            _TARGET,
            _leave_one_subject_out_calibrated,
            sees_others=True,
        ),
    )
}
