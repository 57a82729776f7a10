"""Which runs are done together."""

from __future__ import annotations

from collections.abc import Sequence

from spdtokens.classifiers.methods import METHODS
from spdtokens.classifiers.transformer import offers_together
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunSpec

#: Runs that the engine trains as one batch: few enough that little is lost to an interruption,
#: and that several workers share a study evenly.
TOGETHER = 24
#: Runs of an estimator that trains one by one, takes minutes, or may do so.
ONE_BY_ONE = 1
#: Runs of a method of ours without chance in it: quick ones.
QUICK = 8


def batches(specs: Sequence[RunSpec], source: Source) -> list[list[RunSpec]]:
    """Runs in batches of one family, in the order given.

    All seeds of a fold stay neighbours, so that its trials are prepared once.
    """
    families: dict[str, list[RunSpec]] = {}
    for spec in specs:
        families.setdefault(spec.family, []).append(spec)
    found = []
    for runs in families.values():
        size = _size(runs[0], source)
        found += [runs[i : i + size] for i in range(0, len(runs), size)]
    return found


def _size(spec: RunSpec, source: Source) -> int:
    if offers_together(source.estimator(spec)):
        return TOGETHER
    method = METHODS.get(spec.method)
    quick = method is not None and not method.has_seed and not method.takes_minutes
    return QUICK if quick else ONE_BY_ONE
