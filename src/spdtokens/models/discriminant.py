"""From tokens to scores in closed form: a regularised linear discriminant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor, nn

from spdtokens.models.config import ModelError
from spdtokens.signal.folds import folds_in_time

#: Of 0.004, 0.012, 0.04 and 0.12 the best over parts of training sessions and simulated sessions.
#: To choose it in folds of the training trials was no better: they do not show the next day.
RIDGE = 0.012
#: Folds in which the temperature of the scores is fitted.
FOLDS = 5

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


class TokenDiscriminant(nn.Module):
    """Scores that are linear in all tokens of a trial, each token with weights of its own.

    Parameters
    ----------
    weight : Tensor, shape (tokens, features, classes)
    bias : Tensor, shape (classes,)
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, tokens: Tensor, _bias: Tensor | None = None) -> Tensor:
        """Scores (n, classes) of tokens (n, tokens, features)."""
        # Faster than einsum, which would copy the weights.
        return tokens.flatten(1) @ self.weight.flatten(0, 1) + self.bias


def fit_discriminant(
    tokens: Array,
    codes: Codes,
    sample_weight: ArrayLike | None = None,
    ridge: float = RIDGE,
    drift: Array | None = None,
    *,
    groups: ArrayLike | None = None,
    refitted: NDArray[np.bool_] | None = None,
    refits: Iterable[Refit] = (),
) -> TokenDiscriminant:
    """Linear discriminant analysis of tokens, with a ridge.

    Every token counts alike: it is divided by one number, so that its variance over trials, summed
    over features, is 1. Features within a token keep their proportions, which are those of the
    geometry: to standardise each would raise what is mostly noise. Classes count alike, however
    rare. Scores are multiplied by one number, the inverse temperature, fitted to scores of held-out
    training trials, so that the probabilities are calibrated.

    Parameters
    ----------
    tokens : ndarray, shape (n, tokens, features)
    codes : ndarray of int, shape (n,)
        Classes 0, 1, ..., each with trials.
    sample_weight : array, shape (n,), optional
        How much trials count.
    ridge : float, default=0.012
        Added to the covariance within classes: this share of its total variance, in every
        direction.
    drift : ndarray, shape (k, tokens, features), optional
        Changes of tokens that a new recording may bring, each about as large as it is to be
        expected: their products with themselves are added to the covariance within classes too.
    groups : array, shape (n,), optional
        Trials of one group are never split between the folds in which the temperature is fitted:
        five folds of neighbours in time.
    refitted : ndarray of bool, shape (tokens,), optional
        Which tokens labels took part in making; none by default.
    refits : iterable of Refit
        If there are such tokens: the folds, with these tokens made without the labels of the test
        part.

    Raises
    ------
    ModelError
        For a ridge that is not positive, weights that are not one per trial, or weights that leave
        a class without trials.
    """
    if not ridge > 0:
        raise ModelError(f"ridge must be > 0, got {ridge!r}.")
    n, n_tokens, _ = tokens.shape
    share = _shares(sample_weight, codes)
    if refitted is None:
        refitted = np.zeros(n_tokens, dtype=bool)
    if not refitted.any():
        none = None if drift is None else drift[:, :0]
        folds = folds_in_time(codes, FOLDS, groups)
        refits = (Refit(*fold, tokens[:, :0], none) for fold in folds)
    fixed, own = (
        _Scaled(tokens[:, some], None if drift is None else drift[:, some], share)
        for some in (~refitted, refitted)
    )
    problem = _Problem(fixed.rows, codes, share, ridge, own.rows.shape[1])
    everything = np.arange(n)
    W, offset = problem.solve(everything, everything[:0], own.rows)
    scores = np.full((n, len(offset)), np.nan)
    for train, test, replaced, replaced_drift in refits:
        kept = np.zeros(n)
        kept[train] = share[train] / share[train].sum()
        rows = _Scaled(replaced, replaced_drift, kept).rows
        V, constant = problem.solve(train, test, rows)
        split = len(fixed.used)
        scores[test] = fixed.rows[test] @ V[:split] + rows[test] @ V[split:] + constant
    factor = _inverse_temperature(scores, codes, share)
    weight = np.zeros((*tokens.shape[1:], len(offset)))
    weight[~refitted] = fixed.unscaled(W[: len(fixed.used)])
    weight[refitted] = own.unscaled(W[len(fixed.used) :])
    weight *= factor
    centre = np.tensordot(share, tokens, 1)
    bias = factor * offset - np.tensordot(centre, weight, 2)
    return TokenDiscriminant(torch.from_numpy(weight), torch.from_numpy(bias))


