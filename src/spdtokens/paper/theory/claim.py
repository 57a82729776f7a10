"""A claim of the paper, and what came of testing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

#: ``holds``: as printed. ``corrected``: not as printed, but what is true instead is known and was
#: tested too. ``fails``: not as printed.
Verdict = Literal["holds", "corrected", "fails"]


@dataclass(frozen=True)
class Finding:
    """Outcome of a test.

    Attributes
    ----------
    verdict : Verdict
        Decided by the numbers.
    evidence : str
        The numbers that decide, in a sentence.
    numbers : dict
        The same for machines.
    counterexample : str
        The smallest found, where the claim does not hold.
    instead : str
        What is true, where the claim is corrected.
    """

    verdict: Verdict
    evidence: str
    numbers: dict[str, Any] = field(default_factory=dict)
    counterexample: str = ""
    instead: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper in our words, with its test.

    Attributes
    ----------
    id : str
    source : str
        Where the paper says it (its LaTeX label, or the place in words).
    claim : str
        What it says.
    method : str
        How it is tested.
    test : callable
        From a seeded generator to a finding.
    """

    id: str
    source: str
    claim: str
    method: str
    test: Callable[[torch.Generator], Finding]

    def check(self, seed: int) -> dict[str, Any]:
        """Run the test; everything about the claim as plain data."""
        finding = self.test(torch.Generator().manual_seed(seed))
        about = {"id": self.id, "source": self.source, "claim": self.claim, "method": self.method}
        return about | asdict(finding)


def judge(as_printed: bool, instead_holds: bool | None = None) -> Verdict:
    """Verdict from what the numbers say of the printed claim and of ours in its place."""
    if as_printed:
        return "holds"
    return "corrected" if instead_holds else "fails"
