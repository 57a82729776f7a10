"""Execute runs: many at once if the last step supports it, otherwise one by one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
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
from spdtokens.datasets import Dataset
from spdtokens.errors import EvaluationError
from spdtokens.evaluation.alignment import Known, Task, get_alignment
from spdtokens.evaluation.estimators import steps_of, with_seed
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.plan import (
    IN_BANDS,
    Source,
    domains,
    recentring_of,
    split_front,
    with_access,
)
from spdtokens.evaluation.protocols import Fold, check_fold, get_access
from spdtokens.evaluation.runs import RunResult, RunSpec, origin, peak_memory
from spdtokens.evaluation.trials import Index, Trials, TrialTable
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.bands import OF_STIMULI, resolve_bands
from spdtokens.runtime.balance import imbalance_shift, running_balance, shifted, start_count
from spdtokens.runtime.threads import one_thread
from spdtokens.runtime.tokens import Reference


# With one thread, so that results are the same bit for bit in any process.
@one_thread()
def execute(
    specs: Sequence[RunSpec], source: Source, listener: Listener | None = None
) -> list[RunResult]:
    """Execute runs of one family, which differ in subject, fold and seed only.

    Results do not depend, bit for bit, on which runs are executed together. ``listener`` is called
    with the progress, in runs.
    """
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
    """A fold, and its trials as the estimator is given them.

    Attributes
    ----------
    fold : Fold
    trials : Trials
    rows, X : dict of str to ndarray
        Training, validation (if any) and test trials: rows of the table, and the input of the
        second half of the estimator (see :func:`~spdtokens.evaluation.plan.split_front`), or of
        the whole.
    unlabeled : tuple of ndarray, or None
        Trials of the target that the access provides without labels, in the same form, and their
        subjects.
    """

    fold: Fold
    trials: Trials
    rows: dict[str, Index]
    X: dict[str, NDArray[Any]]
    unlabeled: tuple[NDArray[Any], NDArray[np.str_]] | None = None

    @property
    def data(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Training trials and labels."""
        return self.X["train"], self.trials.table.y[self.rows["train"]]

    def params(self, estimator: BaseEstimator) -> dict[str, Any]:
        """Fit parameters of an estimator, if its last step takes them.

        Groups, validation trials, subjects as domains, trials without labels, sample weights.
        """
        last, table, train = _last(estimator), self.trials.table, self.rows["train"]
        params: dict[str, Any] = {}
        own = np.isin(table.subject[train], table.subject[self.fold.test])
        groups: NDArray[Any] = table.group[train]
        if not own.any() and len(np.unique(table.subject[train])) > 1:
            groups = table.subject[train]  # new people, in validation as in the test
        # Without groups, a split may be stratified.
        if has_fit_parameter(last, "groups") and len(np.unique(groups)) < len(train):
            params["groups"] = groups
        if has_fit_parameter(last, "validation") and "validation" in self.rows:
            params["validation"] = (self.X["validation"], table.y[self.rows["validation"]])
        if has_fit_parameter(last, "domains"):
            params["domains"] = table.subject[train]
        if has_fit_parameter(last, "unlabeled") and self.unlabeled is not None:
            params["unlabeled"] = self.unlabeled
        share = own.mean()
        if isinstance(last, TokenDiscriminantClassifier) and 0 < share < 1:
            # The trials of the test subjects have the same total weight as all others.
            params["sample_weight"] = np.where(own, 0.5 / share, 0.5 / (1 - share))
        return params


def _last(estimator: BaseEstimator) -> BaseEstimator:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def open_run(spec: RunSpec, source: Source, estimator: BaseEstimator) -> Opened:
    """Load the trials of a run; labelled calibration trials join the training trials."""
    fold, trials = open_fold(spec, source)
    front, _ = split_front(estimator)
    taken = partial(_as_given, trials, spec.samples)
    if front is not None:
        taken = partial(matrices, trials, front)
    rows = {name: at for name, at in fold.parts().items() if len(at)}
    X = {name: taken(at) for name, at in rows.items()}
    if spec.alignment != "none":
        references = X
        if front is None and not trials.dataset.is_covariance:
            band = reference_front(estimator, trials.dataset)
            references = {name: matrices(trials, band, at) for name, at in rows.items()}
        recentring = recentring_of(estimator)
        rule = None if recentring is None else recentring.rule()
        X = _aligned(spec, fold, trials.table, X, references, rule)
    access = get_access(spec.access)
    unlabeled = None
    if access.share and not access.labelled:
        seen = "test" if access.transductive else "calibration"
        unlabeled = X[seen], trials.table.subject[rows[seen]]
    for parts in (rows, X):
        known = parts.pop("calibration", None)
        if access.labelled and known is not None:
            parts["train"] = np.concatenate([parts["train"], known])
    return Opened(fold, trials, rows, X, unlabeled)


