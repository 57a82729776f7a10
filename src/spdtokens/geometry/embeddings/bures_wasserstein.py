"""Square-root tokens: the paper's BWSPD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from spdtokens.geometry.embeddings.base import Embedding
from spdtokens.geometry.matrix_functions import SQRT, spectral_token, sqrtm


@dataclass(frozen=True)
class BuresWasserstein(Embedding):
    """``triu(sqrt C)``. Token distances are within sqrt 2 of Bures-Wasserstein distances.

    Scale law: ``to_token(s C) = sqrt(s) to_token(C)``.
    """

    name: ClassVar[str] = "bures_wasserstein"

    def embed(self, C: Tensor) -> Tensor:
        return sqrtm(C, floor=self.floor)

    def embed_token(self, C: Tensor) -> Tensor:
        return spectral_token(C, SQRT, isometric=self.isometric, floor=self.floor)

    def unembed(self, M: Tensor) -> Tensor:
        return (M.double() @ M.double()).to(M.dtype)
