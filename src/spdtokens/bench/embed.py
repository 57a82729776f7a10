"""Tokens of covariance matrices: our speed against pyRiemann, spd_learn and plain torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from pyriemann.geometry.base import logm as pyriemann_logm
from pyriemann.geometry.base import sqrtm as pyriemann_sqrtm
from torch import Tensor

from spdtokens.bench.timing import fastest_peer, interleaved_times, thread_count
from spdtokens.geometry import get_embedding, token_dim

#: Matrices and channels of the paper's three data sets.
SHAPES = ((288, 22), (340, 56), (500, 8))
OURS = "spdtokens"
EMBEDDINGS = {"log": "log_euclidean", "sqrt": "bures_wasserstein"}


def _upper(M: Any) -> Any:
    d = M.shape[-1]
    rows, columns = np.triu_indices(d) if isinstance(M, np.ndarray) else torch.triu_indices(d, d)
    return M[..., rows, columns]


def _plain_torch(function: str) -> Callable[[Tensor], Tensor]:
    """What one writes first: eigh, function of the eigenvalues, autograd for the rest."""

    def tokens(C: Tensor) -> Tensor:
        eigenvalues, V = torch.linalg.eigh(C)
        return _upper((V * getattr(torch, function)(eigenvalues).unsqueeze(-2)) @ V.mT)

    return tokens


def torch_peers(function: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """Ways to compute tokens from tensors, all differentiable, ours first."""
    to_token = get_embedding(EMBEDDINGS[function]).to_token
    matrix_function = {"log": pyriemann_logm, "sqrt": pyriemann_sqrtm}[function]
    peers: dict[str, Callable[[Tensor], Tensor]] = {
        OURS: lambda C: to_token(C),
        "torch eigh": _plain_torch(function),
        "pyRiemann (torch)": lambda C: _upper(matrix_function(C)),
    }
    if find_spec("spd_learn"):
        from spd_learn import functional as spd_learn

        apply = {"log": spd_learn.matrix_log, "sqrt": spd_learn.matrix_sqrt}[function].apply
        peers["spd_learn"] = lambda C: spd_learn.sym_to_upper(apply(C), preserve_norm=False)
    return peers


def _forward(tokens: Callable[[Tensor], Tensor], C: Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return tokens(C)

    return run


def _forward_backward(
    tokens: Callable[[Tensor], Tensor], C: Tensor, G: Tensor
) -> Callable[[], object]:
    leaf = C.clone().requires_grad_()
    return lambda: torch.autograd.grad(tokens(leaf), leaf, G)


def _covariances(n: int, d: int, dtype: torch.dtype) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(n, d, 4 * d, generator=rng, dtype=torch.float64)
    return (X @ X.mT / (4 * d)).to(dtype)


def _row(
    shape: tuple[int, int], function: str, pass_: str, dtype: torch.dtype, repeats: int
) -> dict[str, Any]:
    n, d = shape
    C = _covariances(n, d, dtype)
    peers = torch_peers(function)
    if pass_ == "forward":
        candidates = {name: _forward(tokens, C) for name, tokens in peers.items()}
        array = C.numpy()
        matrix_function = {"log": pyriemann_logm, "sqrt": pyriemann_sqrtm}[function]
        candidates["pyRiemann (NumPy)"] = lambda: _upper(matrix_function(array))
    else:
        G = torch.randn(n, token_dim(d), generator=torch.Generator().manual_seed(1)).to(dtype)
        candidates = {name: _forward_backward(tokens, C, G) for name, tokens in peers.items()}
    times = interleaved_times(candidates, repeats)
    fastest, ratio = fastest_peer(times, OURS)
    return {
        "n": n,
        "d": d,
        "function": function,
        "pass": pass_,
        "dtype": str(dtype).removeprefix("torch."),
        "milliseconds": {name: float(np.median(t)) for name, t in times.items()},
        "fastest_peer": fastest,
        "ratio": ratio,
    }


def bench_embed(repeats: int = 15, threads: int | None = None) -> Iterator[dict[str, Any]]:
    """Time log and sqrt tokens, forward and forward + backward, at the paper's shapes.

    Parameters
    ----------
    repeats : int
        Rounds; medians are reported.
    threads : int, optional
        For every library alike; by default as many as torch uses.

    Yields
    ------
    dict
        One for each shape, function, pass and dtype; ``ratio`` is our time over the fastest
        peer's in the same round (median of rounds), so below 1 we are faster.
    """
    with thread_count(threads or torch.get_num_threads()):
        for dtype in (torch.float64, torch.float32):
            for shape in SHAPES:
                for function in EMBEDDINGS:
                    for pass_ in ("forward", "forward+backward"):
                        yield _row(shape, function, pass_, dtype, repeats)
