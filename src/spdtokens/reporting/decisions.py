"""Models of a study looked into: how many weights they have, and what they decide by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import nn

from spdtokens.classifiers import Recentring, TokenTransformerClassifier, fit_together
from spdtokens.classifiers.explain import Explained, band_attention, channel_importance
from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.nn.networks import NETWORKS, TrialShape
from spdtokens.classifiers.transformer import TokenNetworkClassifier
from spdtokens.datasets import Dataset
from spdtokens.errors import UserError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.estimators import steps_of, with_seed
from spdtokens.evaluation.execute import open_run
from spdtokens.evaluation.plan import Source, split_front
from spdtokens.evaluation.runs import RunResult
from spdtokens.geometry import TokenEmbedding, token_dim
from spdtokens.preprocessing import FilterBankCovariances, StandardTrials
from spdtokens.preprocessing.bands import plan_tokens, resolve_windows
from spdtokens.runtime.threads import one_thread

#: Methods of a section that are looked into: each costs the training of a run.
MOST = 3
#: Told what is being done, line by line.
Tell = Callable[[str], None]


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
        and isinstance(_steps(source.estimator(answer.results[row.method][0].spec))[-1], Explained)
    ]
    return [row.method for row in sorted(rows, key=lambda r: (bool(r.leaky), -r.score))[:most]]


def median_run(runs: Sequence[RunResult], metric: str) -> RunResult:
    """The first run of the subject in the middle: half of the others score better, half worse.

    Of an even number of subjects the lower of the two in the middle.
    """
    scores: dict[str, list[float]] = {}
    for run in runs:
        scores.setdefault(run.spec.subject, []).append(run.test.get(metric, np.nan))
    order = sorted(scores, key=lambda subject: float(np.mean(scores[subject])))
    middle = order[(len(order) - 1) // 2]
    return next(run for run in runs if run.spec.subject == middle)


def told(run: RunResult) -> str:
    """Which run it is."""
    seed = "" if run.spec.seed is None else f", seed {run.spec.seed}"
    return f"subject {run.spec.subject}, fold {run.spec.fold}{seed}"


def _decision(method: str, run: RunResult, source: Source) -> Decision:
    model, X, names = refit(run, source)
    with one_thread():
        p = model.predict_proba(X)
    importance = channel_importance(model, X)
    attends = isinstance(_steps(model)[-1], TokenTransformerClassifier) and len(importance) > 1
    return Decision(
        method,
        run,
        names,
        importance,
        band_attention(model, X) if attends else None,
        int((p.argmax(1) != run.probabilities.argmax(1)).sum()),
        float(np.abs(p - run.probabilities).max()),
    )


def refit(
    run: RunResult, source: Source
) -> tuple[BaseEstimator, NDArray[np.float64], tuple[str, ...]]:
    """Train a run of a token method again: the model, its test trials and the names of its bands.

    On the same machine, with the same code, the model is the same bit by bit; whether its
    predictions are is counted, not taken for granted.
    """
    estimator = source.estimator(run.spec)
    # In the order of one thread, as the study did.
    with one_thread():
        opened = open_run(run.spec, source, estimator)
        _, rest = split_front(estimator)
        model = with_seed(rest, run.spec.seed)
        fit_together([model], [opened.data], [opened.params(rest)])
    return model, opened.X["test"], matrix_names(estimator, opened.trials.dataset)


def matrix_names(estimator: BaseEstimator, dataset: Dataset) -> tuple[str, ...]:
    """What the matrices of a run are; of a data set of matrices only that they are matrices."""
    first = next(steps_of(estimator))
    if dataset.is_covariance or not isinstance(first, FilterBankCovariances):
        return ("all bands",)
    windows = resolve_windows(first.windows, *dataset.window)
    plan = plan_tokens(
        sfreq=first.sfreq,
        n_samples=round((max(right for _, right in windows) - first.tmin) * first.sfreq),
        bands=first.bands,
        windows=windows,
        tmin=first.tmin,
        stimulus_hz=first.stimulus_hz,
    )
    return tuple(plan.names)


# ------------------------------------------------------------------ weights


def parameters_of(answer: Evaluation, source: Source, dataset: Dataset) -> dict[str, int]:
    """Weights of every method that has runs and a fixed number of weights."""
    first = {name: runs[0].spec for name, runs in answer.results.items() if runs}
    modules = {name: _module(source.estimator(spec), dataset) for name, spec in first.items()}
    return {
        name: sum(p.numel() for p in module.parameters())
        for name, module in modules.items()
        if module is not None
    }


def _steps(estimator: BaseEstimator) -> list[BaseEstimator]:
    pipeline = isinstance(estimator, Pipeline)
    return [step for _, step in estimator.steps] if pipeline else [estimator]


def _module(estimator: BaseEstimator, dataset: Dataset) -> nn.Module | None:
    """The network, not trained; None without one, or if its size is known only after fitting."""
    *before, last = _steps(estimator)
    n_classes, rows = len(dataset.classes), len(dataset.ch_names)
    if not isinstance(last, NetworkClassifier | TokenNetworkClassifier):
        return None
    if isinstance(last, NetworkClassifier) and NETWORKS[last.network].input == "raw":
        match before:
            case [StandardTrials(windows=[(left, right)], sfreq=sfreq)] if last.sfreq is not None:
                shape = TrialShape(rows, n_classes, round((right - left) * sfreq), last.sfreq)
                return NETWORKS[last.network].build(shape)
        return None
    for step in before:
        if isinstance(step, FilterBankCovariances) and not step.needs_labels:
            rows *= 1 + len(step.delays)
        elif not isinstance(step, Recentring):
            return None
    n_matrices = len(matrix_names(estimator, dataset))
    if isinstance(last, NetworkClassifier):
        return NETWORKS[last.network].build(TrialShape(rows, n_classes, n_tokens=n_matrices))
    if last.embedding is None:
        return None
    embedding = last.embedding
    if not isinstance(embedding, TokenEmbedding):
        embedding = TokenEmbedding(embedding)
    return last._module(token_dim(rows), n_matrices * len(embedding.names), n_classes)
