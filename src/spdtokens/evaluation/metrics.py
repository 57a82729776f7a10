"""Metrics of one test set, from labels and class probabilities.

The predicted class is the one of highest probability, the first of them in a tie. A metric that
does not exist for a test set is NaN, never a warning: which ones need every class among the labels
is said with each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from spdtokens.errors import EvaluationError

#: How far from 1 a trial's probabilities may add up to: float32 rounds, logits are farther off.
ROUNDING = 1e-3
#: Classes are clearly unequal if the largest has so many times its equal share of the trials: with
#: two classes three quarters of them, with four three eighths.
UNEQUAL = 1.5

Counts = NDArray[np.int64]
Scores = NDArray[np.float64]


def accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Share of trials classified correctly.

    Parameters
    ----------
    y : array of int, shape (n,)
        Class codes, from 0.
    probabilities : array, shape (n, classes)
    """
    return float(_accuracy(confusion(y, probabilities)))


def balanced_accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean over classes of the share of their trials classified correctly.

    NaN if a class has no trial: over the classes that remain, chance would not be one in
    ``classes``. Parameters are those of :func:`accuracy`.
    """
    return float(_balanced_accuracy(confusion(y, probabilities)))


def kappa(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Cohen's kappa: agreement beyond that of independent guesses with the same frequencies.

    NaN if labels and predictions are all one class, where such guesses agree fully. Parameters are
    those of :func:`accuracy`.
    """
    return float(_kappa(confusion(y, probabilities)))


