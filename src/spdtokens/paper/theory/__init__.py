"""Numerical tests of the theoretical claims of the paper.

A test is a function decorated with :func:`spdtokens.paper.theory.claim.claim`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

# In the order in which the claims are shown.
from spdtokens.paper.theory import distances, gradients, tokens, premises  # isort: skip
from spdtokens.paper.theory.claim import CLAIMS, Claim

__all__ = ["CLAIMS", "Claim", "check_claims", "distances", "gradients", "premises", "tokens"]


def check_claims(seed: int = 0, data: Path | None = None) -> Iterator[dict[str, Any]]:
    """Test every theoretical claim of the paper numerically.

    Parameters
    ----------
    seed : int, default=0
        Seed of the random matrices. Each claim has its own generator.
    data : Path, default=None
        Folder or file of trials or covariances to test what the theory assumes about EEG, besides
        the simulated data sets.

    Yields
    ------
    dict
        The result for one claim, with the keys ``id``, ``source`` (LaTeX label), ``claim``,
        ``method``, ``verdict`` (``'holds'``, ``'corrected'`` or ``'fails'``), ``evidence``,
        ``numbers``, ``counterexample`` and ``instead`` (the correction).

    See Also
    --------
    spdtokens.paper.audit.audit_paper : Check the printed numbers against each other.

    Examples
    --------
    >>> from spdtokens.paper.theory import check_claims
    >>> first = next(check_claims())
    >>> first["id"], first["verdict"]
    ('vech-norm', 'holds')
    """
    for claim in CLAIMS:
        yield claim.check(seed, data)
