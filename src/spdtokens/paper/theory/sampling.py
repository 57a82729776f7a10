"""Random SPD matrices with known spectra."""

from __future__ import annotations

import math

import torch
from torch import Tensor

F64 = torch.float64


def random_rotation(n: int, d: int, rng: torch.Generator) -> Tensor:
    """Orthogonal matrices (n, d, d), uniformly distributed."""
    Q, R = torch.linalg.qr(torch.randn(n, d, d, generator=rng, dtype=F64))
    return Q * R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def spectrum(n: int, d: int, kappa: float, rng: torch.Generator) -> Tensor:
    """Eigenvalues (n, d), log-uniform between 1 / kappa and 1, both ends included."""
    logs = torch.rand(n, d, generator=rng, dtype=F64)
    logs[:, 0], logs[:, -1] = 0.0, 1.0
    return torch.exp((logs - 1.0) * math.log(kappa))


def random_spd(n: int, d: int, kappa: float, rng: torch.Generator) -> Tensor:
    """SPD matrices (n, d, d) with largest eigenvalue 1 and condition number kappa."""
    V = random_rotation(n, d, rng)
    return (V * spectrum(n, d, kappa, rng).unsqueeze(-2)) @ V.mT


def commuting_pairs(n: int, d: int, kappa: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pairs of SPD matrices with the same eigenvectors."""
    V = random_rotation(n, d, rng)
    a, b = (kappa ** (-torch.rand(n, d, generator=rng, dtype=F64)) for _ in range(2))
    return (V * a.unsqueeze(-2)) @ V.mT, (V * b.unsqueeze(-2)) @ V.mT


def near_pairs(n: int, d: int, kappa: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pairs that differ by a small rotation: where commuting arguments break first."""
    A = random_spd(n, d, kappa, rng)
    skew = torch.randn(n, d, d, generator=rng, dtype=F64)
    angle = 10 ** (-3 * torch.rand(n, 1, 1, generator=rng, dtype=F64))
    R = torch.matrix_exp(angle * (skew - skew.mT) / math.sqrt(d))
    return A, R @ A @ R.mT


def mirrored_pair(small: float, angle: float) -> tuple[Tensor, Tensor]:
    """Two 2 x 2 matrices with eigenvalues 1 and ``small``, mirror images in the diagonal.

    Their square roots differ in the diagonal only, where vech loses nothing.
    """
    alpha = math.pi / 4 - angle / 2
    u = torch.tensor([math.cos(alpha), math.sin(alpha)], dtype=F64)
    A = (1 - small) * torch.outer(u, u) + small * torch.eye(2, dtype=F64)
    return A, A.flip(0, 1)
