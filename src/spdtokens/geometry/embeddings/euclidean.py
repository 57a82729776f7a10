"""Raw covariance tokens: the paper's Euclidean baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from spdtokens.geometry.embeddings.base import Embedding, symmetric_part


@dataclass(frozen=True)
class Euclidean(Embedding):
    """``triu(C)``. Isometric tokens carry the Frobenius distance.

    Scale law: ``to_token(s C) = s to_token(C)``.
    """

    name: ClassVar[str] = "euclidean"

    def embed(self, C: Tensor) -> Tensor:
        return symmetric_part(C)

    def unembed(self, M: Tensor) -> Tensor:
        return M
