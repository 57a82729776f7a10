"""One run of a study done again, to look into its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from spdtokens.classifiers import fit_together
from spdtokens.datasets import Dataset
from spdtokens.evaluation.estimators import steps_of, with_seed
from spdtokens.evaluation.execute import open_run
from spdtokens.evaluation.plan import Part, Source, split_front
from spdtokens.evaluation.runs import RunResult
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.bands import plan_tokens, resolve_windows
from spdtokens.runtime.threads import one_thread


@dataclass(frozen=True)
class Refitted:
    """A run's model, trained again.

    Attributes
    ----------
    model : estimator
    test : Part
        Test trials as the model takes them.
    names : tuple of str
        What its tokens are: bands.
    changed : int
        Test trials whose predicted class differs from the stored one.
    apart : float
        The largest difference of a probability to the stored one.
    """

    model: BaseEstimator
    test: Part
    names: tuple[str, ...]
    changed: int
    apart: float


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


def refit(run: RunResult, source: Source) -> Refitted:
    """Train a run of a token method again, with its own trials and seed.

    On the same machine, with the same code, the model is the same bit by bit; whether its
    predictions are is counted, not taken for granted.
    """
    spec = run.spec
    estimator = source.estimator(spec)
    # In the order of one thread, as the study did.
    with one_thread():
        opened = open_run(spec, source, estimator)
        _, rest = split_front(estimator)
        model = with_seed(rest, spec.seed)
        fit_together([model], [opened.data], [opened.params(rest)])
        test = opened.parts["test"]
        probabilities = model.predict_proba(test.X)
    return Refitted(
        model,
        test,
        matrix_names(estimator, opened.trials.dataset),
        int((probabilities.argmax(1) != run.probabilities.argmax(1)).sum()),
        float(np.abs(probabilities - run.probabilities).max()),
    )


def matrix_names(estimator: BaseEstimator, dataset: Dataset) -> tuple[str, ...]:
    """What the matrices of a run are; of a data set of matrices only that they are matrices."""
    first = next(steps_of(estimator))
    if dataset.is_covariance or not isinstance(first, FilterBankCovariances):
        return ("all bands",)
    windows = resolve_windows(first.windows, *dataset.window)
    n_samples = round((max(right for _, right in windows) - first.tmin) * first.sfreq)
    plan = plan_tokens(
        sfreq=first.sfreq,
        n_samples=n_samples,
        bands=first.bands,
        windows=windows,
        tmin=first.tmin,
        stimulus_hz=first.stimulus_hz,
    )
    return tuple(plan.names)
