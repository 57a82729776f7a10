"""Metrics of one test set, from labels and class probabilities.

The predicted class is the one with the highest probability, the first one in case of ties. A metric
that is not defined for a test set is NaN, without a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.protocols import look_up

#: Tolerance of the sum of a trial's probabilities: above the rounding of float32.
ROUNDING = 1e-3
#: Classes are unbalanced if the largest has at least this multiple of its equal share of trials:
#: 75 % of them with two classes, 37.5 % with four.
UNEQUAL = 1.5

Counts = NDArray[np.int64]
Scores = NDArray[np.float64]


def calibration_error(y: ArrayLike, probabilities: ArrayLike, *, bins: int = 10) -> float:
    """Return the expected calibration error, the gap between confidence and accuracy.

    The confidence of a trial is its highest probability. Trials are grouped into bins of equal
    width, which include their upper edge, and the absolute difference between mean confidence and
    accuracy is averaged over bins, weighted by the number of trials. Lower is better. With few
    trials the error is positive even for calibrated probabilities.

    Parameters
    ----------
    y : array_like of int, shape (n,)
        True classes, from 0.
    probabilities : array_like, shape (n, n_classes)
        Class probabilities.
    bins : int, default=10
        Number of bins.

    Returns
    -------
    float
        Expected calibration error, from 0 to 1.

    Raises
    ------
    EvaluationError
        If labels and probabilities do not match, or rows do not sum to 1.

    See Also
    --------
    spdtokens.evaluation.summary.Row : Calibration error of each method.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks, ICML
    (2017). arXiv:1706.04599

    Examples
    --------
    >>> from spdtokens.evaluation.metrics import calibration_error
    >>> round(calibration_error([1, 1, 1, 0], [[0.1, 0.9]] * 4), 2)
    0.15
    """
    codes, p = checked(y, probabilities)
    confidence = p.max(1)
    which = np.digitize(confidence, np.linspace(0, 1, bins + 1)[1:-1], right=True)
    apart = np.bincount(which, (p.argmax(1) == codes) - confidence)
    return float(np.abs(apart).sum() / len(codes))


def log_loss(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean negative log-probability of the true class; lower is better.

    Probabilities are clipped at the machine epsilon of float64, as in scikit-learn, whose function
    rejects float32 probabilities with rounded sums.
    """
    codes, p = checked(y, probabilities)
    true = p[np.arange(len(codes)), codes]
    return float(-np.log(np.clip(true, np.finfo(np.float64).eps, 1)).mean())


def itr(accuracy: ArrayLike, n_classes: int) -> Scores:
    """Information transfer rate in bits per trial, from accuracies (...) between 0 and 1.

    Assumes equally frequent classes and equally likely errors. Accuracies at or below chance give
    0, although the formula increases again below chance.

    References
    ----------
    Wolpaw, Birbaumer, McFarland, Pfurtscheller and Vaughan, Brain-computer interfaces for
    communication and control, Clinical Neurophysiology 113 (2002).
    https://doi.org/10.1016/S1388-2457(02)00057-3
    """
    right = np.clip(accuracy, 1 / n_classes, 1)
    wrong = 1 - right
    bits = np.log2(n_classes) + right * np.log2(right)
    bits = bits + wrong * np.log2(np.where(wrong > 0, wrong, 1) / (n_classes - 1))
    return np.where(np.asarray(accuracy) > 1 / n_classes, bits, 0.0)


# Metrics of confusion matrices (..., n_classes, n_classes): unlike scikit-learn's, they score
# thousands of matrices at once, for permutation tests. They agree with scikit-learn (tested), but
# are NaN for classes without trials.


def _accuracy(counts: Counts) -> Scores:
    return np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1))


def _balanced_accuracy(counts: Counts) -> Scores:
    """NaN if a class has no trial: chance would not be 1 / n_classes."""
    sizes = counts.sum(-1)
    recalls = np.diagonal(counts, axis1=-2, axis2=-1) / sizes.clip(1)
    return np.where(sizes.all(-1), recalls.mean(-1), np.nan)


def _kappa(counts: Counts) -> Scores:
    """NaN if all labels and predictions are one class."""
    # In integers, so that full agreement by chance is found exactly.
    n = counts.sum((-2, -1))
    by_guess = (counts.sum(-2) * counts.sum(-1)).sum(-1)
    rest = n**2 - by_guess
    agreed = n * np.trace(counts, axis1=-2, axis2=-1) - by_guess
    return np.where(rest, agreed / np.where(rest, rest, 1), np.nan)


def _f1(counts: Counts) -> Scores:
    """F1 of class 1 of two, else the mean over classes; NaN if such a class has no trial."""
    sizes = counts.sum(-1)
    each = 2 * np.diagonal(counts, axis1=-2, axis2=-1) / (sizes + counts.sum(-2)).clip(1)
    of = slice(1, 2) if counts.shape[-1] == 2 else slice(None)
    return np.where(sizes[..., of].all(-1), each[..., of].mean(-1), np.nan)


def _roc_auc(y: NDArray[np.int64], p: NDArray[Any]) -> float:
    """ROC AUC of class 1 of two, else the one-vs-rest mean; NaN if a class has no trial."""
    areas = []
    for k in [1] if p.shape[1] == 2 else range(p.shape[1]):
        n_pos = int((y == k).sum())
        n_neg = len(y) - n_pos
        u = rankdata(p[:, k])[y == k].sum() - n_pos * (n_pos + 1) / 2
        areas.append(u / (n_pos * n_neg) if n_pos and n_neg else np.nan)
    return float(np.mean(areas))


