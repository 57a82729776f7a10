"""How many weights methods have on a data set."""

from __future__ import annotations

from spdtokens.data import Dataset
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.runs import RunSpec
from spdtokens.models.networks import TrialShape
from spdtokens.report.refit import token_names
from spdtokens.signal.covariance import PROTOTYPES
from spdtokens.training.methods import Settings, get_method


def parameters_of(answer: Evaluation, dataset: Dataset) -> dict[str, int]:
    """Weights of every method that has runs and a fixed number of weights."""
    first = {name: runs[0].spec for name, runs in answer.results.items() if runs}
    counts = {name: _count(spec, dataset) for name, spec in first.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _count(spec: RunSpec, dataset: Dataset) -> int | None:
    """None for a method without a fixed number, or one that cannot be built here."""
    method, settings = get_method(spec.method), Settings(**spec.settings)
    if method.parameters is None or method.why_not(dataset) is not None:
        return None
    n_chans, n_classes = len(dataset.ch_names), len(dataset.classes)
    if method.input == "raw":
        assert dataset.sfreq is not None
        left, right = dataset.window
        n_times = round((right - left) * dataset.sfreq)
        shape = TrialShape(n_chans, n_classes, n_times, dataset.sfreq)
    else:
        if not dataset.is_covariance and method.covariance_for(dataset, settings) in PROTOTYPES:
            return None  # the size of its matrices is known only after fitting
        shape = TrialShape(n_chans, n_classes, n_tokens=len(token_names(spec, dataset, settings)))
    return method.parameters(shape, settings.resolved_preset().config)
