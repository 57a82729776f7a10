"""Cholesky tokens, plain and with a logarithmic diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from spdtokens.geometry.embeddings.base import Embedding, symmetric_part
from spdtokens.geometry.validation import check_spd


def upper_cholesky(C: Tensor) -> Tensor:
    """Upper triangular ``U`` with positive diagonal and ``C = U' U``, computed in float64."""
    L, info = torch.linalg.cholesky_ex(symmetric_part(C.double()))
    if bool((info != 0).any()):
        check_spd(C.detach())  # names the culprit
        raise torch.linalg.LinAlgError("The Cholesky factorisation failed.")
    return L.mT


@dataclass(frozen=True)
class Cholesky(Embedding):
    """``U``, the upper Cholesky factor. Needs no eigendecomposition, depends on channel order.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)``.
    """

    name: ClassVar[str] = "cholesky"
    triangular: ClassVar[bool] = True

    def embed(self, C: Tensor) -> Tensor:
        return upper_cholesky(C).to(C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        M, dtype = M.double(), M.dtype
        return (M.mT @ M).to(dtype)


@dataclass(frozen=True)
class LogCholesky(Embedding):
    """The upper Cholesky factor with the logarithm of its diagonal (Lin 2019).

    The token distance is the log-Cholesky distance, a Riemannian metric with closed-form means.
    Every vector is the token of an SPD matrix.

    Scale law: off-diagonal entries times ``sqrt(s)``, diagonal entries plus ``log(s) / 2``.
    """

    name: ClassVar[str] = "log_cholesky"
    triangular: ClassVar[bool] = True

    def embed(self, C: Tensor) -> Tensor:
        U = upper_cholesky(C)
        logs = torch.diag_embed(U.diagonal(dim1=-2, dim2=-1).log())
        return (U.triu(1) + logs).to(C.dtype)

    def unembed(self, M: Tensor) -> Tensor:
        M, dtype = M.double(), M.dtype
        U = M.triu(1) + torch.diag_embed(M.diagonal(dim1=-2, dim2=-1).exp())
        return (U.mT @ U).to(dtype)
