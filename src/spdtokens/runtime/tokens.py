"""Tokens and other functions of SPD matrices, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

try:
    from spdtokens.errors import DecoderError
except ImportError:  # copied to a machine without spdtokens

    class DecoderError(ValueError):  # type: ignore[no-redef]
        """Error of a model file, or of data that do not fit its model."""


Array = NDArray[np.float64]
Metric = Literal["euclid", "riemann"]
_EPS = float(np.finfo(np.float64).eps)
#: Functions of eigenvalues; the last two after whitening by the reference.
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
#: Share of a multiple of the identity in covariances of interpolated channels, which is noise that
#: interpolation lacks: measured in ``studies/missing_channels.py``.
SHRINKAGE = 0.05
EMBEDDINGS = (*SPECTRAL, "euclidean", *TRIANGULAR, FILTERED)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Probabilities from scores (..., classes)."""
    p = np.exp(scores - np.maximum.reduce(scores, -1, keepdims=True))
    p /= np.add.reduce(p, -1, keepdims=True)
    return p


def _check_finite(C: Array) -> None:
    if not np.isfinite(C).all():
        raise DecoderError(
            "A covariance matrix has NaN or infinite entries. Check the recording for NaN samples "
            "or far too large values, and drop that trial."
        )


def _not_positive(why: object) -> DecoderError:
    return DecoderError(
        f"A covariance matrix is not positive definite ({why}). Check for flat or duplicated "
        "channels."
    )


def eigen(C: Array, relative: float = 1e-12, absolute: float = 0.0) -> tuple[Array, Array]:
    """Compute eigenvalues (..., d), raised to the floor, and eigenvectors (..., d, d).

    Parameters
    ----------
    C : ndarray, shape (..., d, d)
        SPD matrices.
    relative, absolute : float
        Lower bound of eigenvalues: relative to their mean, and in the unit of the matrix.

    Raises
    ------
    DecoderError
        If a matrix is not finite or not positive definite.
    """
    S = C + C.swapaxes(-1, -2)
    S *= 0.5
    try:
        w, V = np.linalg.eigh(S)
    except np.linalg.LinAlgError as error:
        _check_finite(C)
        raise _not_positive(error) from error
    least, most = w[..., 0], w[..., -1]
    slope = max(relative, _EPS) if relative else 0.0
    # Quick check that nearly always succeeds: the mean is below the largest eigenvalue, and
    # comparisons with NaN are False.
    if (least > slope * most).all() and (not absolute or (least > absolute).all()):
        return w, V
    _check_finite(C)
    if (most <= 0).any() or (least < -w.shape[-1] * _EPS * most).any():
        raise _not_positive(f"least eigenvalue {least.min():.3g}")
    floor = np.maximum(slope * np.abs(w).mean(-1, keepdims=True), absolute)
    return np.maximum(w, floor), V


def _with_values(V: Array, values: Array) -> Array:
    """Symmetric matrices from eigenvectors (..., d, d) and eigenvalues (..., d)."""
    return (V * values[..., None, :]) @ V.swapaxes(-1, -2)


def congruence(C: Array, W: Array) -> Array:
    """``W C W'``, exactly symmetric."""
    moved = W @ C @ W.swapaxes(-1, -2)
    return 0.5 * (moved + moved.swapaxes(-1, -2))


def interpolated(C: Array, W: Array) -> Array:
    """Covariances (..., d, d) of channels that ``W`` interpolates, shrunk as they are singular.

    First rows that are not channels (:attr:`Front.n_means`) stay as they are.
    """
    means = C.shape[-1] - W.shape[1]
    whole = np.zeros((means + len(W), C.shape[-1]))
    whole[:means, :means], whole[means:, means:] = np.eye(means), W
    C = congruence(C, whole)
    if not ((W != 0).sum(-1) == 1).all():
        seen = C[..., means:, means:]
        variance = np.einsum("...ii->...", seen)[..., None, None] / len(W)
        C[..., means:, means:] = (1 - SHRINKAGE) * seen + SHRINKAGE * variance * np.eye(len(W))
    return C


def inverse_root(C: Array) -> Array:
    """Inverse square roots of matrices (..., d, d)."""
    w, V = eigen(C)
    return _with_values(V, 1 / np.sqrt(w))


def towards(A: Array, B: Array, share: float) -> Array:
    """Point of the Riemannian geodesic from A to B (..., d, d) at ``share``: 0 is A, 1 is B."""
    w, V = eigen(A)
    seen, U = eigen(congruence(B, _with_values(V, 1 / np.sqrt(w))))
    return congruence(_with_values(U, seen**share), _with_values(V, np.sqrt(w)))


