"""SPD matrices, and trials to make them of, for tests."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

F64 = torch.float64


def rotation(d: int, seed: int = 0) -> Tensor:
    Q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator(seed), dtype=F64))
    return Q


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def with_spectrum(eigenvalues: list[float], seed: int = 0) -> Tensor:
    V = rotation(len(eigenvalues), seed)
    C = (V * torch.tensor(eigenvalues, dtype=F64)) @ V.T
    return 0.5 * (C + C.T)


def random_spd(*shape: int, kappa: float = 100.0, scale: float = 1.0, seed: int = 0) -> Tensor:
    """Shape (..., d): batches of d x d matrices with the given condition number."""
    *batch, d = shape
    rng = generator(seed)
    V, _ = torch.linalg.qr(torch.randn(*batch, d, d, generator=rng, dtype=F64))
    logs = torch.rand(*batch, d, generator=rng, dtype=F64)
    logs[..., 0], logs[..., -1] = 0.0, 1.0
    C = (V * (kappa**-logs).unsqueeze(-2)) @ V.mT
    return scale * 0.5 * (C + C.mT)


@st.composite
def spd_matrices(draw: st.DrawFn, max_d: int = 6, max_decades: float = 4.0) -> Tensor:
    """A batch of SPD matrices of any scale from 1e-12 to 1e12, possibly with equal eigenvalues."""
    d = draw(st.integers(1, max_d))
    n = draw(st.integers(1, 3))
    decades = st.floats(-max_decades / 2, max_decades / 2)
    logs = draw(st.lists(decades, min_size=d, max_size=d))
    if draw(st.booleans()):
        logs = [logs[0]] * (d // 2 + 1) + logs[d // 2 + 1 :]
    scale = 10.0 ** draw(st.integers(-12, 12))
    seed = draw(st.integers(0, 2**31 - 1))
    stack = [with_spectrum([scale * 10**x for x in logs], seed + i) for i in range(n)]
    return torch.stack(stack)


def rhythms(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Trials at 128 Hz of two classes that differ in the strength of 10 Hz in one of 5 channels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = np.arange(256) / 128
    X = rng.standard_normal((n, 5, 256))
    waves = np.sin(2 * np.pi * 10 * t + rng.uniform(0, 6.3, (n, 1)))
    X[:, 2] += (0.5 + 1.5 * y[:, None]) * waves
    return 1e-5 * X, y


def relative_error(found: Tensor | np.ndarray, expected: Tensor | np.ndarray) -> float:
    """Largest Frobenius error over a batch of matrices, relative to the expected norm."""
    found, expected = (torch.as_tensor(x).double() for x in (found, expected))
    size = expected.flatten(-2).norm(dim=-1)
    return float(((found - expected).flatten(-2).norm(dim=-1) / size).max())
