"""Checks of the paper's printed numbers against each other.

A check is a function decorated with :func:`spdtokens.paper.audit.check.check`. Every verdict is
computed from the tables in :mod:`spdtokens.paper.tables` when the check runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

# In the order in which the checks are shown.
from spdtokens.paper.audit import accuracies, statements  # isort: skip
from spdtokens.paper.audit.check import CHECKS, SPLITS, VERDICTS, Check, Paper, Verdict
from spdtokens.paper.audit.granularity import MAX_N, number_that_fit, subject_values
from spdtokens.paper.theory.claim import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CHECKS",
    "VERDICTS",
    "Check",
    "Paper",
    "Verdict",
    "accuracies",
    "audit_paper",
    "granularity_figure",
    "statements",
]


def audit_paper(paper: Paper | None = None) -> Iterator[dict[str, Any]]:
    """Check the paper's printed numbers against each other.

    Parameters
    ----------
    paper : Paper, default=None
        Tables to check. By default, the tables of the paper.

    Yields
    ------
    dict
        The result of one check, with the keys ``id``, ``where`` (LaTeX labels), ``printed``,
        ``expected``, ``arithmetic``, ``verdict`` and ``numbers``. Verdicts are listed in
        ``spdtokens.paper.audit.VERDICTS``.

    See Also
    --------
    spdtokens.paper.theory.check_claims : Test the theoretical claims of the paper.
    spdtokens.paper.tables.paper_table : Load a table of the paper.

    References
    ----------
    .. [1] N. J. L. Brown and J. A. J. Heathers, "The GRIM test: a simple technique detects numerous
       anomalies in the reporting of results in psychology", Social Psychological and Personality
       Science 8(4), 363-369, 2017. https://doi.org/10.1177/1948550616673876

    Examples
    --------
    >>> from spdtokens.paper.audit import audit_paper
    >>> first = next(audit_paper())
    >>> first["id"], first["verdict"]
    ('granularity-bci2a', 'fits training size')
    """
    for check in CHECKS:
        yield check.run(paper)


def granularity_figure() -> Figure:
    """Plot the share of the printed accuracies that are possible with n trials, per data set."""
    from matplotlib.figure import Figure  # slow to import, and only drawing needs it

    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    figure.suptitle(
        "Which number of trials can give the printed accuracies?", fontsize=12, x=0.01, ha="left"
    )
    panels = figure.subplots(len(SPLITS), 1, sharex=True, sharey=True)
    sizes = np.arange(1, MAX_N + 1)
    for axes, split in zip(panels, SPLITS, strict=True):
        groups = subject_values(Paper(), split)
        values = [value for group in groups.values() for value in group]
        shares = np.array([number_that_fit(values, int(n)) / len(values) for n in sizes])
        axes.vlines(sizes, 0, shares, color=GREY, lw=0.8)
        for n in split.test:
            axes.plot(n, shares[n - 1], "s", color=ORANGE, ms=6, gid=f"test:{n}")
        on_train, best = shares[split.train - 1], max(shares[n - 1] for n in split.test)
        axes.plot(split.train, on_train, "o", color=BLUE, ms=7, gid="train")
        axes.annotate(
            f"{' or '.join(map(str, split.test))} test trials: {100 * best:.0f} % fit"
            + " at most" * (len(split.test) > 1),
            (split.test[-1], best), (split.test[-1], 0.62), color=ORANGE, fontsize=9,
            arrowprops={"arrowstyle": "-", "color": ORANGE, "lw": 0.8, "relpos": (0, 0)},
        )  # fmt: skip
        axes.annotate(
            f"{split.train} training trials: {100 * on_train:.0f} % fit",
            (split.train, on_train), (-9, 0), textcoords="offset points", color=BLUE,
            ha="right", va="center", fontsize=9,
        )  # fmt: skip
        axes.set_title(f"{split.data}: {len(values)} distinct values", fontsize=10, loc="left")
        axes.set(xlim=(0, MAX_N + 4), ylim=(0, 1.12))
        axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("number of trials n")
    panels[len(SPLITS) // 2].set_ylabel("share of printed values that are k / n, or k / (5 n)")
    return figure
