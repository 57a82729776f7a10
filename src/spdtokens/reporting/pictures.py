"""Which figures a section has.

Adding a kind is a function from :class:`~spdtokens.reporting.facts.Facts` to a
:class:`~spdtokens.reporting.picture.Group`, or None where it does not apply, and its place in
:data:`GROUPS`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spdtokens._tables import counted
from spdtokens.evaluation.difference_plots import critical_difference, paired_differences
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.show import PERCENT
from spdtokens.evaluation.statistics import rank_methods
from spdtokens.reporting.deciding import what_decides
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.figures import MOST_NAMED, dots, train_against_test, width
from spdtokens.reporting.numbers import difference_text, metric_title, said
from spdtokens.reporting.picture import Group, Picture
from spdtokens.reporting.small import confusion, confusion_figure, curve, curve_limits, curves

#: Beyond so many methods a diagram of ranks cannot be read.
MOST_RANKED = 20


def scores(facts: Facts) -> Group | None:
    """Subject by subject, and train against test."""
    if not np.isfinite([row.score for row in facts.rows]).any():
        return None
    units, metric = facts.units, facts.metric
    one = units.over.removesuffix("s")
    means = "; ".join(f"{row.method} {said(row.score, metric)}" for row in facts.rows)
    joined = f" Lines join the scores of each {one}." if units.paired else ""
    n = len(units.names)
    title = METRICS[metric].title
    marks = "" if len(facts.rows) <= MOST_NAMED else ", as in the dot plot"
    apart = "; ".join(
        f"{row.method} {said(row.train_score, metric)} and {said(row.score, metric)}"
        for row in facts.rows
    )
    return Group(
        "Scores",
        (
            Picture(
                dots(facts),
                f"Dot plot of test {title} for each of {counted(n, one)}. Means: {means}.",
                f"One dot a {one}, the best method on top.{joined}",
            ),
            Picture(
                train_against_test(facts),
                f"Scatter of train against test {title}, a point for each method and {one}. Mean "
                f"train and test: {apart}.",
                f"One mark a method and {one}{marks}. On the diagonal a method scores on new "
                "trials as on those it was trained on; the distance below it is memorised.",
            ),
        ),
    )


def differences(facts: Facts) -> Group | None:
    """Paired differences to the reference, and ranks."""
    complete = facts.units.complete()
    n = len(next(iter(complete.values())))
    if not facts.units.paired or len(complete) < 2 or n < 2:
        return None
    over, reference = facts.units.over, facts.rows[0].method
    base = complete[reference]
    told = "; ".join(
        f"{name} {difference_text(float(np.mean(values - base)), facts.metric)}"
        for name, values in complete.items()
        if name != reference
    )
    caveat = "" if over == "subjects" else " Folds share training trials: intervals are too narrow."
    scale = 100 if facts.metric in PERCENT else 1
    scaled = {name: scale * values for name, values in complete.items()}
    metric = metric_title(facts.metric)
    figure = paired_differences(scaled, reference, metric=metric, over=over)
    figure.set_size_inches(width(complete), figure.get_figheight())  # of a phone, not of a paper
    pictures = [
        Picture(
            figure,
            f"Differences of {metric} to {reference} on each of {n} {over}. Means: {told}.",
            f"Difference to {reference} on each of the {over}, its mean and 95 % interval, not "
            f"corrected for the number of methods.{caveat}",
        )
    ]
    if over == "subjects" and 2 < len(complete) <= MOST_RANKED:
        ranking = rank_methods(complete)
        ranks = "; ".join(
            f"{name} {rank:.2f}" for name, rank in zip(ranking.names, ranking.ranks, strict=True)
        )
        pictures.append(
            Picture(
                critical_difference(complete, over=over),
                f"Critical difference diagram. Average ranks over {n} subjects: {ranks}.",
                "Average ranks; methods joined by a bar are not told apart (Friedman, Nemenyi).",
            )
        )
    return Group("Differences", tuple(pictures))


def training(facts: Facts) -> Group | None:
    """Curves of methods that have some."""
    results = {name: runs for name, runs in facts.answer.results.items() if runs}
    pictures = []
    for what in ("accuracy", "loss"):
        limits = curve_limits(results.values(), what)
        for name, runs in results.items() if limits else ():
            table = curve(runs, f"train {what}")
            if not table.size or limits is None:
                continue
            ends = [f"train {what} ends at {np.nanmean(table[:, -1]):.3f}"]
            other = curve(runs, f"validation {what}")
            if other.size:
                ends.append(f"validation {what} at {np.nanmean(other[:, -1]):.3f}")
            label = f"Training curve of {name}, mean of {counted(len(table), 'run')}: "
            pictures.append(
                Picture(
                    curves(runs, what, limits), label + ", ".join(ends) + ".", f"{name}: {what}"
                )
            )
    if not pictures:
        return None
    return Group(
        "Training curves",
        tuple(pictures),
        "Mean over runs, with a band of one standard deviation. Train: of the batches as they were "
        "trained on, with dropout. Dotted: the epoch whose weights were kept, median over runs.",
        small=True,
    )


def confusions(facts: Facts) -> Group:
    """Which class is taken for which, by method."""
    pictures = []
    for row in facts.rows:
        shares = confusion(facts.answer.results[row.method])
        told = "; ".join(
            f"{name} {100 * shares[i, i]:.0f} % right" for i, name in enumerate(facts.classes)
        )
        figure = confusion_figure(shares, facts.classes)
        pictures.append(Picture(figure, f"Confusion matrix of {row.method}: {told}.", row.method))
    return Group(
        "Confusion matrices",
        tuple(pictures),
        "Percent of each true class; all test trials of all folds and seeds.",
        small=True,
    )


#: In the order of a section.
GROUPS: list[Callable[[Facts], Group | None]] = [
    scores,
    differences,
    what_decides,
    training,
    confusions,
]


def groups(facts: Facts) -> list[Group]:
    """All figures that apply to a question."""
    return [group for make in GROUPS if (group := make(facts)) is not None]
