"""Methods of a study compared with one of them, by every test there is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._files import written_whole
from spdtokens.errors import StudyError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.difference_plots import critical_difference, paired_differences
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.statistics import Comparison, compare, effect_size, holm
from spdtokens.evaluation.summary import compare_trials, unit_scores


@dataclass(frozen=True)
class Comparisons:
    """Methods against a reference, on one data set under one protocol.

    Attributes
    ----------
    title, metric, reference : str
    over : str
        What scores are paired by: ``'subjects'`` or ``'folds'``.
    n : int
        How many.
    scores : dict of str to ndarray, shape (n,)
        Of every method, the reference included.
    methods : list of str
        All but the reference; the arrays below are in their order.
    differences, effects : ndarray, shape (methods,)
    p_values : dict of str to ndarray, shape (methods,)
        By test, Holm-corrected; NaN where a test was not used.
    no_p_because : dict of str to str
        Why a method has no p-value.
    """

    title: str
    metric: str
    reference: str
    over: str
    n: int
    scores: dict[str, NDArray[np.float64]]
    methods: list[str]
    differences: NDArray[np.float64]
    effects: NDArray[np.float64]
    p_values: dict[str, NDArray[np.float64]]
    no_p_because: dict[str, str]

    def values(self) -> dict[str, Any]:
        """As plain values; what is not known is None."""
        rows = [
            {
                "method": method,
                "difference": _plain(self.differences[i]),
                "effect": _plain(self.effects[i]),
                "p_values": {test: _plain(p[i]) for test, p in self.p_values.items()},
                "no_p_because": self.no_p_because.get(method),
            }
            for i, method in enumerate(self.methods)
        ]
        return {
            "title": self.title,
            "metric": self.metric,
            "reference": self.reference,
            "over": self.over,
            "n": self.n,
            "methods": rows,
        }


def comparisons(answer: Evaluation, reference: str | None = None) -> Comparisons:
    """Compare all methods of an answer with one of them, the first by default.

    Parameters
    ----------
    answer : Evaluation
        With runs of one method at least.
    reference : str, optional
        As tables show it.

    Raises
    ------
    StudyError
        If there is no such method, or it has no runs yet.
    """
    metric = answer.rows[0].metric
    over, scores = unit_scores(answer.results, metric)
    reference = reference or next(iter(scores))
    if reference not in answer.results:
        has = ", ".join(answer.results)
        raise StudyError(f"No method of the study is called {reference!r}. It has: {has}.")
    if reference not in scores:
        raise StudyError(f"{reference} has no runs yet, so nothing can be compared with it.")
    others = [name for name in scores if name != reference]
    base = scores[reference]
    tested = [_tested(answer.results, scores, name, reference, over, metric) for name in others]
    return Comparisons(
        title=_title(answer.question),
        metric=metric,
        reference=reference,
        over=over,
        n=len(base),
        scores=scores,
        methods=others,
        differences=np.array([_mean(scores[name] - base) for name in others]),
        effects=np.array([effect_size(scores[name], base) for name in others]),
        p_values=_corrected(tested),
        no_p_because={
            name: row[0].why_not for name, row in zip(others, tested, strict=True) if row[0].why_not
        },
    )


def _corrected(tested: Sequence[Sequence[Comparison]]) -> dict[str, NDArray[np.float64]]:
    """P-values of each test (methods,), NaN for methods that it was not used for."""
    found: dict[str, NDArray[np.float64]] = {}
    for column in zip(*tested, strict=True):
        p = holm([comparison.p_value for comparison in column])
        for test in dict.fromkeys(comparison.test for comparison in column):
            mine = [comparison.test == test for comparison in column]
            found[test] = np.where(mine, p, np.nan)
    return found


def _tested(
    results: Mapping[str, Sequence[RunResult]],
    scores: Mapping[str, NDArray[np.float64]],
    name: str,
    reference: str,
    over: str,
    metric: str,
) -> list[Comparison]:
    """A method against the reference, by every test that applies.

    Folds of one subject share training trials: tests that take them as independent mislead.
    """
    mine, theirs = scores[name], scores[reference]
    if over == "subjects":
        return [compare(mine, theirs, test) for test in ("paired_t", "wilcoxon", "permutation")]
    if len(mine) != 1:
        sizes = [(r.sizes["train"], r.sizes["test"]) for r in results[reference]]
        n_train, n_test = (round(float(np.mean(column))) for column in zip(*sizes, strict=True))
        test = "corrected_resampled_t"
        return [compare(mine, theirs, test, n_train=n_train, n_test=n_test)]
    (fold,) = set.intersection(*({_fold(r) for r in runs} for runs in results.values() if runs))
    one, other = ([r for r in results[who] if _fold(r) == fold] for who in (name, reference))
    return [compare_trials(one, other, metric)]


def _fold(result: RunResult) -> tuple[str, str]:
    return result.spec.subject, result.spec.fold


def _title(question: Question) -> str:
    """All that tells two questions of a study apart, but the selection."""
    options = [f"{name} {value}" for name, value in question.protocol_options.items()]
    aligned = [] if question.alignment == "none" else [f"{question.alignment} {question.domain}"]
    parts = [Path(question.dataset).name, question.protocol, *options, question.access, *aligned]
    return ", ".join(parts)


def write_figures(tables: Sequence[Comparisons], folder: Path) -> list[Path]:
    """Paired differences of each table, and ranks where there are subjects enough."""
    written: list[Path] = []
    for number, table in enumerate(tables, 1):
        known = np.isfinite(list(table.scores.values())).all(0)
        if not table.methods or known.sum() < 2:
            continue
        scores = {name: values[known] for name, values in table.scores.items()}
        figures = {
            "differences": paired_differences(
                scores, table.reference, metric=table.metric, over=table.over
            )
        }
        if table.over == "subjects" and len(scores) > 2:
            figures["ranks"] = critical_difference(scores, over=table.over)
        stem = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
        names = [f"{stem}-{kind}.png" for kind in figures]
        if {folder / name for name in names} & set(written):  # differ in the selection only
            names = [f"{stem}-{number}-{kind}.png" for kind in figures]
        for name, figure in zip(names, figures.values(), strict=True):
            with written_whole(folder / name) as temporary:
                figure.savefig(temporary, dpi=150)
            written.append(folder / name)
    return written


def _mean(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
