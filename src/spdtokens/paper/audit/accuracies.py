"""Checks of means, differences, standard deviations, p-values and cross-subject accuracies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from spdtokens._tables import counted
from spdtokens.evaluation.statistics import paired_t
from spdtokens.paper.audit.check import (
    DATA,
    SEEDS,
    SPLITS,
    Paper,
    Split,
    Verdict,
    check,
    half_step,
    judge,
    labels,
    recomputed,
    rounds_to,
)
from spdtokens.paper.audit.granularity import Reported, tables_of
from spdtokens.paper.findings import Outcome, told
from spdtokens.paper.tables import Cell

#: Divisors of the sum of squares over five seeds. If every seed is counted twice, the sum doubles
#: and the divisor is 10 - 1, which equals 4.5.
CONVENTIONS = {"n - 1": 4.0, "n": 5.0, "seeds counted twice": 4.5}
#: What an overall standard deviation can be taken over.
RUNS, SUBJECTS = "all runs", "means of subjects"
#: With more errors over five seeds, all conventions fit and cannot be distinguished.
MOST_WRONG = 40
BANDS = ("Single-Token", "Multi-Band")


# Means, differences and counts


def _mean(cells: Sequence[Cell]) -> Decimal:
    return sum((cell.number for cell in cells), Decimal(0)) / len(cells)


def mean(paper: Paper, kind: str, column: str) -> Outcome:
    """The overall row is the mean of the column.

    Printed: {printed}

    Arithmetic: mean of the column: {found}
    """
    tables = {data: f"{kind}-{data.lower()}" for data in DATA}
    said = {data: paper.cell(name, "Overall", column).number for data, name in tables.items()}
    found = {data: _mean(paper.table(name).column(column)) for data, name in tables.items()}
    # Rounding of the subjects' values moves the mean by half a unit at most.
    agree = partial(rounds_to, slack=0.005)
    return recomputed(said, found, ("{} {}", "{} {:.2f}"), agree)


for table, name in (("subjects", "Accuracy"), *(("multiband", band) for band in BANDS)):
    where = labels(*(f"{table}-{data.lower()}" for data in DATA))
    check(where, f"mean-{table}-{name.lower()}", table, name)(mean)


@check(labels("subjects-bcicha", "multiband-bcicha", "subjects-mamem", "multiband-mamem"))
def single_token_twice(paper: Paper) -> Outcome:
    """The same configuration and seeds give the same values.

    Printed: two tables of the Log-Euclidean transformer with one token and the same five seeds

    Arithmetic: {shown}
    """
    rows, shown = {}, []
    for data in DATA:
        one, multi = (paper.table(f"{t}-{data.lower()}") for t in ("subjects", "multiband"))
        pairs = {
            s: (one.cell(s, "Accuracy").number, multi.cell(s, "Single-Token").number)
            for s in one.subjects
        }
        differ = {s: abs(a - b) for s, (a, b) in pairs.items() if a != b}
        rows[data] = {"differ": len(differ), "of": len(pairs)}
        text = f"{data}: {len(differ)} of {len(pairs)} subjects differ"
        if differ:
            s = max(differ, key=differ.__getitem__)
            text += f" (largest difference {s}: {pairs[s][0]} and {pairs[s][1]})"
        shown.append(text)
    same = not any(row["differ"] for row in rows.values())
    return Outcome(judge(same, "contradiction"), rows, shown="; ".join(shown))


def count_right(n: int, wrong: Sequence[str], key: str = "values") -> Outcome:
    """Return an outcome that holds if none of n is wrong; ``{wrong_ones}`` lists those."""
    words = {"right": f"{n - len(wrong)} of {n}", "wrong_ones": "".join(f"; {w}" for w in wrong)}
    return Outcome(judge(not wrong), {key: n, "wrong": len(wrong)}, **words)


@check(labels("multiband-bci2a", "multiband-bcicha", "multiband-mamem"))
def gains(paper: Paper) -> Outcome:
    """The gain is the difference of the two columns.

    Printed: {rows} differences between three bands and one band

    Arithmetic: {right} equal the difference of the columns{wrong_ones}
    """
    rows = [(d, row) for d in DATA for row in paper.table(f"multiband-{d.lower()}").names]
    wrong = []
    for data, row in rows:
        one, three, gain = paper.numbers(f"multiband-{data.lower()}", row, *BANDS, "Improvement")
        if not rounds_to(three - one, gain, 0.01):
            wrong.append(f"{data} {row}: {three - one}")
    return count_right(len(rows), wrong, "rows")


@check("sec:experiments; app:multi_band")
def gains_counted(paper: Paper) -> Outcome:
    """The stated numbers of subjects improve in the tables.

    Printed: subjects that improve: {printed}

    Arithmetic: counted: {found}, of {sizes} subjects; {zeros} of BCIcha with +0.00
    """
    said, found, columns = {}, {}, {}
    for data in DATA:
        column = paper.table(f"multiband-{data.lower()}").column("Improvement")
        columns[data] = gains = [cell.number for cell in column]
        said[data] = int(paper.text(f"improved-{data.lower()}").numbers[0])
        # For MAMEM the text says "or equal".
        found[data] = sum(gain >= 0 if data == "MAMEM" else gain > 0 for gain in gains)
    sizes = ", ".join(str(len(gains)) for gains in columns.values())
    zeros = counted(columns["BCIcha"].count(Decimal(0)), "subject")
    return recomputed(said, found, ("{} {}", "{} {}"), sizes=sizes, zeros=zeros)


@check("tab:multiband_bcicha")
def gain_caption(paper: Paper) -> Outcome:
    """The caption and the table state the same gain.

    Printed: gain on BCIcha {caption:+} in the caption of the table, {printed:+} in its last row and
    in the abstract

    Arithmetic: the means of the columns are {one:.2f} and {three:.2f}: {difference_of_means:+.2f}
    """
    caption = paper.text("gain-bcicha-caption").number
    printed = paper.cell("multiband-bcicha", "Overall", "Improvement").number
    one, three = (_mean(paper.table("multiband-bcicha").column(k)) for k in BANDS)
    verdict = judge(caption == printed, "contradiction")
    numbers = {"difference_of_means": float(three - one)}
    return Outcome(verdict, numbers, caption=caption, printed=printed, one=one, three=three)


@check("abstract")
def abstract_gain(paper: Paper) -> Outcome:
    """The gain is the accuracy with three bands minus the accuracy with one.

    Printed: {one} with one band, {three} with three; gains {printed}

    Arithmetic: {found}
    """
    one, three, said = (
        {data: paper.text(f"abstract-{kind}{data.lower()}").number for data in DATA}
        for kind in ("", "multiband-", "gain-")
    )
    found = {data: three[data] - one[data] for data in DATA}
    return recomputed(
        said,
        found,
        ("{} {:+}", "{} {:+}"),
        otherwise="contradiction",
        one=told("{} {}", one),
        three=told("{} {}", three),
    )


@check("abstract")
def abstract_quotes(paper: Paper) -> Outcome:
    """Accuracies and gains in the abstract equal those in the tables.

    Printed: accuracies and gains in the abstract

    Arithmetic: {right} equal the value in the table{wrong_ones}
    """
    # The value in the abstract, and a table that repeats it.
    places = [
        (f"abstract-{kind}{data.lower()}", data, where, place)
        for data in DATA
        for kind, where, place in (
            ("", "all-subjects", ("all-subjects", data, "Log-Euc")),
            ("", "subjects", (f"subjects-{data.lower()}", "Overall", "Accuracy")),
            ("multiband-", "multiband", ("multiband", data, "Multi-Band")),
            (
                "multiband-",
                f"multiband-{data.lower()}",
                (f"multiband-{data.lower()}", "Overall", "Multi-Band"),
            ),
            ("gain-", "gain", ("multiband", data, "Improvement")),
        )
    ]
    wrong = [
        f"{data}, {where}: {said} and {found}"
        for quoted, data, where, place in places
        if (said := paper.text(quoted).number) != (found := paper.cell(*place).number)
    ]
    said, bn = paper.text("abstract-bn").number, paper.cell("bn-embed", "BCIcha (1596)", "Delta")
    wrong += [] if rounds_to(bn.number, said) else [f"BN-Embed: {said} and {bn.number}"]
    return count_right(len(places) + 1, wrong)


@check("app:per_subject")
def subjects_above(paper: Paper) -> Outcome:
    """The stated numbers of subjects exceed the stated accuracy.

    Printed: subjects above {limits}: {printed}

    Arithmetic: {found}; all but {below}
    """
    limits = {"BCIcha": 90, "MAMEM": 98}
    said, found, below = {}, {}, {}
    for data, limit in limits.items():
        table = paper.table(f"subjects-{data.lower()}")
        less = [s for s in table.subjects if table.cell(s, "Accuracy").number <= limit]
        said[data] = int(paper.text(f"above-{limit}-{data.lower()}").numbers[0])
        found[data], below[data] = len(table.subjects) - len(less), ", ".join(less) or "none"
    above, others = told("{1} % ({0})", limits, " and "), told("{} {}", below, "; ")
    return recomputed(said, found, ("{} {}", "{} {}"), limits=above, below=others)


def seed_42(paper: Paper, subject: str) -> Outcome:
    """The accuracy of a seed is between the worst and the best seed.

    Printed: BCI2a {subject}: seed 42 has {value:.2f} in a figure; the five seeds range from
    {min:.2f} to {max:.2f}

    Arithmetic: {min:.2f} <= {value:.2f} <= {max:.2f}: {answer}
    """
    low, high = paper.numbers("subjects-bci2a", subject, "Min", "Max")
    value = paper.text(f"seed-42-{subject.lower()}").number
    within = low <= value <= high
    numbers = {"min": float(low), "value": float(value), "max": float(high)}
    answer = "yes" if within else "no"
    return Outcome(judge(within, "contradiction"), numbers, subject=subject, answer=answer)


for name in ("S2", "S4"):
    where = "fig:confusion_matrices_key; tab:per_subject_log_euclidean"
    check(where, f"seed-42-{name.lower()}", name)(seed_42)


@check("sec:experiments")
def over_tslr(paper: Paper) -> Outcome:
    """Stated gains over TS+LR are differences in the main table.

    Printed: gain over TS+LR in points: {printed}

    Arithmetic: {found}
    """
    said = dict(zip(DATA, paper.text("tslr-gain").numbers, strict=True))
    pairs = {data: paper.numbers("all-subjects", data, "Log-Euc", "TS+LR") for data in DATA}
    found = {data: ours - theirs for data, (ours, theirs) in pairs.items()}
    return recomputed(said, found, ("{1:+}", "{} {:+}"), rounds_to)


@check("tab:structure_ablation_depth")
def depth_2_seeds(paper: Paper) -> Outcome:
    """Mean, standard deviation and number of perfect seeds agree.

    Printed: depth 2 on BCIcha: {cell}, {perfect} of {seeds} seeds at 100 %

    Arithmetic: the other seed has {other_seed:.2f}; standard deviation of the five: {spread:.2f}
    """
    cell = paper.cell("depth", "Depth 2", "BCIcha (S2)")
    perfect, seeds = (int(n) for n in paper.text("depth-2-perfect").numbers)
    other = 100 - seeds * (100 - float(cell.number)) / (seeds - perfect)
    spread = (100 - other) / seeds**0.5 if seeds - perfect == 1 else float("nan")
    verdict, numbers = (
        judge(rounds_to(spread, cell.spread, 0.025)),
        {"other_seed": other, "spread": spread},
    )
    return Outcome(verdict, numbers, cell=cell.text, perfect=perfect, seeds=seeds)


# Standard deviations


def wrong_answers(total: int, most: int, seeds: int = SEEDS) -> Iterator[tuple[int, ...]]:
    """Yield numbers of errors per seed, descending, up to ``most``, that sum to ``total``."""
    if seeds == 0:
        yield from [()] * (total == 0)
        return
    for first in range(min(most, total), -(-total // seeds) - 1, -1):
        for rest in wrong_answers(total - first, first, seeds - 1):
            yield (first, *rest)


def possible_spreads(
    mean: Reported, n: int, worst: Reported | None = None, best: Reported | None = None
) -> dict[str, set[float]] | None:
    """Return the standard deviations in percent that are possible for five seeds.

    None if there are too many errors to distinguish the conventions.
    """
    out: dict[str, set[float]] = {name: set() for name in CONVENTIONS}
    fewest, most = (
        range(n + 1) if end is None else [n - k for k in end.counts(n)] for end in (best, worst)
    )
    for right in mean.counts(n):
        total = SEEDS * n - right
        if total > MOST_WRONG:
            return None
        for wrong in wrong_answers(total, n):
            if wrong[-1] in fewest and wrong[0] in most:
                squares = sum(w * w for w in wrong) - total**2 / SEEDS
                for name, divisor in CONVENTIONS.items():
                    out[name].add(100 * math.sqrt(squares / divisor) / n)
    return out


def seed_spread(paper: Paper, split: Split) -> Outcome:
    """The standard deviation is possible given mean, worst and best of five seeds.

    Printed: standard deviations over five seeds

    Arithmetic: numbers of correctly classified trials out of {train} that give mean, worst and best
    seed, by divisor of the variance: {shown}
    """
    counts: dict[str, dict[str, int]] = {}
    columns = {"by subject": ("subjects", "Accuracy"), "three bands": ("multiband", "Multi-Band")}
    for where, (name, column) in columns.items():
        table = paper.table(f"{name}-{split.key}")
        row = counts[where] = dict.fromkeys(("rows", *CONVENTIONS), 0)
        for subject in table.subjects:
            cell = table.cell(subject, column)
            ends = [
                Reported(table.cell(subject, end).number) if end in table.columns else None
                for end in ("Min", "Max")
            ]
            spreads = possible_spreads(Reported(cell.number, SEEDS), split.train, *ends)
            if not cell.spread or spreads is None:
                continue
            row["rows"] += 1
            for convention, values in spreads.items():
                row[convention] += any(rounds_to(v, cell.spread) for v in values)
    shown = "; ".join(
        f"{where}, {row['rows']} rows: "
        + ", ".join(f"{row[name]} fit {name}" for name in CONVENTIONS)
        for where, row in counts.items()
    )
    usual = [{name for name in ("n - 1", "n") if r[name] == r["rows"]} for r in counts.values()]
    otherwise: Verdict = "contradiction" if all(usual) else "does not hold"
    verdict = judge(bool(set.intersection(*usual)), otherwise)
    return Outcome(verdict, counts, train=split.train, shown=shown)


for each in SPLITS:
    check(tables_of(each), f"seed-spread-{each.key}", each)(seed_spread)


def overall_spreads(means: Sequence[float], spreads: Sequence[float]) -> dict[str, set[float]]:
    """Return the standard deviations over all runs and over subjects, in every convention."""
    m, s = np.asarray(means), np.asarray(spreads)
    between, n = float(((m - m.mean()) ** 2).sum()), SEEDS * len(m)
    runs = {
        math.sqrt((within * float((s**2).sum()) + SEEDS * between) / divisor)
        for within in CONVENTIONS.values()
        for divisor in (n - 1, n, n - 0.5)
    }
    return {RUNS: runs, SUBJECTS: {math.sqrt(between / d) for d in (len(m) - 1, len(m))}}


@check("tab:multiband_summary")
def spread_kinds(paper: Paper) -> Outcome:
    """Compared standard deviations are taken over the same things.

    Printed: standard deviation with one token and with three, over subjects and seeds

    Arithmetic: {shown}
    """

    def kinds(table: str, column: str) -> tuple[Decimal, list[str], float]:
        """Return the printed value, what it can be taken over, and that of the subjects' means."""
        cells = paper.table(table).column(column)
        printed = paper.cell(table, "Overall", column).spread
        every = overall_spreads([float(c.number) for c in cells], [float(c.spread) for c in cells])
        can_be = [
            kind for kind, found in every.items() if any(rounds_to(v, printed) for v in found)
        ]
        return printed, can_be, min(every[SUBJECTS])

    rows = {}
    numbers: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        first = (f"multiband-{split.key}", "Single-Token")
        # The multi-band table of BCIcha repeats the overall row of the other table.
        one, one_kind, before = kinds(
            *(("subjects-bcicha", "Accuracy") if split.data == "BCIcha" else first)
        )
        three, three_kind, after = kinds(f"multiband-{split.key}", "Multi-Band")
        fair = 1 - after / before
        names = [" or ".join(kind) or "neither" for kind in (one_kind, three_kind)]
        rows[split.data] = (one, names[0], three, names[1], before, after, fair)
        numbers[split.data] = {"one": one_kind, "three": three_kind, "of_subjects": fair}
    form = "{}: {} is over {}, {} over {}; over means of subjects {:.2f} and {:.2f} (-{:.0%})"
    alike = [set(kind["one"]) & set(kind["three"]) for kind in numbers.values()]
    return Outcome(judge(all(alike), "is something else"), numbers, shown=told(form, rows, "; "))


