"""Functions of symmetric matrices for torch's autograd, with exact gradients.

One primitive, :func:`spectral`, applies a scalar function to the eigenvalues; the named matrix
functions stand on it. :func:`vech` lists the upper triangle of a matrix, its token, in row-major
order: ``M[0, 0], M[0, 1], ..., M[0, d-1], M[1, 1], ...``, as ``numpy.triu_indices`` does. (Entry
``(i, j)`` with ``1 <= i <= j <= d``, the paper's one-based counting, lands at
``k = (i - 1) (2 d - i) / 2 + j``; the paper prints ``i (i - 1) / 2 + j``, which sends several
entries to one place.) All functions take NumPy arrays too, and then return arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spdtokens.geometry.validation import check_finite, check_square, refuse_indefinite
from spdtokens.runtime.threads import one_thread, share_out

#: Entries of the part of a batch that one thread works on at a time: 256 kB of float64 in each
#: temporary array, which stay in the cache between two elementwise steps.
PART_ENTRIES = 1 << 15


def as_tensor(x: Any) -> Any:
    """A tensor that shares memory with the array where it can; anything else unchanged."""
    if not isinstance(x, np.ndarray):
        return x
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    # torch has no negative strides and warns of read-only memory.
    return torch.from_numpy(x if x.flags.writeable and min(x.strides, default=0) >= 0 else x.copy())


def numpy_too(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of tensors take NumPy arrays, and then return NumPy arrays."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if not any(isinstance(x, np.ndarray) for x in given):
            return function(*args, **kwargs)
        if any(isinstance(x, Tensor) for x in given):
            raise TypeError("Mixing NumPy arrays and torch tensors: convert one to the other.")
        with torch.no_grad(), one_thread():
            out = function(*map(as_tensor, args), **{k: as_tensor(x) for k, x in kwargs.items()})
        return out.numpy() if isinstance(out, Tensor) else out

    return wrapper


@one_thread()
def in_parts(kernel: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> tuple[Tensor, ...]:
    """``kernel(*inputs)``, computed part by part along the first axis, several at a time.

    LAPACK decomposes a batch of small matrices one after another, on one core. The parts are the
    same for any number of threads, and so is every bit of the result.

    Parameters
    ----------
    kernel : callable
        From tensors (m, ...) to a tuple of tensors (m, ...), each row on its own.
    *inputs : Tensor, shapes (n, ...)
    """
    n, entries = len(inputs[0]), max(x.numel() for x in inputs)
    if entries <= PART_ENTRIES or not inputs[0].is_cpu:
        return kernel(*inputs)
    size = max(1, PART_ENTRIES * n // entries)
    parts = share_out(
        lambda start: kernel(*(x[start : start + size] for x in inputs)), range(0, n, size)
    )
    return tuple(map(torch.cat, zip(*parts, strict=True)))


# Symmetric matrix <-> vector of its upper triangle.


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
def _triangle(
    d: int, weight: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Places of token entries in the flat matrix, the reverse, and weights of token entries."""
    row, column = torch.triu_indices(d, d, device=device)
    order = torch.arange(len(row), device=device)
    places = torch.empty(d, d, dtype=torch.long, device=device)
    places[row, column] = places[column, row] = order
    weights = torch.full((len(row),), weight, dtype=dtype, device=device)
    weights[row == column] = 1.0
    return row * d + column, places.reshape(-1), weights


def _pick(x: Tensor, places: Tensor) -> Tensor:
    """``x[..., places]``; gather is several times faster than indexing here."""
    return x.gather(-1, places.expand(*x.shape[:-1], -1))


def _gather(M: Tensor, weight: float) -> Tensor:
    """Upper triangle of matrices (..., d, d), off-diagonal entries times ``weight``."""
    d = M.shape[-1]
    take, _, weights = _triangle(d, weight, M.dtype, M.device)
    token = _pick(M.reshape(*M.shape[:-2], d * d), take)
    return token if weight == 1.0 else token * weights


def _scatter(token: Tensor, weight: float) -> Tensor:
    """Symmetric matrices of tokens, off-diagonal entries times ``weight``."""
    d = matrix_dim(token.shape[-1])
    _, give, weights = _triangle(d, weight, token.dtype, token.device)
    flat = _pick(token if weight == 1.0 else token * weights, give)
    return flat.reshape(*token.shape[:-1], d, d)


