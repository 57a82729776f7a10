"""Embeddings of SPD matrices into tokens, by name.

To add one: a file with a subclass of :class:`~spdtokens.geometry.embeddings.base.Embedding`, and
its class in the list below. The command line and the contract tests pick it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdtokens.errors import UserError
from spdtokens.geometry.embeddings.at_reference import AffineInvariant, WhitenedRoot
from spdtokens.geometry.embeddings.base import Embedding
from spdtokens.geometry.embeddings.bures_wasserstein import BuresWasserstein
from spdtokens.geometry.embeddings.cholesky import Cholesky, LogCholesky
from spdtokens.geometry.embeddings.class_filters import ClassFilters
from spdtokens.geometry.embeddings.euclidean import Euclidean
from spdtokens.geometry.embeddings.log_euclidean import LogEuclidean
from spdtokens.geometry.embeddings.principal import PrincipalCorrelation
from spdtokens.geometry.embeddings.several import Several

EMBEDDINGS: dict[str, type[Embedding]] = {
    cls.name: cls
    for cls in (
        BuresWasserstein,
        LogEuclidean,
        Euclidean,
        Cholesky,
        LogCholesky,
        AffineInvariant,
        WhitenedRoot,
        PrincipalCorrelation,
    )
}
#: Those that look at labels, and are not one to one.
SUPERVISED: dict[str, type[Embedding]] = {ClassFilters.name: ClassFilters}


def get_embedding(name: str, **options: Any) -> Embedding:
    """Embedding of a given name.

    Parameters
    ----------
    name : str
        A key of ``EMBEDDINGS`` or ``SUPERVISED``.
    **options
        Passed to the embedding: ``isometric``, ``floor``, ...

    Raises
    ------
    ValueError
        If there is no such embedding; the message lists those there are.
    """
    return find_embedding(name)(**options)


def find_embedding(name: str) -> type[Embedding]:
    """The class of an embedding, by its name; see :func:`get_embedding`."""
    known = EMBEDDINGS | SUPERVISED
    if name not in known:
        raise UserError(f"There is no embedding {name!r}. Choose from: {', '.join(known)}.")
    return known[name]


def get_embeddings(names: str | Sequence[str], **options: Any) -> Embedding | Several:
    """The embedding of a name, or :class:`Several` of a sequence of names.

    Parameters
    ----------
    names : str or sequence of str
    **options
        Passed to each.
    """
    if isinstance(names, str):
        return get_embedding(names, **options)
    if not names:
        raise UserError("The list of embeddings is empty.")
    return Several(tuple(get_embedding(name, **options) for name in names))
