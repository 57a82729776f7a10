"""Our accuracies beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.summary import summarise
from spdtokens.paper.reproduce.derived import Derived, derive
from spdtokens.paper.tables import Cell as Printed
from spdtokens.reporting.tables import NAN

if TYPE_CHECKING:
    from spdtokens.paper.reproduce.run import Extent


#: Columns of the runs of a table: ``seed`` is -1 for deterministic methods, ``epochs`` is NaN for
#: methods without epochs.
RUNS: dict[str, Any] = {
    **dict.fromkeys(("row", "column", "subject", "fold"), object),
    "seed": int,
    **dict.fromkeys(("train", "test", "seconds", "epochs"), float),
}
_PLACE = ["row", "column"]


def file_stem(name: str, *, paper_split: bool) -> str:
    """Return the name of the files of a table without suffix."""
    return name + ".paper-split" * paper_split


@dataclass(frozen=True)
class ScoreTable:
    """A table of our accuracies and those of the paper.

    Attributes
    ----------
    name, title, note : str
        As in :class:`Experiment`.
    label : str
        LaTeX label in the paper; empty for future work.
    command : str
        Command that makes the table.
    code : str or None
        Digest of the code that made the runs; None for any code.
    extent : Extent
        Data, subjects, seeds and epochs.
    cells : DataFrame
        One row per cell, with the columns ``row``, ``column``, ``method``, ``protocol``,
        ``reported`` (the paper's text, or empty), ``train``, ``test``, ``std`` (from 0 to 1, NaN
        without runs) and ``n_runs``.
    runs : DataFrame
        One row per run of each cell, with the columns :data:`RUNS`.
    """

    name: str
    title: str
    label: str
    note: str
    command: str
    code: str | None
    extent: Extent
    cells: pd.DataFrame
    runs: pd.DataFrame

    @property
    def heading(self) -> str:
        """The title; says so if the data are simulated or the split is the paper's."""
        said = ["simulated data"] * (self.extent.data == "sim")
        said += ["the paper's split"] * self.has_paper_split
        return self.title + (f" ({', '.join(said)})" if said else "")

    @property
    def has_paper_split(self) -> bool:
        """Whether the trials are split as in the paper."""
        return self.extent.split == "paper"

    @property
    def stem(self) -> str:
        """Name of the files without suffix."""
        return file_stem(self.name, paper_split=self.has_paper_split)

    @property
    def derived(self) -> list[Derived]:
        """Values of the other columns of the paper's table, and of its text."""
        return derive(self.name, self.cells, self.runs)

    @property
    def frame(self) -> pd.DataFrame:
        """The cells with three further columns.

        ``printed`` is the paper's accuracy from 0 to 1, ``gap`` is train minus test. ``nearer`` is
        the score that the paper's value is nearer to: ``train``, ``test`` or ``equal``; empty if a
        value is missing.
        """
        frame = self.cells.copy()
        frame["printed"] = [_accuracy(text) for text in frame["reported"]]
        frame["gap"] = frame["train"] - frame["test"]
        further = (frame["printed"] - frame["train"]).abs() - (
            frame["printed"] - frame["test"]
        ).abs()
        frame["nearer"] = np.select(
            [further.isna(), further.abs() < 1e-9, further > 0], ["", "equal", "test"], "train"
        )
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data; missing values are None."""
        cells = [
            {key: None if value == "" or value != value else value for key, value in cell.items()}
            for cell in self.cells.to_dict("records")
        ]
        # Runs are written by column, with the number of the cell instead of its names.
        number = pd.MultiIndex.from_frame(self.cells[_PLACE]).get_indexer(
            pd.MultiIndex.from_frame(self.runs[_PLACE])
        )
        columns = self.runs.drop(columns=_PLACE).astype(object).where(self.runs.notna(), None)
        return {
            "name": self.name,
            "file": self.stem,
            "title": self.title,
            "label": self.label or None,
            "note": self.note,
            "command": self.command,
            "code": self.code,
            "whole": self.extent.is_whole,
            "extent": asdict(self.extent),
            "cells": cells,
            "derived": [each.to_dict() for each in self.derived],
            "runs": {"cell": number.tolist(), **columns.to_dict("list")},
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ScoreTable:
        """Restore a table from :meth:`to_dict`; KeyError, TypeError or ValueError if invalid."""
        from spdtokens.paper.reproduce.run import Extent  # which imports this module

        cells = [{**cell, "reported": cell["reported"] or ""} for cell in found["cells"]]
        frame = pd.DataFrame(cells).astype({"train": float, "test": float, "std": float})
        columns = dict(found["runs"])
        places = frame[_PLACE].iloc[columns.pop("cell")].reset_index(drop=True)
        runs = pd.concat([places, pd.DataFrame(columns)], axis=1)[list(RUNS)].astype(RUNS)
        about = {key: found[key] or "" for key in ("name", "title", "label", "note", "command")}
        extent = Extent(**found["extent"])
        return cls(**about, code=found["code"], extent=extent, cells=frame, runs=runs)


def _accuracy(reported: str) -> float:
    """Return the paper's accuracy from 0 to 1; NaN for a range or an empty text."""
    numbers = Printed(reported).numbers
    one = len(numbers) == 1 or "+-" in reported
    return float(numbers[0]) / 100 if numbers and one else NAN


def distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """Return cells with results, without duplicates."""
    same = ["train", "test", "std", "n_runs", "reported"]
    return frame.drop_duplicates(same).dropna(subset=["gap"])


def cell_scores(results: Sequence[RunResult]) -> dict[str, float]:
    """Return the scores of a cell."""
    if not results:
        return {"train": NAN, "test": NAN, "std": NAN}
    (row,) = summarise({"": results}, "accuracy")
    return {"train": row.train_score, "test": row.score, "std": row.std}


def run_scores(row: str, column: str, results: Sequence[RunResult]) -> pd.DataFrame:
    """Return the runs of a cell, with the columns :data:`RUNS`."""
    runs = [
        {
            "row": row,
            "column": column,
            "subject": run.spec.subject,
            "fold": run.spec.fold,
            "seed": -1 if run.spec.seed is None else run.spec.seed,
            # Rounded here, so that a table read from its file is the same table.
            "train": round(run.train["accuracy"], 6),
            "test": round(run.test["accuracy"], 6),
            "seconds": round(run.seconds, 3),
            # Training that stops early leaves the rest of its curves NaN.
            "epochs": max((np.isfinite(c).sum() for c in run.curves.values()), default=NAN),
        }
        for run in results
    ]
    return pd.DataFrame(runs, columns=list(RUNS)).astype(RUNS)
