"""Checks of standard deviations: of what they are, and whether they can be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from spdtokens.paper.audit.check import Check, Outcome, Paper, judge, labels, rounds_to
from spdtokens.paper.audit.granularity import Reported
from spdtokens.paper.audit.sizes import SEEDS, SPLITS, Split

#: What the sum of squares of five seeds is divided by. Twice: ten numbers, each of which stands
#: twice, have twice the sum, divided by 10 - 1.
CONVENTIONS = {"n - 1": 4.0, "n": 5.0, "seeds counted twice": 4.5}
#: Of what an overall standard deviation can be.
RUNS, SUBJECTS = "all runs", "means of subjects"
#: Wrong answers of five seeds beyond which all conventions find a fit, so none is told apart.
MOST_WRONG = 40


def wrong_answers(
    total: int, n: int, low: int | None = None, high: int | None = None
) -> Iterator[tuple[int, ...]]:
    """Wrong answers of five seeds that sum to ``total``, largest first.

    Parameters
    ----------
    total, n : int
        The sum, and the most that a seed can have.
    low, high : int, optional
        The least and the most of a seed, where printed.
    """

    def parts(left: int, seeds: int, most: int) -> Iterator[tuple[int, ...]]:
        if seeds == 0:
            if left == 0:
                yield ()
            return
        for first in range(min(most, left), -1, -1):
            if first * seeds < left:
                break
            for rest in parts(left - first, seeds - 1, first):
                yield (first, *rest)

    for found in parts(total, SEEDS, n if high is None else high):
        if (low is None or found[-1] == low) and (high is None or found[0] == high):
            yield found


def possible_spreads(
    mean: Reported, n: int, worst: Reported | None = None, best: Reported | None = None
) -> dict[str, set[float]] | None:
    """Standard deviations, in percent, that five seeds with these printed values can have.

    None if there are too many of them to tell anything.
    """
    out: dict[str, set[float]] = {name: set() for name in CONVENTIONS}
    lows = [None] if best is None else [n - k for k in best.counts(n)]
    highs = [None] if worst is None else [n - k for k in worst.counts(n)]
    for right in mean.counts(n):
        total = SEEDS * n - right
        if total > MOST_WRONG:
            return None
        for low in lows:
            for high in highs:
                for wrong in wrong_answers(total, n, low, high):
                    squares = sum(w * w for w in wrong) - total**2 / SEEDS
                    for name, divisor in CONVENTIONS.items():
                        out[name].add(100 * math.sqrt(squares / divisor) / n)
    return out


def _convention(paper: Paper, split: Split) -> Outcome:
    counts: dict[str, dict[str, int]] = {}
    for where, table, column in (
        ("by subject", "subjects", "Accuracy"),
        ("three bands", "multiband", "Multi-Band"),
    ):
        found = paper.table(f"{table}-{split.key}")
        counts[where] = dict.fromkeys(("rows", *CONVENTIONS), 0)
        for row in found.subjects:
            cell = found.cell(row, column)
            if not cell.spread:
                continue
            ends = [
                Reported(found.cell(row, c).number) if c in found.columns else None
                for c in ("Min", "Max")
            ]
            spreads = possible_spreads(Reported(cell.number, SEEDS), split.train, *ends)
            if spreads is None:
                continue
            counts[where]["rows"] += 1
            for name, values in spreads.items():
                counts[where][name] += any(rounds_to(v, cell.spread) for v in values)
    fitting = {
        where: [name for name in CONVENTIONS if row[name] == row["rows"]]
        for where, row in counts.items()
    }
    shown = "; ".join(
        f"{where}, {row['rows']} rows: "
        + ", ".join(f"{row[name]} fit {name}" for name in CONVENTIONS)
        for where, row in counts.items()
    )
    usual = [{"n - 1", "n"} & set(names) for names in fitting.values()]
    one_rule = bool(set.intersection(*usual))
    return Outcome(
        judge(one_rule, "cannot be both" if all(usual) else "does not hold"),
        "standard deviations of five seeds",
        f"of the right answers out of {split.train} that give mean, worst and best seed, divided "
        f"by what: {shown}",
        counts,
    )


def overall_spreads(means: Sequence[float], spreads: Sequence[float]) -> dict[str, set[float]]:
    """What the overall standard deviation is, of runs or of subjects, in every convention."""
    m, s = np.asarray(means), np.asarray(spreads)
    between = float(((m - m.mean()) ** 2).sum())
    runs = set()
    for within in CONVENTIONS.values():
        squares = within * float((s**2).sum()) + SEEDS * between
        n = SEEDS * len(m)
        runs |= {math.sqrt(squares / d) for d in (n - 1, n, n - 0.5)}
    return {RUNS: runs, SUBJECTS: {math.sqrt(between / d) for d in (len(m) - 1, len(m))}}


def kinds(paper: Paper, table: str, column: str) -> tuple[str, list[str], dict[str, float]]:
    """An overall standard deviation as printed, what it can be, and the two as recomputed."""
    found = paper.table(table)
    cells = found.column(column)
    printed = found.cell(found.overall, column).spread
    every = overall_spreads([float(c.number) for c in cells], [float(c.spread) for c in cells])
    can_be = [kind for kind, values in every.items() if any(rounds_to(v, printed) for v in values)]
    return str(printed), can_be, {kind: min(values) for kind, values in every.items()}


def _kinds(paper: Paper) -> Outcome:
    shown, numbers, mixed = [], {}, []
    for split in SPLITS:
        # The multi-band table of BCIcha prints the other table's overall row over its own column.
        same = split.data != "BCIcha"
        first = (
            (f"multiband-{split.key}", "Single-Token") if same else ("subjects-bcicha", "Accuracy")
        )
        one, one_kind, one_all = kinds(paper, *first)
        three, three_kind, three_all = kinds(paper, f"multiband-{split.key}", "Multi-Band")
        if not set(one_kind) & set(three_kind):
            mixed.append(split.data)
        fair = 1 - three_all[SUBJECTS] / one_all[SUBJECTS]
        shown.append(
            f"{split.data}: {one} is of {' or '.join(one_kind) or 'neither'}, {three} of "
            f"{' or '.join(three_kind) or 'neither'}; means of subjects {one_all[SUBJECTS]:.2f} "
            f"and {three_all[SUBJECTS]:.2f} (-{fair:.0%})"
        )
        numbers[split.data] = {"one": one_kind, "three": three_kind, "of_subjects": fair}
    return Outcome(
        judge(not mixed, "is something else"),
        "spread with one token and with three, over subjects and seeds",
        "; ".join(shown),
        numbers,
    )


def _reductions(paper: Paper) -> Outcome:
    rows = {}
    for split in SPLITS:
        one, three = (
            float(paper.cell("multiband", split.data, c).spread)
            for c in ("Single-Token", "Multi-Band")
        )
        printed = paper.text(f"spread-{split.key}").number
        rows[split.data] = (printed, 100 * (1 - three / one), 100 * (1 - (three / one) ** 2))
    as_std = all(rounds_to(std, printed) for printed, std, _ in rows.values())
    as_variance = all(rounds_to(variance, printed) for printed, _, variance in rows.values())
    return Outcome(
        judge(as_variance, "is something else" if as_std else "does not hold"),
        "variance reduced by " + ", ".join(f"{p} % ({d})" for d, (p, _, _) in rows.items()),
        "standard deviations: "
        + ", ".join(f"{std:.1f} %" for _, std, _ in rows.values())
        + "; variances, their squares: "
        + ", ".join(f"{v:.1f} %" for _, _, v in rows.values()),
        {d: {"std": std, "variance": variance} for d, (_, std, variance) in rows.items()},
    )


def _reduction_twice(paper: Paper, key: str, first: str, second: str) -> Outcome:
    a, b = paper.text(first).number, paper.text(second).number
    one, three = (paper.cell("multiband", key, c).spread for c in ("Single-Token", "Multi-Band"))
    return Outcome(
        judge(a == b, "cannot be both"),
        f"{key}: {a} % in one place, {b} % in another",
        f"1 - {three} / {one} = {1 - three / one:.1%}",
        {"reduction": float(1 - three / one)},
    )


def _between(paper: Paper) -> Outcome:
    table = paper.table("subjects-bci2a")
    cells = table.column("Accuracy")
    printed = paper.text("spread-means-bci2a").number
    between = float(np.std([float(c.number) for c in cells], ddof=1))
    within = math.sqrt(float(np.mean([float(c.spread) ** 2 for c in cells])))
    return Outcome(
        judge(rounds_to(between, printed) and within < between),
        f"{printed} is the spread between the subjects of BCI2a, not within",
        f"between their means {between:.2f}, between seeds of a subject {within:.2f} (root mean "
        "square)",
        {"between": between, "within": within},
    )


CHECKS = [
    *(
        Check(
            f"seed-spread-{split.key}",
            labels(f"subjects-{split.key}", f"multiband-{split.key}"),
            "Five whole numbers of right answers give mean, worst, best and standard deviation.",
            partial(_convention, split=split),
        )
        for split in SPLITS
    ),
    Check("spread-kinds", "tab:multiband_summary", "Spreads compared are of one kind.", _kinds),
    Check("spread-reduction", "abstract; sec:experiments", "Variances are compared.", _reductions),
    Check(
        "spread-reduction-bci2a",
        "sec:method; sec:experiments",
        "One comparison has one reduction.",
        partial(_reduction_twice, key="BCI2a", first="spread-bci2a-method", second="spread-bci2a"),
    ),
    Check(
        "spread-reduction-bcicha",
        "app:multi_band; sec:experiments",
        "One comparison has one reduction.",
        partial(
            _reduction_twice, key="BCIcha", first="spread-bcicha-caption", second="spread-bcicha"
        ),
    ),
    Check(
        "spread-between-subjects",
        "app:per_subject",
        "Subjects' means differ by more than a subject's seeds.",
        _between,
    ),
]
