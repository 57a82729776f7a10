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

#: Of what determined a run, the types of columns, so that an empty one has it too.
_SPEC = dict.fromkeys(["key", *(field.name for field in fields(RunSpec))], "string")
_SPEC["seed"] = "Int64"
#: Of it, what a row of a trial repeats; ``key`` leads to the rest.
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
    import pandas as pd  # takes half a second: not before there is a table

    def frame(part: str, prefix: str, kind: str) -> pd.DataFrame:
        rows = [dict(getattr(result, part)) for result in results]
        return pd.DataFrame(rows).add_prefix(prefix).astype(kind)

    specs = pd.DataFrame([{name: getattr(r.spec, name) for name in _SPEC} for r in results])
    cost = {"epoch": "Int64", "leaky": "string", "seconds": "float64", "memory": "float64"}
    parts = [
        specs.map(lambda v: as_text(v) if isinstance(v, Mapping | tuple) else v).astype(_SPEC),
        *(frame(part, f"{part}_", "float64") for part in ("train", "validation", "test")),
        frame("sizes", "n_", "Int64"),
        pd.DataFrame([{name: getattr(r, name) for name in cost} for r in results]).astype(cost),
        frame("origin", "origin_", "string"),
    ]
    return pd.concat(parts, axis=1)


def trials_frame(results: Sequence[RunResult]) -> pd.DataFrame:
    """One row a test trial: which, its label, what was predicted, and the probabilities."""
    import pandas as pd

    kinds = {name: _SPEC[name] for name in _RUN_OF_TRIAL}
    parts = [
        pd.DataFrame(
            {
                "id": result.ids,
                "y": result.y,
                "predicted": result.probabilities.argmax(1),
                **{f"p_{i}": p for i, p in enumerate(result.probabilities.T.astype(float))},
            }
        ).astype({"id": "string", "y": "Int64", "predicted": "Int64"})
        for result in results
    ]
    runs = pd.DataFrame([{name: getattr(r.spec, name) for name in kinds} for r in results])
    repeated = runs.astype(kinds).loc[np.repeat(runs.index, [len(part) for part in parts])]
    return pd.concat([repeated.reset_index(drop=True), pd.concat(parts, ignore_index=True)], axis=1)
