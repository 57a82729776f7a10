"""The other columns of the paper's tables, and numbers of its text, from the runs of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

from spdtokens._tables import p_value
from spdtokens.classifiers.methods import METHODS
from spdtokens.errors import PaperError
from spdtokens.paper.tables import paper_table
from spdtokens.reporting.tables import MINUS, NAN, number_text, score_text

#: Accuracies, which are rounded to six decimals, are equal if they differ by less.
EQUAL = 1e-5
T = TypeVar("T")
#: Row and column of a cell.
Place = tuple[str, str]
percent = partial(score_text, metric="accuracy")
#: Text of a number, by kind.
FORMATS: dict[str, Callable[[float], str]] = {
    "accuracy": percent,
    "points": partial(score_text, metric="accuracy", sign="+"),
    "percent": lambda value: number_text(100 * value, ".0f"),
    "p": p_value,
    "count": partial(number_text, form=",.0f"),
    "seconds": lambda value: number_text(value, ".3g") + " s" * bool(np.isfinite(value)),
    "factor": lambda value: number_text(value, ".1f") + "x" * bool(np.isfinite(value)),
}


@dataclass(frozen=True)
class Derived:
    """A value of a further column of a table of the paper.

    Attributes
    ----------
    row, column : str
        Names of row and column.
    kind : str
        One of :data:`FORMATS`; ``'text'`` for a text.
    train, test : float, str or None
        Ours on training and test trials: NaN if there are no runs, and None for ``test`` if the
        value does not depend on the trials, such as a time.
    printed : str
        The paper's text; empty if there is none.
    """

    row: str
    column: str
    kind: str
    train: Any
    test: Any = None
    printed: str = ""

    def text(self, part: str) -> str:
        """Return the text of ``train`` or ``test``."""
        value = getattr(self, part)
        if value is None or isinstance(value, str):
            return value or ""
        return FORMATS[self.kind](value) if self.kind in FORMATS else "-"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; missing ones are None."""
        found = asdict(self)
        for key, value in found.items():
            if isinstance(value, float):
                found[key] = round(float(value), 6) if np.isfinite(value) else None
        return found | {"printed": self.printed or None}


def both(function: Callable[[str], T]) -> tuple[T, T]:
    """Return the results for training and test trials."""
    return function("train"), function("test")


class Scores:
    """Cells and runs of a table.

    Parameters
    ----------
    name : str
        Name of the table.
    cells, runs : DataFrame
        As in :class:`~spdtokens.paper.reproduce.scores.ScoreTable`.
    """

    def __init__(self, name: str, cells: pd.DataFrame, runs: pd.DataFrame) -> None:
        self.name = name
        self.rows, self.columns = (list(cells[key].unique()) for key in ("row", "column"))
        self._cells = cells.set_index(["row", "column"])
        self._runs = dict(list(runs.groupby(["row", "column"])))
        self._none = runs.iloc[:0]

    @cached_property
    def places(self) -> list[Place]:
        """Row and column of each cell."""
        return list(self._cells.index)

    def runs(self, row: str, column: str) -> pd.DataFrame:
        """Return the runs of a cell; none if there is no such cell."""
        return self._runs.get((row, column), self._none)

    def method(self, row: str, column: str) -> str:
        """Return the name of the method of a cell."""
        return str(self._cells.loc[(row, column), "method"])

    def mean(self, row: str, column: str, part: str) -> float:
        """Return the score of a cell, as the table of scores shows it."""
        known = (row, column) in self._cells.index
        return float(self._cells.loc[(row, column), part]) if known else NAN

    def by(self, keys: Sequence[str], row: str, column: str, part: str) -> pd.Series[float]:
        """Return means over all runs of a cell with the same values of some columns."""
        return self.runs(row, column).groupby(list(keys), sort=False)[part].mean()

    def pairs(self, one: Place, other: Place, part: str, keys: Sequence[str]) -> pd.DataFrame:
        """Return the scores of two cells, paired by the values of some columns."""
        both = [self.by(keys, *place, part) for place in (one, other)]
        return pd.concat(both, axis=1, join="inner", keys=("one", "other")).dropna()

    def gain(self, one: Place, other: Place) -> tuple[float, float]:
        """Return by how much the first cell is better, on training and test trials."""
        return both(lambda part: self.mean(*one, part) - self.mean(*other, part))

    def p(
        self,
        one: Place,
        other: Place,
        keys: Sequence[str] = ("subject", "fold", "seed"),
    ) -> tuple[float, float]:
        """Return p-values of paired t-tests; NaN for constant differences."""

        def test(part: str) -> float:
            pairs = self.pairs(one, other, part, keys)
            if len(pairs) < 2 or np.ptp(pairs["one"] - pairs["other"]) < EQUAL:
                return NAN
            return float(ttest_rel(pairs["one"], pairs["other"]).pvalue)

        return both(test)

    def number_of(self, key: str, row: str) -> float:
        """Count the subjects or folds of the cells of a row; NaN without runs."""
        pooled = [self.runs(row, column) for column in self.columns]
        found = pd.concat(pooled)[["subject", key]].drop_duplicates()
        return len(found) or NAN

    def seconds(self, row: str, column: str, *, per_epoch: bool = False) -> float:
        """Return the mean time of the runs of a cell."""
        runs = self.runs(row, column)
        return float((runs["seconds"] / (runs["epochs"] if per_epoch else 1)).mean())

    def printed(self, row: str, column: str) -> str:
        """Return the text of a cell of the paper; empty if there is none."""
        table = paper_table(self.name)
        try:
            return table.cell(table.overall if row == "Overall" else row, column).text
        except PaperError:
            return ""


