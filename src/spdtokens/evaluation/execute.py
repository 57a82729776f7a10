"""Do runs: many at once where the last step offers it, else one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.nn.engine import Listener
from spdtokens.classifiers.transformer import (
    TokenNetworkClassifier,
    fit_together,
    offers_together,
)
from spdtokens.errors import EvaluationError
from spdtokens.evaluation.estimators import with_seed
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.plan import Part, Source, prepare, split_front, with_access
from spdtokens.evaluation.protocols import Fold, check_fold, get_access, get_protocol
from spdtokens.evaluation.runs import RunResult, RunSpec, origin, peak_memory
from spdtokens.evaluation.trials import Trials
from spdtokens.runtime.threads import one_thread


# In the order of one thread: the same bits in a worker with one and a process with many.
@one_thread()
def execute(
    specs: Sequence[RunSpec], source: Source, listener: Listener | None = None
) -> list[RunResult]:
    """Do runs of one family.

    Every result is the same, bit by bit, whatever runs are done with it.

    Parameters
    ----------
    specs : sequence of RunSpec
        That differ in subject, fold and seed only.
    source : Source
    listener : callable, optional
        Told of every run that is done, or of parts of it.
    """
    if len({spec.family for spec in specs}) != 1:
        raise EvaluationError("Runs done together differ in subject, fold and seed only.")
    estimator = source.estimator(specs[0])
    if offers_together(estimator):
        return _together(specs, source, estimator, listener)
    results = []
    for spec in specs:
        results += _together([spec], source, estimator, None)
        if listener:
            listener(1.0)
    return results


@dataclass(frozen=True)
class Opened:
    """A fold, its trials, and the parts in which an estimator is given them."""

    fold: Fold
    trials: Trials
    parts: dict[str, Part]

    @property
    def data(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Training trials and labels."""
        return self.parts["train"].X, self.parts["train"].y

    def params(self, estimator: BaseEstimator) -> dict[str, Any]:
        """What else the ``fit`` of an estimator is told of the training trials."""
        last, train, held = _last(estimator), self.parts["train"], self.parts.get("validation")
        params: dict[str, Any] = {}
        if has_fit_parameter(last, "groups") and train.groups is not None:
            params["groups"] = train.groups
        if has_fit_parameter(last, "validation") and held is not None:
            params["validation"] = (held.X, held.y)
        own = self.trials.table.subject[train.rows] == self.fold.subject
        share = own.mean()
        if isinstance(last, TokenDiscriminantClassifier) and 0 < share < 1:
            # The tested subject's own trials count for as much as those of all others together.
            params["sample_weight"] = np.where(own, 0.5 / share, 0.5 / (1 - share))
        return params


def _last(estimator: BaseEstimator) -> BaseEstimator:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def open_run(spec: RunSpec, source: Source, estimator: BaseEstimator) -> Opened:
    """All that a run is given."""
    fold, trials = open_fold(spec, source)
    return Opened(fold, trials, prepare(spec, fold, trials, estimator))


def open_fold(spec: RunSpec, source: Source) -> tuple[Fold, Trials]:
    """The fold of a run, checked again for leaks, and the trials it is made of."""
    trials = source.trials_of(spec)
    protocol = get_protocol(spec.protocol)
    folds = source.folds(trials, spec.subject, protocol, spec.protocol_options)
    fold = next((fold for fold in folds if fold.name == spec.fold), None)
    if fold is None:
        raise EvaluationError(f"{spec.dataset}: subject {spec.subject} has no fold {spec.fold}.")
    fold = with_access(fold, trials.table, get_access(spec.access))
    check_fold(fold, trials)
    if trials.hash_of(fold.rows) != spec.data_hash:
        raise EvaluationError(
            f"{spec.dataset}: the recordings of subject {spec.subject} are not those the run was "
            "planned with. They were changed since, or this machine has others."
        )
    return fold, trials


def class_probabilities(
    classifier: BaseEstimator, X: NDArray[Any], n_classes: int
) -> NDArray[np.float64]:
    """Probabilities (n, classes), or where there are none a softmax of decision values.

    The largest is that of the predicted class. Of a classifier that gives neither, or decision
    values of pairs of classes, 1 for the predicted class.
    """
    found: NDArray[np.float64] | None = None
    if hasattr(classifier, "predict_proba"):
        found = np.asarray(classifier.predict_proba(X), dtype=np.float64)
    elif hasattr(classifier, "decision_function"):
        values = np.asarray(classifier.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            values = np.stack([-values / 2, values / 2], axis=1)
        if values.shape[1] == len(classifier.classes_):
            found = softmax(values, axis=1)
    if found is None:
        return np.eye(n_classes)[np.asarray(classifier.predict(X))]
    # A class without training trials is never predicted.
    whole = np.zeros((len(found), n_classes))
    whole[:, np.asarray(classifier.classes_)] = found
    return whole


def _together(
    specs: Sequence[RunSpec],
    source: Source,
    estimator: BaseEstimator,
    listener: Listener | None,
) -> list[RunResult]:
    start = time.perf_counter()
    _, rest = split_front(estimator)
    opened: dict[tuple[str, str], tuple[Opened, dict[str, Any]]] = {}
    for spec in specs:
        if (spec.subject, spec.fold) not in opened:
            run = open_run(spec, source, estimator)
            opened[spec.subject, spec.fold] = run, run.params(rest)
    runs, params = zip(*(opened[spec.subject, spec.fold] for spec in specs), strict=True)
    models = [with_seed(rest, spec.seed) for spec in specs]
    fit_together(models, [run.data for run in runs], params, listener=listener)
    spent = (time.perf_counter() - start) / len(specs)
    return [
        # Each carries its share of what was done together.
        _result(spec, run, model, time.perf_counter() - spent)
        for spec, run, model in zip(specs, runs, models, strict=True)
    ]


def _result(spec: RunSpec, run: Opened, model: BaseEstimator, start: float) -> RunResult:
    last, parts = _last(model), dict(run.parts)
    held = getattr(last, "held_back_", None)
    if held is not None:
        train = parts["train"]
        kept = np.setdiff1d(np.arange(len(train)), held)
        parts |= {"train": train.at(kept), "validation": train.at(held)}
    n_classes = len(run.trials.dataset.classes)
    p = {name: class_probabilities(model, part.X, n_classes) for name, part in parts.items()}
    scores = {name: all_scores(part.y, p[name]) for name, part in parts.items()}
    sizes = {name: len(parts.get(name, ())) for name in run.fold.parts()}
    curves, epoch = {}, None
    if isinstance(last, NetworkClassifier):
        curves, epoch = last.history_, last.epoch_
    elif isinstance(last, TokenNetworkClassifier):  # of the first of an ensemble, while it lasted
        curves = {name: curve[0][~np.isnan(curve[0])] for name, curve in last.history_.items()}
        epoch = last.n_epochs_[0]
    return RunResult(
        spec=spec,
        ids=run.trials.table.id[parts["test"].rows],
        y=parts["test"].y,
        probabilities=p["test"],
        train=scores["train"],
        validation=scores.get("validation", {}),
        test=scores["test"],
        sizes=sizes | {"calibration": len(run.fold.calibration)},
        curves=curves,
        epoch=epoch,
        leaky=run.fold.leaky,
        seconds=time.perf_counter() - start,
        memory=peak_memory(),
        origin=origin(),
    )
