"""Results as tables for other programs: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdtokens._extras import how_to_install
from spdtokens._files import written_whole
from spdtokens.errors import StudyError
from spdtokens.evaluation.runs import RunResult, RunSpec, as_text

if TYPE_CHECKING:
    import pandas as pd

_SPEC = [field.name for field in fields(RunSpec)]
#: Of what determined a run, what a row of a trial repeats; ``key`` leads to the rest.
_RUN_OF_TRIAL = (
    *("key", "dataset", "protocol", "access", "alignment"),
    *("method", "subject", "fold", "seed"),
)


def to_csv(results: Sequence[RunResult], path: str | Path, *, predictions: bool = False) -> None:
    """Write results as a CSV file, in UTF-8, with a line of names first.

    Numbers have all their digits, so that they are read back exactly. What a run does not have,
    and what could not be computed, is left empty.

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
    _write(results, path, predictions, "to_csv", encoding="utf-8")


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
    _write(results, path, predictions, "to_parquet", engine="pyarrow")


def _write(
    results: Sequence[RunResult], path: str | Path, predictions: bool, form: str, **options: Any
) -> None:
    if not results:
        raise StudyError("There are no results to write.")
    frame = trials_frame(results) if predictions else runs_frame(results)
    try:
        with written_whole(Path(path)) as file:
            getattr(frame, form)(file, index=False, **options)
    except ImportError as error:
        install = how_to_install("parquet")
        raise StudyError(f"Parquet files need pyarrow: {install}. Or write CSV.") from error
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror}." if error.strerror else str(error)
        raise StudyError(why) from error


def runs_frame(results: Sequence[RunResult]) -> pd.DataFrame:
    """One row a run: all that determined it, mappings as JSON, its scores and its origin.

    ``train_``, ``validation_`` and ``test_`` stand before the names of metrics, ``n_`` before those
    of parts, ``origin_`` before those of origins.
    """
    rows = []
    for result in results:
        values = {"key": result.spec.key} | {name: getattr(result.spec, name) for name in _SPEC}
        rows.append(
            {
                name: as_text(value) if isinstance(value, Mapping | tuple) else value
                for name, value in values.items()
            }
            | {f"train_{name}": value for name, value in result.train.items()}
            | {f"validation_{name}": value for name, value in result.validation.items()}
            | {f"test_{name}": value for name, value in result.test.items()}
            | {f"n_{name}": n for name, n in result.sizes.items()}
            | {name: getattr(result, name) for name in ("epoch", "leaky", "seconds", "memory")}
            | {f"origin_{name}": value for name, value in result.origin.items()}
        )
    # Columns that only some runs have would else come last, far from those of their kind.
    order = ("train_", "validation_", "test_", "n_", "epoch", "leaky", "seconds", "memory")

    def place(name: str) -> int:
        if name in ("key", *_SPEC):
            return -1
        return next((i for i, start in enumerate(order) if name.startswith(start)), len(order))

    return _typed(rows, sorted(dict.fromkeys(name for row in rows for name in row), key=place))


def trials_frame(results: Sequence[RunResult]) -> pd.DataFrame:
    """One row a test trial: which, its label, what was predicted, and the probabilities."""
    sizes = [len(result.ids) for result in results]
    found = {
        name: np.repeat(np.array([getattr(r.spec, name) for r in results], dtype=object), sizes)
        for name in _RUN_OF_TRIAL
    }
    found["id"] = np.concatenate([result.ids for result in results])
    found["y"] = np.concatenate([result.y for result in results])
    found["predicted"] = np.concatenate([result.probabilities.argmax(1) for result in results])
    p = np.full((sum(sizes), max(r.probabilities.shape[1] for r in results)), np.nan)
    for result, end in zip(results, np.cumsum(sizes), strict=True):
        mine = result.probabilities
        p[end - len(mine) : end, : mine.shape[1]] = mine
    found |= {f"p_{i}": column for i, column in enumerate(p.T)}
    return _typed(found, list(found))


def _typed(rows: Any, names: Sequence[str]) -> pd.DataFrame:
    """A frame whose columns have the types of their names, so that an empty one has it too."""
    import pandas as pd  # takes half a second: not before there is a table

    frame = pd.DataFrame(rows, columns=names)
    whole = ("seed", "epoch", "y", "predicted")
    text = ("key", *_SPEC, "leaky", "id")
    for name in names:
        if name in whole or name.startswith("n_"):
            kind = "Int64"
        else:
            kind = "string" if name in text or name.startswith("origin_") else "float64"
        frame[name] = frame[name].astype(kind)
    return frame
