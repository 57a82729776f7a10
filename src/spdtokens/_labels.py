"""Labels and groups of trials: one per trial."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from spdtokens.errors import UserError


def as_labels(
    y: ArrayLike | None, n: int, error: type[UserError] = UserError, who: str = "The classifier"
) -> NDArray[Any]:
    """Labels (n,) from whatever can be made such; a column with a warning, as in scikit-learn.

    Parameters
    ----------
    y : array, shape (n,) or (n, 1)
    n : int
        Number of trials.
    error : type, default=UserError
        What to raise.
    who : str, default='The classifier'
        Needs them, for the messages.

    Raises
    ------
    UserError
        If there are not ``n`` labels, of two or more classes, or some are no labels: missing, or
        continuous.
    """
    if y is None:
        raise error(f"{who} requires y to be passed, but the target y is None.")
    shape = np.shape(y)
    if shape not in ((n,), (n, 1)):
        raise error(f"Expected {n} labels, one per trial, got an array of shape {shape}.")
    try:
        y = np.asarray(column_or_1d(y, warn=True))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    except ValueError as fault:
        raise error(f"Labels must be classes: {fault}") from fault
    classes = np.unique(y)
    if len(classes) < 2:
        raise error(
            f"All {n} training trials are of one class, {classes[0]}. {who} needs trials of two or "
            "more classes."
        )
    return y


def as_groups(
    groups: ArrayLike | None, n: int, error: type[UserError] = UserError
) -> NDArray[Any] | None:
    """Groups (n,), or None.

    Raises
    ------
    UserError
        If there is not one per trial.
    """
    if groups is None:
        return None
    if np.shape(groups) != (n,):
        raise error(f"groups must have one entry per trial, {n}, got shape {np.shape(groups)}.")
    return np.asarray(groups)
