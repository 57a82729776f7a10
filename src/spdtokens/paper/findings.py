"""Findings of the audit and of the theory: verdicts, tables for the terminal, files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdtokens._files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

Finding = dict[str, Any]
#: Colour in a terminal and plural of every verdict of the audit, the theory and the index.
VERDICT_STYLES = {
    "holds": ("green", "hold"),
    "partly": ("yellow", "hold partly"),
    "corrected": ("yellow", "corrected"),
    "fails": ("red", "fail"),
    "does not hold": ("red", "do not hold"),
    "contradiction": ("red", "contradict each other"),
    "fits training size": ("magenta", "fit the training size only"),
    "is something else": ("yellow", "are something else than stated"),
    "undecided": ("dim", "undecided"),
    "not tested": ("dim", "not tested"),
}
#: Verdicts with evidence in the short view.
FAILURES = ("corrected", "fails", "contradiction")


class Outcome:
    """Outcome of a check or of the test of a claim.

    Parameters
    ----------
    verdict : str
        The verdict, decided by the numbers.
    numbers : dict
        Measured or computed values.
    **words
        Further values that are named in braces in the docstring of the test.
    """

    def __init__(self, verdict: str, numbers: dict[str, Any], **words: object) -> None:
        self.verdict, self.numbers, self._words = verdict, numbers, words

    def fill(self, text: str) -> str:
        """Fill numbers and words into a paragraph of the docstring of the test."""
        return text.format_map({**self.numbers, **self._words})


def docstring_parts(test: Callable[..., Outcome]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and the others by the words before their colon."""
    first, *others = (" ".join(part.split()) for part in (test.__doc__ or "").split("\n\n"))
    return first, dict(part.split(": ", 1) for part in others)


def told(form: str, rows: Mapping[Any, Any], between: str = ", ") -> str:
    """Format and join rows; ``{0}`` is the key, ``{1}`` and so on are the values.

    >>> told("{0} {2:.1f}", {"a": (1, 2.0), "b": (3, 4.0)})
    'a 2.0, b 4.0'
    """
    values = {k: row if isinstance(row, tuple) else (row,) for k, row in rows.items()}
    return between.join(form.format(key, *row) for key, row in values.items())


def tally(findings: Iterable[Finding]) -> str:
    """Count the findings by verdict: ``'12 hold, 1 fails'``."""
    counts = Counter(finding["verdict"] for finding in findings)
    return ", ".join(
        f"{counts[verdict]} {verdict if counts[verdict] == 1 else plural}"
        for verdict, (_, plural) in VERDICT_STYLES.items()
        if counts[verdict]
    )


def claim_evidence(claim: Finding, between: str = ". ") -> str:
    """Return the evidence on a claim; if it does not hold, with counter-example and correction."""
    besides = {"Counter-example": claim["counterexample"], "Instead": claim["instead"]}
    if claim["verdict"] == "holds":
        besides = {}
    said = [f"{key}: {text}" for key, text in besides.items() if text]
    return between.join([claim["evidence"], *said])


def findings_table(title: str, findings: Iterable[Finding]) -> Table:
    """Make a terminal table with one row per finding: the statement, the verdict, the evidence."""
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
        rows.append((left, Text(one["verdict"], VERDICT_STYLES[one["verdict"]][0]), right))
    headers = ("statement~", "verdict", "evidence~")
    return table(headers, rows, title, show_lines=True, pad_edge=True)


def findings_view(
    kind: str, findings: Sequence[Finding], *, show_all: bool
) -> Iterator[RenderableType]:
    """Yield the tally, then every finding, or the failures in full and the others by name.

    Parameters
    ----------
    kind : {'checks', 'claims'}
        What the findings are of.
    findings : sequence of dict
        See :meth:`Check.run` and :meth:`Claim.check`.
    show_all : bool
        Whether all findings are shown in full.
    """
    from rich.text import Text

    yield Text(f"{len(findings)} {kind}: {tally(findings)}.")
    shown = [one for one in findings if show_all or one["verdict"] in FAILURES]
    if shown:
        yield findings_table(f"All {kind}" if show_all else tally(shown), shown)
    others = [one for one in findings if one not in shown]
    for verdict, (colour, _) in VERDICT_STYLES.items():
        if found := [one for one in others if one["verdict"] == verdict]:
            names = ", ".join(one["id"] for one in found)
            yield Text.assemble((tally(found), colour), f": {names}")
    if others:
        command = "audit" if kind == "checks" else "theory"
        yield Text(f"All {kind} with their evidence: spdtokens {command} --all")


def write_findings(
    folder: Path, file: str, content: Mapping[str, Any], figures: Mapping[str, Figure]
) -> list[Path]:
    """Write findings as JSON and figures as PNG, and return the paths."""
    written = [folder / file, *(folder / name for name in figures)]
    with written_whole(written[0]) as path:
        path.write_text(json.dumps(content, indent=2) + "\n")
    for target, figure in zip(written[1:], figures.values(), strict=True):
        with written_whole(target) as path:
            figure.savefig(path, dpi=150)
    return written
