"""Several embeddings of each matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from spdtokens.geometry.arrays import numpy_too
from spdtokens.geometry.embeddings.at_reference import AtReference
from spdtokens.geometry.embeddings.base import Embedding
from spdtokens.geometry.embeddings.class_filters import ClassFilters


@dataclass(frozen=True)
class Several:
    """Tokens of the first embedding for all of a trial's matrices, then of the second, and so on.

    Parameters
    ----------
    members : tuple of Embedding
    """

    members: tuple[Embedding, ...]

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:
        """Return a copy fitted to training matrices (n, tokens, d, d) and labels (n,)."""
        first: AtReference | None = None
        fitted = []
        for member in self.members:
            # A reference is the costly part, and two with one metric have the same.
            if isinstance(member, AtReference) and first and first.metric == member.metric:
                member = replace(member, reference=first.reference)
            else:
                member = member.fit(C, y)
                first = member if isinstance(member, AtReference) else first
            fitted.append(member)
        return replace(self, members=tuple(fitted))

    @numpy_too
    def to_token(self, C: Tensor) -> Tensor:
        """Tokens (..., members * tokens, d (d + 1) / 2) of SPD matrices (..., tokens, d, d)."""
        return torch.cat([member.to_token(C) for member in self.members], dim=-2)

    @property
    def reference(self) -> Tensor | None:
        """Of the members that have one."""
        found = [m.reference for m in self.members if isinstance(m, AtReference)]
        return found[0] if found else None

    @property
    def filters(self) -> Tensor | None:
        """Of the member that has some."""
        found = [m.filters for m in self.members if isinstance(m, ClassFilters)]
        return found[0] if found else None
