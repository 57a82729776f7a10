from __future__ import annotations

import pytest
import torch
from pyriemann.geometry.distance import distance_wasserstein

from spdtokens.classifiers.nn import geometric_bias


def matrices(n: int, tokens: int, d: int) -> torch.Tensor:
    X = torch.randn(
        n, tokens, d, 3 * d, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    return X @ X.mT


@pytest.mark.parametrize("d", [2, 8, 22])
def test_bias_against_pyriemann(d: int) -> None:
    C = matrices(5, 3, d)
    bias = geometric_bias(C, alpha=0.7)
    for trial in range(5):
        size = C[trial].diagonal(dim1=-2, dim2=-1).sum(-1).mean().sqrt().item()
        for i, j in [(0, 1), (0, 2), (1, 2)]:
            distance = distance_wasserstein(C[trial, i].numpy(), C[trial, j].numpy())
            assert bias[trial, i, j].item() == pytest.approx(-0.7 * distance / size, rel=1e-5)
            assert bias[trial, i, j] == bias[trial, j, i]
    assert torch.equal(bias.diagonal(dim1=1, dim2=2), torch.zeros(5, 3))


def test_bias_does_not_depend_on_the_unit() -> None:
    C = matrices(4, 3, 6)
    torch.testing.assert_close(geometric_bias(C), geometric_bias(1e-12 * C))


def test_one_token_has_no_bias() -> None:
    assert torch.equal(geometric_bias(matrices(4, 1, 6)), torch.zeros(4, 1, 1))