def _summary_spreads(paper: Paper, data: str) -> list[float]:
    return [float(paper.cell("multiband", data, column).spread) for column in BANDS]


@check("abstract; sec:experiments")
def spread_reduction(paper: Paper) -> Outcome:
    """The stated reduction of the variance is that of the variance.

    Printed: variance reduced by {printed}

    Arithmetic: reduction of the standard deviation: {BCI2a[std]:.1f} %, {BCIcha[std]:.1f} %,
    {MAMEM[std]:.1f} %; of the variance: {BCI2a[variance]:.1f} %, {BCIcha[variance]:.1f} %,
    {MAMEM[variance]:.1f} %
    """
    said, found = {}, {}
    for data in DATA:
        one, three = _summary_spreads(paper, data)
        said[data] = paper.text(f"spread-{data.lower()}").number
        std, variance = 100 * (1 - three / one), 100 * (1 - (three / one) ** 2)
        found[data] = {"std": std, "variance": variance}
    as_std, as_variance = (
        all(rounds_to(found[data][kind], said[data]) for data in DATA)
        for kind in ("std", "variance")
    )
    verdict = judge(as_variance, "is something else" if as_std else "does not hold")
    return Outcome(verdict, found, printed=told("{1} % ({0})", said))


def spread_reduction_twice(paper: Paper, data: str, place: str) -> Outcome:
    """The same reduction is stated in both places.

    Printed: {data}: {a} % in one place, {b} % in another

    Arithmetic: 1 - {three} / {one} = {reduction:.1%}
    """
    a, b = (paper.text(f"spread-{data.lower()}{more}").number for more in (f"-{place}", ""))
    one, three = _summary_spreads(paper, data)
    verdict, numbers = judge(a == b, "contradiction"), {"reduction": 1 - three / one}
    return Outcome(verdict, numbers, data=data, a=a, b=b, one=one, three=three)


