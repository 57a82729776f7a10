"""One run of a study done again, to look into its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spdtokens.data import Dataset
from spdtokens.evaluation.access import get_access
from spdtokens.evaluation.execute import HELD_BACK, open_fold, weights_for
from spdtokens.evaluation.parts import Part, prepare
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.report.errors import ReportError
from spdtokens.runtime.threads import one_thread
from spdtokens.signal.plan import plan_tokens
from spdtokens.training.methods import Settings, get_method
from spdtokens.training.spd_classifier import SPDTokenClassifier


@dataclass(frozen=True)
class Refitted:
    """A run's model, trained again.

    Attributes
    ----------
    model : SPDTokenClassifier
    test : Part
        Test trials as the model takes them.
    names : tuple of str
        What its tokens are: bands.
    changed : int
        Test trials whose predicted class differs from the stored one.
    apart : float
        The largest difference of a probability to the stored one.
    """

    model: SPDTokenClassifier
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

    Raises
    ------
    ReportError
        For a run whose epoch was chosen by validation trials of the protocol.
    """
    spec = run.spec
    method, settings = get_method(spec.method), Settings(**spec.settings)
    fold, trials = open_fold(spec, source)
    # In the order of one thread, as the study did.
    with one_thread():
        parts = prepare(spec, fold, get_access(spec.access), trials, method, settings)
        train, matrices = parts.train, parts.train.X.ndim == 4
        options = {} if matrices else method.options(trials.dataset, settings)
        model = method.build(options, replace(settings, seed=spec.seed or 0))
        if method.has_seed and settings.resolved_preset().recipe.needs_validation:
            if parts.validation is not None:
                raise ReportError(
                    "the epoch was chosen by validation trials of the protocol, which a classifier "
                    "cannot be given"
                )
            model.set_params(validation=HELD_BACK)
        weights = weights_for(method, fold, trials, parts)
        model.fit(train.X, train.y, groups=train.groups, **weights)
        probabilities = model.predict_proba(parts.test.X)
    return Refitted(
        model,
        parts.test,
        token_names(spec, trials.dataset, settings),
        int((probabilities.argmax(1) != run.probabilities.argmax(1)).sum()),
        float(np.abs(probabilities - run.probabilities).max()),
    )


def token_names(spec: RunSpec, dataset: Dataset, settings: Settings) -> tuple[str, ...]:
    """What the matrices of a run are; of a data set of matrices only that they are matrices."""
    if dataset.is_covariance:
        return ("all bands",)
    found = get_method(spec.method).options(dataset, settings)
    names = ("sfreq", "bands", "windows", "tmin", "stimulus_frequencies")
    options = {name: found[name] for name in names}
    end = max(right for _, right in options["windows"])
    plan = plan_tokens(n_samples=round((end - options["tmin"]) * options["sfreq"]), **options)
    return tuple(plan.names)
