"""How many weights methods have on a data set."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import nn

from spdtokens.classifiers import Recentring
from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.nn.networks import NETWORKS, TrialShape
from spdtokens.classifiers.transformer import TokenNetworkClassifier
from spdtokens.datasets import Dataset
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Source
from spdtokens.geometry import TokenEmbedding, token_dim
from spdtokens.preprocessing import FilterBankCovariances, StandardTrials
from spdtokens.reporting.refit import matrix_names


def parameters_of(answer: Evaluation, source: Source, dataset: Dataset) -> dict[str, int]:
    """Weights of every method that has runs and a fixed number of weights."""
    first = {name: runs[0].spec for name, runs in answer.results.items() if runs}
    modules = {name: _module(source.estimator(spec), dataset) for name, spec in first.items()}
    return {
        name: sum(p.numel() for p in module.parameters())
        for name, module in modules.items()
        if module is not None
    }


def _module(estimator: BaseEstimator, dataset: Dataset) -> nn.Module | None:
    """The network, not trained; None without one, or if its size is known only after fitting."""
    *before, last = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    if not isinstance(last, NetworkClassifier | TokenNetworkClassifier):
        return None
    n_classes = len(dataset.classes)
    if isinstance(last, NetworkClassifier) and NETWORKS[last.network].input == "raw":
        n_times = _samples(before)
        if n_times is None or last.sfreq is None:
            return None
        shape = TrialShape(len(dataset.ch_names), n_classes, n_times, last.sfreq)
        return NETWORKS[last.network].build(shape)
    rows = _rows(before, dataset)
    if rows is None:
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


def _samples(before: list[BaseEstimator]) -> int | None:
    """Samples of a trial as the steps leave it, if they say so."""
    match before:
        case [StandardTrials(windows=[(left, right)], sfreq=sfreq)]:
            return round((right - left) * sfreq)
    return None


def _rows(before: list[BaseEstimator], dataset: Dataset) -> int | None:
    """Rows of a matrix as the steps leave it, if they are ours and need not be fitted."""
    rows = len(dataset.ch_names)
    for step in before:
        if isinstance(step, FilterBankCovariances) and not step.needs_labels:
            rows *= 1 + len(step.delays)
        elif not isinstance(step, Recentring):
            return None
    return rows
