"""Comparison of the methods of a study with a reference method."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdtokens._files import written_whole
from spdtokens._tables import number, p_value, table
from spdtokens.errors import StudyError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.difference_plots import critical_difference, paired_differences
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.statistics import Comparison, compare, effect_size, holm
from spdtokens.evaluation.summary import compare_trials, unit_scores

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Comparisons:
    """Methods compared with a reference, on one data set under one protocol.

    Parameters
    ----------
    title, metric, reference : str
        Title of the question, name of the metric, title of the reference method.
    over : str
        Unit by which scores are paired: ``'subjects'`` or ``'folds'``.
    scores : DataFrame, shape (n, n_methods)
        Scores of every method, including the reference.
    frame : DataFrame
        One row per method other than the reference: ``difference``, ``effect``, and for each test
        the Holm-corrected p-value, NaN where the test was not used.
    no_p_because : dict of str to str
        Why a method has no p-value.
    """

    title: str
    metric: str
    reference: str
    over: str
    scores: pd.DataFrame
    frame: pd.DataFrame
    no_p_because: dict[str, str]

    @property
    def n(self) -> int:
        """Number of subjects or folds."""
        return len(self.scores)

    def values(self) -> dict[str, Any]:
        """Return plain values for JSON; unknown values are None."""
        known = self.frame.astype(object).where(np.isfinite(self.frame), None)
        rows = [
            {
                "method": name,
                "difference": row.pop("difference"),
                "effect": row.pop("effect"),
                "p_values": row,  # the other columns
                "no_p_because": self.no_p_because.get(str(name)),
            }
            for name, row in known.to_dict("index").items()
        ]
        about = {name: getattr(self, name) for name in ("title", "metric", "reference", "over")}
        return about | {"n": self.n, "methods": rows}


def comparisons(answer: Evaluation, reference: str | None = None) -> Comparisons:
    """Compare all methods of an evaluation with one of them.

    Parameters
    ----------
    answer : Evaluation
        Evaluation with runs of at least one method.
    reference : str, default=None
        Title of the reference method. None selects the first one.

    Raises
    ------
    StudyError
        If there is no such method, or it has no runs yet.
    """
    import pandas as pd  # slow to import

    metric = answer.rows[0].metric
    over, found = unit_scores(answer.results, metric)
    scores = pd.DataFrame(found)
    reference = reference or scores.columns[0]
    if reference not in answer.results:
        has = ", ".join(answer.results)
        raise StudyError(f"reference must be a method of the study ({has}), got {reference!r}.")
    if reference not in scores:
        raise StudyError(f"The reference {reference} has no runs yet.")
    others = scores.columns.drop(reference)
    tested = [_tested(answer.results, scores[[name, reference]], over, metric) for name in others]
    columns: dict[str, Any] = {
        "difference": scores[others].sub(scores[reference], axis=0).mean().to_numpy(),
        "effect": [effect_size(scores[name], scores[reference]) for name in others],
    }
    for column in zip(*tested, strict=True):
        p = holm([comparison.p_value for comparison in column])
        for test in dict.fromkeys(comparison.test for comparison in column):
            columns[test] = np.where([c.test == test for c in column], p, np.nan)
    return Comparisons(
        title=_title(answer.question),
        metric=metric,
        reference=reference,
        over=over,
        scores=scores,
        frame=pd.DataFrame(columns, index=others, dtype=float),
        no_p_because={
            name: row[0].why_not for name, row in zip(others, tested, strict=True) if row[0].why_not
        },
    )


def _tested(
    results: Mapping[str, Sequence[RunResult]], scores: pd.DataFrame, over: str, metric: str
) -> list[Comparison]:
    """Compare a method with the reference by every test that applies.

    Folds of one subject share training trials: tests that assume independence do not apply.
    """
    mine, theirs = (scores[name] for name in scores)
    if over == "subjects":
        return [compare(mine, theirs, test) for test in ("paired_t", "wilcoxon", "permutation")]
    if len(mine) != 1:
        sizes = [(r.sizes["train"], r.sizes["test"]) for r in results[scores.columns[1]]]
        n_train, n_test = np.mean(sizes, axis=0).round().astype(int)
        test = "corrected_resampled_t"
        return [compare(mine, theirs, test, n_train=n_train, n_test=n_test)]
    places = ({(r.spec.subject, r.spec.fold) for r in runs} for runs in results.values() if runs)
    (place,) = set.intersection(*places)
    one, other = (
        [r for r in results[name] if (r.spec.subject, r.spec.fold) == place] for name in scores
    )
    return [compare_trials(one, other, metric)]


def _title(question: Question) -> str:
    """Data set, protocol with options, access and alignment; not the selection."""
    values = question.protocol_options.items()
    # Of names of subjects, the number: the title is part of file names.
    options = [f"{name} {len(v) if isinstance(v, list | tuple) else v}" for name, v in values]
    aligned = [] if question.alignment == "none" else [f"{question.alignment} {question.domain}"]
    parts = [Path(question.dataset).name, question.protocol, *options, question.access, *aligned]
    return ", ".join(parts)


def comparison_table(found: Comparisons) -> Table:
    """One row per method: difference to the reference, effect size and p-values."""
    over = found.over if found.n != 1 else found.over.removesuffix("s")
    tests = [test.replace("_", " ") for test in found.frame.columns[2:]]
    missing = "".join(f" No p for {name}: {why}." for name, why in found.no_p_because.items())
    return table(
        ["method", ">difference", ">g", *(f">{test}" for test in tests)],
        [
            (name, number(row.iloc[0], "+.3f"), number(row.iloc[1], "+.2f"), *map(p_value, row[2:]))
            for name, row in found.frame.iterrows()
        ],
        f"{found.title}: difference to {found.reference}",
        f"{METRICS[found.metric].title.capitalize()} over {found.n} {over}; g: Hedges' g of the "
        "paired differences; p-values Holm-corrected over methods (permutation: sign flips; "
        f"McNemar's exact test and trial permutation: over trials).{missing}",
    )


def difference_figures(
    scores: pd.DataFrame, reference: str, metric: str, over: str
) -> dict[str, Figure]:
    """Draw paired differences to the reference, and ranks of three or more methods over subjects.

    Scores must be complete, of at least two units.
    """
    values = {str(name): column.to_numpy() for name, column in scores.items()}
    figures = {"differences": paired_differences(values, reference, metric=metric, over=over)}
    if over == "subjects" and len(values) > 2:
        figures["ranks"] = critical_difference(values, over=over)
    return figures


def write_figures(tables: Sequence[Comparisons], folder: Path) -> list[Path]:
    """Write the figures of each comparison as PNG files."""
    written: list[Path] = []
    for place, found in enumerate(tables, 1):
        scores = found.scores.dropna()
        if min(scores.shape) < 2:
            continue
        stem = re.sub(r"[^a-z0-9]+", "-", found.title.lower()).strip("-")
        if folder / f"{stem}-differences.png" in written:  # they differ in the selection only
            stem = f"{stem}-{place}"
        figures = difference_figures(scores, found.reference, found.metric, found.over)
        for kind, figure in figures.items():
            path = folder / f"{stem}-{kind}.png"
            with written_whole(path) as temporary:
                figure.savefig(temporary, dpi=150)
            written.append(path)
    return written
