"""A reference that follows a recording."""

from __future__ import annotations

from .matrices import Array, congruence, inverse_root, towards


def seen_from(reference: Array, C: Array) -> Array:
    """See a trial's matrices (matrices, d, d) from the mean of those before it."""
    return congruence(C, inverse_root(reference))


def moved(reference: Array, C: Array, count: int) -> Array:
    """The mean of so many trials, with one more; where it started counts as one."""
    return towards(reference, C, 1 / (count + 1))
