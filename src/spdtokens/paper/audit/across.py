"""Checks of the comparison across subjects."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from spdtokens.paper.audit.check import Check, Outcome, Paper, judge, rounds_to
from spdtokens.paper.audit.columns import DATA

TABLE = "cross-subject"


@dataclass(frozen=True)
class Folds:
    """A cell of the table: mean, standard deviation, worst and best fold."""

    method: str
    data: str
    n: int
    mean: Decimal
    std: Decimal
    low: Decimal
    high: Decimal
    bold: bool

    @property
    def ends_are_mean_and_std(self) -> bool:
        """Whether the range is mean - std to mean + std to the last digit."""
        return self.low == self.mean - self.std and self.high == self.mean + self.std


def folds(paper: Paper) -> list[Folds]:
    """All cells of the table."""
    table = paper.table(TABLE)
    found = []
    for data in table.names:
        n = int(table.cell(data, "Folds").number)
        for method in table.columns[2:]:
            cell = table.cell(data, method)
            mean, std, low, high = cell.numbers
            found.append(Folds(method, data, n, mean, std, low, high, cell.bold))
    return found


def _ranges(paper: Paper) -> Outcome:
    cells = folds(paper)
    same = [cell for cell in cells if cell.ends_are_mean_and_std]
    named = "; ".join(f"{c.method} {c.data} [{c.low}-{c.high}]" for c in same)
    return Outcome(
        judge(not same, "is something else"),
        f"{len(cells)} ranges from the worst to the best fold",
        f"{len(same)} are mean - std to mean + std to the last digit"
        + (f": {named}. Folds do that only if nearly all of them lie at the two ends" * bool(same)),
        {"ranges": len(cells), "mean_and_std": len(same)},
    )


def _best_fold(paper: Paper) -> Outcome:
    cell = next(c for c in folds(paper) if (c.method, c.data) == ("Log-Euc", "BCIcha"))
    quoted = paper.text("loso-best-bcicha").number
    as_range = cell.mean + cell.std
    return Outcome(
        judge(quoted != as_range, "is something else"),
        f"best fold of Log-Euclidean on BCIcha: {quoted} %",
        f"mean + std = {cell.mean} + {cell.std} = {as_range}",
        {"mean_plus_std": float(as_range)},
    )


def _bold(paper: Paper) -> Outcome:
    shown, right = [], True
    for data in DATA:
        row = sorted((c for c in folds(paper) if c.data == data), key=lambda c: -c.mean)
        places = [i + 1 for i, c in enumerate(row) if c.bold]
        right &= places == [1]
        bold = ", ".join(f"{c.method} {c.mean}" for c in row if c.bold)
        shown.append(f"{data}: bold is {bold} (place {places}), best {row[0].method} {row[0].mean}")
    return Outcome(
        judge(right),
        "the best method of each data set in bold",
        "; ".join(shown).replace("[", "").replace("]", ""),
        {},
    )


def _degradation(paper: Paper) -> Outcome:
    said = [int(n) for n in paper.text("degradation").numbers]
    lost = {
        (c.method, c.data): paper.cell("all-subjects", c.data, c.method).number - c.mean
        for c in folds(paper)
    }
    least, most = min(lost, key=lambda k: lost[k]), max(lost, key=lambda k: lost[k])
    holds = all(rounds_to(lost[k], Decimal(n)) for k, n in zip((least, most), said, strict=True))
    outside = sum(not said[0] <= round(x) <= said[1] for x in lost.values())
    return Outcome(
        judge(holds),
        f"{said[0]} to {said[1]} points lost across subjects, over all methods",
        f"from {lost[least]} ({least[0]}, {least[1]}) to {lost[most]} ({most[0]}, {most[1]}); "
        f"{outside} of {len(lost)} lie outside",
        {"least": float(lost[least]), "most": float(lost[most]), "outside": outside},
    )


def _alignment(paper: Paper) -> Outcome:
    shown, gains, same, sums = [], [], True, True
    for method, key in (("Log-Euc", "ea-log-euc"), ("BWSPD", "ea-bwspd")):
        before, after, gain = paper.text(key).numbers
        table = next(c.mean for c in folds(paper) if (c.method, c.data) == (method, "BCI2a"))
        same &= before == table
        sums &= after - before == gain
        gains.append(f"{gain:+}")
        shown.append(
            f"{method}: {before} before alignment, {table} in the table; gain {after - before:+} "
            f"from the one, {after - table:+} from the other"
        )
    return Outcome(
        judge(same and sums, "cannot be both"),
        f"Euclidean alignment gains {' and '.join(gains)} points on BCI2a",
        "; ".join(shown),
        {"gains_add_up": sums},
    )


def _quoted_ranges(paper: Paper) -> Outcome:
    keys = {"BCI2a": "loso-range-bci2a-appendix", "BCIcha": "loso-range-bcicha"}
    keys["MAMEM"] = "loso-range-mamem"
    wrong, shown = [], []
    for data, key in keys.items():
        low, high = paper.text(key).numbers
        means = [c.mean for c in folds(paper) if c.data == data]
        if not (rounds_to(min(means), low) and rounds_to(max(means), high)):
            wrong.append(data)
        shown.append(f"{data} {min(means)} to {max(means)}")
    return Outcome(
        judge(not wrong),
        ", ".join(f"{data} {paper.text(key).text} %" for data, key in keys.items()),
        ", ".join(shown),
        {"wrong": wrong},
    )


CHECKS = [
    Check("fold-ranges", "tab:cross_subject", "Ranges are of folds, not of spreads.", _ranges),
    Check("best-fold", "app:cross_subject", "The best fold is a fold.", _best_fold),
    Check("bold-cross-subject", "tab:cross_subject", "Bold is the largest mean.", _bold),
    Check(
        "lost-across-subjects",
        "app:practical_recommendations; tab:cross_subject",
        "These are means within subjects less means across.",
        _degradation,
    ),
    Check(
        "alignment-baseline",
        "app:cross_subject; tab:cross_subject",
        "Before alignment the model scores as in the table.",
        _alignment,
    ),
    Check(
        "across-ranges",
        "app:cross_subject",
        "They are those of the means in the table.",
        _quoted_ranges,
    ),
]
