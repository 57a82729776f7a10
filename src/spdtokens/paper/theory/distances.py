"""Claims on token distances and distances on the manifold."""
# ruff: noqa: D205  (the first paragraph of a docstring is the claim)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from spdtokens.geometry import distance_bures_wasserstein, get_embedding, sqrtm, vech
from spdtokens.paper.findings import Outcome
from spdtokens.paper.theory.claim import (
    BLUE,
    F64,
    GREEN,
    GREY,
    ORANGE,
    claim,
    commuting_pairs,
    judge,
    mirrored_pair,
    near_pairs,
    random_spd,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSIONS = (2, 3, 8, 22)
KAPPAS = (1.5, 10.0, 1e2, 1e4, 1e8)
ROUNDING = 1e-9


def token_ratio(A: Tensor, B: Tensor, *, isometric: bool = False) -> Tensor:
    """Return the ratio of token distance to Bures-Wasserstein distance, shape (...)."""
    embedding = get_embedding("bures_wasserstein", isometric=isometric)
    gap = (embedding.to_token(A) - embedding.to_token(B)).norm(dim=-1)
    return gap / distance_bures_wasserstein(A, B)


def general_pairs(n: int, rng: torch.Generator) -> list[tuple[float, Tensor, Tensor]]:
    """Draw non-commuting pairs with their kappa: far apart, close together, and mirrored."""
    pairs = []
    for kappa in KAPPAS:
        for d in DIMENSIONS:
            pairs.append((kappa, random_spd(n, d, kappa, rng), random_spd(n, d, kappa, rng)))
            pairs.append((kappa, *near_pairs(n, d, kappa, rng)))
        A = torch.stack([mirrored_pair(1 / kappa, angle)[0] for angle in (1.0, 0.1, 0.01)])
        pairs.append((kappa, A, A.flip(-2, -1)))
    return pairs


def _over_pairs(
    rng: torch.Generator, *measures: Callable[[float, Tensor, Tensor], Tensor]
) -> list[tuple[float, float, int]]:
    """Return minimum, maximum and number of each measure over general pairs."""
    pairs = general_pairs(100, rng)
    return [_extremes([measure(*pair) for pair in pairs]) for measure in measures]


def _plain(_kappa: float, A: Tensor, B: Tensor) -> Tensor:
    return token_ratio(A, B)


def _isometric(_kappa: float, A: Tensor, B: Tensor) -> Tensor:
    return token_ratio(A, B, isometric=True)


def _extremes(ratios: list[Tensor]) -> tuple[float, float, int]:
    joined = torch.cat([r.flatten() for r in ratios])
    return joined.min().item(), joined.max().item(), joined.numel()


@claim("lem:norm_equiv")
def vech_norm(rng: torch.Generator) -> Outcome:
    """The vech norm of a symmetric matrix lies between 1/sqrt 2 and 1 times its Frobenius norm,
    with equality for a zero diagonal and for a diagonal matrix.

    Tested on: random symmetric matrices and the two extreme cases

    Found: ratio in [{min:.4f}, {max:.4f}] over {n} matrices; zero diagonal gives
    {zero_diagonal:.4f}, diagonal gives {diagonal:.4f}
    """
    ratios = []
    for d in DIMENSIONS:
        M = torch.randn(2000, d, d, generator=rng, dtype=F64)
        M = M + M.mT
        ratios.append(vech(M).norm(dim=-1) / torch.linalg.matrix_norm(M))
    low, high, n = _extremes(ratios)
    hollow = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=F64)
    ends = [float(vech(m).norm() / m.norm()) for m in (hollow, torch.eye(2, dtype=F64))]
    tight = abs(ends[0] - math.sqrt(0.5)) < ROUNDING and abs(ends[1] - 1) < ROUNDING
    within = low >= math.sqrt(0.5) - ROUNDING and high <= 1 + ROUNDING
    numbers = {"min": low, "max": high, "n": n, "zero_diagonal": ends[0], "diagonal": ends[1]}
    return Outcome(judge(within and tight), numbers)


@claim("thm:distortion_commuting")
def bilipschitz_commuting(rng: torch.Generator) -> Outcome:
    """For commuting matrices the BWSPD token distance lies between 1/sqrt 2 and 1 times the
    Bures-Wasserstein distance, and both ends are reached.

    Tested on: random pairs with shared eigenvectors, and the paper's example

    Found: ratio in [{min:.4f}, {max:.4f}] over {n} commuting pairs; the lower end
    {paper_example:.4f} is reached by the paper's 2 x 2 example with b = -a
    """
    ratios = [
        token_ratio(*commuting_pairs(500, d, kappa, rng)) for kappa in KAPPAS for d in DIMENSIONS
    ]
    low, high, n = _extremes(ratios)
    a = torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=F64)
    b = torch.tensor([[1.0, -0.5], [-0.5, 1.0]], dtype=F64)
    lowest = token_ratio(a, b).item()
    within = low >= math.sqrt(0.5) - ROUNDING and high <= 1 + ROUNDING
    return Outcome(
        judge(within and abs(lowest - math.sqrt(0.5)) < ROUNDING),
        {"min": low, "max": high, "n": n, "paper_example": lowest},
    )


