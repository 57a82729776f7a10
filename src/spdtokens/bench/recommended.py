"""The preset ``recommended`` against TS+LR and MAtt: to train for a subject, to decode a trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from spdtokens.bench.methods import BCI2A, inputs_for
from spdtokens.bench.timing import interleaved_times, thread_count
from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.classifiers.nn.networks import TrialShape
from spdtokens.evaluation.estimators import with_seed

#: A session of BCI2a.
TRIALS = 288
OURS, PEERS = "recommended", ("ts-lr", "matt")


def bench_recommended(
    rounds: int = 50,
    threads: int | None = None,
    *,
    shape: TrialShape = BCI2A,
    n_trials: int = TRIALS,
    epochs: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Seconds to train from raw trials, milliseconds to decode one, and ratios to peers.

    Parameters
    ----------
    rounds : int
        Single trials decoded by each, in turn; medians are reported. Training is timed once.
    threads : int, optional
    shape : TrialShape
    n_trials : int
    epochs : int, optional
        Of MAtt, instead of the common recipe's 50.
    tell : callable
        Told what is being timed.
    """
    X = inputs_for("raw", shape, n_trials).double().numpy()
    y = np.arange(n_trials) % shape.n_outputs
    options = {"sfreq": shape.sfreq, "bands": [(8.0, 30.0)], "estimator": "oas"}
    settings = Settings(recipe="common", epochs=epochs)
    seconds, predict = {}, {}
    with thread_count(threads or torch.get_num_threads()):
        for name in (OURS, *PEERS):
            tell(f"training {name}")
            method = get_method(name)
            given = {k: v for k, v in options.items() if method.input != "raw" or k != "estimator"}
            start = time.perf_counter()
            model = with_seed(method.steps(given, settings), 42).fit(X, y)
            seconds[name] = time.perf_counter() - start
            predict[name] = lambda model=model: model.predict_proba(X[:1])
        tell("decoding single trials")
        times = interleaved_times(predict, rounds)
    decode = {name: float(np.median(found)) for name, found in times.items()}
    return {
        "trials": n_trials,
        "threads": threads or torch.get_num_threads(),
        "rounds": rounds,
        "train_seconds": seconds,
        "decode_milliseconds": decode,
        "train_ratio": {name: seconds[OURS] / seconds[name] for name in PEERS},
        "decode_ratio": {name: float(np.median(times[OURS] / times[name])) for name in PEERS},
    }
