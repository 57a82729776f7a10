"""Covariance matrices of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pyriemann.estimation import Covariances
from torch import Tensor

from spdtokens.runtime.signals import oas
from spdtokens.signal.bands import SignalError
from spdtokens.spd.arrays import numpy_too

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