@claim("thm:bilip_main (upper)")
def bilipschitz_main_upper(rng: torch.Generator) -> Outcome:
    """For all SPD matrices the BWSPD token distance is at most the Bures-Wasserstein distance.

    Tested on: random, close and mirrored non-commuting pairs

    Found: ratio up to {max_plain:.4f} (isometric {max_isometric:.4f}) over {n} pairs, printed bound
    1

    Counter-example: A = [[2, 1], [1, 1]], B = [[1, 1], [1, 2]]: token distance sqrt(2/5), manifold
    distance sqrt(6 - 4 sqrt 2), ratio {small_example:.4f}

    Instead: token distance <= sqrt(2) d_BW for every d and kappa, approached in the limit; the
    bound 1 needs commuting matrices
    """
    (_, plain, n), (_, isometric, _) = _over_pairs(rng, _plain, _isometric)
    A = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=F64)
    small = token_ratio(A, A.flip(0, 1)).item()
    bounded = max(plain, isometric) <= math.sqrt(2) + ROUNDING
    return Outcome(
        judge(plain <= 1 + ROUNDING and small <= 1, bounded),
        {"max_plain": plain, "max_isometric": isometric, "n": n, "small_example": small},
    )


@claim("thm:bilip_main, thm:distortion_general (lower)")
def bilipschitz_main_lower(rng: torch.Generator) -> Outcome:
    """The BWSPD token distance is at least 1/sqrt(2 (kappa + 1)) times the Bures-Wasserstein
    distance.

    Tested on: the same pairs

    Found: smallest ratio is {min_over_bound:.2f} times the printed bound over {n} pairs; for a
    bound without kappa see bilipschitz-general-lower
    """
    ((low, _, n),) = _over_pairs(rng, lambda k, A, B: token_ratio(A, B) * math.sqrt(2 * (k + 1)))
    return Outcome(judge(low >= 1 - ROUNDING), {"min_over_bound": low, "n": n})


@claim("thm:distortion_general (first display, lower)")
def bilipschitz_general_lower(rng: torch.Generator) -> Outcome:
    """The BWSPD token distance is at least 1/sqrt 2 times the Bures-Wasserstein distance,
    for every kappa.

    Tested on: the same pairs, plain and isometric tokens

    Found: ratio at least {min_plain:.4f} over {n} pairs (isometric: {min_isometric:.4f}, bound 1),
    for condition numbers up to {largest_kappa:.0e}
    """
    (plain, _, n), (isometric, _, _) = _over_pairs(rng, _plain, _isometric)
    return Outcome(
        judge(plain >= math.sqrt(0.5) - ROUNDING and isometric >= 1 - ROUNDING),
        {"min_plain": plain, "min_isometric": isometric, "n": n},
        largest_kappa=max(KAPPAS),
    )


@claim("thm:distortion_general (first display, upper)")
def bilipschitz_general_upper(rng: torch.Generator) -> Outcome:
    """The BWSPD token distance is at most sqrt(kappa / 2) |A - B|_F^(1/2) lambda_min^(-1/4).

    Tested on: the same pairs at two units of the signal

    Found: token distance up to {max_over_bound:.3g} times the bound over {n} pairs; the two sides
    scale differently with the unit (s^1/2 and s^1/4)

    Counter-example: 1 x 1 matrices A = [196], B = [49]: token distance 7, bound 6.48

    Instead: token distance <= |A - B|_F / (2 sqrt(lambda_min)), the step in the paper's own proof
    (largest ratio found {max_over_repaired_bound:.4f}), and <= sqrt(2) d_BW
    """
    excess, repaired = [], []
    for kappa, A, B in general_pairs(100, rng):
        for scale in (1.0, 1e4):  # unit variance, and a variance of (100 microvolts)^2
            gap = torch.linalg.matrix_norm(scale * (A - B))
            roots = torch.linalg.matrix_norm(sqrtm(scale * A) - sqrtm(scale * B))
            token = vech(sqrtm(scale * A) - sqrtm(scale * B)).norm(dim=-1)
            smallest = scale / kappa
            excess.append(token / (math.sqrt(kappa / 2) * gap.sqrt() * smallest**-0.25))
            repaired.append(roots / (gap / (2 * math.sqrt(smallest))))
    _, printed, n = _extremes(excess)
    _, ours, _ = _extremes(repaired)
    left, right = 7.0, math.sqrt(4 / 2) * math.sqrt(196 - 49) * 49**-0.25
    return Outcome(
        judge(printed <= 1 + ROUNDING and left <= right, ours <= 1 + 1e-6),
        {"max_over_bound": printed, "max_over_repaired_bound": ours, "n": n},
    )