class _Vech(torch.autograd.Function):
    """Upper triangle of symmetric matrices; the gradient is spread over both triangles.

    PyTorch's own indexing would put the gradient in the upper triangle only. The vech of a
    *symmetric* matrix has a symmetric gradient.
    """

    @staticmethod
    def forward(ctx: Any, M: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return _gather(M, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _scatter(grad, 0.5 * ctx.weight), None


def _off_diagonal(isometric: bool) -> float:
    return math.sqrt(2.0) if isometric else 1.0


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
    return _Vech.apply(M, _off_diagonal(isometric))


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
    return _scatter(token, 1.0 / _off_diagonal(isometric))


@dataclass(frozen=True)
class Floor:
    """The least eigenvalue allowed; smaller ones are raised to it.

    Attributes
    ----------
    relative : float
        Times the mean absolute eigenvalue (trace / d) of the matrix. A multiple of the matrix's
        own scale does not depend on the unit of the signal, and the trace is smooth where the
        largest eigenvalue is not. Never less than the rounding noise of the input's dtype.
    absolute : float
        In the unit of the matrix. The paper clips at 1e-12, which presumes microvolts: in volts,
        covariances of EEG are near 1e-10 and clipping at 1e-12 distorts them.
    """

    relative: float = 1e-12
    absolute: float = 0.0

    @classmethod
    def paper(cls) -> Floor:
        """The paper's clipping at 1e-12, whatever the unit."""
        return cls(relative=0.0, absolute=1e-12)


DEFAULT_FLOOR = Floor()


def eigh(C: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending eigenvalues (..., d) and eigenvectors of the symmetric part, in float64."""
    d = C.shape[-1]
    eigenvalues, V = in_parts(_eigh, C.reshape(-1, d, d))
    return eigenvalues.reshape(C.shape[:-1]), V.reshape(C.shape)


def _eigh(C: Tensor) -> tuple[Tensor, Tensor]:
    S = C.double()
    try:
        eigenvalues, V = torch.linalg.eigh(torch.lerp(S, S.mT, 0.5))
    except torch.linalg.LinAlgError:
        check_finite(C)
        raise
    return eigenvalues, V


# Scalar functions of eigenvalues, with divided differences that never cancel.
#
# The gradient of a matrix function needs the first divided difference
#
# .. math:: f[a, b] = \frac{f(a) - f(b)}{a - b}, \qquad f[a, a] = f'(a),
#
# for every pair of eigenvalues. The quotient as written loses all digits when ``a`` and ``b`` are
# close, and the usual remedy, a threshold below which ``f'`` is used instead, is wrong on both of
# its sides by up to the square root of the machine precision. Here each function has a form in
# which nothing cancels, valid for all pairs, equal ones included. With ``a >= b`` and the exact
# difference ``a - b``:
#
# =============  ============================================================================
# function       divided difference
# =============  ============================================================================
# square root    ``1 / (sqrt a + sqrt b)``
# inverse sqrt   ``-1 / (sqrt a sqrt b (sqrt a + sqrt b))``
# logarithm      ``log1p(x) / (x b)`` with ``x = (a - b) / b``
# exponential    ``exp(a) (-expm1(-u)) / u`` with ``u = a - b``
# power p > 0    ``a^(p-1) (-expm1(-p L)) / y`` with ``y = (a - b) / a``, ``L = log1p(x)``
# power p < 0    ``b^(p-1) expm1(p L) / x``
# =============  ============================================================================
#
# The logarithm's equivalent form ``2 atanh(z) / (z (a + b))``, ``z = (a - b) / (a + b)``, cancels
# nothing for close pairs but loses digits in ``1 - z`` for distant ones (1e-10 at a ratio of 1e8,
# infinite at 1e17); ``log1p`` keeps all of them at any ratio.
#
# The quotients ``log1p(x) / x`` and ``expm1(u) / u`` are 0/0 at zero. Adding a number far below the
# smallest nonzero value that ``x`` can take (the machine precision) and far above underflow gives
# their limit 1 there and changes no other digit: no branch and no threshold.


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny ** 0.5


@dataclass(frozen=True)
class SpectralFunction:
    """A scalar function to apply to the eigenvalues of a symmetric matrix.

    Attributes
    ----------
    name : str
        Shown in messages.
    value : callable
        ``f(a)``, elementwise.
    divided_difference : callable
        ``f[a, b]`` for tensors that broadcast, symmetric in its arguments, equal to ``f'(a)``
        where ``a == b``.
    positive_domain : bool
        Whether ``f`` needs positive eigenvalues; then the eigenvalue floor applies.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    divided_difference: Callable[[Tensor, Tensor], Tensor]
    positive_domain: bool = True


def _larger_smaller(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return torch.maximum(a, b), torch.minimum(a, b)


def _sqrt_difference(a: Tensor, b: Tensor) -> Tensor:
    return (a.sqrt() + b.sqrt()).reciprocal_()


def _inv_sqrt_difference(a: Tensor, b: Tensor) -> Tensor:
    p, q = a.sqrt(), b.sqrt()
    return (p + q).mul_(p).mul_(q).reciprocal_().neg_()


def _log_difference(a: Tensor, b: Tensor) -> Tensor:
    large, small = _larger_smaller(a, b)
    x = large.sub_(small).div_(small).add_(_tiny(a))
    return x.log1p().div_(x.mul_(small))


def _exp_difference(a: Tensor, b: Tensor) -> Tensor:
    large, small = _larger_smaller(a, b)
    u = (large - small).add_(_tiny(a))
    return large.exp_().mul_(torch.expm1(-u)).div_(u).neg_()


SQRT = SpectralFunction("sqrt", torch.sqrt, _sqrt_difference)
INV_SQRT = SpectralFunction("inverse sqrt", torch.rsqrt, _inv_sqrt_difference)
LOG = SpectralFunction("log", torch.log, _log_difference)
EXP = SpectralFunction("exp", torch.exp, _exp_difference, positive_domain=False)


def power_function(p: float) -> SpectralFunction:
    """The function ``a -> a ** p`` for any real ``p``."""

    def difference(a: Tensor, b: Tensor) -> Tensor:
        large, small = _larger_smaller(a, b)
        gap = large - small
        x = gap / small + _tiny(a)
        log_ratio = x.log1p()
        if p > 0:  # in terms of the larger one, so that nothing overflows on the way
            y = gap / large + _tiny(a)
            return -(large ** (p - 1)) * torch.expm1(-p * log_ratio) / y
        return small ** (p - 1) * torch.expm1(p * log_ratio) / x

    return SpectralFunction(f"power {p:g}", lambda a: a**p, difference)


# Value and derivative of a function of symmetric matrices, for one batch, without autograd.
#
# .. math::
#
#     f(C) = V f(\Lambda) V^\top, \qquad
#     Df(C)[G] = V \left(K \odot (V^\top G V)\right) V^\top, \qquad
#     K_{ij} = f[\lambda_i, \lambda_j].
#
# ``K`` already carries :math:`f'` on its diagonal; the paper's formula adds it a second time. The
# derivative is self-adjoint, so that it also maps gradients backwards.
#
# Whatever the dtype of the input, eigenvalues are computed in float64: in float32 they carry an
# error of 1e-7 of the *largest*, which at a condition number of 1e4 is a tenth of a percent of the
# smallest, and the gradient of the logarithm is made of the smallest. Everything after the
# decomposition is insensitive and stays in the dtype of the input.


@dataclass(frozen=True)
class _Plan:
    """What to compute, apart from the matrices."""

    f: SpectralFunction
    floor: Floor
    #: Precision in which the matrices are known, and dtype of the result.
    dtype: torch.dtype

    @property
    def slope(self) -> float:
        """Derivative of the floor with respect to the mean absolute eigenvalue."""
        relative = self.floor.relative
        return max(relative, torch.finfo(self.dtype).eps) if relative else 0.0

    def floor_level(self, eigenvalues: Tensor) -> Tensor | None:
        """Floor of each matrix, shape (m, 1); None if all ascending eigenvalues are clear of it."""
        if not self.f.positive_domain:
            return None
        smallest, largest = eigenvalues[..., 0], eigenvalues[..., -1]
        above = (self.slope * largest).clamp_(min=max(self.floor.absolute, 0.0))
        if bool((smallest > above).all()):  # quick, and cautious: the mean is below the largest
            return None
        scale = eigenvalues.abs().mean(-1, keepdim=True)
        return (self.slope * scale).clamp(min=self.floor.absolute)


def _value(C: Tensor, plan: _Plan) -> tuple[Tensor, Tensor, Tensor]:
    """Value (m, d, d), eigenvalues (m, d) not raised to the floor, and eigenvectors."""
    eigenvalues, V = _eigh(C)
    V = V.to(torch.float64 if plan.dtype == torch.float64 else torch.float32)
    level = plan.floor_level(eigenvalues)
    raised = eigenvalues if level is None else eigenvalues.maximum(level)
    value = (V * plan.f.value(raised).to(V.dtype).unsqueeze(-2)) @ V.mT
    return value.to(plan.dtype), eigenvalues, V


def _gradient(eigenvalues: Tensor, V: Tensor, G: Tensor, plan: _Plan) -> tuple[Tensor]:
    """Gradient (m, d, d) with respect to the matrices, given that of the values, ``G``."""
    work = V.dtype
    H = V.mT @ torch.lerp(G.to(work), G.to(work).mT, 0.5) @ V
    level = plan.floor_level(eigenvalues)
    if level is None:
        H *= _pairwise(plan.f, eigenvalues.to(work))
    else:
        H = _gradient_above_floor(eigenvalues, level, H, plan)
    return ((V @ H @ V.mT).to(G.dtype),)


def _pairwise(f: SpectralFunction, eigenvalues: Tensor) -> Tensor:
    """``K``: divided differences of all pairs, shape (m, d, d)."""
    return f.divided_difference(eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2))


def _gradient_above_floor(eigenvalues: Tensor, level: Tensor, H: Tensor, plan: _Plan) -> Tensor:
    """``K * H`` where some eigenvalues are raised to the floor.

    The function is then ``f`` composed with ``max(., floor)``, whose divided differences multiply:
    1 above, 0 below, between for mixed pairs. And the floor follows the mean eigenvalue: a change
    of any eigenvalue moves all raised ones.
    """
    raised = eigenvalues.maximum(level)
    clipped = eigenvalues < level
    K = _pairwise(plan.f, raised.to(H.dtype))
    slope = torch.where(level > plan.floor.absolute, plan.slope, 0.0)
    moves_floor = slope * eigenvalues.sign() / eigenvalues.shape[-1]
    moved = K.diagonal(dim1=-2, dim2=-1) * clipped
    through_floor = (moved * H.diagonal(dim1=-2, dim2=-1)).sum(-1, keepdim=True) * moves_floor
    gap, raised_gap = (x.unsqueeze(-1) - x.unsqueeze(-2) for x in (eigenvalues, raised))
    equal = gap == 0
    above = (~clipped).double().unsqueeze(-1)
    K = K * torch.where(equal, above, raised_gap / torch.where(equal, 1.0, gap))
    return (K * H + torch.diag_embed(through_floor)).to(H.dtype)


class _Spectral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, C: Tensor, plan: _Plan) -> Tensor:
        d, batch = C.shape[-1], C.shape[:-2]
        value, eigenvalues, V = in_parts(partial(_value, plan=plan), C.reshape(-1, d, d))
        if plan.f.positive_domain and not bool((eigenvalues[:, 0] > 0).all()):
            tolerance = d * torch.finfo(plan.dtype).eps
            refuse_indefinite(eigenvalues.reshape(*batch, d), tolerance)
        ctx.plan, ctx.dtype = plan, C.dtype
        ctx.save_for_backward(eigenvalues, V)
        return value.reshape(C.shape)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # create_graph=True; autograd would take V for a constant
            raise RuntimeError(
                f"Second derivatives of the matrix {ctx.plan.f.name} are not available: call "
                "backward or grad without create_graph=True."
            )
        eigenvalues, V = ctx.saved_tensors
        kernel = partial(_gradient, plan=ctx.plan)
        (gradient,) = in_parts(kernel, eigenvalues, V, G.reshape(V.shape))
        return gradient.reshape(G.shape).to(ctx.dtype), None


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
        For example :data:`~spdtokens.geometry.matrix_functions.LOG`.
    floor : Floor
        The least eigenvalue allowed, for functions with a positive domain.
    dtype : torch.dtype, optional
        Precision in which the entries of ``C`` are known, and dtype of the result; that of ``C``
        by default. Say float32 where ``C`` was computed in float64 from float32 data.

    Returns
    -------
    fC : Tensor or ndarray, shape (..., d, d)
        Differentiable once, with an exact gradient at repeated eigenvalues too.

    Raises
    ------
    NotSPDError
        If ``f`` needs positive eigenvalues and one is negative beyond rounding noise, or if an
        entry is not finite.
    """
    check_square(C)
    return _Spectral.apply(C, _Plan(f, floor, dtype or C.dtype))


@numpy_too
def spectral_token(
    C: Tensor,
    f: SpectralFunction,
    *,
    isometric: bool = False,
    floor: Floor = DEFAULT_FLOOR,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``vech(spectral(C, f), isometric=isometric)``.

    Returns
    -------
    token : Tensor or ndarray, shape (..., d (d + 1) / 2)
    """
    return vech(spectral(C, f, floor=floor, dtype=dtype), isometric=isometric)


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