for name, kind, where in (
    ("BCI2a", "method", "sec:method"),
    ("BCIcha", "caption", "app:multi_band"),
):
    check(f"{where}; sec:experiments", f"spread-reduction-{name.lower()}", name, kind)(
        spread_reduction_twice
    )


@check("app:per_subject")
def spread_between_subjects(paper: Paper) -> Outcome:
    """The standard deviation is between subjects and larger than within subjects.

    Printed: {printed} is the standard deviation between subjects of BCI2a, not within

    Arithmetic: between the means of subjects {between:.2f}, between the seeds of a subject
    {within:.2f} (root mean square)
    """
    cells = paper.table("subjects-bci2a").column("Accuracy")
    printed = paper.text("spread-means-bci2a").number
    between = float(np.std([float(c.number) for c in cells], ddof=1))
    within = math.sqrt(float(np.mean([float(c.spread) ** 2 for c in cells])))
    verdict = judge(rounds_to(between, printed) and within < between)
    return Outcome(verdict, {"between": between, "within": within}, printed=printed)


# p-values


def paired_p_range(a: Cell, b: Cell) -> tuple[float, float]:
    """Return the smallest and largest p-value of a paired t-test, given means and deviations.

    The standard deviation of the differences is between the difference and the sum of the two
    standard deviations. Printed digits are rounded, and the divisor is n or n - 1.
    """
    n, gap = SEEDS, abs(float(a.number - b.number))
    loose = sum(float(half_step(cell.number)) for cell in (a, b))
    s, t = float(a.spread), float(b.spread)
    least = max(abs(s - t) - sum(float(half_step(c.spread)) for c in (a, b)), 0.0)
    most = (s + t + 0.01) * math.sqrt(n / (n - 1))
    p = []
    for distance, spread in ((gap + loose, least), (max(gap - loose, 0.0), most)):
        t_value = distance * math.sqrt(n) / spread if spread else math.inf
        p.append(float(2 * stats.t.sf(t_value, n - 1)))
    return p[0], p[1]


