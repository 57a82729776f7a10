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
from spdtokens.paper.audit.check import (
    SEEDS,
    SPLITS,
    Paper,
    Split,
    Verdict,
    check,
    judge,
    labels,
)
from spdtokens.paper.findings import Outcome, told
from spdtokens.paper.tables import Cell

if TYPE_CHECKING:
    from rich.table import Table

#: Largest number of trials that is tried.
MAX_N = 400
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


def sizes_that_fit(values: Sequence[Reported], max_n: int = MAX_N) -> list[int]:
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


def tables_of(split: Split) -> str:
    """Labels of the tables by subject of a data set."""
    return labels(f"subjects-{split.key}", f"multiband-{split.key}")


# Checks of the paper's accuracies


def means_of_seeds(cells: Iterable[Cell]) -> list[Reported]:
    """Printed means of five seeds."""
    return [Reported(cell.number, SEEDS) for cell in cells]


def subject_values(paper: Paper, split: Split) -> dict[str, list[Reported]]:
    """The Log-Euclidean transformer's values subject by subject, by where they are printed."""
    one, multi = (paper.table(f"{name}-{split.key}") for name in ("subjects", "multiband"))
    values = {
        "best and worst seeds": [
            Reported(cell.number) for end in ("Min", "Max") for cell in one.column(end)
        ],
        "means of 5 seeds": means_of_seeds(one.column("Accuracy")),
        "means, one band": means_of_seeds(multi.column("Single-Token")),
        "means, three bands": means_of_seeds(multi.column("Multi-Band")),
    }
    # A value printed in two tables, or many times as 100.00, says no more than once.
    first: dict[Reported, str] = {}
    for where, group in values.items():
        for value in group:
            first.setdefault(value, where)
    return {where: [v for v, place in first.items() if place == where] for where in values}


def _of_size(n: int, on_train: int, on_test: int) -> Verdict:
    return "holds" if on_test == n else "fits training size" if on_train == n else "undecided"


def _fitting(values: Sequence[Reported], split: Split, **words: object) -> Outcome:
    n, train, sizes = len(values), split.train, sizes_that_fit(values)
    fit = {m: number_that_fit(values, m) for m in (train, *split.test)}
    shown = ", ".join(
        f"{count} of {n} fit {m} {'trained on' if m == train else 'tested on'}"
        for m, count in fit.items()
    )
    shown += f". n <= {MAX_N} that fit all: {', '.join(map(str, sizes)) or 'none'}"
    numbers = {
        "values": n,
        "fit": fit,
        "sizes_that_fit_all": sizes,
        "train": train,
        "test": list(split.test),
        "chance": chance_to_fit(values, train),
    }
    verdict = _of_size(n, fit[train], max(fit[m] for m in split.test))
    return Outcome(verdict, numbers, shown=f"{shown} ({split.how} = {train})", **words)


def granularity(paper: Paper, split: Split) -> Outcome:
    """The accuracies are possible for n test trials: k / n, means of five seeds k / (5 n).

    Printed: {values} distinct accuracies, subject by subject

    Arithmetic: {shown}. {groups}
    """
    groups = subject_values(paper, split)
    values = [value for group in groups.values() for value in group]
    fit = {where: (number_that_fit(g, split.train), len(g)) for where, g in groups.items() if g}
    return _fitting(values, split, groups=told("{}: {} of {}", fit, "; "))


for each in SPLITS:
    check(tables_of(each), f"granularity-{each.key}", each)(granularity)


def ablation_values(paper: Paper, split: Split) -> list[Reported]:
    """Values of our transformers on one subject, from the tables of ablations."""
    subject = split.subject
    means = list(paper.table("geometry").column(subject))
    means += [paper.cell("geometric-attention", subject, c) for c in ("Standard", "Geometric")]
    best: list[Cell] = []
    for table in map(paper.table, ("depth", "heads")):
        if subject in table.columns:
            means += table.column(subject)
            best += table.column(f"{split.data} Best")
    return list(dict.fromkeys([*means_of_seeds(means), *(Reported(c.number) for c in best)]))


