"""Claims on backpropagation through matrix functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from spdtokens.geometry import LOG, SQRT, SpectralFunction, logm, spectral, sqrtm
from spdtokens.geometry.matrix_functions import eigh
from spdtokens.paper.theory.claim import Claim, Finding, judge
from spdtokens.paper.theory.sampling import F64, random_rotation, random_spd, spectrum

KAPPAS = (1.0, 10.0, 1e2, 1e3, 1e4, 1e6)
IDENTITY = SpectralFunction("identity", lambda a: a, lambda a, b: torch.ones_like(a + b))


def daleckii_krein(f: SpectralFunction, eigenvalues: Tensor) -> Tensor:
    """The matrix ``K`` of divided differences, shape (..., d, d)."""
    return f.divided_difference(eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2))


def entry_ratio(f: SpectralFunction, kappa: float, d: int = 22) -> float:
    """Largest over smallest entry of ``K`` for eigenvalues spread over a ratio of kappa."""
    K = daleckii_krein(f, torch.logspace(-math.log10(kappa), 0, d, dtype=F64))
    return (K.max() / K.min()).item()


def _conditioning(f: SpectralFunction, exponent: float) -> Finding:
    measured = {kappa: entry_ratio(f, kappa) for kappa in KAPPAS}
    error = max(abs(ratio / kappa**exponent - 1) for kappa, ratio in measured.items())
    shown = ", ".join(f"{ratio:.4g} at {kappa:.0e}" for kappa, ratio in measured.items())
    return Finding(
        judge(error < 1e-9),
        f"largest over smallest entry of K: {shown}; off by {error:.0e}",
        {"entry_ratio": {f"{k:g}": r for k, r in measured.items()}, "relative_error": error},
    )


def _condition_number(rng: torch.Generator) -> Finding:
    eigenvalues = spectrum(1, 22, 100.0, rng).sort().values
    rows = {
        f.name: (float(torch.linalg.cond(K)), float(K.max() / K.min()))
        for f in (SQRT, LOG)
        for K in daleckii_krein(f, eigenvalues)
    }
    same = all(abs(cond / ratio - 1) < 0.1 for cond, ratio in rows.values())
    # What it does mean: the Hadamard product with K stretches gradients by factors between the
    # least and the largest entry, so the entry ratio is the condition number of that linear map.
    V = random_rotation(1, 22, rng)[0]
    basis = torch.eye(22 * 22, dtype=F64).reshape(-1, 22, 22)
    as_map = {
        f.name: float(
            torch.linalg.cond(
                (V @ (daleckii_krein(f, eigenvalues[0]) * (V.T @ basis @ V)) @ V.T).reshape(
                    484, 484
                )
            )
        )
        for f in (SQRT, LOG)
    }
    true_map = all(abs(as_map[name] / ratio - 1) < 1e-6 for name, (_, ratio) in rows.items())
    shown = "; ".join(
        f"{name}: cond(K) {cond:.1e}, entry ratio {ratio:.0f}, cond of the backward map "
        f"{as_map[name]:.0f}"
        for name, (cond, ratio) in rows.items()
    )
    return Finding(
        judge(same, true_map),
        f"at kappa 100, d 22: {shown}",
        {"condition_number": {k: c for k, (c, _) in rows.items()}, "backward_map": as_map},
        counterexample="eigenvalues 1 and 4: K of the square root is [[1/2, 1/3], [1/3, 1/4]], "
        "condition number 38.5, not sqrt(4) = 2",
        instead="sqrt(kappa) and kappa are the ratios of the largest to the smallest entry of K, "
        "which is the condition number of the backward map G -> V (K * V'GV) V'",
    )


def _entry_bounds(rng: torch.Generator) -> Finding:
    worst = 0.0
    for kappa in KAPPAS:
        lam = spectrum(500, 22, kappa, rng)
        low, high = lam.amin(-1)[:, None, None], lam.amax(-1)[:, None, None]
        for f, least, most in (
            (SQRT, 0.5 / high.sqrt(), 0.5 / low.sqrt()),
            (LOG, 1 / high, 1 / low),
        ):
            K = daleckii_krein(f, lam)
            worst = max(worst, float((least / K).max()), float((K / most).max()))
    return Finding(
        judge(worst <= 1 + 1e-12),
        f"entries reach {worst:.12f} of the printed bounds at most",
        {"max_over_bound": worst},
    )


def _gradient_bound(
    f: SpectralFunction, bound: str, exponent: float, factor: float, rng: torch.Generator
) -> Finding:
    worst, reached = 0.0, 0.0
    for kappa in KAPPAS[1:]:
        C = random_spd(100, 8, kappa, rng)
        G = torch.randn(100, 8, 8, generator=rng, dtype=F64)
        eigenvalues, V = eigh(C)
        steepest = V[:, :, :1] @ V[:, :, :1].mT  # along the smallest eigenvector
        limit = factor * eigenvalues[:, 0] ** -exponent
        for direction in (G + G.mT, steepest):
            unit = direction / torch.linalg.matrix_norm(direction)[:, None, None]
            ratio = float((_gradient_norm(f, C, unit) / limit).max())
            worst = max(worst, ratio)
        reached = max(reached, ratio)
    return Finding(
        judge(worst <= 1 + 1e-6),
        f"gradient norm at most {worst:.6f} of {bound}; reached ({reached:.6f}) by an upstream "
        "gradient along the smallest eigenvector",
        {"max_over_bound": worst, "reached": reached},
    )


def _gradient_norm(f: SpectralFunction, C: Tensor, G: Tensor) -> Tensor:
    x = C.clone().requires_grad_()
    (grad,) = torch.autograd.grad(spectral(x, f), x, G)
    return torch.linalg.matrix_norm(grad)


def _gradient_ratio(rng: torch.Generator) -> Finding:
    kappa = 100.0
    rows = {}
    for scale in (1e-2, 1.0, 1e4):
        C = scale * kappa * random_spd(1, 8, kappa, rng)  # smallest eigenvalue = scale
        v = eigh(C)[1][:, :, :1]
        rows[scale] = (_gradient_norm(LOG, C, v @ v.mT) / _gradient_norm(SQRT, C, v @ v.mT)).item()
    printed = 0.5 * math.sqrt(kappa)
    as_printed = all(abs(r / printed - 1) < 0.01 for r in rows.values())
    instead = all(abs(r / (2 / math.sqrt(s)) - 1) < 1e-6 for s, r in rows.items())
    shown = ", ".join(f"{r:.3g} at lambda_min {s:g}" for s, r in rows.items())
    return Finding(
        judge(as_printed, instead),
        f"kappa 100 throughout, printed {printed:g}; measured {shown}",
        {"ratio_by_smallest_eigenvalue": {f"{s:g}": r for s, r in rows.items()}},
        counterexample="1 x 1 matrix [10000], kappa 1: the log gradient is 0.0001, the sqrt "
        "gradient 0.005, ratio 0.02 where 0.5 is printed",
        instead="the ratio of the two bounds is 2 / sqrt(lambda_min): it depends on the unit of "
        "the signal, not on kappa; for lambda_min above 4 the log gradient is the smaller one",
    )


def _backward_formula(rng: torch.Generator) -> Finding:
    errors = {"printed": 0.0, "corrected": 0.0}
    for matrix_function, f in ((sqrtm, SQRT), (logm, LOG)):
        C = random_spd(20, 6, 50.0, rng)
        G = torch.randn(20, 6, 6, generator=rng, dtype=F64)
        G = G + G.mT
        eigenvalues, V = eigh(C)
        K, H = daleckii_krein(f, eigenvalues), V.mT @ G @ V
        doubled = torch.diag_embed((K * H).diagonal(dim1=-2, dim2=-1))
        oracle = _central_difference(matrix_function, C, G)
        size = torch.linalg.matrix_norm(oracle)
        for name, inner in (("printed", K * H + doubled), ("corrected", K * H)):
            error = torch.linalg.matrix_norm(V @ inner @ V.mT - oracle) / size
            errors[name] = max(errors[name], float(error.max()))
    return Finding(
        judge(errors["printed"] < 1e-6, errors["corrected"] < 1e-6),
        f"against central differences: printed formula off by {errors['printed']:.0%}, without "
        f"the added diagonal by {errors['corrected']:.0e}",
        {"relative_error": errors},
        counterexample="1 x 1 matrix [1], f = log: the derivative is 1, the formula gives 2",
        instead="V (K * V'GV) V' alone: K already holds f' on its diagonal",
    )


def _central_difference(
    matrix_function: Callable[[Tensor], Tensor], C: Tensor, G: Tensor
) -> Tensor:
    """Directional derivative, which equals the gradient: the map is self-adjoint."""
    h = 1e-6
    return (matrix_function(C + h * G) - matrix_function(C - h * G)) / (2 * h)


CLAIMS = [
    Claim(
        "conditioning-sqrt",
        "thm:grad_main, thm:K_conditioning (i)",
        "The entries of K for the square root spread over a ratio of sqrt(kappa).",
        "K of log-spaced spectra, kappa from 1 to 1e6",
        lambda _: _conditioning(SQRT, 0.5),
    ),
    Claim(
        "conditioning-log",
        "thm:grad_main, thm:K_conditioning (ii)",
        "The entries of K for the logarithm spread over a ratio of kappa.",
        "the same",
        lambda _: _conditioning(LOG, 1.0),
    ),
    Claim(
        "conditioning-identity",
        "thm:K_conditioning (iii)",
        "All entries of K for the identity are 1.",
        "the same",
        lambda _: _conditioning(IDENTITY, 0.0),
    ),
    Claim(
        "conditioning-name",
        "thm:grad_main, thm:K_conditioning",
        "sqrt(kappa) and kappa are the condition numbers of the matrices K.",
        "singular values of K, and of the backward map as a 484 x 484 matrix",
        _condition_number,
    ),
    Claim(
        "k-entry-bounds",
        "thm:K_conditioning (i), (ii)",
        "Entries of K lie in [1 / (2 sqrt l_max), 1 / (2 sqrt l_min)] for the square root and in "
        "[1 / l_max, 1 / l_min] for the logarithm.",
        "random spectra",
        _entry_bounds,
    ),
    Claim(
        "gradient-bound-sqrt",
        "cor:gradient_bounds (i)",
        "A unit upstream gradient becomes at most 1 / (2 sqrt lambda_min) through the square root.",
        "autograd with random and steepest upstream gradients",
        lambda rng: _gradient_bound(SQRT, "1 / (2 sqrt lambda_min)", 0.5, 0.5, rng),
    ),
    Claim(
        "gradient-bound-log",
        "cor:gradient_bounds (ii)",
        "A unit upstream gradient becomes at most 1 / lambda_min through the logarithm.",
        "the same",
        lambda rng: _gradient_bound(LOG, "1 / lambda_min", 1.0, 1.0, rng),
    ),
    Claim(
        "gradient-ratio",
        "cor:gradient_bounds (last sentence)",
        "The gradient through the logarithm can be sqrt(kappa) / 2 times that through the square "
        "root.",
        "steepest gradients at one kappa and three units of the signal",
        _gradient_ratio,
    ),
    Claim(
        "backward-formula",
        "prop:backward",
        "The gradient is V [K * (V'GV) + diag(f'(l_i) (V'GV)_ii)] V' with K_ii = f'(l_i).",
        "against central differences of the matrix function",
        _backward_formula,
    ),
]
