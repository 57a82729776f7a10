"""The trials of a fold as an estimator is given them: matrices or signals, perhaps aligned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from spdtokens.data import Dataset
from spdtokens.evaluation.access import Access, calibration_split, get_access
from spdtokens.evaluation.alignment import align, align_signals, get_alignment
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.evaluation.estimators import steps_of
from spdtokens.evaluation.folds import Fold
from spdtokens.evaluation.runs import RunSpec
from spdtokens.evaluation.trials import Index, Trials, TrialTable
from spdtokens.signal import FilterBankCovariances, StandardTrials
from spdtokens.signal.bands import OF_STIMULI, BandSpec, resolve_bands

DOMAINS = ("session", "subject")
#: Steps that know in which band they work.
_IN_BANDS = (FilterBankCovariances, StandardTrials)


@dataclass(frozen=True)
class Part:
    """Trials of one part of a fold.

    Attributes
    ----------
    rows : ndarray of int, shape (n,)
    X : ndarray, shape (n, channels, samples), (n, d, d) or (n, m, d, d)
    y : ndarray of int, shape (n,)
    group : ndarray of int, shape (n,)
    """

    rows: Index
    X: NDArray[Any]
    y: NDArray[np.int64]
    group: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """Groups; None where every trial is one, so that a split may spread classes evenly."""
        return None if len(np.unique(self.group)) == len(self.group) else self.group

    def at(self, places: Index) -> Part:
        """Some of the trials."""
        return Part(self.rows[places], self.X[places], self.y[places], self.group[places])


@dataclass(frozen=True)
class Parts:
    """What is trained on, validated on (None without) and tested."""

    train: Part
    validation: Part | None
    test: Part

    def holding_back(self, held: Index) -> Parts:
        """With some of the training trials, by their place, as those that validated."""
        kept = np.setdiff1d(np.arange(len(self.train)), held)
        return replace(self, train=self.train.at(kept), validation=self.train.at(held))


def with_access(fold: Fold, table: TrialTable, access: Access) -> Fold:
    """The fold with the first trials of each tested session set apart for calibration.

    Those that share samples with a scored trial are neither seen nor scored.
    """
    if not access.calibrates or not len(fold.test):
        return fold
    calibration, test = [], []
    for session in dict.fromkeys(table.session[fold.test].tolist()):
        rows = fold.test[table.session[fold.test] == session]
        first, rest = calibration_split(np.arange(len(rows)), table.group[rows], access)
        seen = np.setdiff1d(rows[first], table.overlapping(rows[first], rows[rest]))
        if not len(seen):
            raise EvaluationError(
                f"Subject {fold.subject}, fold {fold.name}: every trial that access "
                f"{access.name!r} shows of session {session} shares samples with one that is "
                "scored. Use an access to more trials, or to none."
            )
        calibration.append(seen)
        test.append(rows[rest])
    return replace(fold, calibration=np.concatenate(calibration), test=np.concatenate(test))


def check_alignment(
    fold: Fold, table: TrialTable, alignment: str, domain: str, access: Access
) -> None:
    """Refuse an alignment that would need more of the target than may be seen, or cannot be done.

    Raises
    ------
    EvaluationError
    """
    how = get_alignment(alignment)
    known = set(domains(table, fold.train, domain).tolist())
    if how.metric is None:
        return
    where = f"Subject {fold.subject}, fold {fold.name}: alignment {how.name!r}"
    targets = dict.fromkeys(domains(table, fold.test, domain).tolist())
    if how.rotates and len(fold.validation):
        raise EvaluationError(
            f"{where} would turn to class means that know the labels of validation trials. Use a "
            "protocol without validation, or another alignment."
        )
    if how.rotates and len(targets) > 1 and known.intersection(targets):
        raise EvaluationError(
            f"{where} turns one {domain} to all others, and several that are tested are also "
            f"trained on ({', '.join(targets)}). Use leave-one-session-out, or alignment rescale."
        )
    for target in targets:
        if target in known:
            continue
        if how.rotates and not access.labelled:
            raise EvaluationError(
                f"{where} needs labelled trials of {domain} {target}, and access {access.name!r} "
                "gives none. Use labeled_20p or labeled_50p, or alignment recentre or rescale."
            )
        labels = table.y[fold.calibration[domains(table, fold.calibration, domain) == target]]
        if how.rotates and len(np.unique(labels)) < 2:
            raise EvaluationError(
                f"{where} compares class means, and the {len(labels)} trials of {domain} {target} "
                "that are seen with labels are of one class. Use labeled_50p, or alignment "
                "recentre or rescale."
            )
        if not access.share and not access.online:
            raise EvaluationError(
                f"{where} needs trials of {domain} {target}, and access {access.name!r} shows none "
                "before the test. Use unlabeled_full, unlabeled_20p, online or labeled_20p."
            )


def domains(table: TrialTable, rows: Index, domain: str) -> NDArray[np.str_]:
    """Name of each trial's domain (n,): its subject, or its session."""
    if domain not in DOMAINS:
        raise EvaluationError(f"A domain is one of {', '.join(DOMAINS)}, not {domain!r}.")
    if domain == "subject":
        return table.subject[rows]
    pairs = zip(table.subject[rows], table.session[rows], strict=True)
    return np.array(["/".join(pair) for pair in pairs], dtype=np.str_)


