"""Explanations of the models of a study: importance of channels and bands, number of weights."""

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
from spdtokens.evaluation.execute import balanced, open_run
from spdtokens.evaluation.plan import Source, split_front
from spdtokens.evaluation.runs import RunResult
from spdtokens.geometry import TokenEmbedding, token_dim
from spdtokens.preprocessing import FilterBankCovariances, StandardTrials
from spdtokens.preprocessing.bands import plan_tokens, resolve_windows
from spdtokens.runtime.threads import one_thread

#: Methods explained per section; each costs the training of one run.
MOST = 3
#: Called with a line of text before each step that takes long.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Decision:
    """Explanation of one model.

    Parameters
    ----------
    method : str
        Title of the method.
    run : RunResult
        The stored run.
    names : tuple of str
        Names of the tokens: bands.
    importance : ndarray, shape (n_tokens, n_channels)
        See :func:`spdtokens.classifiers.explain.channel_importance`.
    attention : ndarray, shape (n_tokens, n_tokens), or None
        See :func:`spdtokens.classifiers.explain.band_attention`; None for one token.
    changed : int
        Number of test trials for which the refitted model predicts another class.
    """

    method: str
    run: RunResult
    names: tuple[str, ...]
    importance: NDArray[np.float64]
    attention: NDArray[np.float64] | None
    changed: int


def decisions(
    answer: Evaluation, source: Source, tell: Tell
) -> tuple[tuple[Decision, ...], dict[str, str]]:
    """Explain the token methods with the highest test scores, one run of each.

    Also return why others of them cannot be explained, by method.
    """
    found, failed = [], {}
    chosen = best_token_methods(answer, source)
    for number, method in enumerate(chosen, 1):
        run = median_run(answer.results[method], answer.rows[0].metric)
        tell(f"Channel importance: refitting {method}, {told(run)} ({number} of {len(chosen)})")
        try:
            found.append(_decision(method, run, source))
        except UserError as error:
            failed[method] = str(error)
    return tuple(found), failed


def best_token_methods(answer: Evaluation, source: Source) -> list[str]:
    """List the token methods with the highest test scores, the best first; leaky ones last."""
    rows = [
        row
        for row in answer.rows
        if np.isfinite(row.score)
        and isinstance(_steps(source.estimator(answer.results[row.method][0].spec))[-1], Explained)
    ]
    return [row.method for row in sorted(rows, key=lambda r: (bool(r.leaky), -r.score))[:MOST]]


def median_run(runs: Sequence[RunResult], metric: str) -> RunResult:
    """Return the first run of the subject with the median score (the lower one of two)."""
    import pandas as pd

    scores = pd.Series([run.test.get(metric, np.nan) for run in runs])
    means = scores.groupby([run.spec.subject for run in runs], sort=False).mean()
    middle = means.sort_values(kind="stable").index[(len(means) - 1) // 2]
    return next(run for run in runs if run.spec.subject == middle)


def told(run: RunResult) -> str:
    """Name a run by subject, fold and seed."""
    seed = "" if run.spec.seed is None else f", seed {run.spec.seed}"
    return f"subject {run.spec.subject}, fold {run.spec.fold}{seed}"


def _decision(method: str, run: RunResult, source: Source) -> Decision:
    """Refit a run of a token method, and explain the model.

    On the same machine, with the same code, the model is identical bit by bit. The report counts
    the predictions that differ.
    """
    estimator = source.estimator(run.spec)
    with one_thread():  # as in the study
        opened = open_run(run.spec, source, estimator)
        _, rest = split_front(estimator)
        model = with_seed(rest, run.spec.seed)
        fit_together([model], [opened.data], [opened.params(rest)])
        X = opened.X["test"]
        p = balanced(model.predict_proba(X), opened, run.spec, model)
    importance = channel_importance(model, X)
    attends = isinstance(_steps(model)[-1], TokenTransformerClassifier) and len(importance) > 1
    return Decision(
        method,
        run,
        matrix_names(estimator, opened.trials.dataset),
        importance,
        band_attention(model, X) if attends else None,
        int((p.argmax(1) != run.probabilities.argmax(1)).sum()),
    )


def matrix_names(estimator: BaseEstimator, dataset: Dataset) -> tuple[str, ...]:
    """Name the matrices of a run by band and window; one name if the data are matrices."""
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
    """Count the weights of every method for which the number is fixed."""
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
    """Build the untrained network; None without one, or if only fitting tells its size."""
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