class Refit(NamedTuple):
    """A fold of the training trials, with all that labels took part in fitted to its larger part.

    Attributes
    ----------
    train, test : ndarray of int
        Trials that are fitted to, and trials that are scored.
    tokens : ndarray, shape (n, refitted tokens, features)
        Of all trials, as fitted to ``train``.
    drift : ndarray, shape (k, refitted tokens, features), or None
    """

    train: Codes
    test: Codes
    tokens: Array
    drift: Array | None


class _Scaled:
    """Tokens and drift as rows, every token centred and of unit variance.

    Attributes
    ----------
    rows : ndarray, shape (n + k, used features)
        Features that never change are left out.
    """

    def __init__(self, tokens: Array, drift: Array | None, share: Array) -> None:
        self.shape = tokens.shape[1:]
        centre = np.tensordot(share, tokens, 1)
        n = len(tokens)
        rows = np.empty((n + (0 if drift is None else len(drift)), *self.shape))
        np.subtract(tokens, centre, out=rows[:n])
        if drift is not None:
            rows[n:] = drift
        spread = np.sqrt(np.einsum("n,ntf,ntf->t", share, rows[:n], rows[:n]))
        # A token that changes by rounding errors only carries no information.
        still = spread <= 1e-12 * np.linalg.norm(centre, axis=1)
        unit = np.where(still, np.inf, spread)
        rows /= unit[:, None]
        rows = rows.reshape(len(rows), -1)
        self.used = np.flatnonzero(rows.any(0))
        self.unit = np.repeat(unit, self.shape[1])[self.used]
        self.rows = rows if len(self.used) == rows.shape[1] else rows[:, self.used]

    def unscaled(self, W: Array) -> Array:
        """Weights (tokens, features, classes) of tokens, from weights (used, classes) of rows."""
        weight = np.zeros((int(np.prod(self.shape)), W.shape[1]))
        weight[self.used] = W / self.unit[:, None]
        return weight.reshape(*self.shape, W.shape[1])


