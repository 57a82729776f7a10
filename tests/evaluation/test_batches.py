from __future__ import annotations

from spdtokens.evaluation.plan import ONE_BY_ONE, QUICK, TOGETHER, batches
from tests.evaluation.made import planned, signals


def test_batches_are_of_one_family_and_complete() -> None:
    methods = ("token-euclidean", "ts-lr", "eegnet", "acm-ts-svm")
    index = {str(i): ("a", "b") for i in range(9)}
    specs, source = planned(signals(index, n=8), *methods, seeds=(1, 2, 3))
    found = batches(specs[::-1], source)
    assert sorted(s.key for batch in found for s in batch) == sorted(s.key for s in specs)
    limits = {"token-euclidean": TOGETHER, "ts-lr": QUICK, "eegnet": ONE_BY_ONE}
    limits["acm-ts-svm"] = ONE_BY_ONE  # minutes that an interruption would lose
    for batch in found:
        assert len({s.family for s in batch}) == 1
        assert len(batch) <= limits[batch[0].method]
    assert len(found) == 2 + 2 + 27 + 9
    assert batches([], source) == []
    in_order = [s for batch in batches(specs, source) for s in batch]
    assert in_order == specs  # seeds of a fold stay neighbours
