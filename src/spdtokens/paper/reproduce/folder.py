"""What ``spdtokens reproduce`` left in a folder, read again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdtokens.errors import ReportError
from spdtokens.evaluation.runs import RunResult, code_digest
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.drawn import Drawn, read_drawn
from spdtokens.paper.reproduce.experiments import EXPERIMENTS
from spdtokens.paper.reproduce.figures import FIGURES
from spdtokens.paper.reproduce.run import Extent
from spdtokens.paper.reproduce.side import SIDES
from spdtokens.paper.tables import Cell as Printed

STORE = "runs.sqlite"
#: All that can be reproduced, in the order of the list.
NAMES = (*EXPERIMENTS, *SIDES, *FIGURES)


@dataclass(frozen=True)
class Score:
    """A cell of a table of accuracies; scores from 0 to 1, None where there is none.

    Attributes
    ----------
    row, column : str
    train, test, std : float or None
    reported : str
        As the paper prints it; empty where it prints nothing.
    n_runs : int
    """

    row: str
    column: str
    train: float | None
    test: float | None
    std: float | None
    reported: str
    n_runs: int

    @property
    def printed(self) -> float | None:
        """The paper's accuracy from 0 to 1; None for a range, and where there is none."""
        numbers = Printed(self.reported).numbers
        one = len(numbers) == 1 or "+-" in self.reported
        return float(numbers[0]) / 100 if numbers and one else None

    @property
    def gap(self) -> float | None:
        """Train minus test."""
        return None if self.train is None or self.test is None else self.train - self.test

    @property
    def nearer(self) -> str:
        """Our score that the paper's is nearer to: ``train``, ``test`` or ``equal``; or empty."""
        if self.train is None or self.test is None or self.printed is None:
            return ""
        further = abs(self.printed - self.train) - abs(self.printed - self.test)
        if abs(further) < 1e-9:
            return "equal"
        return "test" if further > 0 else "train"


@dataclass(frozen=True)
class Scores:
    """A table of accuracies as it was written.

    Attributes
    ----------
    name, title, label, note, command : str
    code : str or None
        Whose runs count; None for any.
    extent : Extent
    cells : tuple of Score
    """

    name: str
    title: str
    label: str
    note: str
    command: str
    code: str | None
    extent: Extent
    cells: tuple[Score, ...]


@dataclass(frozen=True)
class Folder:
    """What there is of the paper.

    Attributes
    ----------
    path : Path
    scores : list of Scores
    sides : dict of str to dict
        Content of ``efficiency.json`` and ``theory.json``.
    figures : dict of str to Drawn
    runs : list of RunResult
        All that the tables count.
    """

    path: Path
    scores: list[Scores]
    sides: dict[str, dict[str, Any]]
    figures: dict[str, Drawn]
    runs: list[RunResult]

    @property
    def missing(self) -> list[str]:
        """Names of what is not there."""
        have = {table.name for table in self.scores} | set(self.sides) | set(self.figures)
        return [name for name in NAMES if name not in have]

    @property
    def commands(self) -> dict[str, str]:
        """That make each thing again, by its name."""
        where = f" --out {self.path}"
        found = {table.name: table.command for table in self.scores}
        found |= {name: str(content["command"]) for name, content in self.sides.items()}
        found |= {name: drawn.command for name, drawn in self.figures.items()}
        return {name: text + where if text else "" for name, text in found.items()}

    @property
    def foreign(self) -> list[str]:
        """Names of what was made by other code than this."""
        codes: dict[str, str | None] = {table.name: table.code for table in self.scores}
        codes |= {name: content["origin"]["code"] for name, content in self.sides.items()}
        codes |= {name: drawn.origin["code"] for name, drawn in self.figures.items()}
        return [name for name, code in codes.items() if code != code_digest()]


def read_folder(path: Path) -> Folder:
    """All that was reproduced into a folder.

    Raises
    ------
    ReportError
        If there is nothing, or a file that is not as it was written.
    """
    scores, sides, figures = _read(path, NAMES)
    if not (scores or sides or figures):
        raise ReportError(
            f"{path} has nothing that spdtokens reproduce wrote: spdtokens reproduce all --quick "
            f"--out {path}."
        )
    return Folder(path, scores, sides, figures, _runs(path / STORE, scores))


def check_folder(path: Path, new: Collection[str]) -> None:
    """Refuse, before any work, a folder with files that no report could be made of.

    Parameters
    ----------
    path : Path
    new : collection of str
        Names of what will be written anew, whatever there is now.
    """
    _read(path, [name for name in NAMES if name not in new])


def _read(
    path: Path, names: Collection[str]
) -> tuple[list[Scores], dict[str, dict[str, Any]], dict[str, Drawn]]:
    def there(kind: Iterable[str], suffix: str) -> list[Path]:
        files = [path / f"{name}{suffix}" for name in kind if name in names]
        return [file for file in files if file.exists()]

    return (
        [_read_scores(file) for file in there(EXPERIMENTS, ".json")],
        {file.stem: _read_side(file) for file in there(SIDES, ".json")},
        {file.stem: read_drawn(file) for file in there(FIGURES, ".png")},
    )


def _read_scores(file: Path) -> Scores:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        cells = tuple(
            Score(**{**cell, "reported": cell["reported"] or ""}) for cell in found["cells"]
        )
        about = {key: found[key] or "" for key in ("name", "title", "label", "note", "command")}
        return Scores(**about, code=found["code"], extent=Extent(**found["extent"]), cells=cells)
    except (KeyError, TypeError, ValueError) as error:
        raise _not_ours(file) from error


def _read_side(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        needed = {"command", "origin", "methods" if file.stem == "efficiency" else "claims"}
    except ValueError as error:
        raise _not_ours(file) from error
    if not needed <= set(found):
        raise _not_ours(file)
    return found


def _not_ours(file: Path) -> ReportError:
    return ReportError(
        f"{file} was not written by this version of spdtokens reproduce: run spdtokens reproduce "
        f"{file.stem} --out {file.parent} again."
    )


def _runs(path: Path, scores: list[Scores]) -> list[RunResult]:
    """The store's runs by the code that the tables count; none without a table."""
    if not scores or not path.exists():
        return []
    with RunStore(path) as store:
        by_key = {
            run.spec.key: run
            for code in dict.fromkeys(table.code for table in scores)
            for run in store.results(None, code)
        }
    return list(by_key.values())
