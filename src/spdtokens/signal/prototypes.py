"""Covariances of potentials: a trial beside the class averages of the training trials."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyriemann.estimation import ERPCovariances, XdawnCovariances
from pyriemann.geometry.covariance import covariances

from spdtokens.runtime.signals import Prototype, oas
from spdtokens.signal.folds import folds_in_time

Array = NDArray[np.float64]


class Prototypes:
    """Class averages, with or without spatial filters, and the covariances they give.

    Parameters
    ----------
    kind : {'erp', 'xdawn'}
        All channels, or those of Xdawn's filters (Rivet et al. 2009).
    n_filters : int
        A class, for ``'xdawn'``.
    folds : int
        For ``'xdawn'``: the covariance of a training trial is made with filters and averages that
        have not seen it, in so many folds of neighbours in time (or as many as the rarest class has
        trials). With 1 they have seen it, which makes training trials look more like their average
        than new trials ever will.
    """

    def __init__(self, kind: str, n_filters: int, folds: int = 1) -> None:
        self.kind, self.n_filters, self.folds = kind, n_filters, folds

    def fit(self, X: Array, y: NDArray[Any], groups: NDArray[Any] | None = None) -> Array:
        """Learn from training trials (n, channels, samples); returns their covariances.

        Trials of one group are never split between folds.
        """
        self.scale = float(X.std())
        X = X / self.scale
        if self.kind == "erp":
            self.made = ERPCovariances(estimator="oas").fit(X, y)
            return self._covariances(self.made, X)
        # All trials side by side, as Xdawn does, for every fold. Shrinkage, of which so many
        # samples need next to none, keeps it invertible where channels are not independent.
        noise = np.asarray(covariances(np.concatenate(X, axis=1)[None], estimator="oas")[0])
        self.made = self._xdawn(noise).fit(X, y)
        folds = folds_in_time(y, self.folds, groups)
        tested = sum(len(mine) for _, mine in folds)
        if tested == len(X):
            parts = np.empty((len(X), *self.made.transform(X[:1]).shape[1:]))
        else:  # of a trial that is in no fold: as of new trials
            parts = self._covariances(self.made, X)
        for others, mine in folds:
            fitted = self._xdawn(noise).fit(X[others], y[others])
            parts[mine] = self._covariances(turned(fitted, self.made, noise), X[mine])
        return parts

    def transform(self, X: Array) -> Array:
        """Covariances (n, d, d) of trials that were not trained on."""
        return self._covariances(self.made, X / self.scale)

    def _xdawn(self, noise: Array) -> XdawnCovariances:
        # Averages have no noise to speak of: to shrink their covariance would blur the filters.
        return XdawnCovariances(
            self.n_filters, estimator="oas", xdawn_estimator="scm", baseline_cov=noise
        )

    def _covariances(self, made: Any, X: Array) -> Array:
        # As made.transform(X) gives them, all trials at once: a tenth of the time.
        filters = made.Xd_.filters_ if self.kind == "xdawn" else None
        return oas(Prototype(made.P_, filters, 1.0).beside(X)) * self.scale**2

    def prototype(self) -> Prototype:
        """What new trials need of all that was learnt."""
        filters = self.made.Xd_.filters_ if self.kind == "xdawn" else None
        return Prototype(np.asarray(self.made.P_), filters, self.scale)


def turned(fold: XdawnCovariances, full: XdawnCovariances, noise: Array) -> XdawnCovariances:
    """The filters of a fold, turned within the space they span towards those of all trials.

    Filters of one class are found up to their order and sign, and mix where two are about as good.
    Where noise has unit variance they are orthonormal, and the turn is that of Procrustes.
    """
    n_classes = len(full.Xd_.classes_)
    filters, averages = [], []
    for A, P, B in zip(
        np.split(fold.Xd_.filters_, n_classes),
        np.split(fold.P_, n_classes),
        np.split(full.Xd_.filters_, n_classes),
        strict=True,
    ):
        a, b = (np.sqrt(np.einsum("fc,cd,fd->f", F, noise, F)) for F in (A, B))
        U, _, Vt = np.linalg.svd((A / a[:, None]) @ noise @ (B / b[:, None]).T)
        turn = b[:, None] * (U @ Vt).T / a
        filters.append(turn @ A)
        averages.append(turn @ P)
    result = copy.copy(fold)
    result.Xd_ = copy.copy(fold.Xd_)
    result.Xd_.filters_ = np.concatenate(filters)
    result.P_ = np.concatenate(averages)
    return result
