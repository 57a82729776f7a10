"""Checks of p-values."""

from __future__ import annotations

import math
from functools import partial

from scipy import stats

from spdtokens.evaluation.statistics import paired_t
from spdtokens.paper.audit.check import Check, Outcome, Paper, half_step, judge
from spdtokens.paper.audit.sizes import SEEDS
from spdtokens.paper.tables import Cell


def paired_p_range(a: Cell, b: Cell, n: int = SEEDS) -> tuple[float, float]:
    """Smallest and largest p-value of a paired t-test of two printed means with their spreads.

    The spread of the differences lies between the difference and the sum of the two spreads,
    whatever the pairs are; printed digits may be rounded, and spreads be over n or n - 1.
    """
    gap = abs(float(a.number - b.number))
    loose = [float(half_step(cell.number)) for cell in (a, b)]
    s, t = float(a.spread), float(b.spread)
    least = max(abs(s - t) - sum(float(half_step(c.spread)) for c in (a, b)), 0.0)
    most = (s + t + 0.01) * math.sqrt(n / (n - 1))
    p = []
    for distance, spread in ((gap + sum(loose), least), (max(gap - sum(loose), 0.0), most)):
        t_value = distance * math.sqrt(n) / spread if spread else math.inf
        p.append(float(2 * stats.t.sf(t_value, n - 1)))
    return p[0], p[1]


def _allows(printed: str, low: float, high: float) -> bool:
    """Whether '0.003' or '<0.001' can be a p-value between two bounds."""
    cell = Cell(printed)
    value, slack = float(cell.number), float(half_step(cell.number))
    if printed.startswith("<"):
        return low < value
    return low <= value + slack and value - slack <= high


def _bands(paper: Paper) -> Outcome:
    table = paper.table("multiband-bci2a")
    columns = [[float(c.number) for c in table.column(k)] for k in ("Multi-Band", "Single-Token")]
    found = paired_t(*columns)
    printed = paper.text("multiband-p").text
    return Outcome(
        judge(_allows(printed, found.p_value, found.p_value)),
        f"p {printed} for the gain over the nine subjects of BCI2a",
        f"paired t-test of the printed means: t = {found.statistic:.2f} with {found.n - 1} degrees "
        f"of freedom, p = {found.p_value:.3f}",
        {"t": found.statistic, "p": found.p_value},
    )


def _embedding(paper: Paper, data: str) -> Outcome:
    column = f"{data} (S1)"
    rows = {}
    for name in ("BWSPD", "Euclidean"):
        said = paper.cell("geometry", name, "p").text.split(", ")
        printed = next(text for text in said if data in text).split(" ")[0]
        a, b = (paper.cell("geometry", row, column) for row in ("Log-Euclidean", name))
        rows[name] = (printed, *paired_p_range(a, b))
    return Outcome(
        judge(all(_allows(*row) for row in rows.values())),
        ", ".join(f"{name} p {printed}" for name, (printed, _, _) in rows.items())
        + f" against Log-Euclidean on {data} subject 1, five seeds",
        "whatever the pairs are: "
        + ", ".join(
            f"{name} between {low:.2g} and {high:.2g}" for name, (_, low, high) in rows.items()
        ),
        {name: {"low": low, "high": high} for name, (_, low, high) in rows.items()},
    )


def _ablation(paper: Paper, name: str, first: str, second: str) -> Outcome:
    table = paper.table(name)
    rows = {}
    for row in table.names:
        bounds = paired_p_range(table.cell(row, first), table.cell(row, second))
        rows[row] = (table.cell(row, "p").text, *bounds)
    return Outcome(
        judge(all(_allows(*row) for row in rows.values())),
        ", ".join(f"{row} p {printed}" for row, (printed, _, _) in rows.items()),
        "whatever the pairs are: "
        + ", ".join(f"{row} {low:.2g} to {high:.2g}" for row, (_, low, high) in rows.items()),
        {row: {"low": low, "high": high} for row, (_, low, high) in rows.items()},
    )


def _level(paper: Paper) -> Outcome:
    p, level = paper.text("bn-bci2a-p").number, paper.text("alpha").number
    return Outcome(
        judge(p < level, "cannot be both"),
        f"significant below {level}; BN-Embed significant on BCI2a with p = {p}",
        f"{p} < {level}: {'yes' if p < level else 'no'}",
        {"p": float(p), "level": float(level)},
    )


CHECKS = [
    Check("multiband-p", "sec:experiments", "The printed subjects give that p-value.", _bands),
    *(
        Check(
            f"embedding-p-{data.lower()}",
            "tab:geometry_ablation",
            "Some five pairs with these means and spreads give that p-value.",
            partial(_embedding, data=data),
        )
        for data in ("BCI2a", "MAMEM")
    ),
    Check(
        "bn-embed-p",
        "tab:bn_embed_ablation",
        "Some five pairs with these means and spreads give that p-value.",
        partial(_ablation, name="bn-embed", first="With BN", second="Without BN"),
    ),
    Check(
        "attention-p",
        "tab:geometric_attention_ablation",
        "Some five pairs with these means and spreads give that p-value.",
        partial(_ablation, name="geometric-attention", first="Geometric", second="Standard"),
    ),
    Check(
        "bn-embed-level", "app:ablation", "What is called significant is below the level.", _level
    ),
]
