"""A whole study, from signals to stored scores, against the obvious loop run by run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spdtokens.bench.obvious import log_token, obvious_training
from spdtokens.bench.timing import thread_count
from spdtokens.bench.train import peak_megabytes, seconds
from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.datasets import Dataset, Recording
from spdtokens.evaluation.plan import Choice, Question, Source
from spdtokens.experiments.config import Study
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import plan_study, run_study
from spdtokens.experiments.store import RunStore

#: Epochs of the obvious loop that are timed, before and after the study, for each embedding.
TIMED_EPOCHS = 3
#: Of the paper: 1,500 runs.
PROJECTED_RUNS = 1500


@dataclass(frozen=True)
class StudySize:
    """BCI2a's shape by default."""

    subjects: int = 9
    seeds: int = 5
    epochs: int = 50
    trials: int = 288
    channels: int = 22
    samples: int = 438

    @property
    def runs(self) -> int:
        """Of three embeddings."""
        return 3 * self.subjects * self.seeds


def noise(size: StudySize) -> Dataset:
    """Noise in the shape of BCI2a: two sessions a subject, four classes."""

    def read(subject: str, session: str) -> Recording:
        rng = np.random.default_rng([int(subject), int(session)])
        shape = (size.trials, size.channels, size.samples)
        X = rng.standard_normal(shape, dtype=np.float32)
        y = np.arange(size.trials) % 4
        return Recording(subject, session, X, y, np.full(size.trials, "1"), np.arange(size.trials))

    return Dataset(
        name="noise",
        description="",
        paradigm="motor imagery",
        classes=("a", "b", "c", "d"),
        ch_names=tuple(f"E{i}" for i in range(size.channels)),
        sfreq=125.0,
        tmin=0.0,
        window=(0.0, size.samples / 125.0),
        index={str(i + 1): ("1", "2") for i in range(size.subjects)},
        read=read,
    )


def sqrt_token(C: Tensor) -> Tensor:
    """Upper triangle of the square root, by ``torch.linalg.eigh``."""
    eigenvalues, V = torch.linalg.eigh(C)
    return raw_token((V * eigenvalues.clamp_min(1e-12).sqrt().unsqueeze(-2)) @ V.mT)


def raw_token(C: Tensor) -> Tensor:
    """Upper triangle of matrices (..., d, d)."""
    upper = torch.triu_indices(C.shape[-1], C.shape[-1])
    return C[..., upper[0], upper[1]]


EMBEDDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "token-log-euclidean": log_token,
    "token-bures-wasserstein": sqrt_token,
    "token-euclidean": raw_token,
}


def bench_study(size: StudySize | None = None, threads: int | None = None) -> dict[str, Any]:
    """Time a study of three embeddings, all subjects and seeds.

    The obvious loop is timed for some epochs of one run and extrapolated; covariances, scores and
    storing it gets for nothing. Both in one fresh process, so that its memory is the study's.
    """
    size = size or StudySize()
    threads = threads or torch.get_num_threads()
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:
        return fresh.submit(_measure, size, threads).result()


def _measure(size: StudySize, threads: int) -> dict[str, Any]:
    with thread_count(threads):
        before = _obvious_epoch(size)
        spent = _study_seconds(size)
        # Before the second measurement: the memory is to be the study's own.
        memory = peak_megabytes()
        after = _obvious_epoch(size)
    epoch = (before + after) / 2
    obvious = epoch * size.epochs * size.runs
    return {
        "threads": threads,
        "runs": size.runs,
        "epochs": size.epochs,
        "subjects": size.subjects,
        "seeds": size.seeds,
        "seconds": spent,
        "obvious_seconds": obvious,
        "obvious_is_extrapolated_from_epochs": 2 * TIMED_EPOCHS * len(EMBEDDINGS),
        "speedup": obvious / spent,
        "peak_megabytes": memory,
        "projected_runs": PROJECTED_RUNS,
        "projected_hours": spent / size.runs * PROJECTED_RUNS / 3600,
        "projected_obvious_hours": obvious / size.runs * PROJECTED_RUNS / 3600,
    }


def _obvious_epoch(size: StudySize) -> float:
    """Seconds of one epoch of one run, on average over the embeddings."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn((size.trials, 1, size.channels, size.samples), generator=generator)
    C = X @ X.mT / size.samples
    labels = torch.arange(size.trials) % 4
    times = []
    for embed in EMBEDDINGS.values():
        epoch = obvious_training(C, labels, embed, 64)
        epoch()  # the first finds cold caches
        times += [seconds(epoch) for _ in range(TIMED_EPOCHS)]
    return float(np.mean(times))


def _study_seconds(size: StudySize) -> float:
    """Seconds from nothing to all runs in the store."""
    settings = replace(Settings(), epochs=size.epochs, device="cpu")
    question = Question(
        dataset="noise",
        choices=tuple(Choice(name, settings) for name in EMBEDDINGS),
        seeds=SEEDS[: size.seeds],
    )
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        study = Study("bench", Path(folder) / "bench.toml", (question,))
        planned = plan_study(study, Source({"noise": noise(size)}))
        with RunStore(Path(folder) / "bench.sqlite") as store:
            progress = run_study(planned, store, InProcess(planned.source))
            if progress.failures or len(store) != size.runs:
                raise RuntimeError(f"the study failed: {progress.failures[:1]}")
    return time.perf_counter() - start
