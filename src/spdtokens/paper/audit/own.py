"""Anyone's table of accuracies: which are impossible for the trials they are said to be of.

A CSV file with a header and one row a value:

``value``
    As printed, with its decimals: 98.81, 98.81 %, or 0.9881. Shares if none of the file is above 1.
``n``
    Test trials of a run, as claimed. May be empty, if only possible sizes are sought.
``seeds``
    Runs whose mean it is; 1 if the column or the entry is missing.
``group``
    Values that share their test trials, say a data set. By default those with the same ``n``.
``label``
    What it is of.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from spdtokens.errors import ReportError
from spdtokens.paper.audit.granularity import (
    Reported,
    Rounding,
    sizes_that_fit,
    smallest_of_each_family,
)

COLUMNS = ("value", "n", "seeds", "group", "label")
#: Characters of a number at most: arithmetic is exact, so it takes long with a million digits.
LONGEST = 25


@dataclass(frozen=True)
class Row:
    """A line of the file."""

    line: int
    group: str
    n: int | None
    reported: Reported


def read_report(path: Path) -> list[Row]:
    """Read a CSV file of reported accuracies.

    Raises
    ------
    ReportError
        Naming the line and what to do about it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReportError(f"{path} is not UTF-8 text; save it as CSV in UTF-8.") from error
    except FileNotFoundError as error:
        raise ReportError(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise ReportError(f"{path} is a folder; give a CSV file.") from error
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise ReportError(f"{path} is empty; it needs a header such as value,n,seeds,label.")
    separator = ";" if lines[0][1].count(";") > lines[0][1].count(",") else ","
    where = f"{path}, line {lines[0][0]}"
    header = [name.lower() for name in _cells(lines[0][1], separator, where)]
    if "value" not in header:
        raise ReportError(f"{where}: the header has no column 'value', only {', '.join(header)}.")
    if unknown := [name for name in header if name not in COLUMNS]:
        raise ReportError(
            f"{where}: unknown column {unknown[0]!r}. Columns are {', '.join(COLUMNS)}."
        )
    if len(set(header)) < len(header):
        raise ReportError(f"{where}: a column stands twice in the header.")
    entries = []
    for number, line in lines[1:]:
        cells = _cells(line, separator, f"{path}, line {number}")
        if len(cells) != len(header):
            raise ReportError(
                f"{path}, line {number}: {len(cells)} entries for {len(header)} columns. Quote "
                "labels that contain a separator, and write decimals with a point."
            )
        entries.append((number, dict(zip(header, cells, strict=True))))
    if not entries:
        raise ReportError(f"{path} has a header and no values below it.")
    return _rows(path, entries)


def _cells(line: str, separator: str, where: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    except csv.Error as error:
        raise ReportError(f"{where} cannot be read as CSV: {error}.") from error


def _rows(path: Path, entries: list[tuple[int, dict[str, str]]]) -> list[Row]:
    values = {number: _decimal(path, number, entry["value"]) for number, entry in entries}
    percent = any(value > 1 for value in values.values()) or any(
        entry["value"].endswith("%") for _, entry in entries
    )
    rows = []
    for number, entry in entries:
        value = values[number]
        where = f"{path}, line {number}"
        if percent and 0 < value <= 1 and not entry["value"].endswith("%"):
            raise ReportError(
                f"{where}: {value} beside values in percent. Write {100 * value} if it is a share, "
                f"or {value} % if it is not."
            )
        n = _whole(where, "n", entry.get("n", ""))
        seeds = _whole(where, "seeds", entry.get("seeds", "")) or 1
        whole = 100 if percent else 1
        if not 0 <= value <= whole:
            raise ReportError(f"{where}: {value} is no accuracy; they lie between 0 and {whole}.")
        group = entry.get("group") or (f"n = {n}" if n else "no n claimed")
        label = entry.get("label") or f"line {number}"
        rows.append(Row(number, group, n, Reported(value, seeds, whole, label)))
    return rows


def _decimal(path: Path, line: int, text: str) -> Decimal:
    try:
        value = Decimal(text.removesuffix("%").strip())
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or len(text) > LONGEST or "E" in str(value):
        raise ReportError(
            f"{path}, line {line}: {text[: LONGEST + 5]!r} is not a number. Write an accuracy as "
            "it is printed, such as 98.81 or 0.9881, without its standard deviation."
        )
    return value


def _whole(where: str, name: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > LONGEST or int(text) < 1:
        raise ReportError(
            f"{where}: {name} is a whole number of at least 1, not {text[: LONGEST + 5]!r}."
        )
    return int(text)


def audit_report(rows: list[Row], max_n: int = 400, rounding: Rounding = "any") -> dict[str, Any]:
    """Which values are impossible for their n, and which n explain all values of a group.

    Parameters
    ----------
    rows : list of Row
    max_n : int
        Largest number of trials to try.
    rounding : {'any', 'half-up', 'half-even', 'cut'}

    Returns
    -------
    dict
        ``values``: one entry a row, ``possible`` being None without a claimed n, ``informative``
        False where so many trials can print any value. ``groups``: the sizes that fit all.
    """
    values = [
        {
            "line": row.line,
            "label": row.reported.label,
            "group": row.group,
            "value": str(row.reported.value),
            "seeds": row.reported.seeds,
            "n": row.n,
            "possible": None if row.n is None else row.reported.fits(row.n, rounding),
            "informative": row.n is None or row.n * row.reported.seeds < row.reported.steps,
        }
        for row in rows
    ]
    groups = []
    for name in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == name]
        reported = [row.reported for row in members]
        sizes = sizes_that_fit(reported, max_n, rounding)
        claimed = sorted({row.n for row in members if row.n is not None})
        groups.append(
            {
                "group": name,
                "values": len(members),
                "claimed": claimed,
                "impossible": sum(
                    row.n is not None and not row.reported.fits(row.n, rounding) for row in members
                ),
                "sizes_that_fit_all": sizes,
                "smallest": smallest_of_each_family(sizes),
                # From here on every n fits, since all printable values occur.
                "all_fit_from": max(-(-r.steps // r.seeds) for r in reported),
            }
        )
    return {"values": values, "groups": groups, "max_n": max_n, "rounding": rounding}