@dataclass(frozen=True)
class Metric:
    """A score of a test set; higher is better.

    Attributes
    ----------
    name, title : str
        Name in code and in tables.
    chance : callable
        From the number of test trials per class (n_classes,) to the expected score of the best
        guesser that knows these numbers, whether it predicts one class or draws classes.
    of_counts : callable or None
        From confusion matrices (..., n_classes, n_classes), true class by predicted class, to
        scores; None for ROC AUC, which needs probabilities.
    """

    name: str
    title: str
    chance: Callable[[NDArray[Any]], float]
    of_counts: Callable[[Counts], Scores] | None = None

    def __call__(self, y: ArrayLike, probabilities: ArrayLike) -> float:
        """Score labels (n,) and probabilities (n, n_classes)."""
        if self.of_counts is None:
            return _roc_auc(*checked(y, probabilities))
        return float(self.of_counts(confusion(y, probabilities)))


def _majority(counts: NDArray[Any]) -> float:
    return float(np.max(counts) / np.sum(counts))


def _f1_of_guesses(counts: NDArray[Any]) -> float:
    """Always class 1 of two; of more, draws with the frequencies of the classes: 1 / n_classes."""
    if len(counts) > 2:
        return 1 / len(counts)
    share = counts[1] / np.sum(counts)
    return float(2 * share / (1 + share))


#: All metrics, by name.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", _majority, _accuracy),
        Metric("balanced_accuracy", "balanced accuracy", lambda n: 1 / len(n), _balanced_accuracy),
        Metric("kappa", "Cohen's kappa", lambda _: 0.0, _kappa),
        Metric("roc_auc", "ROC AUC", lambda _: 0.5),
        Metric("f1", "F1", _f1_of_guesses, _f1),
        Metric(
            "itr",
            "bits per trial",
            lambda n: float(itr(_majority(n), len(n))),
            lambda counts: itr(_accuracy(counts), counts.shape[-1]),
        ),
    )
}


def get_metric(name: str) -> Metric:
    """Look up a metric by its name; the error lists all names."""
    return look_up("metric", name, METRICS)


def all_scores(y: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Compute all metrics of labels (n,) and probabilities (n, n_classes), by name."""
    return {name: metric(y, probabilities) for name, metric in METRICS.items()}


def default_metric(paradigm: str, counts: ArrayLike) -> str:
    """Return the default metric for a paradigm and class distribution.

    ROC AUC for event-related potentials. Otherwise accuracy, or balanced accuracy if the classes
    are unbalanced: the largest has at least 1.5 times its equal share of the trials.

    Parameters
    ----------
    paradigm : str
        Paradigm of the data set, such as ``'erp'`` or ``'motor imagery'``.
    counts : array_like of int, shape (n_classes,)
        Number of trials per class, over all subjects that are evaluated.

    Returns
    -------
    str
        ``'roc_auc'``, ``'accuracy'`` or ``'balanced_accuracy'``.

    See Also
    --------
    spdtokens.evaluate : Its parameter ``metric`` overrides the default.

    Examples
    --------
    >>> from spdtokens.evaluation.metrics import default_metric
    >>> default_metric("motor imagery", [144, 144])
    'accuracy'
    >>> default_metric("motor imagery", [240, 48])
    'balanced_accuracy'
    """
    if paradigm == "erp":
        return "roc_auc"
    sizes = np.asarray(counts)
    unequal = len(sizes) * sizes.max() >= UNEQUAL * sizes.sum()
    return "balanced_accuracy" if unequal else "accuracy"


def checked(y: ArrayLike, probabilities: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return labels (n,) and probabilities (n, n_classes) as arrays, after checking them."""
    codes, p = np.asarray(y), np.asarray(probabilities, dtype=np.float64)
    if codes.ndim != 1 or p.ndim != 2 or len(codes) != len(p) or not len(p) or p.shape[1] < 2:
        raise EvaluationError(
            "Labels must have shape (n,) and probabilities (n, n_classes) with n >= 1 and "
            f"n_classes >= 2, got {codes.shape} and {p.shape}."
        )
    if codes.dtype.kind not in "iub" or codes.min() < 0 or codes.max() >= p.shape[1]:
        raise EvaluationError(
            f"Labels must be integers from 0 to {p.shape[1] - 1}, columns of the probabilities, "
            f"got {codes.dtype} from {codes.min()} to {codes.max()}."
        )
    bad = ~((p >= 0).all(1) & (np.abs(p.sum(1) - 1) <= ROUNDING))  # NaN too
    if bad.any():
        raise EvaluationError(
            f"Probabilities must be from 0 to 1 and sum to 1 per trial; {bad.sum()} of {len(p)} "
            f"trials do not, the first is trial {bad.argmax()}: {p[bad.argmax()]}. Apply a softmax "
            "to logits."
        )
    return codes.astype(np.int64), p


def confusion(y: ArrayLike, probabilities: ArrayLike) -> NDArray[np.int64]:
    """Count trials by true and predicted class, shape (n_classes, n_classes)."""
    codes, p = checked(y, probabilities)
    n = p.shape[1]
    return np.bincount(codes * n + p.argmax(1), minlength=n * n).reshape(n, n)
