"""Tokens of covariances and of trials, compared with pyRiemann, spd_learn and torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from pyriemann.geometry.base import logm as pyriemann_logm
from pyriemann.geometry.base import sqrtm as pyriemann_sqrtm
from sklearn.pipeline import make_pipeline
from torch import Tensor

from spdtokens._extras import is_installed
from spdtokens.bench import peers, timing
from spdtokens.bench.timing import OURS, Tell, Way, silent
from spdtokens.geometry import TokenEmbedding, get_embedding, token_dim
from spdtokens.preprocessing import FilterBankCovariances

#: Number of matrices and channels of the paper's three data sets.
SHAPES = ((288, 22), (340, 56), (500, 8))
EMBEDDINGS = {"log": "log_euclidean", "sqrt": "bures_wasserstein"}
PYRIEMANN = {"log": pyriemann_logm, "sqrt": pyriemann_sqrtm}
LOOP, VECTORISED = "obvious loop", "pyRiemann + SciPy"
SFREQ = 250.0


def torch_tokens(function: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """Differentiable implementations of tokens for tensors, ours first."""
    ways = {
        OURS: get_embedding(EMBEDDINGS[function]).to_token,
        "torch eigh": peers.TOKENS[function],
        "pyRiemann (torch)": lambda C: peers.upper(PYRIEMANN[function](C)),
    }
    if is_installed("baselines"):
        from spd_learn import functional as spd_learn

        apply = {"log": spd_learn.matrix_log, "sqrt": spd_learn.matrix_sqrt}[function].apply
        ways["spd_learn"] = lambda C: spd_learn.sym_to_upper(apply(C), preserve_norm=False)
    return ways


def _ways(function: str, C: Tensor, backward: bool) -> dict[str, Way]:
    leaf, array = C.clone().requires_grad_(), C.numpy()
    G = torch.randn(len(C), token_dim(C.shape[-1]), generator=torch.Generator().manual_seed(1))
    G = G.to(C.dtype)

    def gradient(tokens: Callable[[Tensor], Tensor]) -> object:
        return torch.autograd.grad(tokens(leaf), leaf, G)

    ways: dict[str, Way] = {
        name: partial(gradient, tokens) if backward else torch.no_grad()(partial(tokens, C))
        for name, tokens in torch_tokens(function).items()
    }
    if not backward:
        ways["pyRiemann (NumPy)"] = lambda: peers.upper(PYRIEMANN[function](array))
    return ways


def bench_embed(
    repeats: int = 15, threads: int | None = None, tell: Tell = silent
) -> dict[str, Any]:
    """Time log and sqrt tokens, forward and forward + backward, at the paper's shapes.

    Parameters
    ----------
    repeats : int, default=15
        Number of rounds; medians are reported.
    threads : int, default=None
        Number of threads of every library; None keeps that of torch.
    tell : callable, default=silent
        Called with a description of what is being timed.

    Returns
    -------
    dict
        ``rows`` has one entry per shape, function, pass and dtype. ``ratio`` is our time divided
        by that of the fastest other implementation (median over rounds); below 1 we are faster.
    """
    rows = []
    passes = ("forward", "forward+backward")
    with timing.thread_count(threads) as used:
        for dtype, (n, d), function, pass_ in product(
            ("float64", "float32"), SHAPES, EMBEDDINGS, passes
        ):
            tell(f"{function} of {n} matrices {d} x {d}, {pass_}, {dtype}")
            C = timing.random_covariances(n, d, dtype=getattr(torch, dtype))
            times = timing.take_turns(_ways(function, C, pass_ != "forward"), repeats)
            ratios = {name: timing.ratio(times, OURS, name) for name in times if name != OURS}
            peer = max(ratios, key=lambda name: ratios[name])
            row = {"n": n, "d": d, "function": function, "pass": pass_, "dtype": dtype}
            found = {"milliseconds": timing.medians(times), "fastest_peer": peer}
            rows.append(row | found | {"ratio": ratios[peer]})
    return {"threads": used, "repeats": repeats, "rows": rows}


def bench_tokenize(
    repeats: int = 5,
    threads: int | None = None,
    tell: Tell = silent,
    shape: tuple[int, int, int] = (288, 22, 1000),
) -> dict[str, Any]:
    """Time raw trials to log tokens of the paper's three bands.

    Returns
    -------
    dict
        Median milliseconds of each implementation, and our speed-up within rounds.
    """
    X = np.random.default_rng(0).standard_normal(shape)
    tokenizer = make_pipeline(FilterBankCovariances(SFREQ, bands="paper3"), TokenEmbedding())
    tokenizer.fit(X[:2])
    ways: dict[str, Way] = {
        OURS: lambda: tokenizer.transform(X),
        VECTORISED: lambda: peers.vectorised_tokens(X, SFREQ),
        LOOP: lambda: peers.loop_tokens(X, SFREQ),
    }
    tell("raw trials to tokens")
    with timing.thread_count(threads) as used:
        times = timing.take_turns(ways, repeats)
    return {
        "shape": list(shape),
        "threads": used,
        "milliseconds": timing.medians(times),
        "speedup": {name: timing.ratio(times, name, OURS) for name in (LOOP, VECTORISED)},
    }
