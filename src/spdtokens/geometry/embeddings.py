"""Embeddings of SPD matrices into tokens, in torch, by name.

To add one, write a subclass of :class:`Embedding` and enter its class in ``EMBEDDINGS``. The
command line and the contract tests then find it.
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
    """Base class of embeddings, which map SPD matrices to tokens.

    A token is the upper triangle, in row-major order, of a matrix function ``embed(C)``. All
    embeddings but ``'class_filters'`` are one-to-one. Matrices are torch tensors, with gradients,
    or NumPy arrays.

    Parameters
    ----------
    isometric : bool, default=False
        Multiply off-diagonal entries of symmetric matrices by sqrt(2), so that the Euclidean
        distance of two tokens is the Frobenius distance of the embedded matrices. Entries of
        triangular matrices occur once and are not changed.
    floor : Floor, default=Floor()
        Lower bound of eigenvalues, for embeddings that decompose the matrix.

    See Also
    --------
    get_embedding : Make an embedding by name.
    spdtokens.TokenEmbedding : Embeddings as a scikit-learn transformer.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from spdtokens.geometry import Embedding, powm
    >>> @dataclass(frozen=True)
    ... class FourthRoot(Embedding):
    ...     name = "fourth_root"
    ...
    ...     def embed(self, C):
    ...         return powm(C, 0.25)
    ...
    ...     def unembed(self, M):
    ...         return powm(M, 4.0)
    >>> FourthRoot().to_token(16 * np.eye(2))
    array([2., 0., 2.])
    """

    isometric: bool = False
    floor: Floor = DEFAULT_FLOOR

    name: ClassVar[str]
    #: Whether ``embed`` returns upper triangular instead of symmetric matrices.
    triangular: ClassVar[bool] = False
    #: Whether ``fit`` must be called first.
    needs_fit: ClassVar[bool] = False

    @abstractmethod
    def embed(self, C: Tensor) -> Tensor:
        """Map SPD matrices to the matrices whose upper triangles are the tokens.

        Parameters
        ----------
        C : Tensor, shape (..., d, d)
            SPD matrices.

        Returns
        -------
        Tensor, shape (..., d, d)
            Symmetric matrices, or upper triangular ones if ``triangular`` is True.
        """

    @abstractmethod
    def unembed(self, M: Tensor) -> Tensor:
        """Invert :meth:`embed`.

        Parameters
        ----------
        M : Tensor, shape (..., d, d)
            Embedded matrices.

        Returns
        -------
        Tensor, shape (..., d, d)
            SPD matrices.
        """

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Fit the embedding to training matrices.

        Most embeddings have nothing to fit and return themselves. With several matrices per trial,
        each of them has its own reference or filters.

        Parameters
        ----------
        C : Tensor or ndarray, shape (n, d, d) or (n, m, d, d)
            SPD matrices of training trials.
        y : array, shape (n,), default=None
            Labels, for embeddings that use them.

        Returns
        -------
        Embedding
            Fitted copy. The embedding itself is not changed.
        """
        return self

    @numpy_too
    def to_token(self, C: Tensor) -> Tensor:
        """Compute the tokens of SPD matrices.

        Parameters
        ----------
        C : Tensor or ndarray, shape (..., d, d)
            SPD matrices.

        Returns
        -------
        Tensor or ndarray, shape (..., d (d + 1) / 2)
            Tokens.
        """
        check_square(C)
        M = self.embed(C)
        if self.triangular:  # a symmetric matrix with the same upper triangle
            return vech(M + M.triu(1).mT)
        return vech(M, isometric=self.isometric)

    @numpy_too
    def from_token(self, token: Tensor) -> Tensor:
        """Compute SPD matrices from their tokens.

        Parameters
        ----------
        token : Tensor or ndarray, shape (..., d (d + 1) / 2)
            Tokens as computed by :meth:`to_token`.

        Returns
        -------
        Tensor or ndarray, shape (..., d, d)
            SPD matrices. For a vector that is not the token of an SPD matrix, the result is a
            matrix with another token.
        """
        if self.triangular:
            return self.unembed(unvech(token).triu())
        return self.unembed(unvech(token, isometric=self.isometric))

    def _fitted(self, found: Tensor | None, C: Tensor) -> Tensor:
        """Fitted array (..., d) or (m, ..., d), if it matches the matrices ``C``."""
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
            f"Training matrices must have shape (n, d, d) or (n, m, d, d), got {tuple(C.shape)}."
        )
    return C.cpu().numpy()


