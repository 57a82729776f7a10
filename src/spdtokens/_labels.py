"""Validate labels and groups of trials."""

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
    """Validate labels; a column is accepted with a warning, as in scikit-learn.

    Parameters
    ----------
    y : array-like, shape (n,) or (n, 1)
        Labels.
    n : int
        Number of trials.
    error : type, default=UserError
        Class of the errors.
    who : str, default='The classifier'
        Subject of the error messages.

    Returns
    -------
    ndarray, shape (n,)
        Labels.

    Raises
    ------
    UserError
        If there is not one label per trial, labels are missing or continuous, or all trials belong
        to one class.
    """
    if y is None:
        raise error(f"{who} requires y to be passed, but the target y is None.")
    shape = np.shape(y)
    if shape not in ((n,), (n, 1)):
        raise error(f"y must have one label per trial, shape ({n},), got {shape}.")
    try:
        y = np.asarray(column_or_1d(y, warn=True))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    except ValueError as fault:
        raise error(f"y must contain class labels: {fault}") from fault
    classes = np.unique(y)
    if len(classes) < 2:
        raise error(
            f"All {n} training trials belong to one class, {classes[0]}. {who} needs trials of at "
            "least two classes."
        )
    return y


def as_groups(
    groups: ArrayLike | None, n: int, error: type[UserError] = UserError, name: str = "groups"
) -> NDArray[Any] | None:
    """Validate groups or domains, one per trial; None is returned as is."""
    if groups is None:
        return None
    if np.shape(groups) != (n,):
        raise error(f"{name} must have one entry per trial, shape ({n},), got {np.shape(groups)}.")
    return np.asarray(groups)
