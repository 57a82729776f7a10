"""What a folder of reproduced tables comes to, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spdtokens._tables import counted
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.paper.audit import VERDICTS
from spdtokens.paper.reproduce.folder import Folder, Score
from spdtokens.paper.reproduce.roles import ROLES
from spdtokens.paper.reproduce.run import Extent
from spdtokens.paper.tables import paper_table
from spdtokens.reporting.tables import gap_text, listed, said

METRIC = "accuracy"


def once(cells: Iterable[Score]) -> list[Score]:
    """Cells that differ: the same runs beside the same printed value count once."""
    found = {(c.train, c.test, c.std, c.n_runs, c.reported): c for c in cells}
    return [cell for cell in found.values() if cell.gap is not None]


def apart(cells: Sequence[Score]) -> str:
    """How far train is from test on average; empty where nothing is known."""
    gaps = [cell.gap for cell in cells if cell.gap is not None]
    if not gaps:
        return ""
    mean = float(np.mean(gaps))
    side = "above" if mean >= 0 else "below"
    return f"train is on average {gap_text(mean, METRIC)} {side} test"


def nearer(cells: Iterable[Score]) -> str:
    """How often the paper's value is nearer to our train than to our test; empty if never asked."""
    counts = Counter(cell.nearer for cell in cells if cell.nearer)
    total = sum(counts.values())
    if not total:
        return ""
    equal = f", as far from both in {counts['equal']}" if counts["equal"] else ""
    return (
        f"the paper's value is nearer to our train than to our test score in {counts['train']} of "
        f"{counted(total, 'cell')}, nearer to test in {counts['test']}{equal}"
    )


def left_out(extent: Extent) -> str:
    """What an extent does not do of the paper."""
    if extent.is_whole:
        return "nothing: all subjects, seeds and epochs"
    parts = []
    if extent.subjects is not None:
        sizes = [int(paper_table("datasets").cell(role.name, "Subjects").text) for role in ROLES]
        told = [f"{max(n - extent.subjects, 0)} of the {n} of {r.name}" for n, r in
                zip(sizes, ROLES, strict=True)]  # fmt: skip
        parts.append(f"subjects ({listed(told)})")
    if extent.seeds < len(SEEDS):
        parts.append(f"{len(SEEDS) - extent.seeds} of {len(SEEDS)} seeds")
    if extent.pooled_seeds is not None:
        parts.append(f"{len(SEEDS) - extent.pooled_seeds} of them in cells over several subjects")
    if extent.network_epochs is not None:
        parts.append(
            f"all but {extent.network_epochs} epochs of the networks that train one by one (all "
            "but the token transformers), which may not have converged"
        )
    return "; ".join(parts)


def sentences(folder: Folder, checks: Sequence[dict[str, Any]]) -> list[str]:
    """The summary, most important first."""
    cells = once(cell for table in folder.scores for cell in table.cells)
    found = []
    if cells:
        train = float(np.mean([c.train for c in cells if c.train is not None]))
        test = float(np.mean([c.test for c in cells if c.test is not None]))
        found.append(
            f"Over {counted(len(cells), 'different cell')} of "
            f"{counted(len(folder.scores), 'table')}, accuracy is {said(train, METRIC)} on "
            f"training and {said(test, METRIC)} on test trials: {apart(cells)}."
        )
    if told := nearer(cells):
        found.append(f"{told[:1].upper()}{told[1:]}.")
    if any(table.extent.data == "sim" for table in folder.scores):
        found.append(
            "Simulated recordings stand for the paper's. How near its values are to ours says "
            "nothing of its recordings; the distance of train from test shows what its "
            "configuration does where the truth is known."
        )
    for extent in dict.fromkeys(table.extent for table in folder.scores):
        names = [table.name for table in folder.scores if table.extent == extent]
        which = "every table" if len(names) == len(folder.scores) else listed(names, 20)
        found.append(f"Left out of {which}: {left_out(extent)}.")
    found += _of_the_paper(folder, checks)
    return found + warnings(folder)


def _of_the_paper(folder: Folder, checks: Sequence[dict[str, Any]]) -> list[str]:
    counts = Counter(check["verdict"] for check in checks)
    told = ", ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS if counts[verdict])
    found = [f"Of {len(checks)} checks of the paper's printed numbers against each other: {told}."]
    if "theory" in folder.sides:
        claims = folder.sides["theory"]["claims"]
        verdicts = Counter(claim["verdict"] for claim in claims)
        each = ", ".join(f"{verdict} {n}" for verdict, n in verdicts.most_common())
        found.append(f"Of {len(claims)} claims of its theory, tested numerically: {each}.")
    return found


def warnings(folder: Folder) -> list[str]:
    """What is missing, unfinished, or made by other code."""
    found = []
    empty = {t.name: sum(c.test is None for c in t.cells) for t in folder.scores}
    unfinished = [f"{name} ({n} of its cells)" for name, n in empty.items() if n]
    if unfinished:
        found.append(f"Unfinished: {listed(unfinished)} have no runs.")
    if folder.missing:
        found.append(f"Not made yet: {listed(folder.missing, 30)}.")
    if folder.foreign:
        found.append(
            f"Made by other code than the spdtokens that wrote this page: "
            f"{listed(folder.foreign, 30)}. The same command today may give other numbers."
        )
    return found
