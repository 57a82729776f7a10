"""Functions of symmetric matrices for torch's autograd, with exact gradients.

One primitive, :func:`spectral`, applies a scalar function to the eigenvalues; the named matrix
functions stand on it. All take NumPy arrays too, and then return arrays. The mathematics is in
:mod:`~spdtokens.spd.daleckii_krein` and :mod:`~spdtokens.spd.scalar_functions`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from spdtokens.spd.arrays import numpy_too
from spdtokens.spd.batching import batch_first
from spdtokens.spd.daleckii_krein import Plan, apply_derivative, apply_function
from spdtokens.spd.floor import DEFAULT_FLOOR, Floor
from spdtokens.spd.parallel import in_parts
from spdtokens.spd.scalar_functions import (
    EXP,
    INV_SQRT,
    LOG,
    SQRT,
    SpectralFunction,
    power_function,
)
from spdtokens.spd.triangle import off_diagonal_weight, weighted_vech
from spdtokens.spd.validation import check_square, noise_level, refuse_indefinite

#: Entries of a batch from which elementwise work is shared among threads, not only the
#: eigendecomposition.
_SHARED_FROM = 1 << 17


class _Derivative(torch.autograd.Function):
    """The derivative as a function of its own: maps over batches, refuses to be derived again.

    ``C`` is an argument although only its decomposition is used: were it not, a second derivative
    would silently lack the part that comes from the eigenvectors.
    """

    @staticmethod
    def forward(
        C: Tensor, eigenvalues: Tensor, V: Tensor, G: Tensor, plan: Plan, adjoint: bool
    ) -> Tensor:
        d = V.shape[-1]
        core = G.shape[-1:] if plan.weight is not None else G.shape[-2:]
        # Leading axes differ only where vmap maps over some of the arguments.
        batch = torch.broadcast_shapes(V.shape[:-2], G.shape[: G.ndim - len(core)])
        (out,) = in_parts(
            lambda lam, V, G: (apply_derivative(lam, V, G, plan, adjoint=adjoint),),
            eigenvalues.expand(*batch, d).reshape(-1, d),
            V.expand(*batch, d, d).reshape(-1, d, d),
            G.expand(*batch, *core).reshape(-1, *core),
            shared_from=_SHARED_FROM,
        )
        return out.reshape(*batch, d, d)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.name = inputs[4].f.name

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(
            f"Second derivatives of the matrix {ctx.name} are not available: the exact gradient "
            "of a spectral function can be taken once. Detach the gradient before using it in a "
            "loss, or use finite differences of the gradient for a Hessian."
        )

    jvp = backward

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> tuple[Tensor, int]:
        tensors = [batch_first(x, dim) for x, dim in zip(args[:4], in_dims[:4], strict=True)]
        return _Derivative.apply(*tensors, *args[4:]), 0


class _Spectral(torch.autograd.Function):
    @staticmethod
    def forward(C: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
        d = C.shape[-1]
        value, eigenvalues, V = in_parts(
            lambda part: apply_function(part, plan), C.reshape(-1, d, d), shared_from=_SHARED_FROM
        )
        if plan.f.positive_domain and not bool((eigenvalues[:, 0] > 0).all()):
            refuse_indefinite(eigenvalues.reshape(C.shape[:-1]), noise_level(d, plan.dtype))
        batch = C.shape[:-2]
        return (
            value.reshape(*batch, *value.shape[1:]),
            eigenvalues.reshape(C.shape[:-1]),
            V.reshape(C.shape),
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Plan], output: tuple[Tensor, ...]) -> None:
        C, ctx.plan = inputs
        _, eigenvalues, V = output
        ctx.mark_non_differentiable(eigenvalues, V)
        ctx.save_for_backward(C, eigenvalues, V)
        ctx.save_for_forward(C, eigenvalues, V)

    @staticmethod
    def backward(ctx: Any, G: Tensor, *_: Any) -> tuple[Tensor, None]:
        C, eigenvalues, V = ctx.saved_tensors
        return _Derivative.apply(C, eigenvalues, V, G, ctx.plan, True).to(C.dtype), None

    @staticmethod
    def jvp(ctx: Any, dC: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        C, eigenvalues, V = ctx.saved_tensors
        out = _Derivative.apply(C, eigenvalues, V, dC, replace(ctx.plan, weight=None), False)
        if ctx.plan.weight is not None:
            out = weighted_vech(out, ctx.plan.weight)
        return out.to(ctx.plan.dtype), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, C: Tensor, plan: Plan) -> tuple:
        return _Spectral.apply(batch_first(C, in_dims[0]), plan), (0, 0, 0)


@numpy_too
def spectral(
    C: Tensor,
    f: SpectralFunction,
    *,
    floor: Floor = DEFAULT_FLOOR,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Apply a scalar function to the eigenvalues of symmetric matrices.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        Symmetric matrices; the symmetric part of the input is used. Where ``f`` has a positive
        domain, positive definite.
    f : SpectralFunction
        For example :data:`~spdtokens.spd.scalar_functions.LOG`.
    floor : Floor
        The least eigenvalue allowed, for functions with a positive domain.
    dtype : torch.dtype, optional
        Precision in which the entries of ``C`` are known, and dtype of the result; that of ``C``
        by default. Say float32 where ``C`` was computed in float64 from float32 data.

    Returns
    -------
    fC : Tensor or ndarray, shape (..., d, d)
        Differentiable once, in backward and forward mode, exact at repeated eigenvalues.

    Raises
    ------
    NotSPDError
        If ``f`` needs positive eigenvalues and one is negative beyond rounding noise, or if an
        entry is not finite.
    """
    check_square(C)
    return _Spectral.apply(C, Plan(f, floor, dtype or C.dtype))[0]


@numpy_too
def spectral_token(
    C: Tensor,
    f: SpectralFunction,
    *,
    isometric: bool = False,
    floor: Floor = DEFAULT_FLOOR,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``vech(spectral(C, f), isometric=isometric)`` in one step, without the matrix between.

    Returns
    -------
    token : Tensor or ndarray, shape (..., d (d + 1) / 2)
    """
    check_square(C)
    plan = Plan(f, floor, dtype or C.dtype, off_diagonal_weight(isometric))
    return _Spectral.apply(C, plan)[0]


@numpy_too
def sqrtm(C: Tensor, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Matrix square root of SPD matrices, shape (..., d, d)."""
    return spectral(C, SQRT, floor=floor)


@numpy_too
def invsqrtm(C: Tensor, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Inverse matrix square root of SPD matrices, shape (..., d, d)."""
    return spectral(C, INV_SQRT, floor=floor)


@numpy_too
def logm(C: Tensor, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Matrix logarithm of SPD matrices, shape (..., d, d)."""
    return spectral(C, LOG, floor=floor)


@numpy_too
def expm(S: Tensor) -> Tensor:
    """Matrix exponential of symmetric matrices, shape (..., d, d)."""
    return spectral(S, EXP)


@numpy_too
def powm(C: Tensor, p: float, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Real power of SPD matrices, shape (..., d, d)."""
    return spectral(C, power_function(p), floor=floor)