def _as_given(trials: Trials, samples: tuple[int, int] | None, rows: Index) -> NDArray[Any]:
    """Trials or matrices of the data set, cut to the window unless the estimator cuts it."""
    X = trials.signals(rows)
    return X if samples is None else X[..., slice(*samples)]


def matrices(trials: Trials, front: FilterBankCovariances, rows: Index) -> NDArray[np.float64]:
    """Matrices (n, [m,] d, d) of trials, computed once per recording."""
    name = repr(sorted(front.get_params().items()))
    return trials.computed(rows, name, lambda X: clone(front).fit_transform(X))


def reference_front(estimator: BaseEstimator, dataset: Dataset) -> FilterBankCovariances:
    """Estimator of the covariances that align signals, in the band of the estimator.

    In the default band if it has several bands, or none.
    """
    assert dataset.sfreq is not None
    found = [step.bands for step in steps_of(estimator) if isinstance(step, IN_BANDS)]
    known = [bands for bands in found if not isinstance(bands, str) or bands not in OF_STIMULI]
    single = (bands for bands in known if bands is not None and len(resolve_bands(bands)) == 1)
    return FilterBankCovariances(
        dataset.sfreq,
        bands=next(single, None),
        windows=[dataset.window],
        tmin=dataset.tmin,
        estimator="oas",
    )


def _aligned(
    spec: RunSpec,
    fold: Fold,
    table: TrialTable,
    X: dict[str, NDArray[Any]],
    references: dict[str, NDArray[np.float64]],
    rule: Reference | None = None,
) -> dict[str, NDArray[Any]]:
    """Align all parts, one target domain after another.

    Validation trials do not belong to the target: like training trials, they are aligned by their
    own domain.
    """
    rows, access = fold.parts(), get_access(spec.access)
    of = {name: domains(table, rows[name], spec.domain) for name in rows}
    C = {name: c[:, None] if c.ndim == 3 else c for name, c in references.items()}
    names = [name for name in ("train", "validation") if name in X]
    known = Known(_joined(C, names), _joined(of, names), access, spec.alignment, rule)
    y_known = table.y[_joined(rows, names)]
    filtered = references is not X

    def applied(found: NDArray[np.float64], x: NDArray[Any]) -> NDArray[Any]:
        return found[:, 0] @ x if filtered else found.reshape(x.shape)

    real = [x.dtype if x.dtype == np.float32 and not filtered else np.float64 for x in X.values()]
    result = {
        name: np.empty(x.shape, dtype)
        for (name, x), dtype in zip(X.items(), real, strict=True)
        if name not in names
    }
    for target in dict.fromkeys(of["test"].tolist()):
        mine = {name: of[name] == target for name in result}
        seen = {name: C[name][at] for name, at in mine.items()}
        task = Task(known, seen.get("calibration"), seen["test"], target)
        y = table.y[fold.calibration[mine["calibration"]]] if access.labelled else None
        done = task.filters() if filtered else task.aligned(y_known, y)
        for name, at in mine.items():
            result[name][at] = applied(getattr(done, name), X[name][at])
    # Training trials do not depend on the target, except those of a single one that is rotated.
    parts = np.split(done.train, np.cumsum([len(X[name]) for name in names])[:-1])
    return result | {name: applied(part, X[name]) for name, part in zip(names, parts, strict=True)}


