"""How well standard Riemannian pipelines decode the simulated data sets: docs/simulation.md.

Run `python studies/simulated_calibration.py`, or with names of data sets, from a checkout. It
measures all subjects and prints a table. Only SciPy, scikit-learn and pyRiemann are used, so that
the numbers check the data and not this library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyriemann.estimation import Covariances, XdawnCovariances
from pyriemann.geometry.base import invsqrtm
from pyriemann.geometry.mean import mean_riemann
from pyriemann.tangentspace import TangentSpace
from scipy.signal import butter, sosfiltfilt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spdtokens.datasets import Dataset, load_dataset

Trials = NDArray[Any]
# From the name of a measure to the score of each subject.
Scores = dict[str, dict[str, float]]


def pooled(
    dataset: Dataset, subject: str, sessions: Iterable[str], *bands: tuple[float, float]
) -> tuple[list[Trials], NDArray[np.int64]]:
    """Trials of some sessions in each of the bands, and their labels."""
    assert dataset.sfreq is not None
    recordings = [dataset.load(subject, session) for session in sessions]
    # In microvolts: no number depends on it, but iterations stop at absolute tolerances.
    X = np.concatenate([recording.X for recording in recordings]).astype(np.float64) * 1e6
    y = np.concatenate([recording.y for recording in recordings])
    # Filtered before they are cut, so that the ends stay outside.
    first, last = (round((edge - dataset.tmin) * dataset.sfreq) for edge in dataset.window)
    filters = [butter(4, band, btype="bandpass", fs=dataset.sfreq, output="sos") for band in bands]
    return [sosfiltfilt(sos, X, axis=-1)[..., first:last] for sos in filters], y


def classifier() -> Any:
    """The pipeline of reference: tangent space, logistic regression."""
    return make_pipeline(TangentSpace(), StandardScaler(), LogisticRegression(max_iter=2000))


def recentred(C: Trials) -> Trials:
    """Covariances moved so that their Riemannian mean is the identity."""
    whiten = invsqrtm(mean_riemann(C, tol=1e-6))
    return np.asarray(whiten @ C @ whiten)


def motor_imagery_scores(dataset: Dataset, subjects: Sequence[str]) -> Scores:
    """Accuracies from session 1 to 2, and from all other subjects, without and with recentring."""
    data: dict[str, list[tuple[Trials, NDArray[np.int64]]]] = {}
    for subject in subjects:
        for session in dataset.sessions(subject):
            (X,), y = pooled(dataset, subject, [session], (8.0, 30.0))
            data.setdefault(subject, []).append((Covariances("oas").transform(X), y))
    scores: Scores = {"cross-session": {}, "cross-session, recentred": {}}
    for subject, ((C1, y1), (C2, y2)) in data.items():
        scores["cross-session"][subject] = classifier().fit(C1, y1).score(C2, y2)
        model = classifier().fit(recentred(C1), y1)
        scores["cross-session, recentred"][subject] = model.score(recentred(C2), y2)
    if len(subjects) > 1:
        C = {s: np.concatenate([part for part, _ in data[s]]) for s in subjects}
        y_of = {s: np.concatenate([labels for _, labels in data[s]]) for s in subjects}
        scores["other subjects"] = left_out(C, y_of)
        moved = {s: recentred(matrices) for s, matrices in C.items()}
        scores["other subjects, recentred"] = left_out(moved, y_of)
    return scores


def left_out(C: dict[str, Trials], y: dict[str, NDArray[np.int64]]) -> dict[str, float]:
    """Accuracy on each subject of a model that saw all others."""
    found = {}
    for test in C:
        others = [s for s in C if s != test]
        model = classifier()
        model.fit(np.concatenate([C[s] for s in others]), np.concatenate([y[s] for s in others]))
        found[test] = float(model.score(C[test], y[test]))
    return found


def erp_scores(dataset: Dataset, subjects: Sequence[str]) -> Scores:
    """Areas under the ROC curve in the last session, by Xdawn and by plain covariances."""
    scores: Scores = {"AUC, Xdawn": {}, "AUC, plain": {}}
    for subject in subjects:
        *first, last = dataset.sessions(subject)
        (X,), y = pooled(dataset, subject, first, (1.0, 20.0))
        (X_test,), y_test = pooled(dataset, subject, [last], (1.0, 20.0))
        xdawn = XdawnCovariances(nfilter=3, estimator="oas", xdawn_estimator="oas")
        for name, estimator in (("Xdawn", xdawn), ("plain", Covariances("oas"))):
            model = make_pipeline(estimator, classifier()).fit(X, y)
            score = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
            scores[f"AUC, {name}"][subject] = float(score)
    return scores


def ssvep_scores(dataset: Dataset, subjects: Sequence[str]) -> Scores:
    """Accuracies in the last session, from bands about the flickers and from one broad band."""
    narrow = [(k * f - 0.5, k * f + 0.5) for f in dataset.stimulus_hz for k in (1, 2)]
    scores: Scores = {"flicker bands": {}, "broad band": {}}
    for subject in subjects:
        *first, last = dataset.sessions(subject)
        train, y = pooled(dataset, subject, first, (4.0, 40.0), *narrow)
        test, y_test = pooled(dataset, subject, [last], (4.0, 40.0), *narrow)
        features, features_test = [], []
        for X, X_test in zip(train, test, strict=True):
            tangent = make_pipeline(Covariances("oas"), TangentSpace())
            features.append(tangent.fit_transform(X))
            features_test.append(tangent.transform(X_test))
        for name, blocks in (("flicker bands", slice(1, None)), ("broad band", slice(1))):
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
            model.fit(np.hstack(features[blocks]), y)
            scores[name][subject] = float(model.score(np.hstack(features_test[blocks]), y_test))
    return scores


MEASURES: dict[str, Callable[[Dataset, Sequence[str]], Scores]] = {
    "sim-mi": motor_imagery_scores,
    "sim-erp": erp_scores,
    "sim-ssvep": ssvep_scores,
}


def calibrate(name: str, subjects: Sequence[str] | None = None) -> Scores:
    """Measure a simulated data set with pyRiemann: the score of each subject, by measure."""
    dataset = load_dataset(name)
    return MEASURES[name](dataset, subjects or dataset.subjects)


def main(names: Sequence[str]) -> None:
    """Print the table."""
    print(f"{'data set':10} {'measure':27} {'mean':>5} {'min':>5} {'max':>5}  subjects")
    for name in names or MEASURES:
        for measure, scores in calibrate(name).items():
            each = 100 * np.array(list(scores.values()))
            numbers = " ".join(f"{value:5.1f}" for value in (each.mean(), each.min(), each.max()))
            print(f"{name:10} {measure:27} {numbers}  {' '.join(f'{v:.0f}' for v in each)}")


if __name__ == "__main__":
    main(sys.argv[1:])
