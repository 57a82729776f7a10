"""The paper's numbers recomputed from each other.

A check is one entry of a ``CHECKS`` list in one of the files here; the command line, the JSON and
the tests pick it up. Every verdict is computed from the tables in :mod:`spdtokens.paper.tables`
when the check runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spdtokens.paper.audit import (
    across,
    columns,
    formulas,
    networks,
    significance,
    sizes,
    spreads,
    statements,
)
from spdtokens.paper.audit.check import VERDICTS, Check, Paper, Verdict

CHECKS: list[Check] = [
    check
    for room in (sizes, columns, spreads, significance, across, networks, statements, formulas)
    for check in room.CHECKS
]

__all__ = ["CHECKS", "VERDICTS", "Check", "Paper", "Verdict", "audit_paper"]


def audit_paper(paper: Paper | None = None) -> Iterator[dict[str, Any]]:
    """Run every check, one after another.

    Parameters
    ----------
    paper : Paper, optional
        Tables to check; those printed by default.

    Yields
    ------
    dict
        With the keys ``id``, ``where``, ``printed``, ``expected``, ``arithmetic``, ``verdict`` and
        ``numbers``.
    """
    for check in CHECKS:
        yield check.run(paper)
