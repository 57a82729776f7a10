"""Tokens along the principal directions of a mean, strongest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from spdtokens.geometry.embeddings.at_reference import AtReference
from spdtokens.geometry.embeddings.cholesky import upper_cholesky

#: A reference whose eigenvalues differ by less than this part has no principal directions.
ROUND = 1e-4


def principal_axes(R: Tensor) -> Tensor:
    """Rows that whiten ``R``: its principal directions, strongest first, over their deviations.

    Where ``R`` is round, as the mean of recentred matrices is, rounding errors would choose the
    directions: there the channels are taken as they come.

    Parameters
    ----------
    R : Tensor, shape (..., d, d)

    Returns
    -------
    P : Tensor, shape (..., d, d)
        ``P R P' = I``.
    """
    w, V = torch.linalg.eigh(R)
    w, V = w.flip(-1), V.flip(-1)
    # Which way a direction points is chance too: its largest entry is positive.
    largest = V.gather(-2, V.abs().argmax(-2, keepdim=True))
    V = V * largest.sign()
    is_round = (w[..., 0] <= (1 + ROUND) * w[..., -1])[..., None, None]
    V = torch.where(is_round, torch.eye(R.shape[-1], dtype=R.dtype, device=R.device), V)
    return V.mT / w.sqrt()[..., None]


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

    Parameters
    ----------
    metric : str
        Mean of the training matrices to use as reference, any that pyRiemann's ``gmean`` knows.
    """

    name: ClassVar[str] = "principal_correlation"
    triangular: ClassVar[bool] = True

    def whitening(self, R: Tensor) -> Tensor:
        return principal_axes(R)

    def embed(self, C: Tensor) -> Tensor:
        U = upper_cholesky(self.whitened(C))
        logs = torch.diag_embed(U.diagonal(dim1=-2, dim2=-1).log())
        return ((U / U.norm(dim=-2, keepdim=True)).triu(1) + logs).to(C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        parts = M.double().triu(1)
        left = M.double().diagonal(dim1=-2, dim2=-1).exp()
        deviation = left / (1 - (parts**2).sum(-2)).sqrt()
        U = parts * deviation[..., None, :] + torch.diag_embed(left)
        back = torch.linalg.inv(principal_axes(self._reference(M)))
        A = U @ back.mT
        return (A.mT @ A).to(M.dtype)
