"""The rows of the paper's table of embedding properties."""

from __future__ import annotations

import math

import numpy as np
import torch
from pyriemann.geometry.distance import distance_euclid, distance_logeuclid, distance_wasserstein
from torch import Tensor

from spdtokens.geometry import LOG, SQRT, distance_bures_wasserstein, get_embedding, spectral
from spdtokens.geometry.matrix_functions import eigh
from spdtokens.paper.theory.claim import Claim, Finding, judge
from spdtokens.paper.theory.gradients import IDENTITY, entry_ratio
from spdtokens.paper.theory.sampling import commuting_pairs, random_spd

PAPER_EMBEDDINGS = {
    "bures_wasserstein": distance_wasserstein,
    "log_euclidean": distance_logeuclid,
    "euclidean": distance_euclid,
}


def _token_gap(name: str, A: Tensor, B: Tensor, *, isometric: bool = False) -> Tensor:
    to_token = get_embedding(name, isometric=isometric).to_token
    return (to_token(A) - to_token(B)).norm(dim=-1)


def _injective(rng: torch.Generator) -> Finding:
    errors = {}
    for name in PAPER_EMBEDDINGS:
        embedding = get_embedding(name)
        C = random_spd(200, 8, 1e4, rng)
        back = embedding.from_token(embedding.to_token(C))
        errors[name] = float((torch.linalg.matrix_norm(back - C)).max())
    return Finding(
        judge(max(errors.values()) < 1e-11),
        "round-trip errors: " + ", ".join(f"{name} {e:.0e}" for name, e in errors.items()),
        {"round_trip_error": errors},
    )


def _bilipschitz(rng: torch.Generator) -> Finding:
    own: dict[str, tuple[float, float]] = {}
    spread: dict[str, dict[float, float]] = {name: {} for name in PAPER_EMBEDDINGS}
    for name, distance in PAPER_EMBEDDINGS.items():
        for kappa in (10.0, 1e4):
            A, B = commuting_pairs(2000, 8, kappa, rng)
            gap = _token_gap(name, A, B)
            to_bures = gap / distance_bures_wasserstein(A, B)
            spread[name][kappa] = float(to_bures.max() / to_bures.min())
        to_own = gap.numpy() / distance(A.numpy(), B.numpy())
        own[name] = float(to_own.min()), float(to_own.max())
    within = {n: low > math.sqrt(0.5) - 1e-6 and high < 1 + 1e-6 for n, (low, high) in own.items()}
    as_printed = within["bures_wasserstein"] and within["log_euclidean"] and not within["euclidean"]
    others_grow = all(
        spread[name][1e4] > 2 * math.sqrt(2) for name in ("log_euclidean", "euclidean")
    )
    instead = all(within.values()) and others_grow
    shown = (
        ", ".join(f"{name} [{low:.3f}, {high:.3f}]" for name, (low, high) in own.items())
        + "; spread of token over Bures-Wasserstein distance at kappa 10 and 1e4: "
        + ", ".join(f"{name} {s[10.0]:.2g} and {s[1e4]:.2g}" for name, s in spread.items())
    )
    return Finding(
        judge(as_printed, instead),
        f"token distance over the embedding's own distance, commuting pairs: {shown}",
        {"own": own, "spread_to_bures_wasserstein": spread},
        counterexample="Euclidean tokens of any commuting pair: within [1/sqrt 2, 1] of the "
        "Frobenius distance",
        instead="to its own distance each of the three is bi-Lipschitz with [1/sqrt 2, 1]; to the "
        "Bures-Wasserstein distance only BWSPD is, uniformly in kappa",
    )


def _k_condition(_: torch.Generator) -> Finding:
    printed = {"sqrt": (SQRT, 0.5), "log": (LOG, 1.0), "identity": (IDENTITY, 0.0)}
    found = {
        name: {kappa: entry_ratio(f, kappa) for kappa in (10.0, 1e2, 1e4)}
        for name, (f, _) in printed.items()
    }
    right = all(
        abs(ratio / kappa ** printed[name][1] - 1) < 1e-9
        for name, by_kappa in found.items()
        for kappa, ratio in by_kappa.items()
    )
    at = {name: by_kappa[1e4] for name, by_kappa in found.items()}
    return Finding(
        judge(right),
        f"entry ratios at kappa 1e4: sqrt {at['sqrt']:.4g}, log {at['log']:.4g}, identity "
        f"{at['identity']:.4g} (ratios of entries, see conditioning-name)",
        {"entry_ratio": {n: {f"{k:g}": r for k, r in v.items()} for n, v in found.items()}},
    )


