"""Export of results to CSV and Parquet."""

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

#: Columns that identify a run, with their types, which empty columns have too.
_SPEC = dict.fromkeys(["key", *(field.name for field in fields(RunSpec))], "string")
_SPEC["seed"] = "Int64"
#: Those repeated in every row of a trial; ``key`` leads to the rest.
_RUN_OF_TRIAL = (
    *("key", "dataset", "protocol", "access", "alignment"),
    *("method", "subject", "fold", "seed"),
)


def to_csv(results: Sequence[RunResult], path: str | Path, *, predictions: bool = False) -> None:
    """Write results to a CSV file (UTF-8, with a header).

    Numbers are written with all digits, so that they are read back exactly. Values that a run does
    not have, and NaN, are left empty.

    Parameters
    ----------
    results : sequence of RunResult
        The results, at least one.
    path : str or Path
        The file to write.
    predictions : bool, default=False
        Write one row per test trial instead of one row per run.

    Raises
    ------
    StudyError
        If there are no results, or the file cannot be written.

    See Also
    --------
    to_parquet : The same columns as a Parquet file.
    spdtokens.experiments.run.Plan.results : Results of a study.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import pandas as pd
    >>> from spdtokens import evaluate
    >>> from spdtokens.experiments.export import to_csv
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = (X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> results = evaluate(data, "mdm", "k-fold").results["mdm"]
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "trials.csv")
    ...     to_csv(results, file, predictions=True)
    ...     trials = pd.read_csv(file)
    >>> len(trials)
    40
    """
    _write(results, path, predictions, "to_csv", encoding="utf-8")


def to_parquet(
    results: Sequence[RunResult], path: str | Path, *, predictions: bool = False
) -> None:
    """Write results to a Parquet file, with the columns of :func:`to_csv`.

    Parameters
    ----------
    results : sequence of RunResult
        The results, at least one.
    path : str or Path
        The file to write.
    predictions : bool, default=False
        Write one row per test trial instead of one row per run.

    Raises
    ------
    StudyError
        If there are no results, pyarrow is not installed, or the file cannot be written.

    See Also
    --------
    to_csv : The same columns as a CSV file.
    spdtokens.experiments.run.Plan.results : Results of a study.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import pandas as pd
    >>> from spdtokens import evaluate
    >>> from spdtokens.experiments.export import to_parquet
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = (X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> results = evaluate(data, "mdm", "k-fold").results["mdm"]
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "trials.parquet")
    ...     to_parquet(results, file, predictions=True)  # doctest: +SKIP
    ...     trials = pd.read_parquet(file)
    >>> len(trials)  # doctest: +SKIP
    40
    """
    _write(results, path, predictions, "to_parquet", engine="pyarrow")


def _write(
    results: Sequence[RunResult], path: str | Path, predictions: bool, form: str, **options: Any
) -> None:
    if not results:
        raise StudyError(f"There are no results to write to {path}.")
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
    """One row per run: its spec (mappings as JSON), scores, sizes, cost and origin.

    Metrics are prefixed by ``train_``, ``validation_`` or ``test_``, numbers of trials by ``n_``,
    origins by ``origin_``.
    """
    import pandas as pd  # slow to import

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
    """One row per test trial: its id, label, prediction and class probabilities."""
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
