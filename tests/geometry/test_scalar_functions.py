"""Divided differences against 50-digit arithmetic."""

from __future__ import annotations

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.geometry import EXP, INV_SQRT, LOG, SQRT, power_function

FUNCTIONS = {
    "sqrt": (SQRT, mpmath.sqrt, lambda a: 1 / (2 * mpmath.sqrt(a))),
    "inverse sqrt": (
        INV_SQRT,
        lambda a: 1 / mpmath.sqrt(a),
        lambda a: -(a ** (mpmath.mpf(-3) / 2)) / 2,
    ),
    "log": (LOG, mpmath.log, lambda a: 1 / a),
    "power 2": (power_function(2.0), lambda a: a**2, lambda a: 2 * a),
    "power 0.3": (
        power_function(0.3),
        lambda a: a ** mpmath.mpf(0.3),
        lambda a: mpmath.mpf(0.3) * a ** (mpmath.mpf(0.3) - 1),
    ),
    "power -1.5": (
        power_function(-1.5),
        lambda a: a ** mpmath.mpf(-1.5),
        lambda a: mpmath.mpf(-1.5) * a ** mpmath.mpf(-2.5),
    ),
}

eigenvalue = st.floats(-12, 12).map(lambda x: 10.0**x)
# From equal through neighbouring floats to ten decades apart.
ratio = st.one_of(
    st.just(1.0),
    st.floats(-16, 0).map(lambda x: 1.0 + 10.0**x),
    st.floats(0, 10).map(lambda x: 10.0**x),
)


def exact(f, slope, a: float, b: float) -> float:
    with mpmath.workdps(60):
        x, y = mpmath.mpf(a), mpmath.mpf(b)
        return float(slope(x) if x == y else (f(x) - f(y)) / (x - y))


@pytest.mark.parametrize("name", FUNCTIONS)
@given(a=eigenvalue, r=ratio)
def test_divided_difference_is_exact(name: str, a: float, r: float) -> None:
    ours, f, slope = FUNCTIONS[name]
    x, y = torch.tensor([a]).double(), torch.tensor([a * r]).double()
    expected = exact(f, slope, x.item(), y.item())
    for first, second in ((x, y), (y, x)):
        assert ours.divided_difference(first, second).item() == pytest.approx(expected, rel=2e-14)


@given(a=st.floats(-30, 30), gap=st.one_of(st.just(0.0), st.floats(-16, 1).map(lambda x: 10.0**x)))
def test_exponential_is_exact(a: float, gap: float) -> None:
    x, y = torch.tensor([a]).double(), torch.tensor([a + gap]).double()
    expected = exact(mpmath.exp, mpmath.exp, x.item(), y.item())
    assert EXP.divided_difference(x, y).item() == pytest.approx(expected, rel=2e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_keeps_float32_digits(name: str) -> None:
    ours, f, slope = FUNCTIONS[name]
    a = torch.tensor([1.0, 1.0, 1.0, 1e-4, 3.0])
    b = torch.tensor([1.0, 1.0 + 2**-23, 1.001, 1.0, 3.0])
    found = ours.divided_difference(a, b)
    expected = [exact(f, slope, x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(expected, rel=2e-6)


def test_distant_pair_where_atanh_form_is_infinite() -> None:
    a, b = torch.tensor([1e17]).double(), torch.tensor([1.0]).double()
    z = (a - b) / (a + b)
    assert torch.isinf(torch.atanh(z)).item()
    assert LOG.divided_difference(a, b).item() == pytest.approx(
        exact(mpmath.log, lambda x: 1 / x, 1e17, 1.0), rel=1e-14
    )
