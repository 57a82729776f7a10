from __future__ import annotations

import pytest

from spdtokens.bench.recommended import bench_recommended
from spdtokens.bench.show import recommended_table
from spdtokens.classifiers.nn.networks import TrialShape


def test_ratios_are_those_of_the_times() -> None:
    told: list[str] = []
    found = bench_recommended(
        10, 1, shape=TrialShape(6, 2, 128, 64.0), n_trials=24, epochs=1, tell=told.append
    )
    assert set(found["train_seconds"]) == {"recommended", "ts-lr", "matt"}
    for peer in ("ts-lr", "matt"):
        expected = found["train_seconds"]["recommended"] / found["train_seconds"][peer]
        assert found["train_ratio"][peer] == pytest.approx(expected)
        assert found["decode_ratio"][peer] > 0
    assert all(ms > 0 for ms in found["decode_milliseconds"].values())
    assert told[0] == "training recommended"
    assert recommended_table(found).row_count == 3
