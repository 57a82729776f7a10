"""Correct the decisions of a recentred classifier for unbalanced classes of a recording.

A recording is recentred by the mean of its trials. If one class is frequent, the mean lies near
that class, and the scores of all trials move towards the others. The move of a class's score is
proportional to the surplus of the class and to the separation of its scores from the others'.
Both are estimated from the shape of the distribution of the scores, without labels.
"""

from __future__ import annotations

import numpy as np

from .tokens import Array, softmax

#: Prior of the class proportions: as if this many trials per class had been seen, in
#: the proportions of training. Chosen on development data, see docs/research/imbalance.md.
PRIOR = 2.0
#: Prior odds that the proportions of a recording differ from those of training.
UNBALANCED = 1 / 3
#: Variances of the scores of a class, relative to those of calibrated probabilities.
VARIANCES = 2.0 ** np.array([-1.5, -0.5, 0.5, 1.5])
#: Proportions of a class that are compared, as differences of log odds from those of training.
ODDS = np.linspace(-4.0, 4.0, 21)
#: Log odds of probabilities are cut here, as a few extreme ones would determine the variance.
LIMIT = 12.0
#: Number of the latest trials that a running estimate uses, which limits its time.
LATEST = 200


def imbalance_shift(p: Array, proportions: Array) -> Array:
    r"""Estimate how far an unbalanced mean has moved the log odds of each class.

    The log odds of class k against all others are a mixture of two normal distributions of equal
    variance, with the unknown share :math:`\pi` of the class. With calibrated probabilities the
    variance equals the distance :math:`d` of the means; from a third to three times that is
    admitted. The mean and the variance of the mixture are those of the trials, so that :math:`\pi`
    determines everything else, and the likelihood of the trials is a matter of skewness. Recentred
    by the mean of such trials, the log odds are too small by :math:`(\pi - q) d`, where :math:`q`
    is the share of the class in training. The estimate is the mean of this over the posterior of
    :math:`\pi`, times the posterior probability that the recording is unbalanced at all. The
    latter compares the marginal likelihood with that of :math:`\pi = q`, for all classes jointly.
    A weak decoder or few trials do not reveal an imbalance, and there is hardly a shift.
    Estimating proportions from probabilities is due to Saerens et al. [1]_, who assume that nothing
    else has changed; here the mean has, too.

    Parameters
    ----------
    p : ndarray, shape (n, classes)
        Class probabilities of trials that were recentred by their mean.
    proportions : ndarray, shape (classes,)
        Share of each class among the training trials.

    Returns
    -------
    ndarray, shape (classes,)
        To be added to the logarithms of probabilities; 0 for classes without training trials.

    See Also
    --------
    spdtokens.Recentring : Corrects decisions if ``balanced``.

    References
    ----------
    .. [1] M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the outputs of a classifier to new
       a priori probabilities", Neural Computation 14, 21-41, 2002.
       https://doi.org/10.1162/089976602753284446

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.runtime.balance import imbalance_shift, shifted
    >>> x = 8 * (np.arange(100) < 90) + 3 * np.random.default_rng(0).standard_normal(100)
    >>> p = 1 / (1 + np.exp(x.mean() - x))  # 90 of 100 trials are of the second class
    >>> p = np.stack([1 - p, p], axis=1)
    >>> found = shifted(p, imbalance_shift(p, np.full(2, 0.5)))
    >>> int((p.argmax(1) == 1).sum()), int((found.argmax(1) == 1).sum())
    (54, 82)
    """
    shift = np.zeros(p.shape[1])
    if len(p) < 2:
        return shift
    known = np.flatnonzero(proportions)
    p, q = p[:, known], proportions[known, None, None]
    tiny = np.finfo(np.float64).tiny
    x = np.log(np.maximum(p, tiny)) - np.log(np.maximum(1 - p, tiny))
    x = x.clip(-LIMIT, LIMIT)[..., None, None]  # n, classes, variances, shares
    share = 1 / (1 + np.exp(-ODDS) * (1 - q) / q)
    mixed, relative = share * (1 - share), VARIANCES[:, None]
    # The variance of the mixture is v + share (1 - share) d^2, with v = relative d.
    spread = x.var(0) + 1e-9
    d = (np.sqrt(relative**2 + 4 * mixed * spread) - relative) / (2 * mixed)
    v = relative * d
    mean = x.mean(0)
    own = np.log(share) - 0.5 * (x - mean - (1 - share) * d) ** 2 / v
    other = np.log1p(-share) - 0.5 * (x - mean + share * d) ** 2 / v
    fit = np.logaddexp(own, other).sum(0) - 0.5 * len(p) * np.log(v)
    n_prior = PRIOR * len(known)
    prior = n_prior * (q * np.log(share) + (1 - q) * np.log1p(-share))
    posterior = fit + prior - np.logaddexp.reduce(prior, axis=2, keepdims=True)
    posterior = posterior.reshape(len(known), -1)
    moves = (softmax(posterior) * ((share - q) * d).reshape(len(known), -1)).sum(1)
    # Logarithms of Bayes factors against the proportions of training. Of K classes, K - 1 are free.
    as_trained = np.logaddexp.reduce(fit[:, :, len(ODDS) // 2], axis=1)
    evidence = np.logaddexp.reduce(posterior, axis=1) - as_trained
    evidence = evidence.sum() * (1 - 1 / len(known))
    moves /= 1 + np.exp(-evidence) / UNBALANCED
    # If the log odds of each class against K - 1 others are to move by ``moves``, which sum to
    # about zero, the logarithms of probabilities must move by this share of it.
    shift[known] = moves * (1 - 1 / len(known))
    return shift


def shifted(p: Array, shift: Array) -> Array:
    """Class probabilities (..., classes) with their logarithms moved by ``shift``."""
    moved = p * np.exp(shift - shift.max())
    return np.asarray(moved / moved.sum(-1, keepdims=True))


def start_count(n_domains: int) -> int:
    """Return how many trials the start of a running mean counts for.

    Parameters
    ----------
    n_domains : int
        Number of training domains. A single one is often a session of the same person, whose mean
        is a better start than that of other people.

    Returns
    -------
    int
        Number of trials.
    """
    return 10 if n_domains == 1 else 3


def running_balance(p: Array, proportions: Array, count: int = 3) -> Array:
    """Correct the probabilities of successive trials, each by those of the trials before it.

    Parameters
    ----------
    p : ndarray, shape (n, classes)
        Class probabilities of trials, each recentred by the trials before it.
    proportions : ndarray, shape (classes,)
        Share of each class among the training trials.
    count : int, default=3
        Number of trials that the start of the running mean counts for.

    Returns
    -------
    ndarray, shape (n, classes)
        Corrected probabilities.
    """
    found = np.empty_like(p)
    for i, now in enumerate(p):
        shift = imbalance_shift(p[max(i - LATEST, 0) : i], proportions)
        found[i] = shifted(now, shift * (i / (i + count)))
    return found
