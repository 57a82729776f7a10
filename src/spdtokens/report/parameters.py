"""How many weights methods have on a data set."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.transformer import TokenNetworkClassifier
from spdtokens.data import Dataset
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Source
from spdtokens.models.networks import NETWORKS, TrialShape
from spdtokens.report.refit import matrix_names
from spdtokens.spd import token_dim


def parameters_of(answer: Evaluation, source: Source, dataset: Dataset) -> dict[str, int]:
    """Weights of every method that has runs and a fixed number of weights."""
    first = {name: runs[0].spec for name, runs in answer.results.items() if runs}
    counts = {name: _count(source.estimator(spec), dataset) for name, spec in first.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _count(estimator: BaseEstimator, dataset: Dataset) -> int | None:
    """None for a method without a fixed number, or one that is known only after fitting."""
    steps = [s for _, s in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    last, n_chans, n_classes = steps[-1], len(dataset.ch_names), len(dataset.classes)
    if getattr(steps[0], "needs_labels", False):
        return None
    if isinstance(last, NetworkClassifier) and NETWORKS[last.network].input == "raw":
        assert dataset.sfreq is not None
        left, right = dataset.window
        n_times = round((right - left) * dataset.sfreq)
        shape = TrialShape(n_chans, n_classes, n_times, dataset.sfreq)
        module = NETWORKS[last.network].build(shape)
    elif isinstance(last, NetworkClassifier | TokenNetworkClassifier):
        n_tokens = len(matrix_names(estimator, dataset))
        if isinstance(last, NetworkClassifier):
            shape = TrialShape(n_chans, n_classes, n_tokens=n_tokens)
            module = NETWORKS[last.network].build(shape)
        else:
            module = last._module(token_dim(n_chans), n_tokens, n_classes)
    else:
        return None
    return sum(p.numel() for p in module.parameters())
