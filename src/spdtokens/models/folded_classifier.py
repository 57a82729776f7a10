"""From the covariance matrices of one trial to class probabilities; NumPy and LAPACK only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import lapack

from spdtokens.models.config import ModelError
from spdtokens.runtime.networks import geometric_bias
from spdtokens.runtime.transformer import Array, FoldedTransformer

if TYPE_CHECKING:
    from spdtokens.models.transformer import SPDTokenTransformer
    from spdtokens.spd import Embedding

#: Functions of the eigenvalues; None where there is no decomposition.
_FUNCTIONS: dict[str, np.ufunc | None] = {
    "log_euclidean": np.log,
    "bures_wasserstein": np.sqrt,
    "euclidean": None,
}

_NOT_FINITE = (
    "A matrix has NaN or infinite entries. Look for NaN samples or a constant-zero trial in the "
    "recording, and leave that trial out."
)


class FoldedTokens:
    """Token of one matrix, as :meth:`Embedding.to_token` computes it, without torch.

    Parameters
    ----------
    name : {'log_euclidean', 'bures_wasserstein', 'euclidean'}
    d : int
        Size of the matrices.
    isometric : bool
        See :class:`~spdtokens.spd.Embedding`.
    relative, absolute : float
        The least eigenvalue allowed: see :class:`~spdtokens.spd.Floor`.
    """

    def __init__(
        self,
        name: str,
        d: int,
        *,
        isometric: bool = False,
        relative: float = 1e-12,
        absolute: float = 0.0,
    ) -> None:
        if name not in _FUNCTIONS:
            raise ModelError(
                f"Tokens of {name!r} cannot be folded. Choose from: {', '.join(_FUNCTIONS)}; or "
                "compute tokens with spdtokens.spd and classify them with FoldedTransformer."
            )
        self.name, self.d, self.isometric = name, d, isometric
        self.relative, self.absolute = relative, absolute
        self.function = _FUNCTIONS[name]
        row, column = np.triu_indices(d)
        self.places = row * d + column
        self.weights = np.where(row == column, 1.0, np.sqrt(2.0)) if isometric else None

    @classmethod
    def from_embedding(cls, embedding: Embedding, d: int) -> Self:
        """Tokens of ``d x d`` matrices as the embedding makes them."""
        floor = embedding.floor
        return cls(
            embedding.name,
            d,
            isometric=embedding.isometric,
            relative=floor.relative,
            absolute=floor.absolute,
        )

    def __call__(self, C: Array) -> NDArray[np.float64]:
        """Token (d (d + 1) / 2,) of one matrix (d, d)."""
        S = C.astype(np.float64)
        S += C.T
        S *= 0.5
        if self.function is not None:
            S = self._spectral(S, C.dtype)
        elif not np.isfinite(S).all():
            raise ModelError(_NOT_FINITE)
        token = S.take(self.places)
        return token if self.weights is None else token * self.weights

    def _spectral(self, S: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[np.float64]:
        """Function of the eigenvalues of ``S``, which is overwritten.

        LAPACK straight away, without the checks and copies of ``numpy.linalg.eigh`` (46 instead of
        52 microseconds for 22 channels). In float64, as everywhere in this library: float32 would
        take 36, and cost half of the digits of small eigenvalues.
        """
        assert self.function is not None
        # A transpose is column-major, as LAPACK wants it, and of a symmetric matrix no change.
        w, V, info = lapack.dsyevd(S.T, overwrite_a=1)
        eps = float(np.finfo(dtype).eps)
        slope = max(self.relative, eps) if self.relative else 0.0
        # Not `<=`, so that NaN is seen too. The level is below that of the largest eigenvalue.
        if info or not w[0] > max(slope * w[-1], self.absolute):
            _refuse_indefinite(w, info, self.d * eps)
            w = np.maximum(w, max(slope * np.abs(w).mean(), self.absolute))
        return (V * self.function(w)) @ V.T


class FoldedClassifier:
    """Covariance matrices of one trial in, class probabilities out.

    Safe to share among threads.

    Parameters
    ----------
    tokens : FoldedTokens
    network : FoldedTransformer
    alpha : float
        Of geometric attention; not used by standard attention.
    """

    def __init__(
        self, tokens: FoldedTokens, network: FoldedTransformer, alpha: float = 0.5
    ) -> None:
        if len(tokens.places) != network.n_features:
            raise ModelError(
                f"Tokens of {tokens.d} x {tokens.d} matrices have {len(tokens.places)} features, "
                f"the network expects {network.n_features}."
            )
        self.tokens, self.network, self.alpha = tokens, network, alpha

    @classmethod
    def from_model(
        cls, model: SPDTokenTransformer, embedding: Embedding, dtype: DTypeLike = np.float32
    ) -> Self:
        """Fold a trained network and the embedding that made its tokens.

        Parameters
        ----------
        model : SPDTokenTransformer
        embedding : Embedding
            ``get_embedding(name)`` with the name of a spectral embedding, or ``'euclidean'``.
        dtype : dtype
            Of the network; eigenvalues are always computed in float64.
        """
        from spdtokens.models.folding import folded
        from spdtokens.spd import matrix_dim

        tokens = FoldedTokens.from_embedding(embedding, matrix_dim(model.n_features))
        return cls(tokens, folded(model, dtype), model.config.alpha)

    def probabilities(self, C: Array) -> Array:
        """Class probabilities (classes,) of the SPD matrices (tokens, d, d) of one trial.

        Raises
        ------
        ModelError
            If the shape is another, a matrix is not finite, or (where the embedding decomposes it)
            not positive definite.
        """
        network, d = self.network, self.tokens.d
        if C.shape != (network.n_tokens, d, d):
            raise ModelError(
                f"Expected the matrices of one trial, shape ({network.n_tokens}, {d}, {d}), got "
                f"{C.shape}."
            )
        tokens = np.empty((len(C), network.n_features), network.dtype)
        for row, matrix in zip(tokens, C, strict=True):
            row[:] = self.tokens(matrix)
        bias = None
        if network.needs_bias and len(C) > 1:
            bias = geometric_bias(C[None].astype(np.float64), self.alpha)[0]
        return network.trial_probabilities(tokens, bias)


def _refuse_indefinite(w: NDArray[np.float64], info: int, tolerance: float) -> None:
    """Refuse what has no logarithm or square root beyond rounding; eigenvalues are ascending."""
    if not np.isfinite(w).all() or info:
        raise ModelError(_NOT_FINITE)
    if w[-1] <= 0 or w[0] < -tolerance * w[-1]:
        raise ModelError(
            f"A matrix is not positive definite (eigenvalues from {w[0]:.3g} to {w[-1]:.3g}). "
            "Remedies: a shrinkage estimator (such as 'oas' or 'lwf'), more samples than channels "
            "in each window, or dropping flat or duplicated channels."
        )
