"""Every message names the culprit and the remedy."""

from __future__ import annotations

import pytest
import torch

from spdtokens.errors import NotSPDError
from spdtokens.geometry import check_spd
from tests.matrices import F64, generator, random_spd, with_spectrum


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_good_matrices_pass_at_any_scale(scale: float, dtype: torch.dtype) -> None:
    check_spd(random_spd(2, 3, 5, kappa=1e4, scale=scale).to(dtype))
    check_spd(random_spd(5, scale=scale).to(dtype))


def spoiled(index: tuple[int, ...], matrix: torch.Tensor) -> torch.Tensor:
    C = random_spd(4, 3)
    C[index] = matrix
    return C


SINGULAR = with_spectrum([0.0, 1.0, 2.0])
LOPSIDED = random_spd(3) + torch.tensor([[0, 0.1, 0], [0, 0, 0], [0, 0, 0]], dtype=F64)
NAN = random_spd(3).index_fill(0, torch.tensor([1]), float("nan"))

CASES = {
    "vector": (torch.ones(5), r"got shape \(5,\)"),
    "not square": (torch.ones(2, 5, 3), r"square.*\(2, 5, 3\)"),
    "raw trials": (torch.ones(10, 3, 250), r"raw trials.*covariances first"),
    "integers": (torch.eye(3, dtype=torch.int64), r"floating point.*int64"),
    "empty": (torch.ones(0, 3, 3), r"no matrices.*\(0, 3, 3\)"),
    "nan": (spoiled((2,), NAN), r"matrix \[2\] \(of 4\).*row 1, column 0"),
    "not symmetric": (spoiled((1,), LOPSIDED), r"Not symmetric: matrix \[1\]"),
    "negative": (
        spoiled((3,), with_spectrum([-0.25, 1.0, 2.0])),
        r"matrix \[3\].*-0\.25 to 2",
    ),
    "singular": (
        spoiled((0,), SINGULAR),
        r"matrix \[0\].*singular",
    ),
    "zero": (spoiled((1,), torch.zeros(3, 3, dtype=F64)), r"matrix \[1\].*no positive eigenvalue"),
    "one matrix": (SINGULAR, r"the matrix is singular"),
    "several": (
        torch.stack([SINGULAR, random_spd(3), SINGULAR]),
        r"matrix \[0\] \(and 1 more of 3\)",
    ),
    "grid": (
        torch.stack([random_spd(2, 3), torch.stack([random_spd(3), SINGULAR])]),
        r"matrix \[1, 1\]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case: str) -> None:
    C, message = CASES[case]
    with pytest.raises(NotSPDError, match=message):
        check_spd(C)


def test_fewer_samples_than_channels() -> None:
    X = torch.randn(2, 8, 5, generator=generator(), dtype=F64)
    with pytest.raises(NotSPDError, match="more samples than channels"):
        check_spd(X @ X.mT)
