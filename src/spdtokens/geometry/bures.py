r"""The Bures-Wasserstein geometry of SPD matrices: distance, geodesic, barycenter.

Everything here is Procrustes alignment of square roots. Any factor :math:`X` with
:math:`X X^\top = C` differs from :math:`\sqrt C` by a rotation, and

.. math:: d_{BW}(A, B) = \min_U \|\sqrt A - \sqrt B\, U\|_F ,

attained at the polar factor of :math:`\sqrt B \sqrt A`. Computed as this norm the distance is
accurate to machine precision; the textbook form, the root of
:math:`\operatorname{tr} A + \operatorname{tr} B - 2 \|\sqrt A \sqrt B\|_*`, cancels for close
matrices and is good to half the digits only. The geodesic is the straight line between aligned
factors and the barycenter their mean: no inverse is ever taken.

Distances and means of the other geometries are in ``pyriemann.geometry``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spdtokens.geometry.matrix_functions import as_tensor, numpy_too, sqrtm
from spdtokens.geometry.validation import check_spd


def _rotated(root: Tensor, X: Tensor) -> Tensor:
    """``root U`` with the rotation ``U`` that brings it closest to ``X``, fixed in derivatives.

    The rotation is optimal, so its own change contributes nothing to them (envelope theorem).
    """
    with torch.no_grad():
        W, _, Zt = torch.linalg.svd(root.mT @ X)
    return root @ (W @ Zt)


@numpy_too
def distance_bures_wasserstein(A: Tensor, B: Tensor, *, squared: bool = False) -> Tensor:
    """Bures-Wasserstein distance between SPD matrices.

    Parameters
    ----------
    A, B : Tensor or ndarray, shape (..., d, d)
        Leading axes broadcast.
    squared : bool
        Return the square, which is differentiable at ``A = B`` too.

    Returns
    -------
    distance : Tensor or ndarray, shape (...)
        Differentiable once.
    """
    dtype = torch.promote_types(A.dtype, B.dtype)
    root = sqrtm(A.double())
    gap = root - _rotated(sqrtm(B.double()), root)
    if squared:
        return gap.square().sum((-2, -1)).to(dtype)
    return torch.linalg.matrix_norm(gap).to(dtype)


@numpy_too
def geodesic_bures_wasserstein(A: Tensor, B: Tensor, t: float = 0.5) -> Tensor:
    """Point at fraction ``t`` of the shortest path from ``A`` to ``B``.

    Parameters
    ----------
    A, B : Tensor or ndarray, shape (..., d, d)
    t : float
        0 gives ``A``, 1 gives ``B``, 0.5 their mean.

    Returns
    -------
    C : Tensor or ndarray, shape (..., d, d)
        Without gradient: unlike the distance, the path depends on the rotation.
    """
    root = sqrtm(A.detach().double())
    X = torch.lerp(root, _rotated(sqrtm(B.detach().double()), root), t)
    return (X @ X.mT).to(torch.promote_types(A.dtype, B.dtype))


@dataclass(frozen=True)
class Barycenter:
    """A Bures-Wasserstein barycenter and how it was reached.

    Attributes
    ----------
    mean : Tensor or ndarray, shape (d, d)
    converged : bool
        Whether the residual fell below the tolerance.
    n_iterations : int
    residuals : list of float
        Relative length of each step, which is also the relative norm of the gradient there.
    """

    mean: Any
    converged: bool
    n_iterations: int
    residuals: list[float]


def barycenter_bures_wasserstein(
    C: Any,
    weights: Any = None,
    *,
    start: Any = None,
    tol: float = 1e-12,
    max_iterations: int = 200,
) -> Barycenter:
    """Matrix with the least mean squared Bures-Wasserstein distance to given ones.

    Fixed-point iteration of Alvarez-Esteban et al. (2016) in factor form: align the square roots
    with the current factor, average, repeat.

    Parameters
    ----------
    C : Tensor or ndarray, shape (n, d, d)
        SPD matrices.
    weights : Tensor or ndarray, shape (n,), optional
        Nonnegative; equal by default.
    start : Tensor or ndarray, shape (d, d), optional
        Where to begin; by default at the squared mean of the square roots, which is close.
    tol : float
        Relative step at which to stop.
    max_iterations : int
        Reaching it is reported, not raised: look at ``converged``.

    Returns
    -------
    Barycenter
        Its mean is of the kind and dtype of ``C``.
    """
    matrices: Tensor = as_tensor(C).detach()
    n = len(matrices)
    w = torch.ones(n) if weights is None else torch.as_tensor(as_tensor(weights))
    if matrices.ndim != 3 or w.shape != (n,) or bool((w < 0).any()) or not bool(w.sum() > 0):
        raise ValueError(
            f"Expected matrices (n, d, d) and n nonnegative weights with a positive sum, got "
            f"shapes {tuple(matrices.shape)} and {tuple(w.shape)}."
        )
    check_spd(matrices)
    roots = sqrtm(matrices.double())
    w = (w.to(roots) / w.to(roots).sum()).reshape(n, 1, 1)
    X = (w * roots).sum(0) if start is None else sqrtm(as_tensor(start).to(roots))
    residuals: list[float] = []
    while len(residuals) < max_iterations and not (residuals and residuals[-1] <= tol):
        last, X = X, (w * _rotated(roots, X)).sum(0)
        residuals.append(float((X - last).norm() / last.norm()))
    mean = (X @ X.mT).to(matrices.dtype)
    return Barycenter(
        mean=mean if isinstance(C, Tensor) else mean.numpy(),
        converged=residuals[-1] <= tol,
        n_iterations=len(residuals),
        residuals=residuals,
    )
