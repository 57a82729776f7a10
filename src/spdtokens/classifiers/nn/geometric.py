"""What geometric attention adds to the scores."""

from __future__ import annotations

import torch
from torch import Tensor

from spdtokens.geometry import sqrtm
from spdtokens.geometry.matrix_functions import in_parts


def geometric_bias(C: Tensor, alpha: float = 0.5) -> Tensor:
    r"""Attention scores lowered by the Bures-Wasserstein distance of two tokens' matrices.

    .. math:: -\alpha\, d_{BW}(C_i, C_j) \,/\, \sqrt{\operatorname{mean}_t \operatorname{tr} C_t}

    The paper adds alpha times "the BW distance score" and does not say how it is scaled; a score
    that depends on the unit of the signal would be an accident, so the distance is taken relative
    to the size of the trial's own matrices. These do not change in training: this is computed once
    a trial, not in every layer of every step.

    Parameters
    ----------
    C : Tensor, shape (n, tokens, d, d)
        SPD matrices of the trials.
    alpha : float

    Returns
    -------
    bias : Tensor of float32, shape (n, tokens, tokens)
    """
    n, tokens = C.shape[:2]
    C = C.detach().double()
    roots = sqrtm(C)
    trace = C.diagonal(dim1=-2, dim2=-1).sum(-1)
    i, j = torch.triu_indices(tokens, tokens, 1)
    fidelity = _fidelity(roots[:, i].flatten(0, 1), C[:, j].flatten(0, 1)).view(n, -1)
    squared = (trace[:, i] + trace[:, j] - 2 * fidelity).clamp_min(0)
    relative = (squared / trace.mean(1, keepdim=True)).sqrt()
    bias = torch.zeros(n, tokens, tokens, device=C.device)
    bias[:, i, j] = bias[:, j, i] = (-alpha * relative).float()
    return bias


def _fidelity(root: Tensor, C: Tensor) -> Tensor:
    """Nuclear norm of ``root sqrt(C)``: roots of the eigenvalues of ``root C root``."""
    if not len(root):
        return root.new_zeros(0)

    def kernel(root: Tensor, C: Tensor) -> tuple[Tensor]:
        product = root @ C @ root
        eigenvalues = torch.linalg.eigvalsh(0.5 * (product + product.mT))
        return (eigenvalues.clamp_min(0).sqrt().sum(-1),)

    return in_parts(kernel, root, C)[0]