Derive = Callable[[Scores], Iterator[Derived]]
#: Functions that derive the further columns, by name of the table; see :func:`derives`.
DERIVED: dict[str, Derive] = {}


def derives(*names: str) -> Callable[[Derive], Derive]:
    """Register a function for tables."""

    def register(function: Derive) -> Derive:
        DERIVED.update(dict.fromkeys(names, function))
        return function

    return register


def derive(name: str, cells: pd.DataFrame, runs: pd.DataFrame) -> list[Derived]:
    """Derive the further columns of a table; none for a table that has none.

    Parameters
    ----------
    name : str
        Name of the table.
    cells, runs : DataFrame
        As in :class:`~spdtokens.paper.reproduce.scores.ScoreTable`.

    Returns
    -------
    list of Derived
        The values, row by row.
    """
    return list(DERIVED[name](Scores(name, cells, runs))) if name in DERIVED else []


def _text(prefix: str) -> list[str]:
    """Return the distinct values of the paper's text whose names begin with a prefix."""
    rows = paper_table("text").rows
    return list(dict.fromkeys(row[2].text for row in rows if row[0].text.startswith(prefix)))


def _dataset(name: str) -> str:
    """Return the data set that a row or column is of."""
    return re.split(r" \(|,", name)[0]


@derives("all-subjects")
def _all_subjects(found: Scores) -> Iterator[Derived]:
    gains = dict(zip(("BCI2a", "BCIcha", "MAMEM"), _text("tslr-gain")[0].split(), strict=True))
    for row in found.rows:
        yield _count(found, row, "Subjects")
        gain = found.gain((row, "Log-Euc"), (row, "TS+LR"))
        yield Derived(row, f"Log-Euc {MINUS} TS+LR", "points", *gain, gains[row])


def _count(found: Scores, row: str, column: str) -> Derived:
    """Return the number of subjects or folds of a row."""
    n = found.number_of(column.lower().removesuffix("s"), row)
    return Derived(row, column, "count", n, printed=found.printed(row, column))


@derives("geometry")
def _geometry(found: Scores) -> Iterator[Derived]:
    reference, where = found.rows[0], found.columns[0]
    times = pd.Series({row: found.seconds(row, where, per_epoch=True) for row in found.rows})
    for row in found.rows:
        printed = partial(found.printed, row)
        relative = times[row] / times.min()
        yield Derived(row, "Time/Epoch", "seconds", times[row], printed=printed("Time/Epoch"))
        yield Derived(row, "Rel. Cost", "factor", relative, printed=printed("Rel. Cost"))
        for column in found.columns if row != reference else ():
            said = re.search(rf"(\S+) \({_dataset(column)}\)", printed("p"))
            p = found.p((reference, column), (row, column))
            yield Derived(row, f"p, {column}", "p", *p, said[1] if said else "")


