"""A reference that follows a recording."""

from __future__ import annotations

from .matrices import Array, congruence, inverse_root, towards


def follow(reference: Array, C: Array, count: int) -> tuple[Array, Array]:
    """See a trial from the mean of those before it, and move the mean towards it.

    Parameters
    ----------
    reference : ndarray, shape (matrices, d, d)
        The mean so far.
    C : ndarray, shape (matrices, d, d)
        The trial.
    count : int
        Trials that the mean knows; where it started counts as one.

    Returns
    -------
    seen : ndarray, shape (matrices, d, d)
    reference : ndarray, shape (matrices, d, d)
        The mean with this trial.
    """
    seen = congruence(C, inverse_root(reference))
    return seen, towards(reference, C, 1 / (count + 1))
