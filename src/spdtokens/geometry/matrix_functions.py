"""Functions of symmetric matrices for torch's autograd, with exact gradients.

One primitive, :func:`spectral`, applies a scalar function to the eigenvalues; the named matrix
functions call it. :func:`vech` lists the upper triangle of a matrix, its token, in row-major
order: ``M[0, 0], M[0, 1], ..., M[0, d-1], M[1, 1], ...``, as ``numpy.triu_indices`` does. With the
paper's one-based indices ``1 <= i <= j <= d``, entry ``(i, j)`` is number
``(i - 1) (2 d - i) / 2 + j``; the paper prints ``i (i - 1) / 2 + j``, which maps several entries
to the same number. All functions also accept NumPy arrays and then return arrays.
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

#: Entries of a part of a batch: 256 kB of float64 in each temporary array, which stay in the cache
#: between two elementwise steps.
PART_ENTRIES = 1 << 15


def as_tensor(x: Any) -> Any:
    """Convert an array to a tensor that shares its memory if possible; return others unchanged."""
    if not isinstance(x, np.ndarray):
        return x
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    # torch has no negative strides and warns of read-only memory.
    return torch.from_numpy(x if x.flags.writeable and min(x.strides, default=0) >= 0 else x.copy())


def numpy_too(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of tensors accept NumPy arrays and return NumPy arrays."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if not any(isinstance(x, np.ndarray) for x in given):
            return function(*args, **kwargs)
        if any(isinstance(x, Tensor) for x in given):
            raise TypeError(
                "NumPy arrays and torch tensors must not be mixed: convert one to the other."
            )
        with torch.no_grad(), one_thread():
            out = function(*map(as_tensor, args), **{k: as_tensor(x) for k, x in kwargs.items()})
        return out.numpy() if isinstance(out, Tensor) else out

    return wrapper


@one_thread()
def in_parts(kernel: Callable[..., tuple[Tensor, ...]], *inputs: Tensor) -> tuple[Tensor, ...]:
    """Compute ``kernel(*inputs)`` in parts along the first axis, on several threads.

    LAPACK decomposes a batch of small matrices one after another, on one core. The parts do not
    depend on the number of threads, so the result is the same to the last bit.

    Parameters
    ----------
    kernel : callable
        Maps tensors (m, ...) to a tuple of tensors (m, ...), row by row.
    *inputs : Tensor, shape (n, ...)
        Arguments of the kernel.

    Returns
    -------
    tuple of Tensor, shape (n, ...)
        Results of all parts, concatenated.
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
    """Compute the length of the token of a ``d x d`` matrix.

    Parameters
    ----------
    d : int
        Number of rows of the matrix.

    Returns
    -------
    int
        Number of entries of the upper triangle, ``d (d + 1) / 2``.

    See Also
    --------
    matrix_dim : Inverse function.

    Examples
    --------
    >>> from spdtokens.geometry import token_dim
    >>> token_dim(22)
    253
    """
    return d * (d + 1) // 2


def matrix_dim(n_features: int) -> int:
    """Compute the number of rows of a matrix from the length of its token.

    Parameters
    ----------
    n_features : int
        Length of the token.

    Returns
    -------
    int
        Number of rows ``d``, with ``d (d + 1) / 2 = n_features``.

    Raises
    ------
    ValueError
        If ``n_features`` is not a triangular number.

    See Also
    --------
    token_dim : Inverse function.

    Examples
    --------
    >>> from spdtokens.geometry import matrix_dim
    >>> matrix_dim(253)
    22
    """
    d = (math.isqrt(8 * n_features + 1) - 1) // 2
    if n_features < 1 or token_dim(d) != n_features:
        raise ValueError(
            f"A token must have d(d+1)/2 features, got {n_features} features on the last axis: "
            f"{token_dim(d)} for d={d} and {token_dim(d + 1)} for d={d + 1}."
        )
    return d


