"""Results as tables for other programs: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from spdtokens._files import written_whole
from spdtokens.errors import StudyError
from spdtokens.evaluation.runs import RunResult, RunSpec, as_text

Row = dict[str, Any]
#: Trials turned into rows at a time, so that a study of half a million does not fill the memory.
ROWS_AT_ONCE = 50_000


def to_csv(results: Sequence[RunResult], path: str | Path, *, predictions: bool = False) -> None:
    """Write results as a CSV file, in UTF-8, with a line of names first.

    Numbers have all their digits, so that they are read back exactly. NaN is written ``nan``, and
    what a run does not have is left empty.

    Parameters
    ----------
    results : sequence of RunResult
    path : str or Path
    predictions : bool
        One row a test trial instead of one a run.

    Raises
    ------
    StudyError
        If there are no results, or the place cannot be written to.
    """
    names, rows = _table(results, predictions)

    def write(file: Path) -> None:
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, names, restval="")
            writer.writeheader()
            writer.writerows(rows)

    _write(Path(path), write)


def to_parquet(
    results: Sequence[RunResult], path: str | Path, *, predictions: bool = False
) -> None:
    """Write results as a Parquet file, with the columns of :func:`to_csv`.

    Parameters
    ----------
    results : sequence of RunResult
    path : str or Path
    predictions : bool
        One row a test trial instead of one a run.

    Raises
    ------
    StudyError
        If there are no results, pyarrow is missing, or the place cannot be written to.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise StudyError(
            "Parquet files need pyarrow: pip install 'spdtokens[parquet]'. Or write CSV."
        ) from error
    names, rows = _table(results, predictions)
    kinds = {
        "number": pa.float64(),
        "whole": pa.int64(),
        "text": pa.string(),
    }
    schema = pa.schema([(name, kinds[_kind(name)]) for name in names])

    def write(file: Path) -> None:
        with pq.ParquetWriter(file, schema) as writer:
            for part in _parts(rows):
                columns = {name: [row.get(name) for row in part] for name in names}
                writer.write_table(pa.table(columns, schema))

    _write(Path(path), write)


def run_row(result: RunResult) -> Row:
    """A run as plain values.

    Everything that determined it, mappings as JSON; ``train_``, ``validation_`` and ``test_``
    before the names of metrics; ``n_`` before those of parts; ``origin_`` before those of origins.
    """
    spec = {name: getattr(result.spec, name) for name in _SPEC}
    plain = {
        name: as_text(value) if isinstance(value, Mapping | tuple) else value
        for name, value in spec.items()
    }
    return {
        "key": result.spec.key,
        **plain,
        **{f"train_{name}": value for name, value in result.train.items()},
        **{f"validation_{name}": value for name, value in result.validation.items()},
        **{f"test_{name}": value for name, value in result.test.items()},
        **{f"n_{name}": n for name, n in result.sizes.items()},
        "epoch": result.epoch,
        "leaky": result.leaky,
        "seconds": result.seconds,
        "memory": result.memory,
        **{f"origin_{name}": value for name, value in result.origin.items()},
    }


def trial_rows(result: RunResult) -> Iterator[Row]:
    """Every test trial of a run: which, its label, what was predicted, and the probabilities."""
    run = {name: getattr(result.spec, name) for name in _RUN_OF_TRIAL}
    classes = [f"p_{i}" for i in range(result.probabilities.shape[1])]
    columns = zip(
        result.ids.tolist(),
        result.y.tolist(),
        np.argmax(result.probabilities, 1).tolist(),
        result.probabilities,
        strict=True,
    )
    for name, y, predicted, p in columns:
        trial = {"id": name, "y": y, "predicted": predicted}
        yield {**run, **trial, **dict(zip(classes, p, strict=True))}


#: Of what determined a run, what a row of a trial repeats; ``key`` leads to the rest.
_RUN_OF_TRIAL = (
    *("key", "dataset", "protocol", "access", "alignment"),
    *("method", "subject", "fold", "seed"),
)
_SPEC = [field.name for field in fields(RunSpec)]
_WHOLE = ("seed", "epoch", "y", "predicted")
_TEXT = ("key", *(name for name in _SPEC if name != "seed"), "leaky", "id")


def _kind(name: str) -> str:
    """Kind of a column, known by its name so that an empty one has it too."""
    if name in _WHOLE or name.startswith("n_"):
        return "whole"
    return "text" if name in _TEXT or name.startswith("origin_") else "number"


def _table(results: Sequence[RunResult], predictions: bool) -> tuple[list[str], Iterable[Row]]:
    """Names of all columns, and rows."""
    if not results:
        raise StudyError("There are no results to write.")
    if predictions:
        widest = max(results, key=lambda result: result.probabilities.shape[1])
        names = [*_RUN_OF_TRIAL, "id", "y", "predicted"]
        names += [f"p_{i}" for i in range(widest.probabilities.shape[1])]
        return names, (row for result in results for row in trial_rows(result))
    rows = [run_row(result) for result in results]
    found = dict.fromkeys(name for row in rows for name in row)
    # Columns that only some runs have would else come last, far from those of their kind.
    order = ("train_", "validation_", "test_", "n_", "epoch", "leaky", "seconds", "memory")

    def place(name: str) -> int:
        if name == "key" or name in _SPEC:
            return -1
        return next((i for i, start in enumerate(order) if name.startswith(start)), len(order))

    return sorted(found, key=place), rows


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == ROWS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _write(path: Path, write: Callable[[Path], None]) -> None:
    try:
        with written_whole(path) as file:
            write(file)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror}." if error.strerror else str(error)
        raise StudyError(why) from error
