"""The least eigenvalue allowed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Floor:
    """The least eigenvalue allowed; smaller ones are raised to it.

    Attributes
    ----------
    relative : float
        Times the mean absolute eigenvalue (trace / d) of the matrix. A multiple of the matrix's
        own scale does not depend on the unit of the signal, and the trace is smooth where the
        largest eigenvalue is not. Never less than the rounding noise of the input's dtype.
    absolute : float
        In the unit of the matrix. The paper clips at 1e-12, which presumes microvolts: in volts,
        covariances of EEG are near 1e-10 and clipping at 1e-12 distorts them.
    """

    relative: float = 1e-12
    absolute: float = 0.0

    @classmethod
    def paper(cls) -> Floor:
        """The paper's clipping at 1e-12, whatever the unit."""
        return cls(relative=0.0, absolute=1e-12)

    def slope(self, dtype: torch.dtype) -> float:
        """Derivative of the floor with respect to the mean absolute eigenvalue."""
        return max(self.relative, torch.finfo(dtype).eps) if self.relative else 0.0

    def level(self, eigenvalues: Tensor, dtype: torch.dtype) -> Tensor:
        """The floor of each matrix: shape (..., 1) for eigenvalues of shape (..., d)."""
        scale = eigenvalues.abs().mean(-1, keepdim=True)
        return (self.slope(dtype) * scale).clamp(min=self.absolute)

    def clears(self, eigenvalues: Tensor, dtype: torch.dtype) -> bool:
        """Whether all ascending eigenvalues (..., d) stand clear of the floor; quick, cautious."""
        smallest, largest = eigenvalues[..., 0], eigenvalues[..., -1]
        level = (self.slope(dtype) * largest).clamp_(min=max(self.absolute, 0.0))
        return bool((smallest > level).all())


DEFAULT_FLOOR = Floor()
