"""Projected cost of a reproduction, from a few short runs on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from spdtokens._tables import table
from spdtokens.classifiers.nn.recipe import Recipe
from spdtokens.evaluation.execute import execute, open_run
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunSpec, as_text
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.run import ONE_BY_ONE, Reproduction

#: Epochs of the short runs.
EPOCHS = 2
#: Hours above which fewer seeds of the other networks are recommended.
LONG = 20.0


@dataclass(frozen=True)
class Cost:
    """Projected cost of a table.

    Attributes
    ----------
    name : str
        Name of the table.
    runs, missing : int
        Number of its runs, and of those that are not in the store.
    hours : float
        Hours on one core for the missing runs. Runs that an earlier table has as well are not
        counted again.
    of_networks : float
        Hours of these for networks that are trained one by one.
    """

    name: str
    runs: int
    missing: int
    hours: float
    of_networks: float


def _seconds(specs: Sequence[RunSpec], source: Source) -> tuple[float, int]:
    """Time short runs of one fold; return seconds per run and epoch, and the number of epochs.

    One epoch for a method that has none.
    """
    estimator = clone(source.estimator(specs[0]))
    given: dict[str, Any] = estimator.get_params()
    name = next((name for name in given if name.split("__")[-1] == "epochs"), None)
    whole, short = 1, 1
    if name is not None:
        whole, short = given[name] or Recipe.epochs, EPOCHS
        estimator.set_params(**{name: short})
    values = source.give(estimator)
    brief = [replace(spec, estimator=values) for spec in specs]
    open_run(brief[0], source, estimator)  # matrices are computed once for all runs
    start = time.perf_counter()
    execute(brief, source)
    return (time.perf_counter() - start) / len(specs) / short, whole


def projected(reproduction: Reproduction, store: RunStore | None) -> list[Cost]:
    """Project the cost of the runs that are missing.

    Each method is timed for two epochs on the smallest training set that it has for each data set,
    with all seeds of that fold. Costs of the others are in proportion to their training trials.

    Parameters
    ----------
    reproduction : Reproduction
        The tables.
    store : RunStore or None
        Runs that are there; None for none.

    Returns
    -------
    list of Cost
        One per table.
    """
    source = reproduction.source
    by_table = {name: reproduction.specs_of(name) for name in reproduction.cells}
    everything = {spec.key: spec for specs in by_table.values() for spec in specs}
    done = set(store.done(list(everything), reproduction.planned.code)) if store else set()
    sizes = {key: len(source.fold_of(spec).train) for key, spec in everything.items()}
    alike: dict[str, list[RunSpec]] = {}
    for spec in everything.values():
        alike.setdefault(as_text([spec.dataset, spec.estimator]), []).append(spec)
    seconds: dict[str, float] = {}
    for specs in alike.values():
        if all(spec.key in done for spec in specs):
            continue
        first = min(specs, key=lambda spec: sizes[spec.key])
        place = (first.subject, first.fold, first.access, first.alignment)
        seeds = [s for s in specs if (s.subject, s.fold, s.access, s.alignment) == place]
        each, epochs = _seconds(seeds, source)
        for spec in specs:
            seconds[spec.key] = each * epochs * sizes[spec.key] / sizes[first.key]
    costs, counted = [], set(done)
    for name, specs in by_table.items():
        missing = [spec for spec in specs if spec.key not in counted]
        counted |= {spec.key for spec in missing}
        slow = [spec for spec in missing if spec.method in ONE_BY_ONE]
        hours, of_networks = (
            sum(seconds[spec.key] for spec in some) / 3600 for some in (missing, slow)
        )
        absent = sum(spec.key not in done for spec in specs)
        costs.append(Cost(name, len(specs), absent, hours, of_networks))
    return costs


def cost_table(costs: Sequence[Cost]) -> Any:
    """Make a table of projected costs for the terminal."""
    total = Cost(
        "all",
        sum(cost.runs for cost in costs),
        sum(cost.missing for cost in costs),
        sum(cost.hours for cost in costs),
        sum(cost.of_networks for cost in costs),
    )
    rows = [
        (c.name, f"{c.runs:,}", f"{c.missing:,}", f"{c.hours:.2f}", f"{c.of_networks:.2f}")
        for c in (*costs, total)
    ]
    note = (
        "Hours on one core of this machine, as busy as it is now; --workers N divides them by N at "
        "best. Runs that tables share take time in the first of them only."
    )
    if total.hours > LONG:
        note += f" With --network-seeds 1 about {total.hours - 0.8 * total.of_networks:.0f} hours."
    headers = ("table", ">runs", ">missing", ">hours", ">of networks one by one")
    return table(headers, [*rows[:-1], None, rows[-1]], "Projected cost", note)
