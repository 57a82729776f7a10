"""The GRIM test: numbers of trials that are consistent with a printed accuracy.

The accuracy on n trials is k / n with an integer k, and the mean over s seeds is k / (s n). If n is
small, there are gaps between the values that can be printed. A printed value that falls into a gap
was not measured on n trials. The test uses integer arithmetic only, so it is exact.

:func:`audit_report` applies the test to a file of accuracies.

References
----------
.. [1] N. J. L. Brown and J. A. J. Heathers, "The GRIM test: a simple technique detects numerous
   anomalies in the reporting of results in psychology", Social Psychological and Personality
   Science 8(4), 363-369, 2017. https://doi.org/10.1177/1948550616673876
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

#: Largest number of trials that is tried by default.
MAX_N = 400
#: Columns of a file of reported accuracies.
COLUMNS = ("value", "n", "seeds", "group", "label")
# Arithmetic is exact: limit the digits, since a million of them would take long.
_ACCURACY = re.compile(r"(\d{0,12}\.?\d{1,12}) *(%?)")
_WHOLE = re.compile(r"0{0,9}[1-9]\d{0,15}")


@dataclass(frozen=True)
class Reported:
    """A printed accuracy.

    Attributes
    ----------
    value : Decimal
        The value with its printed decimals: 99.60 is more precise than 99.6.
    seeds : int
        Number of runs that the value is the mean of.
    whole : int
        A perfect score: 100 for percent, 1 for proportions.
    label : str
        Name of the value.
    """

    value: Decimal
    seeds: int = 1
    whole: int = 100
    label: str = ""

    @property
    def steps(self) -> int:
        """Number of printable values between 0 and a perfect score."""
        return self.whole * 10**self.decimals

    @property
    def decimals(self) -> int:
        """Number of printed decimals."""
        exponent = self.value.as_tuple().exponent
        return max(0, -int(exponent))

    def fits(self, n: int, *, cut: bool = False) -> bool:
        """Whether this value is possible with ``n`` trials per seed; see :meth:`counts`."""
        return bool(self.counts(n, cut=cut))

    def counts(self, n: int, *, cut: bool = False) -> range:
        """Return the numbers of correct trials, summed over seeds, that print as this value.

        Parameters
        ----------
        n : int
            Number of trials per seed.
        cut : bool
            Whether the value was truncated. Otherwise it was rounded, and ties may have gone either
            way.
        """
        total = n * self.seeds
        printed = int(self.value.scaleb(self.decimals))
        # k fits if k * steps / total is within half a step of the printed value. Doubled, to have
        # integers: |2 k steps - 2 printed total| <= total. Truncated: at least it, below the next.
        step, base = 2 * self.steps, 2 * printed * total
        low, high = (base, base + 2 * total - 1) if cut else (base - total, base + total)
        return range(max(-(-low // step), 0), min(high // step, total) + 1)


def number_that_fit(values: Iterable[Reported], n: int) -> int:
    """Count the values that are possible with ``n`` trials."""
    return sum(value.fits(n) for value in values)


def sizes_that_fit(values: Sequence[Reported], max_n: int = MAX_N) -> list[int]:
    """Return the numbers of trials up to ``max_n`` with which all values are possible.

    Multiples of a number that fits also fit.
    """
    return [n for n in range(1, max_n + 1) if all(value.fits(n) for value in values)]


def chance_to_fit(values: Iterable[Reported], n: int) -> float:
    """Return the probability that unrelated values would all be possible with ``n`` trials.

    It is the product of the shares of printable values that fit, over distinct values. 0 and
    perfect scores always fit and are left out.
    """
    chance = 1.0
    for value in {(v.value, v.seeds, v.whole, v.decimals): v for v in values}.values():
        if 0 < value.value < value.whole:
            chance *= min(1.0, n * value.seeds / value.steps)
    return chance


def smallest_of_each_family(sizes: Sequence[int]) -> list[int]:
    """Return the sizes that are not a multiple of a smaller size in the list."""
    return [n for n in sizes if not any(n % m == 0 for m in sizes if m < n)]


def tables_of(split: Split) -> str:
    """Return the labels of the tables by subject of a data set."""
    return labels(f"subjects-{split.key}", f"multiband-{split.key}")


# Checks of the paper's accuracies


def means_of_seeds(cells: Iterable[Cell]) -> list[Reported]:
    """Return printed means over five seeds."""
    return [Reported(cell.number, SEEDS) for cell in cells]


def subject_values(paper: Paper, split: Split) -> dict[str, list[Reported]]:
    """Return the distinct accuracies of the Log-Euclidean transformer by subject, per column."""
    one, multi = (paper.table(f"{name}-{split.key}") for name in ("subjects", "multiband"))
    values = {
        "best and worst seeds": [
            Reported(cell.number) for end in ("Min", "Max") for cell in one.column(end)
        ],
        "means of 5 seeds": means_of_seeds(one.column("Accuracy")),
        "means, one band": means_of_seeds(multi.column("Single-Token")),
        "means, three bands": means_of_seeds(multi.column("Multi-Band")),
    }
    # A value that is printed several times, such as 100.00, counts once.
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
        f"{count} of {n} fit {m} {'training' if m == train else 'test'} trials"
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
    """Accuracies are possible with n test trials: k / n, and k / (5 n) for means over seeds.

    Printed: {values} distinct accuracies by subject

    Arithmetic: {shown}. {groups}
    """
    groups = subject_values(paper, split)
    values = [value for group in groups.values() for value in group]
    fit = {where: (number_that_fit(g, split.train), len(g)) for where, g in groups.items() if g}
    return _fitting(values, split, groups=told("{}: {} of {}", fit, "; "))


for each in SPLITS:
    check(tables_of(each), f"granularity-{each.key}", each)(granularity)


def ablation_values(paper: Paper, split: Split) -> list[Reported]:
    """Return accuracies of the token transformers on one subject from the ablation tables."""
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
    """Accuracies in the ablations are possible with the number of test trials.

    Printed: {n} distinct accuracies of transformers in the ablations of embedding, attention, depth
    and heads

    Arithmetic: {train} of {n} fit the number of training trials, {test} that of test trials (BCI2a
    {BCI2a[train]} and {BCI2a[test]} of {BCI2a[values]}, BCIcha {BCIcha[train]} and {BCIcha[test]}
    of {BCIcha[values]}, MAMEM {MAMEM[train]} and {MAMEM[test]} of {MAMEM[values]})
    """
    by_data = {}
    for split in SPLITS:
        values = ablation_values(paper, split)
        train, *test = (number_that_fit(values, m) for m in (split.train, *split.test))
        by_data[split.data] = {"values": len(values), "train": train, "test": max(test)}
    n, on_train, on_test = (
        sum(row[key] for row in by_data.values()) for key in ("values", "train", "test")
    )
    verdict = _of_size(n, on_train, on_test)
    return Outcome(verdict, by_data, n=n, train=on_train, test=on_test)


@check(labels("bn-embed", "baselines"))
def granularity_others(paper: Paper) -> Outcome:
    """Accuracies of BN-Embed and of other methods are possible with the number of test trials.

    Printed: {values} means of BN-Embed, SPDNet, ATCNet and EEGNet on one subject of each data set

    Arithmetic: {rounded} of {values} fit the number of training trials if rounded,
    {rounded_or_cut} if rounded or truncated ({misfits}); {test} fit that of test trials, rounded or
    truncated
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
    """Accuracies of the confusion matrices are possible with the 288 test trials.

    Printed: {values} accuracies of the confusion matrices (seed 42)

    Arithmetic: {shown}
    """
    values = [Reported(paper.text(f"seed-42-s{s}").number, label=f"S{s}") for s in (2, 4)]
    return _fitting(values, SPLITS[0])


