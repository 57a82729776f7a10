"""Checks of formulas: what the theory bench finds of those that the method rests on."""

from __future__ import annotations

from functools import partial

from spdtokens.paper import theory
from spdtokens.paper.audit.check import Check, Outcome, Paper, Verdict

#: Claims of the theory bench, and the verdict if they do not hold as printed.
FORMULAS: dict[str, Verdict] = {
    "index-formula": "does not hold",
    "backward-formula": "does not hold",
    "conditioning-name": "is something else",
    "gradient-ratio": "does not hold",
    "absolute-regulariser": "does not hold",
    "bilipschitz-main-upper": "does not hold",
    "bilipschitz-main-lower": "holds",
}


def _formula(_: Paper, name: str) -> Outcome:
    claim = next(claim for claim in theory.CLAIMS if claim.id == name)
    found = claim.check(0)
    verdict: Verdict = "holds"
    if found["verdict"] != "holds":
        verdict = FORMULAS[name] if FORMULAS[name] != "holds" else "does not hold"
    shown = found["evidence"]
    if verdict != "holds" and found["counterexample"]:
        shown += f". Smallest: {found['counterexample']}"
    if verdict != "holds" and found["instead"]:
        shown += f". Instead: {found['instead']}"
    return Outcome(verdict, claim.claim, shown, found["numbers"])


CHECKS = [
    Check(
        name,
        next(claim.source for claim in theory.CLAIMS if claim.id == name),
        "The formula is right as printed (spdtokens theory).",
        partial(_formula, name=name),
    )
    for name in FORMULAS
]
