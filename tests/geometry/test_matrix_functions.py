"""Values and gradients of matrix functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from spdtokens.errors import NotSPDError
from spdtokens.geometry import (
    LOG,
    Floor,
    SpectralFunction,
    expm,
    invsqrtm,
    logm,
    powm,
    spectral,
    spectral_token,
    sqrtm,
    vech,
)
from tests.matrices import (
    F64,
    generator,
    random_spd,
    relative_error,
    rotation,
    spd_matrices,
    with_spectrum,
)

FUNCTIONS = {
    "sqrt": sqrtm,
    "inverse sqrt": invsqrtm,
    "log": logm,
    "exp": expm,
    "power 0.3": lambda C: powm(C, 0.3),
    "power -1.7": lambda C: powm(C, -1.7),
    "power 2": lambda C: powm(C, 2.0),
}
SCIPY = {
    "sqrt": scipy.linalg.sqrtm,
    "inverse sqrt": lambda C: np.linalg.inv(scipy.linalg.sqrtm(C)),
    "log": scipy.linalg.logm,
    "exp": scipy.linalg.expm,
    "power 0.3": lambda C: scipy.linalg.fractional_matrix_power(C, 0.3),
    "power -1.7": lambda C: scipy.linalg.fractional_matrix_power(C, -1.7),
    "power 2": lambda C: C @ C,
}
SPECIAL = {
    "batch": random_spd(2, 3, 4),
    "identity": torch.eye(4, dtype=F64),
    "repeated": with_spectrum([2.0, 2.0, 2.0, 1.0, 1.0]),
    "clustered": with_spectrum([1.0, 1.0 + 1e-9, 1.0 + 1e-7, 1.0 - 1e-8]),
    "one by one": torch.tensor([[3.0]], dtype=F64),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_agrees_with_scipy(name: str) -> None:
    C = random_spd(5, 7, seed=3)
    expected = np.stack([SCIPY[name](c) for c in C.numpy()])
    assert relative_error(FUNCTIONS[name](C), expected) < 1e-10


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name: str, case: str) -> None:
    C = SPECIAL[case].clone().requires_grad_()
    assert gradcheck(FUNCTIONS[name], C, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("isometric", [False, True])
@pytest.mark.parametrize("case", SPECIAL)
def test_token_is_vech_of_the_matrix_with_the_same_gradient(case: str, isometric: bool) -> None:
    C = SPECIAL[case].clone().requires_grad_()
    token, expected = (
        spectral_token(C, LOG, isometric=isometric),
        vech(logm(C), isometric=isometric),
    )
    torch.testing.assert_close(token, expected, rtol=1e-14, atol=1e-15)
    G = torch.randn(token.shape, generator=generator(), dtype=F64)
    ours, theirs = (torch.autograd.grad(t, C, G)[0] for t in (token, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)
    assert gradcheck(
        lambda x: spectral_token(x, LOG, isometric=isometric),
        C,
        check_forward_ad=True,
        check_batched_grad=True,
    )


@given(C=spd_matrices(), name=st.sampled_from(["sqrt", "inverse sqrt", "log", "power 0.3"]))
def test_orthogonal_equivariance(C: torch.Tensor, name: str) -> None:
    Q = rotation(C.shape[-1], seed=7)
    f = FUNCTIONS[name]
    turned = f(Q @ C @ Q.T)
    expected = Q @ f(C) @ Q.T
    # log C may be near zero, so its error is measured against the spread of logarithms.
    size = max(1.0, float(expected.abs().max())) if name == "log" else float(expected.abs().max())
    assert float((turned - expected).abs().max()) < 1e-10 * size


@given(C=spd_matrices(), decades=st.integers(-12, 12))
def test_scale_equivariance(C: torch.Tensor, decades: int) -> None:
    s = 10.0**decades
    eye = torch.eye(C.shape[-1], dtype=F64)
    assert relative_error(sqrtm(s * C), s**0.5 * sqrtm(C)) < 1e-11
    assert relative_error(invsqrtm(s * C), s**-0.5 * invsqrtm(C)) < 1e-10
    torch.testing.assert_close(logm(s * C), logm(C) + np.log(s) * eye, rtol=1e-10, atol=1e-10)


@given(C=spd_matrices())
def test_gradient_of_log_trace_is_the_inverse(C: torch.Tensor) -> None:
    x = C.clone().requires_grad_()
    (grad,) = torch.autograd.grad(logm(x).diagonal(dim1=-2, dim2=-1).sum(), x)
    assert relative_error(grad, torch.linalg.inv(C)) < 1e-9


def test_torch_func_transforms() -> None:
    C = random_spd(40, 16, kappa=50.0)  # enough to be shared among threads
    loss = lambda c: logm(c).pow(3).sum()  # noqa: E731
    x = C.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(C), expected)
    torch.testing.assert_close(torch.func.grad(loss)(C), expected)
    torch.testing.assert_close(torch.func.vmap(logm, in_dims=1)(C.transpose(0, 1)), logm(C))
    backward, forward = (j(sqrtm)(C[0, :3, :3]) for j in (torch.func.jacrev, torch.func.jacfwd))
    torch.testing.assert_close(backward, forward)
    token = lambda c: spectral_token(c, LOG)  # noqa: E731
    torch.testing.assert_close(
        torch.func.vmap(torch.func.jacrev(token))(C[:2, :4, :4]),
        torch.func.vmap(torch.func.jacfwd(token))(C[:2, :4, :4]),
    )


def test_many_threads_and_one_give_the_same_numbers() -> None:
    C = random_spd(300, 22)
    G = torch.randn(300, 22, 22, generator=generator(), dtype=F64)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, max(2, before)):
            torch.set_num_threads(threads)
            x = C.clone().requires_grad_()
            y = logm(x)
            results.append((y.detach(), *torch.autograd.grad(y, x, G)))
    finally:
        torch.set_num_threads(before)
    for alone, shared in zip(*results, strict=True):
        torch.testing.assert_close(alone, shared, rtol=1e-12, atol=1e-12)


def test_second_derivative_is_refused() -> None:
    C = random_spd(3).requires_grad_()
    (grad,) = torch.autograd.grad(logm(C).sum(), C, create_graph=True)
    with pytest.raises(RuntimeError, match="Second derivatives of the matrix log"):
        grad.sum().backward()
    with pytest.raises(RuntimeError, match="Second derivatives"):
        torch.func.hessian(lambda c: sqrtm(c).sum())(C.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3), (2, 1, 4, 3)])
def test_shape_and_dtype_are_kept(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    C = random_spd(*shape).to(dtype).requires_grad_()
    out = logm(C)
    assert out.shape == C.shape
    assert out.dtype == dtype
    out.sum().backward()
    assert C.grad is not None
    assert C.grad.dtype == dtype


class TestFloor:
    def test_relative_floor_does_not_depend_on_the_unit(self) -> None:
        C = with_spectrum([0.0, 1.0, 2.0, 3.0])
        logs = [torch.linalg.eigvalsh(logm(s * C)) - np.log(s) for s in (1e-12, 1.0, 1e12)]
        assert logs[1][0].item() == pytest.approx(np.log(1e-12 * 1.5), abs=1e-6)
        for other in (logs[0], logs[2]):
            torch.testing.assert_close(other, logs[1], rtol=1e-9, atol=1e-9)

    def test_paper_floor_is_absolute(self) -> None:
        C = 1e-12 * with_spectrum([0.01, 0.1, 10.0, 100.0])
        raised = torch.linalg.eigvalsh(logm(C, floor=Floor.paper())) - np.log(1e-12)
        assert raised.tolist() == pytest.approx([0, 0, np.log(10), np.log(100)], abs=1e-9)

    @pytest.mark.parametrize("floor", [Floor(relative=0.2), Floor(0.0, 0.3), Floor(0.2, 0.3)])
    @pytest.mark.parametrize("name", ["sqrt", "log"])
    def test_gradcheck_where_eigenvalues_are_raised(self, name: str, floor: Floor) -> None:
        C = with_spectrum([0.01, 0.02, 0.1, 1.0, 2.0]).requires_grad_()
        f = {"sqrt": sqrtm, "log": logm}[name]
        assert gradcheck(lambda x: f(x, floor=floor), C, check_forward_ad=True)

    def test_float32_floor_is_its_rounding_noise(self) -> None:
        C = with_spectrum([0.0, 1.0, 2.0, 3.0]).float()
        lowest = torch.linalg.eigvalsh(logm(C).double())[0].item()
        assert lowest == pytest.approx(np.log(1.5 * 2**-23), abs=1e-3)


def test_own_spectral_function() -> None:
    square = SpectralFunction("square", lambda a: a**2, lambda a, b: a + b, positive_domain=False)
    S = random_spd(2, 4) - 0.3 * torch.eye(4, dtype=F64)
    torch.testing.assert_close(spectral(S, square), S @ S)
    assert gradcheck(lambda x: spectral(x, square), S.requires_grad_())


def test_indefinite_matrix_is_refused_by_name() -> None:
    C = random_spd(2, 3, 4)
    C[1, 2] = with_spectrum([-0.5, 1.0, 1.0, 2.0])
    with pytest.raises(NotSPDError, match=r"matrix \[1, 2\] .*negative eigenvalue.*-0\.5 to 2"):
        logm(C)


@pytest.mark.parametrize("threads", [1, 2])
def test_nan_is_refused_by_name(threads: int) -> None:
    C = random_spd(300, 8)
    C[7, 2, 3] = float("nan")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with pytest.raises(NotSPDError, match=r"matrix \[7\].*row 2, column 3"):
            sqrtm(C)
    finally:
        torch.set_num_threads(before)
