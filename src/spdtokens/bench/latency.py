"""One trial, covariance to class probabilities: our delay against plain torch, one thread."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spdtokens._extras import is_installed
from spdtokens.bench.obvious import ObviousTransformer
from spdtokens.bench.timing import thread_count
from spdtokens.classifiers.nn import SPDTokenTransformer, folded
from spdtokens.geometry import get_embedding, matrix_dim, token_dim
from spdtokens.inference import write_onnx
from spdtokens.runtime import Decoder, load_model, model_bytes
from spdtokens.runtime.networks import Transformers
from spdtokens.runtime.tokens import Tokens

#: The model file as NumPy computes it, and with its network in ONNX Runtime.
NUMPY, ONNX, PEER = "NumPy", "ONNX Runtime", "nn.TransformerEncoder"
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


def decoders(model: SPDTokenTransformer, channels: int) -> dict[str, Decoder]:
    """A trained network of log tokens as it is used: read from its files."""
    made = Decoder(
        classes=tuple(f"class {i}" for i in range(model.head.out_features)),
        ch_names=tuple(f"channel {i}" for i in range(channels)),
        sfreq=None,
        tmin=0.0,
        unit_in_volts=None,
        front=None,
        tokens=Tokens(("log_euclidean",), False, 1e-12, 0.0, 1.0, None),
        network=Transformers((folded(model),), model.config.alpha),
        shape=(model.n_tokens, channels, channels),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.spdt"
        path.write_bytes(model_bytes(made))
        found = {NUMPY: load_model(path)}
        if is_installed("onnx"):
            write_onnx(path, path.with_suffix(".onnx"))
            found[ONNX] = load_model(path, onnx=path.with_suffix(".onnx"))
    return found


def candidates(
    tokens: int, channels: int = CHANNELS, seed: int = 0
) -> dict[str, Callable[[], NDArray[Any]]]:
    """All ways from the same covariances (tokens, channels, channels) to probabilities (classes,).

    Raises
    ------
    RuntimeError
        If one does not agree with the peer to 1e-5: a comparison would be worthless.
    """
    rng = torch.Generator().manual_seed(seed)
    X = torch.randn(32, tokens, channels, 4 * channels, generator=rng, dtype=torch.float64)
    C = X @ X.mT / X.shape[-1]
    model = SPDTokenTransformer(token_dim(channels), tokens, CLASSES, generator=rng)
    with torch.no_grad():  # running statistics that are not those of a new network
        for _ in range(3):
            model(get_embedding("log_euclidean").to_token(C).float())
    model.eval()
    plain = PlainTorch(model)
    trial = C[:1].clone()
    array = trial.numpy()

    def run_plain() -> NDArray[Any]:
        with torch.inference_mode():
            return plain(trial)[0].numpy()

    def run(decoder: Decoder) -> Callable[[], NDArray[Any]]:
        return lambda: decoder.predict_proba(array)[0]

    ways = {name: run(decoder) for name, decoder in decoders(model, channels).items()}
    for name, way in ways.items():
        difference = float(np.abs(way() - run_plain()).max())
        if not difference < 1e-5:
            raise RuntimeError(f"{name} differs by {difference:.2g} in a class probability.")
    return ways | {PEER: run_plain}


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
        ``rows`` with median and 99th percentile of the milliseconds of a call; ``speedup`` of each
        of our ways is the peer's median over its own in the same round, median of rounds.
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
                    "speedup": {
                        name: float(np.median(medians[PEER] / ours))
                        for name, ours in medians.items()
                        if name != PEER
                    },
                }
            )
    return {"threads": 1, "calls": rounds * CALLS, "paper": PAPER, "rows": rows}