@dataclass(frozen=True)
class Reference:
    """How the reference of a session or subject is computed and applied.

    Attributes
    ----------
    metric : {'riemann', 'euclid'}
        Metric of the mean of trials.
    n_windows : int
        Number of consecutive matrices of a trial that share a reference: the windows of a band. A
        reference of whole trials preserves the time course, which windows recentred one by one
        lose.
    shrinkage : float
        Weight, in [0, 1), of a multiple of the identity with the same trace. It keeps directions
        that carry little power, which are noise, from being amplified to the same power as all
        others.
    n_means : int
        Number of first rows that are not channels but means over time, and stay as they are: see
        :attr:`Front.n_means`. The reference has only the rows of the channels.
    """

    metric: Metric = "riemann"
    n_windows: int = 1
    shrinkage: float = 0.0
    n_means: int = 0

    def over_windows(self, C: Array) -> Array:
        """Average the channels' rows of matrices (..., matrices, d, d) over windows of a band."""
        C = C[..., self.n_means :, self.n_means :]
        if self.n_windows == 1:
            return C
        d = C.shape[-1]
        return C.reshape(*C.shape[:-3], -1, self.n_windows, d, d).mean(-3)

    def whitener(self, R: Array) -> Array:
        """Maps (..., matrices, d, d) that recentre matrices, from references (..., bands, d, d)."""
        if self.shrinkage:
            mean = np.trace(R, axis1=-2, axis2=-1)[..., None, None] / R.shape[-1]
            R = (1 - self.shrinkage) * R + self.shrinkage * mean * np.eye(R.shape[-1])
        W = inverse_root(R)
        if self.n_means:
            rows = self.n_means + R.shape[-1]
            whole = np.broadcast_to(np.eye(rows), (*R.shape[:-2], rows, rows)).copy()
            whole[..., self.n_means :, self.n_means :] = W
            W = whole
        return W if self.n_windows == 1 else np.repeat(W, self.n_windows, axis=-3)

    def moved(self, R: Array, C: Array, share: float) -> Array:
        """Move references (bands, d, d) towards the matrices (matrices, d, d) of a trial."""
        C = self.over_windows(C)
        return R + share * (C - R) if self.metric == "euclid" else towards(R, C, share)


@dataclass(frozen=True)
class Tokens:
    """Tokens of the matrices of a trial: those of the first embedding, then of the second.

    Attributes
    ----------
    embeddings : sequence of str
        Names of ``EMBEDDINGS``.
    isometric : bool
        Whether off-diagonal entries are multiplied by sqrt(2).
    relative, absolute : float
        Lower bound of eigenvalues, see :func:`eigen`.
    scale : float
        Divisor of matrices.
    whiteners : ndarray, shape (matrices, d, d), or None
        Inverse square roots of the references.
    axes : ndarray, shape (matrices, d, d), or None
        Principal directions of the references, strongest first, over their standard deviations.
    filters : ndarray, shape (matrices, k, d), or None
        Spatial filters of the classes.
    """

    embeddings: Sequence[str]
    isometric: bool
    relative: float
    absolute: float
    scale: float
    whiteners: Array | None = None
    axes: Array | None = None
    filters: Array | None = None

    def __call__(self, C: Array) -> Array:
        """Compute tokens (n, tokens, features) of matrices (n, matrices, d, d)."""
        C = C if self.scale == 1 else C / self.scale
        d = C.shape[-1]
        places, weights = _triangle(d)
        found: dict[bool, tuple[Array, Array]] = {}  # by whether whitened
        tokens = []
        for name in self.embeddings:
            if name in SPECTRAL:
                whitened = name in AT_REFERENCE
                if whitened not in found:
                    seen = congruence(C, self.whiteners) if whitened else C  # type: ignore[arg-type]
                    found[whitened] = eigen(seen, self.relative, self.absolute)
                w, V = found[whitened]
                M = _with_values(V, SPECTRAL[name](w))
            elif name == FILTERED:
                M = np.zeros_like(C)
                k = self.filters.shape[-2]  # type: ignore[union-attr]
                w, V = eigen(congruence(C, self.filters), self.relative, self.absolute)  # type: ignore[arg-type]
                M[..., :k, :k] = _with_values(V, np.log(w))
            else:
                _check_finite(C)
                along = congruence(C, self.axes) if name == PRINCIPAL else C  # type: ignore[arg-type]
                M = 0.5 * (along + along.swapaxes(-1, -2))
                if name in TRIANGULAR:
                    M = _upper(M, name)
            token = M.reshape(*M.shape[:-2], d * d).take(places, -1)
            tokens.append(token * weights if self.isometric and name not in TRIANGULAR else token)
        return tokens[0] if len(tokens) == 1 else np.concatenate(tokens, axis=1)


@cache
def _triangle(d: int) -> tuple[NDArray[np.intp], Array]:
    """Indices of the upper triangle in a flat ``d x d`` matrix, and isometric weights."""
    row, column = np.triu_indices(d)
    return row * d + column, np.where(row == column, 1.0, np.sqrt(2.0))


def _upper(C: Array, name: str) -> Array:
    """Upper Cholesky factors of symmetric matrices (..., d, d), in the form of the embedding."""
    try:
        U = np.linalg.cholesky(C).swapaxes(-1, -2)
    except np.linalg.LinAlgError as error:
        raise _not_positive(error) from error
    if name == "cholesky":
        return np.asarray(U)
    logs = np.log(np.einsum("...ii->...i", U))
    U = U / np.sqrt((U * U).sum(-2, keepdims=True)) if name == PRINCIPAL else U.copy()
    np.einsum("...ii->...i", U)[...] = logs
    return np.asarray(U)
