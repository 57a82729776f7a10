"""What decides: a model of each of the best token methods, looked into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens.classifiers import TokenTransformerClassifier
from spdtokens.classifiers.explain import Explained, band_attention, channel_importance
from spdtokens.errors import UserError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult
from spdtokens.reporting.refit import median_run, refit

#: Methods of a section that are looked into: each costs the training of a run.
MOST = 3


@dataclass(frozen=True)
class Decision:
    """What one model decides by.

    Attributes
    ----------
    method : str
        As tables name it.
    run : RunResult
        As it is stored.
    names : tuple of str
        Of tokens: bands.
    importance : ndarray, shape (tokens, channels)
        See :func:`spdtokens.classifiers.explain.channel_importance`.
    attention : ndarray, shape (tokens, tokens), or None
        See :func:`spdtokens.classifiers.explain.band_attention`; None for one token.
    changed : int
        Test trials that the model refitted now puts into another class than the stored one.
    apart : float
        The largest difference of a probability between the two.
    """

    method: str
    run: RunResult
    names: tuple[str, ...]
    importance: NDArray[np.float64]
    attention: NDArray[np.float64] | None
    changed: int
    apart: float


@dataclass(frozen=True)
class Unexplained:
    """A method that was to be looked into and could not be, and why."""

    method: str
    reason: str


#: Told what is being done, line by line.
Tell = Callable[[str], None]


def decisions(answer: Evaluation, source: Source, tell: Tell) -> list[Decision | Unexplained]:
    """Look into the token methods of highest test score, one run of each."""
    found: list[Decision | Unexplained] = []
    chosen = best_token_methods(answer, source)
    for number, method in enumerate(chosen, 1):
        run = median_run(answer.results[method], answer.rows[0].metric)
        tell(f"What decides: refitting {method}, {told(run)} ({number} of {len(chosen)})")
        try:
            found.append(_decision(method, run, source))
        except UserError as error:
            found.append(Unexplained(method, str(error)))
    return found


def best_token_methods(answer: Evaluation, source: Source, most: int = MOST) -> list[str]:
    """Token methods by test score, the best first; honest ones before leaky ones."""
    rows = [
        row
        for row in answer.rows
        if np.isfinite(row.score)
        and isinstance(_last(source.estimator(answer.results[row.method][0].spec)), Explained)
    ]
    return [row.method for row in sorted(rows, key=lambda r: (bool(r.leaky), -r.score))[:most]]


def _last(estimator: BaseEstimator) -> BaseEstimator:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def told(run: RunResult) -> str:
    """Which run it is."""
    seed = "" if run.spec.seed is None else f", seed {run.spec.seed}"
    return f"subject {run.spec.subject}, fold {run.spec.fold}{seed}"


def _decision(method: str, run: RunResult, source: Source) -> Decision:
    again = refit(run, source)
    X = again.test.X
    importance = channel_importance(again.model, X)
    attends = isinstance(_last(again.model), TokenTransformerClassifier) and len(importance) > 1
    attention = band_attention(again.model, X) if attends else None
    return Decision(method, run, again.names, importance, attention, again.changed, again.apart)
