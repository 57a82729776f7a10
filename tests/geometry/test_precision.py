"""float32 gradients against float64, at every scale, beside the field's libraries."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import mpmath
import pytest
import torch
from pyriemann.geometry import base as pyriemann
from spd_learn import functional as spd_learn
from torch import Tensor

from spdtokens.geometry import LOG, SQRT, logm, sqrtm
from tests.matrices import F64, generator, random_spd, relative_error, with_spectrum

SCALES = (1e-12, 1e-6, 1.0, 1e6, 1e12)
KAPPAS = (1.0, 10.0, 1e2, 1e4)
LIMIT = 1e-4

WAYS: dict[str, dict[str, Callable[[Tensor], Tensor]]] = {
    "log": {
        "spdtokens": logm,
        "spd_learn": spd_learn.matrix_log.apply,
        "pyRiemann": pyriemann.logm,
    },
    "sqrt": {
        "spdtokens": sqrtm,
        "spd_learn": spd_learn.matrix_sqrt.apply,
        "pyRiemann": pyriemann.sqrtm,
    },
}


def gradient(f: Callable[[Tensor], Tensor], C: Tensor, G: Tensor) -> Tensor:
    x = C.clone().requires_grad_()
    (grad,) = torch.autograd.grad(f(x), x, G)
    return grad


def oracle(name: str, C: Tensor, G: Tensor) -> Tensor:
    """Daleckii-Krein in float64 with eigenvectors of the very matrix, written out."""
    eigenvalues, V = torch.linalg.eigh(C.double())
    a, b = eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2)
    if name == "sqrt":
        K = 1 / (a.sqrt() + b.sqrt())
    else:
        z = (a - b) / (a + b)
        K = torch.where(z.abs() < 1e-8, 2 / (a + b), 2 * torch.atanh(z) / (a - b))
    G = G.double()
    H = V.mT @ (0.5 * (G + G.mT)) @ V
    return V @ (K * H) @ V.mT


def worst_errors(name: str, cases: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    worst = dict.fromkeys(WAYS[name], 0.0)
    for C, G in cases:
        expected = oracle(name, C, G)
        for way, f in WAYS[name].items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the others' warnings are their own
                error = relative_error(gradient(f, C, G), expected)
            worst[way] = max(worst[way], error if error == error else float("inf"))
    return worst


def spread_cases(kappa: float, scale: float) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for d in (8, 22, 56):
        C = random_spd(10, d, kappa=kappa, scale=scale, seed=d).float()
        cases.append((C, torch.randn(10, d, d, generator=generator(d))))
    return cases


@pytest.mark.parametrize("name", WAYS)
def test_float32_gradient(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for kappa in KAPPAS:
        for scale in SCALES:
            rows.append(
                (f"kappa {kappa:.0e}", scale, worst_errors(name, spread_cases(kappa, scale)))
            )
    repeated = with_spectrum([1.0] * 4 + [2.0] * 4)
    for scale in SCALES:
        case = [((scale * repeated).float(), torch.randn(8, 8, generator=generator()))]
        rows.append(("repeated", scale, worst_errors(name, case)))
        case = [(scale * torch.eye(8), torch.randn(8, 8, generator=generator()))]
        rows.append(("identity", scale, worst_errors(name, case)))
    with capsys.disabled():
        print(f"\nfloat32 gradient of the matrix {name}: largest relative error")
        print(f"{'matrices':<14}{'scale':>8}" + "".join(f"{way:>14}" for way in WAYS[name]))
        for label, scale, errors in rows:
            print(f"{label:<14}{scale:>8.0e}" + "".join(f"{e:>14.1e}" for e in errors.values()))
    for label, scale, errors in rows:
        assert errors["spdtokens"] < LIMIT, (label, scale)
        assert errors["spdtokens"] <= min(errors.values()) + 1e-5, (label, scale)


@pytest.mark.parametrize("name", WAYS)
def test_float32_value(name: str) -> None:
    for kappa in KAPPAS:
        for scale in SCALES:
            for C, _ in spread_cases(kappa, scale):
                eigenvalues, V = torch.linalg.eigh(C.double())
                value = {"log": torch.log, "sqrt": torch.sqrt}[name](eigenvalues)
                expected = (V * value.unsqueeze(-2)) @ V.mT
                found = WAYS[name]["spdtokens"](C).double()
                # log C is zero for the identity: measure it against one natural unit then.
                size = expected.flatten(-2).norm(dim=-1)
                size = size.clamp(min=1.0) if name == "log" else size
                error = (found - expected).flatten(-2).norm(dim=-1) / size
                assert float(error.max()) < 1e-5


@pytest.mark.parametrize("f", [LOG, SQRT], ids=lambda f: f.name)
def test_float64_gradient_against_mpmath(f) -> None:
    """Clustered spectrum, gap 1e-10: where thresholds and quotients fail."""
    eigenvalues = [1.0, 1.0 + 1e-10, 1.0 + 1e-5, 3.0, 1e4]
    scalar = {
        "log": (mpmath.log, lambda x: 1 / x),
        "sqrt": (mpmath.sqrt, lambda x: 1 / (2 * mpmath.sqrt(x))),
    }
    value, slope = scalar[f.name]
    with mpmath.workdps(50):
        lam = [mpmath.mpf(x) for x in eigenvalues]
        K = torch.tensor(
            [
                [float(slope(a) if a == b else (value(a) - value(b)) / (a - b)) for b in lam]
                for a in lam
            ],
            dtype=F64,
        )
    # Diagonal matrices have exact eigenvectors, so that only the divided differences are tested.
    C = torch.diag(torch.tensor(eigenvalues, dtype=F64))
    G = torch.randn(5, 5, generator=generator(), dtype=F64)
    found = gradient({"log": logm, "sqrt": sqrtm}[f.name], C, G)
    torch.testing.assert_close(found, K * 0.5 * (G + G.T), rtol=1e-13, atol=0)
