"""What every embedding of SPD matrices into tokens can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from torch import Tensor

from spdtokens.geometry.arrays import numpy_too
from spdtokens.geometry.matrix_functions import DEFAULT_FLOOR, Floor
from spdtokens.geometry.triangle import matrix_dim, unvech, vech
from spdtokens.geometry.validation import check_square


@dataclass(frozen=True)
class Embedding(ABC):
    """A one-to-one map from SPD matrices (..., d, d) to tokens (..., d (d + 1) / 2).

    A token lists, in row-major order, the upper triangle of a matrix ``embed(C)``. Matrices may be
    torch tensors, through which gradients flow, or NumPy arrays.

    Parameters
    ----------
    isometric : bool
        Make the Euclidean distance of two tokens equal to the Frobenius distance of the two
        embedded matrices: off-diagonal entries of a symmetric matrix are multiplied by sqrt 2,
        since they stand in it twice. (Entries of a triangular matrix stand in it once and are
        left alone.) Off by default, as in the paper.
    floor : Floor
        Least eigenvalue allowed, for the embeddings that decompose.
    """

    isometric: bool = False
    floor: Floor = DEFAULT_FLOOR

    name: ClassVar[str]
    #: Whether ``embed`` gives an upper triangular matrix instead of a symmetric one.
    triangular: ClassVar[bool] = False
    #: Whether ``fit`` must see training matrices first.
    needs_fit: ClassVar[bool] = False
    #: Whether it must see their labels too.
    needs_labels: ClassVar[bool] = False

    @abstractmethod
    def embed(self, C: Tensor) -> Tensor:
        """SPD matrices to the matrices whose upper triangle is the token."""

    def embed_token(self, C: Tensor) -> Tensor:
        """SPD matrices to tokens; spectral embeddings do it in one step."""
        M = self.embed(C)
        if self.triangular:  # a symmetric matrix with the same upper triangle
            return vech(M + M.triu(1).mT)
        return vech(M, isometric=self.isometric)

    @abstractmethod
    def unembed(self, M: Tensor) -> Tensor:
        """Inverse of :meth:`embed`."""

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Return an embedding fitted to training matrices (n, d, d) or (n, tokens, d, d).

        Most embeddings have nothing to fit and return themselves; few look at labels ``y`` (n,).
        """
        return self

    @numpy_too
    def to_token(self, C: Tensor) -> Tensor:
        """Tokens (..., d (d + 1) / 2) of SPD matrices (..., d, d)."""
        check_square(C)
        return self.embed_token(C)

    @numpy_too
    def from_token(self, token: Tensor) -> Tensor:
        """SPD matrices (..., d, d) of tokens: exact inverse of :meth:`to_token` on its image.

        A vector outside the image, which no SPD matrix has as its token, gives a matrix too, but
        not one whose token it is.
        """
        matrix_dim(token.shape[-1])
        if self.triangular:
            return self.unembed(unvech(token).triu())
        return self.unembed(unvech(token, isometric=self.isometric))


def symmetric_part(C: Tensor) -> Tensor:
    """``(C + C') / 2``."""
    return 0.5 * (C + C.mT)


def check_fitted_shape(what: str, fitted: Tensor, C: Tensor) -> None:
    """Refuse matrices (..., d, d) of another size, or number a trial, than were fitted to.

    Parameters
    ----------
    what : str
        Name of what was fitted, of shape (..., d) or (tokens, ..., d).
    """
    d = fitted.shape[-1]
    if d != C.shape[-1]:
        raise ValueError(
            f"The {what} was fitted to {d} x {d} matrices, got {C.shape[-1]} x {C.shape[-1]}."
        )
    if fitted.ndim == 3 and (C.ndim < 3 or C.shape[-3] != len(fitted)):
        raise ValueError(
            f"The {what} was fitted to {len(fitted)} tokens a trial: expected matrices "
            f"(..., {len(fitted)}, d, d), got {tuple(C.shape)}."
        )
