from __future__ import annotations

import numpy as np
import pytest
from pyriemann.estimation import Covariances

from spdtokens.signal import SignalError
from spdtokens.signal.covariance import (
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


def test_unknown_estimator() -> None:
    with pytest.raises(SignalError, match=r"no covariance estimator 'magic'.*'oas'"):
        estimate(X, "magic")
