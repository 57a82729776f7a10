"""Labels, seeds and the trials held back: what every classifier settles before it trains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state

from spdtokens._labels import as_groups, as_labels
from spdtokens.training.engine import RunPlan
from spdtokens.training.recipe import TrainingError


def encode(y: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Classes, and labels as their numbers (n,).

    Raises
    ------
    TrainingError
        If there are not ``n`` labels, of two or more classes.
    """
    classes, codes = np.unique(as_labels(y, n, TrainingError), return_inverse=True)
    return classes, codes.astype(np.int64)


def seed_of(random_state: Any) -> int:
    """An integer itself; else a number drawn from the generator, or from chance."""
    if not isinstance(random_state, int | np.integer):
        return int(check_random_state(random_state).randint(2**31 - 1))
    if random_state < 0:
        raise TrainingError(f"random_state is not negative, but {random_state} is.")
    return int(random_state)


def held_back(
    seed: int, codes: NDArray[np.int64], groups: ArrayLike | None, share: float | None
) -> RunPlan:
    """A plan that trains on all trials, or holds a share of them back for validation.

    Groups are never split; without groups every class is represented.
    """
    everything = np.arange(len(codes))
    groups = as_groups(groups, len(codes), TrainingError)
    if share is None:
        return RunPlan(seed, everything)
    if not 0 < share < 1:
        raise TrainingError(
            f"validation is the share of trials to hold back, in (0, 1), not {share!r}."
        )
    chance = seed % 2**32
    if groups is None:
        # Of few trials more may be held back than asked: one of every class.
        n = max(math.ceil(share * len(codes)), len(np.unique(codes)))
        split = StratifiedShuffleSplit(1, test_size=n, random_state=chance)
    else:
        split = GroupShuffleSplit(1, test_size=share, random_state=chance)
    try:
        train, validation = next(split.split(everything, codes, groups))
    except ValueError as error:
        raise TrainingError(
            f"Cannot hold back {share:.0%} of {len(codes)} trials for validation: {error}"
        ) from error
    return RunPlan(seed, train, validation)
