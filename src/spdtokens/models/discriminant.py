"""From tokens to scores in closed form: a regularised linear discriminant."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from spdtokens.models.config import ModelError

#: Of 0.004, 0.012, 0.04 and 0.12 the best over parts of training sessions and simulated sessions.
#: To choose it in folds of the training trials was no better: they do not show the next day.
RIDGE = 0.012
#: Folds by which the confidence of scores is set.
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
        return torch.einsum("ntf,tfc->nc", tokens, self.weight) + self.bias


def fit_discriminant(
    tokens: Array,
    codes: Codes,
    sample_weight: ArrayLike | None = None,
    ridge: float = RIDGE,
    drift: Array | None = None,
) -> TokenDiscriminant:
    """Linear discriminant analysis of tokens, with a ridge.

    Every token counts alike: it is divided by one number, so that its variance over trials, summed
    over features, is 1. Features within a token keep their proportions, which are those of the
    geometry: to standardise each would raise what is mostly noise. Classes count alike, however
    rare. Scores are multiplied by the one number with which they foretell best, in folds within the
    training trials, so that probabilities can be taken as such.

    Parameters
    ----------
    tokens : ndarray, shape (n, tokens, features)
    codes : ndarray of int, shape (n,)
        Classes 0, 1, ..., each with trials.
    sample_weight : array, shape (n,), optional
        How much trials count.
    ridge : float
        Added to the covariance within classes: so much of its total variance, in every direction.
    drift : ndarray, shape (k, tokens, features), optional
        Changes of tokens that a new recording may bring, each about as large as it is to be
        expected: their products with themselves are added to the covariance within classes too.

    Raises
    ------
    ModelError
        For a ridge that is not positive, weights that are not one a trial, or weights that leave a
        class without trials.
    """
    if not ridge > 0:
        raise ModelError(f"ridge is above zero, not {ridge!r}: trials are fewer than features.")
    n, n_tokens, n_features = tokens.shape
    share = _shares(sample_weight, codes)
    centre = np.tensordot(share, tokens, 1)
    spread = np.sqrt(np.einsum("n,ntf->t", share, (tokens - centre) ** 2))
    # What never changes, but for rounding, says nothing.
    still = spread <= 1e-12 * np.linalg.norm(centre, axis=1)
    unit = np.where(still, np.inf, spread)[:, None]
    X = ((tokens - centre) / unit).reshape(n, -1)
    moved = np.zeros((0, X.shape[1])) if drift is None else (drift / unit).reshape(len(drift), -1)
    W, offset = _discriminant(X, codes, share, ridge, moved)
    scale = _confidence(X, codes, share, ridge, moved)
    weight = scale * W.reshape(n_tokens, n_features, -1) / unit[..., None]
    bias = scale * offset - np.tensordot(centre, weight, 2)
    return TokenDiscriminant(torch.from_numpy(weight), torch.from_numpy(bias))


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


def _discriminant(
    X: Array, codes: Codes, share: Array, ridge: float, drift: Array
) -> tuple[Array, Array]:
    """Weights (features, classes) and offsets (classes,) of vectors (n, features)."""
    onehot = np.eye(int(codes.max()) + 1)[codes] * share[:, None]
    means = (onehot / onehot.sum(0)).T @ X
    Z = np.sqrt(share)[:, None] * (X - means[codes])
    # Trials that all equal their class mean have no covariance: any ridge gives the nearest mean.
    added = ridge * float((Z**2).sum()) or 1.0
    Z = np.concatenate([Z, drift])
    if len(Z) > Z.shape[1]:
        W = np.linalg.solve(Z.T @ Z + added * np.eye(Z.shape[1]), means.T)
    else:  # the same from the products of trials, of which there are fewer than features
        inner = np.linalg.solve(Z @ Z.T + added * np.eye(len(Z)), Z @ means.T)
        W = (means.T - Z.T @ inner) / added
    return W, -0.5 * (means.T * W).sum(0)


def _confidence(X: Array, codes: Codes, share: Array, ridge: float, drift: Array) -> float:
    """The factor with which scores of trials not trained on foretell their classes best."""
    counts = np.bincount(codes)
    folds = min(FOLDS, counts.min())
    if folds < 2:
        return 1.0
    scores = np.empty((len(X), len(counts)))
    # Neighbours in time resemble each other and stay on one side.
    for train, test in StratifiedKFold(folds).split(X, codes):
        kept = share[train] / share[train].sum()
        W, offset = _discriminant(X[train], codes[train], kept, ridge, drift)
        scores[test] = X[test] @ W + offset
    # Classes count alike here too. That all trials were right does not make the next one certain:
    # as if two more of each class had been there, one right and one wrong (Platt 1999).
    weight = share / np.bincount(codes, share)[codes]
    wrong = 1 / (counts + 2) / (len(counts) - 1)
    target = np.repeat(wrong[codes][:, None], len(counts), axis=1)
    target[np.arange(len(X)), codes] = (counts[codes] + 1) / (counts[codes] + 2)

    def loss(log_factor: float) -> float:
        logs = log_softmax(np.exp(log_factor) * scores, axis=1)
        return float(-(weight[:, None] * target * logs).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-12, 6), method="bounded").x))