def _gradient_order(rng: torch.Generator) -> Finding:
    smallest = [1e-1, 1e-2, 1e-3, 1e-4]
    exponents = {}
    for name, f in (("sqrt", SQRT), ("log", LOG), ("identity", IDENTITY)):
        norms = []
        for low in smallest:
            C = random_spd(20, 8, 1 / low, rng).requires_grad_()
            v = eigh(C.detach())[1][:, :, :1]
            (grad,) = torch.autograd.grad(spectral(C, f), C, v @ v.mT)
            norms.append(float(torch.linalg.matrix_norm(grad).max()))
        exponents[name] = float(np.polyfit(np.log(smallest), np.log(norms), 1)[0])
    printed = {"sqrt": -0.5, "log": -1.0, "identity": 0.0}
    return Finding(
        judge(all(abs(exponents[n] - p) < 1e-3 for n, p in printed.items())),
        "largest gradient grows as lambda_min to the power "
        + ", ".join(f"{e:.3f} ({n})" for n, e in exponents.items()),
        {"exponent": exponents},
    )


def _manifold_distance(rng: torch.Generator) -> Finding:
    A, B = random_spd(500, 8, 1e3, rng), random_spd(500, 8, 1e3, rng)
    error = {}
    for name, distance in PAPER_EMBEDDINGS.items():
        gap = _token_gap(name, A, B, isometric=True).numpy()
        error[name] = float(np.abs(gap / distance(A.numpy(), B.numpy()) - 1).max())
    exact = {name: e < 1e-6 for name, e in error.items()}
    as_printed = exact["bures_wasserstein"] and exact["log_euclidean"] and not exact["euclidean"]
    instead = exact["log_euclidean"] and exact["euclidean"]
    return Finding(
        judge(as_printed, instead and error["bures_wasserstein"] < math.sqrt(2) - 1 + 1e-9),
        "isometric token distance against pyRiemann's distance, largest relative difference: "
        + ", ".join(f"{name} {e:.1g}" for name, e in error.items()),
        {"max_relative_difference": error},
        counterexample="A = [[2, 1], [1, 1]], B = [[1, 1], [1, 2]]: BWSPD tokens lie 8 % farther "
        "apart than the matrices",
        instead="Log-Euclidean and Euclidean tokens carry the log-Euclidean and the Frobenius "
        "distance exactly when off-diagonals are scaled by sqrt 2; BWSPD tokens carry theirs "
        "within a factor of sqrt 2",
    )


CLAIMS = [
    Claim(
        "table-injective",
        "tab:theory_comparison (Injective)",
        "All three embeddings are injective.",
        "round trip through the token",
        _injective,
    ),
    Claim(
        "table-bilipschitz",
        "tab:theory_comparison (Bi-Lipschitz, commuting)",
        "For commuting matrices BWSPD and Log-Euclidean tokens are bi-Lipschitz, Euclidean ones "
        "are not.",
        "token distance over each embedding's own distance, and over Bures-Wasserstein",
        _bilipschitz,
    ),
    Claim(
        "table-k-condition",
        "tab:theory_comparison (K-matrix condition)",
        "K spreads over sqrt(kappa) for BWSPD, kappa for Log-Euclidean, 1 for Euclidean.",
        "K of log-spaced spectra",
        _k_condition,
    ),
    Claim(
        "table-gradient-bound",
        "tab:theory_comparison (Gradient bound)",
        "Gradients are O(lambda_min^-1/2), O(lambda_min^-1) and O(1).",
        "steepest gradients for lambda_min from 1e-1 to 1e-4",
        _gradient_order,
    ),
    Claim(
        "table-distance",
        "tab:theory_comparison (Manifold distance)",
        "BWSPD tokens carry the Bures-Wasserstein distance, Log-Euclidean tokens the log-Euclidean "
        "one, Euclidean tokens none.",
        "isometric token distances against pyRiemann",
        _manifold_distance,
    ),
]
