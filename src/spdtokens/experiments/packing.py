"""A result as two texts and a blob, and back without loss."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.evaluation.metrics import METRICS, checked
from spdtokens.evaluation.runs import RunResult, RunSpec, as_text

#: The fastest of zlib: ids shrink to a twentieth by any level, probabilities hardly by the best.
LEVEL = 1


def pack(result: RunResult) -> tuple[str, str, bytes]:
    """The spec as JSON, all other plain values as JSON, and the arrays.

    The blob is zlib over arrays in NumPy's own format, one after another: ids, y, probabilities,
    then each curve in the order of the names in the second text. Metrics may be NaN, which Python
    writes into JSON as such. Scores of test trials are not stored: they follow from ``y`` and the
    probabilities.
    """
    rest: dict[str, Any] = {
        "train": _floats(result.train),
        "validation": _floats(result.validation),
        "sizes": {name: int(n) for name, n in result.sizes.items()},
        "curves": list(result.curves),
        "epoch": None if result.epoch is None else int(result.epoch),
        "leaky": result.leaky,
        "seconds": float(result.seconds),
        "memory": float(result.memory),
        "origin": dict(result.origin),
    }
    stream = io.BytesIO()
    for array in (result.ids, result.y, result.probabilities, *result.curves.values()):
        # Never a pickle: a store from somebody else must not be able to run code.
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    spec, blob = as_text(result.spec.values()), zlib.compress(stream.getvalue(), LEVEL)
    rest["digest"] = _digest(spec, rest, blob)
    return spec, json.dumps(rest), blob


def unpack(spec: str, rest: str, blob: bytes) -> RunResult:
    """What :func:`pack` was given. Sequences within the spec come back as lists, its key the same.

    Raises
    ------
    ValueError, KeyError, zlib.error
        If they are not what :func:`pack` gave, or contradict each other.
    """
    values: dict[str, Any] = json.loads(rest)
    if values.pop("digest") != _digest(spec, values, blob):
        raise ValueError("it is not what was stored: its checksum is another")
    stream = io.BytesIO(zlib.decompress(blob))

    def array() -> Any:
        return np.lib.format.read_array(stream, allow_pickle=False)

    ids, y, probabilities = array(), array(), array()
    checked(y, probabilities)
    if len(ids) != len(y):
        raise ValueError(f"it has {len(ids)} trials but {len(y)} labels")
    return RunResult(
        spec=RunSpec.of(json.loads(spec)),
        ids=ids,
        y=y,
        probabilities=probabilities,
        curves={name: array() for name in values.pop("curves")},
        test=DerivedScores(y, probabilities),
        **values,
    )


class DerivedScores(Mapping[str, float]):
    """Every metric of test trials by name, computed when it is first asked for."""

    def __init__(self, y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
        self._of, self._known = (y, probabilities), dict[str, float]()

    def __getitem__(self, name: str) -> float:
        if name not in self._known:
            self._known[name] = METRICS[name](*self._of)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(METRICS)

    def __len__(self) -> int:
        return len(METRICS)


def _digest(spec: str, rest: Mapping[str, Any], blob: bytes) -> str:
    parts = (spec.encode(), json.dumps(rest, sort_keys=True).encode(), blob)
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def _floats(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}
