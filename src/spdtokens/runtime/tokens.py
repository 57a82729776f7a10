"""From covariance matrices to tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .errors import DecoderError
from .matrices import Array, check_finite, congruence, eigen

#: Functions of eigenvalues; seen from the reference for the last two.
SPECTRAL = {
    "log_euclidean": np.log,
    "bures_wasserstein": np.sqrt,
    "affine_invariant": np.log,
    "whitened_root": np.sqrt,
}
AT_REFERENCE = ("affine_invariant", "whitened_root")
PRINCIPAL = "principal_correlation"
TRIANGULAR = ("cholesky", "log_cholesky", PRINCIPAL)
FILTERED = "class_filters"
EMBEDDINGS = (*SPECTRAL, "euclidean", *TRIANGULAR, FILTERED)


@dataclass(frozen=True)
class Tokens:
    """Tokens of a trial's matrices: those of the first embedding, then of the second.

    Attributes
    ----------
    embeddings : sequence of str
        Of ``EMBEDDINGS``.
    isometric : bool
        Off-diagonal entries times sqrt 2.
    relative, absolute : float
        The least eigenvalue: see :func:`~spdtokens.runtime.matrices.eigen`.
    scale : float
        What matrices are divided by.
    whiteners : ndarray, shape (matrices, d, d), or None
        Inverse square roots of the references.
    axes : ndarray, shape (matrices, d, d), or None
        Their principal directions, strongest first, over the deviations along them.
    filters : ndarray, shape (matrices, k, d), or None
        Spatial filters of the classes.
    """

    embeddings: Sequence[str]
    isometric: bool
    relative: float
    absolute: float
    scale: float
    whiteners: Array | None
    axes: Array | None = None
    filters: Array | None = None

    def __call__(self, C: Array) -> Array:
        """Tokens (n, tokens, features) of matrices (n, matrices, d, d)."""
        C = C if self.scale == 1 else C / self.scale
        d = C.shape[-1]
        places, weights = _triangle(d)
        found: dict[bool, tuple[Array, Array]] = {}  # of matrices, plain and seen from references
        tokens = []
        for name in self.embeddings:
            if name not in EMBEDDINGS:
                raise DecoderError(f"There is no embedding {name!r}: {', '.join(EMBEDDINGS)}.")
            if name in SPECTRAL:
                whitened = name in AT_REFERENCE
                if whitened not in found:
                    seen = congruence(C, self.whiteners) if whitened else C  # type: ignore[arg-type]
                    found[whitened] = eigen(seen, self.relative, self.absolute)
                w, V = found[whitened]
                M = (V * SPECTRAL[name](w)[..., None, :]) @ V.swapaxes(-1, -2)
            elif name == FILTERED:
                M = np.zeros_like(C)
                k = self.filters.shape[-2]  # type: ignore[union-attr]
                w, V = eigen(congruence(C, self.filters), self.relative, self.absolute)  # type: ignore[arg-type]
                M[..., :k, :k] = (V * np.log(w)[..., None, :]) @ V.swapaxes(-1, -2)
            else:
                check_finite(C)
                along = congruence(C, self.axes) if name == PRINCIPAL else C  # type: ignore[arg-type]
                M = 0.5 * (along + along.swapaxes(-1, -2))
                if name in TRIANGULAR:
                    M = _upper(M, name)
            token = M.reshape(*M.shape[:-2], d * d).take(places, -1)
            tokens.append(token * weights if self.isometric and name not in TRIANGULAR else token)
        return tokens[0] if len(tokens) == 1 else np.concatenate(tokens, axis=1)


@cache
def _triangle(d: int) -> tuple[NDArray[np.intp], Array]:
    """Places of the upper triangle in a flat ``d x d`` matrix, and isometric weights."""
    row, column = np.triu_indices(d)
    return row * d + column, np.where(row == column, 1.0, np.sqrt(2.0))


def _upper(C: Array, name: str) -> Array:
    """Upper Cholesky factors of symmetric matrices (..., d, d), as the embedding wants them."""
    try:
        U = np.linalg.cholesky(C).swapaxes(-1, -2)
    except np.linalg.LinAlgError as error:
        raise DecoderError(
            "A covariance matrix is not positive definite. Look for channels that are flat or "
            "carry the same signal."
        ) from error
    if name == "cholesky":
        return np.asarray(U)
    logs = np.log(np.einsum("...ii->...i", U))
    U = U / np.sqrt((U * U).sum(-2, keepdims=True)) if name == PRINCIPAL else U.copy()
    np.einsum("...ii->...i", U)[...] = logs
    return np.asarray(U)
