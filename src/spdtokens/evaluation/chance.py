"""What guessing reaches: chance levels, and how far above them luck gets.

A guesser here knows how often to say each class, but nothing of the trial. Bounds hold for
whatever frequencies it guesses with, one-sided at level ``alpha``, for one score that was not
picked out of many. A score is above chance if it is strictly above the bound. Bounds are for
independent trials; :func:`independent_counts` tells how many those at hand are worth.

References
----------
Combrisson and Jerbi, Exceeding chance level by chance, Journal of Neuroscience Methods 250 (2015).
Kish, Survey Sampling (1965), on the effective size of a sample of clusters.
Hoeffding, On the distribution of the number of successes in independent trials, Annals of
Mathematical Statistics 27 (1956).
Mann and Whitney, On a test of whether one of two random variables is stochastically larger than
the other, Annals of Mathematical Statistics 18 (1947).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.metrics import itr

#: Metrics whose bounds depend on the trials of each class.
BY_CLASS = ("balanced_accuracy", "roc_auc")


def chance_level(n_classes: int) -> float:
    """Expected accuracy of guesses among equally frequent classes."""
    if n_classes < 2:
        raise EvaluationError(f"n_classes must be >= 2, got {n_classes}.")
    return 1 / n_classes


def accuracy_bound(
    n_trials: int,
    n_classes: int,
    *,
    priors: ArrayLike | None = None,
    alpha: float = 0.05,
) -> float:
    """Accuracy that a guesser exceeds with probability ``alpha`` at most.

    The number of lucky guesses is binomial where classes are equally frequent (Combrisson and
    Jerbi). Where they are not, the best guesser always says the most frequent class, and the
    binomial of that class's frequency is taken. It bounds every guesser: with frequencies q, hits
    are a sum of independent trials of mean sum(priors * q), at most max(priors), and no such sum
    has a heavier upper tail than the binomial of its mean (Hoeffding). It is cautious, as always
    saying one class leaves nothing to luck once the labels are fixed.

    Parameters
    ----------
    n_trials, n_classes : int
    priors : array, shape (n_classes,), optional
        Share of each class among the test trials; equal by default.
    alpha : float
    """
    if n_trials < 1 or not 0 < alpha < 0.5:
        raise EvaluationError(
            f"n_trials must be >= 1 and alpha between 0 and 0.5, got {n_trials} and {alpha}."
        )
    p = chance_level(n_classes)
    if priors is not None:
        shares = np.asarray(priors, dtype=np.float64)
        if shares.shape != (n_classes,) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
            raise EvaluationError(
                f"priors must be {n_classes} shares that sum to 1, one a class, not {priors}."
            )
        p = float(shares.max())
    return float(binom.isf(alpha, n_trials, p) / n_trials)


def auc_bound(counts: ArrayLike, *, alpha: float = 0.05) -> float:
    """Area under the ROC curve that a guesser exceeds with probability ``alpha``, roughly.

    By the exact variance of the Mann-Whitney U of scores that know nothing of the labels, which is
    (n + 1) / (12 n_pos n_neg) as an area, and the normal distribution; ties make it smaller. With
    more than two classes the areas of each against the rest go together in ways that depend on the
    guesser, and the standard deviation of their mean is at most the mean of theirs, which is taken.

    Parameters
    ----------
    counts : array of int, shape (classes,)
        Test trials of each class; for two classes (n_neg, n_pos).
    alpha : float

    Returns
    -------
    float
        NaN if a class has no trial. Above 1 where the trials are too few for any area to be
        beyond luck.
    """
    sizes = _sizes(counts, alpha)
    if not sizes.all():
        return float("nan")
    n = sizes.sum()
    spread = np.sqrt((n + 1) / (12 * sizes * (n - sizes)))
    return float(0.5 + norm.isf(alpha) * spread.mean())


def balanced_accuracy_bound(counts: ArrayLike, *, alpha: float = 0.05) -> float:
    """Balanced accuracy that a guesser exceeds with probability ``alpha`` at most, or roughly.

    With equally many trials a class it is the accuracy, and so is the bound. Otherwise every
    guesser expects 1 / classes, and the one of largest variance, sum(q (1 - q) / counts) /
    classes ** 2, is taken with the normal distribution. NaN if a class has no trial.
    Parameters are those of :func:`auc_bound`.
    """
    sizes = _sizes(counts, alpha)
    k = len(sizes)
    if not sizes.all():
        return float("nan")
    if np.ptp(sizes) == 0:
        return accuracy_bound(int(sizes.sum()), k, alpha=alpha)

    def guesses(price: float) -> NDArray[np.float64]:
        # Where the slope of the variance is the same for every class guessed at all.
        return np.clip((1 - price * sizes) / 2, 0, None)

    # At price 0 the guesses sum to k / 2, which is 1 or more; at 1 / min(sizes) to 0.
    price = brentq(lambda t: guesses(t).sum() - 1, 0, 1 / sizes.min())
    q = guesses(price)
    spread = np.sqrt((q * (1 - q) / sizes).sum()) / k
    return float(1 / k + norm.isf(alpha) * spread)


def _sizes(counts: ArrayLike, alpha: float) -> NDArray[np.float64]:
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.ndim != 1 or len(sizes) < 2 or not 0 < alpha < 0.5:
        raise EvaluationError(
            "counts must be the trials of 2 or more classes and alpha between 0 and 0.5, got "
            f"{sizes.tolist()} and {alpha}."
        )
    return sizes


def independent_counts(
    metric: str, y: ArrayLike, stretch: ArrayLike, n_classes: int
) -> NDArray[np.float64]:
    """How many independent trials of each class the test trials are worth.

    Trials of one stretch count as one: of one class for ROC AUC and balanced accuracy, which look
    at each class; else of all, and their number is shared out as the trials are. Where stretches
    are not equally large, a mean over trials is less certain than their number says, and Kish's
    effective number, (sum of sizes) ** 2 / (sum of sizes ** 2) rounded down, is taken.

    Parameters
    ----------
    metric : str
    y : array of int, shape (n,)
    stretch : array of int, shape (n,)
        The same number for trials that depend on each other: see
        :func:`~spdtokens.evaluation.trials.dependence`.
    n_classes : int

    Returns
    -------
    array, shape (n_classes,)
        The trials of each class if no two have the same stretch.
    """
    codes, number = np.asarray(y), np.unique(stretch, return_inverse=True)[1]
    sizes = np.zeros((int(number.max()) + 1, n_classes), dtype=np.int64)
    np.add.at(sizes, (number, codes), 1)
    counts, n = sizes.sum(0), len(codes)
    if metric in BY_CLASS:
        return (counts**2 // (sizes**2).sum(0).clip(1)).astype(np.float64)
    return np.asarray(counts * (n**2 // int((sizes.sum(1) ** 2).sum()) / n))


def _accuracy(counts: NDArray[Any]) -> float:
    return accuracy_bound(round(counts.sum()), len(counts), priors=counts / counts.sum())


def _kappa(counts: NDArray[Any]) -> float:
    """With equally frequent classes, kappa is accuracy on another scale; otherwise NaN."""
    if np.ptp(counts) > 0:
        return float("nan")
    level = chance_level(len(counts))
    return (_accuracy(counts) - level) / (1 - level)


#: Bounds at level 0.05 from the trials of each class (classes,), by metric.
BOUNDS: dict[str, Callable[[NDArray[Any]], float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": balanced_accuracy_bound,
    "kappa": _kappa,
    "roc_auc": auc_bound,
    # The rate rises with accuracy, so it is above its bound when accuracy is.
    "itr": lambda counts: float(itr(_accuracy(counts), len(counts))),
}
