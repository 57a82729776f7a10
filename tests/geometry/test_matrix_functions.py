"""Values and gradients of matrix functions, in every precision and unit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry import base as pyriemann
from pyriemann.geometry.tangentspace import upper
from spd_learn import functional as spd_learn
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from spdtokens.errors import NotSPDError
from spdtokens.geometry import (
    EXP,
    INV_SQRT,
    LOG,
    SQRT,
    Floor,
    SpectralFunction,
    expm,
    invsqrtm,
    logm,
    matrix_dim,
    power_function,
    powm,
    spectral,
    spectral_token,
    sqrtm,
    token_dim,
    unvech,
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

#: Ours, and SciPy's.
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "sqrt": (sqrtm, scipy.linalg.sqrtm),
    "inverse sqrt": (invsqrtm, lambda C: np.linalg.inv(scipy.linalg.sqrtm(C))),
    "log": (logm, scipy.linalg.logm),
    "exp": (expm, scipy.linalg.expm),
    **{
        f"power {p}": (
            lambda C, p=p: powm(C, p),
            lambda C, p=p: scipy.linalg.fractional_matrix_power(C, p),
        )
        for p in (0.3, -1.7, 2.0)
    },
}
SPECIAL = {
    "batch": random_spd(2, 3, 4),
    "identity": torch.eye(4, dtype=F64),
    "repeated": with_spectrum([2.0, 2.0, 2.0, 1.0, 1.0]),
    "clustered": with_spectrum([1.0, 1.0 + 1e-9, 1.0 + 1e-7, 1.0 - 1e-8]),
    "one by one": torch.tensor([[3.0]], dtype=F64),
}


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_agrees_with_scipy(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    C = random_spd(5, 7, seed=3)
    assert relative_error(ours(C), np.stack([theirs(c) for c in C.numpy()])) < 1e-10


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name: str, case: str) -> None:
    assert gradcheck(FUNCTIONS[name][0], SPECIAL[case].clone().requires_grad_())


@pytest.mark.parametrize("isometric", [False, True])
@pytest.mark.parametrize("case", SPECIAL)
def test_token_is_vech_of_the_matrix(case: str, isometric: bool) -> None:
    C = SPECIAL[case].clone().requires_grad_()
    token = spectral_token(C, LOG, isometric=isometric)
    assert torch.equal(token, vech(logm(C), isometric=isometric))
    assert gradcheck(lambda x: spectral_token(x, LOG, isometric=isometric), C)


@given(C=spd_matrices(), name=st.sampled_from(["sqrt", "inverse sqrt", "log", "power 0.3"]))
def test_orthogonal_equivariance(C: Tensor, name: str) -> None:
    Q = rotation(C.shape[-1], seed=7)
    f = FUNCTIONS[name][0]
    turned = f(Q @ C @ Q.T)
    expected = Q @ f(C) @ Q.T
    # log C may be near zero, so its error is measured against the spread of logarithms.
    size = max(1.0, float(expected.abs().max())) if name == "log" else float(expected.abs().max())
    assert float((turned - expected).abs().max()) < 1e-10 * size


@given(C=spd_matrices(), decades=st.integers(-12, 12))
def test_scale_equivariance(C: Tensor, decades: int) -> None:
    s = 10.0**decades
    eye = torch.eye(C.shape[-1], dtype=F64)
    assert relative_error(sqrtm(s * C), s**0.5 * sqrtm(C)) < 1e-11
    assert relative_error(invsqrtm(s * C), s**-0.5 * invsqrtm(C)) < 1e-10
    torch.testing.assert_close(logm(s * C), logm(C) + np.log(s) * eye, rtol=1e-10, atol=1e-10)


@given(C=spd_matrices())
def test_gradient_of_log_trace_is_the_inverse(C: Tensor) -> None:
    x = C.clone().requires_grad_()
    (grad,) = torch.autograd.grad(logm(x).diagonal(dim1=-2, dim2=-1).sum(), x)
    assert relative_error(grad, torch.linalg.inv(C)) < 1e-9


@pytest.mark.usefixtures("threads")
def test_large_batches_have_the_gradients_of_single_matrices() -> None:
    C = random_spd(300, 22).requires_grad_()
    G = torch.randn(300, 22, 22, generator=generator(), dtype=F64)
    value = logm(C)
    (grad,) = torch.autograd.grad(value, C, G)
    for i in (0, 150, 299):
        x = C[i].detach().requires_grad_()
        torch.testing.assert_close(value[i], logm(x), rtol=1e-12, atol=1e-12)
        (alone,) = torch.autograd.grad(logm(x), x, G[i])
        torch.testing.assert_close(grad[i], alone, rtol=1e-12, atol=1e-12)


def test_second_derivative_is_refused() -> None:
    C = random_spd(3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"matrix log .*create_graph"):
        torch.autograd.grad(logm(C).sum(), C, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3), (2, 1, 4, 3)])
def test_shape_and_dtype_are_kept(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    C = random_spd(*shape).to(dtype).requires_grad_()
    out = logm(C)
    out.sum().backward()
    assert C.grad is not None
    assert out.shape == C.grad.shape == C.shape
    assert out.dtype == C.grad.dtype == dtype


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
    @pytest.mark.parametrize("f", [sqrtm, logm])
    def test_gradcheck_where_eigenvalues_are_raised(self, f: Callable, floor: Floor) -> None:
        C = with_spectrum([0.01, 0.02, 0.1, 1.0, 2.0]).requires_grad_()
        assert gradcheck(lambda x: f(x, floor=floor), C)

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
    with pytest.raises(NotSPDError, match=r"matrix \[1, 2\] .*-0\.5 to 2"):
        logm(C)


@pytest.mark.usefixtures("threads")
def test_nan_is_refused_by_name() -> None:
    C = random_spd(300, 8)
    C[7, 2, 3] = float("nan")
    with pytest.raises(NotSPDError, match=r"matrix \[7\].*row 2, column 3"):
        sqrtm(C)


# Divided differences against 60-digit arithmetic.

SCALAR = {
    "sqrt": (SQRT, mpmath.sqrt, lambda a: 1 / (2 * mpmath.sqrt(a))),
    "inverse sqrt": (INV_SQRT, lambda a: a ** mpmath.mpf(-0.5), lambda a: -(a**-1.5) / 2),
    "log": (LOG, mpmath.log, lambda a: 1 / a),
    "exp": (EXP, mpmath.exp, mpmath.exp),
    **{
        f"power {p}": (
            power_function(p),
            lambda a, p=p: a ** mpmath.mpf(p),
            lambda a, p=p: mpmath.mpf(p) * a ** (mpmath.mpf(p) - 1),
        )
        for p in (2.0, 0.3, -1.5)
    },
}
EIGENVALUES = st.floats(-12, 12).map(lambda x: 10.0**x)
# From equal through neighbouring floats to ten decades apart.
RATIOS = st.one_of(
    st.just(1.0),
    st.floats(-16, 0).map(lambda x: 1.0 + 10.0**x),
    st.floats(0, 10).map(lambda x: 10.0**x),
)


@pytest.mark.parametrize("name", SCALAR)
@given(a=EIGENVALUES, ratio=RATIOS)
def test_divided_difference_is_exact(name: str, a: float, ratio: float) -> None:
    ours, f, slope = SCALAR[name]
    pair = np.array([a, a * ratio])
    if name == "exp":  # of symmetric matrices that are not positive: of logarithms
        pair = np.log(pair)
    with mpmath.workdps(60):
        x, y = map(mpmath.mpf, pair)
        expected = float(slope(x) if x == y else (f(x) - f(y)) / (x - y))
    for order in (pair, pair[::-1]):
        first, second = torch.from_numpy(order.copy()).split(1)
        assert ours.divided_difference(first, second).item() == pytest.approx(expected, rel=2e-14)


def test_distant_pair_where_the_atanh_form_is_infinite() -> None:
    a, b = torch.tensor([1e17]).double(), torch.tensor([1.0]).double()
    assert torch.isinf(torch.atanh((a - b) / (a + b))).item()
    expected = np.log(1e17) / (1e17 - 1)
    assert LOG.divided_difference(a, b).item() == pytest.approx(expected, rel=1e-14)


# float32 against float64, at every scale, beside the field's libraries.

WAYS = {
    "log": (logm, spd_learn.matrix_log.apply, pyriemann.logm),
    "sqrt": (sqrtm, spd_learn.matrix_sqrt.apply, pyriemann.sqrtm),
}
SCALES = (1e-12, 1e-6, 1.0, 1e6, 1e12)
KAPPAS = (1.0, 10.0, 1e2, 1e4)


def float32_cases() -> Iterator[Tensor]:
    for scale in SCALES:
        for kappa in KAPPAS:
            for d in (8, 22, 56):
                yield random_spd(10, d, kappa=kappa, scale=scale, seed=d).float()
        yield (scale * with_spectrum([1.0] * 4 + [2.0] * 4)).float()[None]
        yield scale * torch.eye(8)[None]


@pytest.mark.parametrize("name", WAYS)
def test_float32_value_and_gradient(name: str) -> None:
    """Daleckii-Krein in float64 with eigenvectors of the very matrix, written out."""
    for C in float32_cases():
        G = torch.randn(C.shape, generator=generator(C.shape[-1]))
        eigenvalues, V = torch.linalg.eigh(C.double())
        a, b = eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2)
        if name == "sqrt":
            value, K = eigenvalues.sqrt(), 1 / (a.sqrt() + b.sqrt())
        else:
            z = (a - b) / (a + b)
            value = eigenvalues.log()
            K = torch.where(z.abs() < 1e-8, 2 / (a + b), 2 * torch.atanh(z) / (a - b))
        expected = V @ (K * (V.mT @ (0.5 * (G + G.mT)).double() @ V)) @ V.mT
        errors = []
        for f in WAYS[name]:
            x = C.clone().requires_grad_()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the others' warnings are their own
                (grad,) = torch.autograd.grad(f(x), x, G)
            error = relative_error(grad, expected)
            errors.append(error if error == error else np.inf)
        assert errors[0] < 1e-4
        assert errors[0] <= min(errors) + 1e-5
        exact = (V * value.unsqueeze(-2)) @ V.mT
        gap = (WAYS[name][0](C).double() - exact).flatten(-2).norm(dim=-1)
        # log C is zero for the identity: measure it against one natural unit then.
        size = exact.flatten(-2).norm(dim=-1).clamp(min=1.0 if name == "log" else 0.0)
        assert float((gap / size).max()) < 1e-5


# The upper triangle.


def symmetric(*shape: int) -> Tensor:
    M = torch.randn(*shape, shape[-1], generator=generator(), dtype=F64)
    return M + M.mT


def test_order_and_weights_agree_with_pyriemann() -> None:
    M = symmetric(3, 5)
    np.testing.assert_allclose(vech(M, isometric=True).numpy(), upper(M.numpy()), rtol=1e-14)
    np.testing.assert_array_equal(vech(M).numpy(), M.numpy()[:, *np.triu_indices(5)])


@pytest.mark.parametrize("isometric", [False, True])
def test_unvech_inverts_and_both_have_gradients(isometric: bool) -> None:
    M = symmetric(2, 4).requires_grad_()
    token = vech(M, isometric=isometric).detach().requires_grad_()
    torch.testing.assert_close(unvech(token, isometric=isometric), M)
    for f, x in (
        (lambda x: vech(0.5 * (x + x.mT), isometric=isometric), M),
        (lambda t: unvech(t, isometric=isometric), token),
    ):
        assert gradcheck(f, x)
        assert gradgradcheck(f, x)


def test_dimensions() -> None:
    assert [token_dim(d) for d in (1, 8, 22, 56)] == [1, 36, 253, 1596]
    assert [matrix_dim(n) for n in (1, 36, 253, 1596)] == [1, 8, 22, 56]
    for n in (0, 2, 252):
        with pytest.raises(ValueError, match=f"{n} features"):
            matrix_dim(n)
