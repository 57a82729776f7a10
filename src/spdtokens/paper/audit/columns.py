"""Checks of columns and rows: means, differences, counts, what is quoted of them."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from spdtokens._tables import counted
from spdtokens.paper.audit.check import Check, Outcome, Paper, judge, labels, rounds_to
from spdtokens.paper.audit.sizes import SPLITS

DATA = tuple(split.data for split in SPLITS)
#: Tables with one row a subject, and their columns of accuracies.
COLUMNS = (("subjects", "Accuracy"), ("multiband", "Single-Token"), ("multiband", "Multi-Band"))
MULTIBAND = tuple(f"multiband-{data.lower()}" for data in DATA)
#: Those that print one token's accuracies again.
BY_SUBJECT = ("subjects-bcicha", "multiband-bcicha", "subjects-mamem", "multiband-mamem")


def _mean(values: list[Decimal]) -> Decimal:
    return sum(values, Decimal(0)) / len(values)


def _means(paper: Paper, table: str, column: str) -> Outcome:
    rows = {}
    for data in DATA:
        found = paper.table(f"{table}-{data.lower()}")
        mean = _mean([cell.number for cell in found.column(column)])
        rows[data] = (found.cell(found.overall, column).number, mean)
    # Rounded subjects move their mean by half a step at most.
    wrong = [data for data, (printed, mean) in rows.items() if not rounds_to(mean, printed, 0.005)]
    return Outcome(
        judge(not wrong),
        ", ".join(f"{data} {printed}" for data, (printed, _) in rows.items()),
        "mean of the column: "
        + ", ".join(f"{data} {mean:.2f}" for data, (_, mean) in rows.items()),
        {data: float(mean) for data, (_, mean) in rows.items()},
    )


def _same_run(paper: Paper) -> Outcome:
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
            s = max(differ, key=lambda s: differ[s])
            text += f" (most {s}: {pairs[s][0]} and {pairs[s][1]})"
        shown.append(text)
    return Outcome(
        judge(not any(row["differ"] for row in rows.values()), "cannot be both"),
        "two tables of the Log-Euclidean transformer, one token, the same five seeds",
        "; ".join(shown),
        rows,
    )


def _gains(paper: Paper) -> Outcome:
    wrong, n = [], 0
    for data in DATA:
        table = paper.table(f"multiband-{data.lower()}")
        for row in table.names:
            single, multi, gain = (
                table.cell(row, c).number for c in ("Single-Token", "Multi-Band", "Improvement")
            )
            n += 1
            if not rounds_to(multi - single, gain, 0.01):
                wrong.append(f"{data} {row}: {multi - single}")
    return Outcome(
        judge(not wrong),
        f"{n} differences between three bands and one",
        f"{n - len(wrong)} of {n} are what the columns give" + "".join(f"; {w}" for w in wrong),
        {"rows": n, "wrong": len(wrong)},
    )


def _improved(paper: Paper) -> Outcome:
    rows = {}
    for data in DATA:
        table = paper.table(f"multiband-{data.lower()}")
        gains = [cell.number for cell in table.column("Improvement")]
        equal_counts = data == "MAMEM"  # there the text says "or equal"
        found = sum(gain > 0 or (equal_counts and gain == 0) for gain in gains)
        rows[data] = (int(paper.text(f"improved-{data.lower()}").numbers[0]), found, len(gains))
    zero = sum(c.number == 0 for c in paper.table("multiband-bcicha").column("Improvement"))
    return Outcome(
        judge(all(printed == found for printed, found, _ in rows.values())),
        "subjects that gain: " + ", ".join(f"{d} {p} of {n}" for d, (p, _, n) in rows.items()),
        "counted: "
        + ", ".join(f"{d} {found} of {n}" for d, (_, found, n) in rows.items())
        + f"; {counted(zero, 'subject')} of BCIcha with +0.00",
        {data: found for data, (_, found, _) in rows.items()},
    )


def _headline(paper: Paper) -> Outcome:
    rows = {}
    for data in DATA:
        key = data.lower()
        best, multi, gain = (
            paper.text(f"abstract-{k}{key}").number for k in ("", "multiband-", "gain-")
        )
        rows[data] = (best, multi, gain)
    wrong = [data for data, (best, multi, gain) in rows.items() if multi - best != gain]
    return Outcome(
        judge(not wrong, "cannot be both"),
        "; ".join(
            f"{d} {best}, then {multi} ({gain:+})" for d, (best, multi, gain) in rows.items()
        ),
        ", ".join(f"{d} {multi - best:+}" for d, (best, multi, _) in rows.items()),
        {data: float(multi - best) for data, (best, multi, _) in rows.items()},
    )


def _caption(paper: Paper) -> Outcome:
    table = paper.table("multiband-bcicha")
    caption = paper.text("gain-bcicha-caption").number
    printed = table.cell(table.overall, "Improvement").number
    means = [_mean([c.number for c in table.column(k)]) for k in ("Single-Token", "Multi-Band")]
    return Outcome(
        judge(caption == printed, "cannot be both"),
        f"BCIcha gains {caption:+} in the caption of a table, {printed:+} in its last row and in "
        "the abstract",
        f"its columns average {means[0]:.2f} and {means[1]:.2f}: {means[1] - means[0]:+.2f}",
        {"difference_of_means": float(means[1] - means[0])},
    )


def _quoted(paper: Paper) -> Outcome:
    """Every accuracy of the abstract against three tables."""
    wrong, n = [], 0
    for data in DATA:
        key = data.lower()
        subjects = paper.table(f"subjects-{key}")
        multi = paper.table(f"multiband-{key}")
        said = paper.text(f"abstract-{key}").number
        places = {
            "all-subjects": (said, paper.cell("all-subjects", data, "Log-Euc").number),
            "subjects": (said, subjects.cell(subjects.overall, "Accuracy").number),
        }
        said = paper.text(f"abstract-multiband-{key}").number
        places["multiband"] = (said, paper.cell("multiband", data, "Multi-Band").number)
        places[f"multiband-{key}"] = (said, multi.cell(multi.overall, "Multi-Band").number)
        gain = paper.text(f"abstract-gain-{key}").number
        places["gain"] = (gain, paper.cell("multiband", data, "Improvement").number)
        n += len(places)
        wrong += [f"{data}, {where}: {a} and {b}" for where, (a, b) in places.items() if a != b]
    bn = paper.cell("bn-embed", "BCIcha (1596)", "Delta").number
    said = paper.text("abstract-bn").number
    n += 1
    if not rounds_to(bn, said):
        wrong.append(f"BN-Embed: {said} and {bn}")
    return Outcome(
        judge(not wrong),
        "accuracies and gains of the abstract",
        f"{n - len(wrong)} of {n} stand so in the tables" + "".join(f"; {w}" for w in wrong),
        {"values": n, "wrong": len(wrong)},
    )


def _above(paper: Paper) -> Outcome:
    rows = {}
    for data, limit, key in (("BCIcha", 90, "above-90-bcicha"), ("MAMEM", 98, "above-98-mamem")):
        table = paper.table(f"subjects-{data.lower()}")
        below = [s for s in table.subjects if table.cell(s, "Accuracy").number <= limit]
        rows[data] = (
            limit,
            int(paper.text(key).numbers[0]),
            len(table.subjects) - len(below),
            below,
        )
    return Outcome(
        judge(all(printed == found for _, printed, found, _ in rows.values())),
        ", ".join(f"{d}: {p} subjects above {limit} %" for d, (limit, p, _, _) in rows.items()),
        "; ".join(
            f"{d}: {found}, all but {', '.join(below) or 'none'}"
            for d, (_, _, found, below) in rows.items()
        ),
        {data: found for data, (_, _, found, _) in rows.items()},
    )


def _seed_42(paper: Paper, subject: str) -> Outcome:
    table = paper.table("subjects-bci2a")
    low, high = (table.cell(subject, c).number for c in ("Min", "Max"))
    value = paper.text(f"seed-42-{subject.lower()}").number
    return Outcome(
        judge(low <= value <= high, "cannot be both"),
        f"BCI2a {subject}: seed 42 with {value} in a figure; all five seeds from {low} to {high}",
        f"{low} <= {value} <= {high}: {'yes' if low <= value <= high else 'no'}",
        {"min": float(low), "value": float(value), "max": float(high)},
    )


def _over_tslr(paper: Paper) -> Outcome:
    printed = paper.text("tslr-gain").numbers
    found = [
        paper.cell("all-subjects", data, "Log-Euc").number
        - paper.cell("all-subjects", data, "TS+LR").number
        for data in DATA
    ]
    fits = all(rounds_to(f, p) for f, p in zip(found, printed, strict=True))
    return Outcome(
        judge(fits),
        f"points over TS+LR: {', '.join(f'{p:+}' for p in printed)}",
        ", ".join(f"{data} {gain:+}" for data, gain in zip(DATA, found, strict=True)),
        {data: float(gain) for data, gain in zip(DATA, found, strict=True)},
    )


def _perfect_seeds(paper: Paper) -> Outcome:
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


_SEEDS = "The same configuration and seeds give the same values."
CHECKS = [
    *(
        Check(
            f"mean-{table}-{column.lower()}",
            labels(*(f"{table}-{data.lower()}" for data in DATA)),
            "The overall row is the mean of its column.",
            partial(_means, table=table, column=column),
        )
        for table, column in COLUMNS
    ),
    Check("single-token-twice", labels(*BY_SUBJECT), _SEEDS, _same_run),
    Check("gains", labels(*MULTIBAND), "Gain is the difference of the two columns.", _gains),
    Check(
        "gains-counted",
        "sec:experiments; app:multi_band",
        "As many rows of the table gain.",
        _improved,
    ),
    Check("gain-caption", "tab:multiband_bcicha", "One table has one gain.", _caption),
    Check(
        "abstract-gain",
        "abstract",
        "A gain is the accuracy with three bands less that with one.",
        _headline,
    ),
    Check("abstract-quotes", "abstract", "They are the values of the tables.", _quoted),
    Check("subjects-above", "app:per_subject", "The table has as many such subjects.", _above),
    *(
        Check(
            f"seed-42-{subject.lower()}",
            "fig:confusion_matrices_key; tab:per_subject_log_euclidean",
            "A seed lies between the worst and the best.",
            partial(_seed_42, subject=subject),
        )
        for subject in ("S2", "S4")
    ),
    Check("over-tslr", "sec:experiments", "They are differences of the main table.", _over_tslr),
    Check(
        "depth-2-seeds", "tab:structure_ablation_depth", "Mean and spread agree.", _perfect_seeds
    ),
]
