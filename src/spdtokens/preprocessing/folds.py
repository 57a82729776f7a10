"""Folds within the training trials, for whatever must not be fitted to the trials it is used on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from spdtokens._labels import as_groups
from spdtokens.errors import SignalError

Index = NDArray[np.int64]


def folds_in_time(
    y: ArrayLike, folds: int, groups: ArrayLike | None = None
) -> list[tuple[Index, Index]]:
    """Split trials into folds of neighbours in time, with all classes in every training part.

    Neighbours in time resemble each other, so trials are not shuffled.

    Parameters
    ----------
    y : array, shape (n,)
        Labels, in order of time.
    folds : int
        At most; fewer if the rarest class has fewer trials (groups).
    groups : array, shape (n,), optional
        Trials of one group stay together.

    Returns
    -------
    splits : list of (train, test)
        Empty if the rarest class has one trial (group). With groups, a fold whose training part
        would lack a class is left out.

    Raises
    ------
    SignalError
        If there are not as many groups as labels.
    """
    _, codes = np.unique(np.asarray(y), return_inverse=True)
    everything = np.arange(len(codes))
    groups = as_groups(groups, len(codes), SignalError)
    if groups is None:
        found = min(folds, int(np.bincount(codes).min()))
        return list(StratifiedKFold(found).split(everything, codes)) if found > 1 else []
    _, parts = np.unique(groups, return_inverse=True)
    pairs = np.unique(np.stack([codes, parts]), axis=1)
    found = min(folds, int(np.bincount(pairs[0]).min()))
    if found < 2:
        return []
    # A rare class may miss in a test part; what counts is that training parts have all classes.
    splits = StratifiedGroupKFold(found).split(everything, codes, parts)
    return [(a, b) for a, b in splits if len(np.unique(codes[a])) == codes.max() + 1]
