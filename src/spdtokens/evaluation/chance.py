"""Chance levels, and upper percentiles of the score of a random guesser.

A guesser knows how often to predict each class, but nothing about the trial. The bounds hold for
any frequencies of its guesses. They are one-sided at level ``alpha`` and apply to one score that
was not selected among many. A score is above chance if it is strictly larger than the bound. Bounds
assume independent trials; :func:`independent_counts` gives the effective number of trials.

References
----------
Kish, Survey Sampling (1965), on the effective size of a sample of clusters.
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

#: Metrics whose bounds depend on the number of trials per class.
BY_CLASS = ("balanced_accuracy", "roc_auc")


def chance_level(n_classes: int) -> float:
    """Return the expected accuracy of guessing among equally frequent classes.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.

    Returns
    -------
    float
        ``1 / n_classes``.

    Raises
    ------
    EvaluationError
        If ``n_classes`` is smaller than 2.

    See Also
    --------
    accuracy_bound : Upper percentile of the accuracy of guesses.

    Examples
    --------
    >>> from spdtokens.evaluation.chance import chance_level
    >>> chance_level(4)
    0.25
    """
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
    """Return the accuracy that a guesser exceeds with probability ``alpha`` at most.

    With equally frequent classes, the number of correct guesses is binomial [1]_. Otherwise the
    best guesser always predicts the majority class, and the binomial distribution with the
    frequency of that class is used. It bounds every other guesser: with guessing frequencies q,
    the number of hits is a sum of independent trials with mean sum(priors * q) <= max(priors), and
    no such sum has a heavier upper tail than the binomial distribution of the same mean [2]_. The
    bound is conservative.

    Parameters
    ----------
    n_trials : int
        Number of independent test trials.
    n_classes : int
        Number of classes, at least 2.
    priors : array_like, shape (n_classes,), default=None
        Fraction of the test trials in each class. None means equal fractions.
    alpha : float, default=0.05
        One-sided significance level, between 0 and 0.5.

    Returns
    -------
    float
        The ``1 - alpha`` quantile of the accuracy of guesses.

    Raises
    ------
    EvaluationError
        If a parameter is out of range, or ``priors`` does not sum to 1.

    See Also
    --------
    auc_bound : The same for ROC AUC.
    chance_level : Expected accuracy of guesses.

    References
    ----------
    .. [1] Combrisson and Jerbi, Exceeding chance level by chance: the caveat of theoretical chance
       levels in brain signal classification and statistical assessment of decoding accuracy,
       Journal of Neuroscience Methods 250 (2015). https://doi.org/10.1016/j.jneumeth.2015.01.010
    .. [2] Hoeffding, On the distribution of the number of successes in independent trials, Annals
       of Mathematical Statistics 27 (1956). https://doi.org/10.1214/aoms/1177728178

    Examples
    --------
    >>> from spdtokens.evaluation.chance import accuracy_bound
    >>> round(accuracy_bound(n_trials=288, n_classes=4), 3)
    0.292
    >>> round(accuracy_bound(100, 2, priors=[0.8, 0.2]), 3)
    0.86
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
                f"priors must be {n_classes} fractions that sum to 1, one per class, got "
                f"{shares.tolist()}."
            )
        p = float(shares.max())
    return float(binom.isf(alpha, n_trials, p) / n_trials)


