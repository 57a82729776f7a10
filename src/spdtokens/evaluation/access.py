"""What may be seen of the target: the subject or session that is scored.

The names are those of MOABB's ``CrossSubjectMode`` without the prefix ``train_and_target_``;
``online`` is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens.evaluation.errors import EvaluationError


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
    if isinstance(name, Access):
        return name
    if name not in ACCESS:
        raise EvaluationError(f"Unknown access {name!r}. Choose one of: {', '.join(ACCESS)}.")
    return ACCESS[name]


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
    if order.ndim != 1 or order.shape != group.shape:
        raise EvaluationError(
            f"Order and group must have one entry a trial each, got shapes {order.shape} and "
            f"{group.shape}."
        )
    if not len(order):
        raise EvaluationError("The target has no trials, so there is nothing to score.")
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
