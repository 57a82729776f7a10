"""Which trials depend on each other: segments of one trial, and trials that overlap in time."""

from __future__ import annotations

import numpy as np

from spdtokens.evaluation.trials import Index, TrialTable


def dependence(table: TrialTable) -> tuple[Index, Index]:
    """Number the trials that depend on each other alike.

    A group covers the time from its first to its last sample. Where `onset` is not known, groups
    are taken as independent of each other. Onsets of different runs are not compared.

    Parameters
    ----------
    table : TrialTable

    Returns
    -------
    stretch : ndarray of int, shape (n,)
        Groups of one stretch all overlap each other, so that they count as one decision. There are
        as many stretches as groups can be chosen that do not overlap (interval scheduling).
    chain : ndarray of int, shape (n,)
        Stretches may overlap their neighbours. Chains do not: a chain is all that is connected by
        overlaps, and depends on no other.
    """
    first, of = np.unique(table.group, return_index=True, return_inverse=True)[1:]
    start, stop = table.start[first].copy(), table.stop[first].copy()
    np.minimum.at(start, of, table.start)
    np.maximum.at(stop, of, table.stop)
    stretch, chain = np.arange(len(first)), np.arange(len(first))
    place = table.clock[first]
    known = np.flatnonzero(start >= 0)
    # The group that ends first leaves most room for others.
    pick, last = -1, None
    for g in known[np.lexsort((stop[known], place[known]))].tolist():
        if place[g] != last or start[g] >= stop[pick]:
            pick, last = g, place[g]
        stretch[g] = pick
    head, last, reach = -1, None, -1
    for g in known[np.lexsort((start[known], place[known]))].tolist():
        if place[g] != last or start[g] >= reach:
            head, last, reach = g, place[g], -1
        reach = max(reach, stop[g])
        chain[g] = head
    return stretch[of], chain[of]
