"""Logarithm tokens: the paper's Log-Euclidean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from spdtokens.geometry.embeddings.base import Embedding
from spdtokens.geometry.matrix_functions import LOG, expm, logm, spectral_token


@dataclass(frozen=True)
class LogEuclidean(Embedding):
    """``triu(log C)``. Isometric tokens carry the log-Euclidean distance exactly.

    Scale law: ``to_token(s C) = to_token(C) + log(s) to_token(e I)``.
    """

    name: ClassVar[str] = "log_euclidean"

    def embed(self, C: Tensor) -> Tensor:
        return logm(C, floor=self.floor)

    def embed_token(self, C: Tensor) -> Tensor:
        return spectral_token(C, LOG, isometric=self.isometric, floor=self.floor)

    def unembed(self, M: Tensor) -> Tensor:
        return expm(M)
