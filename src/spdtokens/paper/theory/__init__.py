"""Each theoretical claim of the paper, tested numerically.

A claim is a function decorated with :func:`spdtokens.paper.theory.claim.claim` in one of the files
here; the command line, the JSON and the tests pick it up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# In the order in which the claims are shown.
from spdtokens.paper.theory import distances, gradients, tokens  # isort: skip
from spdtokens.paper.theory.claim import CLAIMS, Claim

__all__ = ["CLAIMS", "Claim", "check_claims", "distances", "gradients", "tokens"]


def check_claims(seed: int = 0) -> Iterator[dict[str, Any]]:
    """Test every claim, one after another.

    Parameters
    ----------
    seed : int
        Of the random matrices. Each claim draws from its own generator.

    Yields
    ------
    dict
        See :meth:`Claim.check`.
    """
    for claim in CLAIMS:
        yield claim.check(seed)
