"""Each theoretical claim of the paper, tested numerically.

A claim is one entry of a ``CLAIMS`` list in one of the files here; the command line, the JSON and
the tests pick it up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spdtokens.paper.theory import computing, distances, gradients, normalisation, properties
from spdtokens.paper.theory.claim import Claim

CLAIMS: list[Claim] = [
    claim
    for room in (distances, gradients, normalisation, computing, properties)
    for claim in room.CLAIMS
]


def check_claims(seed: int = 0) -> Iterator[dict[str, Any]]:
    """Test every claim, one after another.

    Parameters
    ----------
    seed : int
        Of the random matrices. Each claim draws from its own generator.

    Yields
    ------
    dict
        With the keys ``id``, ``source``, ``claim``, ``method``, ``verdict``, ``evidence``,
        ``numbers``, ``counterexample`` and ``instead``.
    """
    for claim in CLAIMS:
        yield claim.check(seed)