@lru_cache(maxsize=64)
def _triangle(
    d: int, weight: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Indices of token entries in the flat matrix, their inverse, and weights of token entries."""
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
    """Symmetric matrices from tokens, off-diagonal entries times ``weight``."""
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
    """Vectorise the upper triangle of symmetric matrices.

    Parameters
    ----------
    M : Tensor or ndarray, shape (..., d, d)
        Symmetric matrices; only the upper triangle is read.
    isometric : bool, default=False
        Multiply off-diagonal entries by sqrt(2), so that the Euclidean norm of the vector is the
        Frobenius norm of the matrix. The paper's ``vech`` does not.

    Returns
    -------
    Tensor or ndarray, shape (..., d (d + 1) / 2)
        Upper triangles in row-major order. The gradient is symmetric.

    See Also
    --------
    unvech : Inverse function.
    pyriemann.geometry.tangentspace.upper : The isometric version for NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import vech
    >>> vech(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    return _Vech.apply(M, _off_diagonal(isometric))


@numpy_too
def unvech(token: Tensor, *, isometric: bool = False) -> Tensor:
    """Build symmetric matrices from the vectors of their upper triangles.

    Parameters
    ----------
    token : Tensor or ndarray, shape (..., d (d + 1) / 2)
        Upper triangles in row-major order.
    isometric : bool, default=False
        Whether the token was computed with ``isometric=True``.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Symmetric matrices.

    Raises
    ------
    ValueError
        If the length of the token is not a triangular number.

    See Also
    --------
    vech : Inverse function.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import unvech
    >>> unvech(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [2., 3.]])
    """
    return _scatter(token, 1.0 / _off_diagonal(isometric))


@dataclass(frozen=True)
class Floor:
    """Lower bound of eigenvalues; smaller eigenvalues are raised to it.

    The bound of a matrix is the larger of both.

    Parameters
    ----------
    relative : float, default=1e-12
        Bound relative to the mean absolute eigenvalue of the matrix, never below the rounding error
        of its dtype. It does not depend on the unit of the signal.
    absolute : float, default=0.0
        Bound in the unit of the matrix. The paper clips at 1e-12, which assumes microvolts: in
        volts, covariances of EEG are near 1e-10, and clipping at 1e-12 distorts them.

    See Also
    --------
    logm : Matrix logarithm, with a floor.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import Floor, logm
    >>> logm(np.diag([1.0, 1e-20]), floor=Floor.paper()).round(1)
    array([[  0. ,   0. ],
           [  0. , -27.6]])
    """

    relative: float = 1e-12
    absolute: float = 0.0

    @classmethod
    def paper(cls) -> Floor:
        """Return the paper's floor: 1e-12 in whatever unit.

        Returns
        -------
        Floor
            The floor with ``relative=0`` and ``absolute=1e-12``.
        """
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
    """Scalar function to apply to the eigenvalues of a symmetric matrix.

    Parameters
    ----------
    name : str
        Name, shown in error messages.
    value : callable
        Elementwise function ``f(a)`` of a tensor.
    divided_difference : callable
        First divided difference ``f[a, b] = (f(a) - f(b)) / (a - b)`` of two tensors that
        broadcast, equal to the derivative ``f'(a)`` where ``a == b``. It must be symmetric in its
        arguments.
    positive_domain : bool, default=True
        Whether ``f`` requires positive eigenvalues. If so, the eigenvalue floor applies.

    See Also
    --------
    spectral : Apply the function to matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import SpectralFunction, spectral
    >>> square = SpectralFunction("square", lambda a: a**2, lambda a, b: a + b)
    >>> spectral(np.diag([1.0, 3.0]), square)
    array([[1., 0.],
           [0., 9.]])
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
    """Make the spectral function ``a -> a ** p``.

    Parameters
    ----------
    p : float
        Exponent.

    Returns
    -------
    SpectralFunction
        The power, for positive eigenvalues.

    See Also
    --------
    powm : Apply it to matrices.

    Examples
    --------
    >>> from spdtokens.geometry import power_function
    >>> power_function(0.25).name
    'power 0.25'
    """

    def difference(a: Tensor, b: Tensor) -> Tensor:
        large, small = _larger_smaller(a, b)
        gap = large - small
        x = gap / small + _tiny(a)
        log_ratio = x.log1p()
        if p > 0:  # in terms of the larger one, to avoid overflow
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
# smallest, and the gradient of the logarithm is dominated by the smallest. Everything after the
# decomposition is insensitive and stays in the dtype of the input.


@dataclass(frozen=True)
class _Plan:
    """Everything that defines a matrix function, apart from the matrices."""

    f: SpectralFunction
    floor: Floor
    #: Precision of the matrices, and dtype of the result.
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
    """Values (m, d, d), eigenvalues (m, d) before the floor is applied, and eigenvectors."""
    eigenvalues, V = _eigh(C)
    V = V.to(torch.float64 if plan.dtype == torch.float64 else torch.float32)
    level = plan.floor_level(eigenvalues)
    raised = eigenvalues if level is None else eigenvalues.maximum(level)
    value = (V * plan.f.value(raised).to(V.dtype).unsqueeze(-2)) @ V.mT
    return value.to(plan.dtype), eigenvalues, V


def _gradient(eigenvalues: Tensor, V: Tensor, G: Tensor, plan: _Plan) -> tuple[Tensor]:
    """Gradient (m, d, d) with respect to the matrices, given the gradient ``G`` of the values."""
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
    """``K * H`` if some eigenvalues are raised to the floor.

    The function is then ``f`` composed with ``max(., floor)``, and divided differences multiply:
    the second factor is 1 above the floor, 0 below, and in between for mixed pairs. The floor also
    depends on the mean eigenvalue: a change of any eigenvalue moves all raised ones.
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
        Symmetric matrices; the symmetric part is used. They must be positive definite if ``f`` has
        a positive domain.
    f : SpectralFunction
        Scalar function, such as :data:`~spdtokens.geometry.matrix_functions.LOG`.
    floor : Floor, default=Floor()
        Lower bound of eigenvalues, for functions with a positive domain.
    dtype : torch.dtype, default=None
        Precision of the entries of ``C``, and dtype of the result. None for the dtype of ``C``. Use
        float32 if ``C`` was computed in float64 from float32 data.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Matrix function. Its first derivative is exact, also for repeated eigenvalues; second
        derivatives raise an error.

    Raises
    ------
    NotSPDError
        If an entry is not finite, or if ``f`` requires positive eigenvalues and one is negative
        beyond rounding error.

    See Also
    --------
    sqrtm, invsqrtm, logm, expm, powm : Named matrix functions.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import LOG, spectral
    >>> spectral(np.diag([1.0, np.e]), LOG)
    array([[0., 0.],
           [0., 1.]])
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
    """Compute the tokens of a matrix function: ``vech(spectral(C, f))``.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        Symmetric matrices.
    f : SpectralFunction
        Scalar function of eigenvalues.
    isometric : bool, default=False
        Multiply off-diagonal entries by sqrt(2).
    floor : Floor, default=Floor()
        Lower bound of eigenvalues, for functions with a positive domain.
    dtype : torch.dtype, default=None
        Precision of the entries of ``C``, and dtype of the result. None for the dtype of ``C``.

    Returns
    -------
    Tensor or ndarray, shape (..., d (d + 1) / 2)
        Tokens.

    See Also
    --------
    spectral : Matrix function.
    vech : Upper triangle.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import SQRT, spectral_token
    >>> spectral_token(4 * np.eye(2), SQRT)
    array([2., 0., 2.])
    """
    return vech(spectral(C, f, floor=floor, dtype=dtype), isometric=isometric)


@numpy_too
def sqrtm(C: Tensor, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Compute the square root of SPD matrices.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        SPD matrices.
    floor : Floor, default=Floor()
        Lower bound of eigenvalues.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Square roots.

    See Also
    --------
    spectral : Any function of eigenvalues.
    pyriemann.geometry.base.sqrtm : Without floor, for NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import sqrtm
    >>> sqrtm(4 * np.eye(2))
    array([[2., 0.],
           [0., 2.]])
    """
    return spectral(C, SQRT, floor=floor)


@numpy_too
def invsqrtm(C: Tensor, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Compute the inverse square root of SPD matrices.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        SPD matrices.
    floor : Floor, default=Floor()
        Lower bound of eigenvalues.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Inverse square roots.

    See Also
    --------
    spectral : Any function of eigenvalues.
    pyriemann.geometry.base.invsqrtm : Without floor, for NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import invsqrtm
    >>> invsqrtm(4 * np.eye(2))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    return spectral(C, INV_SQRT, floor=floor)


@numpy_too
def logm(C: Tensor, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Compute the logarithm of SPD matrices.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        SPD matrices.
    floor : Floor, default=Floor()
        Lower bound of eigenvalues.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Logarithms, which are symmetric matrices.

    See Also
    --------
    expm : Inverse function.
    pyriemann.geometry.base.logm : Without floor, for NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import logm
    >>> logm(np.diag([1.0, np.e]))
    array([[0., 0.],
           [0., 1.]])
    """
    return spectral(C, LOG, floor=floor)


@numpy_too
def expm(S: Tensor) -> Tensor:
    """Compute the exponential of symmetric matrices.

    Parameters
    ----------
    S : Tensor or ndarray, shape (..., d, d)
        Symmetric matrices.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Exponentials, which are SPD matrices.

    See Also
    --------
    logm : Inverse function.
    pyriemann.geometry.base.expm : For NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import expm
    >>> expm(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    return spectral(S, EXP)


@numpy_too
def powm(C: Tensor, p: float, *, floor: Floor = DEFAULT_FLOOR) -> Tensor:
    """Compute a real power of SPD matrices.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        SPD matrices.
    p : float
        Exponent.
    floor : Floor, default=Floor()
        Lower bound of eigenvalues.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        Powers.

    See Also
    --------
    spectral : Any function of eigenvalues.
    pyriemann.geometry.base.powm : Without floor, for NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import powm
    >>> powm(4 * np.eye(2), -0.5)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    return spectral(C, power_function(p), floor=floor)
