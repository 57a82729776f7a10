"""Who is trained on, who chooses, who is tested; and the refusal of leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from spdtokens.evaluation.errors import EvaluationError, LeakError
from spdtokens.evaluation.trials import Index, Trials

#: Trials, or pairs of them, that an error names.
NAMED = 5


def _nobody() -> Index:
    return np.zeros(0, dtype=np.int64)


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
    validation: Index = field(default_factory=_nobody)
    calibration: Index = field(default_factory=_nobody)
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