def _allows(printed: str, low: float, high: float) -> bool:
    """Whether a printed p-value such as '0.003' or '<0.001' is possible between two bounds."""
    number = Cell(printed).number
    value, slack = float(number), float(half_step(number))
    if printed.startswith("<"):
        return low < value
    return low <= value + slack and value - slack <= high


@check("sec:experiments")
def multiband_p(paper: Paper) -> Outcome:
    """The p-value follows from the printed accuracies of the subjects.

    Printed: p {printed} for the gain over the nine subjects of BCI2a

    Arithmetic: paired t-test of the printed means: t = {t:.2f} with {freedom} degrees of freedom,
    p = {p:.3f}
    """
    table = paper.table("multiband-bci2a")
    found = paired_t(*([float(c.number) for c in table.column(k)] for k in reversed(BANDS)))
    printed = paper.text("multiband-p").text
    return Outcome(
        judge(_allows(printed, found.p_value, found.p_value)),
        {"t": found.statistic, "p": found.p_value},
        printed=printed,
        freedom=found.n - 1,
    )


def _p_values(tests: Mapping[str, tuple[str, Cell, Cell]], **words: str) -> Outcome:
    """Check printed p-values of pairs of printed means, by name."""
    rows = {name: (printed, *paired_p_range(*cells)) for name, (printed, *cells) in tests.items()}
    return Outcome(
        judge(all(_allows(*row) for row in rows.values())),
        {name: {"low": low, "high": high} for name, (_, low, high) in rows.items()},
        printed=told("{} p {}", rows),
        bounds=told("{0} between {2:.2g} and {3:.2g}", rows),
        **words,
    )


