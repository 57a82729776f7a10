"""What every method costs: parameters, size, operations, time, memory (the paper's efficiency).

Networks are measured from what they take (raw trials, covariances or tokens) to class scores, at
random weights; methods without networks from raw trials to predictions, fitted to random trials.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from spdtokens.bench.timing import thread_count
from spdtokens.classifiers import TokenMLPClassifier
from spdtokens.classifiers.methods import METHODS, RECOMMENDED, Method, Settings
from spdtokens.classifiers.nn import STANDARD, SPDTokenTransformer
from spdtokens.classifiers.nn.networks import NETWORKS, Input, TrialShape
from spdtokens.geometry import token_dim

BATCH = 32
#: The paper's BCI2a trials.
BCI2A = TrialShape(22, 4, 438, 125.0)


def inputs_for(kind: Input, shape: TrialShape, n: int) -> Tensor:
    """Random raw trials, covariances or tokens of ``n`` trials."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, shape.n_chans, max(shape.n_times, 4 * shape.n_chans), generator=generator)
    if kind == "raw":
        return X
    C = (X @ X.mT / X.shape[-1]).unsqueeze(1)
    if kind == "covariance":
        return C
    return torch.randn(n, shape.n_tokens, token_dim(shape.n_chans), generator=generator)


def measure_network(
    build: Callable[[TrialShape], nn.Module], kind: Input, shape: TrialShape, rounds: int
) -> dict[str, Any]:
    """Cost of a network; times in milliseconds for a batch of ``BATCH`` trials."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        module = build(shape)
    X, y = inputs_for(kind, shape, BATCH), torch.arange(BATCH) % shape.n_outputs
    parameters = sum(p.numel() for p in module.parameters())
    module.eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(X[:1])
    forward = _milliseconds(lambda: _predict(module, X), rounds)
    module.train()
    both = _milliseconds(lambda: _train_step(module, X, y), rounds)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return {
        "parameters": parameters,
        "size_megabytes": len(file.getvalue()) / 1e6,
        "flops_per_trial": counter.get_total_flops(),
        "forward_milliseconds": forward,
        "backward_milliseconds": max(both - forward, 0.0),
        "training_megabytes": _training_megabytes(module, X, y),
    }


def measure_classical(method: Method, shape: TrialShape, rounds: int) -> dict[str, Any]:
    """Cost of a classical method: size of the pickle, time to predict ``BATCH`` trials."""
    X = inputs_for("raw", shape, 4 * BATCH).double().numpy()
    y = np.arange(len(X)) % shape.n_outputs
    options = {"sfreq": shape.sfreq, "bands": method.bands or "broadband"}
    if method.name == RECOMMENDED:
        options["estimator"] = "oas"
    model = method.steps(options, Settings()).fit(X, y)
    return {
        "parameters": None,
        "size_megabytes": len(pickle.dumps(model)) / 1e6,
        "flops_per_trial": None,
        "forward_milliseconds": _milliseconds(lambda: model.predict(X[:BATCH]), rounds),
        "backward_milliseconds": None,
        "training_megabytes": None,
    }


def bench_methods(
    shape: TrialShape = BCI2A, rounds: int = 7, threads: int | None = None
) -> Iterator[dict[str, Any]]:
    """Cost of every method, with the paper's efficiency score and trials a second beside it.

    Methods whose extra is not installed are left out.
    """
    with thread_count(threads or torch.get_num_threads()):
        for method in METHODS.values():
            if not method.installed:
                continue
            row: dict[str, Any] = {
                "name": method.name,
                "family": method.family,
                "input": method.input,
            }
            if not method.has_seed:
                row |= measure_classical(method, shape, rounds)
            else:
                mine = replace(shape, n_tokens=3) if method.bands else shape
                row |= measure_network(_builder(method), method.input, mine, rounds)
            forward = row["forward_milliseconds"]
            row["trials_per_second"] = 1e3 * BATCH / forward
            parameters, size = row["parameters"], row["size_megabytes"]
            row["paper_efficiency"] = (
                None if parameters is None else 1000 / (parameters * size * forward)
            )
            yield row


def _builder(method: Method) -> Callable[[TrialShape], nn.Module]:
    if method.name in NETWORKS:
        return NETWORKS[method.name].build
    if method.name == "spd-token-mlp":
        made = TokenMLPClassifier()
        return lambda s: made._module(token_dim(s.n_chans), s.n_tokens, s.n_outputs)
    return lambda s: SPDTokenTransformer(token_dim(s.n_chans), s.n_tokens, s.n_outputs, STANDARD)


def _predict(module: nn.Module, X: Tensor) -> None:
    with torch.no_grad():
        module(X)


def _train_step(module: nn.Module, X: Tensor, y: Tensor) -> None:
    module.zero_grad()
    F.cross_entropy(module(X), y).backward()


def _training_megabytes(module: nn.Module, X: Tensor, y: Tensor) -> float:
    """Weights, gradients, Adam's moments, and what is kept for the backward pass."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = F.cross_entropy(module(X), y)
    del loss
    weights = sum(p.numel() * p.element_size() for p in module.parameters())
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    activations = sum(size for place, size in kept.items() if place not in own)
    return (4 * weights + activations) / 1e6


def _milliseconds(action: Callable[[], object], rounds: int) -> float:
    for _ in range(3):
        action()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))
