"""Our accuracies beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.summary import summarise
from spdtokens.paper.tables import Cell as Printed
from spdtokens.reporting.tables import NAN

if TYPE_CHECKING:
    from spdtokens.paper.reproduce.run import Extent


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
        One row per cell, with the columns ``row``, ``column``, ``train``, ``test``, ``std`` (from 0
        to 1, NaN without runs), ``reported`` (the paper's text, or empty) and ``n_runs``.
    """

    name: str
    title: str
    label: str
    note: str
    command: str
    code: str | None
    extent: Extent
    cells: pd.DataFrame

    @property
    def heading(self) -> str:
        """The title; says so if the data are simulated."""
        return self.title + (" (simulated data)" if self.extent.data == "sim" else "")

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
        return {
            "name": self.name,
            "title": self.title,
            "label": self.label or None,
            "note": self.note,
            "command": self.command,
            "code": self.code,
            "whole": self.extent.is_whole,
            "extent": asdict(self.extent),
            "cells": cells,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ScoreTable:
        """Restore a table from :meth:`to_dict`; KeyError, TypeError or ValueError if invalid."""
        from spdtokens.paper.reproduce.run import Extent  # which imports this module

        cells = [{**cell, "reported": cell["reported"] or ""} for cell in found["cells"]]
        frame = pd.DataFrame(cells).astype({"train": float, "test": float, "std": float})
        about = {key: found[key] or "" for key in ("name", "title", "label", "note", "command")}
        return cls(**about, code=found["code"], extent=Extent(**found["extent"]), cells=frame)


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
