"""Which numbers of trials a printed accuracy can come from (GRIM).

The accuracy of n trials is k / n with k a whole number, and the mean of s seeds is k / (s n). So
few trials leave gaps between the values that can be printed, and a printed value that falls into a
gap was not measured on that many trials. This needs nothing but the printed digits.

All of it is in whole numbers: no rounding of ours can make a value fit. :func:`audit_report`
applies it to anyone's table.

References
----------
Brown and Heathers, The GRIM test: a simple technique detects numerous anomalies in the reporting of
results in psychology, Social Psychological and Personality Science 8 (2017).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spdtokens.errors import PaperError

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of a file of reported accuracies.
COLUMNS = ("value", "n", "seeds", "group", "label")
# Arithmetic is exact, so it would take long with a million digits.
_ACCURACY = re.compile(r"(\d{0,12}\.?\d{1,12}) *(%?)")
_WHOLE = re.compile(r"0{0,9}[1-9]\d{0,15}")


@dataclass(frozen=True)
class Reported:
    """An accuracy as it is printed.

    Attributes
    ----------
    value : Decimal
        With its decimals: 99.60 says more than 99.6.
    seeds : int
        Runs on as many trials each whose mean it is.
    whole : int
        What a perfect score would be printed as: 100, or 1 for shares.
    label : str
    """

    value: Decimal
    seeds: int = 1
    whole: int = 100
    label: str = ""

    @property
    def steps(self) -> int:
        """How many printable values lie between 0 and a perfect score."""
        return self.whole * 10**self.decimals

    @property
    def decimals(self) -> int:
        """How many are printed."""
        exponent = self.value.as_tuple().exponent
        return max(0, -int(exponent))

    def fits(self, n: int, *, cut: bool = False) -> bool:
        """Whether ``n`` trials per seed can give this value; see :meth:`counts`."""
        return bool(self.counts(n, cut=cut))

    def counts(self, n: int, *, cut: bool = False) -> range:
        """Numbers of right answers, summed over seeds, that are printed as this value.

        Parameters
        ----------
        n : int
            Trials per seed.
        cut : bool
            Whether further digits were cut off. Otherwise a value halfway between two printable
            ones may have been rounded up or down: programs differ.
        """
        total = n * self.seeds
        printed = int(self.value.scaleb(self.decimals))
        # k fits if k * steps / total lies within half a step of what is printed; doubled, so that
        # all is whole: |2 k steps - 2 printed total| <= total. Cut off, it is below the next.
        step, base = 2 * self.steps, 2 * printed * total
        low, high = (base, base + 2 * total - 1) if cut else (base - total, base + total)
        return range(max(-(-low // step), 0), min(high // step, total) + 1)


def number_that_fit(values: Iterable[Reported], n: int) -> int:
    """Count the values that ``n`` trials can give."""
    return sum(value.fits(n) for value in values)


def sizes_that_fit(values: Sequence[Reported], max_n: int = 400) -> list[int]:
    """Numbers of trials up to ``max_n`` that can give every one of the values.

    A multiple of a size that fits, fits too.
    """
    return [n for n in range(1, max_n + 1) if all(value.fits(n) for value in values)]


def chance_to_fit(values: Iterable[Reported], n: int) -> float:
    """Chance that values which have nothing to do with ``n`` trials would all fit them.

    The product, over distinct values that are not 0 or perfect (these always fit), of the share of
    printable values that fit.
    """
    chance = 1.0
    for value in {(v.value, v.seeds, v.whole, v.decimals): v for v in values}.values():
        if 0 < value.value < value.whole:
            chance *= min(1.0, n * value.seeds / value.steps)
    return chance


def smallest_of_each_family(sizes: Sequence[int]) -> list[int]:
    """Sizes of which no smaller one in the list is a divisor: the rest are their multiples."""
    return [n for n in sizes if not any(n % m == 0 for m in sizes if m < n)]


class Row(NamedTuple):
    """A line of a file of reported accuracies."""

    line: int
    group: str
    n: int | None
    reported: Reported


def read_report(path: Path) -> list[Row]:
    """Read a CSV file of reported accuracies, with a header and one row per value.

    ``value``
        As printed, with its decimals: 98.81, 98.81 %, or 0.9881. Shares if none of the file is
        above 1.
    ``n``
        Test trials of a run, as claimed. May be empty, if only possible sizes are sought.
    ``seeds``
        Runs whose mean it is; 1 if the column or the entry is missing.
    ``group``
        Values that share their test trials, say a data set. By default those with the same ``n``.
    ``label``
        What it is of.

    Raises
    ------
    PaperError
        Naming the line and what to do about it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PaperError(f"{path} cannot be read as a CSV file in UTF-8: {error}.") from error
    first = text.strip().split("\n", 1)[0]
    separator = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(text.splitlines(), delimiter=separator)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise PaperError(
            f"{path}, line {reader.line_num} cannot be read as CSV: {error}."
        ) from error
    lines = [(number, cells) for number, cells in lines if any(cells)]
    if len(lines) < 2:
        raise PaperError(f"{path} must have a header, such as value,n,seeds,label, and values.")
    (top, names), *others = lines
    header = [name.lower() for name in names]
    if "value" not in header or not set(header) <= set(COLUMNS):
        raise PaperError(
            f"{path}, line {top}: columns must be value and any of {', '.join(COLUMNS[1:])}, got "
            f"{', '.join(header)}."
        )
    for number, cells in others:
        if len(cells) != len(header) or len(set(header)) < len(header):
            raise PaperError(
                f"{path}, line {number}: {len(cells)} entries for the columns {', '.join(header)}. "
                "Name each column once, quote labels that contain a separator, and write decimals "
                "with a point."
            )
    entries = {number: dict(zip(header, cells, strict=True)) for number, cells in others}
    percent = any("%" in entry["value"] for entry in entries.values()) or any(
        float(found[1]) > 1
        for entry in entries.values()
        if (found := _ACCURACY.fullmatch(entry["value"]))
    )
    return [
        _row(f"{path}, line {number}", number, entry, 100 if percent else 1)
        for number, entry in entries.items()
    ]


