"""Index of the paper: every table, figure, theorem, setting and claim, with command and verdict.

Statements are data, in ``statements.toml``. Verdict and evidence are computed from the results in a
folder of ``spdtokens reproduce``, the audit, the theory, and our own settings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from spdtokens._tables import counted, table
from spdtokens.paper.audit import audit_paper
from spdtokens.paper.claims.rules import RULES, Part, Results, joined, sentences
from spdtokens.paper.findings import VERDICT_STYLES, Finding, tally
from spdtokens.paper.reproduce.tables import Folder
from spdtokens.reporting.tables import Cell, Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = [
    "SECTIONS",
    "STATEMENTS",
    "Part",
    "Results",
    "Statement",
    "check_statements",
    "claims_content",
    "claims_tables",
    "claims_view",
    "results_of",
]

#: Name of the index among the tables of ``spdtokens reproduce``.
NAME, TITLE = "claims", "The paper, item by item"
#: Kinds of statements in each section of the index.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Abstract and introduction": ("claim", "prediction", "contribution"),
    "Tables": ("table",),
    "Figures": ("figure",),
    "Theory": ("theorem", "proposition", "lemma", "corollary"),
    "Algorithms": ("algorithm",),
    "Hyper-parameters": ("hyper-parameter",),
    "Recommendations": ("recommendation",),
    "Future work": ("future work",),
}


@dataclass(frozen=True)
class Statement:
    """A statement of the paper, in our words.

    Attributes
    ----------
    id, kind : str
        Name, and one of the kinds in :data:`SECTIONS`.
    where : str
        Place in the paper: labels, or a section.
    says : str
        The statement.
    command : str
        Command that tests it.
    rules : sequence of sequence
        Names of rules with their arguments, see :mod:`spdtokens.paper.claims.rules`.
    """

    id: str
    kind: str
    where: str
    says: str
    command: str
    rules: Sequence[Sequence[Any]]

    def check(self, results: Results) -> dict[str, Any]:
        """Apply the rules.

        Parameters
        ----------
        results : Results
            All results.

        Returns
        -------
        dict
            With the keys ``id``, ``kind``, ``where``, ``says``, ``command``, ``verdict`` and
            ``evidence``.
        """
        parts = [RULES[name](results, *values) for name, *values in self.rules]
        verdict = joined(part.verdict for part in parts)
        about = {key: getattr(self, key) for key in ("id", "kind", "where", "says", "command")}
        evidence = f"{sentences(part.evidence for part in parts)}."
        return about | {"verdict": verdict, "evidence": evidence}


#: All statements, in the order of the file.
STATEMENTS: tuple[Statement, ...] = tuple(
    Statement(**found)
    for found in tomllib.loads((files(__name__) / "statements.toml").read_text(encoding="utf-8"))[
        "statement"
    ]
)


def results_of(folder: Folder | None, checks: Iterable[Finding] | None = None) -> Results:
    """Collect the results that statements are checked against.

    Parameters
    ----------
    folder : Folder or None
        A folder of ``spdtokens reproduce``; None for the audit and our settings only.
    checks : iterable of dict, default=None
        Findings of the audit; made if None.
    """
    audit = {one["id"]: one for one in (audit_paper() if checks is None else checks)}
    if folder is None:
        return Results(audit=audit)
    efficiency, theory = (folder.measured.get(name, {}) for name in ("efficiency", "theory"))
    return Results(
        scores={one.name: one for one in folder.scores},
        costs={row["name"]: row for row in efficiency.get("methods", [])},
        attention=[row for row in efficiency.get("attention", []) if row["printed_ratio"]],
        figures={name: found.label for name, found in folder.figures.items()},
        audit=audit,
        theory={one["id"]: one for one in theory.get("claims", [])},
    )


def check_statements(results: Results) -> list[dict[str, Any]]:
    """Check every statement of the paper.

    Parameters
    ----------
    results : Results
        All results, see :func:`results_of`.

    Returns
    -------
    list of dict
        See :meth:`Statement.check`.

    See Also
    --------
    spdtokens.paper.audit.audit_paper : Check the printed numbers against each other.
    spdtokens.paper.theory.check_claims : Test the theoretical claims of the paper.

    Examples
    --------
    >>> from spdtokens.paper.claims import Results, check_statements
    >>> found = {one["id"]: one for one in check_statements(Results())}
    >>> found["seeds"]["verdict"], found["geometry"]["verdict"]
    ('holds', 'not tested')
    """
    return [statement.check(results) for statement in STATEMENTS]


def claims_content(found: Sequence[dict[str, Any]], command: str) -> dict[str, Any]:
    """Return the content of ``claims.json``."""
    return {"name": NAME, "title": TITLE, "command": command, "statements": list(found)}


def claims_tables(found: Sequence[dict[str, Any]]) -> list[Table]:
    """Make a table of each section: place, statement, verdict, evidence and command."""
    made = []
    for title, kinds in SECTIONS.items():
        mine = [one for one in found if one["kind"] in kinds]
        rows = [
            [
                Cell(one["where"]),
                Cell(one["says"]),
                Cell(one["verdict"], mark="" if one["verdict"] == "holds" else "best"),
                Cell(one["evidence"]),
                Cell(one["command"]),
            ]
            for one in mine
        ]
        headers = ("where", "the paper", "verdict", "evidence", "command")
        name = f"{NAME}-{title.lower().replace(' ', '-')}"
        made.append(Table(name, title, headers, rows, f"{len(mine)}: {tally(mine)}."))
    return made


def claims_view(found: Sequence[dict[str, Any]]) -> RichTable:
    """Make a table for the terminal, without the evidence."""
    from rich.text import Text

    rows: list[tuple[Any, ...] | None] = []
    for kinds in SECTIONS.values():
        for one in found:
            if one["kind"] in kinds:
                verdict = Text(one["verdict"], VERDICT_STYLES[one["verdict"]][0])
                rows.append((one["kind"], one["id"], verdict, one["says"]))
        rows.append(None)
    headers = ("kind", "statement", "verdict", "the paper~")
    return table(headers, rows, TITLE, f"{counted(len(found), 'statement')}: {tally(found)}.")
