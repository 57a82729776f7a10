from __future__ import annotations

import numpy as np
import pytest
import torch
from pyriemann.geometry.tangentspace import upper
from torch.autograd import gradcheck, gradgradcheck

from spdtokens.geometry import matrix_dim, token_dim, unvech, vech
from tests.matrices import F64, generator


def symmetric(*shape: int) -> torch.Tensor:
    M = torch.randn(*shape, shape[-1], generator=generator(), dtype=F64)
    return M + M.mT


def test_order_and_weights_agree_with_pyriemann() -> None:
    M = symmetric(3, 5)
    np.testing.assert_allclose(vech(M, isometric=True).numpy(), upper(M.numpy()), rtol=1e-14)
    np.testing.assert_array_equal(vech(M).numpy(), M.numpy()[:, *np.triu_indices(5)])


@pytest.mark.parametrize("isometric", [False, True])
def test_unvech_inverts(isometric: bool) -> None:
    M = symmetric(2, 3, 4)
    torch.testing.assert_close(unvech(vech(M, isometric=isometric), isometric=isometric), M)


@pytest.mark.parametrize("isometric", [False, True])
def test_gradients(isometric: bool) -> None:
    M = symmetric(2, 4).requires_grad_()
    of_symmetric = lambda x: vech(0.5 * (x + x.mT), isometric=isometric)  # noqa: E731
    assert gradcheck(of_symmetric, M, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(of_symmetric, M)
    token = torch.randn(2, 10, generator=generator(), dtype=F64, requires_grad=True)
    inverse = lambda t: unvech(t, isometric=isometric)  # noqa: E731
    assert gradcheck(inverse, token, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(inverse, token)


def test_dimensions() -> None:
    assert [token_dim(d) for d in (1, 8, 22, 56)] == [1, 36, 253, 1596]
    assert [matrix_dim(n) for n in (1, 36, 253, 1596)] == [1, 8, 22, 56]


@pytest.mark.parametrize("n", [0, 2, 252])
def test_not_triangular(n: int) -> None:
    with pytest.raises(ValueError, match=f"{n} features"):
        matrix_dim(n)
