"""Classical Riemannian classifiers, the ones to beat.

Pipelines of scikit-learn on the covariances of a :class:`~spdtokens.signal.Tokenizer`, which takes
raw trials (n, channels, samples), given their ``sfreq``, or covariance matrices. The geometry is
pyRiemann's. Whatever is fitted or chosen is fitted and chosen on training trials.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from spdtokens.models.augmented import AugmentedTrials
from spdtokens.models.config import ModelError
from spdtokens.models.manifold import NearestMean, TangentSpaces
from spdtokens.signal import Tokenizer
from spdtokens.signal.standard import StandardTrials

#: Folds within the training trials by which settings are chosen. Not shuffled: neighbours in time
#: resemble each other and stay on one side.
INNER_FOLDS = StratifiedKFold(5)
#: Inverse regularisation, from strong to weak.
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)


class Covariances(Tokenizer):
    """Trials to covariance matrices (n, tokens, d, d): a tokenizer that stops before the token."""

    def fit_covariances(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """As of a :class:`Tokenizer`; labels of one class only are refused."""
        if y is not None and len(np.unique(np.asarray(y))) < 2:
            raise ModelError(
                f"All {len(np.asarray(y))} training trials are of one class: a classifier needs "
                "trials of two or more classes."
            )
        return super().fit_covariances(X, y, groups)

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Fit, and return what :meth:`transform` would of training trials."""
        return _single(self.fit_covariances(X, y))

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Covariance matrices (n, tokens, d, d), or (n, d, d) where a trial has one."""
        return _single(self.covariances(X))


def _single(C: NDArray[np.float64]) -> NDArray[np.float64]:
    return C[:, 0] if C.shape[1] == 1 else C


def mdm(**tokenizer: Any) -> Pipeline:
    """Minimum distance to the Riemannian mean of a class (Barachant et al. 2012)."""
    return make_pipeline(Covariances(**tokenizer), NearestMean())


def fgmdm(**tokenizer: Any) -> Pipeline:
    """Minimum distance to mean after geodesic filtering (Barachant et al. 2010)."""
    return make_pipeline(Covariances(**tokenizer), NearestMean(filtered=True))


def ts_lr(**tokenizer: Any) -> Pipeline:
    """Tangent space and logistic regression at scikit-learn's default strength."""
    return make_pipeline(
        Covariances(**tokenizer), TangentSpaces(), LogisticRegression(max_iter=2000)
    )


def ts_svm(**tokenizer: Any) -> Pipeline:
    """Tangent space and a support vector machine (RBF kernel); strength by inner folds."""
    return make_pipeline(Covariances(**tokenizer), TangentSpaces(), _chosen_strength(_svm()))


def ts_lda(**tokenizer: Any) -> Pipeline:
    """Tangent space and discriminant analysis with Ledoit and Wolf's shrinkage."""
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return make_pipeline(Covariances(**tokenizer), TangentSpaces(), lda)


def fb_ts_lr(**tokenizer: Any) -> Pipeline:
    """Tangent spaces of several bands side by side; strength by inner folds."""
    options = tokenizer | {"bands": tokenizer.get("bands", "filterbank")}
    chosen = _chosen_strength(LogisticRegression(max_iter=5000))
    return make_pipeline(Covariances(**options), TangentSpaces(), StandardScaler(), chosen)


def xdawn_ts_lr(**tokenizer: Any) -> Pipeline:
    """Covariances with Xdawn-filtered class averages, tangent space, logistic regression.

    Classes weigh alike, however rare (Rivet et al. 2009; Barachant and Congedo 2014).
    """
    options = tokenizer | {"covariance": "xdawn"}
    classifier = LogisticRegression(max_iter=2000, class_weight="balanced")
    return make_pipeline(Covariances(**options), TangentSpaces(), classifier)


def acm_ts_svm(**tokenizer: Any) -> GridSearchCV:
    """Augmented covariances, tangent space and SVM; delays by inner folds.

    The best pipeline of MOABB's within-session table for BCI2a (Carrara and Papadopoulo 2024).
    """
    if tokenizer.get("sfreq") is None:
        raise ModelError("acm-ts-svm delays raw trials: it needs them and sfreq, no covariances.")
    # Delays come after filter and window, which need the signal around. Many channels, few samples:
    # the sample covariance would be close to singular.
    covariances = Covariances(sfreq=tokenizer["sfreq"], bands="none", covariance="oas")
    names = StandardTrials(tokenizer["sfreq"]).get_params()
    trials = StandardTrials(**{name: tokenizer[name] for name in names if name in tokenizer})
    pipeline = make_pipeline(trials, AugmentedTrials(), covariances, TangentSpaces(), _svm())
    grid = {"augmentedtrials__order": (2, 4), "augmentedtrials__lag": (2, 5, 8)}
    return GridSearchCV(pipeline, grid, cv=INNER_FOLDS, error_score="raise")


def strongest_within_one_error(results: dict[str, Any]) -> int:
    """The strongest regularisation whose score is within one standard error of the best.

    Breiman's rule: with few trials many settings score alike, and the first of them would be an
    accident. Settings are ordered from strong to weak.
    """
    mean = np.asarray(results["mean_test_score"])
    best = int(mean.argmax())
    error = results["std_test_score"][best] / np.sqrt(INNER_FOLDS.get_n_splits())
    return int(np.flatnonzero(mean >= mean[best] - error)[0])


def _svm() -> SVC:
    # With ties between pairs broken by confidence the prediction is the class of highest decision
    # value, so that what is stored of a trial tells what was predicted.
    return SVC(break_ties=True)


def _chosen_strength(classifier: BaseEstimator) -> GridSearchCV:
    return GridSearchCV(
        classifier, {"C": STRENGTHS}, cv=INNER_FOLDS, refit=strongest_within_one_error
    )
