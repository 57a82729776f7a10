from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from pyriemann.geometry.distance import distance_wasserstein
from pyriemann.geometry.geodesic import geodesic_wasserstein
from pyriemann.geometry.mean import mean_wasserstein
from torch.autograd import gradcheck

from spdtokens.geometry import (
    barycenter_bures_wasserstein,
    distance_bures_wasserstein,
    geodesic_bures_wasserstein,
    sqrtm,
)
from tests.matrices import F64, random_spd, relative_error, rotation, spd_matrices


def test_distance_agrees_with_pyriemann() -> None:
    A, B = random_spd(10, 6, seed=1), random_spd(10, 6, seed=2)
    expected = distance_wasserstein(A.numpy(), B.numpy())
    np.testing.assert_allclose(distance_bures_wasserstein(A, B), expected, rtol=1e-9)
    squared = distance_bures_wasserstein(A.numpy(), B.numpy(), squared=True)
    assert isinstance(squared, np.ndarray)
    np.testing.assert_allclose(squared, expected**2, rtol=1e-9)


@pytest.mark.parametrize("gap", [1e-2, 1e-6, 1e-10])
def test_close_matrices_keep_their_digits(gap: float) -> None:
    """Commuting matrices have a closed form; the textbook trace formula fails it."""
    V = rotation(4)
    a = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=F64)
    A, B = (V * a) @ V.T, (V * (a * (1 + gap))) @ V.T
    exact = (a.sqrt() * (np.sqrt(1 + gap) - 1)).norm().item()
    assert distance_bures_wasserstein(A, B).item() == pytest.approx(exact, rel=1e-14 / gap)
    if gap < 1e-9:
        nuclear = torch.linalg.matrix_norm(sqrtm(A) @ sqrtm(B), ord="nuc")
        textbook = (A.trace() + B.trace() - 2 * nuclear).clamp(min=0).sqrt().item()
        assert textbook != pytest.approx(exact, rel=0.5)


@given(C=spd_matrices())
def test_distance_to_itself_is_zero(C: torch.Tensor) -> None:
    scale = C.diagonal(dim1=-2, dim2=-1).sum(-1).sqrt()
    assert bool((distance_bures_wasserstein(C, C) <= 1e-7 * scale).all())


def test_arrays_and_tensors_do_not_mix() -> None:
    with pytest.raises(TypeError, match="convert one to the other"):
        distance_bures_wasserstein(random_spd(3), random_spd(3).numpy())


def test_distance_gradient() -> None:
    A, B = random_spd(2, 4, seed=1).requires_grad_(), random_spd(2, 4, seed=2).requires_grad_()
    assert gradcheck(lambda a, b: distance_bures_wasserstein(a, b), (A, B))
    assert gradcheck(lambda a, b: distance_bures_wasserstein(a, b, squared=True), (A, B))


def test_geodesic() -> None:
    A, B = random_spd(5, seed=1), random_spd(5, seed=2)
    whole = distance_bures_wasserstein(A, B).item()
    for t in (0.0, 0.3, 1.0):
        C = geodesic_bures_wasserstein(A, B, t)
        expected = geodesic_wasserstein(A.numpy(), B.numpy(), t)
        np.testing.assert_allclose(C.numpy(), expected, rtol=1e-7, atol=1e-9)
        assert distance_bures_wasserstein(A, C).item() == pytest.approx(t * whole, abs=1e-7)


class TestBarycenter:
    def test_agrees_with_pyriemann_at_any_scale(self) -> None:
        C = random_spd(15, 5, seed=3)
        expected = mean_wasserstein(C.numpy(), tol=1e-12, maxiter=500)
        for scale in (1e-12, 1.0, 1e12):
            result = barycenter_bures_wasserstein(scale * C)
            assert result.converged
            assert relative_error(result.mean / scale, expected) < 1e-7

    def test_of_two_is_the_middle_of_the_geodesic(self) -> None:
        C = random_spd(2, 4, seed=3)
        mean = barycenter_bures_wasserstein(C).mean
        assert relative_error(mean, geodesic_bures_wasserstein(C[0], C[1])) < 1e-9

    def test_weights(self) -> None:
        C = random_spd(2, 4, seed=3)
        mean = barycenter_bures_wasserstein(C, torch.tensor([1.0, 3.0])).mean
        assert relative_error(mean, geodesic_bures_wasserstein(C[0], C[1], 0.75)) < 1e-9

    def test_reports_how_it_got_there(self) -> None:
        C = random_spd(10, 6, kappa=1e4, seed=5).numpy()
        result = barycenter_bures_wasserstein(C)
        assert isinstance(result.mean, np.ndarray)
        assert len(result.residuals) == result.n_iterations > 2
        assert result.residuals[-1] <= 1e-12 < result.residuals[0]
        stopped = barycenter_bures_wasserstein(C, max_iterations=2)
        assert not stopped.converged
        assert stopped.n_iterations == 2

    def test_start(self) -> None:
        C = random_spd(10, 4, seed=5)
        far = barycenter_bures_wasserstein(C, start=100 * torch.eye(4, dtype=F64))
        assert relative_error(far.mean, barycenter_bures_wasserstein(C).mean) < 1e-9

    def test_bad_input(self) -> None:
        C = random_spd(3, 4)
        with pytest.raises(ValueError, match=r"weights.*\(3,\)"):
            barycenter_bures_wasserstein(C, torch.tensor([1.0, -1.0, 1.0]))
        with pytest.raises(ValueError, match=r"\(n, d, d\)"):
            barycenter_bures_wasserstein(C[0])
