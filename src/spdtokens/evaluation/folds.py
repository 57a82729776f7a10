"""Who is trained on, who chooses, who is tested; and the refusal of leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spdtokens.evaluation.errors import EvaluationError, LeakError
from spdtokens.evaluation.trials import Index, TrialTable


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


def check_fold(fold: Fold, table: TrialTable, classes: Sequence[str]) -> None:
    """Refuse a fold that leaks or cannot be trained on.

    Raises
    ------
    LeakError
        If two parts share a trial, a group, or samples of a recording. Shared groups and samples
        are let through in a fold that is marked leaky, never shared trials.
    EvaluationError
        If training or test is empty, or a class is missing from training.
    """
    where = f"Subject {fold.subject}, fold {fold.name}"
    parts = {name: rows for name, rows in fold.parts().items() if len(rows)}
    for name in ("train", "test"):
        if name not in parts:
            raise EvaluationError(f"{where}: there are no trials to {name} on.")
    names = list(parts)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            _refuse(where, one, other, np.intersect1d(parts[one], parts[other]), table, "trials")
            if fold.leaky:
                continue
            shared = np.isin(table.group[parts[one]], table.group[parts[other]])
            _refuse(where, one, other, parts[one][shared], table, "groups of trials")
            overlapping = table.overlapping(parts[one], parts[other])
            _refuse(where, one, other, overlapping, table, "samples, overlapping in time,")
    missing = sorted(set(range(len(classes))) - set(table.y[fold.train].tolist()))
    if missing:
        raise EvaluationError(
            f"{where}: there is no trial of {', '.join(classes[i] for i in missing)} to train on. "
            "Choose another protocol, or leave the class out."
        )


def _refuse(where: str, one: str, other: str, rows: Index, table: TrialTable, what: str) -> None:
    if len(rows):
        shown = ", ".join(table.id[rows[:5]]) + (", ..." if len(rows) > 5 else "")
        raise LeakError(f"{where}: {one} and {other} share {what}: {shown}.")
