"""Augmented covariance: trials beside delayed copies of themselves."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from spdtokens.errors import ModelError


class AugmentedTrials(TransformerMixin, BaseEstimator):
    """Put delayed copies of a trial beside it, as further channels.

    The covariance of such a trial holds how channels lead and follow each other, not only how they
    vary together: the augmented covariance method of Carrara and Papadopoulo (2024).

    Parameters
    ----------
    order : int
        Copies in all; 1 leaves trials as they are.
    lag : int
        Samples from one copy to the next.
    """

    def __init__(self, order: int = 2, lag: int = 4) -> None:
        self.order = order
        self.lag = lag

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Check that trials are long enough for the delays."""
        X = np.asarray(X)
        if self.order < 1 or self.lag < 1:
            raise ModelError(f"order and lag are at least 1, not {self.order} and {self.lag}.")
        left = X.shape[-1] - (self.order - 1) * self.lag
        if left < 2:
            raise ModelError(
                f"Trials of {X.shape[-1]} samples are too short for {self.order} copies "
                f"{self.lag} samples apart. Use a lower order or lag."
            )
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Trials (n, channels, samples) to (n, order * channels, samples - (order - 1) * lag)."""
        X = np.asarray(X)
        length = X.shape[-1] - (self.order - 1) * self.lag
        delays = (copy * self.lag for copy in range(self.order))
        return np.concatenate([X[..., delay : delay + length] for delay in delays], axis=1)