def embedding_p(paper: Paper, data: str) -> Outcome:
    """The p-value is possible for five pairs with these means and standard deviations.

    Printed: {printed} against Log-Euclidean on {data} subject 1, five seeds

    Arithmetic: p-values that are possible: {bounds}
    """
    tests = {}
    for name in ("BWSPD", "Euclidean"):
        said = paper.cell("geometry", name, "p").text.split(", ")
        printed = next(text for text in said if data in text).split(" ")[0]
        first, second = (
            paper.cell("geometry", row, f"{data} (S1)") for row in ("Log-Euclidean", name)
        )
        tests[name] = (printed, first, second)
    return _p_values(tests, data=data)


for name in ("BCI2a", "MAMEM"):
    check("tab:geometry_ablation", f"embedding-p-{name.lower()}", name)(embedding_p)


def ablation_p(paper: Paper, name: str, first: str, second: str) -> Outcome:
    """The p-value is possible for five pairs with these means and standard deviations.

    Printed: {printed}

    Arithmetic: p-values that are possible: {bounds}
    """
    table = paper.table(name)
    tests = {
        row: (table.cell(row, "p").text, table.cell(row, first), table.cell(row, second))
        for row in table.names
    }
    return _p_values(tests)


check(labels("bn-embed"), "bn-embed-p", "bn-embed", "With BN", "Without BN")(ablation_p)
check(labels("geometric-attention"), "attention-p", "geometric-attention", "Geometric", "Standard")(
    ablation_p
)