def split_front(
    estimator: BaseEstimator,
) -> tuple[FilterBankCovariances | None, BaseEstimator]:
    """The step that makes matrices of each trial alone, and what comes after it.

    Such matrices can be computed once for all folds, and alignment goes between the two halves.
    None where there is no such step: class averages, say, are fitted to training trials.
    """
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        first = estimator.steps[0][1]
        if isinstance(first, FilterBankCovariances) and not first.needs_labels:
            rest = estimator[1:]
            return first, rest.steps[0][1] if len(rest.steps) == 1 else rest
    return None, estimator


def prepare(spec: RunSpec, fold: Fold, trials: Trials, estimator: BaseEstimator) -> Parts:
    """Trials of a fold as the second half of an estimator takes them, or as they are.

    Labelled trials of the target that may be seen join the training trials.
    """
    front, _ = split_front(estimator)
    table, access = trials.table, get_access(spec.access)
    taken = trials.signals if front is None else partial(matrices, trials, front)
    named = {name: rows for name, rows in fold.parts().items() if len(rows)}
    X = {name: taken(rows) for name, rows in named.items()}
    if spec.alignment != "none":
        references = X
        if front is None and not trials.dataset.is_covariance:
            band = reference_front(estimator, trials.dataset)
            references = {name: matrices(trials, band, rows) for name, rows in named.items()}
        X = _aligned(spec, fold, access, table, X, references)
    part = {
        name: Part(rows, X[name], table.y[rows], table.group[rows]) for name, rows in named.items()
    }
    train = part["train"]
    if access.labelled and "calibration" in part:
        train = _joined(train, part["calibration"])
    return Parts(train, part.get("validation"), part["test"])


def reference_front(estimator: BaseEstimator, dataset: Dataset) -> FilterBankCovariances:
    """What makes the covariances by which signals are aligned: in the estimator's own band.

    In the default band where it has several, or none that is known.
    """
    assert dataset.sfreq is not None
    found = [step.bands for step in steps_of(estimator) if isinstance(step, _IN_BANDS)]
    bands = next((bands for bands in found if bands is not None and _is_one(bands)), None)
    return FilterBankCovariances(
        dataset.sfreq, bands=bands, windows=[dataset.window], tmin=dataset.tmin, estimator="oas"
    )


def _is_one(bands: BandSpec) -> bool:
    of_stimuli = isinstance(bands, str) and bands in OF_STIMULI
    return not of_stimuli and len(resolve_bands(bands)) == 1


def matrices(trials: Trials, front: FilterBankCovariances, rows: Index) -> NDArray[np.float64]:
    """Matrices (n, [m,] d, d) of trials, each recording done once."""

    def compute(X: NDArray[Any]) -> NDArray[np.float64]:
        return clone(front).fit_transform(X)

    return trials.computed(rows, repr(sorted(front.get_params().items())), compute)


def _joined(one: Part, other: Part) -> Part:
    columns = ("rows", "X", "y", "group")
    return Part(*(np.concatenate([getattr(one, c), getattr(other, c)]) for c in columns))


def _aligned(
    spec: RunSpec,
    fold: Fold,
    access: Access,
    table: TrialTable,
    X: dict[str, NDArray[Any]],
    references: dict[str, NDArray[np.float64]],
) -> dict[str, NDArray[Any]]:
    """All parts aligned, the target's domains one after another.

    Trials that validate are not the target: they have references of their own domain, like those
    that are trained on.
    """
    of = {name: domains(table, rows, spec.domain) for name, rows in fold.parts().items()}
    known = [name for name in ("train", "validation") if name in X]
    rows = np.concatenate([fold.parts()[name] for name in known])
    source = {
        "C_train": _several(np.concatenate([references[name] for name in known])),
        "domain_train": np.concatenate([of[name] for name in known]),
    }
    result = {name: np.empty(array.shape) for name, array in X.items()}
    for target in dict.fromkeys(of["test"].tolist()):
        mine = {name: of[name] == target for name in ("calibration", "test")}
        seen = mine["calibration"]
        labels = table.y[fold.calibration[seen]] if access.labelled and seen.any() else None
        there = {
            **source,
            "C_calibration": _several(references["calibration"][seen]) if seen.any() else None,
            "C_test": _several(references["test"][mine["test"]]),
            "domain_target": target,
            "access": access,
            "alignment": spec.alignment,
        }
        if references is X:
            done = align(**there, y_train=table.y[rows], y_calibration=labels)
        else:
            done = align_signals(
                X_train=np.concatenate([X[name] for name in known]),
                X_calibration=X["calibration"][seen] if seen.any() else None,
                X_test=X["test"][mine["test"]],
                **there,
            )
        shape = X["test"].shape[1:]
        result["test"][mine["test"]] = done.test.reshape(-1, *shape)
        if seen.any():
            result["calibration"][seen] = done.calibration.reshape(-1, *shape)
        first = 0
        for name in known:
            result[name] = done.train[first : first + len(X[name])].reshape(-1, *shape)
            first += len(X[name])
    return result


def _several(C: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrices as (n, m, d, d)."""
    return C[:, None] if C.ndim == 3 else C
