"""What the audit and the theory share: findings with verdicts, shown as a table and written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdtokens._files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

Finding = dict[str, Any]
#: Every verdict of the audit and of the theory, and its colour in a terminal.
COLOURS = {
    "holds": "green",
    "corrected": "yellow",
    "fails": "red",
    "does not hold": "red",
    "cannot be both": "red",
    "fits training size": "magenta",
    "is something else": "yellow",
    "undecided": "dim",
}


class Outcome:
    """What a test found.

    Parameters
    ----------
    verdict : str
        Decided by the numbers.
    numbers : dict
        Measured or computed, for machines.
    **words
        Further values that the test's docstring names in braces.
    """

    def __init__(self, verdict: str, numbers: dict[str, Any], **words: object) -> None:
        self.verdict, self.numbers, self._words = verdict, numbers, words

    def fill(self, text: str) -> str:
        """Put numbers and words into a paragraph of the test's docstring."""
        return text.format_map({**self.numbers, **self._words})


def docstring_parts(test: Callable[..., Outcome]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and the others by the words before the colon."""
    first, *others = (" ".join(part.split()) for part in (test.__doc__ or "").split("\n\n"))
    return first, dict(part.split(": ", 1) for part in others)


def told(form: str, rows: Mapping[Any, Any], between: str = ", ") -> str:
    """Rows in words: ``{0}`` is the key, ``{1}`` and so on are the values.

    >>> told("{0} {2:.1f}", {"a": (1, 2.0), "b": (3, 4.0)})
    'a 2.0, b 4.0'
    """
    values = {k: row if isinstance(row, tuple) else (row,) for k, row in rows.items()}
    return between.join(form.format(key, *row) for key, row in values.items())


def tally(findings: Iterable[Finding], form: str = "{n} {verdict}") -> str:
    """How many findings there are of each verdict: ``'12 holds, 3 fails'``."""
    counts = Counter(finding["verdict"] for finding in findings)
    return ", ".join(form.format(n=counts[v], verdict=v) for v in COLOURS if counts[v])


def claim_evidence(claim: Finding, between: str = ". ") -> str:
    """What decides a claim, and where it does not hold a counter-example and what is true."""
    besides = {"Counter-example": claim["counterexample"], "Instead": claim["instead"]}
    if claim["verdict"] == "holds":
        besides = {}
    said = [f"{key}: {text}" for key, text in besides.items() if text]
    return between.join([claim["evidence"], *said])


def findings_table(title: str, findings: Sequence[Finding]) -> Table:
    """One row per finding: what is printed, the verdict, what decides it."""
    from rich.text import Text

    from spdtokens._tables import table

    rows = []
    for one in findings:
        if "claim" in one:
            said, where = one["claim"], f"{one['source']}; tested on: {one['method']}"
            right = Text(claim_evidence(one, "\n"))
        else:
            said, where = one["printed"], one["where"]
            right = Text.assemble((one["expected"], "dim"), "\n", one["arithmetic"])
        left = Text.assemble((one["id"], "bold"), "\n", said, "\n", (where, "dim"))
        rows.append((left, Text(one["verdict"], COLOURS[one["verdict"]]), right))
    headers = ("printed~", "verdict", "found~")
    return table(headers, rows, title, tally(findings), show_lines=True, pad_edge=True)


def write_findings(
    folder: Path, file: str, content: Mapping[str, Any], figures: Mapping[str, Figure]
) -> list[Path]:
    """Write findings as JSON, and figures as PNG; returns their paths."""
    written = [folder / file, *(folder / name for name in figures)]
    with written_whole(written[0]) as path:
        path.write_text(json.dumps(content, indent=2) + "\n")
    for target, figure in zip(written[1:], figures.values(), strict=True):
        with written_whole(target) as path:
            figure.savefig(path, dpi=150)
    return written