@check("app:ablation")
def bn_embed_level(paper: Paper) -> Outcome:
    """Effects called significant have p below the significance level.

    Printed: significance level {level}; BN-Embed significant on BCI2a with p = {p}

    Arithmetic: {p} < {level}: {answer}
    """
    p, level = (float(paper.text(key).number) for key in ("bn-bci2a-p", "alpha"))
    answer = "yes" if p < level else "no"
    return Outcome(judge(p < level, "contradiction"), {"p": p, "level": level}, answer=answer)


# Across subjects


def folds(paper: Paper) -> dict[tuple[str, str], Cell]:
    """Return cells of mean, standard deviation, worst and best fold, by method and data set."""
    table = paper.table("cross-subject")
    return {(m, data): table.cell(data, m) for data in table.names for m in table.columns[2:]}


@check("tab:cross_subject")
def fold_ranges(paper: Paper) -> Outcome:
    """Ranges are from the worst to the best fold.

    Printed: {ranges} ranges from the worst to the best fold

    Arithmetic: {mean_and_std} equal mean - std to mean + std to the last digit{named}
    """
    cells = folds(paper)
    same = {}
    for key, cell in cells.items():
        mean, std, *ends = cell.numbers
        if ends == [mean - std, mean + std]:
            same[key] = cell
    named = "; ".join(f"{m} {d} [{c.numbers[2]}-{c.numbers[3]}]" for (m, d), c in same.items())
    if same:
        named = f": {named}. That requires that nearly all folds lie at the two ends"
    numbers = {"ranges": len(cells), "mean_and_std": len(same)}
    return Outcome(judge(not same, "is something else"), numbers, named=named)


