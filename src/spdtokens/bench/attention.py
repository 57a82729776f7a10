"""Cost of geometric attention: distances computed once, and again in every block and step."""

from __future__ import annotations

import time
from itertools import product
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.bench import timing
from spdtokens.bench.timing import Tell, Way, silent
from spdtokens.classifiers.nn import STANDARD, SPDTokenTransformer, TransformerConfig
from spdtokens.classifiers.nn.recipe import COMMON
from spdtokens.classifiers.nn.transformer import SMALL, geometric_bias
from spdtokens.geometry import get_embedding, unvech

STANDARD_ATTENTION, ONCE, EVERY_BLOCK = "standard", "distances once", "distances in every block"
CLASSES = 4
#: Network and batch size of the paper by number of channels (MAMEM, BCI2a, BCIcha).
NETWORKS = {8: (SMALL, 32), 22: (STANDARD, 64), 56: (STANDARD, 64)}
TOKEN_COUNTS = (1, 3)
#: Seconds of 50 epochs that the paper prints for standard and geometric attention, one token.
PRINTED_SECONDS = {8: (3.97, 7.31), 22: (21.05, 35.96), 56: (22.19, 1942.02)}


def bias_from_tokens(tokens: Tensor, alpha: float) -> Tensor:
    """Compute the bias of geometric attention from square-root tokens.

    Parameters
    ----------
    tokens : Tensor, shape (n, tokens, features)
        Upper triangles of matrix square roots.
    alpha : float
        Weight of the distance.

    Returns
    -------
    Tensor, shape (n, tokens, tokens)
        The values of :func:`spdtokens.classifiers.nn.geometric_bias`, for all pairs of tokens.
    """
    S = unvech(tokens)
    C = S @ S
    eigenvalues, V = torch.linalg.eigh(C)
    roots = ((V * eigenvalues.clamp(min=0).sqrt().unsqueeze(-2)) @ V.mT)[:, :, None]
    trace = eigenvalues.sum(-1)
    fidelity = torch.linalg.eigvalsh(roots @ C[:, None] @ roots).clamp(min=0).sqrt().sum(-1)
    squared = trace[:, :, None] + trace[:, None] - 2 * fidelity
    return -alpha * (squared.clamp(min=0) / trace.mean(1)[:, None, None]).sqrt()


class RecomputedAttention(nn.Module):
    """Geometric attention as the paper describes it.

    Every block builds the matrices from the tokens and computes their distances again, in every
    forward pass, although tokens are constant.

    Parameters
    ----------
    model : SPDTokenTransformer
        Network on square-root tokens, whose weights are used.
    """

    def __init__(self, model: SPDTokenTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute class scores (n, classes) of tokens (n, tokens, features)."""
        x = self.model.embed(tokens)
        for block in self.model.blocks:
            x = block(x, bias_from_tokens(tokens, self.model.config.alpha))
        return cast("Tensor", self.model.head(x.mean(1)))


def _step(network: nn.Module, *inputs: Tensor) -> Way:
    """One step of training: forward, backward, Adam."""
    optimizer = torch.optim.Adam(network.parameters(), lr=COMMON.learning_rate)
    labels = torch.arange(len(inputs[0])) % CLASSES

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(*inputs), labels).backward()
        optimizer.step()

    return step


def compare(
    channels: int, tokens: int, config: TransformerConfig, batch: int, rounds: int
) -> dict[str, Any]:
    """Time one step of training in ms, with each kind of attention.

    The distances that are computed once are counted with their share of the paper's 50 epochs.
    """
    C = timing.random_covariances(batch, tokens, channels)
    x = get_embedding("bures_wasserstein").to_token(C)
    begin = time.perf_counter()
    bias = geometric_bias(C, config.alpha)
    share = 1e3 * (time.perf_counter() - begin) / COMMON.epochs
    models = [SPDTokenTransformer(x.shape[-1], tokens, CLASSES, config) for _ in range(3)]
    ways = {
        STANDARD_ATTENTION: _step(models[0], x),
        ONCE: _step(models[1], x, bias),
        EVERY_BLOCK: _step(RecomputedAttention(models[2]), x),
    }
    times = timing.take_turns(ways, rounds)
    times[ONCE] = times[ONCE] + share
    before, after = PRINTED_SECONDS[channels]
    return {
        "channels": channels,
        "tokens": tokens,
        "batch_size": batch,
        "milliseconds": timing.medians(times),
        "ratio": {
            name: timing.ratio(times, name, STANDARD_ATTENTION) for name in (ONCE, EVERY_BLOCK)
        },
        "printed_ratio": after / before if tokens == 1 else None,
    }


def bench_attention(
    rounds: int = 5, threads: int | None = None, tell: Tell = silent
) -> dict[str, Any]:
    """Time training steps with standard and geometric attention.

    Parameters
    ----------
    rounds : int, default=5
        Number of rounds; medians are reported.
    threads : int, default=None
        Number of threads; None keeps that of torch.
    tell : callable, default=silent
        Called with a description of what is being timed.

    Returns
    -------
    dict
        ``rows`` has one entry per number of channels and of tokens. ``ratio`` is the time divided
        by that of standard attention, ``printed_ratio`` the paper's on a GPU.
    """
    rows = []
    with timing.thread_count(threads) as used:
        for (channels, (config, batch)), tokens in product(NETWORKS.items(), TOKEN_COUNTS):
            tell(f"{channels} channels, {tokens} tokens")
            rows.append(compare(channels, tokens, config, batch, rounds))
    return {"threads": used, "rounds": rounds, "rows": rows}
