"""Training many runs, and a whole study, compared with a plain training loop."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spdtokens.bench import timing
from spdtokens.bench.peers import TOKENS, obvious_training
from spdtokens.bench.timing import OURS, Tell, silent
from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn import (
    STANDARD,
    Pool,
    Recipe,
    RunPlan,
    SPDTokenTransformer,
    Training,
    geometric_bias,
)
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Dataset, Recording, from_arrays
from spdtokens.evaluation.plan import Choice, Question, Source
from spdtokens.experiments.config import Study
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import plan_study, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.geometry import get_embedding

OBVIOUS, CACHED = "obvious", "cached"
RECIPE = Recipe()
CLASSES = 4
#: Values of each quantity, varied one at a time.
GROWTH = {
    "runs": (1, 2, 5, 10, 20, 45),
    "trials": (126, 252, 504, 1008),
    "channels": (8, 22, 56),
    "tokens": (1, 2, 3, 9),
}
#: Methods of the study, and their tokens in the plain loop.
STUDY = {
    "token-log-euclidean": "log",
    "token-bures-wasserstein": "sqrt",
    "token-euclidean": "raw",
}
#: Timed epochs of the plain loop per embedding, before and after the study.
TIMED_EPOCHS = 3
#: Number of runs of the paper.
PROJECTED_RUNS = 1500


@dataclass(frozen=True)
class Shape:
    """Size of a data set, and number of runs that train on it; BCI2a by default."""

    runs: int = 45
    trials: int = 252
    channels: int = 22
    tokens: int = 1

    def start(self, epochs: int = RECIPE.epochs, *, geometric: bool = False) -> Training:
        """Prepare the runs: compute tokens and attention bias, initialise weights."""
        C = timing.random_covariances(self.trials, self.tokens, self.channels)
        tokens = get_embedding("log_euclidean").to_token(C.double()).float()
        config = replace(STANDARD, attention="geometric" if geometric else "standard")
        bias = geometric_bias(C, config.alpha) if geometric else None
        model = SPDTokenTransformer(tokens.shape[-1], self.tokens, CLASSES, config)
        plans = [RunPlan(seed, np.arange(self.trials)) for seed in range(self.runs)]
        labels = torch.arange(self.trials) % CLASSES
        return Training(model, Pool(tokens, labels, bias), plans, replace(RECIPE, epochs=epochs))


def compare(shape: Shape, rounds: int) -> dict[str, Any]:
    """Time one epoch of one run in ms: plain loop, plain loop with cached tokens, ours.

    Ours includes its share of the preparation (tokens, initial weights) of 50 epochs; that of the
    plain loops is not counted.
    """
    C = timing.random_covariances(shape.trials, shape.tokens, shape.channels)
    labels = torch.arange(shape.trials) % CLASSES
    begin = time.perf_counter()
    training = shape.start(rounds + 1)
    preparation = 1e3 * (time.perf_counter() - begin) / RECIPE.epochs / shape.runs
    ways: dict[str, timing.Way] = {
        OBVIOUS: obvious_training(C, labels, TOKENS["log"], RECIPE.batch_size),
        CACHED: obvious_training(TOKENS["log"](C), labels, lambda x: x, RECIPE.batch_size),
        OURS: partial(training.advance, 1),
    }
    for way in ways.values():
        way()  # the first epoch fills the caches
    times = timing.take_turns(ways, rounds, warm_up=0)
    times[OURS] = times[OURS] / shape.runs + preparation
    return {
        "tokens": shape.tokens,
        "runs": shape.runs,
        "milliseconds_per_run_epoch": timing.medians(times),
        "speedup_vs_obvious": timing.ratio(times, OBVIOUS, OURS),
        "speedup_vs_cached": timing.ratio(times, CACHED, OURS),
        "memory": memory_per_run(shape),
    }


def memory_per_run(shape: Shape) -> dict[str, float]:
    """Memory in MB: the state of a run, and the peak per additional run of a process."""
    one = replace(shape, runs=1)
    state = one.start().state.values()
    alone, together = (timing.in_fresh_process(_peak_of_training, each) for each in (one, shape))
    return {
        "state_megabytes": sum(tensor.numel() * tensor.element_size() for tensor in state) / 1e6,
        "peak_megabytes": (together - alone) / max(shape.runs - 1, 1),
    }


def _peak_of_training(shape: Shape) -> float:
    shape.start().advance(1)
    return timing.peak_megabytes()


def growth(rounds: int) -> Iterator[dict[str, Any]]:
    """Time an epoch for varied numbers of runs, trials, channels and tokens."""
    for name, values in GROWTH.items():
        for value in values:
            shape = replace(Shape(runs=10), **{name: value})
            training = shape.start(rounds + 1)
            epoch = timing.milliseconds(partial(training.advance, 1), rounds, warm_up=1)
            per_run = epoch / shape.runs
            yield {
                "varied": name,
                **vars(shape),
                "milliseconds_per_run_epoch": per_run,
                "microseconds_per_trial": 1e3 * per_run / shape.trials,
            }


def attention_cost(channels: int, rounds: int) -> dict[str, Any]:
    """Time the training of one run with standard and geometric attention, three tokens."""
    preparation, trainings = {}, {}
    for name in ("standard", "geometric"):
        begin = time.perf_counter()
        shape = Shape(runs=1, channels=channels, tokens=3)
        trainings[name] = shape.start(rounds + 1, geometric=name == "geometric")
        preparation[name] = time.perf_counter() - begin
        trainings[name].advance(1)
    ways = {name: partial(run.advance, 1) for name, run in trainings.items()}
    times = timing.take_turns(ways, rounds, warm_up=0)
    seconds = {n: preparation[n] + RECIPE.epochs * found / 1e3 for n, found in times.items()}
    return {
        "channels": channels,
        "tokens": 3,
        **{f"seconds_{name}": value for name, value in timing.medians(seconds).items()},
        "ratio": timing.ratio(seconds, "geometric", "standard"),
    }


def bench_train(
    rounds: int = 7, threads: int | None = None, runs: int = 45, tell: Tell = silent
) -> dict[str, Any]:
    """Time training, compared with a plain loop, and its scaling.

    Parameters
    ----------
    rounds : int, default=7
        Number of rounds; medians are reported.
    threads : int, default=None
        Number of threads; None keeps that of torch.
    runs : int, default=45
        Number of runs that our engine trains together.
    tell : callable, default=silent
        Called with a description of what is being timed.

    Returns
    -------
    dict
        Comparisons with the plain loop, cost of geometric attention, and scaling.
    """
    with timing.thread_count(threads) as used:
        tell("plain loop")
        comparisons = [compare(Shape(runs=runs, tokens=tokens), rounds) for tokens in (1, 3)]
        tell("geometric attention")
        attention = [attention_cost(channels, rounds) for channels in (8, 22, 56)]
        tell("scaling")
        grown = list(growth(3))
    return {
        "threads": used,
        "rounds": rounds,
        "batch_size": RECIPE.batch_size,
        "comparisons": comparisons,
        "geometric_attention": attention,
        "growth": grown,
    }


def noise(subjects: int, shape: tuple[int, int, int]) -> Dataset:
    """White noise of shape (trials, channels, samples), two sessions per subject."""
    y = np.arange(shape[0]) % CLASSES
    one = from_arrays(np.zeros(shape), y, sfreq=125.0, name="noise")
    first = one.load("1", "1")

    def read(subject: str, session: str) -> Recording:
        rng = np.random.default_rng([int(subject), int(session)])
        X = rng.standard_normal(shape, dtype=np.float32)
        return replace(first, subject=subject, session=session, X=X)

    index = {str(i + 1): ("1", "2") for i in range(subjects)}
    return replace(one, paradigm="motor imagery", index=index, read=read)


def bench_study(
    subjects: int = 9,
    seeds: int = 5,
    epochs: int = 50,
    threads: int | None = None,
    tell: Tell = silent,
    shape: tuple[int, int, int] = (288, 22, 438),
) -> dict[str, Any]:
    """Time a study of three embeddings, all subjects and seeds, from signals to stored scores.

    The plain loop is timed for some epochs of one run and extrapolated, without covariances, scores
    and storage. Both run in a new process, so that the memory measured is that of the study.
    """
    tell("study of white noise in the shape of BCI2a")
    threads = threads or torch.get_num_threads()
    return timing.in_fresh_process(_measure_study, subjects, seeds, epochs, threads, shape)


def _measure_study(
    subjects: int, seeds: int, epochs: int, threads: int, shape: tuple[int, int, int]
) -> dict[str, Any]:
    runs = len(STUDY) * subjects * seeds
    with timing.thread_count(threads):
        before = _obvious_epoch(shape)
        spent = _study_seconds(noise(subjects, shape), seeds, epochs, runs)
        # Before the second measurement, so that it is the memory of the study.
        memory = timing.peak_megabytes()
        after = _obvious_epoch(shape)
    obvious = (before + after) / 2 * epochs * runs
    projected = PROJECTED_RUNS / runs / 3600
    return {
        "threads": threads,
        "runs": runs,
        "epochs": epochs,
        "subjects": subjects,
        "seeds": seeds,
        "seconds": spent,
        "obvious_seconds": obvious,
        "obvious_is_extrapolated_from_epochs": 2 * TIMED_EPOCHS * len(STUDY),
        "speedup": obvious / spent,
        "peak_megabytes": memory,
        "projected_runs": PROJECTED_RUNS,
        "projected_hours": spent * projected,
        "projected_obvious_hours": obvious * projected,
    }


def _obvious_epoch(shape: tuple[int, int, int]) -> float:
    """Seconds per epoch of one run, averaged over the embeddings."""
    trials, channels, _ = shape
    C, labels = timing.random_covariances(trials, 1, channels), torch.arange(trials) % CLASSES
    epochs = {name: obvious_training(C, labels, TOKENS[name], 64) for name in STUDY.values()}
    times = timing.take_turns(epochs, 1, TIMED_EPOCHS, warm_up=1)
    return float(np.mean(list(times.values()))) / 1e3


def _study_seconds(dataset: Dataset, seeds: int, epochs: int, runs: int) -> float:
    """Seconds until all runs are stored."""
    settings = Settings(epochs=epochs, device="cpu")
    choices = tuple(Choice(name, settings) for name in STUDY)
    question = Question(dataset="noise", choices=choices, seeds=SEEDS[:seeds])
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        study = Study("bench", Path(folder) / "bench.toml", (question,))
        planned = plan_study(study, Source({"noise": dataset}))
        with RunStore(Path(folder) / "bench.sqlite") as store:
            progress = run_study(planned, store, InProcess(planned.source))
            if progress.failures or len(store) != runs:
                raise RuntimeError(f"The study failed: {progress.failures[:1]}")
    return time.perf_counter() - start
