"""Claims on backpropagation through matrix functions."""
# ruff: noqa: D205  (the first paragraph of a docstring is the claim)

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from spdtokens.geometry import LOG, SQRT, SpectralFunction, logm, spectral, sqrtm
from spdtokens.geometry.matrix_functions import eigh
from spdtokens.paper.findings import Outcome
from spdtokens.paper.theory.claim import (
    BLUE,
    F64,
    GREEN,
    GREY,
    ORANGE,
    claim,
    judge,
    random_rotation,
    random_spd,
    spectrum,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KAPPAS = (1.0, 10.0, 1e2, 1e3, 1e4, 1e6)
IDENTITY = SpectralFunction("identity", lambda a: a, lambda a, b: torch.ones_like(a + b))


def daleckii_krein(f: SpectralFunction, eigenvalues: Tensor) -> Tensor:
    """Return the matrix ``K`` of divided differences, shape (..., d, d)."""
    return f.divided_difference(eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2))


def entry_ratio(f: SpectralFunction, kappa: float, d: int = 22) -> float:
    """Return the ratio of the largest to the smallest entry of ``K`` for log-spaced eigenvalues."""
    K = daleckii_krein(f, torch.logspace(-math.log10(kappa), 0, d, dtype=F64))
    return (K.max() / K.min()).item()


def entry_ratios(f: SpectralFunction, exponent: float) -> Outcome:
    """Test whether the entry ratio of ``K`` is kappa to a power."""
    measured = {kappa: entry_ratio(f, kappa) for kappa in KAPPAS}
    error = max(abs(ratio / kappa**exponent - 1) for kappa, ratio in measured.items())
    shown = ", ".join(f"{ratio:.4g} at {kappa:.0e}" for kappa, ratio in measured.items())
    numbers = {"entry_ratio": {f"{k:g}": r for k, r in measured.items()}, "relative_error": error}
    return Outcome(judge(error < 1e-9), numbers, shown=shown)


@claim("thm:grad_main, thm:K_conditioning (i)")
def conditioning_sqrt(_: torch.Generator) -> Outcome:
    """The entries of K for the square root spread over a ratio of sqrt(kappa).

    Tested on: K of log-spaced spectra, kappa from 1 to 1e6

    Found: largest over smallest entry of K: {shown}; off by {relative_error:.0e}
    """
    return entry_ratios(SQRT, 0.5)


@claim("thm:grad_main, thm:K_conditioning (ii)")
def conditioning_log(_: torch.Generator) -> Outcome:
    """The entries of K for the logarithm spread over a ratio of kappa.

    Tested on: the same

    Found: largest over smallest entry of K: {shown}; off by {relative_error:.0e}
    """
    return entry_ratios(LOG, 1.0)


@claim("thm:K_conditioning (iii)")
def conditioning_identity(_: torch.Generator) -> Outcome:
    """All entries of K for the identity are 1.

    Tested on: the same

    Found: largest over smallest entry of K: {shown}; off by {relative_error:.0e}
    """
    return entry_ratios(IDENTITY, 0.0)


@claim("thm:grad_main, thm:K_conditioning")
def conditioning_name(rng: torch.Generator) -> Outcome:
    """sqrt(kappa) and kappa are the condition numbers of the matrices K.

    Tested on: singular values of K, and of the backward map as a 484 x 484 matrix

    Found: at kappa 100, d 22: sqrt: cond(K) {condition_number[sqrt]:.1e}, entry ratio
    {ratio[sqrt]:.0f}, cond of the backward map {backward_map[sqrt]:.0f}; log: cond(K)
    {condition_number[log]:.1e}, entry ratio {ratio[log]:.0f}, cond of the backward map
    {backward_map[log]:.0f}

    Counter-example: eigenvalues 1 and 4: K of the square root is [[1/2, 1/3], [1/3, 1/4]],
    condition number 38.5, not sqrt(4) = 2

    Instead: sqrt(kappa) and kappa are the ratios of the largest to the smallest entry of K,
    which is the condition number of the backward map G -> V (K * V'GV) V'
    """
    eigenvalues = spectrum(1, 22, 100.0, rng).sort().values[0]
    V = random_rotation(1, 22, rng)[0]
    basis = torch.eye(22 * 22, dtype=F64).reshape(-1, 22, 22)
    condition, ratio, as_map = {}, {}, {}
    for f in (SQRT, LOG):
        K = daleckii_krein(f, eigenvalues)
        condition[f.name] = float(torch.linalg.cond(K))
        ratio[f.name] = float(K.max() / K.min())
        # The Hadamard product with K scales gradients by factors between its smallest and its
        # largest entry, so the entry ratio is the condition number of that linear map.
        backward = (V @ (K * (V.T @ basis @ V)) @ V.T).reshape(484, 484)
        as_map[f.name] = float(torch.linalg.cond(backward))
    same = all(abs(condition[name] / ratio[name] - 1) < 0.1 for name in ratio)
    true_map = all(abs(as_map[name] / ratio[name] - 1) < 1e-6 for name in ratio)
    numbers = {"condition_number": condition, "backward_map": as_map}
    return Outcome(judge(same, true_map), numbers, ratio=ratio)


@claim("thm:K_conditioning (i), (ii)")
def k_entry_bounds(rng: torch.Generator) -> Outcome:
    """Entries of K lie in [1 / (2 sqrt l_max), 1 / (2 sqrt l_min)] for the square root and in
    [1 / l_max, 1 / l_min] for the logarithm.

    Tested on: random spectra

    Found: entries reach {max_over_bound:.12f} of the printed bounds at most
    """
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
    return Outcome(judge(worst <= 1 + 1e-12), {"max_over_bound": worst})


