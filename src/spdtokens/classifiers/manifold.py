"""Riemannian steps of pyRiemann on trials with several matrices.

A trial's matrices are a point of a product of manifolds: tangent vectors stand side by side, and
squared distances add up. With one matrix a trial everything is exactly pyRiemann's.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyriemann.classification import MDM
from pyriemann.tangentspace import TangentSpace
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from spdtokens.errors import ModelError
from spdtokens.runtime.threads import one_thread


class TangentSpaces(TransformerMixin, BaseEstimator):
    """Every matrix of a trial in the tangent space at its own training mean, side by side."""

    @one_thread()
    def fit(self, C: NDArray[Any], y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Find the Riemannian mean of each of a trial's matrices (n, d, d) or (n, tokens, d, d)."""
        self.spaces_ = [TangentSpace(metric="riemann").fit(part) for part in _parts(C)]
        return self

    @one_thread()
    def transform(self, C: NDArray[Any]) -> NDArray[np.float64]:
        """Tangent vectors (n, tokens * d (d + 1) / 2)."""
        pairs = zip(self.spaces_, _parts(C), strict=True)
        return np.concatenate([space.transform(part) for space, part in pairs], axis=1)

    def inverse_transform(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Matrices (n, tokens, d, d) of tangent vectors."""
        parts = np.split(vectors, len(self.spaces_), axis=1)
        pairs = zip(self.spaces_, parts, strict=True)
        return np.stack([space.inverse_transform(part) for space, part in pairs], axis=1)


class NearestMean(ClassifierMixin, BaseEstimator):
    """The class whose Riemannian mean is nearest.

    Parameters
    ----------
    filtered : bool
        First keep, of the tangent vectors, only what discriminant analysis finds to tell classes
        apart (geodesic filtering, Barachant et al. 2010).

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    """

    def __init__(self, filtered: bool = False) -> None:
        self.filtered = filtered

    @one_thread()
    def fit(self, C: NDArray[Any], y: ArrayLike) -> Self:
        """Find the means of classes, of matrices (n, d, d) or (n, tokens, d, d)."""
        y = np.asarray(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ModelError(
                f"All {len(y)} training trials are of one class: a classifier needs trials of two "
                "or more classes."
            )
        if self.filtered:
            self.spaces_ = TangentSpaces().fit(C)
            lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
            W = lda.fit(self.spaces_.transform(C), y).coef_
            self.filter_ = W.T @ np.linalg.pinv(W @ W.T) @ W
        self.means_ = [MDM(metric="riemann").fit(part, y) for part in _parts(self._filtered(C))]
        return self

    def predict(self, C: NDArray[Any]) -> NDArray[Any]:
        """Nearest class (n,)."""
        return self.classes_[self._squared(C).argmin(1)]

    def predict_proba(self, C: NDArray[Any]) -> NDArray[np.float64]:
        """Softmax (n, classes) of negative squared distances."""
        probabilities: NDArray[np.float64] = softmax(-self._squared(C), axis=1)
        return probabilities

    def _filtered(self, C: NDArray[Any]) -> NDArray[Any]:
        if not self.filtered:
            return C
        return self.spaces_.inverse_transform(self.spaces_.transform(C) @ self.filter_)

    @one_thread()
    def _squared(self, C: NDArray[Any]) -> NDArray[np.float64]:
        """Squared distances (n, classes) to the means."""
        pairs = zip(self.means_, _parts(self._filtered(C)), strict=True)
        return np.sum([mean.transform(part) ** 2 for mean, part in pairs], axis=0)


def _parts(C: NDArray[Any]) -> list[NDArray[Any]]:
    return [C] if C.ndim == 3 else [C[:, i] for i in range(C.shape[1])]
