"""A result as two texts and a blob, and back without loss."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdtokens.evaluation.runs import RunResult, RunSpec, as_text

#: The fastest of zlib: ids shrink to a twentieth by any level, probabilities hardly by the best.
LEVEL = 1


def pack(result: RunResult) -> tuple[str, str, bytes]:
    """The spec as JSON, all other plain values as JSON, and the arrays.

    The blob is zlib over arrays in NumPy's own format, one after another: ids, y, probabilities,
    then each curve in the order of the names in the second text. Metrics may be NaN, which Python
    writes into JSON as such.
    """
    rest = {
        "train": _floats(result.train),
        "validation": _floats(result.validation),
        "test": _floats(result.test),
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
    return as_text(result.spec.values()), json.dumps(rest), zlib.compress(stream.getvalue(), LEVEL)


def unpack(spec: str, rest: str, blob: bytes) -> RunResult:
    """What :func:`pack` was given. Sequences within the spec come back as lists, its key the same.

    Raises
    ------
    ValueError, KeyError, zlib.error
        If they are not what :func:`pack` gave.
    """
    values: dict[str, Any] = json.loads(rest)
    stream = io.BytesIO(zlib.decompress(blob))

    def array() -> Any:
        return np.lib.format.read_array(stream, allow_pickle=False)

    return RunResult(
        spec=RunSpec.of(json.loads(spec)),
        ids=array(),
        y=array(),
        probabilities=array(),
        curves={name: array() for name in values.pop("curves")},
        **values,
    )


def _floats(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}
