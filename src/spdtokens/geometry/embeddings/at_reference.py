"""Tokens at a reference fitted on training data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pyriemann.geometry.mean import gmean
from torch import Tensor

from spdtokens.geometry.arrays import as_tensor
from spdtokens.geometry.embeddings.base import Embedding, check_fitted_shape
from spdtokens.geometry.karcher import riemannian_mean
from spdtokens.geometry.matrix_functions import LOG, SQRT, expm, invsqrtm, spectral, sqrtm
from spdtokens.geometry.validation import check_spd


@dataclass(frozen=True)
class AtReference(Embedding):
    """A function of ``W C W'`` with ``W R W' = I``, a reference ``R`` fitted on training matrices.

    Parameters
    ----------
    metric : str
        Mean of the training matrices to use as reference, any that pyRiemann's ``gmean`` knows.
    """

    needs_fit: ClassVar[bool] = True

    metric: str = "riemann"
    reference: Tensor | None = field(default=None, compare=False, repr=False)
    #: What whitens the reference, found once.
    _whitener: Tensor | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.reference is not None:
            object.__setattr__(self, "_whitener", self.whitening(self.reference))

    def whitening(self, R: Tensor) -> Tensor:
        """A matrix ``W`` with ``W R W' = I``: the inverse square root."""
        return invsqrtm(R)

    def whitened(self, C: Tensor) -> Tensor:
        """``W C W'`` in float64."""
        self._reference(C)
        assert self._whitener is not None
        W = self._whitener.to(C.device)
        return W @ C.double() @ W.mT

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Return a copy with the mean of training matrices as reference.

        Parameters
        ----------
        C : Tensor or ndarray, shape (n, d, d) or (n, tokens, d, d)
            With tokens, each token gets a reference of its own.
        y : ignored
        """
        C = as_tensor(C).detach().double()
        check_spd(C)
        if C.ndim not in (3, 4):
            raise ValueError(
                f"Expected training matrices (n, d, d) or (n, tokens, d, d), got {tuple(C.shape)}."
            )
        matrices = C.cpu().numpy()
        if self.metric == "riemann":  # all tokens at once, in half of pyRiemann's time
            mean = riemannian_mean(matrices[:, None] if C.ndim == 3 else matrices)
            mean = mean[0] if C.ndim == 3 else mean
        elif C.ndim == 3:
            mean = self._mean(matrices)
        else:
            mean = np.stack([self._mean(matrices[:, i]) for i in range(C.shape[1])])
        return replace(self, reference=torch.as_tensor(mean, device=C.device))

    def _mean(self, C: NDArray[np.float64]) -> NDArray[np.float64]:
        # pyRiemann's stopping rule is absolute, so the unit is taken out first.
        scale = np.trace(C, axis1=-2, axis2=-1).mean() / C.shape[-1]
        return np.asarray(gmean(C / scale, metric=self.metric)) * scale

    def _reference(self, like: Tensor) -> Tensor:
        if self.reference is None:
            raise RuntimeError(
                f"The {self.name} embedding needs a reference: call `fit` with training "
                "matrices (never test ones) and use the embedding it returns."
            )
        R = self.reference
        check_fitted_shape("reference", R, like)
        return R.to(like.device)


@dataclass(frozen=True)
class AffineInvariant(AtReference):
    """``triu(log(R^-1/2 C R^-1/2))``: the tangent space of the affine-invariant metric at ``R``.

    The token of the reference ``R`` itself is zero. Isometric tokens have the affine-invariant
    distance to ``R`` as their norm (pyRiemann's ``TangentSpace`` gives the same vectors).

    Scale law: ``to_token(s C) = to_token(C) + log(s) I`` at a fixed reference; no change at all
    when the reference is fitted to the scaled matrices.

    Parameters
    ----------
    metric : str
        Mean of the training matrices to use as reference, any that pyRiemann's ``gmean`` knows.
    """

    name: ClassVar[str] = "affine_invariant"

    def embed(self, C: Tensor) -> Tensor:
        return spectral(self.whitened(C), LOG, floor=self.floor, dtype=C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        R = sqrtm(self._reference(M))
        return (R @ expm(M.double()) @ R).to(M.dtype)


@dataclass(frozen=True)
class WhitenedRoot(AtReference):
    """``triu(sqrt(R^-1/2 C R^-1/2))``: square roots as seen from ``R``.

    Near ``R`` it is ``I`` plus half the token of :class:`AffineInvariant`, to first order. Farther
    away it grows as a square root instead of a logarithm: small eigenvalues, which noise and the
    number of samples decide, weigh less.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)`` at a fixed reference; no change at all when
    the reference is fitted to the scaled matrices.

    Parameters
    ----------
    metric : str
        Mean of the training matrices to use as reference, any that pyRiemann's ``gmean`` knows.
    """

    name: ClassVar[str] = "whitened_root"

    def embed(self, C: Tensor) -> Tensor:
        return spectral(self.whitened(C), SQRT, floor=self.floor, dtype=C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        R = sqrtm(self._reference(M))
        root = M.double()
        return (R @ root @ root @ R).to(M.dtype)
