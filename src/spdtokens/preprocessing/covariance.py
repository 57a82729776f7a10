"""Covariance estimators, class averages of event-related potentials, and folds in time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from spdtokens._labels import as_groups
from spdtokens.errors import SignalError
from spdtokens.runtime.signals import Prototype

# pyriemann is imported in functions: it takes a third of a second, and most decoders do not use it.

#: Estimators that need one trial: the sample covariance, and pyRiemann's.
ESTIMATORS = ("sample", "oas", "lwf", "scm", "sch", "corr", "cov", "mcd", "hub", "stu", "tyl")
#: Estimators with class averages of training trials.
PROTOTYPES = ("erp", "xdawn")
Array = NDArray[np.float64]
Index = NDArray[np.int64]


def paper_epsilon(unit_in_volts: float | None) -> float:
    """Convert the paper's 1e-6 square microvolts to the squared unit of the signal."""
    if unit_in_volts is None:
        raise SignalError(
            "estimator='paper' adds 1e-6 square microvolts and requires unit_in_volts. Pass "
            "unit_in_volts=1e-6 for microvolts or 1 for volts, or use estimator='sample', which "
            "adds a fraction of the variance."
        )
    return 1e-6 * (1e-6 / unit_in_volts) ** 2


def estimate(X: NDArray[Any], estimator: str) -> Array:
    """Covariances (n, d, d) of trials (n, channels, samples) by an estimator of pyRiemann."""
    from pyriemann.estimation import Covariances

    # Some estimators have thresholds in the unit of the signal: normalise, and scale back.
    scale = X.std(axis=(-2, -1), keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    return np.asarray(Covariances(estimator=estimator).transform(X / scale) * scale**2)


def fit_prototype(
    X: Array,
    y: NDArray[Any],
    kind: str,
    n_filters: int = 4,
    folds: int = 1,
    groups: ArrayLike | None = None,
) -> tuple[Prototype, Array]:
    """Fit class averages, with or without Xdawn filters, that are stacked on each trial.

    Parameters
    ----------
    X : ndarray, shape (n, n_channels, n_samples)
        Training trials.
    y : ndarray, shape (n,)
        Labels.
    kind : {'erp', 'xdawn'}
        Averages of all channels, or of Xdawn components (Rivet et al. 2009).
    n_filters : int, default=4
        Filters per class, for ``'xdawn'``.
    folds : int, default=1
        For ``'xdawn'``: number of cross-fitting folds of consecutive trials (at most the number of
        trials of the rarest class). The covariance of a training trial is computed with filters and
        averages that were not fitted to it. With 1 there is no cross-fitting, and training trials
        are more similar to their average than new trials.
    groups : array, shape (n,), default=None
        Trials of a group are never split between folds.

    Returns
    -------
    prototype : Prototype
        Averages and filters for new trials.
    C : ndarray, shape (n, d, d)
        Covariances of the training trials.
    """
    from pyriemann.estimation import ERPCovariances, XdawnCovariances
    from pyriemann.geometry.covariance import covariances

    scale = float(X.std())
    Z = X / scale
    if kind == "erp":
        full = Prototype(np.asarray(ERPCovariances(estimator="oas").fit(Z, y).P_), None, scale)
        return full, full.covariances(X)
    # Covariance of all trials, concatenated as in Xdawn, for every fold. Shrinkage is negligible
    # for that many samples, but keeps it invertible if channels are linearly dependent.
    noise = np.asarray(covariances(np.concatenate(Z, axis=1)[None], estimator="oas")[0])

    def xdawn(part: Any) -> Prototype:
        # Averages have little noise: shrinking their covariance would blur the filters.
        made = XdawnCovariances(
            n_filters, estimator="oas", xdawn_estimator="scm", baseline_cov=noise
        ).fit(Z[part], y[part])
        return Prototype(np.asarray(made.P_), made.Xd_.filters_, scale)

    full = xdawn(slice(None))
    splits = folds_in_time(y, folds, groups)
    if sum(len(mine) for _, mine in splits) == len(X):
        C = np.empty((len(X), 2 * len(full.averages), 2 * len(full.averages)))
    else:  # trials that are in no fold are treated as new trials
        C = full.covariances(X)
    for others, mine in splits:
        C[mine] = turned(xdawn(others), full, len(np.unique(y)), noise).covariances(X[mine])
    return full, C


def turned(fold: Prototype, full: Prototype, n_classes: int, noise: Array) -> Prototype:
    """Rotate the filters of a fold, within their span, towards the filters of all trials.

    The filters of a class are determined up to order and sign, and mix if two are about equally
    good. After whitening by the noise they are orthonormal, and the rotation is a Procrustes
    problem.
    """
    filters, averages = [], []
    parts = (
        np.split(np.asarray(x), n_classes) for x in (fold.filters, fold.averages, full.filters)
    )
    for A, P, B in zip(*parts, strict=True):
        a, b = (np.sqrt(np.einsum("fc,cd,fd->f", F, noise, F)) for F in (A, B))
        U, _, Vt = np.linalg.svd((A / a[:, None]) @ noise @ (B / b[:, None]).T)
        turn = b[:, None] * (U @ Vt).T / a
        filters.append(turn @ A)
        averages.append(turn @ P)
    return Prototype(np.concatenate(averages), np.concatenate(filters), fold.scale)


def folds_in_time(
    y: ArrayLike, folds: int, groups: ArrayLike | None = None
) -> list[tuple[Index, Index]]:
    """Split trials into folds of consecutive trials, with all classes in every training part.

    Consecutive trials are similar, so trials are not shuffled.

    Parameters
    ----------
    y : array, shape (n,)
        Labels in temporal order.
    folds : int
        Largest number of folds; fewer if the rarest class has fewer trials (groups).
    groups : array, shape (n,), default=None
        Trials of a group are never split between folds.

    Returns
    -------
    list of (train, test)
        Indices of each fold. Empty if the rarest class has one trial (group). With groups, folds
        whose training part lacks a class are omitted.

    Raises
    ------
    SignalError
        If the number of groups differs from the number of labels.
    """
    _, codes = np.unique(np.asarray(y), return_inverse=True)
    everything = np.arange(len(codes))
    groups = as_groups(groups, len(codes), SignalError)
    if groups is None:
        found = min(folds, int(np.bincount(codes).min()))
        return list(StratifiedKFold(found).split(everything, codes)) if found > 1 else []
    _, parts = np.unique(groups, return_inverse=True)
    pairs = np.unique(np.stack([codes, parts]), axis=1)
    found = min(folds, int(np.bincount(pairs[0]).min()))
    if found < 2:
        return []
    # A rare class may be missing from a test part; training parts must have all classes.
    splits = StratifiedGroupKFold(found).split(everything, codes, parts)
    return [(a, b) for a, b in splits if len(np.unique(codes[a])) == codes.max() + 1]
