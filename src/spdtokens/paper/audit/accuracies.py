"""Checks of accuracies: trials they can be of, means, spreads, p-values, folds across subjects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import stats

from spdtokens._tables import counted
from spdtokens.evaluation.statistics import paired_t
from spdtokens.paper.audit.check import (
    DATA,
    SEEDS,
    SPLITS,
    Outcome,
    Paper,
    Split,
    Verdict,
    check,
    half_step,
    judge,
    labels,
    rounds_to,
    told,
)
from spdtokens.paper.audit.granularity import (
    Reported,
    chance_to_fit,
    share_that_fits,
    sizes_that_fit,
    smallest_of_each_family,
)
from spdtokens.paper.tables import Cell

#: Largest number of trials that is tried.
MAX_N = 400
#: What the sum of squares of five seeds is divided by. Twice: ten numbers, each of which stands
#: twice, have twice the sum, divided by 10 - 1.
CONVENTIONS = {"n - 1": 4.0, "n": 5.0, "seeds counted twice": 4.5}
#: Of what an overall standard deviation can be.
RUNS, SUBJECTS = "all runs", "means of subjects"
#: Wrong answers of five seeds beyond which all conventions find a fit, so none is told apart.
MOST_WRONG = 40
EACH_SPLIT = {split.key: (split,) for split in SPLITS}


def _tables_of(split: Split) -> str:
    return labels(f"subjects-{split.key}", f"multiband-{split.key}")


# Which numbers of trials the accuracies fit


def means_of_seeds(cells: Sequence[Cell]) -> list[Reported]:
    """Printed means of five seeds."""
    return [Reported(cell.number, SEEDS) for cell in cells]


def subject_values(paper: Paper, split: Split) -> dict[str, list[Reported]]:
    """The Log-Euclidean transformer's values subject by subject, by where they are printed."""
    one, multi = (paper.table(f"{name}-{split.key}") for name in ("subjects", "multiband"))
    ends = [cell for column in ("Min", "Max") for cell in one.column(column)]
    values = {
        "best and worst seeds": [Reported(cell.number) for cell in ends],
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


def _number_that_fit(values: Sequence[Reported], n: int) -> int:
    return round(len(values) * share_that_fits(values, n))


def _of_size(n: int, on_train: int, on_test: int) -> Verdict:
    return "holds" if on_test == n else "fits training size" if on_train == n else "undecided"


def _fitting(
    values: list[Reported], split: Split, what: str, groups: dict[str, list[Reported]]
) -> Outcome:
    n, train, sizes = len(values), split.train, sizes_that_fit(values, MAX_N)
    fit = {m: _number_that_fit(values, m) for m in (train, *split.test)}
    shown = ", ".join(
        f"{count} of {n} fit {m} {'trained on' if m == train else 'tested on'}"
        for m, count in fit.items()
    )
    in_groups = {w: (_number_that_fit(g, train), len(g)) for w, g in groups.items() if g}
    return Outcome(
        _of_size(n, fit[train], max(fit[m] for m in split.test)),
        f"{n} {what}",
        f"{shown}. n <= {MAX_N} that fit all: {', '.join(map(str, sizes)) or 'none'} "
        f"({split.how} = {train})" + ". " * bool(in_groups) + told("{}: {} of {}", in_groups, "; "),
        {
            "values": n,
            "fit": fit,
            "sizes_that_fit_all": sizes,
            "train": train,
            "test": list(split.test),
            "chance": chance_to_fit(values, train),
        },
    )


@check(_tables_of, EACH_SPLIT)
def granularity(paper: Paper, split: Split) -> Outcome:
    """The accuracies are possible for n test trials: k / n, means of five seeds k / (5 n)."""
    groups = subject_values(paper, split)
    values = [value for group in groups.values() for value in group]
    return _fitting(values, split, "distinct accuracies, subject by subject", groups)


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
    """Accuracies of one subject of each data set are possible for its test trials."""
    by_data = {}
    for split in SPLITS:
        values = ablation_values(paper, split)
        train, *test = (_number_that_fit(values, m) for m in (split.train, *split.test))
        by_data[split.data] = {"values": len(values), "train": train, "test": max(test)}
    n, on_train, on_test = (
        sum(row[key] for row in by_data.values()) for key in ("values", "train", "test")
    )
    shown = ", ".join(
        f"{d} {c['train']} and {c['test']} of {c['values']}" for d, c in by_data.items()
    )
    return Outcome(
        _of_size(n, on_train, on_test),
        f"{n} distinct accuracies of transformers in the ablations of embedding, attention, depth "
        "and heads",
        f"{on_train} of {n} fit the trials trained on, {on_test} those tested on ({shown})",
        by_data,
    )


@check(labels("bn-embed", "baselines"))
def granularity_others(paper: Paper) -> Outcome:
    """Those of BN-Embed and of the methods compared with are, too."""
    n, rounded, cut, tested, misfits = 0, 0, 0, 0, []
    bn = paper.table("bn-embed")
    for split in SPLITS:
        row = next(name for name in bn.names if name.startswith(split.data))
        cells = {column: bn.cell(row, column) for column in bn.columns[1:3]}
        for name in ("SPDNet", "ATCNet", "EEGNet"):
            cells[name] = paper.cell("baselines", name, split.subject)
        for label, cell in cells.items():
            value = Reported(cell.number, SEEDS)
            fits = value.fits(split.train)
            n, rounded = n + 1, rounded + fits
            # Some fit only if digits were cut off.
            cut += fits or value.fits(split.train, "cut")
            tested += any(value.fits(m) or value.fits(m, "cut") for m in split.test)
            misfits += [] if fits else [f"{label}, {split.data} {value.value}"]
    return Outcome(
        _of_size(n, cut, tested),
        f"{n} means of BN-Embed, SPDNet, ATCNet and EEGNet on one subject of each data set",
        f"{rounded} of {n} fit the trials trained on if rounded, {cut} if rounded or cut off "
        f"({'; '.join(misfits)}); {tested} fit those tested on, rounded or cut off",
        {"values": n, "rounded": rounded, "rounded_or_cut": cut, "test": tested},
    )


@check("fig:confusion_matrices_key")
def granularity_confusion(paper: Paper) -> Outcome:
    """The confusion matrices are of the 288 trials of the test session."""
    values = [Reported(paper.text(f"seed-42-s{s}").number, label=f"S{s}") for s in (2, 4)]
    return _fitting(values, SPLITS[0], "accuracies of the confusion matrices (seed 42)", {})


@check("tab:all_subjects_comparison")
def granularity_classical(paper: Paper) -> Outcome:
    """Means over s subjects of methods without seeds are possible for n test trials: k / (s n)."""
    found, n = {}, 0
    for split in SPLITS:
        subjects, *means = paper.numbers(
            "all-subjects", split.data, "Subjects", "TS+LR", "FgMDM", "MDM"
        )
        values = [Reported(mean, int(subjects)) for mean in means]
        smallest = smallest_of_each_family(sizes_that_fit(values, MAX_N))
        test = max(split.test, key=lambda m, values=values: share_that_fits(values, m))  # type: ignore[misc]
        n += len(values)
        found[split.data] = {
            "smallest": smallest[0] if smallest else None,
            "test": _number_that_fit(values, test),
            "train": _number_that_fit(values, split.train),
            "chance": chance_to_fit(values, test),
        }
    on_test, on_train = (sum(row[key] or 0 for row in found.values()) for key in ("test", "train"))
    sizes = ", ".join(f"{data} {row['smallest']}" for data, row in found.items())
    return Outcome(
        judge(on_test == n),
        f"{n} means over subjects of TS+LR, FgMDM and MDM",
        f"{on_test} of {n} fit the trials tested on, {on_train} those trained on; smallest n that "
        f"fits a data set's three: {sizes}"
        + "; the same table prints values that fit training sizes"
        * (on_test == n),
        found,
    )


# Means, differences, counts, and what is quoted of them


def _mean(cells: Sequence[Cell]) -> Decimal:
    return sum((cell.number for cell in cells), Decimal(0)) / len(cells)


@check(
    lambda table, _column: labels(*(f"{table}-{data.lower()}" for data in DATA)),
    {
        "subjects-accuracy": ("subjects", "Accuracy"),
        "multiband-single-token": ("multiband", "Single-Token"),
        "multiband-multi-band": ("multiband", "Multi-Band"),
    },
)
def mean(paper: Paper, table: str, column: str) -> Outcome:
    """The overall row is the mean of its column."""
    rows = {}
    for data in DATA:
        name = f"{table}-{data.lower()}"
        printed = paper.cell(name, "Overall", column).number
        rows[data] = (printed, _mean(paper.table(name).column(column)))
    # Rounded subjects move their mean by half a step at most.
    return Outcome(
        judge(all(rounds_to(mean, printed, 0.005) for printed, mean in rows.values())),
        told("{} {}", rows),
        "mean of the column: " + told("{0} {2:.2f}", rows),
        {data: float(mean) for data, (_, mean) in rows.items()},
    )


@check(labels("subjects-bcicha", "multiband-bcicha", "subjects-mamem", "multiband-mamem"))
def single_token_twice(paper: Paper) -> Outcome:
    """The same configuration and seeds give the same values."""
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
            text += f" (most {s}: {pairs[s][0]} and {pairs[s][1]})"
        shown.append(text)
    return Outcome(
        judge(not any(row["differ"] for row in rows.values()), "cannot be both"),
        "two tables of the Log-Euclidean transformer, one token, the same five seeds",
        "; ".join(shown),
        rows,
    )


def _counted_wrong(
    n: int, wrong: list[str], printed: str, right: str, key: str = "values"
) -> Outcome:
    return Outcome(
        judge(not wrong),
        printed,
        f"{n - len(wrong)} of {n} {right}" + "".join(f"; {w}" for w in wrong),
        {key: n, "wrong": len(wrong)},
    )


@check(labels("multiband-bci2a", "multiband-bcicha", "multiband-mamem"))
def gains(paper: Paper) -> Outcome:
    """Gain is the difference of the two columns."""
    wrong, n = [], 0
    for data in DATA:
        table = f"multiband-{data.lower()}"
        for row in paper.table(table).names:
            single, multi, gain = paper.numbers(
                table, row, "Single-Token", "Multi-Band", "Improvement"
            )
            n += 1
            if not rounds_to(multi - single, gain, 0.01):
                wrong.append(f"{data} {row}: {multi - single}")
    printed = f"{n} differences between three bands and one"
    return _counted_wrong(n, wrong, printed, "are what the columns give", "rows")


@check("sec:experiments; app:multi_band")
def gains_counted(paper: Paper) -> Outcome:
    """As many rows of the table gain."""
    rows, zeros = {}, {}
    for data in DATA:
        column = paper.table(f"multiband-{data.lower()}").column("Improvement")
        zeros[data] = sum(cell.number == 0 for cell in column)
        # Of MAMEM the text says "or equal".
        found = sum(cell.number > 0 for cell in column) + zeros[data] * (data == "MAMEM")
        said = int(paper.text(f"improved-{data.lower()}").numbers[0])
        rows[data] = (said, found, len(column))
    return Outcome(
        judge(all(said == found for said, found, _ in rows.values())),
        "subjects that gain: " + told("{0} {1} of {3}", rows),
        "counted: "
        + told("{0} {2} of {3}", rows)
        + f"; {counted(zeros['BCIcha'], 'subject')} of BCIcha with +0.00",
        {data: found for data, (_, found, _) in rows.items()},
    )


@check("tab:multiband_bcicha")
def gain_caption(paper: Paper) -> Outcome:
    """One table has one gain."""
    caption = paper.text("gain-bcicha-caption").number
    printed = paper.cell("multiband-bcicha", "Overall", "Improvement").number
    table = paper.table("multiband-bcicha")
    one, three = (_mean(table.column(k)) for k in ("Single-Token", "Multi-Band"))
    return Outcome(
        judge(caption == printed, "cannot be both"),
        f"BCIcha gains {caption:+} in the caption of a table, {printed:+} in its last row and in "
        "the abstract",
        f"its columns average {one:.2f} and {three:.2f}: {three - one:+.2f}",
        {"difference_of_means": float(three - one)},
    )


@check("abstract")
def abstract_gain(paper: Paper) -> Outcome:
    """A gain is the accuracy with three bands less that with one."""
    rows = {}
    for data in DATA:
        one, three, gain = (
            paper.text(f"abstract-{k}{data.lower()}").number for k in ("", "multiband-", "gain-")
        )
        rows[data] = (one, three, gain, three - one)
    return Outcome(
        judge(all(gain == found for *_, gain, found in rows.values()), "cannot be both"),
        told("{} {}, then {} ({:+})", rows, "; "),
        told("{0} {4:+}", rows),
        {data: float(row[3]) for data, row in rows.items()},
    )


@check("abstract")
def abstract_quotes(paper: Paper) -> Outcome:
    """They are the values of the tables."""
    wrong, n = [], 0
    for data in DATA:
        key = data.lower()
        # The value of the abstract, and the places where it stands again.
        for quoted, places in {
            f"abstract-{key}": {
                "all-subjects": ("all-subjects", data, "Log-Euc"),
                "subjects": (f"subjects-{key}", "Overall", "Accuracy"),
            },
            f"abstract-multiband-{key}": {
                "multiband": ("multiband", data, "Multi-Band"),
                f"multiband-{key}": (f"multiband-{key}", "Overall", "Multi-Band"),
            },
            f"abstract-gain-{key}": {"gain": ("multiband", data, "Improvement")},
        }.items():
            said = paper.text(quoted).number
            for where, place in places.items():
                n, found = n + 1, paper.cell(*place).number
                wrong += [] if said == found else [f"{data}, {where}: {said} and {found}"]
    said, bn = paper.text("abstract-bn").number, paper.cell("bn-embed", "BCIcha (1596)", "Delta")
    wrong += [] if rounds_to(bn.number, said) else [f"BN-Embed: {said} and {bn.number}"]
    printed = "accuracies and gains of the abstract"
    return _counted_wrong(n + 1, wrong, printed, "stand so in the tables")


@check("app:per_subject")
def subjects_above(paper: Paper) -> Outcome:
    """The table has as many such subjects."""
    rows = {}
    for data, limit in (("BCIcha", 90), ("MAMEM", 98)):
        table = paper.table(f"subjects-{data.lower()}")
        below = [s for s in table.subjects if table.cell(s, "Accuracy").number <= limit]
        said = int(paper.text(f"above-{limit}-{data.lower()}").numbers[0])
        found = len(table.subjects) - len(below)
        rows[data] = (limit, said, found, ", ".join(below) or "none")
    return Outcome(
        judge(all(said == found for _, said, found, _ in rows.values())),
        told("{0}: {2} subjects above {1} %", rows),
        told("{0}: {3}, all but {4}", rows, "; "),
        {data: found for data, (_, _, found, _) in rows.items()},
    )


@check("fig:confusion_matrices_key; tab:per_subject_log_euclidean", {"s2": ("S2",), "s4": ("S4",)})
def seed_42(paper: Paper, subject: str) -> Outcome:
    """A seed lies between the worst and the best."""
    low, high = paper.numbers("subjects-bci2a", subject, "Min", "Max")
    value = paper.text(f"seed-42-{subject.lower()}").number
    return Outcome(
        judge(low <= value <= high, "cannot be both"),
        f"BCI2a {subject}: seed 42 with {value} in a figure; all five seeds from {low} to {high}",
        f"{low} <= {value} <= {high}: {'yes' if low <= value <= high else 'no'}",
        {"min": float(low), "value": float(value), "max": float(high)},
    )


@check("sec:experiments")
def over_tslr(paper: Paper) -> Outcome:
    """They are differences of the main table."""
    printed = paper.text("tslr-gain").numbers
    pairs = {data: paper.numbers("all-subjects", data, "Log-Euc", "TS+LR") for data in DATA}
    found = {data: ours - theirs for data, (ours, theirs) in pairs.items()}
    return Outcome(
        judge(all(rounds_to(f, p) for f, p in zip(found.values(), printed, strict=True))),
        f"points over TS+LR: {', '.join(f'{p:+}' for p in printed)}",
        told("{} {:+}", found),
        {data: float(gain) for data, gain in found.items()},
    )


@check("tab:structure_ablation_depth")
def depth_2_seeds(paper: Paper) -> Outcome:
    """Mean and spread agree."""
    cell = paper.cell("depth", "Depth 2", "BCIcha (S2)")
    perfect, seeds = (int(n) for n in paper.text("depth-2-perfect").numbers)
    other = 100 - seeds * (100 - float(cell.number)) / (seeds - perfect)
    spread = (100 - other) / seeds**0.5 if seeds - perfect == 1 else float("nan")
    return Outcome(
        judge(rounds_to(spread, cell.spread, 0.025)),
        f"depth 2 on BCIcha: {cell.text}, {perfect} of {seeds} seeds at 100 %",
        f"the other seed has {other:.2f}; standard deviation of the five: {spread:.2f}",
        {"other_seed": other, "spread": spread},
    )


# Standard deviations: of what they are, and whether they can be


def wrong_answers(total: int, most: int, seeds: int = SEEDS) -> Iterator[tuple[int, ...]]:
    """Wrong answers of seeds that sum to ``total``, each of ``most`` at most, largest first."""
    if seeds == 0:
        yield from [()] * (total == 0)
        return
    for first in range(min(most, total), -(-total // seeds) - 1, -1):
        for rest in wrong_answers(total - first, first, seeds - 1):
            yield (first, *rest)


def possible_spreads(
    mean: Reported, n: int, worst: Reported | None = None, best: Reported | None = None
) -> dict[str, set[float]] | None:
    """Standard deviations, in percent, that five seeds with these printed values can have.

    None if there are too many of them to tell anything.
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


@check(_tables_of, EACH_SPLIT)
def seed_spread(paper: Paper, split: Split) -> Outcome:
    """Five whole numbers of right answers give mean, worst, best and standard deviation."""
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
    between, n = float(((m - m.mean()) ** 2).sum()), SEEDS * len(m)
    runs = {
        math.sqrt((within * float((s**2).sum()) + SEEDS * between) / divisor)
        for within in CONVENTIONS.values()
        for divisor in (n - 1, n, n - 0.5)
    }
    return {RUNS: runs, SUBJECTS: {math.sqrt(between / d) for d in (len(m) - 1, len(m))}}


@check("tab:multiband_summary")
def spread_kinds(paper: Paper) -> Outcome:
    """Spreads compared are of one kind."""

    def kinds(table: str, column: str) -> tuple[Decimal, list[str], float]:
        """As printed, what it can be, and that of the subjects' means."""
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
        # The multi-band table of BCIcha prints the other table's overall row over its own column.
        one, one_kind, before = kinds(
            *(("subjects-bcicha", "Accuracy") if split.data == "BCIcha" else first)
        )
        three, three_kind, after = kinds(f"multiband-{split.key}", "Multi-Band")
        fair = 1 - after / before
        names = [" or ".join(kind) or "neither" for kind in (one_kind, three_kind)]
        rows[split.data] = (one, names[0], three, names[1], before, after, fair)
        numbers[split.data] = {"one": one_kind, "three": three_kind, "of_subjects": fair}
    form = "{}: {} is of {}, {} of {}; means of subjects {:.2f} and {:.2f} (-{:.0%})"
    alike = [set(kind["one"]) & set(kind["three"]) for kind in numbers.values()]
    return Outcome(
        judge(all(alike), "is something else"),
        "spread with one token and with three, over subjects and seeds",
        told(form, rows, "; "),
        numbers,
    )


def _summary_spreads(paper: Paper, data: str) -> tuple[Decimal, Decimal]:
    one, three = (paper.cell("multiband", data, c).spread for c in ("Single-Token", "Multi-Band"))
    return one, three


@check("abstract; sec:experiments")
def spread_reduction(paper: Paper) -> Outcome:
    """Variances are compared."""
    rows = {}
    for split in SPLITS:
        one, three = map(float, _summary_spreads(paper, split.data))
        printed = paper.text(f"spread-{split.key}").number
        rows[split.data] = (printed, 100 * (1 - three / one), 100 * (1 - (three / one) ** 2))
    as_std = all(rounds_to(std, printed) for printed, std, _ in rows.values())
    as_variance = all(rounds_to(variance, printed) for printed, _, variance in rows.values())
    return Outcome(
        judge(as_variance, "is something else" if as_std else "does not hold"),
        "variance reduced by " + told("{1} % ({0})", rows),
        "standard deviations: "
        + told("{2:.1f} %", rows)
        + "; variances, their squares: "
        + told("{3:.1f} %", rows),
        {d: {"std": std, "variance": variance} for d, (_, std, variance) in rows.items()},
    )


def _reduction_twice(paper: Paper, data: str, place: str) -> Outcome:
    a, b = (paper.text(f"spread-{data.lower()}{more}").number for more in (f"-{place}", ""))
    one, three = _summary_spreads(paper, data)
    return Outcome(
        judge(a == b, "cannot be both"),
        f"{data}: {a} % in one place, {b} % in another",
        f"1 - {three} / {one} = {1 - three / one:.1%}",
        {"reduction": float(1 - three / one)},
    )


@check("sec:method; sec:experiments")
def spread_reduction_bci2a(paper: Paper) -> Outcome:
    """One comparison has one reduction."""
    return _reduction_twice(paper, "BCI2a", "method")


@check("app:multi_band; sec:experiments")
def spread_reduction_bcicha(paper: Paper) -> Outcome:
    """One comparison has one reduction."""
    return _reduction_twice(paper, "BCIcha", "caption")


@check("app:per_subject")
def spread_between_subjects(paper: Paper) -> Outcome:
    """Subjects' means differ by more than a subject's seeds."""
    cells = paper.table("subjects-bci2a").column("Accuracy")
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


# p-values


def paired_p_range(a: Cell, b: Cell) -> tuple[float, float]:
    """Smallest and largest p-value of a paired t-test of two printed means with their spreads.

    The spread of the differences lies between the difference and the sum of the two spreads,
    whatever the pairs are; printed digits may be rounded, and spreads be over n or n - 1.
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
    """Whether '0.003' or '<0.001' can be a p-value between two bounds."""
    number = Cell(printed).number
    value, slack = float(number), float(half_step(number))
    if printed.startswith("<"):
        return low < value
    return low <= value + slack and value - slack <= high


@check("sec:experiments")
def multiband_p(paper: Paper) -> Outcome:
    """The printed subjects give that p-value."""
    table = paper.table("multiband-bci2a")
    found = paired_t(
        *([float(c.number) for c in table.column(k)] for k in ("Multi-Band", "Single-Token"))
    )
    printed = paper.text("multiband-p").text
    return Outcome(
        judge(_allows(printed, found.p_value, found.p_value)),
        f"p {printed} for the gain over the nine subjects of BCI2a",
        f"paired t-test of the printed means: t = {found.statistic:.2f} with {found.n - 1} degrees "
        f"of freedom, p = {found.p_value:.3f}",
        {"t": found.statistic, "p": found.p_value},
    )


def _p_values(rows: dict[str, tuple[Any, ...]], after: str, form: str) -> Outcome:
    return Outcome(
        judge(all(_allows(*row) for row in rows.values())),
        told("{} p {}", rows) + after,
        "whatever the pairs are: " + told(form, rows),
        {name: {"low": low, "high": high} for name, (_, low, high) in rows.items()},
    )


@check("tab:geometry_ablation", {"bci2a": ("BCI2a",), "mamem": ("MAMEM",)})
def embedding_p(paper: Paper, data: str) -> Outcome:
    """Some five pairs with these means and spreads give that p-value."""
    rows: dict[str, tuple[Any, ...]] = {}
    for name in ("BWSPD", "Euclidean"):
        said = paper.cell("geometry", name, "p").text.split(", ")
        printed = next(text for text in said if data in text).split(" ")[0]
        cells = [paper.cell("geometry", row, f"{data} (S1)") for row in ("Log-Euclidean", name)]
        rows[name] = (printed, *paired_p_range(*cells))
    after = f" against Log-Euclidean on {data} subject 1, five seeds"
    return _p_values(rows, after, "{0} between {2:.2g} and {3:.2g}")


def _ablation_p(paper: Paper, table: str, *columns: str) -> Outcome:
    rows: dict[str, tuple[Any, ...]] = {}
    for row in paper.table(table).names:
        cells = [paper.cell(table, row, column) for column in columns]
        rows[row] = (paper.cell(table, row, "p").text, *paired_p_range(*cells))
    return _p_values(rows, "", "{0} {2:.2g} to {3:.2g}")


@check("tab:bn_embed_ablation")
def bn_embed_p(paper: Paper) -> Outcome:
    """Some five pairs with these means and spreads give that p-value."""
    return _ablation_p(paper, "bn-embed", "With BN", "Without BN")


@check("tab:geometric_attention_ablation")
def attention_p(paper: Paper) -> Outcome:
    """Some five pairs with these means and spreads give that p-value."""
    return _ablation_p(paper, "geometric-attention", "Geometric", "Standard")


@check("app:ablation")
def bn_embed_level(paper: Paper) -> Outcome:
    """What is called significant is below the level."""
    p, level = paper.text("bn-bci2a-p").number, paper.text("alpha").number
    return Outcome(
        judge(p < level, "cannot be both"),
        f"significant below {level}; BN-Embed significant on BCI2a with p = {p}",
        f"{p} < {level}: {'yes' if p < level else 'no'}",
        {"p": float(p), "level": float(level)},
    )


# Across subjects


def folds(paper: Paper) -> dict[tuple[str, str], Cell]:
    """Mean, standard deviation, worst and best fold, by method and data set."""
    table = paper.table("cross-subject")
    return {(m, data): table.cell(data, m) for data in table.names for m in table.columns[2:]}


def ends_are_mean_and_std(cell: Cell) -> bool:
    """Whether the range is mean - std to mean + std to the last digit."""
    mean, std, low, high = cell.numbers
    return low == mean - std and high == mean + std


@check("tab:cross_subject")
def fold_ranges(paper: Paper) -> Outcome:
    """Ranges are of folds, not of spreads."""
    cells = folds(paper)
    same = {key: cell for key, cell in cells.items() if ends_are_mean_and_std(cell)}
    named = "; ".join(f"{m} {d} [{c.numbers[2]}-{c.numbers[3]}]" for (m, d), c in same.items())
    return Outcome(
        judge(not same, "is something else"),
        f"{len(cells)} ranges from the worst to the best fold",
        f"{len(same)} are mean - std to mean + std to the last digit"
        + (f": {named}. Folds do that only if nearly all of them lie at the two ends" * bool(same)),
        {"ranges": len(cells), "mean_and_std": len(same)},
    )


@check("app:cross_subject")
def best_fold(paper: Paper) -> Outcome:
    """The best fold is a fold."""
    mean, std, _, _ = folds(paper)["Log-Euc", "BCIcha"].numbers
    quoted = paper.text("loso-best-bcicha").number
    return Outcome(
        judge(quoted != mean + std, "is something else"),
        f"best fold of Log-Euclidean on BCIcha: {quoted} %",
        f"mean + std = {mean} + {std} = {mean + std}",
        {"mean_plus_std": float(mean + std)},
    )


@check("tab:cross_subject")
def bold_cross_subject(paper: Paper) -> Outcome:
    """Bold is the largest mean."""
    rows, right = {}, True
    for data in DATA:
        cells = {m: cell for (m, d), cell in folds(paper).items() if d == data}
        ranked = sorted(cells, key=lambda m: -cells[m].number)
        bold = {m: cells[m].number for m in ranked if cells[m].bold}
        places = [i for i, m in enumerate(ranked, 1) if m in bold]
        right &= places == [1]
        place = ", ".join(map(str, places))
        rows[data] = (told("{} {}", bold), place, ranked[0], cells[ranked[0]].number)
    return Outcome(
        judge(right),
        "the best method of each data set in bold",
        told("{}: bold is {} (place {}), best {} {}", rows, "; "),
        {},
    )


@check("app:practical_recommendations; tab:cross_subject")
def lost_across_subjects(paper: Paper) -> Outcome:
    """These are means within subjects less means across."""
    said = [int(n) for n in paper.text("degradation").numbers]
    lost = {
        (method, data): paper.cell("all-subjects", data, method).number - cell.number
        for (method, data), cell in folds(paper).items()
    }
    least, most = min(lost, key=lost.__getitem__), max(lost, key=lost.__getitem__)
    holds = all(rounds_to(lost[k], Decimal(n)) for k, n in zip((least, most), said, strict=True))
    outside = sum(not said[0] <= round(x) <= said[1] for x in lost.values())
    return Outcome(
        judge(holds),
        f"{said[0]} to {said[1]} points lost across subjects, over all methods",
        f"from {lost[least]} ({least[0]}, {least[1]}) to {lost[most]} ({most[0]}, {most[1]}); "
        f"{outside} of {len(lost)} lie outside",
        {"least": float(lost[least]), "most": float(lost[most]), "outside": outside},
    )


@check("app:cross_subject; tab:cross_subject")
def alignment_baseline(paper: Paper) -> Outcome:
    """Before alignment the model scores as in the table."""
    rows, sums = {}, True
    for method in ("Log-Euc", "BWSPD"):
        before, after, gain = paper.text(f"ea-{method.lower()}").numbers
        table = folds(paper)[method, "BCI2a"].number
        sums &= after - before == gain
        rows[method] = (before, table, after - before, after - table, f"{gain:+}")
    return Outcome(
        judge(sums and all(row[0] == row[1] for row in rows.values()), "cannot be both"),
        f"Euclidean alignment gains {told('{5}', rows, ' and ')} points on BCI2a",
        told(
            "{}: {} before alignment, {} in the table; gain {:+} from the one, {:+} from the other",
            rows,
            "; ",
        ),
        {"gains_add_up": sums},
    )


@check("app:cross_subject")
def across_ranges(paper: Paper) -> Outcome:
    """They are those of the means in the table."""
    rows, wrong = {}, []
    for data in DATA:
        said = paper.text(f"loso-range-{data.lower()}" + "-appendix" * (data == "BCI2a"))
        means = [cell.number for (_, d), cell in folds(paper).items() if d == data]
        low, high = min(means), max(means)
        if not (rounds_to(low, said.numbers[0]) and rounds_to(high, said.numbers[1])):
            wrong.append(data)
        rows[data] = (said.text, low, high)
    return Outcome(
        judge(not wrong), told("{} {} %", rows), told("{0} {2} to {3}", rows), {"wrong": wrong}
    )
