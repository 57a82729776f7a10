"""Embeddings of SPD matrices into tokens, in torch, by name.

To add one: a subclass of :class:`Embedding` in any file, and its class in ``EMBEDDINGS``. The
command line and the contract tests pick it up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from spdtokens._labels import as_labels
from spdtokens.errors import UserError
from spdtokens.geometry.alignment import riemannian_mean
from spdtokens.geometry.matrix_functions import (
    DEFAULT_FLOOR,
    LOG,
    SQRT,
    Floor,
    as_tensor,
    expm,
    logm,
    numpy_too,
    spectral,
    sqrtm,
    unvech,
    vech,
)
from spdtokens.geometry.tokens import class_filters, principal_axes
from spdtokens.geometry.validation import check_spd, check_square
from spdtokens.runtime.tokens import inverse_root


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

    @abstractmethod
    def embed(self, C: Tensor) -> Tensor:
        """SPD matrices to the matrices whose upper triangle is the token."""

    @abstractmethod
    def unembed(self, M: Tensor) -> Tensor:
        """Inverse of :meth:`embed`."""

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Return an embedding fitted to training matrices (n, d, d) or (n, tokens, d, d).

        Most embeddings have nothing to fit and return themselves; few look at labels ``y`` (n,).
        With tokens, each token gets a reference, or filters, of its own.
        """
        return self

    @numpy_too
    def to_token(self, C: Tensor) -> Tensor:
        """Tokens (..., d (d + 1) / 2) of SPD matrices (..., d, d)."""
        check_square(C)
        M = self.embed(C)
        if self.triangular:  # a symmetric matrix with the same upper triangle
            return vech(M + M.triu(1).mT)
        return vech(M, isometric=self.isometric)

    @numpy_too
    def from_token(self, token: Tensor) -> Tensor:
        """SPD matrices (..., d, d) of tokens: exact inverse of :meth:`to_token` on its image.

        A vector outside the image, which no SPD matrix has as its token, gives a matrix too, but
        not one whose token it is.
        """
        if self.triangular:
            return self.unembed(unvech(token).triu())
        return self.unembed(unvech(token, isometric=self.isometric))

    def _fitted(self, found: Tensor | None, C: Tensor) -> Tensor:
        """What was found by ``fit``, (..., d) or (tokens, ..., d), if it fits matrices ``C``."""
        if found is None:
            raise RuntimeError(
                f"The {self.name} embedding is not fitted: call `fit` with training matrices "
                "(never test ones) and use the embedding it returns."
            )
        shape = (*found.shape[:-2], found.shape[-1])
        if shape != tuple(C.shape[-1 - len(shape) : -1]):
            raise ValueError(
                f"The {self.name} embedding was fitted to matrices "
                f"(..., {', '.join(map(str, (*shape, shape[-1])))}), got {tuple(C.shape)}."
            )
        return found.to(C.device)


def _training(C: Any) -> Any:
    """Training matrices (n, ..., d, d) as an array."""
    C = as_tensor(C).detach().double()
    check_spd(C)
    if C.ndim not in (3, 4):
        raise ValueError(
            f"Expected training matrices (n, d, d) or (n, tokens, d, d), got {tuple(C.shape)}."
        )
    return C.cpu().numpy()


@dataclass(frozen=True)
class Euclidean(Embedding):
    """``triu(C)``: the paper's Euclidean baseline. Isometric tokens carry the Frobenius distance.

    Scale law: ``to_token(s C) = s to_token(C)``.
    """

    name: ClassVar[str] = "euclidean"

    def embed(self, C: Tensor) -> Tensor:
        return 0.5 * (C + C.mT)

    def unembed(self, M: Tensor) -> Tensor:
        return M


@dataclass(frozen=True)
class BuresWasserstein(Embedding):
    """``triu(sqrt C)``: the paper's BWSPD.

    Token distances are within sqrt 2 of Bures-Wasserstein distances.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)``.
    """

    name: ClassVar[str] = "bures_wasserstein"

    def embed(self, C: Tensor) -> Tensor:
        return sqrtm(C, floor=self.floor)

    def unembed(self, M: Tensor) -> Tensor:
        return (M.double() @ M.double()).to(M.dtype)


@dataclass(frozen=True)
class LogEuclidean(Embedding):
    """``triu(log C)``. Isometric tokens carry the log-Euclidean distance exactly.

    Scale law: ``to_token(s C) = to_token(C) + log(s) to_token(e I)``.
    """

    name: ClassVar[str] = "log_euclidean"

    def embed(self, C: Tensor) -> Tensor:
        return logm(C, floor=self.floor)

    def unembed(self, M: Tensor) -> Tensor:
        return expm(M)