@claim("thm:distortion_general (proof)")
def root_distance_kappa(rng: torch.Generator) -> Outcome:
    """|sqrt A - sqrt B|_F is at most sqrt(kappa + 1) times the Bures-Wasserstein distance.

    Tested on: the same pairs

    Found: at most {max_over_bound:.4f} of the printed bound over {n} pairs; largest ratio over all
    kappa {max_ratio:.4f} (sqrt 2 by Araki and Yamagami 1981)
    """
    (_, high, n), (_, over, _) = _over_pairs(
        rng, _isometric, lambda k, A, B: _isometric(k, A, B) / math.sqrt(k + 1)
    )
    numbers = {"max_over_bound": over, "max_ratio": high, "n": n}
    return Outcome(judge(over <= 1 + ROUNDING), numbers)


@claim("thm:distortion_general (proof)")
def powers_stormer(rng: torch.Generator) -> Outcome:
    """|sqrt A - sqrt B|_F^2 <= |A - B|_trace <= d |A - B|_F.

    Tested on: the same pairs

    Found: largest quotients {max_first:.4f} and, with sqrt(d) in place of the printed d,
    {max_second_with_sqrt_d:.4f} over {n} pairs
    """
    norm = torch.linalg.matrix_norm
    (_, a, n), (_, b, _) = _over_pairs(
        rng,
        lambda _, A, B: norm(sqrtm(A) - sqrtm(B)) ** 2 / norm(A - B, ord="nuc"),
        lambda _, A, B: norm(A - B, ord="nuc") / norm(A - B) / math.sqrt(A.shape[-1]),
    )
    numbers = {"max_first": a, "max_second_with_sqrt_d": b, "n": n}
    return Outcome(judge(max(a, b) <= 1 + ROUNDING), numbers)


@claim("prop:injective")
def injective(rng: torch.Generator) -> Outcome:
    """Different SPD matrices have different BWSPD tokens.

    Tested on: round trip through the token

    Found: the inverse is explicit: squaring the unpacked token gives the matrix to
    {max_relative_error:.1e}
    """
    embedding = get_embedding("bures_wasserstein")
    error = max(
        float(
            torch.linalg.matrix_norm(embedding.from_token(embedding.to_token(C)) - C).max()
            / torch.linalg.matrix_norm(C).max()
        )
        for C in (random_spd(200, d, k, rng) for d in DIMENSIONS for k in KAPPAS)
    )
    return Outcome(judge(error < 1e-12), {"max_relative_error": error})


def bilipschitz_figure(seed: int = 0) -> Figure:
    """Plot the ratio of token to manifold distance for plain and isometric BWSPD tokens."""
    from matplotlib.figure import Figure  # slow to import

    rng = torch.Generator().manual_seed(seed)
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    kappas = np.logspace(0.2, 6, 13)
    for axes, isometric in zip(both, (False, True), strict=True):
        for kappa in kappas:
            d = 8
            groups = (
                (commuting_pairs(60, d, kappa, rng), GREEN, "commuting"),
                ((random_spd(60, d, kappa, rng), random_spd(60, d, kappa, rng)), BLUE, "general"),
                (near_pairs(60, d, kappa, rng), ORANGE, "close together"),
            )
            for (A, B), colour, label in groups:
                ratio = token_ratio(A, B, isometric=isometric).numpy()
                x = kappa * 10 ** np.random.default_rng(seed).uniform(-0.12, 0.12, len(ratio))
                axes.plot(
                    x, ratio, ".", color=colour, ms=3, alpha=0.5,
                    label=label if kappa == kappas[0] else None,
                )  # fmt: skip
        worst = [token_ratio(*mirrored_pair(1 / k, 1e-3), isometric=isometric) for k in kappas]
        axes.plot(kappas, worst, "kx", ms=5, label="mirrored pair, d = 2")
        low = 1.0 if isometric else math.sqrt(0.5)
        axes.axhline(math.sqrt(2), color="k", lw=1)
        axes.axhline(low, color="k", lw=1)
        axes.text(1.1, math.sqrt(2) + 0.015, "$\\sqrt{2}$: true upper bound", fontsize=8)
        name = "1" if isometric else "$1/\\sqrt{2}$"
        axes.text(1.1, low - 0.015, f"{name}: true lower bound", fontsize=8, va="top")
        if not isometric:
            axes.axhline(1, color=GREY, ls="--", lw=1)
            axes.text(1.1, 1.015, "1: printed upper bound", fontsize=8, color=GREY)
            axes.plot(kappas, 1 / np.sqrt(2 * (kappas + 1)), color=GREY, ls="--", lw=1)
            axes.text(30, 0.2, "printed lower bound", fontsize=8, color=GREY)
        axes.set_xscale("log")
        axes.set_xlabel("condition number $\\kappa$")
        kind = "isometric tokens" if isometric else "plain tokens (the paper's)"
        axes.set_title(kind, fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylim(0, 1.6)
    both[0].set_ylabel("token distance / Bures-Wasserstein distance")
    both[1].legend(frameon=False, loc="lower right", markerscale=2, fontsize=8)
    return figure
