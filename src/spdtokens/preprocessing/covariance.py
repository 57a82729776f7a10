"""Covariance matrices of trials, beside class averages for potentials, and folds in time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from spdtokens._labels import as_groups
from spdtokens.errors import SignalError
from spdtokens.runtime.signals import Prototype

# pyriemann is imported in functions: it takes a third of a second, and most decoders do not use it.

#: Estimators of a trial alone: the paper's, then pyRiemann's.
ESTIMATORS = ("sample", "oas", "lwf", "scm", "sch", "corr", "cov", "mcd", "hub", "stu", "tyl")
#: Of trials with class prototypes, learnt from training trials.
PROTOTYPES = ("erp", "xdawn")
Array = NDArray[np.float64]
Index = NDArray[np.int64]


def paper_epsilon(unit_in_volts: float | None) -> float:
    """The paper's 1e-6 square microvolts, in the squared unit of a signal."""
    if unit_in_volts is None:
        raise SignalError(
            "estimator='paper' adds 1e-6 square microvolts, and the unit of the signal is not "
            "known. Pass unit_in_volts (1e-6 for microvolts, 1 for volts), or use "
            "estimator='sample', which adds a share of the variance."
        )
    return 1e-6 * (1e-6 / unit_in_volts) ** 2


def estimate(X: NDArray[Any], estimator: str) -> Array:
    """Covariances (n, d, d) of trials (n, channels, samples) by an estimator of pyRiemann."""
    from pyriemann.estimation import Covariances

    # Some estimators have thresholds in the unit of the signal: take the unit out and put it back.
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
    """Class averages, with or without spatial filters, to be put beside a trial.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples)
    y : ndarray, shape (n,)
    kind : {'erp', 'xdawn'}
        All channels, or those of Xdawn's filters (Rivet et al. 2009).
    n_filters : int
        Per class, for ``'xdawn'``.
    folds : int
        For ``'xdawn'``: the covariance of a training trial is made with filters and averages that
        have not seen it, in so many folds of neighbours in time (or as many as the rarest class has
        trials). With 1 they have seen it, which makes training trials look more like their average
        than new trials ever will.
    groups : array, shape (n,), optional
        Trials of one group are never split between folds.

    Returns
    -------
    prototype : Prototype
        For new trials.
    C : ndarray, shape (n, d, d)
        Of the training trials.
    """
    from pyriemann.estimation import ERPCovariances, XdawnCovariances
    from pyriemann.geometry.covariance import covariances

    scale = float(X.std())
    Z = X / scale
    if kind == "erp":
        full = Prototype(np.asarray(ERPCovariances(estimator="oas").fit(Z, y).P_), None, scale)
        return full, full.covariances(X)
    # All trials side by side, as Xdawn does, for every fold. Shrinkage, of which so many samples
    # need next to none, keeps it invertible where channels are not independent.
    noise = np.asarray(covariances(np.concatenate(Z, axis=1)[None], estimator="oas")[0])

    def xdawn(part: Any) -> Prototype:
        # Averages have no noise to speak of: to shrink their covariance would blur the filters.
        made = XdawnCovariances(
            n_filters, estimator="oas", xdawn_estimator="scm", baseline_cov=noise
        ).fit(Z[part], y[part])
        return Prototype(np.asarray(made.P_), made.Xd_.filters_, scale)

    full = xdawn(slice(None))
    splits = folds_in_time(y, folds, groups)
    if sum(len(mine) for _, mine in splits) == len(X):
        C = np.empty((len(X), 2 * len(full.averages), 2 * len(full.averages)))
    else:  # of a trial that is in no fold: as of new trials
        C = full.covariances(X)
    for others, mine in splits:
        C[mine] = turned(xdawn(others), full, len(np.unique(y)), noise).covariances(X[mine])
    return full, C


def turned(fold: Prototype, full: Prototype, n_classes: int, noise: Array) -> Prototype:
    """The filters of a fold, turned within the space they span towards those of all trials.

    Filters of one class are found up to their order and sign, and mix where two are about as good.
    Where noise has unit variance they are orthonormal, and the turn is that of Procrustes.
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
    """Split trials into folds of neighbours in time, with all classes in every training part.

    Neighbours in time resemble each other, so trials are not shuffled.

    Parameters
    ----------
    y : array, shape (n,)
        Labels, in order of time.
    folds : int
        At most; fewer if the rarest class has fewer trials (groups).
    groups : array, shape (n,), optional
        Trials of one group stay together.

    Returns
    -------
    splits : list of (train, test)
        Empty if the rarest class has one trial (group). With groups, a fold whose training part
        would lack a class is left out.

    Raises
    ------
    SignalError
        If there are not as many groups as labels.
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
    # A rare class may miss in a test part; what counts is that training parts have all classes.
    splits = StratifiedGroupKFold(found).split(everything, codes, parts)
    return [(a, b) for a, b in splits if len(np.unique(codes[a])) == codes.max() + 1]
