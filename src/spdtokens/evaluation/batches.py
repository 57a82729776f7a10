"""Which runs are done together."""

from __future__ import annotations

from collections.abc import Sequence

from spdtokens.evaluation.runs import RunSpec
from spdtokens.training.method import Method
from spdtokens.training.methods import get_method

#: Runs that the engine trains as one batch: few enough that little is lost to an interruption,
#: and that several workers share a study evenly.
TOGETHER = 24
#: Runs of a method that trains one by one, or takes minutes.
ONE_BY_ONE = 1
#: Runs of a method without chance in it: quick ones.
QUICK = 8


def batches(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Runs in batches of one family, in the order given.

    All seeds of a fold stay neighbours, so that its trials are prepared once.
    """
    families: dict[str, list[RunSpec]] = {}
    for spec in specs:
        families.setdefault(spec.family, []).append(spec)
    found = []
    for runs in families.values():
        size = _size(get_method(runs[0].method))
        found += [runs[i : i + size] for i in range(0, len(runs), size)]
    return found


def _size(method: Method) -> int:
    if method.together:
        return TOGETHER
    return ONE_BY_ONE if method.has_seed or method.takes_minutes else QUICK