def auc_bound(counts: ArrayLike, *, alpha: float = 0.05) -> float:
    """Return the ROC AUC that a guesser exceeds with probability ``alpha``, approximately.

    The variance of the Mann-Whitney U statistic of scores that do not depend on the labels, which
    is (n + 1) / (12 n_pos n_neg) for the area, is used with the normal distribution [1]_. Ties make
    the variance smaller. With more than two classes, the correlation between the one-vs-rest areas
    depends on the guesser; the standard deviation of their mean is at most the mean of theirs,
    which is used.

    Parameters
    ----------
    counts : array_like of int, shape (n_classes,)
        Number of independent test trials per class; for two classes (n_neg, n_pos).
    alpha : float, default=0.05
        One-sided significance level, between 0 and 0.5.

    Returns
    -------
    float
        The bound. NaN if a class has no trial. It is above 1 if there are too few trials for any
        area to be significant.

    Raises
    ------
    EvaluationError
        If there are fewer than 2 classes, or ``alpha`` is out of range.

    See Also
    --------
    accuracy_bound : The same for accuracy.

    References
    ----------
    .. [1] Mann and Whitney, On a test of whether one of two random variables is stochastically
       larger than the other, Annals of Mathematical Statistics 18 (1947).
       https://doi.org/10.1214/aoms/1177730491

    Examples
    --------
    >>> from spdtokens.evaluation.chance import auc_bound
    >>> round(auc_bound([200, 40]), 3)
    0.582
    """
    sizes = _sizes(counts, alpha)
    if not sizes.all():
        return float("nan")
    n = sizes.sum()
    spread = np.sqrt((n + 1) / (12 * sizes * (n - sizes)))
    return float(0.5 + norm.isf(alpha) * spread.mean())


def balanced_accuracy_bound(counts: ArrayLike, *, alpha: float = 0.05) -> float:
    """Return the balanced accuracy that a guesser exceeds with probability ``alpha``.

    With the same number of trials in all classes it equals the accuracy, and so does the bound.
    Otherwise every guesser expects 1 / n_classes. The guesser with the largest variance,
    sum(q (1 - q) / counts) / n_classes ** 2, is used with the normal distribution. NaN if a class
    has no trial. Parameters as in :func:`auc_bound`.
    """
    sizes = _sizes(counts, alpha)
    k = len(sizes)
    if not sizes.all():
        return float("nan")
    if np.ptp(sizes) == 0:
        return accuracy_bound(int(sizes.sum()), k, alpha=alpha)

    def guesses(price: float) -> NDArray[np.float64]:
        # The slope of the variance is equal for all classes that are guessed at all.
        return np.clip((1 - price * sizes) / 2, 0, None)

    # At price 0 the guesses sum to k / 2 >= 1; at 1 / min(sizes) to 0.
    price = brentq(lambda t: guesses(t).sum() - 1, 0, 1 / sizes.min())
    q = guesses(price)
    spread = np.sqrt((q * (1 - q) / sizes).sum()) / k
    return float(1 / k + norm.isf(alpha) * spread)


def _sizes(counts: ArrayLike, alpha: float) -> NDArray[np.float64]:
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.ndim != 1 or len(sizes) < 2 or not 0 < alpha < 0.5:
        raise EvaluationError(
            "counts must have one entry per class for 2 or more classes, and alpha must be between "
            f"0 and 0.5, got "
            f"{sizes.tolist()} and {alpha}."
        )
    return sizes


def independent_counts(
    metric: str, y: ArrayLike, stretch: ArrayLike, n_classes: int
) -> NDArray[np.float64]:
    """Return the effective number of independent test trials of each class.

    Trials of one stretch count as one. For ROC AUC and balanced accuracy they are counted within
    each class. For other metrics they are counted over all classes, and the total is distributed
    like the trials. If stretches differ in size, Kish's effective sample size, (sum of sizes) ** 2
    / (sum of sizes ** 2) rounded down, is used.

    Parameters
    ----------
    metric : str
        Name of the metric.
    y : array_like of int, shape (n,)
        Class of each trial.
    stretch : array_like of int, shape (n,)
        The same number for trials that depend on each other: see
        :func:`~spdtokens.evaluation.trials.dependence`.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray, shape (n_classes,)
        The number of trials of each class if no two share a stretch.
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
    """Rescale the bound of accuracy, which kappa is for equally frequent classes; else NaN."""
    if np.ptp(counts) > 0:
        return float("nan")
    level = chance_level(len(counts))
    return (_accuracy(counts) - level) / (1 - level)


#: Bounds at level 0.05 from the number of trials per class (n_classes,), by metric.
BOUNDS: dict[str, Callable[[NDArray[Any]], float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": balanced_accuracy_bound,
    "kappa": _kappa,
    "roc_auc": auc_bound,
    # The rate increases with accuracy, so it exceeds its bound when accuracy does.
    "itr": lambda counts: float(itr(_accuracy(counts), len(counts))),
}
