"""Methods of a study compared with one of them, by every test there is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._files import written_whole
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.difference_plots import critical_difference, paired_differences
from spdtokens.evaluation.statistics import compare, effect_size, holm
from spdtokens.evaluation.summary import unit_scores
from spdtokens.study.errors import StudyError


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
        By test, Holm-corrected.
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

    def values(self) -> dict[str, Any]:
        """As plain values; what is not known is None."""
        rows = [
            {
                "method": method,
                "difference": _plain(self.differences[i]),
                "effect": _plain(self.effects[i]),
                "p_values": {test: _plain(p[i]) for test, p in self.p_values.items()},
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


def comparisons(answer: Evaluation, reference: str | None) -> Comparisons:
    """Compare all methods of an answer with one of them, the first by default.

    Raises
    ------
    StudyError
        If there is no such method.
    """
    metric = answer.rows[0].metric
    over, scores = unit_scores(answer.results, metric)
    reference = reference or next(iter(scores))
    if reference not in scores:
        raise StudyError(f"No method is called {reference!r}. There are: {', '.join(scores)}.")
    others = [name for name in scores if name != reference]
    base = scores[reference]
    question = answer.question
    p_values = {
        test: holm([compare(scores[name], base, test).p_value for name in others])
        for test in _tests(over)
    }
    if over == "folds":
        sizes = [(r.sizes["train"], r.sizes["test"]) for r in answer.results[reference]]
        n_train, n_test = (round(float(np.mean(column))) for column in zip(*sizes, strict=True))
        found = [
            compare(scores[o], base, "corrected_resampled_t", n_train=n_train, n_test=n_test)
            for o in others
        ]
        p_values["corrected_resampled_t"] = holm([one.p_value for one in found])
    return Comparisons(
        title=f"{Path(question.dataset).name}, {question.protocol}, {question.access}",
        metric=metric,
        reference=reference,
        over=over,
        n=len(base),
        scores=scores,
        methods=others,
        differences=np.array([np.nanmean(scores[name] - base) for name in others]),
        effects=np.array([effect_size(scores[name], base) for name in others]),
        p_values=p_values,
    )


def _tests(over: str) -> tuple[str, ...]:
    """Folds of one subject share training trials: tests that take them as independent mislead."""
    return ("paired_t", "wilcoxon", "permutation") if over == "subjects" else ()


def write_figures(tables: list[Comparisons], folder: Path) -> list[Path]:
    """Paired differences of each table, and ranks where there are subjects enough."""
    written = []
    for table in tables:
        name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
        if not table.methods or table.n < 2:
            continue
        figures = {
            "differences": paired_differences(
                table.scores, table.reference, metric=table.metric, over=table.over
            )
        }
        if table.over == "subjects" and len(table.scores) > 2:
            figures["ranks"] = critical_difference(table.scores, over=table.over)
        for kind, figure in figures.items():
            path = folder / f"{name}-{kind}.png"
            with written_whole(path) as temporary:
                figure.savefig(temporary, dpi=150)
            written.append(path)
    return written


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
