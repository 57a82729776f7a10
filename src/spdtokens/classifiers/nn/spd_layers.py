r"""Layers on SPD matrices that several networks share: a unit, BiMap, ReEig.

References
----------
Z. Huang and L. Van Gool, "A Riemannian network for SPD matrix learning", AAAI 2017.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from spdtokens.errors import ModelError
from spdtokens.geometry import Floor, SpectralFunction, invsqrtm, spectral


class Unit(nn.Module):
    """Divide the data by one number, the size of the first batch trained on.

    Thresholds such as ReEig's 1e-4, or the 1e-5 of a batch norm, presume a unit. With this in
    front a network learns the same from volts as from microvolts. The number is drawn once and
    stays, in the state dict too, so that it is nothing but a change of unit; before training it
    is 1.

    Parameters
    ----------
    of : {'covariances', 'signals'}
        Covariances (..., d, d) are divided by their mean eigenvalue, signals
        (n, channels, samples) by their standard deviation over time.
    """

    value: Tensor

    def __init__(self, of: Literal["covariances", "signals"]) -> None:
        super().__init__()
        self.of = of
        self.register_buffer("value", torch.zeros((), dtype=torch.float64))  # 0: not known yet

    @torch.no_grad()
    def calibrate(self, X: Tensor) -> None:
        """Take the unit from ``X``, say from all training trials, instead of the first batch."""
        if self.of == "covariances":
            size = X.double().diagonal(dim1=-2, dim2=-1).mean()
        else:
            size = X.double().var(-1, correction=0).mean().sqrt()
        if not bool(torch.isfinite(size)) or not bool(size > 0):
            raise ModelError(
                f"The {self.of} have a mean size of {size.item():g}, which is no unit to measure "
                "them in. Look for NaN samples, or for trials that are zero throughout."
            )
        self.value.copy_(size)

    def forward(self, X: Tensor) -> Tensor:
        """``X`` in the network's own unit, of the same shape and dtype."""
        if self.training and not bool(self.value):
            self.calibrate(X)
        return X / self.value if bool(self.value) else X


class BiMap(nn.Module):
    r"""Bilinear map of SPD matrices, :math:`C \mapsto W^\top C W` with orthonormal columns.

    Parameters
    ----------
    d_in, d_out : int
        Sizes of the matrices before and after; ``d_out`` at most ``d_in``.
    generator : torch.Generator, optional
        Draws the initial weights, uniform among orthonormal columns; torch's global one by
        default.

    Notes
    -----
    The parameter ``raw`` (d_in, d_out) is free, so that any optimiser will do, and :attr:`weight`
    is its polar factor :math:`A (A^\top A)^{-1/2}`, the nearest matrix with orthonormal columns.
    Unlike ``torch.nn.utils.parametrizations`` this leaves a plain module that can be pickled, and
    weight decay shrinks ``raw`` without bending ``weight``. An orthonormal ``raw`` is its own
    polar factor: copy weights of another library into it as they are.
    """

    def __init__(self, d_in: int, d_out: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if not 1 <= d_out <= d_in:
            raise ModelError(
                f"BiMap cannot take {d_in} x {d_in} matrices to {d_out} x {d_out}: orthonormal "
                f"columns allow sizes from 1 to {d_in}."
            )
        self.d_in, self.d_out = d_in, d_out
        self.raw = nn.Parameter(torch.empty(d_in, d_out))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew."""
        nn.init.orthogonal_(self.raw, generator=generator)

    @property
    def weight(self) -> Tensor:
        """The map ``W``, shape (d_in, d_out), with orthonormal columns."""
        return self.raw @ invsqrtm(self.raw.mT @ self.raw)

    def forward(self, C: Tensor) -> Tensor:
        """Matrices (..., d_in, d_in) to (..., d_out, d_out), of the dtype of ``C``."""
        W = self.weight.to(C.dtype)
        return W.mT @ C @ W


def _itself(a: Tensor) -> Tensor:
    return a


def _slope_one(a: Tensor, b: Tensor) -> Tensor:
    return torch.ones_like(a + b)


#: Changes eigenvalues only where they are below the floor.
_RAISE = SpectralFunction("ReEig", _itself, _slope_one)


def reeig(C: Tensor, floor: Floor) -> Tensor:
    """ReEig: raise the eigenvalues of SPD matrices (..., d, d) to a floor, with exact gradients.

    Followed by a logarithm it needs no step of its own: ``logm(C, floor=floor)`` is the same.
    """
    return spectral(C, _RAISE, floor=floor)


def rectifier(threshold: float, *, relative: bool = False) -> Floor:
    """The floor of ReEig: ``threshold`` itself, or times each matrix's mean eigenvalue."""
    if not 0 < threshold < 1:
        raise ModelError(
            f"ReEig raises eigenvalues to a threshold in (0, 1), not {threshold!r}: it is told in "
            "units of the mean eigenvalue. The original's is 1e-4."
        )
    return Floor(threshold, 0.0) if relative else Floor(0.0, threshold)
