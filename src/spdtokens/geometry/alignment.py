"""References, dispersions and rotations by which sets of SPD matrices are brought together.

All functions take trials of several tokens, shape (n, tokens, d, d), and treat each token on its
own. Whose trials a reference may be made of is decided in ``spdtokens.evaluation.alignment``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pyriemann.geometry.base import invsqrtm, powm
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.geodesic import geodesic_riemann

from spdtokens.geometry.karcher import riemannian_mean

Metric = Literal["euclid", "riemann"]
Array = NDArray[np.float64]


def mean_reference(C: Array, metric: Metric) -> Array:
    """Arithmetic or Riemannian mean: (tokens, d, d) from (n, tokens, d, d)."""
    return C.mean(0) if metric == "euclid" else riemannian_mean(C)


def dispersion(C: Array, reference: Array) -> Array:
    """Mean squared Riemannian distance to a reference (tokens, d, d): shape (tokens,)."""
    return np.asarray(distance_riemann(C, reference[None], squared=True)).mean(0)


def running_references(C: Array, start: Array, count: int, metric: Metric) -> Array:
    """The mean as it stood before each trial came.

    Parameters
    ----------
    C : ndarray, shape (n, tokens, d, d)
        In the order of time.
    start : ndarray, shape (tokens, d, d)
        The mean before the first trial.
    count : int
        How many trials the start counts for.
    metric : str
        The Riemannian mean is followed by steps along geodesics, which with matrices that do not
        commute is close to it but not it.

    Returns
    -------
    references : ndarray, shape (n, tokens, d, d)
        The i-th knows the start and trials 0 to i - 1.
    """
    references = np.empty_like(C)
    R = start
    for i, trial in enumerate(C):
        references[i] = R
        step = 1 / (count + i + 1)
        R = R + step * (trial - R) if metric == "euclid" else geodesic_riemann(R, trial, step)
        R = 0.5 * (R + R.swapaxes(-1, -2))
    return references


def running_dispersions(C: Array, references: Array, start: Array, count: int) -> Array:
    """The dispersion as it stood before each trial came (Welford's recurrence on geodesics).

    Parameters
    ----------
    C : ndarray, shape (n, tokens, d, d)
    references : ndarray, shape (n, tokens, d, d)
        Of :func:`running_references`.
    start : ndarray, shape (tokens,)
        The dispersion before the first trial.
    count : int
        How many trials the start counts for.

    Returns
    -------
    dispersions : ndarray, shape (n, tokens)
    """
    before = count + np.arange(len(C))[:, None]
    # A trial at distance r moves the mean by r / (k + 1) and is then k / (k + 1) r away from it.
    added = distance_riemann(C, references, squared=True) * before / (before + 1)
    # The past alone is summed: to subtract the trial again would leave its rounding behind.
    total = np.cumsum(np.concatenate([count * start[None], added[:-1]]), axis=0)
    return total / before


def whitener(reference: Array) -> Array:
    """The symmetric ``W`` with ``W R W = I``, shape (..., d, d)."""
    return np.asarray(invsqrtm(reference))


def congruence(C: Array, W: Array) -> Array:
    """``W C W^T``, symmetric to the last bit."""
    moved = W @ C @ W.swapaxes(-1, -2)
    return 0.5 * (moved + moved.swapaxes(-1, -2))


def stretch(C: Array, power: Array) -> Array:
    """Powers (...) of matrices (..., d, d): distances from the identity times the power."""
    stretched = powm(C, power[..., None])
    return np.asarray(0.5 * (stretched + stretched.swapaxes(-1, -2)))


def procrustes(A: Array, B: Array, *, tol: float = 1e-8, max_iterations: int = 300) -> Array:
    r"""The orthogonal ``Q`` that brings ``Q B Q^T`` closest to ``A``, for pairs at once.

    Least squares over the pairs: the trace of :math:`\sum_c A_c Q B_c Q^\top` is greatest. With
    positive semidefinite matrices (a multiple of the identity more or less changes nothing) it is
    convex in ``Q``, so that replacing ``Q`` by the polar factor of its gradient never lowers it.
    There are many local solutions, and with two classes around a common mean even many equal ones,
    as eigenvectors have no sign. The search starts at the identity (the electrodes are the same),
    and at the eigenvectors of each pair, once with the signs that turn least and once with those
    that suit the other pairs best. Of equal solutions it takes the first.

    Parameters
    ----------
    A, B : ndarray, shape (pairs, tokens, d, d)
        Such as class means of two domains.
    tol : float
        Change of ``Q`` at which to stop.
    max_iterations : int
        Reaching it is harmless: each step improves on the last.

    Returns
    -------
    Q : ndarray, shape (tokens, d, d)
    """
    tokens, d = A.shape[1:3]
    (a, Va), (b, Vb) = np.linalg.eigh(A), np.linalg.eigh(B)
    eye = np.eye(d)
    A, B = A - a[..., :1, None] * eye, B - b[..., :1, None] * eye
    starts = [np.broadcast_to(eye, (1, tokens, d, d))]
    for signs in (_least_turn(Va, Vb), _best_fit(A, B, Va, Vb)):
        starts.append((Va * signs[..., None, :]) @ Vb.swapaxes(-1, -2))
    Q = np.concatenate(starts)
    # Where the gradient vanishes in some direction the polar factor is arbitrary: stay there.
    stay = 1e-3 * np.einsum("ctij,ctij->t", A, A) ** 0.5 * np.einsum("ctij,ctij->t", B, B) ** 0.5
    for _ in range(max_iterations):
        gradient = sum(Ac @ Q @ Bc for Ac, Bc in zip(A, B, strict=True))
        U, _, Vt = np.linalg.svd(gradient + stay[:, None, None] * Q)
        last, Q = Q, U @ Vt
        if np.abs(Q - last).max() <= tol:
            break
    gain = sum(
        np.einsum("tij,stij->st", Ac, congruence(Bc, Q)) for Ac, Bc in zip(A, B, strict=True)
    )
    chosen = (gain >= gain.max(0) * (1 - 1e-9)).argmax(0)
    return Q[chosen, np.arange(tokens)]


def _least_turn(Va: Array, Vb: Array) -> Array:
    """Signs (pairs, tokens, d) that bring ``Va S Vb^T`` closest to the identity."""
    return np.where((Va * Vb).sum(-2) < 0, -1.0, 1.0)


def _best_fit(A: Array, B: Array, Va: Array, Vb: Array) -> Array:
    """Signs (pairs, tokens, d) by which ``Va S Vb^T`` suits all pairs.

    The trace to be made great is a quadratic form of the signs. If a rotation fits exactly, its
    matrix is nonnegative but for these signs, and by Perron and Frobenius the signs of the leading
    eigenvector are they.
    """
    form = sum(
        (Va.swapaxes(-1, -2) @ Ac @ Va) * (Vb.swapaxes(-1, -2) @ Bc @ Vb)
        for Ac, Bc in zip(A, B, strict=True)
    )
    return np.where(np.linalg.eigh(form)[1][..., -1] < 0, -1.0, 1.0)
