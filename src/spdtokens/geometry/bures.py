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
    """``root U`` with the rotation ``U`` that brings it closest to ``X``, constant in derivatives.

    The rotation is optimal, so its own change does not contribute to them (envelope theorem).
    """
    with torch.no_grad():
        W, _, Zt = torch.linalg.svd(root.mT @ X)
    return root @ (W @ Zt)


@numpy_too
def distance_bures_wasserstein(A: Tensor, B: Tensor, *, squared: bool = False) -> Tensor:
    """Compute the Bures-Wasserstein distance [1]_ between SPD matrices.

    Parameters
    ----------
    A, B : Tensor or ndarray, shape (..., d, d)
        SPD matrices. Leading axes broadcast.
    squared : bool, default=False
        Return the squared distance, which is also differentiable at ``A = B``.

    Returns
    -------
    Tensor or ndarray, shape (...)
        Distances, differentiable once. They are accurate for close matrices too.

    See Also
    --------
    geodesic_bures_wasserstein : Points between two matrices.
    pyriemann.geometry.distance.distance_wasserstein : For NumPy arrays, by the trace formula.

    References
    ----------
    .. [1] R. Bhatia, T. Jain and Y. Lim, "On the Bures-Wasserstein distance between positive
       definite matrices", Expositiones Mathematicae 37, 165-191, 2019.
       https://doi.org/10.1016/j.exmath.2018.01.002

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import distance_bures_wasserstein
    >>> distance_bures_wasserstein(np.stack([np.eye(2), 4 * np.eye(2)]), np.eye(2)).round(3)
    array([0.   , 1.414])
    """
    dtype = torch.promote_types(A.dtype, B.dtype)
    root = sqrtm(A.double())
    gap = root - _rotated(sqrtm(B.double()), root)
    if squared:
        return gap.square().sum((-2, -1)).to(dtype)
    return torch.linalg.matrix_norm(gap).to(dtype)


@numpy_too
def geodesic_bures_wasserstein(A: Tensor, B: Tensor, t: float = 0.5) -> Tensor:
    """Compute a point of the Bures-Wasserstein geodesic from ``A`` to ``B``.

    Parameters
    ----------
    A, B : Tensor or ndarray, shape (..., d, d)
        SPD matrices.
    t : float, default=0.5
        Position: 0 gives ``A``, 1 gives ``B``, 0.5 their mean.

    Returns
    -------
    Tensor or ndarray, shape (..., d, d)
        SPD matrices, without gradient.

    See Also
    --------
    barycenter_bures_wasserstein : Mean of more than two matrices.
    pyriemann.geometry.geodesic.geodesic_wasserstein : For NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import geodesic_bures_wasserstein
    >>> geodesic_bures_wasserstein(np.eye(2), 9 * np.eye(2)).round(6)
    array([[4., 0.],
           [0., 4.]])
    """
    root = sqrtm(A.detach().double())
    X = torch.lerp(root, _rotated(sqrtm(B.detach().double()), root), t)
    return (X @ X.mT).to(torch.promote_types(A.dtype, B.dtype))


@dataclass(frozen=True)
class Barycenter:
    """Bures-Wasserstein barycenter and the course of its iteration.

    Parameters
    ----------
    mean : Tensor or ndarray, shape (d, d)
        The barycenter.
    converged : bool
        Whether the last residual is below the tolerance.
    n_iterations : int
        Number of iterations.
    residuals : list of float
        Relative length of each step, which is also the relative norm of the gradient.

    See Also
    --------
    barycenter_bures_wasserstein : Compute a barycenter.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import barycenter_bures_wasserstein
    >>> barycenter_bures_wasserstein(np.stack([np.eye(2), np.eye(2)])).converged
    True
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
    """Compute the Bures-Wasserstein barycenter of SPD matrices.

    The barycenter minimises the mean squared Bures-Wasserstein distance. It is found by the
    fixed-point iteration of [1]_ in factor form: align the square roots with the current factor,
    average, repeat.

    Parameters
    ----------
    C : Tensor or ndarray, shape (n, d, d)
        SPD matrices.
    weights : Tensor or ndarray, shape (n,), default=None
        Nonnegative weights. None for equal weights.
    start : Tensor or ndarray, shape (d, d), default=None
        Initial matrix. None for the squared mean of the square roots.
    tol : float, default=1e-12
        Relative step at which to stop.
    max_iterations : int, default=200
        Largest number of iterations. Without convergence the last iterate is returned, with
        ``converged=False``.

    Returns
    -------
    Barycenter
        The barycenter, with a mean of the kind and dtype of ``C``.

    Raises
    ------
    ValueError
        If the shapes do not match, or a weight is negative, or all weights are 0.
    NotSPDError
        If a matrix is not SPD.

    See Also
    --------
    pyriemann.geometry.mean.mean_wasserstein : For NumPy arrays.

    References
    ----------
    .. [1] P. C. Alvarez-Esteban, E. del Barrio, J. A. Cuesta-Albertos and C. Matran, "A fixed-point
       approach to barycenters in Wasserstein space", J. Math. Anal. Appl. 441, 744-762, 2016.
       https://doi.org/10.1016/j.jmaa.2016.04.045

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import barycenter_bures_wasserstein
    >>> barycenter_bures_wasserstein(np.stack([np.eye(2), 9 * np.eye(2)])).mean.round(6)
    array([[4., 0.],
           [0., 4.]])
    """
    matrices: Tensor = as_tensor(C).detach()
    n = len(matrices)
    w = torch.ones(n) if weights is None else torch.as_tensor(as_tensor(weights))
    if matrices.ndim != 3 or w.shape != (n,) or bool((w < 0).any()) or not bool(w.sum() > 0):
        raise ValueError(
            "C must be matrices (n, d, d), and weights n numbers >= 0 with a positive sum, got "
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
