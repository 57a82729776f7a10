"""Cost of the methods: parameters, size, operations, time, memory; one thread and several.

Networks are measured from their input (raw trials, covariances or tokens) to class scores, with
random weights. Other methods are measured from raw trials to predictions, fitted to random trials.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from spdtokens.bench import timing
from spdtokens.bench.timing import Tell, Way, silent
from spdtokens.classifiers import TokenMLPClassifier, TokenTransformerClassifier, make_decoder
from spdtokens.classifiers.methods import METHODS, RECOMMENDED, Method, Settings, get_method
from spdtokens.classifiers.nn import STANDARD, SPDTokenTransformer
from spdtokens.classifiers.nn.networks import NETWORKS, Input, TrialShape
from spdtokens.evaluation.estimators import with_seed
from spdtokens.geometry import token_dim
from spdtokens.preprocessing import FilterBankCovariances

BATCH = 32
#: Shape of the paper's BCI2a trials, and number of trials per session.
BCI2A, TRIALS = TrialShape(22, 4, 438, 125.0), 288
PEERS = ("ts-lr", "matt")
#: Keys of a row; None where one does not apply to a method.
COST = (
    *("name", "family", "input", "parameters", "size_megabytes", "flops_per_trial"),
    *("forward_milliseconds", "backward_milliseconds", "training_megabytes"),
    *("trials_per_second", "paper_efficiency"),
)
#: Sampling rate of the trials of :func:`thread_cases`.
SFREQ = 250.0


def inputs_for(kind: Input, shape: TrialShape, n: int) -> Tensor:
    """Random raw trials, covariances or tokens, for ``n`` trials."""
    if kind == "covariance":
        return timing.random_covariances(n, 1, shape.n_chans)
    sizes = (
        (shape.n_chans, max(shape.n_times, 4 * shape.n_chans))
        if kind == "raw"
        else (shape.n_tokens, token_dim(shape.n_chans))
    )
    return torch.randn(n, *sizes, generator=torch.Generator().manual_seed(0))


def measure_network(
    build: Callable[[TrialShape], nn.Module], kind: Input, shape: TrialShape, rounds: int
) -> dict[str, Any]:
    """Measure a network; times are in ms per batch of ``BATCH`` trials."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        module = build(shape)
    X, y = inputs_for(kind, shape, BATCH), torch.arange(BATCH) % shape.n_outputs
    predict = torch.no_grad()(lambda: module(X))

    def train_step() -> None:
        module.zero_grad()
        F.cross_entropy(module(X), y).backward()

    module.eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(X[:1])
    forward = timing.milliseconds(predict, rounds)
    module.train()
    both = timing.milliseconds(train_step, rounds)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return {
        "parameters": sum(p.numel() for p in module.parameters()),
        "size_megabytes": len(file.getvalue()) / 1e6,
        "flops_per_trial": counter.get_total_flops(),
        "forward_milliseconds": forward,
        "backward_milliseconds": max(both - forward, 0.0),
        "training_megabytes": _training_megabytes(module, X, y),
    }


