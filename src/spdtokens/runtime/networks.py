"""From tokens to class probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .matrices import Array, softmax
from .transformer import FoldedTransformer


class Network(Protocol):
    """What turns tokens into probabilities."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, features and classes."""

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Of tokens (n, tokens, features) of matrices (n, matrices, d, d): (n, classes)."""


@dataclass(frozen=True)
class Discriminant:
    """Scores that are linear in all tokens.

    Attributes
    ----------
    weight : ndarray, shape (tokens, features, classes)
    bias : ndarray, shape (classes,)
    """

    weight: Array
    bias: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, features and classes."""
        tokens, features, classes = self.weight.shape
        return tokens, features, classes

    def probabilities(self, tokens: Array, C: Array) -> Array:  # noqa: ARG002
        """Class probabilities (n, classes) of tokens (n, tokens, features)."""
        return softmax(self.scores(tokens))

    def scores(self, tokens: Array) -> Array:
        """Scores (n, classes) of tokens (n, tokens, features)."""
        flat = self.weight.reshape(-1, len(self.bias))
        return tokens.reshape(len(tokens), -1) @ flat + self.bias


@dataclass(frozen=True)
class Transformers:
    """The mean of the probabilities of transformers.

    Attributes
    ----------
    members : sequence of FoldedTransformer
    alpha : float
        Of geometric attention.
    """

    members: Sequence[FoldedTransformer]
    alpha: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, features and classes."""
        first = self.members[0]
        return first.n_tokens, first.n_features, first.n_classes

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Class probabilities (n, classes) of tokens (n, tokens, features)."""
        bias = None
        if self.members[0].needs_bias and C.shape[1] > 1:
            bias = geometric_bias(C, self.alpha)
        return self.mean(tokens, bias)

    def mean(self, tokens: Array, bias: NDArray[Any] | None) -> Array:
        """The same of tokens and the bias (n, tokens, tokens) of geometric attention."""
        found = [member.probabilities(tokens, bias) for member in self.members]
        mean = found[0] if len(found) == 1 else sum(found) / len(found)
        return np.asarray(mean, dtype=np.float64)


def geometric_bias(C: Array, alpha: float) -> NDArray[Any]:
    """Minus ``alpha`` times the Bures-Wasserstein distances of a trial's matrices.

    Parameters
    ----------
    C : ndarray, shape (n, matrices, d, d)
    alpha : float

    Returns
    -------
    bias : ndarray, shape (n, matrices, matrices)
        Distances are divided by the root of the mean trace of a trial's matrices.
    """
    w, V = np.linalg.eigh(0.5 * (C + C.swapaxes(-1, -2)))
    roots = (V * np.sqrt(np.maximum(w, 0))[..., None, :]) @ V.swapaxes(-1, -2)
    trace = w.sum(-1)
    i, j = np.triu_indices(C.shape[1], 1)
    product = np.linalg.eigvalsh(roots[:, i] @ C[:, j] @ roots[:, i])
    fidelity = np.sqrt(np.maximum(product, 0)).sum(-1)
    squared = np.maximum(trace[:, i] + trace[:, j] - 2 * fidelity, 0)
    bias = np.zeros((len(C), C.shape[1], C.shape[1]))
    bias[:, i, j] = bias[:, j, i] = -alpha * np.sqrt(squared / trace.mean(-1, keepdims=True))
    return bias
