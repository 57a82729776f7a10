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

from spdtokens.evaluation.errors import EvaluationError

#: How far from 1 a trial's probabilities may add up to: float32 rounds, logits are farther off.
ROUNDING = 1e-3


def accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Share of trials classified correctly.

    Parameters
    ----------
    y : array of int, shape (n,)
        Class codes, from 0.
    probabilities : array, shape (n, classes)
    """
    counts = _confusion(y, probabilities)
    return float(np.trace(counts) / counts.sum())


def balanced_accuracy(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean over classes of the share of their trials classified correctly.

    NaN if a class has no trial: over the classes that remain, chance would not be one in
    ``classes``. Parameters are those of :func:`accuracy`.
    """
    counts = _confusion(y, probabilities)
    sizes = counts.sum(1)
    return float(np.mean(np.diag(counts) / sizes)) if sizes.all() else float("nan")


def kappa(y: ArrayLike, probabilities: ArrayLike) -> float:
    """Cohen's kappa: agreement beyond that of independent guesses with the same frequencies.

    NaN if labels and predictions are all one class, where such guesses agree fully. Parameters are
    those of :func:`accuracy`.
    """
    counts = _confusion(y, probabilities)
    n = counts.sum()
    # In whole numbers, so that full agreement of guesses is seen exactly.
    by_guess = int(counts.sum(0) @ counts.sum(1))
    rest = int(n) ** 2 - by_guess
    return float((n * np.trace(counts) - by_guess) / rest) if rest else float("nan")


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
    counts = _confusion(y, probabilities)
    sizes = counts.sum(1)
    of = slice(1, 2) if len(counts) == 2 else slice(None)
    if not sizes[of].all():
        return float("nan")
    each = 2 * np.diag(counts) / (sizes + counts.sum(0)).clip(1)
    return float(np.mean(each[of]))


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
    p, n = float(accuracy), n_classes
    if p <= 1 / n:
        return 0.0
    bits = float(np.log2(n) + p * np.log2(p))
    if p < 1:
        bits += float((1 - p) * np.log2((1 - p) / (n - 1)))
    return bits if seconds is None else bits * 60 / seconds


def _itr_of_trials(y: ArrayLike, probabilities: ArrayLike) -> float:
    return itr(accuracy(y, probabilities), np.shape(probabilities)[1])


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
        Of the number of classes: the expected value of guesses, None if it depends on the guesses.
        For accuracy it holds where classes are equally frequent; see
        :func:`~spdtokens.evaluation.chance.accuracy_bound` for others.
    """

    name: str
    title: str
    function: Callable[[ArrayLike, ArrayLike], float]
    chance: Callable[[int], float | None]

    def __call__(self, y: ArrayLike, probabilities: ArrayLike) -> float:
        return self.function(y, probabilities)


#: All metrics, by name.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", accuracy, lambda n: 1 / n),
        Metric("balanced_accuracy", "balanced accuracy", balanced_accuracy, lambda n: 1 / n),
        Metric("kappa", "Cohen's kappa", kappa, lambda _: 0.0),
        Metric("roc_auc", "ROC AUC", roc_auc, lambda _: 0.5),
        Metric("f1", "F1", f1, lambda _: None),
        Metric("itr", "bits per trial", _itr_of_trials, lambda _: 0.0),
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
    return {name: metric(y, probabilities) for name, metric in METRICS.items()}


def default_metric(paradigm: str) -> str:
    """The name of the metric to look at first: ERP sets are unbalanced, so accuracy misleads."""
    return "roc_auc" if paradigm == "erp" else "accuracy"


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


def _confusion(y: ArrayLike, probabilities: ArrayLike) -> NDArray[np.int64]:
    """Numbers of trials, true class by predicted class, shape (classes, classes)."""
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
