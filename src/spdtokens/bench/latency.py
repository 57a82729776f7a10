"""One trial, covariance to class probabilities: our delay against plain torch, one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spdtokens.bench.obvious import ObviousTransformer
from spdtokens.bench.timing import thread_count
from spdtokens.models import SPDTokenTransformer
from spdtokens.models.folded_classifier import FoldedClassifier
from spdtokens.spd import get_embedding, matrix_dim, token_dim

OURS, PEER = "spdtokens", "nn.TransformerEncoder"
CHANNELS, CLASSES = 22, 4
TOKENS = (1, 3)
#: Calls of one candidate in a row, and untimed ones before them: the other one has just filled
#: the processor's caches with its own weights.
CALLS, WARM_UP = 50, 10
#: What the paper states for a forward pass.
PAPER = "3.00 ms on an RTX 3090"


class PlainTorch(nn.Module):
    """What one writes first: torch's own encoder, eigh, logarithm, upper triangle, softmax.

    Parameters
    ----------
    model : SPDTokenTransformer
        Whose weights to take.
    """

    def __init__(self, model: SPDTokenTransformer) -> None:
        super().__init__()
        self.network = ObviousTransformer.like(model)
        d = matrix_dim(model.n_features)
        rows, columns = torch.triu_indices(d, d)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.eval()

    def forward(self, C: Tensor) -> Tensor:
        """Class probabilities (n, classes) of SPD matrices (n, tokens, d, d)."""
        eigenvalues, V = torch.linalg.eigh(C)
        logarithm = (V * eigenvalues.log().unsqueeze(-2)) @ V.mT
        tokens = logarithm[..., self.rows, self.columns].float()
        return self.network(tokens).softmax(-1)


def candidates(
    tokens: int, channels: int = CHANNELS, seed: int = 0
) -> dict[str, Callable[[], NDArray[Any]]]:
    """Both ways from the same covariances (tokens, channels, channels) to probabilities (classes,).

    Raises
    ------
    RuntimeError
        If the two do not agree to 1e-5: a comparison would be worthless.
    """
    rng = torch.Generator().manual_seed(seed)
    X = torch.randn(32, tokens, channels, 4 * channels, generator=rng, dtype=torch.float64)
    C = X @ X.mT / X.shape[-1]
    embedding = get_embedding("log_euclidean")
    model = SPDTokenTransformer(token_dim(channels), tokens, CLASSES, generator=rng)
    with torch.no_grad():  # running statistics that are not those of a new network
        for _ in range(3):
            model(embedding.to_token(C).float())
    model.eval()
    folded, plain = FoldedClassifier.from_model(model, embedding), PlainTorch(model)
    trial = C[:1].clone()
    array = trial[0].numpy()

    def run_plain() -> NDArray[Any]:
        with torch.inference_mode():
            return plain(trial)[0].numpy()

    ways = {OURS: lambda: folded.probabilities(array), PEER: run_plain}
    difference = float(np.abs(ways[OURS]() - ways[PEER]()).max())
    if not difference < 1e-5:
        raise RuntimeError(f"The two ways differ by {difference:.2g} in a class probability.")
    return ways


def call_times(
    ways: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, NDArray[np.float64]]:
    """Milliseconds (rounds, CALLS) of single calls, the ways taking turns within each round."""
    names = list(ways)
    times = {name: np.empty((rounds, CALLS)) for name in names}
    for round_ in range(rounds):
        for name in names if round_ % 2 else reversed(names):
            call, row = ways[name], times[name][round_]
            for _ in range(WARM_UP):
                call()
            for i in range(CALLS):
                start = time.perf_counter()
                call()
                row[i] = time.perf_counter() - start
    return {name: 1e3 * t for name, t in times.items()}


def bench_latency(repeats: int = 2000, tokens: tuple[int, ...] = TOKENS) -> dict[str, Any]:
    """Time single calls from covariance to class probabilities, on one thread.

    Parameters
    ----------
    repeats : int
        Calls of each way, rounded up to whole rounds of ``CALLS``.
    tokens : tuple of int
        Tokens of a trial; a row for each.

    Returns
    -------
    dict
        ``rows`` with median and 99th percentile of the milliseconds of a call; ``speedup`` is the
        peer's median over ours in the same round, median of rounds.
    """
    rounds = -(-repeats // CALLS)
    rows = []
    with thread_count(1):
        for T in tokens:
            times = call_times(candidates(T), rounds)
            medians = {name: np.median(t, 1) for name, t in times.items()}
            rows.append(
                {
                    "tokens": T,
                    "channels": CHANNELS,
                    "milliseconds": {
                        name: {"median": float(np.median(t)), "p99": float(np.percentile(t, 99))}
                        for name, t in times.items()
                    },
                    "speedup": float(np.median(medians[PEER] / medians[OURS])),
                }
            )
    return {"threads": 1, "calls": rounds * CALLS, "paper": PAPER, "rows": rows}
