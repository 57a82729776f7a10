"""Scores of methods subject by subject, or by what else they can be looked at one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spdtokens.evaluation.runs import RunResult, RunSpec

#: The name, among seeds, of runs of methods without chance in them.
NO_SEED = "no seed"

Scores = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Units:
    """Scores of every method on each subject.

    Attributes
    ----------
    over : str
        What the units are: ``'subjects'``, ``'folds'`` of one subject, or ``'seeds'`` of one fold.
    names : tuple of str
    test, train : dict of str to ndarray, shape (n,)
        Mean over seeds, then folds; NaN where a method has no run.
    """

    over: str
    names: tuple[str, ...]
    test: Scores
    train: Scores

    @property
    def paired(self) -> bool:
        """Whether a unit is the same test for every method; a seed is not."""
        return self.over != "seeds"

    def complete(self) -> Scores:
        """Test scores of the units of which every method has one."""
        table = np.array(list(self.test.values()))
        known = np.isfinite(table).all(0)
        return {name: row[known] for name, row in self.test.items()}


def units_of(results: Mapping[str, Sequence[RunResult]], metric: str) -> Units:
    """Subjects if there are several, else folds, else seeds.

    Parameters
    ----------
    results : mapping of str to sequence of RunResult
        Of each method, of one data set under one protocol; at least one has a run.
    metric : str
    """
    results = {name: runs for name, runs in results.items() if runs}
    specs = [run.spec for runs in results.values() for run in runs]
    n_subjects = len({spec.subject for spec in specs})
    n_folds = len({(spec.subject, spec.fold) for spec in specs})
    over = "subjects" if n_subjects > 1 else "folds" if n_folds > 1 else "seeds"
    name = _NAMES[over]
    names = tuple(dict.fromkeys(name(spec) for spec in specs))

    def scores(part: str) -> Scores:
        return {
            method: np.array([_score(runs, unit, name, part, metric) for unit in names])
            for method, runs in results.items()
        }

    return Units(over, names, scores("test"), scores("train"))


_NAMES: dict[str, Callable[[RunSpec], str]] = {
    "subjects": lambda spec: spec.subject,
    "folds": lambda spec: spec.fold,
    "seeds": lambda spec: NO_SEED if spec.seed is None else str(spec.seed),
}


def _score(
    runs: Sequence[RunResult], unit: str, name: Callable[[RunSpec], str], part: str, metric: str
) -> float:
    folds: dict[str, list[float]] = {}
    for run in runs:
        value = getattr(run, part).get(metric, np.nan)
        if name(run.spec) == unit and np.isfinite(value):
            folds.setdefault(run.spec.fold, []).append(value)
    means = [np.mean(values) for values in folds.values()]
    return float(np.mean(means)) if means else float("nan")