@check("tab:all_subjects_comparison")
def granularity_classical(paper: Paper) -> Outcome:
    """Means over s subjects of deterministic methods are possible with n test trials: k / (s n).

    Printed: {n} means over subjects of TS+LR, FgMDM and MDM

    Arithmetic: {test} of {n} fit the number of test trials, {train} that of training trials;
    smallest n that fits the three values of a data set: BCI2a {BCI2a[smallest]}, BCIcha
    {BCIcha[smallest]}, MAMEM {MAMEM[smallest]}{beside}
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
    beside = "; other values in the same table fit the number of training trials" * (on_test == n)
    return Outcome(judge(on_test == n), found, n=n, test=on_test, train=on_train, beside=beside)


# Anyone's accuracies


class Row(NamedTuple):
    """A row of a file of reported accuracies."""

    line: int
    group: str
    n: int | None
    reported: Reported


def read_report(path: Path) -> list[Row]:
    """Read a CSV file of reported accuracies, with a header and one row per value.

    ``value``
        The accuracy as printed, with its decimals: 98.81, 98.81 %, or 0.9881. The values are
        proportions if none in the file exceeds 1.
    ``n``
        Reported number of test trials per run. May be empty.
    ``seeds``
        Number of runs that the value is the mean of, by default 1.
    ``group``
        Name of the values that share their test trials, such as a data set. By default, values with
        the same ``n`` form a group.
    ``label``
        Name of the value.

    Raises
    ------
    PaperError
        If the file or a row cannot be read.
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
        raise PaperError(f"{path} must have a header, such as value,n,seeds,label, and a row.")
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
            f"{where}: value must be an accuracy from 0 to {whole} without standard deviation, "
            f"such as 98.81 or 0.9881, got {entry['value'][:30]!r}."
        )
    if whole == 100 and 0 < value <= 1 and not found[2]:
        raise PaperError(
            f"{where}: value must be in percent like others in the file, got {value}. Write "
            f"{100 * value} if it is a proportion, or {value} % if it is in percent."
        )
    for name in ("n", "seeds"):
        if entry.get(name) and not _WHOLE.fullmatch(entry[name]):
            raise PaperError(f"{where}: {name} must be an integer >= 1, got {entry[name][:30]!r}.")
    n = int(entry["n"]) if entry.get("n") else None
    group = entry.get("group") or (f"n = {n}" if n else "no n claimed")
    label = entry.get("label") or f"line {number}"
    return Row(number, group, n, Reported(value, int(entry.get("seeds") or 1), whole, label))


def audit_report(rows: list[Row], max_n: int = MAX_N) -> dict[str, Any]:
    """Find values that are impossible for their n, and all n that are possible for a group.

    Parameters
    ----------
    rows : list of Row
    max_n : int
        Largest number of trials that is tried.

    Returns
    -------
    dict
        ``values``: one entry per row; ``possible`` is None without a reported n, ``informative`` is
        False if every value is possible with that many trials. ``groups``: the sizes that fit all
        values of a group.
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
                # All printable values are possible with at least this many trials.
                "all_fit_from": max(-(-r.steps // r.seeds) for r in reported),
            }
        )
    return {"values": values, "groups": groups, "max_n": max_n, "rounding": "any"}


def report_tables(result: dict[str, Any]) -> list[Table]:
    """Make terminal tables of the values, and of the sizes that fit each group of values."""
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
            f"Numbers of test trials up to {result['max_n']} that fit all values",
            "Multiples of a number that fits also fit and are not listed.",
            pad_edge=True,
        ),
    ]
