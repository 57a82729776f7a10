"""What a worker does, in this process or another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spdtokens._errors import UserError
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.training.engine import Listener


@dataclass(frozen=True)
class Failure:
    """A run that could not be done, and why."""

    spec: RunSpec
    reason: str

    def __str__(self) -> str:
        spec = self.spec
        seed = "" if spec.seed is None else f", seed {spec.seed}"
        return f"{spec.method}, subject {spec.subject}, {spec.fold}{seed}: {self.reason}"


@dataclass(frozen=True)
class Done:
    """What became of a batch."""

    results: list[RunResult]
    failures: list[Failure]


def attempt(batch: Sequence[RunSpec], source: Source, listener: Listener | None = None) -> Done:
    """Do a batch; where it fails, each of its runs alone, so that one does not stop the others."""
    try:
        return Done(execute(batch, source, listener), [])
    except UserError as error:
        if len(batch) == 1:
            return Done([], [Failure(batch[0], str(error))])
    parts = [attempt([spec], source, listener) for spec in batch]
    return Done(
        [result for part in parts for result in part.results],
        [failure for part in parts for failure in part.failures],
    )


#: Opened in this process once, for all batches it is sent.
_source: Source | None = None


def attempt_in_worker(batch: list[dict[str, object]]) -> Done:
    """A batch sent to another process as plain values; that process works with one thread."""
    import torch

    global _source
    if _source is None:
        _source = Source()
        torch.set_num_threads(1)
    return attempt([RunSpec.of(values) for values in batch], _source)