@dataclass(frozen=True)
class Euclidean(Embedding):
    """``triu(C)``, the paper's Euclidean baseline. Isometric tokens have the Frobenius distance.

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
    """``triu(log C)``. Isometric tokens have the log-Euclidean distance.

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
    """Upper Cholesky factor ``U``. Needs no eigendecomposition; depends on the channel order.

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
    """Upper Cholesky factor with the logarithm of its diagonal (Lin 2019).

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
    """A function of ``W C W'`` with ``W R W' = I``, ``R`` the Riemannian mean of training matrices.

    The reference is constant in gradients.
    """

    needs_fit: ClassVar[bool] = True

    reference: Tensor | None = field(default=None, compare=False, repr=False)
    #: Whitening matrix of the reference.
    _whitener: Tensor | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.reference is not None:
            W = self.whitening(self.reference.detach().double().cpu().numpy())
            object.__setattr__(self, "_whitener", torch.from_numpy(W).to(self.reference.device))

    def whitening(self, R: Any) -> Any:
        """Compute ``W`` with ``W R W' = I``: the inverse square root."""
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

    The token of the reference ``R`` is zero. The norm of an isometric token is the affine-invariant
    distance to ``R``; pyRiemann's ``TangentSpace`` computes the same vectors.

    Scale law: ``to_token(s C) = to_token(C) + log(s) I`` at a fixed reference; no change if the
    reference is fitted to the scaled matrices.
    """

    name: ClassVar[str] = "affine_invariant"

    def embed(self, C: Tensor) -> Tensor:
        return spectral(self.whitened(C), LOG, floor=self.floor, dtype=C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        return self.unwhitened(expm(M.double())).to(M.dtype)


@dataclass(frozen=True)
class WhitenedRoot(AtReference):
    """``triu(sqrt(R^-1/2 C R^-1/2))``: the square root after whitening by ``R``.

    Near ``R`` it equals ``I`` plus half the token of :class:`AffineInvariant`, to first order.
    Farther away it grows as a square root instead of a logarithm, so small eigenvalues, which are
    dominated by noise and the number of samples, have less influence.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)`` at a fixed reference; no change if the
    reference is fitted to the scaled matrices.
    """

    name: ClassVar[str] = "whitened_root"

    def embed(self, C: Tensor) -> Tensor:
        return spectral(self.whitened(C), SQRT, floor=self.floor, dtype=C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        return self.unwhitened(M.double() @ M.double()).to(M.dtype)


@dataclass(frozen=True)
class PrincipalCorrelation(AtReference):
    """Semipartial correlations along the principal directions of the reference.

    Along the principal directions of the reference, strongest first, a matrix is ``U' U`` with
    ``U`` upper triangular. Column ``i`` regresses direction ``i`` on the stronger ones: the
    diagonal entry is the logarithm of the residual standard deviation, the entries above it are
    semipartial correlations (explained parts divided by the standard deviation of the direction).

    Leakage from strong directions into weak ones, for example after a small shift of the cap,
    changes only the columns of the weak ones. In the logarithm of the matrix it changes all
    entries.

    Scale law: diagonal entries plus ``log(s) / 2`` at a fixed reference, the rest unchanged; no
    change if the reference is fitted to the scaled matrices.
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
    """``triu(log(F C F'))`` with spatial filters ``F`` of the classes, fitted to training trials.

    The ``k`` filters are common spatial patterns of each class against all. The token has the usual
    length, with zeros outside the ``k x k`` matrix; it has no inverse if there are fewer filters
    than channels.

    Scale law: ``to_token(s C) = to_token(C) + log(s) I`` within the ``k x k`` matrix, at fixed
    filters. The filters do not depend on the scale of trials.
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
            "Tokens of 'class_filters' have no inverse: they contain only what the filters pass."
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
#: Embeddings that use labels and are not one-to-one.
SUPERVISED: dict[str, type[Embedding]] = {ClassFilters.name: ClassFilters}


def get_embedding(name: str, **options: Any) -> Embedding:
    """Make an embedding by name.

    A token is the upper triangle of one of these matrices:

    - ``'bures_wasserstein'``: square root, the paper's BWSPD.
    - ``'log_euclidean'``: logarithm [1]_.
    - ``'euclidean'``: the matrix itself.
    - ``'cholesky'``: upper Cholesky factor.
    - ``'log_cholesky'``: upper Cholesky factor with the logarithm of its diagonal [2]_.
    - ``'affine_invariant'``: logarithm after whitening by the training mean [3]_.
    - ``'whitened_root'``: square root after whitening by the training mean.
    - ``'principal_correlation'``: semipartial correlations along the principal directions of the
      training mean.
    - ``'class_filters'``: logarithm after common spatial patterns of the training trials [4]_.

    Parameters
    ----------
    name : str
        Name in the list, or of an embedding added to ``EMBEDDINGS``.
    **options
        Parameters of :class:`Embedding`: ``isometric``, ``floor``.

    Returns
    -------
    Embedding
        The embedding, not fitted.

    Raises
    ------
    UserError
        If there is no such embedding. The message lists all names.

    See Also
    --------
    spdtokens.TokenEmbedding : Embeddings as a scikit-learn transformer.

    References
    ----------
    .. [1] V. Arsigny, P. Fillard, X. Pennec and N. Ayache, "Geometric means in a novel vector space
       structure on symmetric positive-definite matrices", SIAM J. Matrix Anal. Appl. 29, 328-347,
       2007. https://doi.org/10.1137/050637996
    .. [2] Z. Lin, "Riemannian geometry of symmetric positive definite matrices via Cholesky
       decomposition", SIAM J. Matrix Anal. Appl. 40, 1353-1370, 2019.
       https://doi.org/10.1137/18M1221084
    .. [3] A. Barachant, S. Bonnet, M. Congedo and C. Jutten, "Multiclass brain-computer interface
       classification by Riemannian geometry", IEEE Trans. Biomed. Eng. 59, 920-928, 2012.
       https://doi.org/10.1109/TBME.2011.2172210
    .. [4] B. Blankertz, R. Tomioka, S. Lemm, M. Kawanabe and K.-R. Mueller, "Optimizing spatial
       filters for robust EEG single-trial analysis", IEEE Signal Process. Mag. 25, 41-56, 2008.
       https://doi.org/10.1109/MSP.2008.4408441

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import get_embedding
    >>> get_embedding("bures_wasserstein").to_token(4 * np.eye(2))
    array([2., 0., 2.])
    """
    known = EMBEDDINGS | SUPERVISED
    if name not in known:
        raise UserError(f"There is no embedding {name!r}. Choose from: {', '.join(known)}.")
    return known[name](**options)


@dataclass(frozen=True)
class StackedEmbedding:
    """Tokens of the first embedding for all matrices of a trial, then of the second, and so on.

    Parameters
    ----------
    members : tuple of Embedding
        Embeddings in the order of their tokens.
    """

    members: tuple[Embedding, ...]

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:
        """Return a copy fitted to training matrices (n, m, d, d) and labels (n,)."""
        return replace(self, members=tuple(member.fit(C, y) for member in self.members))

    @numpy_too
    def to_token(self, C: Tensor) -> Tensor:
        """Compute tokens (..., members * m, d (d + 1) / 2) of SPD matrices (..., m, d, d)."""
        return torch.cat([member.to_token(C) for member in self.members], dim=-2)