def _training_megabytes(module: nn.Module, X: Tensor, y: Tensor) -> float:
    """Memory of weights, gradients, Adam's moments and tensors saved for the backward pass."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        F.cross_entropy(module(X), y)
    weights = sum(p.numel() * p.element_size() for p in module.parameters())
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    activations = sum(size for place, size in kept.items() if place not in own)
    return (4 * weights + activations) / 1e6


def measure_classical(method: Method, shape: TrialShape, rounds: int) -> dict[str, Any]:
    """Measure a classical method: size of its pickle, time to predict ``BATCH`` trials."""
    X = inputs_for("raw", shape, 4 * BATCH).double().numpy()
    options = {"sfreq": shape.sfreq, "bands": method.bands or "broadband"}
    if method.name == RECOMMENDED:
        options["estimator"] = "oas"
    model = method.steps(options, Settings()).fit(X, np.arange(len(X)) % shape.n_outputs)
    return {
        "size_megabytes": len(pickle.dumps(model)) / 1e6,
        "forward_milliseconds": timing.milliseconds(lambda: model.predict(X[:BATCH]), rounds),
    }


def _builder(method: Method) -> Callable[[TrialShape], nn.Module]:
    if method.name in NETWORKS:
        return NETWORKS[method.name].build
    if method.name == "spd-token-mlp":
        made = TokenMLPClassifier()
        return lambda s: made._module(token_dim(s.n_chans), s.n_tokens, s.n_outputs)
    return lambda s: SPDTokenTransformer(token_dim(s.n_chans), s.n_tokens, s.n_outputs, STANDARD)


def bench_methods(
    rounds: int = 7, threads: int | None = None, tell: Tell = silent, shape: TrialShape = BCI2A
) -> dict[str, Any]:
    """Measure every method; add the paper's efficiency score and the trials per second.

    Methods whose extra is not installed are left out.
    """
    rows = []
    with timing.thread_count(threads):
        for method in METHODS.values():
            if not method.installed:
                continue
            tell(method.name)
            if method.has_seed:
                mine = replace(shape, n_tokens=3) if method.bands else shape
                cost = measure_network(_builder(method), method.input, mine, rounds)
            else:
                cost = measure_classical(method, shape, rounds)
            forward, parameters = cost["forward_milliseconds"], cost.get("parameters")
            row = {"name": method.name, "family": method.family, "input": method.input, **cost}
            row["trials_per_second"] = 1e3 * BATCH / forward
            if parameters is not None:
                row["paper_efficiency"] = 1000 / (parameters * cost["size_megabytes"] * forward)
            rows.append(dict.fromkeys(COST) | row)
    return {"shape": asdict(shape), "batch": BATCH, "rounds": rounds, "rows": rows}


def bench_recommended(
    rounds: int = 50,
    threads: int | None = None,
    tell: Tell = silent,
    *,
    shape: TrialShape = BCI2A,
    n_trials: int = TRIALS,
    epochs: int | None = None,
) -> dict[str, Any]:
    """Time training from raw trials and single trials of ``recommended``, TS+LR and MAtt.

    Parameters
    ----------
    rounds : int, default=50
        Number of single trials per method; medians are reported. Training is timed once.
    threads : int, default=None
        Number of threads; None keeps that of torch.
    tell : callable, default=silent
        Called with a description of what is being timed.
    shape : TrialShape, default=BCI2A
        Shape of the trials.
    n_trials : int, default=288
        Number of training trials.
    epochs : int, default=None
        Number of epochs of MAtt; None is the common recipe's 50.

    Returns
    -------
    dict
        Seconds to train, milliseconds to decode, and the ratios to TS+LR and MAtt.
    """
    X = inputs_for("raw", shape, n_trials).double().numpy()
    y = np.arange(n_trials) % shape.n_outputs
    options = {"sfreq": shape.sfreq, "bands": [(8.0, 30.0)], "estimator": "oas"}
    settings = Settings(recipe="common", epochs=epochs)
    seconds: dict[str, float] = {}
    predict: dict[str, Way] = {}
    with timing.thread_count(threads) as used:
        for name in (RECOMMENDED, *PEERS):
            tell(f"training {name}")
            method = get_method(name)
            given = {k: v for k, v in options.items() if method.input != "raw" or k != "estimator"}
            model = with_seed(method.steps(given, settings), 42)
            if method.family == "classical":
                clone(model).fit(X[:16], y[:16])  # imports pyRiemann, which must not be timed
            start = time.perf_counter()
            model.fit(X, y)
            seconds[name] = time.perf_counter() - start
            predict[name] = partial(model.predict_proba, X[:1])
        tell("decoding single trials")
        times = timing.take_turns(predict, rounds)
    return {
        "trials": n_trials,
        "threads": used,
        "rounds": rounds,
        "train_seconds": seconds,
        "decode_milliseconds": timing.medians(times),
        "train_ratio": {name: seconds[RECOMMENDED] / seconds[name] for name in PEERS},
        "decode_ratio": {name: timing.ratio(times, RECOMMENDED, name) for name in PEERS},
    }


def thread_cases(
    session: tuple[int, int, int] = (288, 22, 1000),
    large: tuple[int, int, int] = (1000, 64, 250),
    tokens: tuple[int, int] = (252, 253),
) -> dict[str, Way]:
    """Typical calls: a session of BCI2a, many channels, tokens of 22 channels."""
    rng = np.random.default_rng(0)
    X, many, flat = (rng.standard_normal(shape) for shape in (session, large, tokens))
    y, labels = np.arange(len(X)) % 4, np.arange(len(flat)) % 4
    fitted = make_decoder("mi", sfreq=SFREQ).fit(X, y)
    singles = [X[i : i + 1] for i in range(min(len(X), 50))]
    network = TokenTransformerClassifier(None, epochs=5, random_state=0)
    shown = [" x ".join(map(str, shape)) for shape in (session, large, tokens)]
    return {
        f"recommended: fit, {shown[0]}": lambda: make_decoder("mi", sfreq=SFREQ).fit(X, y),
        f"recommended: predict, {shown[0]}": lambda: fitted.predict(X),
        f"recommended: predict, {len(singles)} trials one by one": lambda: [
            fitted.predict(x) for x in singles
        ],
        f"recommended: cross_val_score, 5 folds, {shown[0]}": lambda: cross_val_score(
            make_decoder("mi", sfreq=SFREQ), X, y, cv=5
        ),
        f"filter bank: fit_transform, {shown[1]}": lambda: FilterBankCovariances(
            SFREQ
        ).fit_transform(many),
        f"token transformer: fit, 5 epochs, {shown[2]}": lambda: network.fit(flat, labels),
    }


def bench_threads(rounds: int = 5, threads: int = 2, tell: Tell = silent) -> dict[str, Any]:
    """Time typical calls with one thread and with several.

    Parameters
    ----------
    rounds : int, default=5
        Number of rounds; medians are reported.
    threads : int, default=2
        Number of threads of torch and every BLAS.
    tell : callable, default=silent
        Called with a description of what is being timed.

    Returns
    -------
    dict
        Milliseconds and ratio (several threads divided by one, median over rounds) of each call,
        and the largest ratio.
    """
    rows, ratios = [], []
    for name, case in thread_cases().items():
        tell(name)
        limited = {"one": timing.thread_count(1), "several": timing.thread_count(threads)}
        ways = {count: limit(case) for count, limit in limited.items()}
        times = timing.take_turns(ways, rounds)
        ratios.append(timing.ratio(times, "several", "one"))
        rows.append({"case": name, "milliseconds": timing.medians(times), "ratio": ratios[-1]})
    return {"threads": threads, "rounds": rounds, "rows": rows, "worst_ratio": max(ratios)}
