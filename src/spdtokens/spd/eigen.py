"""Eigendecomposition of batches of symmetric matrices, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from spdtokens.spd.parallel import in_parts
from spdtokens.spd.validation import check_finite


def eigh(C: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of the symmetric part of ``C``.

    Parameters
    ----------
    C : Tensor, shape (..., d, d)
        Any floating dtype; computed in float64.

    Returns
    -------
    eigenvalues : Tensor of float64, shape (..., d)
        In ascending order.
    V : Tensor of float64, shape (..., d, d)
        Eigenvectors in columns.
    """
    d = C.shape[-1]
    try:
        eigenvalues, V = in_parts(_eigh, C.reshape(-1, d, d), shared_from=1 << 15)
    except torch.linalg.LinAlgError:
        check_finite(C)
        raise
    return eigenvalues.reshape(C.shape[:-1]), V.reshape(C.shape)


def _eigh(C: Tensor) -> tuple[Tensor, Tensor]:
    S = C.double()
    return torch.linalg.eigh(torch.lerp(S, S.mT, 0.5))
