"""What a worker does, in this process or another."""

from __future__ import annotations

import os
import platform
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spdtokens._plugins import load_plugins
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.errors import UserError
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult, RunSpec


@dataclass(frozen=True)
class Failure:
    """A run that could not be done, and why."""

    spec: RunSpec
    reason: str

    def __str__(self) -> str:
        spec = self.spec
        seed = "" if spec.seed is None else f", seed {spec.seed}"
        where = f"{Path(spec.dataset).name}, {spec.method}, subject {spec.subject}"
        return f"{where}, fold {spec.fold}{seed}: {self.reason}"


@dataclass(frozen=True)
class Done:
    """What became of a batch.

    Attributes
    ----------
    results : list of RunResult
    failures : list of Failure
    worker : str
        Machine and process that did it; empty for the process that asked.
    """

    results: list[RunResult]
    failures: list[Failure]
    worker: str = ""


def attempt(batch: Sequence[RunSpec], source: Source, listener: Listener | None = None) -> Done:
    """Do a batch; where it fails, each half of it, until the run that cannot be done is alone.

    Whatever a run fails of, a flaw of its recording or of a method, does not stop the others.
    """
    try:
        return Done(execute(batch, source, listener), [])
    except Exception as error:
        if len(batch) == 1:
            return Done([], [Failure(batch[0], _reason(error))])
    half = len(batch) // 2
    one, other = (attempt(part, source, listener) for part in (batch[:half], batch[half:]))
    return Done(one.results + other.results, one.failures + other.failures)


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    # Not foreseen: the place helps to find out why.
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


#: Opened in this process once, for all batches it is sent.
_source: Source | None = None
# Dask gives a worker as many batches at once as it has threads; how many threads add up numbers is
# set for a process as a whole, so they take turns.
_turn = threading.Lock()


def attempt_in_worker(batch: list[dict[str, object]]) -> Done:
    """A batch sent to another process as plain values; that process works with one thread."""
    import torch

    global _source
    with _turn:
        if _source is None:
            load_plugins()
            _source = Source()
            torch.set_num_threads(1)
        done = attempt([RunSpec.of(values) for values in batch], _source)
    return replace(done, worker=f"{platform.node()}, process {os.getpid()}")
