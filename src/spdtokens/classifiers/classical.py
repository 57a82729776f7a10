"""Classical Riemannian classifiers: the baselines of the comparison.

They are scikit-learn pipelines on pyRiemann's geometry. Each is made from the options of
:class:`~spdtokens.FilterBankCovariances`, or None if its input is covariance matrices. All
hyperparameters are chosen on training trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyriemann.classification import MDM
from pyriemann.tangentspace import TangentSpace
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from spdtokens._labels import as_labels
from spdtokens.errors import ModelError
from spdtokens.preprocessing import FilterBankCovariances, StandardTrials
from spdtokens.runtime.threads import one_thread

#: Inner folds of the training trials. Not shuffled: consecutive trials are similar and stay
#: together.
INNER_FOLDS = StratifiedKFold(5)
#: Inverse regularisation, from strong to weak.
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
Options = Mapping[str, Any] | None


# The matrices of a trial are a point on a product manifold: tangent vectors are concatenated, and
# squared distances add up. With one matrix per trial the results are those of pyRiemann.


class TangentSpaces(TransformerMixin, BaseEstimator):
    """Project every matrix of a trial to the tangent space at its own training mean."""

    @one_thread()
    def fit(self, C: NDArray[Any], y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Compute the Riemannian means of matrices (n, d, d) or (n, tokens, d, d)."""
        self.spaces_ = [TangentSpace(metric="riemann").fit(part) for part in _parts(C)]
        return self

    @one_thread()
    def transform(self, C: NDArray[Any]) -> NDArray[np.float64]:
        """Compute tangent vectors (n, tokens * d (d + 1) / 2)."""
        pairs = zip(self.spaces_, _parts(C), strict=True)
        return np.concatenate([space.transform(part) for space, part in pairs], axis=1)

    def inverse_transform(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Compute matrices (n, tokens, d, d) from tangent vectors."""
        parts = np.split(vectors, len(self.spaces_), axis=1)
        pairs = zip(self.spaces_, parts, strict=True)
        return np.stack([space.inverse_transform(part) for space, part in pairs], axis=1)


class NearestMean(ClassifierMixin, BaseEstimator):
    """Minimum distance to the Riemannian mean of a class (MDM).

    Parameters
    ----------
    filtered : bool, default=False
        Project tangent vectors to the discriminant directions first (geodesic filtering, FgMDM,
        Barachant et al. 2010).

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Sorted classes.
    """

    def __init__(self, filtered: bool = False) -> None:
        self.filtered = filtered

    @one_thread()
    def fit(self, C: NDArray[Any], y: ArrayLike) -> Self:
        """Compute the class means of matrices (n, d, d) or (n, tokens, d, d)."""
        y = as_labels(y, len(C), ModelError)
        self.classes_ = np.unique(y)
        if self.filtered:
            self.spaces_ = TangentSpaces().fit(C)
            W = _lda().fit(self.spaces_.transform(C), y).coef_
            self.filter_ = W.T @ np.linalg.pinv(W @ W.T) @ W
        self.means_ = [MDM(metric="riemann").fit(part, y) for part in _parts(self._filtered(C))]
        return self

    def predict(self, C: NDArray[Any]) -> NDArray[Any]:
        """Predict the class (n,) with the nearest mean."""
        return self.classes_[self._squared(C).argmin(1)]

    def predict_proba(self, C: NDArray[Any]) -> NDArray[np.float64]:
        """Compute the softmax (n, classes) of negative squared distances."""
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


class AugmentedTrials(TransformerMixin, BaseEstimator):
    """Append delayed copies of a trial as channels.

    The covariance of such a trial contains lagged covariances between channels: the augmented
    covariance method of Carrara and Papadopoulo (2024).

    Parameters
    ----------
    order : int, default=2
        Number of copies, including the trial itself.
    lag : int, default=4
        Samples between two copies.
    """

    def __init__(self, order: int = 2, lag: int = 4) -> None:
        self.order = order
        self.lag = lag

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Check that trials are long enough for the delays."""
        X = np.asarray(X)
        left = X.shape[-1] - (self.order - 1) * self.lag
        if left < 2:
            raise ModelError(
                f"Trials of {X.shape[-1]} samples are too short for {self.order} copies "
                f"{self.lag} samples apart. Use a lower order or lag."
            )
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Augment trials (n, channels, samples) to (n, order * channels, fewer samples)."""
        X = np.asarray(X)
        length = X.shape[-1] - (self.order - 1) * self.lag
        delays = (copy * self.lag for copy in range(self.order))
        return np.concatenate([X[..., delay : delay + length] for delay in delays], axis=1)


def _pipeline(options: Options, **steps: BaseEstimator) -> Pipeline:
    first = {} if options is None else {"filterbank": FilterBankCovariances(**options)}
    return Pipeline([*first.items(), *steps.items()])


def _tangent(options: Options, classifier: BaseEstimator) -> Pipeline:
    return _pipeline(options, tangentspace=TangentSpaces(), classifier=classifier)


def _acm_ts_svm(options: Options) -> GridSearchCV:
    """Augmented covariances, tangent space and SVM; delays chosen in inner folds.

    The best pipeline of MOABB's within-session table for BCI2a (Carrara and Papadopoulo 2024).
    """
    assert options is not None  # the method needs signals
    # Delays are applied after filtering and cutting, which need the signal around the window. With
    # many channels and few samples, the sample covariance would be close to singular.
    sfreq = options["sfreq"]
    names = StandardTrials(sfreq).get_params()
    pipeline = Pipeline(
        [
            ("trials", StandardTrials(**{n: options[n] for n in names if n in options})),
            ("augmented", AugmentedTrials()),
            ("filterbank", FilterBankCovariances(sfreq, bands="none", estimator="oas")),
            ("tangentspace", TangentSpaces()),
            ("classifier", _svm()),
        ]
    )
    grid = {"augmented__order": (2, 4), "augmented__lag": (2, 5, 8)}
    return GridSearchCV(pipeline, grid, cv=INNER_FOLDS, error_score="raise")


def strongest_within_one_error(results: dict[str, Any]) -> int:
    """Select the strongest regularisation whose score is within one standard error of the best.

    This is the one-standard-error rule of Breiman et al. (1984). Settings are ordered from strong
    to weak.
    """
    mean = np.asarray(results["mean_test_score"])
    best = int(mean.argmax())
    error = results["std_test_score"][best] / np.sqrt(INNER_FOLDS.get_n_splits())
    return int(np.flatnonzero(mean >= mean[best] - error)[0])


def _svm() -> SVC:
    # With ties broken by confidence, the prediction is the class of the highest decision value, so
    # that stored decision values determine the prediction.
    return SVC(break_ties=True)


def _chosen_strength(classifier: BaseEstimator) -> GridSearchCV:
    return GridSearchCV(
        classifier, {"C": STRENGTHS}, cv=INNER_FOLDS, refit=strongest_within_one_error
    )


def _xdawn_ts_lr(options: Options) -> Pipeline:
    """Xdawn covariances, tangent space and logistic regression with balanced classes."""
    classifier = LogisticRegression(max_iter=2000, class_weight="balanced")
    return _tangent({**(options or {}), "estimator": "xdawn"}, classifier)


def _lda() -> LinearDiscriminantAnalysis:
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


#: By the name of the method, from the options of the filter bank to the pipeline.
PIPELINES: dict[str, Callable[[Options], BaseEstimator]] = {
    "mdm": lambda options: _pipeline(options, classifier=NearestMean()),
    "fgmdm": lambda options: _pipeline(options, classifier=NearestMean(filtered=True)),
    "ts-lr": lambda options: _tangent(options, LogisticRegression(max_iter=2000)),
    "ts-svm": lambda options: _tangent(options, _chosen_strength(_svm())),
    "ts-lda": lambda options: _tangent(options, _lda()),
    "fb-ts-lr": lambda options: _pipeline(
        options,
        tangentspace=TangentSpaces(),
        scaler=StandardScaler(),
        classifier=_chosen_strength(LogisticRegression(max_iter=5000)),
    ),
    "xdawn-ts-lr": _xdawn_ts_lr,
    "acm-ts-svm": _acm_ts_svm,
}