@check("app:cross_subject")
def best_fold(paper: Paper) -> Outcome:
    """The stated best fold is not mean + std.

    Printed: best fold of Log-Euclidean on BCIcha: {quoted} %

    Arithmetic: mean + std = {mean} + {std} = {mean_plus_std}
    """
    mean, std, _, _ = folds(paper)["Log-Euc", "BCIcha"].numbers
    quoted = paper.text("loso-best-bcicha").number
    verdict = judge(quoted != mean + std, "is something else")
    numbers = {"mean_plus_std": float(mean + std)}
    return Outcome(verdict, numbers, quoted=quoted, mean=mean, std=std)


@check("tab:cross_subject")
def bold_cross_subject(paper: Paper) -> Outcome:
    """The largest mean is in bold.

    Printed: the best method of each data set in bold

    Arithmetic: {shown}
    """
    rows, right = {}, True
    for data in DATA:
        cells = {m: cell for (m, d), cell in folds(paper).items() if d == data}
        ranked = sorted(cells, key=lambda m: -cells[m].number)
        bold = {m: cells[m].number for m in ranked if cells[m].bold}
        places = [i for i, m in enumerate(ranked, 1) if m in bold]
        right &= places == [1]
        place = ", ".join(map(str, places))
        rows[data] = (told("{} {}", bold), place, ranked[0], cells[ranked[0]].number)
    shown = told("{}: bold is {} (rank {}), best {} {}", rows, "; ")
    return Outcome(judge(right), {}, shown=shown)


@check("app:practical_recommendations; tab:cross_subject")
def lost_across_subjects(paper: Paper) -> Outcome:
    """Stated losses are accuracies within subjects minus accuracies across subjects.

    Printed: {said[0]} to {said[1]} points lost across subjects, over all methods

    Arithmetic: from {least} ({at_least}) to {most} ({at_most}); {outside} of {n} are outside
    """
    said = [int(n) for n in paper.text("degradation").numbers]
    lost = {
        f"{method}, {data}": paper.cell("all-subjects", data, method).number - cell.number
        for (method, data), cell in folds(paper).items()
    }
    ends = min(lost, key=lost.__getitem__), max(lost, key=lost.__getitem__)
    least, most = (float(lost[end]) for end in ends)
    outside = sum(not said[0] <= round(x) <= said[1] for x in lost.values())
    return Outcome(
        judge(all(rounds_to(lost[k], Decimal(n)) for k, n in zip(ends, said, strict=True))),
        {"least": least, "most": most, "outside": outside},
        said=said,
        n=len(lost),
        at_least=ends[0],
        at_most=ends[1],
    )


@check("app:cross_subject; tab:cross_subject")
def alignment_baseline(paper: Paper) -> Outcome:
    """The accuracy before alignment equals that in the table.

    Printed: Euclidean alignment gains {gains} points on BCI2a

    Arithmetic: {shown}
    """
    rows, sums = {}, True
    for method in ("Log-Euc", "BWSPD"):
        before, after, gain = paper.text(f"ea-{method.lower()}").numbers
        table = folds(paper)[method, "BCI2a"].number
        sums &= after - before == gain
        rows[method] = (before, table, after - before, after - table, f"{gain:+}")
    form = (
        "{}: {} before alignment, {} in the table; gain {:+} from the former, {:+} from the latter"
    )
    return Outcome(
        judge(sums and all(row[0] == row[1] for row in rows.values()), "contradiction"),
        {"gains_add_up": sums},
        gains=told("{5}", rows, " and "),
        shown=told(form, rows, "; "),
    )


@check("app:cross_subject")
def across_ranges(paper: Paper) -> Outcome:
    """Stated ranges are those of the means in the table.

    Printed: {printed}

    Arithmetic: {found}
    """
    rows, wrong = {}, []
    for data in DATA:
        said = paper.text(f"loso-range-{data.lower()}" + "-appendix" * (data == "BCI2a"))
        means = [cell.number for (_, d), cell in folds(paper).items() if d == data]
        low, high = min(means), max(means)
        if not (rounds_to(low, said.numbers[0]) and rounds_to(high, said.numbers[1])):
            wrong.append(data)
        rows[data] = (said.text, low, high)
    words = {"printed": told("{} {} %", rows), "found": told("{0} {2} to {3}", rows)}
    return Outcome(judge(not wrong), {"wrong": wrong}, **words)
