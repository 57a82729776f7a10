"""Scores as a table and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table

from spdtokens.evaluation.transfer import Score


def summarise(scores: Sequence[Score], n_classes: int) -> list[dict[str, Any]]:
    """One row a method: means, and their spread over seeds (averaged over subjects).

    Returns
    -------
    list of dict
        Accuracies in percent. ``spread`` is the standard deviation over seeds of a subject's test
        score, averaged over subjects; ``seconds`` is the time to train a run.
    """
    rows = []
    for method in dict.fromkeys(score.method for score in scores):
        mine = [score for score in scores if score.method == method]
        by_subject: dict[str, list[float]] = {}
        for score in mine:
            by_subject.setdefault(score.subject, []).append(100 * score.test)
        seeds = {score.seed for score in mine}
        spread = (
            np.mean([np.std(tests, ddof=1) for tests in by_subject.values()])
            if (len(seeds) > 1)
            else None
        )
        rows.append(
            {
                "method": method,
                "subjects": len(by_subject),
                "seeds": len(seeds),
                "train": 100 * float(np.mean([score.train for score in mine])),
                "test": 100 * float(np.mean([score.test for score in mine])),
                "spread": None if spread is None else float(spread),
                "chance": 100 / n_classes,
                "seconds": float(np.mean([score.seconds for score in mine])),
            }
        )
    return rows


def scores_table(scores: Sequence[Score], n_classes: int, title: str) -> Table:
    """Train beside test, for people."""
    sizes = sorted({(score.n_train, score.n_test) for score in scores})
    trials = ", ".join(f"{a}/{b}" for a, b in sizes)
    subjects = len({score.subject for score in scores})
    seeds = len({score.seed for score in scores} - {None})
    table = Table(
        title=title,
        caption=f"Accuracy in percent, {subjects} subject(s), {seeds} seed(s), ± standard "
        f"deviation over seeds; trials train/test {trials}. Only test tells how well it decodes.",
    )
    for name in ("method", "train", "test", "chance", "s per run"):
        left = name == "method"
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in summarise(scores, n_classes):
        spread = "" if row["spread"] is None else f" ± {row['spread']:4.1f}"
        table.add_row(
            row["method"],
            f"{row['train']:.1f}",
            f"[bold]{row['test']:.1f}[/]{spread or ' ' * 7}",
            f"{row['chance']:.1f}",
            f"{row['seconds']:.2f}",
        )
    return table


def as_json(scores: Sequence[Score], n_classes: int) -> dict[str, Any]:
    """Summary and every score."""
    return {
        "summary": summarise(scores, n_classes),
        "scores": [asdict(score) for score in scores],
    }
