from __future__ import annotations

import numpy as np
import pytest
import torch
from pyriemann.estimation import Covariances
from torch import Tensor

from spdtokens.errors import SignalError
from spdtokens.preprocessing.covariance import (
    estimate,
    paper_regularisation,
    relative_regularisation,
    sample_covariance,
)

X = np.random.default_rng(0).standard_normal((4, 5, 200)) + 3.0


def test_sample_covariance_is_numpys() -> None:
    np.testing.assert_allclose(sample_covariance(X), [np.cov(x) for x in X], rtol=1e-12)


@pytest.mark.parametrize("estimator", ["oas", "lwf", "scm", "cov", "sch"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_pyriemanns_estimators_in_any_unit(estimator: str, scale: float) -> None:
    expected = Covariances(estimator=estimator).transform(X)
    np.testing.assert_allclose(estimate(scale * X, estimator), scale**2 * expected, rtol=1e-8)


def test_regularisation() -> None:
    C = sample_covariance(X)
    relative = relative_regularisation(C, 0.01)
    np.testing.assert_allclose(
        np.diagonal(relative - C, axis1=1, axis2=2),
        0.01 * np.trace(C, axis1=1, axis2=2)[:, None] / 5 * np.ones(5),
    )
    # 1e-6 square microvolts, whatever the unit.
    np.testing.assert_allclose(paper_regularisation(C, 1e-6) - C, 1e-6 * np.eye(5)[None] + 0 * C)
    volts = 1e-12 * C
    np.testing.assert_allclose(
        paper_regularisation(volts, 1.0), 1e-12 * paper_regularisation(C, 1e-6), rtol=1e-12
    )
    with pytest.raises(SignalError, match="unit of this signal is not known"):
        paper_regularisation(C, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_covariances_are_computed_in_double_whatever_comes_in(dtype: type) -> None:
    samples = (10 * X).astype(dtype)
    expected = [np.cov(x.astype(np.float64)) for x in samples]
    array, tensor = sample_covariance(samples), sample_covariance(torch.from_numpy(samples))
    assert array.dtype == np.float64
    assert tensor.dtype == torch.float64
    np.testing.assert_allclose(array, expected, rtol=1e-12)
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_tensors_are_regularised_like_arrays_with_gradients() -> None:
    C = sample_covariance(X)
    before = C.copy()
    for regularise, amount in ((relative_regularisation, 0.1), (paper_regularisation, 1e-8)):
        np.testing.assert_array_equal(
            regularise(torch.from_numpy(C), amount).numpy(), regularise(C, amount)
        )
    np.testing.assert_array_equal(C, before)

    def chain(x: Tensor) -> Tensor:
        return relative_regularisation(sample_covariance(x), 0.1)

    assert torch.autograd.gradcheck(chain, torch.from_numpy(X[:2, :3, :8]).requires_grad_())


def test_unknown_estimator() -> None:
    with pytest.raises(SignalError, match=r"no covariance estimator 'magic'.* oas,"):
        estimate(X, "magic")
