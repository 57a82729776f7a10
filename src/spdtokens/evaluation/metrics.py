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
from spdtokens.evaluation.protocols import look_up

#: How far from 1 a trial's probabilities may add up to: float32 rounds, logits are farther off.
ROUNDING = 1e-3
#: Classes are clearly unequal if the largest has so many times its equal share of the trials: with
#: two classes three quarters of them, with four three eighths.
UNEQUAL = 1.5

Counts = NDArray[np.int64]
Scores = NDArray[np.float64]


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

    Probabilities below the rounding of double precision count as that, as in scikit-learn, which
    refuses probabilities in single precision whose sum is rounded.

    Parameters
    ----------
    y : array of int, shape (n,)
        Class codes, from 0.
    probabilities : array, shape (n, classes)
    """
    codes, p = checked(y, probabilities)
    true = p[np.arange(len(codes)), codes]
    return float(-np.log(np.clip(true, np.finfo(np.float64).eps, 1)).mean())


def itr(accuracy: ArrayLike, n_classes: int) -> Scores:
    """Information transfer rate in bits per trial, of accuracies (...) from 0 to 1.

    The formula takes classes to be equally frequent and mistakes equally likely; where they are
    not, the rate is not what the channel carries. Accuracies at or below chance carry 0 here,
    though the formula rises again below it: a decoder that is wrong on purpose is not meant.

    References
    ----------
    Wolpaw et al., Brain-computer interfaces for communication and control, Clinical
    Neurophysiology 113 (2002).
    """
    right = np.clip(accuracy, 1 / n_classes, 1)
    wrong = 1 - right
    bits = np.log2(n_classes) + right * np.log2(right)
    bits = bits + wrong * np.log2(np.where(wrong > 0, wrong, 1) / (n_classes - 1))
    return np.where(np.asarray(accuracy) > 1 / n_classes, bits, 0.0)


# Metrics of confusion matrices (..., classes, classes), so that a permutation test scores thousands
# of them at once, which scikit-learn's functions do not. They agree with these (a test compares
# them), but for classes without trials: NaN here, a warning or another mean there.


def _accuracy(counts: Counts) -> Scores:
    return np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1))


def _balanced_accuracy(counts: Counts) -> Scores:
    """NaN if a class has no trial: over those that remain, chance would not be 1 / classes."""
    sizes = counts.sum(-1)
    recalls = np.diagonal(counts, axis1=-2, axis2=-1) / sizes.clip(1)
    return np.where(sizes.all(-1), recalls.mean(-1), np.nan)


def _kappa(counts: Counts) -> Scores:
    """NaN if labels and predictions are all one class, where guesses agree fully."""
    # In whole numbers, so that full agreement of guesses is seen exactly.
    n = counts.sum((-2, -1))
    by_guess = (counts.sum(-2) * counts.sum(-1)).sum(-1)
    rest = n**2 - by_guess
    agreed = n * np.trace(counts, axis1=-2, axis2=-1) - by_guess
    return np.where(rest, agreed / np.where(rest, rest, 1), np.nan)


def _f1(counts: Counts) -> Scores:
    """Of class 1 if there are two, else the classes' mean; NaN if one concerned has no trial."""
    sizes = counts.sum(-1)
    each = 2 * np.diagonal(counts, axis1=-2, axis2=-1) / (sizes + counts.sum(-2)).clip(1)
    of = slice(1, 2) if counts.shape[-1] == 2 else slice(None)
    return np.where(sizes[..., of].all(-1), each[..., of].mean(-1), np.nan)


def _roc_auc(y: NDArray[np.int64], p: NDArray[Any]) -> float:
    """Of class 1 of two; of more the mean of each against the rest. NaN if one has no trial."""
    areas = []
    for k in [1] if p.shape[1] == 2 else range(p.shape[1]):
        n_pos = int((y == k).sum())
        n_neg = len(y) - n_pos
        u = rankdata(p[:, k])[y == k].sum() - n_pos * (n_pos + 1) / 2
        areas.append(u / (n_pos * n_neg) if n_pos and n_neg else np.nan)
    return float(np.mean(areas))


@dataclass(frozen=True)
class Metric:
    """A number for a test set; higher is better.

    Attributes
    ----------
    name, title : str
        As typed, as shown.
    chance : callable
        Of the test trials of each class (classes,): what the best guesser expects who knows these
        numbers but nothing of a trial, whether it always says one class or draws them.
    of_counts : callable or None
        Scores of confusion matrices (..., classes, classes), true class by predicted class; None
        for ROC AUC, for which these do not suffice.
    """

    name: str
    title: str
    chance: Callable[[NDArray[Any]], float]
    of_counts: Callable[[Counts], Scores] | None = None

    def __call__(self, y: ArrayLike, probabilities: ArrayLike) -> float:
        """The score of labels (n,) and probabilities (n, classes)."""
        if self.of_counts is None:
            return _roc_auc(*checked(y, probabilities))
        return float(self.of_counts(confusion(y, probabilities)))


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
    """A metric by name.

    Raises
    ------
    EvaluationError
        Listing all names.
    """
    return look_up("metric", name, METRICS)


def all_scores(y: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Every metric of labels (n,) and class probabilities (n, classes), by name."""
    return {name: metric(y, probabilities) for name, metric in METRICS.items()}


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
            "Labels must have shape (n,) and probabilities (n, classes), n >= 1 and classes >= 2, "
            f"got {codes.shape} and {p.shape}."
        )
    if codes.dtype.kind not in "iub" or codes.min() < 0 or codes.max() >= p.shape[1]:
        raise EvaluationError(
            f"Labels must be whole numbers from 0 to {p.shape[1] - 1}, one per column of the "
            f"probabilities, got {codes.dtype} from {codes.min()} to {codes.max()}."
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
