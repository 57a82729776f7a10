"""Claims of the paper with their tests, and random matrices to test them on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from spdtokens.paper.findings import Outcome, docstring_parts
from spdtokens.runtime.threads import one_thread

F64 = torch.float64
# Okabe and Ito's colours, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
#: ``holds``: true as printed. ``corrected``: false as printed, and the correction was tested.
#: ``fails``: false as printed.
Verdict = Literal["holds", "corrected", "fails"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in our words, with its test.

    Attributes
    ----------
    id : str
        Name of the claim.
    source : str
        Where the paper states it: a LaTeX label, or the place in words.
    claim : str
        The claim.
    texts : dict of str to str
        Paragraphs of the test's docstring, with values of the outcome in braces: ``Tested on``,
        ``Found``, ``Counter-example`` and ``Instead`` (the correction).
    test : callable
        Function from a seeded generator to an outcome; for a premise, from measured trials.
    is_premise : bool
        Whether it is about EEG, and tested on trials.
    """

    id: str
    source: str
    claim: str
    texts: Mapping[str, str]
    test: Callable[[Any], Outcome]
    is_premise: bool = False

    @one_thread()  # matrices are small: more threads are six times slower
    def check(self, seed: int, data: Path | None = None) -> dict[str, Any]:
        """Test the claim.

        Parameters
        ----------
        seed : int
            Seed of the random matrices.
        data : Path, default=None
            Trials to test premises on, besides the simulated ones.

        Returns
        -------
        dict
            With the keys ``id``, ``source``, ``claim``, ``method``, ``verdict``, ``evidence``,
            ``numbers``, ``counterexample`` and ``instead``.
        """
        if self.is_premise:
            from spdtokens.paper.theory.premises import premises_of  # which imports this module

            found = self.test(premises_of(data))
        else:
            found = self.test(torch.Generator().manual_seed(seed))
        return {
            "id": self.id,
            "source": self.source,
            "claim": self.claim,
            "method": self.texts["Tested on"],
            "verdict": found.verdict,
            "evidence": found.fill(self.texts["Found"]),
            "numbers": found.numbers,
            "counterexample": found.fill(self.texts.get("Counter-example", "")),
            "instead": found.fill(self.texts.get("Instead", "")),
        }


#: All claims, in the order of definition; see :func:`claim`.
CLAIMS: list[Claim] = []
_Test = TypeVar("_Test", bound=Callable[..., Outcome])


def claim(source: str, *, is_premise: bool = False) -> Callable[[_Test], _Test]:
    """Register a function as the test of a claim.

    The first paragraph of its docstring is the claim. Others begin with ``Tested on:``, ``Found:``,
    ``Counter-example:`` and ``Instead:``, and may contain values of the outcome in braces.

    Parameters
    ----------
    source : str
        Where the paper states it.
    is_premise : bool, default=False
        Whether the function is given measured trials instead of a generator.
    """

    def register(test: _Test) -> _Test:
        claimed, texts = docstring_parts(test)
        name = test.__name__.replace("_", "-")
        CLAIMS.append(Claim(name, source, claimed, texts, test, is_premise))
        return test

    return register


premise = partial(claim, is_premise=True)


def judge(as_printed: bool, instead_holds: bool | None = None) -> Verdict:
    """Return the verdict, given whether the claim and its correction hold."""
    if as_printed:
        return "holds"
    return "corrected" if instead_holds else "fails"


def random_rotation(n: int, d: int, rng: torch.Generator) -> Tensor:
    """Draw uniformly distributed orthogonal matrices (n, d, d)."""
    Q, R = torch.linalg.qr(torch.randn(n, d, d, generator=rng, dtype=F64))
    return Q * R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def spectrum(n: int, d: int, kappa: float, rng: torch.Generator) -> Tensor:
    """Draw eigenvalues (n, d), log-uniform in [1 / kappa, 1] and including both ends."""
    logs = torch.rand(n, d, generator=rng, dtype=F64)
    logs[:, 0], logs[:, -1] = 0.0, 1.0
    return torch.exp((logs - 1.0) * math.log(kappa))


def random_spd(n: int, d: int, kappa: float, rng: torch.Generator) -> Tensor:
    """Draw SPD matrices (n, d, d) with largest eigenvalue 1 and condition number kappa."""
    V = random_rotation(n, d, rng)
    return (V * spectrum(n, d, kappa, rng).unsqueeze(-2)) @ V.mT


def commuting_pairs(n: int, d: int, kappa: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw pairs of SPD matrices with the same eigenvectors."""
    V = random_rotation(n, d, rng)
    a, b = (kappa ** (-torch.rand(n, d, generator=rng, dtype=F64)) for _ in range(2))
    return (V * a.unsqueeze(-2)) @ V.mT, (V * b.unsqueeze(-2)) @ V.mT


def near_pairs(n: int, d: int, kappa: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw pairs of SPD matrices that differ by a small rotation."""
    A = random_spd(n, d, kappa, rng)
    skew = torch.randn(n, d, d, generator=rng, dtype=F64)
    angle = 10 ** (-3 * torch.rand(n, 1, 1, generator=rng, dtype=F64))
    R = torch.matrix_exp(angle * (skew - skew.mT) / math.sqrt(d))
    return A, R @ A @ R.mT


def mirrored_pair(small: float, angle: float) -> tuple[Tensor, Tensor]:
    """Return two 2 x 2 matrices with eigenvalues 1 and ``small``, mirrored at the antidiagonal.

    Their square roots differ on the diagonal only, where vech is isometric.
    """
    alpha = math.pi / 4 - angle / 2
    u = torch.tensor([math.cos(alpha), math.sin(alpha)], dtype=F64)
    A = (1 - small) * torch.outer(u, u) + small * torch.eye(2, dtype=F64)
    return A, A.flip(0, 1)