def _upper_cholesky(C: Tensor) -> Tensor:
    """Upper triangular ``U`` with positive diagonal and ``C = U' U``, computed in float64."""
    S = C.double()
    L, info = torch.linalg.cholesky_ex(0.5 * (S + S.mT))
    if bool((info != 0).any()):
        check_spd(C)  # names the culprit
        raise torch.linalg.LinAlgError("The Cholesky factorisation failed.")
    return L.mT


def _with_diagonal(M: Tensor, diagonal: Tensor) -> Tensor:
    """The strict upper triangle of ``M`` with a diagonal (..., d)."""
    return M.triu(1) + torch.diag_embed(diagonal)


@dataclass(frozen=True)
class Cholesky(Embedding):
    """``U``, the upper Cholesky factor. Needs no eigendecomposition, depends on channel order.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)``.
    """

    name: ClassVar[str] = "cholesky"
    triangular: ClassVar[bool] = True

    def embed(self, C: Tensor) -> Tensor:
        return _upper_cholesky(C).to(C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        U = M.double()
        return (U.mT @ U).to(M.dtype)


@dataclass(frozen=True)
class LogCholesky(Embedding):
    """The upper Cholesky factor with the logarithm of its diagonal (Lin 2019).

    The token distance is the log-Cholesky distance, a Riemannian metric with closed-form means.
    Every vector is the token of an SPD matrix.

    Scale law: off-diagonal entries times ``sqrt(s)``, diagonal entries plus ``log(s) / 2``.
    """

    name: ClassVar[str] = "log_cholesky"
    triangular: ClassVar[bool] = True

    def embed(self, C: Tensor) -> Tensor:
        U = _upper_cholesky(C)
        return _with_diagonal(U, U.diagonal(dim1=-2, dim2=-1).log()).to(C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        U = M.double()
        U = _with_diagonal(U, U.diagonal(dim1=-2, dim2=-1).exp())
        return (U.mT @ U).to(M.dtype)


@dataclass(frozen=True)
class AtReference(Embedding):
    """A function of ``W C W'`` with ``W R W' = I``, the Riemannian mean ``R`` of training matrices.

    The reference never changes with gradients.
    """

    needs_fit: ClassVar[bool] = True

    reference: Tensor | None = field(default=None, compare=False, repr=False)
    #: What whitens the reference, found once.
    _whitener: Tensor | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.reference is not None:
            W = self.whitening(self.reference.detach().double().cpu().numpy())
            object.__setattr__(self, "_whitener", torch.from_numpy(W).to(self.reference.device))

    def whitening(self, R: Any) -> Any:
        """A matrix ``W`` with ``W R W' = I``: the inverse square root."""
        return inverse_root(R)

    def whitened(self, C: Tensor) -> Tensor:
        """``W C W'`` in float64."""
        W = self._fitted(self._whitener, C)
        return W @ C.double() @ W.mT

    def unwhitened(self, A: Tensor) -> Tensor:
        """Inverse of :meth:`whitened`."""
        back = torch.linalg.inv(self._fitted(self._whitener, A))
        return back @ A @ back.mT

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        mean = torch.from_numpy(riemannian_mean(_training(C)))
        return replace(self, reference=mean.to(as_tensor(C).device))


@dataclass(frozen=True)
class AffineInvariant(AtReference):
    """``triu(log(R^-1/2 C R^-1/2))``: the tangent space of the affine-invariant metric at ``R``.

    The token of the reference ``R`` itself is zero. Isometric tokens have the affine-invariant
    distance to ``R`` as their norm (pyRiemann's ``TangentSpace`` gives the same vectors).

    Scale law: ``to_token(s C) = to_token(C) + log(s) I`` at a fixed reference; no change at all
    when the reference is fitted to the scaled matrices.
    """

    name: ClassVar[str] = "affine_invariant"

    def embed(self, C: Tensor) -> Tensor:
        return spectral(self.whitened(C), LOG, floor=self.floor, dtype=C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        return self.unwhitened(expm(M.double())).to(M.dtype)


@dataclass(frozen=True)
class WhitenedRoot(AtReference):
    """``triu(sqrt(R^-1/2 C R^-1/2))``: square roots as seen from ``R``.

    Near ``R`` it is ``I`` plus half the token of :class:`AffineInvariant`, to first order. Farther
    away it grows as a square root instead of a logarithm: small eigenvalues, which noise and the
    number of samples decide, weigh less.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)`` at a fixed reference; no change at all when
    the reference is fitted to the scaled matrices.
    """

    name: ClassVar[str] = "whitened_root"

    def embed(self, C: Tensor) -> Tensor:
        return spectral(self.whitened(C), SQRT, floor=self.floor, dtype=C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        return self.unwhitened(M.double() @ M.double()).to(M.dtype)


@dataclass(frozen=True)
class PrincipalCorrelation(AtReference):
    """How each principal direction goes with the stronger ones, and the logarithm of what is left.

    Along the principal directions of the reference, strongest first, a matrix is ``U' U`` with
    ``U`` upper triangular. Column ``i`` tells the ``i``-th direction from those before it: on the
    diagonal the logarithm of the deviation that these do not explain, above it the parts that
    they do, over the deviation of the direction (semipartial correlations).

    What leaks from strong directions into weak ones, as when the cap sits a degree farther,
    changes the columns of the weak ones only. In the logarithm of the matrix it changes all
    entries.

    Scale law: diagonal entries plus ``log(s) / 2`` at a fixed reference, the rest unchanged; no
    change at all when the reference is fitted to the scaled matrices.
    """

    name: ClassVar[str] = "principal_correlation"
    triangular: ClassVar[bool] = True

    def whitening(self, R: Any) -> Any:
        return principal_axes(R)

    def embed(self, C: Tensor) -> Tensor:
        U = _upper_cholesky(self.whitened(C))
        logs = U.diagonal(dim1=-2, dim2=-1).log()
        return _with_diagonal(U / U.norm(dim=-2, keepdim=True), logs).to(C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        parts = M.double().triu(1)
        left = M.double().diagonal(dim1=-2, dim2=-1).exp()
        deviation = left / (1 - (parts**2).sum(-2)).sqrt()
        U = _with_diagonal(parts * deviation[..., None, :], left)
        return self.unwhitened(U.mT @ U).to(M.dtype)


@dataclass(frozen=True)
class ClassFilters(Embedding):
    """``triu(log(F C F'))`` with spatial filters ``F`` of the classes, fitted on training trials.

    The ``k`` filters are common spatial patterns of each class against all. The token is as long
    as that of any other embedding, with zeros for what is beyond the ``k x k`` matrix; with fewer
    filters than channels no matrix can be had back from it.

    Scale law: ``to_token(s C) = to_token(C) + log(s) I`` within the ``k x k`` matrix, at fixed
    filters, which do not depend on the scale of trials.
    """

    name: ClassVar[str] = "class_filters"
    needs_fit: ClassVar[bool] = True

    filters: Tensor | None = field(default=None, compare=False, repr=False)

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:
        made = class_filters(_training(C), as_labels(y, len(C), who="'class_filters'"))
        return replace(self, filters=torch.from_numpy(made).to(as_tensor(C).device))

    def embed(self, C: Tensor) -> Tensor:
        F = self._fitted(self.filters, C)
        logs = spectral(F @ C.double() @ F.mT, LOG, floor=self.floor, dtype=C.dtype)
        beyond = C.shape[-1] - F.shape[-2]
        return pad(logs, (0, beyond, 0, beyond))

    def unembed(self, M: Tensor) -> Tensor:
        raise NotImplementedError(
            "Matrices cannot be had back from tokens of 'class_filters': what no filter passes is "
            "not in them."
        )


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
    known = EMBEDDINGS | SUPERVISED
    if name not in known:
        raise UserError(f"There is no embedding {name!r}. Choose from: {', '.join(known)}.")
    return known[name](**options)


@dataclass(frozen=True)
class StackedEmbedding:
    """Tokens of the first embedding for all of a trial's matrices, then of the second, and so on.

    Parameters
    ----------
    members : tuple of Embedding
    """

    members: tuple[Embedding, ...]

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:
        """Return a copy fitted to training matrices (n, tokens, d, d) and labels (n,)."""
        return replace(self, members=tuple(member.fit(C, y) for member in self.members))

    @numpy_too
    def to_token(self, C: Tensor) -> Tensor:
        """Tokens (..., members * tokens, d (d + 1) / 2) of SPD matrices (..., tokens, d, d)."""
        return torch.cat([member.to_token(C) for member in self.members], dim=-2)