def _gradient_bound(
    f: SpectralFunction, exponent: float, factor: float, rng: torch.Generator
) -> Outcome:
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
    return Outcome(judge(worst <= 1 + 1e-6), {"max_over_bound": worst, "reached": reached})


def _gradient_norm(f: SpectralFunction, C: Tensor, G: Tensor) -> Tensor:
    x = C.clone().requires_grad_()
    (grad,) = torch.autograd.grad(spectral(x, f), x, G)
    return torch.linalg.matrix_norm(grad)


@claim("cor:gradient_bounds (i)")
def gradient_bound_sqrt(rng: torch.Generator) -> Outcome:
    """A unit upstream gradient becomes at most 1 / (2 sqrt lambda_min) through the square root.

    Tested on: autograd with random and steepest upstream gradients

    Found: gradient norm at most {max_over_bound:.6f} of the bound; reached ({reached:.6f}) by an
    upstream gradient along the smallest eigenvector
    """
    return _gradient_bound(SQRT, 0.5, 0.5, rng)


@claim("cor:gradient_bounds (ii)")
def gradient_bound_log(rng: torch.Generator) -> Outcome:
    """A unit upstream gradient becomes at most 1 / lambda_min through the logarithm.

    Tested on: the same

    Found: gradient norm at most {max_over_bound:.6f} of the bound; reached ({reached:.6f}) by an
    upstream gradient along the smallest eigenvector
    """
    return _gradient_bound(LOG, 1.0, 1.0, rng)


@claim("cor:gradient_bounds (last sentence)")
def gradient_ratio(rng: torch.Generator) -> Outcome:
    """The gradient through the logarithm can be sqrt(kappa) / 2 times that through the square
    root.

    Tested on: steepest gradients at one kappa and three units of the signal

    Found: kappa 100 throughout, printed {printed:g}; measured {shown}

    Counter-example: 1 x 1 matrix [10000], kappa 1: the log gradient is 0.0001, the sqrt
    gradient 0.005, ratio 0.02 where 0.5 is printed

    Instead: the ratio of the two bounds is 2 / sqrt(lambda_min): it depends on the unit of the
    signal, not on kappa; for lambda_min above 4 the log gradient is smaller
    """
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
    numbers = {"ratio_by_smallest_eigenvalue": {f"{s:g}": r for s, r in rows.items()}}
    return Outcome(judge(as_printed, instead), numbers, printed=printed, shown=shown)


@claim("prop:backward")
def backward_formula(rng: torch.Generator) -> Outcome:
    """The gradient is V [K * (V'GV) + diag(f'(l_i) (V'GV)_ii)] V' with K_ii = f'(l_i).

    Tested on: against central differences of the matrix function

    Found: against central differences: printed formula off by {relative_error[printed]:.0%},
    without the added diagonal by {relative_error[corrected]:.0e}

    Counter-example: 1 x 1 matrix [1], f = log: the derivative is 1, the formula gives 2

    Instead: V (K * V'GV) V' alone: K already has f' on its diagonal
    """
    errors = {"printed": 0.0, "corrected": 0.0}
    for matrix_function, f in ((sqrtm, SQRT), (logm, LOG)):
        C = random_spd(20, 6, 50.0, rng)
        G = torch.randn(20, 6, 6, generator=rng, dtype=F64)
        G = G + G.mT
        eigenvalues, V = eigh(C)
        K, H = daleckii_krein(f, eigenvalues), V.mT @ G @ V
        doubled = torch.diag_embed((K * H).diagonal(dim1=-2, dim2=-1))
        # The directional derivative equals the gradient, since the map is self-adjoint.
        oracle = (matrix_function(C + 1e-6 * G) - matrix_function(C - 1e-6 * G)) / 2e-6
        size = torch.linalg.matrix_norm(oracle)
        for name, inner in (("printed", K * H + doubled), ("corrected", K * H)):
            error = torch.linalg.matrix_norm(V @ inner @ V.mT - oracle) / size
            errors[name] = max(errors[name], float(error.max()))
    verdict = judge(errors["printed"] < 1e-6, errors["corrected"] < 1e-6)
    return Outcome(verdict, {"relative_error": errors})


def conditioning_figure() -> Figure:
    """Plot the ratio of the largest to the smallest entry of K against kappa (Figure 2a)."""
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    kappas = np.logspace(0, 6, 13)
    for f, power, label, colour, marker in (
        (LOG, 1.0, "Log-Euclidean: $\\kappa$", ORANGE, "s"),
        (SQRT, 0.5, "BWSPD: $\\sqrt{\\kappa}$", BLUE, "o"),
        (IDENTITY, 0.0, "Euclidean: 1", GREEN, "^"),
    ):
        axes.loglog(kappas, kappas**power, color=colour, lw=1)
        measured = [entry_ratio(f, kappa) for kappa in kappas]
        axes.loglog(kappas, measured, marker, color=colour, ms=5)
        end = 10 ** (6 * power)
        axes.annotate(
            label, (1e6, end), (0, 9), textcoords="offset points", ha="right", color=colour
        )
    axes.axvspan(10, 100, color=GREY, alpha=0.12, lw=0)
    axes.text(
        31.6, 1.2e5, "EEG, according\nto the paper", ha="center", va="top", color=GREY, fontsize=8
    )
    axes.text(1.2, 2e6, "marks: measured\nlines: claimed\nd = 22", va="top", fontsize=8)
    axes.set_ylim(0.4, 4e6)
    axes.set_xlabel("condition number $\\kappa$ of the covariance matrix")
    axes.set_ylabel("largest / smallest entry of $K$")
    axes.set_title("How unevenly the backward pass scales gradients", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