class _Problem:
    """Discriminants of subsets of trials; products of their rows are computed once.

    Parameters
    ----------
    fixed : ndarray, shape (n + k, features)
        Features of trials that are the same in every fold, then of drift.
    codes, share : ndarray, shape (n,)
    ridge : float
    n_own : int
        Features that come besides, about.
    """

    def __init__(self, fixed: Array, codes: Codes, share: Array, ridge: float, n_own: int) -> None:
        self.fixed, self.codes, self.share, self.ridge = fixed, codes, share, ridge
        n = len(codes)
        # The smaller side: products of trials (the Gram matrix), or of features (the scatter).
        self.dual = len(fixed) <= fixed.shape[1] + n_own
        trials = fixed[:n]
        self.products = fixed @ fixed.T if self.dual else (trials * share[:, None]).T @ trials

    def solve(self, train: Codes, test: Codes, own: Array) -> tuple[Array, Array]:
        """Weights (features, classes) and offsets (classes,) of the trials ``train``.

        Parameters
        ----------
        train, test : ndarray of int
            Trials; together all that ``train`` was taken from.
        own : ndarray, shape (n + k, more features)
        """
        n = len(self.codes)
        share = self.share[train] / self.share[train].sum()
        member = np.eye(int(self.codes.max()) + 1)[self.codes[train]]
        # Weights of trials in the mean of each class.
        P = member * share[:, None]
        prior = P.sum(0)
        P /= prior
        if self.dual:
            rows = np.concatenate([train, np.arange(n, len(self.fixed))])
            gram = self.products[np.ix_(rows, rows)] + own[rows] @ own[rows].T
            coefficients, offset = self._by_trials(gram, self.codes[train], share, P)
            spread = np.zeros((len(self.fixed), P.shape[1]))
            spread[rows] = coefficients
            return np.concatenate([self.fixed.T @ spread, own.T @ spread]), offset
        left = self.fixed[test]
        scatter = self.products - (left * self.share[test][:, None]).T @ left
        weighted = own[train] * share[:, None]
        cross = self.fixed[train].T @ weighted
        S = np.block(
            [[scatter / self.share[train].sum(), cross], [cross.T, own[train].T @ weighted]]
        )
        means = np.concatenate([P.T @ self.fixed[train], P.T @ own[train]], axis=1)
        drift = np.concatenate([self.fixed[n:], own[n:]], axis=1)
        total = np.trace(S)
        S -= (means.T * prior) @ means
        S += drift.T @ drift + self._added(np.trace(S), total) * np.eye(len(S))
        W = solve(S, means.T, assume_a="pos")
        return W, -0.5 * (means.T * W).sum(0)

    def _by_trials(self, gram: Array, codes: Codes, share: Array, P: Array) -> tuple[Array, Array]:
        """The same from products: weights are these coefficients of the rows, times the rows."""
        n, root = len(codes), np.sqrt(share)[:, None]

        def within(M: Array) -> Array:
            """Replace rows of trials by their weighted deviations from the class means."""
            return np.concatenate([root * (M[:n] - (P.T @ M[:n])[codes]), M[n:]])

        to_means = gram[:, :n] @ P
        Z = within(within(gram).T)
        added = self._added(np.trace(Z[:n, :n]), float(share @ np.diag(gram)[:n]))
        inner = solve(Z + added * np.eye(len(Z)), within(to_means), assume_a="pos")
        back = root * inner[:n]
        by_class = np.eye(P.shape[1])[codes].T @ back
        coefficients = np.concatenate([P - back + P @ by_class, -inner[n:]]) / added
        return coefficients, -0.5 * (to_means * coefficients).sum(0)

    def _added(self, within: float, total: float) -> float:
        # Trials that all equal their class mean have no covariance: any ridge gives the nearest
        # mean.
        return self.ridge * float(within) if within > 1e-12 * total else 1.0


def _shares(sample_weight: ArrayLike | None, codes: Codes) -> Array:
    """Weights (n,) that add up to 1."""
    n = len(codes)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not np.isfinite(weight).all() or weight.min() < 0:
        raise ModelError(
            f"sample_weight has one number for each of {n} trials, none of them negative or "
            f"missing; got an array of shape {weight.shape}."
        )
    if np.bincount(codes, weight).min() <= 0:
        raise ModelError("sample_weight is zero for all trials of a class: leave the class out.")
    return np.asarray(weight / weight.sum())


def _inverse_temperature(scores: Array, codes: Codes, share: Array) -> float:
    """The factor of held-out scores (n, classes) with the least log loss; NaN rows are left out."""
    known = np.isfinite(scores).all(1)
    scores, codes, share = scores[known], codes[known], share[known]
    if not len(scores):
        return 1.0
    # Classes count alike here too. That all trials were right does not make the next one certain:
    # as if two more of each class had been there, one right and one wrong (Platt 1999).
    counts = np.bincount(codes, minlength=scores.shape[1])
    weight = share / np.bincount(codes, share)[codes]
    wrong = 1 / (counts + 2) / (len(counts) - 1)
    target = np.repeat(wrong[codes][:, None], len(counts), axis=1)
    target[np.arange(len(codes)), codes] = (counts[codes] + 1) / (counts[codes] + 2)

    def loss(log_factor: float) -> float:
        logs = log_softmax(np.exp(log_factor) * scores, axis=1)
        return float(-(weight[:, None] * target * logs).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-12, 6), method="bounded").x))