@derives("multiband")
def _multiband(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        key, three, one = row.lower(), (row, "Multi-Band"), (row, "Single-Token")
        yield _count(found, row, "Subjects")
        gains = dict.fromkeys([found.printed(row, "Improvement"), *_text(f"gain-{key}")])
        yield Derived(row, "Improvement", "points", *found.gain(three, one), ", ".join(gains))
        for over, keys, printed in (
            ("runs", ("subject", "fold", "seed"), ", ".join(_text(f"spread-{key}"))),
            ("subjects", ("subject",), ""),
        ):
            less = both(partial(_reduction, found, three, one, keys))
            yield Derived(row, f"Std over {over} reduced by (%)", "percent", *less, printed)
        printed = _text("multiband-p")[0] if row == "BCI2a" else ""
        yield Derived(row, "p over subjects", "p", *found.p(three, one, ("subject",)), printed)
        better = both(partial(_improved, found, three, one))
        printed = ", ".join(_text(f"improved-{key}")).replace(" ", "/")
        yield Derived(row, "Subjects that improve", "text", *better, printed)


def _reduction(found: Scores, new: Place, old: Place, keys: Sequence[str], part: str) -> float:
    """Return the share by which the standard deviation is smaller."""
    after, before = (found.by(keys, *place, part).std() for place in (new, old))
    return 1 - after / before if before > EQUAL else NAN


def _improved(found: Scores, new: Place, old: Place, part: str) -> str:
    """Count the subjects that improve, of all."""
    pairs = found.pairs(new, old, part, ("subject",))
    n = (pairs["one"] > pairs["other"] + EQUAL).sum()
    return f"{n}/{len(pairs)}" if len(pairs) else "-"


def _difference(
    found: Scores, row: str, column: str, one: str, other: str, *, p: bool
) -> Iterator[Derived]:
    """Yield the difference of two columns, and its p-value over runs."""
    pair = ((row, one), (row, other))
    yield Derived(row, column, "points", *found.gain(*pair), found.printed(row, column))
    if p:
        yield Derived(row, "p", "p", *found.p(*pair), found.printed(row, "p"))


@derives(*(f"multiband-{name}" for name in ("bci2a", "bcicha", "mamem")))
def _multiband_subjects(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        yield from _difference(found, row, "Improvement", "Multi-Band", "Single-Token", p=False)


@derives("bn-embed")
def _bn_embed(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        yield from _difference(found, row, "Delta", "With BN", "Without BN", p=True)


@derives("geometric-attention")
def _geometric_attention(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        yield from _difference(found, row, "Delta", "Geometric", "Standard", p=True)
        for column, of in (("Time (Std)", "Standard"), ("Time (Geo)", "Geometric")):
            seconds = found.seconds(row, of)
            yield Derived(row, column, "seconds", seconds, printed=found.printed(row, column))


@derives(*(f"subjects-{name}" for name in ("bci2a", "bcicha", "mamem")))
def _subjects(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        for column in ("Min", "Max"):
            values = both(partial(_extreme, found, row, column.lower()))
            yield Derived(row, column, "accuracy", *values, found.printed(row, column))


def _extreme(found: Scores, row: str, which: str, part: str) -> float:
    """Return the minimum or maximum over subjects and seeds."""
    return float(found.by(("subject", "seed"), row, "Accuracy", part).agg(which))


@derives("depth", "heads")
def _best(found: Scores) -> Iterator[Derived]:
    for row, place in found.places:
        column, texts = f"{_dataset(place)} Best", both(partial(_best_seed, found, row, place))
        yield Derived(row, column, "text", *texts, found.printed(row, column))


def _best_seed(found: Scores, row: str, column: str, part: str) -> str:
    """Return the best score of a seed, and how many seeds reach it."""
    seeds = found.by(("seed",), row, column, part)
    n = (seeds > seeds.max() - EQUAL).sum()
    return f"{percent(seeds.max())} ({n}/{len(seeds)})" if len(seeds) else "-"


@derives("baselines")
def _baselines(found: Scores) -> Iterator[Derived]:
    place = found.columns[0]  # the printed time and size are those on BCI2a
    for row in found.rows:
        method = METHODS[found.method(row, place)]
        printed = partial(found.printed, row)
        yield Derived(row, "Input", "text", method.input, printed=printed("Input"))
        size = float(method.counts[0]) if method.counts else NAN
        yield Derived(row, "Params", "count", size, printed=printed("Params"))
        seconds = found.seconds(row, place, per_epoch=True)
        yield Derived(row, "Time/Epoch", "seconds", seconds, printed=printed("Time/Epoch"))


def _range(found: Scores, keys: Sequence[str], row: str, column: str, part: str) -> str:
    """Return the lowest and highest score, each with its subject."""
    scores = found.by(keys, row, column, part).sort_values()
    subjects = scores.index.get_level_values("subject")
    ends = [f"{percent(scores.iloc[i])} ({subjects[i]})" for i in ((0, -1) if len(scores) else ())]
    return " - ".join(ends) or "-"


@derives("cross-subject")
def _cross_subject(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        base = _dataset(row)
        if row == base:
            yield _count(found, row, "Folds")
        for column in found.columns:
            texts = both(partial(_range, found, ("subject", "fold"), row, column))
            said = re.search(r"\[.*\]", found.printed(row, column))
            yield Derived(row, f"{column} [min-max]", "text", *texts, said[0] if said else "")
            if row != base:
                *_, printed = (_text(f"ea-{column.lower()}") or [""])[0].split(" ")
                printed = printed if row == "BCI2a, Euclidean alignment" else ""
                gain = found.gain((row, column), (base, column))
                yield Derived(row, f"{column}, gain by alignment", "points", *gain, printed)


@derives("input")
def _input(found: Scores) -> Iterator[Derived]:
    for row in found.rows:
        raw, tokens = (row, "Raw time series"), (row, "SPD tokens")
        said = _text if row == "BCI2a" else lambda _prefix: []
        column = f"SPD tokens {MINUS} raw"
        gains = ", ".join(said("raw-gain"))
        yield Derived(row, column, "points", *found.gain(tokens, raw), gains)
        p = found.p(tokens, raw, ("subject",))
        yield Derived(row, "p over subjects", "p", *p, ", ".join(said("raw-p")))
        ranges = both(partial(_range, found, ("subject",), *raw))
        printed = ", ".join(said("raw-range"))
        yield Derived(row, "Raw, range over subjects", "text", *ranges, printed)
