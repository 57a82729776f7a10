"""Symmetric matrix <-> vector of its upper triangle, in row-major order.

The token of a matrix ``M`` lists ``M[0, 0], M[0, 1], ..., M[0, d-1], M[1, 1], ...``: the order of
``numpy.triu_indices``. Entry ``(i, j)`` with ``1 <= i <= j <= d`` (the paper's one-based counting)
lands at ``k = (i - 1) (2 d - i) / 2 + j``; the paper prints ``i (i - 1) / 2 + j``, which sends
several entries to one place (see ``spdtokens theory``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from spdtokens.geometry.arrays import batch_first, numpy_too


def token_dim(d: int) -> int:
    """Length ``d (d + 1) / 2`` of the token of a ``d x d`` matrix."""
    return d * (d + 1) // 2


def matrix_dim(n_features: int) -> int:
    """Size ``d`` of the matrix whose token has ``n_features`` entries.

    Raises
    ------
    ValueError
        If ``n_features`` is not a triangular number.
    """
    d = (math.isqrt(8 * n_features + 1) - 1) // 2
    if n_features < 1 or token_dim(d) != n_features:
        raise ValueError(
            f"A token of {n_features} features does not belong to a square matrix: d(d+1)/2 is "
            f"{token_dim(d)} for d={d} and {token_dim(d + 1)} for d={d + 1}. "
            "Pass whole tokens, with the features on the last axis."
        )
    return d


@lru_cache(maxsize=64)
def triangle_indices(d: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Index tables of the upper triangle of a ``d x d`` matrix.

    Returns
    -------
    take : Tensor, shape (d (d + 1) / 2,)
        Position in the flattened matrix of every token entry.
    give : Tensor, shape (d * d,)
        Position in the token of every entry of the flattened symmetric matrix.
    diagonal : Tensor of bool, shape (d (d + 1) / 2,)
        Which token entries lie on the diagonal.
    """
    row, col = torch.triu_indices(d, d, device=device)
    take = row * d + col
    give = torch.empty(d, d, dtype=torch.long, device=device)
    order = torch.arange(len(take), device=device)
    give[row, col] = order
    give[col, row] = order
    return take, give.reshape(-1), row == col


@lru_cache(maxsize=64)
def _token_weights(weight: float, d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Token-shaped weights: 1 on the diagonal, ``weight`` off it."""
    weights = torch.full((token_dim(d),), weight, dtype=dtype, device=device)
    weights[triangle_indices(d, device)[2]] = 1.0
    return weights


def _weighted(token: Tensor, weight: float) -> Tensor:
    if weight == 1.0:
        return token
    return token * _token_weights(weight, matrix_dim(token.shape[-1]), token.dtype, token.device)


def gather_triangle(M: Tensor, weight: float) -> Tensor:
    """Upper triangle of matrices (..., d, d), off-diagonal entries times ``weight``."""
    d = M.shape[-1]
    token = _pick(M.reshape(*M.shape[:-2], d * d), triangle_indices(d, M.device)[0])
    return _weighted(token, weight)


def scatter_triangle(token: Tensor, weight: float) -> Tensor:
    """Symmetric matrices of tokens, off-diagonal entries times ``weight``."""
    d = matrix_dim(token.shape[-1])
    flat = _pick(_weighted(token, weight), triangle_indices(d, token.device)[1])
    return flat.reshape(*token.shape[:-1], d, d)


def _pick(x: Tensor, places: Tensor) -> Tensor:
    """``x[..., places]``; gather is several times faster than indexing here."""
    return x.gather(-1, places.expand(*x.shape[:-1], -1))


class _Vech(torch.autograd.Function):
    """Upper triangle of symmetric matrices; the gradient is spread over both triangles.

    PyTorch's own indexing has the slow scatter-add as its backward, and would put the gradient in
    the upper triangle only. The vech of a *symmetric* matrix has a symmetric gradient.
    """

    @staticmethod
    def forward(M: Tensor, weight: float) -> Tensor:
        return gather_triangle(M, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.weight = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Unvech.apply(grad, 0.5 * ctx.weight), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _Vech.apply(0.5 * (tangent + tangent.mT), ctx.weight)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, None], M: Tensor, weight: float
    ) -> tuple[Tensor, int]:
        return _Vech.apply(batch_first(M, in_dims[0]), weight), 0


class _Unvech(torch.autograd.Function):
    """Symmetric matrix of a token, off-diagonal entries times ``weight``."""

    @staticmethod
    def forward(token: Tensor, weight: float) -> Tensor:
        return scatter_triangle(token, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.weight = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Each off-diagonal token entry stands twice in the matrix.
        return _Vech.apply(0.5 * (grad + grad.mT), 2.0 * ctx.weight), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _Unvech.apply(tangent, ctx.weight)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, None], token: Tensor, weight: float
    ) -> tuple[Tensor, int]:
        return _Unvech.apply(batch_first(token, in_dims[0]), weight), 0


def off_diagonal_weight(isometric: bool) -> float:
    """What off-diagonal entries are multiplied by: sqrt 2 makes vech keep the Frobenius norm."""
    return math.sqrt(2.0) if isometric else 1.0


def weighted_vech(M: Tensor, weight: float) -> Tensor:
    """:func:`vech` with off-diagonal entries times any ``weight``."""
    return _Vech.apply(M, weight)


@numpy_too
def vech(M: Tensor, *, isometric: bool = False) -> Tensor:
    """Upper triangle of symmetric matrices as vectors.

    Parameters
    ----------
    M : Tensor or ndarray, shape (..., d, d)
        Symmetric matrices; only the upper triangle is read.
    isometric : bool
        Multiply off-diagonal entries by sqrt 2, so that the Euclidean norm of the vector is the
        Frobenius norm of the matrix. The paper's ``vech`` does not.

    Returns
    -------
    token : Tensor or ndarray, shape (..., d (d + 1) / 2)
    """
    return weighted_vech(M, off_diagonal_weight(isometric))


@numpy_too
def unvech(token: Tensor, *, isometric: bool = False) -> Tensor:
    """Inverse of :func:`vech`.

    Parameters
    ----------
    token : Tensor or ndarray, shape (..., d (d + 1) / 2)
    isometric : bool
        Whether the token was made with ``isometric=True``.

    Returns
    -------
    M : Tensor or ndarray, shape (..., d, d)
        Symmetric matrices.
    """
    return _Unvech.apply(token, 1.0 / off_diagonal_weight(isometric))
