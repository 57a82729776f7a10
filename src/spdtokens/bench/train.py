"""Training many runs: our engine against the obvious loop."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spdtokens._tables import counted
from spdtokens.bench.obvious import log_token, obvious_training
from spdtokens.bench.timing import thread_count
from spdtokens.classifiers.nn import (
    STANDARD,
    Pool,
    Recipe,
    RunPlan,
    SPDTokenTransformer,
    Training,
    geometric_bias,
)
from spdtokens.geometry import get_embedding

OBVIOUS, CACHED, OURS = "obvious", "cached", "spdtokens"
RECIPE = Recipe()
CLASSES = 4


@dataclass(frozen=True)
class Shape:
    """A data set and how many runs train on it; BCI2a by default."""

    runs: int = 45
    trials: int = 252
    channels: int = 22
    tokens: int = 1

    def covariances(self) -> Tensor:
        """Random SPD matrices (trials, tokens, channels, channels) of float32."""
        generator = torch.Generator().manual_seed(0)
        size = (self.trials, self.tokens, self.channels, 4 * self.channels)
        X = torch.randn(size, generator=generator)
        return X @ X.mT / X.shape[-1]

    def labels(self) -> Tensor:
        """Labels (trials,), all classes equally often."""
        return torch.arange(self.trials) % CLASSES


def start_training(shape: Shape, recipe: Recipe = RECIPE, *, geometric: bool = False) -> Training:
    """Runs about to train: tokens and attention bias computed, weights drawn."""
    C = shape.covariances()
    tokens = get_embedding("log_euclidean").to_token(C.double()).float()
    config = replace(STANDARD, attention="geometric" if geometric else "standard")
    bias = geometric_bias(C, config.alpha) if geometric else None
    model = SPDTokenTransformer(tokens.shape[-1], shape.tokens, CLASSES, config)
    plans = [RunPlan(seed, np.arange(shape.trials)) for seed in range(shape.runs)]
    return Training(model, Pool(tokens, shape.labels(), bias), plans, recipe)


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(shape: Shape, rounds: int) -> dict[str, Any]:
    """Milliseconds for one epoch of one run, three ways, measured in turn.

    Ours carries its share of the preparation (tokens, initial weights) of a training of 50 epochs;
    the obvious loops are given theirs for nothing.
    """
    C, labels = shape.covariances(), shape.labels()
    obvious = obvious_training(C, labels, log_token, RECIPE.batch_size)
    cached = obvious_training(log_token(C), labels, lambda x: x, RECIPE.batch_size)
    begin = time.perf_counter()
    training = start_training(shape, replace(RECIPE, epochs=rounds + 1))
    preparation = (time.perf_counter() - begin) / RECIPE.epochs / shape.runs
    candidates: dict[str, Callable[[], float]] = {
        OBVIOUS: lambda: (seconds(obvious) + seconds(obvious)) / 2,
        CACHED: lambda: (seconds(cached) + seconds(cached)) / 2,
        OURS: lambda: seconds(lambda: training.advance(1)) / shape.runs + preparation,
    }
    for candidate in candidates.values():
        candidate()  # the first epoch finds cold caches
    names = list(candidates)
    times: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(rounds):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            times[name].append(1e3 * candidates[name]())
    ours = np.array(times[OURS])
    return {
        "tokens": shape.tokens,
        "runs": shape.runs,
        "milliseconds_per_run_epoch": {n: float(np.median(t)) for n, t in times.items()},
        "speedup_vs_obvious": float(np.median(np.array(times[OBVIOUS]) / ours)),
        "speedup_vs_cached": float(np.median(np.array(times[CACHED]) / ours)),
        "memory": memory_per_run(shape),
    }


def memory_per_run(shape: Shape) -> dict[str, float]:
    """Megabytes: the state a run keeps, and how much a process grows for each run it trains.

    The growth is that of a fresh process that trains all runs over one that trains a single run.
    """
    one = replace(shape, runs=1)
    state = start_training(one).state
    kept = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:
        alone, all_ = fresh.map(_peak_megabytes, (one, shape))
    return {
        "state_megabytes": kept / 1e6,
        "peak_megabytes": (all_ - alone) / max(shape.runs - 1, 1),
    }


def _peak_megabytes(shape: Shape) -> float:
    start_training(shape).advance(1)
    return peak_megabytes()


def peak_megabytes() -> float:
    """Largest memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage reports there began with the parent's memory
        (peak,) = (row.split()[1] for row in status.read_text().splitlines() if "VmHWM" in row)
        return int(peak) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def epoch_milliseconds(training: Training, rounds: int) -> float:
    """Median milliseconds of one epoch of one run, the first left out."""
    training.advance(1)
    times = [seconds(lambda: training.advance(1)) for _ in range(rounds)]
    return 1e3 * float(np.median(times)) / len(training)


def growth(rounds: int) -> Iterator[dict[str, Any]]:
    """How the cost grows with runs, trials, channels and tokens, one at a time."""
    base = Shape(runs=10)
    steps = {
        "runs": (1, 2, 5, 10, 20, 45),
        "trials": (126, 252, 504, 1008),
        "channels": (8, 22, 56),
        "tokens": (1, 2, 3, 9),
    }
    for name, values in steps.items():
        for value in values:
            shape = replace(base, **{name: value})
            recipe = replace(RECIPE, epochs=rounds + 1)
            milliseconds = epoch_milliseconds(start_training(shape, recipe), rounds)
            yield {
                "varied": name,
                **vars(shape),
                "milliseconds_per_run_epoch": milliseconds,
                "microseconds_per_trial": 1e3 * milliseconds / shape.trials,
            }


def attention_cost(rounds: int) -> Iterator[dict[str, Any]]:
    """What geometric attention adds to the whole training of one run, three tokens a trial."""
    for channels in (8, 22, 56):
        shape = Shape(runs=1, channels=channels, tokens=3)
        recipe = replace(RECIPE, epochs=rounds + 1)
        ways = {}
        for geometric in (False, True):
            begin = time.perf_counter()
            training = start_training(shape, recipe, geometric=geometric)
            ways[geometric] = (time.perf_counter() - begin, training)
            training.advance(1)
        totals: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for geometric, (preparation, training) in ways.items():
                epoch = seconds(partial(training.advance, 1))
                totals[geometric].append(preparation + RECIPE.epochs * epoch)
        yield {
            "channels": channels,
            "tokens": 3,
            "seconds_standard": float(np.median(totals[False])),
            "seconds_geometric": float(np.median(totals[True])),
            "ratio": float(np.median(np.array(totals[True]) / np.array(totals[False]))),
        }


def bench_train(
    rounds: int = 7,
    threads: int | None = None,
    runs: int = 45,
    told: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Time training against the obvious loop, and how it grows.

    Parameters
    ----------
    rounds : int
        Medians over so many.
    threads : int, optional
        For every way alike; torch's by default.
    runs : int
        Trained together by our engine.
    told : callable
        What is being measured now.
    """
    threads = threads or torch.get_num_threads()
    with thread_count(threads):
        comparisons = []
        for tokens in (1, 3):
            told(f"{counted(tokens, 'token')}, against the obvious loop")
            comparisons.append(compare(Shape(runs=runs, tokens=tokens), rounds))
        told("geometric attention")
        attention = list(attention_cost(rounds))
        told("how the cost grows")
        grown = list(growth(3))
    return {
        "threads": threads,
        "rounds": rounds,
        "batch_size": RECIPE.batch_size,
        "comparisons": comparisons,
        "geometric_attention": attention,
        "growth": grown,
    }
