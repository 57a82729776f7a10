"""Means, dispersions and rotations that align sets of SPD matrices.

All functions take several matrices per trial, shape (n, tokens, d, d), and treat each separately.
``spdtokens.evaluation.alignment`` decides which trials a reference may be computed from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spdtokens.errors import NotSPDError
from spdtokens.runtime.tokens import Metric, Reference, congruence

Array = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)


def mean_reference(C: Array, metric: Metric) -> Array:
    """Arithmetic or Riemannian mean: (tokens, d, d) from (n, tokens, d, d)."""
    return C.mean(0) if metric == "euclid" else riemannian_mean(C)


def riemannian_mean(C: Array, *, tol: float = 1e-7, max_iterations: int = 200) -> Array:
    r"""Mean of SPD matrices under the affine-invariant metric.

    The mean is where the tangent vectors to all matrices cancel. From a factor :math:`F` of the
    current point :math:`R = F F^\top`, the whitened matrices :math:`A_i = F^{-1} C_i F^{-\top}`
    have the mean logarithm :math:`J`, and the step is :math:`F \leftarrow F e^{\theta J / 2}`. Kept
    as a factor, the point carries its frame along the geodesic by parallel transport: two
    successive :math:`J` can be subtracted, and their difference tells the curvature and so the
    length :math:`\theta` of the next step (Barzilai and Borwein 1988). The curvature is never below
    1 and has a bound (Bini and Iannazzo 2013), which keeps :math:`\theta` within limits.

    ``pyriemann.geometry.mean.mean_riemann`` finds the same mean. It shortens its steps by a fixed
    schedule, which runs out before convergence on matrices that lie far apart (random ones of
    condition number 1e7), and takes one token after another: here 1.4 to 2 times as long.

    Parameters
    ----------
    C : ndarray, shape (n, ..., d, d)
        SPD matrices of any unit.
    tol : float
        Norm of the gradient, a number without unit, from which one more step is the last. That
        step leaves about a tenth of it.
    max_iterations : int

    Returns
    -------
    R : ndarray, shape (..., d, d)

    Raises
    ------
    NotSPDError
        If there is no convergence.
    """
    d = C.shape[-1]
    F = np.linalg.cholesky(C.mean(0))
    inverse = np.linalg.inv(F)
    A = inverse @ C @ inverse.swapaxes(-1, -2)
    last, theta = None, np.ones(C.shape[1:-2])
    for _ in range(max_iterations):
        values, V = _eigh(A)
        logs = np.log(np.maximum(values, d * _EPS * values[..., -1:]))
        J = ((V * logs[..., None, :]) @ V.swapaxes(-1, -2)).mean(0)
        if last is not None:
            theta = _step(theta, last, J, logs)
        moves, U = _eigh(J)
        half = np.exp(0.5 * theta[..., None] * moves)[..., None, :]
        F = F @ (U * half) @ U.swapaxes(-1, -2)
        # Logarithms of ill-conditioned matrices carry rounding noise that no step removes.
        noise = d * _EPS * np.exp(logs[..., -1] - logs[..., 0]).mean(0)
        if (np.linalg.norm(J, axis=(-2, -1)) <= np.maximum(tol, noise)).all():
            return np.asarray(F @ F.swapaxes(-1, -2))
        back = (U / half) @ U.swapaxes(-1, -2)
        A = back @ A @ back
        last = J
    raise NotSPDError(
        f"The Riemannian mean of {len(C)} matrices did not converge in {max_iterations} steps. "
        "They are too close to singular. Use a shrinkage estimator (such as 'oas' or 'lwf')."
    )


def _eigh(C: Array) -> tuple[Array, Array]:
    import torch  # here, as it takes a second; a tenth faster than NumPy on one thread

    from spdtokens.geometry.matrix_functions import eigh

    values, V = eigh(torch.from_numpy(C))
    return values.numpy(), V.numpy()


def _step(theta: Array, last: Array, J: Array, logs: Array) -> Array:
    """Length of the next step for each token, from the last step and its effect."""
    change = last - J
    size = (change * change).sum((-2, -1))
    guess = theta * (last * change).sum((-2, -1)) / np.where(size > 0, size, 1.0)
    x = np.maximum(0.5 * (logs[..., -1] - logs[..., 0]), 1e-6)
    steepest = (x / np.tanh(x)).mean(0)
    return np.where(size > 0, guess, 1.0).clip(2 / (1 + steepest), 1.0)


def dispersion(C: Array, reference: Array) -> Array:
    """Mean squared Riemannian distance to a reference (tokens, d, d): shape (tokens,)."""
    from pyriemann.geometry.distance import distance_riemann

    return np.asarray(distance_riemann(C, reference[None], squared=True)).mean(0)


def running_references(C: Array, start: Array, count: int, reference: Reference) -> Array:
    """Compute the running mean before each trial.

    Parameters
    ----------
    C : ndarray, shape (n, tokens, d, d)
        Trials in temporal order.
    start : ndarray, shape (references, d, d)
        Mean before the first trial.
    count : int
        Number of trials that the initial mean counts for.
    reference : Reference
        Metric, and windows that share a reference. The Riemannian mean is approximated by steps
        along geodesics.

    Returns
    -------
    ndarray, shape (n, references, d, d)
        Entry i depends on the initial mean and trials 0 to i - 1.
    """
    references = np.empty((len(C), *start.shape))
    R = start
    for i, trial in enumerate(C):
        references[i] = R
        R = reference.moved(R, trial, 1 / (count + i + 1))
    return references


def running_dispersions(C: Array, references: Array, start: Array, count: int) -> Array:
    """Compute the dispersion before each trial (Welford's recurrence on geodesics).

    Parameters
    ----------
    C : ndarray, shape (n, tokens, d, d)
        Trials in temporal order.
    references : ndarray, shape (n, tokens, d, d)
        Result of :func:`running_references`.
    start : ndarray, shape (tokens,)
        Dispersion before the first trial.
    count : int
        Number of trials that the initial dispersion counts for.

    Returns
    -------
    ndarray, shape (n, tokens)
        Mean squared distance to the mean.
    """
    from pyriemann.geometry.distance import distance_riemann

    before = count + np.arange(len(C))[:, None]
    # A trial at distance r moves the mean by r / (k + 1) and is then k / (k + 1) r away from it.
    added = distance_riemann(C, references, squared=True) * before / (before + 1)
    # Only the past is summed: subtracting the trial again would leave its rounding error.
    total = np.cumsum(np.concatenate([count * start[None], added[:-1]]), axis=0)
    return total / before


def stretch(C: Array, power: Array) -> Array:
    """Powers (...) of matrices (..., d, d), which multiply distances from the identity."""
    from pyriemann.geometry.base import powm

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
    # The trace to maximise is a quadratic form of the signs. If a rotation fits exactly, its matrix
    # is nonnegative up to these signs, which by the Perron-Frobenius theorem are the signs of the
    # leading eigenvector.
    form = sum(
        (Va.swapaxes(-1, -2) @ Ac @ Va) * (Vb.swapaxes(-1, -2) @ Bc @ Vb)
        for Ac, Bc in zip(A, B, strict=True)
    )
    starts = [np.broadcast_to(eye, (1, tokens, d, d))]
    for signs in ((Va * Vb).sum(-2), np.linalg.eigh(form)[1][..., -1]):
        starts.append((Va * np.where(signs < 0, -1.0, 1.0)[..., None, :]) @ Vb.swapaxes(-1, -2))
    Q = np.concatenate(starts)
    # If the gradient vanishes in some direction the polar factor is arbitrary: stay there.
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
    return np.asarray(Q[chosen, np.arange(tokens)])
