"""The two pictures of the theory: conditioning of K, and token against manifold distance."""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from spdtokens.geometry import LOG, SQRT
from spdtokens.paper.theory.distances import token_ratio
from spdtokens.paper.theory.gradients import IDENTITY, entry_ratio
from spdtokens.paper.theory.sampling import commuting_pairs, mirrored_pair, near_pairs, random_spd

# Okabe and Ito's colours, distinct for colour-blind readers.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


def conditioning_figure() -> Figure:
    """Ratio of the largest to the smallest entry of K against kappa (the paper's Figure 2a)."""
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
    axes.text(31.6, 1.2e5, "EEG, says\nthe paper", ha="center", va="top", color=GREY, fontsize=8)
    axes.text(1.2, 2e6, "marks: measured\nlines: claimed\nd = 22", va="top", fontsize=8)
    axes.set_ylim(0.4, 4e6)
    axes.set_xlabel("condition number $\\kappa$ of the covariance matrix")
    axes.set_ylabel("largest / smallest entry of $K$")
    axes.set_title("How unevenly the backward pass scales gradients", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def bilipschitz_figure(seed: int = 0) -> Figure:
    """Token over manifold distance, for plain and isometric BWSPD tokens, with all the bounds."""
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
