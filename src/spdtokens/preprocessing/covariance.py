"""Covariance matrices of trials."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pyriemann.estimation import Covariances, ERPCovariances, XdawnCovariances
from pyriemann.geometry.covariance import covariances
from torch import Tensor

from spdtokens.errors import SignalError
from spdtokens.geometry.matrix_functions import numpy_too
from spdtokens.preprocessing.folds import folds_in_time
from spdtokens.runtime.signals import Prototype, oas

#: The paper adds this to the diagonal, in square microvolts.
PAPER_EPSILON = 1e-6
MICROVOLT = 1e-6
#: Estimators of a trial alone: the paper's, then pyRiemann's.
ESTIMATORS = ("sample", "oas", "lwf", "scm", "sch", "corr", "cov", "mcd", "hub", "stu", "tyl")
#: Of trials with class prototypes, learnt from training trials.
PROTOTYPES = ("erp", "xdawn")


@numpy_too
def sample_covariance(X: Tensor) -> Tensor:
    """The paper's estimator: channels de-meaned, ``X X' / (samples - 1)``.

    Parameters
    ----------
    X : Tensor or ndarray, shape (..., channels, samples)
        Any dtype. Gradients flow through tensors.

    Returns
    -------
    C : Tensor or ndarray of float64, shape (..., channels, channels)
    """
    X = X.double()
    Z = X - X.mean(-1, keepdim=True)
    return Z @ Z.mT / (X.shape[-1] - 1)


@numpy_too
def relative_regularisation(C: Tensor, epsilon: float) -> Tensor:
    """Add ``epsilon`` times the mean variance to the diagonal: the same in every unit.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
    epsilon : float

    Returns
    -------
    C : Tensor or ndarray, shape (..., d, d)
    """
    C = C.clone()
    variances = C.diagonal(dim1=-2, dim2=-1)
    variances += epsilon * variances.mean(-1, keepdim=True)
    return C


@numpy_too
def paper_regularisation(C: Tensor, unit_in_volts: float | None) -> Tensor:
    """Add the paper's 1e-6 square microvolts to the diagonal, whatever the unit of ``C``.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
    unit_in_volts : float
        Of the signal; refused if None.

    Returns
    -------
    C : Tensor or ndarray, shape (..., d, d)
    """
    if unit_in_volts is None:
        raise SignalError(
            "The paper's regularisation is 1e-6 square microvolts, and the unit of this signal is "
            "not known. Pass unit_in_volts (1e-6 for microvolts, 1 for volts), or use the "
            "relative regularisation, which needs no unit."
        )
    epsilon = PAPER_EPSILON * (MICROVOLT / unit_in_volts) ** 2
    return C + epsilon * torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)


def estimate(X: NDArray[Any], estimator: str, samples: int | None = None) -> NDArray[np.float64]:
    """Covariance matrices by the name of an estimator.

    Parameters
    ----------
    X : ndarray, shape (n, channels, samples)
    estimator : str
        ``'sample'`` (the paper's) or any that pyRiemann's ``Covariances`` knows: ``'oas'``,
        ``'lwf'``, ``'scm'``, ``'sch'``, ...
    samples : int, optional
        That those of ``X`` stand for, if it is decimated: ``'oas'`` does not shrink more for that.

    Returns
    -------
    C : ndarray, shape (n, channels, channels)
    """
    if estimator not in ESTIMATORS:
        raise SignalError(
            f"There is no covariance estimator {estimator!r}. There are: {', '.join(ESTIMATORS)}."
        )
    if estimator == "sample":
        return sample_covariance(X)
    X = np.asarray(X, dtype=np.float64)
    if estimator == "oas":
        return oas(X, samples)  # by scikit-learn it took a third of the time of decoding a trial
    # Some estimators have thresholds in the unit of the signal: take the unit out and put it back.
    scale = X.std(axis=(-2, -1), keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    return Covariances(estimator=estimator).transform(X / scale) * scale**2


# Covariances of potentials: a trial beside the class averages of the training trials.

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