def _joined(arrays: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Concatenate arrays; one alone is not copied."""
    found = [arrays[name] for name in names]
    return found[0] if len(found) == 1 else np.concatenate(found)


def open_fold(spec: RunSpec, source: Source) -> tuple[Fold, Trials]:
    """Return the fold and trials of a run, which must be those it was planned with."""
    trials = source.trials_of(spec)
    fold = with_access(source.fold_of(spec), trials.table, get_access(spec.access))
    check_fold(fold, trials)  # again, for runs that were not planned here
    if trials.hash_of(fold.rows) != spec.data_hash:
        raise EvaluationError(
            f"{spec.dataset}: the recordings of subject {spec.subject} are not those that the run "
            "was planned with. They have changed since, or differ on this machine."
        )
    return fold, trials


def class_probabilities(
    classifier: BaseEstimator, X: NDArray[Any], n_classes: int
) -> NDArray[np.float64]:
    """Return class probabilities (n, n_classes), or a softmax of decision values.

    One-hot predictions of a classifier that has neither, or decision values of pairs of classes.
    """
    found: NDArray[np.float64] | None = None
    if hasattr(classifier, "predict_proba"):
        found = np.asarray(classifier.predict_proba(X), dtype=np.float64)
    elif hasattr(classifier, "decision_function"):
        values = np.asarray(classifier.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            values = np.stack([-values / 2, values / 2], axis=1)
        # Three classes have as many pairs as classes.
        shapes = [getattr(step, "decision_function_shape", "ovr") for step in steps_of(classifier)]
        pairs = values.shape[1] > 2 and "ovo" in shapes
        if values.shape[1] == len(classifier.classes_) and not pairs:
            found = softmax(values, axis=1)
    if found is None:
        return np.eye(n_classes)[np.asarray(classifier.predict(X))]
    # A class without training trials has probability 0.
    whole = np.zeros((len(found), n_classes))
    whole[:, np.asarray(classifier.classes_)] = found
    return whole


def balanced(
    p: NDArray[np.float64], run: Opened, spec: RunSpec, model: BaseEstimator
) -> NDArray[np.float64]:
    """Correct probabilities of test trials for unbalanced classes, if the alignment says so.

    Each domain is corrected by the probabilities of its trials that the access provides.
    """
    if not get_alignment(spec.alignment).balances:
        return p
    table, access, of = run.trials.table, get_access(spec.access), spec.domain
    y = table.y[run.rows["train"]]
    proportions = np.bincount(y, minlength=p.shape[1]) / len(y)
    tested, trained = (domains(table, run.rows[part], of) for part in ("test", "train"))
    seen, seen_of = p, tested
    if access.calibrates:
        assert run.unlabeled is not None
        seen = class_probabilities(model, run.unlabeled[0], p.shape[1])
        seen_of = domains(table, run.fold.calibration, of)
    start = start_count(len(np.unique(trained)))
    found = np.empty_like(p)
    for target in np.unique(tested):
        mine, past = tested == target, seen[seen_of == target]
        count = int((trained == target).sum())  # the reference is that of these trials, too
        if access.online:
            found[mine] = running_balance(past, proportions, count or start)
        else:
            share = len(past) / (len(past) + count)
            found[mine] = shifted(p[mine], share * imbalance_shift(past, proportions))
    return found


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
        # Each run gets an equal share of the time.
        _result(spec, run, model, time.perf_counter() - spent)
        for spec, run, model in zip(specs, runs, models, strict=True)
    ]


def _result(spec: RunSpec, run: Opened, model: BaseEstimator, start: float) -> RunResult:
    last, rows, X, table = _last(model), dict(run.rows), dict(run.X), run.trials.table
    held = getattr(last, "held_back_", None)
    if held is not None:
        for parts in (rows, X):
            train = parts["train"]
            parts |= {"train": np.delete(train, held, axis=0), "validation": train[held]}
    n_classes = len(run.trials.dataset.classes)
    p = {name: class_probabilities(model, X[name], n_classes) for name in rows}
    p["test"] = balanced(p["test"], run, spec, model)
    scores = {name: all_scores(table.y[rows[name]], p[name]) for name in rows}
    sizes = {name: len(rows.get(name, ())) for name in run.fold.parts()}
    curves, epoch = {}, None
    if isinstance(last, NetworkClassifier):
        curves, epoch = last.history_, last.epoch_
    elif isinstance(
        last, TokenNetworkClassifier
    ):  # of the first of an ensemble, up to its last epoch
        curves = {name: curve[0][~np.isnan(curve[0])] for name, curve in last.history_.items()}
        epoch = last.n_epochs_[0]
    return RunResult(
        spec=spec,
        ids=table.id[rows["test"]],
        y=table.y[rows["test"]],
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