def roc_auc(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Area under the ROC curve.

    With two classes of the probability of class 1; with more, the mean over classes of each
    against the rest. NaN if a class has no trial. Parameters are those of :func:`accuracy`.
    """
    y, p = checked(y, probabilities)
    n_classes = p.shape[1]
    columns = [1] if n_classes == 2 else range(n_classes)
    return float(np.mean([_area(y == k, p[:, k]) for k in columns]))


def f1(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Harmonic mean of precision and recall: of class 1 if there are two, else the classes' mean.

    NaN if a class concerned has no trial. Parameters are those of :func:`accuracy`.
    """
    return float(_f1(confusion(y, probabilities)))


def calibration_error(y: ArrayLike, probabilities: ArrayLike, *, bins: int = 10) -> float:
    """Expected calibration error: how far confidence is from accuracy; lower is better.

    The confidence of a trial is its highest probability. Trials are put into bins of equal width
    (a bin includes its upper edge), and the distance between mean confidence and accuracy of each
    bin is averaged, weighted by its number of trials. With few trials it is above 0 even for
    exact probabilities.

    Parameters
    ----------
    y : array of int, shape (n,)
    probabilities : array, shape (n, classes)
    bins : int, default 10

    References
    ----------
    Guo et al., On calibration of modern neural networks, ICML (2017).
    """
    codes, p = checked(y, probabilities)
    confidence = p.max(1)
    which = np.digitize(confidence, np.linspace(0, 1, bins + 1)[1:-1], right=True)
    apart = np.bincount(which, (p.argmax(1) == codes) - confidence)
    return float(np.abs(apart).sum() / len(codes))


def log_loss(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean negative logarithm of the true class's probability; lower is better.

    Probabilities below the rounding of double precision count as that, as in scikit-learn.
    Parameters are those of :func:`accuracy`.
    """
    codes, p = checked(y, probabilities)
    true = p[np.arange(len(codes)), codes]
    return float(-np.log(np.clip(true, np.finfo(np.float64).eps, 1)).mean())


def itr(accuracy: float, n_classes: int, seconds: float | None = None) -> float:
    """Information transfer rate.

    The formula takes classes to be equally frequent and mistakes equally likely; where they are
    not, the rate is not what the channel carries. Accuracies at or below chance carry 0 here,
    though the formula rises again below it: a decoder that is wrong on purpose is not meant.

    Parameters
    ----------
    accuracy : float
    n_classes : int
    seconds : float, optional
        From one decision to the next.

    Returns
    -------
    float
        Bits per trial; bits per minute if ``seconds`` is given.

    References
    ----------
    Wolpaw et al., Brain-computer interfaces for communication and control, Clinical
    Neurophysiology 113 (2002).
    """
    if n_classes < 2:
        raise EvaluationError(f"A transfer rate needs 2 classes or more, not {n_classes}.")
    if seconds is not None and not seconds > 0:
        raise EvaluationError(f"seconds must be above 0, not {seconds}.")
    if not 0 <= accuracy <= 1:  # NaN too
        raise EvaluationError(f"accuracy must be from 0 to 1, not {accuracy}; divide percent.")
    bits = float(_bits(np.asarray(accuracy), n_classes))
    return bits if seconds is None else bits * 60 / seconds


def _itr_of_trials(y: ArrayLike, probabilities: ArrayLike) -> float:
    return float(_itr(confusion(y, probabilities)))


# Metrics of confusion matrices (..., classes, classes), so that many can be scored at once.


def _accuracy(counts: Counts) -> Scores:
    return np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1))


def _balanced_accuracy(counts: Counts) -> Scores:
    sizes = counts.sum(-1)
    recalls = _diagonal(counts) / sizes.clip(1)
    return np.where(sizes.all(-1), recalls.mean(-1), np.nan)


def _kappa(counts: Counts) -> Scores:
    # In whole numbers, so that full agreement of guesses is seen exactly.
    n = counts.sum((-2, -1))
    by_guess = (counts.sum(-2) * counts.sum(-1)).sum(-1)
    rest = n**2 - by_guess
    agreed = n * np.trace(counts, axis1=-2, axis2=-1) - by_guess
    return np.where(rest, agreed / np.where(rest, rest, 1), np.nan)


def _f1(counts: Counts) -> Scores:
    sizes = counts.sum(-1)
    each = 2 * _diagonal(counts) / (sizes + counts.sum(-2)).clip(1)
    of = slice(1, 2) if counts.shape[-1] == 2 else slice(None)
    return np.where(sizes[..., of].all(-1), each[..., of].mean(-1), np.nan)


def _itr(counts: Counts) -> Scores:
    return _bits(_accuracy(counts), counts.shape[-1])


def _bits(accuracy: Scores, n_classes: int) -> Scores:
    right = np.clip(accuracy, 1 / n_classes, 1)
    wrong = 1 - right
    bits = np.log2(n_classes) + right * np.log2(right)
    bits = bits + wrong * np.log2(np.where(wrong > 0, wrong, 1) / (n_classes - 1))
    return np.where(accuracy > 1 / n_classes, bits, 0.0)


def _diagonal(counts: Counts) -> Counts:
    return np.diagonal(counts, axis1=-2, axis2=-1)


@dataclass(frozen=True)
class Metric:
    """A number for a test set; higher is better.

    Attributes
    ----------
    name, title : str
        As typed, as shown.
    function : callable
        Of labels (n,) and probabilities (n, classes).
    chance : callable
        Of the test trials of each class (classes,): what the best guesser expects who knows these
        numbers but nothing of a trial, whether it always says one class or draws them.
    of_counts : callable or None
        The same as ``function`` of confusion matrices (..., classes, classes), true class by
        predicted class; None if these do not suffice.
    """

    name: str
    title: str
    function: Callable[[ArrayLike, ArrayLike], float]
    chance: Callable[[NDArray[Any]], float]
    of_counts: Callable[[Counts], Scores] | None = None

    def __call__(self, y: ArrayLike, probabilities: ArrayLike) -> float:
        return self.function(y, probabilities)


def _majority(counts: NDArray[Any]) -> float:
    return float(np.max(counts) / np.sum(counts))


def _f1_of_guesses(counts: NDArray[Any]) -> float:
    """Always class 1 is best of two. Of more, draws as frequent as the classes: 1 / classes."""
    if len(counts) > 2:
        return 1 / len(counts)
    share = counts[1] / np.sum(counts)
    return float(2 * share / (1 + share))


#: All metrics, by name.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", accuracy, _majority, _accuracy),
        Metric(
            "balanced_accuracy",
            "balanced accuracy",
            balanced_accuracy,
            lambda counts: 1 / len(counts),
            _balanced_accuracy,
        ),
        Metric("kappa", "Cohen's kappa", kappa, lambda _: 0.0, _kappa),
        Metric("roc_auc", "ROC AUC", roc_auc, lambda _: 0.5),
        Metric("f1", "F1", f1, _f1_of_guesses, _f1),
        Metric(
            "itr",
            "bits per trial",
            _itr_of_trials,
            lambda counts: itr(_majority(counts), len(counts)),
            _itr,
        ),
    )
}


def get_metric(name: str) -> Metric:
    """A metric by name.

    Raises
    ------
    EvaluationError
        Listing all names.
    """
    if name not in METRICS:
        raise EvaluationError(f"There is no metric {name!r}. There are: {', '.join(METRICS)}.")
    return METRICS[name]


def all_scores(y: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Every metric of a test set, by name. Parameters are those of :func:`accuracy`."""
    counts = confusion(y, probabilities)
    return {
        name: float(metric.of_counts(counts)) if metric.of_counts else metric(y, probabilities)
        for name, metric in METRICS.items()
    }


def default_metric(paradigm: str, counts: ArrayLike) -> str:
    """Name the metric to look at first.

    ROC AUC for event-related potentials. Otherwise accuracy, or balanced accuracy where classes
    are clearly unequal: the largest has :data:`UNEQUAL` times its equal share of the trials, or
    more.

    Parameters
    ----------
    paradigm : str
    counts : array of int, shape (classes,)
        Trials of each class, of all subjects that are evaluated.
    """
    if paradigm == "erp":
        return "roc_auc"
    sizes = np.asarray(counts)
    unequal = len(sizes) * sizes.max() >= UNEQUAL * sizes.sum()
    return "balanced_accuracy" if unequal else "accuracy"


def checked(y: ArrayLike, probabilities: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Labels (n,) and probabilities (n, classes) that belong together.

    Raises
    ------
    EvaluationError
        If they do not, or are none.
    """
    codes, p = np.asarray(y), np.asarray(probabilities, dtype=np.float64)
    if codes.ndim != 1 or p.ndim != 2 or len(codes) != len(p) or not len(p) or p.shape[1] < 2:
        raise EvaluationError(
            "Labels must have shape (n,) and probabilities (n, classes), n from 1 and classes from "
            f"2, not {codes.shape} and {p.shape}."
        )
    if codes.dtype.kind not in "iub":
        raise EvaluationError(f"Labels must be whole numbers, codes from 0, not {codes.dtype}.")
    if codes.min() < 0 or codes.max() >= p.shape[1]:
        raise EvaluationError(
            f"Labels run from {codes.min()} to {codes.max()}, but there are probabilities for "
            f"classes 0 to {p.shape[1] - 1}."
        )
    bad = ~((p >= 0).all(1) & (np.abs(p.sum(1) - 1) <= ROUNDING))  # NaN too
    if bad.any():
        raise EvaluationError(
            f"{bad.sum()} of {len(p)} trials have no class probabilities (from 0 to 1, summing to "
            f"1), the first is number {bad.argmax()}: {p[bad.argmax()]}. Turn logits into them by "
            "a softmax."
        )
    return codes.astype(np.int64), p


def confusion(y: ArrayLike, probabilities: ArrayLike) -> NDArray[np.int64]:
    """Count trials by true and predicted class, shape (classes, classes)."""
    codes, p = checked(y, probabilities)
    n = p.shape[1]
    return np.bincount(codes * n + p.argmax(1), minlength=n * n).reshape(n, n)


def _area(positive: NDArray[np.bool_], score: NDArray[Any]) -> float:
    """Chance that a positive trial scores above a negative one, ties counting half."""
    n_pos = int(positive.sum())
    n_neg = len(positive) - n_pos
    if not n_pos or not n_neg:
        return float("nan")
    u = rankdata(score)[positive].sum() - n_pos * (n_pos + 1) / 2
    return float(u / (n_pos * n_neg))