@check(labels("geometry", "geometric-attention", "depth", "heads"))
def granularity_ablations(paper: Paper) -> Outcome:
    """Accuracies of one subject of each data set are possible for its test trials.

    Printed: {n} distinct accuracies of transformers in the ablations of embedding, attention, depth
    and heads

    Arithmetic: {train} of {n} fit the trials trained on, {test} those tested on ({shown})
    """
    by_data = {}
    for split in SPLITS:
        values = ablation_values(paper, split)
        train, *test = (number_that_fit(values, m) for m in (split.train, *split.test))
        by_data[split.data] = {"values": len(values), "train": train, "test": max(test)}
    n, on_train, on_test = (
        sum(row[key] for row in by_data.values()) for key in ("values", "train", "test")
    )
    shown = ", ".join(
        f"{d} {c['train']} and {c['test']} of {c['values']}" for d, c in by_data.items()
    )
    verdict = _of_size(n, on_train, on_test)
    return Outcome(verdict, by_data, n=n, train=on_train, test=on_test, shown=shown)


@check(labels("bn-embed", "baselines"))
def granularity_others(paper: Paper) -> Outcome:
    """Those of BN-Embed and of the methods compared with are, too.

    Printed: {values} means of BN-Embed, SPDNet, ATCNet and EEGNet on one subject of each data set

    Arithmetic: {rounded} of {values} fit the trials trained on if rounded, {rounded_or_cut} if
    rounded or cut off ({misfits}); {test} fit those tested on, rounded or cut off
    """
    counts = dict.fromkeys(("values", "rounded", "rounded_or_cut", "test"), 0)
    misfits = []
    bn = paper.table("bn-embed")
    for split in SPLITS:
        row = next(name for name in bn.names if name.startswith(split.data))
        cells = {column: bn.cell(row, column) for column in bn.columns[1:3]}
        for name in ("SPDNet", "ATCNet", "EEGNet"):
            cells[name] = paper.cell("baselines", name, split.subject)
        for label, value in zip(cells, means_of_seeds(cells.values()), strict=True):
            fits = value.fits(split.train)
            counts["values"] += 1
            counts["rounded"] += fits
            counts["rounded_or_cut"] += fits or value.fits(split.train, cut=True)
            counts["test"] += any(value.fits(m) or value.fits(m, cut=True) for m in split.test)
            misfits += [] if fits else [f"{label}, {split.data} {value.value}"]
    verdict = _of_size(counts["values"], counts["rounded_or_cut"], counts["test"])
    return Outcome(verdict, counts, misfits="; ".join(misfits))


@check("fig:confusion_matrices_key")
def granularity_confusion(paper: Paper) -> Outcome:
    """The confusion matrices are of the 288 trials of the test session.

    Printed: {values} accuracies of the confusion matrices (seed 42)

    Arithmetic: {shown}
    """
    values = [Reported(paper.text(f"seed-42-s{s}").number, label=f"S{s}") for s in (2, 4)]
    return _fitting(values, SPLITS[0])


@check("tab:all_subjects_comparison")
def granularity_classical(paper: Paper) -> Outcome:
    """Means over s subjects of methods without seeds are possible for n test trials: k / (s n).

    Printed: {n} means over subjects of TS+LR, FgMDM and MDM

    Arithmetic: {test} of {n} fit the trials tested on, {train} those trained on; smallest n that
    fits a data set's three: {sizes}{beside}
    """
    methods = ("TS+LR", "FgMDM", "MDM")
    found: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        subjects, *means = paper.numbers("all-subjects", split.data, "Subjects", *methods)
        values = [Reported(mean, int(subjects)) for mean in means]
        smallest = smallest_of_each_family(sizes_that_fit(values))
        fit = {m: number_that_fit(values, m) for m in split.test}
        test = max(fit, key=fit.__getitem__)
        found[split.data] = {
            "smallest": smallest[0] if smallest else None,
            "test": fit[test],
            "train": number_that_fit(values, split.train),
            "chance": chance_to_fit(values, test),
        }
    n = len(SPLITS) * len(methods)
    on_test, on_train = (sum(row[key] for row in found.values()) for key in ("test", "train"))
    beside = "; the same table prints values that fit training sizes" * (on_test == n)
    sizes = ", ".join(f"{data} {row['smallest']}" for data, row in found.items())
    words = {"test": on_test, "train": on_train, "sizes": sizes, "beside": beside}
    return Outcome(judge(on_test == n), found, n=n, **words)


# Anyone's accuracies


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


def audit_report(rows: list[Row], max_n: int = MAX_N) -> dict[str, Any]:
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
