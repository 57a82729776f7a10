"""Functions of symmetric positive definite matrices, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DecoderError

Array = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of scores (..., classes)."""
    p = np.exp(scores - np.maximum.reduce(scores, -1, keepdims=True))
    p /= np.add.reduce(p, -1, keepdims=True)
    return p


def check_finite(C: Array) -> None:
    """Refuse matrices (..., d, d) with entries that are not numbers."""
    if not np.isfinite(C).all():
        raise DecoderError(
            "A covariance matrix has NaN or infinite entries. Look for NaN samples or values that "
            "are far too large in the recording, and leave that trial out."
        )


def eigen(C: Array, relative: float = 1e-12, absolute: float = 0.0) -> tuple[Array, Array]:
    """Eigenvalues (..., d), none below the floor, and eigenvectors (..., d, d).

    Parameters
    ----------
    C : ndarray, shape (..., d, d)
    relative, absolute : float
        The least eigenvalue: relative to the mean of a matrix's eigenvalues, and in its unit.

    Raises
    ------
    DecoderError
        For matrices that are not finite or not positive definite.
    """
    S = C + C.swapaxes(-1, -2)
    S *= 0.5
    try:
        w, V = np.linalg.eigh(S)
    except np.linalg.LinAlgError as error:
        check_finite(C)
        raise DecoderError(
            f"The eigenvalues of a covariance matrix cannot be computed ({error}). Leave that "
            "trial out."
        ) from error
    least, most = w[..., 0], w[..., -1]
    slope = max(relative, _EPS) if relative else 0.0
    # Nearly always all is well, which this tells at once: the mean is below the largest, and what
    # is not a number is above nothing.
    if (least > slope * most).all() and (not absolute or (least > absolute).all()):
        return w, V
    check_finite(C)
    if (most <= 0).any() or (least < -w.shape[-1] * _EPS * most).any():
        raise DecoderError(
            f"A covariance matrix is not positive definite (least eigenvalue {least.min():.3g}). "
            "Look for channels that are flat or carry the same signal."
        )
    floor = np.maximum(slope * np.abs(w).mean(-1, keepdims=True), absolute)
    return np.maximum(w, floor), V


def spectral(C: Array, function: Callable[[Array], Array]) -> Array:
    """A function of the eigenvalues of matrices (..., d, d)."""
    w, V = eigen(C)
    return (V * function(w)[..., None, :]) @ V.swapaxes(-1, -2)


def congruence(C: Array, W: Array) -> Array:
    """``W C W'``, symmetric to the last bit."""
    moved = W @ C @ W.swapaxes(-1, -2)
    return 0.5 * (moved + moved.swapaxes(-1, -2))


def inverse_root(C: Array) -> Array:
    """Inverse square roots of matrices (..., d, d)."""
    return spectral(C, lambda w: 1 / np.sqrt(w))


def towards(A: Array, B: Array, share: float) -> Array:
    """The point so far along the geodesic from matrices A to B (..., d, d): 0 is A, 1 is B."""
    w, V = eigen(A)
    root = (V * np.sqrt(w)[..., None, :]) @ V.swapaxes(-1, -2)
    back = (V / np.sqrt(w)[..., None, :]) @ V.swapaxes(-1, -2)
    return congruence(spectral(congruence(B, back), lambda w: w**share), root)
