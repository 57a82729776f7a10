"""Embeddings of SPD matrices into tokens, by name.

To add one: a file with a subclass of :class:`~spdtokens.spd.embeddings.base.Embedding`, and its
class in the list below. The command line and the contract tests pick it up.
"""

from __future__ import annotations

from typing import Any

from spdtokens._errors import UserError
from spdtokens.spd.embeddings.affine_invariant import AffineInvariant
from spdtokens.spd.embeddings.base import Embedding
from spdtokens.spd.embeddings.bures_wasserstein import BuresWasserstein
from spdtokens.spd.embeddings.cholesky import Cholesky, LogCholesky
from spdtokens.spd.embeddings.euclidean import Euclidean
from spdtokens.spd.embeddings.log_euclidean import LogEuclidean

EMBEDDINGS: dict[str, type[Embedding]] = {
    cls.name: cls
    for cls in (BuresWasserstein, LogEuclidean, Euclidean, Cholesky, LogCholesky, AffineInvariant)
}


def get_embedding(name: str, **options: Any) -> Embedding:
    """Embedding of a given name.

    Parameters
    ----------
    name : str
        A key of ``EMBEDDINGS``.
    **options
        Passed to the embedding: ``isometric``, ``floor``, ...

    Raises
    ------
    ValueError
        If there is no such embedding; the message lists those there are.
    """
    if name not in EMBEDDINGS:
        raise UserError(f"There is no embedding {name!r}. Choose from: {', '.join(EMBEDDINGS)}.")
    return EMBEDDINGS[name](**options)
