r"""Value and derivative of a function of symmetric matrices, for one batch, without autograd.

.. math::

    f(C) = V f(\Lambda) V^\top, \qquad
    Df(C)[G] = V \left(K \odot (V^\top G V)\right) V^\top, \qquad
    K_{ij} = f[\lambda_i, \lambda_j].

``K`` already carries :math:`f'` on its diagonal; the paper's formula adds it a second time. The
derivative is self-adjoint, so that it serves backward and forward mode alike (but for the floor,
see below).

Whatever the dtype of the input, eigenvalues are computed in float64: in float32 they carry an
error of 1e-7 of the *largest*, which at a condition number of 1e4 is a tenth of a percent of the
smallest, and the gradient of the logarithm is made of the smallest. Everything after the
decomposition is insensitive and stays in the dtype of the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spdtokens.spd.eigen import eigh
from spdtokens.spd.floor import Floor
from spdtokens.spd.scalar_functions import SpectralFunction
from spdtokens.spd.triangle import gather_triangle, scatter_triangle


@dataclass(frozen=True)
class Plan:
    """What to compute, apart from the matrices.

    Attributes
    ----------
    f : SpectralFunction
    floor : Floor
    dtype : torch.dtype
        Precision in which the matrices are known, and dtype of the result.
    weight : float or None
        None for matrices; else tokens, with off-diagonal entries times this.
    """

    f: SpectralFunction
    floor: Floor
    dtype: torch.dtype
    weight: float | None = None

    @property
    def working_dtype(self) -> torch.dtype:
        """Dtype of all that is not an eigendecomposition."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def floor_level(self, eigenvalues: Tensor) -> Tensor | None:
        """Floor of each matrix, shape (m, 1); None if no eigenvalue is near it."""
        if not self.f.positive_domain or self.floor.clears(eigenvalues, self.dtype):
            return None
        return self.floor.level(eigenvalues, self.dtype)


def apply_function(C: Tensor, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
    """Value, eigenvalues and eigenvectors.

    Parameters
    ----------
    C : Tensor, shape (m, d, d)
    plan : Plan

    Returns
    -------
    value : Tensor, shape (m, d, d), or (m, d (d + 1) / 2) for tokens
    eigenvalues : Tensor of float64, shape (m, d)
        As they are, not raised to the floor.
    V : Tensor, shape (m, d, d)
        Of the working dtype.
    """
    eigenvalues, V = eigh(C)
    V = V.to(plan.working_dtype)
    level = plan.floor_level(eigenvalues)
    raised = eigenvalues if level is None else eigenvalues.maximum(level)
    value = (V * plan.f.value(raised).to(V.dtype).unsqueeze(-2)) @ V.mT
    if plan.weight is not None:
        value = gather_triangle(value, plan.weight)
    return value.to(plan.dtype), eigenvalues, V


def apply_derivative(
    eigenvalues: Tensor, V: Tensor, G: Tensor, plan: Plan, *, adjoint: bool
) -> Tensor:
    """Derivative in direction ``G``, or its adjoint: the backward of an upstream gradient ``G``.

    Parameters
    ----------
    eigenvalues : Tensor of float64, shape (m, d)
    V : Tensor of the working dtype, shape (m, d, d)
    G : Tensor, shape (m, d, d), or (m, d (d + 1) / 2) for tokens
    plan : Plan
    adjoint : bool

    Returns
    -------
    derivative : Tensor, shape (m, d, d), of the dtype of ``G``
    """
    work = V.dtype
    if plan.weight is None:
        S = torch.lerp(G.to(work), G.to(work).mT, 0.5)
    else:  # half to each of the two places of an off-diagonal entry
        S = scatter_triangle(G.to(work), 0.5 * plan.weight)
    H = V.mT @ S @ V
    level = plan.floor_level(eigenvalues)
    if level is None:
        H *= _pairwise(plan.f, eigenvalues.to(work))
    else:
        H = _derivative_above_floor(eigenvalues, level, H, plan, adjoint)
    return (V @ H @ V.mT).to(G.dtype)


def _pairwise(f: SpectralFunction, eigenvalues: Tensor) -> Tensor:
    """``K``: divided differences of all pairs, shape (m, d, d)."""
    return f.divided_difference(eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2))


def _derivative_above_floor(
    eigenvalues: Tensor, level: Tensor, H: Tensor, plan: Plan, adjoint: bool
) -> Tensor:
    """``K * H`` where some eigenvalues are raised to the floor.

    The function is then ``f`` composed with ``max(., floor)``, whose divided differences multiply.
    And the floor follows the mean eigenvalue: a change of any eigenvalue moves all raised ones.
    """
    raised = eigenvalues.maximum(level)
    clipped = eigenvalues < level
    K = _pairwise(plan.f, raised.to(H.dtype))
    slope = torch.where(level > plan.floor.absolute, plan.floor.slope(plan.dtype), 0.0)
    moves_floor = slope * eigenvalues.sign() / eigenvalues.shape[-1]
    moved = K.diagonal(dim1=-2, dim2=-1) * clipped
    source, target = (moved, moves_floor) if adjoint else (moves_floor, moved)
    through_floor = (source * H.diagonal(dim1=-2, dim2=-1)).sum(-1, keepdim=True) * target
    K = K * _raising_difference(eigenvalues, raised, clipped)
    return (K * H + torch.diag_embed(through_floor)).to(H.dtype)


def _raising_difference(eigenvalues: Tensor, raised: Tensor, clipped: Tensor) -> Tensor:
    """Divided differences of ``max(., floor)``: 1 above, 0 below, between for mixed pairs."""
    gap = eigenvalues.unsqueeze(-1) - eigenvalues.unsqueeze(-2)
    raised_gap = raised.unsqueeze(-1) - raised.unsqueeze(-2)
    at_equal = (~clipped).double().unsqueeze(-1)
    equal = gap == 0
    return torch.where(equal, at_equal, raised_gap / torch.where(equal, 1.0, gap))