def _row(where: str, number: int, entry: dict[str, str], whole: int) -> Row:
    found = _ACCURACY.fullmatch(entry["value"])
    if found is None or not 0 <= (value := Decimal(found[1])) <= whole:
        raise PaperError(
            f"{where}: {entry['value'][:30]!r} is not an accuracy from 0 to {whole}. Write it as "
            "printed, such as 98.81 or 0.9881, without its standard deviation."
        )
    if whole == 100 and 0 < value <= 1 and not found[2]:
        raise PaperError(
            f"{where}: {value} beside values in percent. Write {100 * value} if it is a share, "
            f"or {value} % if it is not."
        )
    for name in ("n", "seeds"):
        if entry.get(name) and not _WHOLE.fullmatch(entry[name]):
            raise PaperError(
                f"{where}: {name} must be a whole number of at least 1, got {entry[name][:30]!r}."
            )
    n = int(entry["n"]) if entry.get("n") else None
    group = entry.get("group") or (f"n = {n}" if n else "no n claimed")
    label = entry.get("label") or f"line {number}"
    return Row(number, group, n, Reported(value, int(entry.get("seeds") or 1), whole, label))


def audit_report(rows: list[Row], max_n: int = 400) -> dict[str, Any]:
    """Find values that are impossible for their n, and every n that explains a group of values.

    Parameters
    ----------
    rows : list of Row
    max_n : int
        Largest number of trials to try.

    Returns
    -------
    dict
        ``values``: one entry per row, ``possible`` being None without a claimed n, ``informative``
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
            "possible": None if row.n is None else row.reported.fits(row.n),
            "informative": row.n is None or row.n * row.reported.seeds < row.reported.steps,
        }
        for row in rows
    ]
    groups = []
    for name in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == name]
        reported = [row.reported for row in members]
        sizes = sizes_that_fit(reported, max_n)
        groups.append(
            {
                "group": name,
                "values": len(members),
                "claimed": sorted({row.n for row in members if row.n is not None}),
                "impossible": sum(v["group"] == name and v["possible"] is False for v in values),
                "sizes_that_fit_all": sizes,
                "smallest": smallest_of_each_family(sizes),
                # From here on every n fits, since all printable values occur.
                "all_fit_from": max(-(-r.steps // r.seeds) for r in reported),
            }
        )
    return {"values": values, "groups": groups, "max_n": max_n, "rounding": "any"}


def report_tables(result: dict[str, Any]) -> list[Table]:
    """The values of a file and, in a second table, the sizes that explain a group of them."""
    from rich.text import Text

    from spdtokens._tables import table

    answers = {None: Text(""), True: Text("yes", "green"), False: Text("no", "red")}
    silent = Text("yes, as any value", "dim")
    values = [
        (
            *(row[key] for key in ("line", "label", "value", "seeds")),
            "" if row["n"] is None else row["n"],
            answers[row["possible"]] if row["informative"] else silent,
        )
        for row in result["values"]
    ]
    groups = []
    for group in result["groups"]:
        fitting = list(map(str, group["smallest"]))
        shown = ", ".join(fitting[:12]) + (f" and {len(fitting) - 12} more" if fitting[12:] else "")
        impossible = group["impossible"] if group["claimed"] else ""
        groups.append((group["group"], group["values"], impossible, shown or "none"))
    headers = (">line", "label~", ">value", ">seeds", ">n", "possible")
    return [
        table(headers, values, "Reported accuracies", pad_edge=True),
        table(
            ("group~", ">values", ">impossible", "n that fit all~"),
            groups,
            f"Numbers of test trials up to {result['max_n']} that explain all values",
            "Multiples of a number that fits, fit too, and are left out.",
            pad_edge=True,
        ),
    ]
