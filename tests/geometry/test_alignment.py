from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.preprocessing import Whitening
from pyriemann.transfer import TLRotate, encode_domains

from spdtokens.geometry.alignment import (
    dispersion,
    procrustes,
    riemannian_mean,
    running_dispersions,
    running_references,
    stretch,
)
from spdtokens.runtime.tokens import Reference, congruence
from tests.matrices import random_spd, relative_error, rotation


def spd(*shape: int, kappa: float = 30.0, seed: int = 0) -> np.ndarray:
    return random_spd(*shape, kappa=kappa, seed=seed).numpy()


@pytest.mark.parametrize("scale", [1e-24, 1.0, 1e24])
@pytest.mark.parametrize("kappa", [1.5, 20.0, 100.0])
def test_mean_is_pyriemanns(kappa: float, scale: float) -> None:
    C = spd(15, 3, 6, kappa=kappa)
    expected = mean_riemann(C.swapaxes(0, 1), tol=1e-12, maxiter=500)
    assert relative_error(riemannian_mean(scale * C) / scale, expected) < 1e-7


@given(kappa=st.floats(1.0, 1e8), n=st.integers(1, 6), d=st.integers(1, 5), seed=st.integers(0, 99))
def test_tangent_vectors_cancel_at_the_mean(kappa: float, n: int, d: int, seed: int) -> None:
    C = spd(n, 2, d, kappa=kappa, seed=seed)
    R = riemannian_mean(C)
    for token in range(2):
        L = np.linalg.inv(np.linalg.cholesky(R[token]))
        values, V = np.linalg.eigh(L @ C[:, token] @ L.T)
        gradient = ((V * np.log(values)[:, None]) @ V.swapaxes(-1, -2)).mean(0)
        assert np.linalg.norm(gradient) < 1e-6 + 1e-14 * kappa


def test_mean_of_wildly_spread_matrices() -> None:
    """Full steps would overshoot. Of two matrices the mean is the middle of the geodesic."""
    A, B = np.diag([1e5, 1.0, 1e-5]), spd(3, kappa=1e6)
    found = riemannian_mean(np.stack([A, B])[:, None])[0]
    assert relative_error(found, geodesic_riemann(A, B, 0.5)) < 1e-6


def test_running_reference_is_whitening_partial_fit() -> None:
    C = spd(12, 2, 4)
    start = riemannian_mean(C[:5])
    found = running_references(C[5:], start, 5, Reference())
    for token in range(2):
        oracle = Whitening(metric="riemann").fit(C[:5, token])
        oracle._n_matrices_cum = 5
        for i in range(5, 12):
            R = np.linalg.inv(oracle.filters_ @ oracle.filters_.T)
            np.testing.assert_allclose(found[i - 5, token], R, rtol=1e-6, atol=1e-8)
            oracle.partial_fit(C[i : i + 1, token], alpha=1 / (i + 1))


def test_running_arithmetic_mean() -> None:
    C = spd(12, 2, 4)
    found = running_references(C[3:], C[:3].mean(0), 3, Reference("euclid"))
    expected = np.stack([C[: 3 + i].mean(0) for i in range(9)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_running_mean_and_dispersion_in_one_dimension() -> None:
    """There logarithms turn the geometry into that of numbers."""
    x = np.random.default_rng(0).standard_normal((20, 3))
    C = 1e-10 * np.exp(x)[..., None, None]
    start = riemannian_mean(C[:4])
    references = running_references(C[4:], start, 4, Reference())
    found = running_dispersions(C[4:], references, dispersion(C[:4], start), 4)
    for i in range(16):
        np.testing.assert_allclose(np.log(references[i, :, 0, 0] / 1e-10), x[: 4 + i].mean(0))
        np.testing.assert_allclose(found[i], x[: 4 + i].var(0))


def test_stretch_multiplies_distances_from_the_identity() -> None:
    C, power = spd(5, 2, 4), np.array([0.5, 2.0])
    before = distance_riemann(C, np.eye(4))
    np.testing.assert_allclose(distance_riemann(stretch(C, power), np.eye(4)), before * power)


def loss(Q: np.ndarray, A: np.ndarray, B: np.ndarray) -> float:
    return float(((A - Q @ B @ Q.T) ** 2).sum())


@pytest.mark.parametrize("angle_seed", range(4))
def test_procrustes_finds_a_known_rotation(angle_seed: int) -> None:
    B = spd(4, 2, 5, seed=angle_seed)
    Q = rotation(5, seed=angle_seed).numpy()
    found = procrustes(congruence(B, Q), B)
    for token in range(2):
        assert loss(found[token], congruence(B, Q)[:, token], B[:, token]) < 1e-8
    np.testing.assert_allclose(
        found @ found.swapaxes(-1, -2), np.stack([np.eye(5)] * 2), atol=1e-12
    )


@pytest.mark.filterwarnings("ignore:Convergence not reached")
@pytest.mark.parametrize("seed", range(5))
def test_procrustes_is_no_worse_than_pyriemann(seed: int) -> None:
    A, B = spd(3, 4, seed=seed, kappa=5), spd(3, 4, seed=100 + seed, kappa=5)
    C, y = encode_domains(np.concatenate([A, B]), [0, 1, 2] * 2, ["to"] * 3 + ["from"] * 3)
    theirs = TLRotate("to", maxiter=200).fit(C, y).rotations_["from"]
    ours = procrustes(A[:, None], B[:, None])[0]
    assert loss(ours, A, B) <= loss(theirs, A, B) * (1 + 1e-6)
    assert loss(ours, A, B) < loss(np.eye(4), A, B)


def test_procrustes_turns_nothing_without_need() -> None:
    """Two classes around a common mean: every choice of signs fits, the identity is taken."""
    M = spd(1, 2, 5)
    means = np.concatenate([M, np.linalg.inv(M)])
    np.testing.assert_allclose(procrustes(means, means), np.stack([np.eye(5)] * 2), atol=1e-7)
    same = np.stack([np.eye(5)] * 4).reshape(2, 2, 5, 5)
    np.testing.assert_array_equal(procrustes(same, same), same[0])
