"""Classical Riemannian classifiers, the ones to beat.

Plain scikit-learn pipelines; the geometry is pyRiemann's. Each is made from the options of
:class:`~spdtokens.FilterBankCovariances`, or None if its input is covariance matrices. Whatever is
fitted or chosen is fitted and chosen on training trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from spdtokens.classifiers.augmented import AugmentedTrials
from spdtokens.classifiers.manifold import NearestMean, TangentSpaces
from spdtokens.errors import ModelError
from spdtokens.preprocessing import FilterBankCovariances, StandardTrials

#: Folds within the training trials by which settings are chosen. Not shuffled: neighbours in time
#: resemble each other and stay on one side.
INNER_FOLDS = StratifiedKFold(5)
#: Inverse regularisation, from strong to weak.
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
Options = Mapping[str, Any] | None


def _pipeline(options: Options, **steps: BaseEstimator) -> Pipeline:
    first = {} if options is None else {"filterbank": FilterBankCovariances(**options)}
    return Pipeline([*first.items(), *steps.items()])


def _tangent(options: Options, classifier: BaseEstimator) -> Pipeline:
    return _pipeline(options, tangentspace=TangentSpaces(), classifier=classifier)


def mdm(options: Options = None) -> Pipeline:
    """Minimum distance to the Riemannian mean of a class (Barachant et al. 2012)."""
    return _pipeline(options, classifier=NearestMean())


def fgmdm(options: Options = None) -> Pipeline:
    """Minimum distance to mean after geodesic filtering (Barachant et al. 2010)."""
    return _pipeline(options, classifier=NearestMean(filtered=True))


def ts_lr(options: Options = None) -> Pipeline:
    """Tangent space and logistic regression at scikit-learn's default strength."""
    return _tangent(options, LogisticRegression(max_iter=2000))


def ts_svm(options: Options = None) -> Pipeline:
    """Tangent space and a support vector machine (RBF kernel); strength by inner folds."""
    return _tangent(options, _chosen_strength(_svm()))


def ts_lda(options: Options = None) -> Pipeline:
    """Tangent space and discriminant analysis with Ledoit and Wolf's shrinkage."""
    return _tangent(options, LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def fb_ts_lr(options: Options = None) -> Pipeline:
    """Tangent spaces of several bands side by side; strength by inner folds."""
    chosen = _chosen_strength(LogisticRegression(max_iter=5000))
    steps = {"tangentspace": TangentSpaces(), "scaler": StandardScaler(), "classifier": chosen}
    return _pipeline(options, **steps)


def xdawn_ts_lr(options: Options = None) -> Pipeline:
    """Covariances with Xdawn-filtered class averages, tangent space, logistic regression.

    Classes weigh alike, however rare (Rivet et al. 2009; Barachant and Congedo 2014).
    """
    classifier = LogisticRegression(max_iter=2000, class_weight="balanced")
    return _tangent(None if options is None else {**options, "estimator": "xdawn"}, classifier)


def acm_ts_svm(options: Options = None) -> GridSearchCV:
    """Augmented covariances, tangent space and SVM; delays by inner folds.

    The best pipeline of MOABB's within-session table for BCI2a (Carrara and Papadopoulo 2024).
    """
    if options is None:
        raise ModelError("acm-ts-svm delays raw trials: it needs them and sfreq, not covariances.")
    # Delays come after filter and window, which need the signal around. Many channels, few samples:
    # the sample covariance would be close to singular.
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


#: By the name of the method.
PIPELINES: dict[str, Callable[[Options], BaseEstimator]] = {
    "mdm": mdm,
    "fgmdm": fgmdm,
    "ts-lr": ts_lr,
    "ts-svm": ts_svm,
    "ts-lda": ts_lda,
    "fb-ts-lr": fb_ts_lr,
    "xdawn-ts-lr": xdawn_ts_lr,
    "acm-ts-svm": acm_ts_svm,
}
