from __future__ import annotations

import time

import pytest
import torch

from spdtokens.bench.show import threads_table
from spdtokens.bench.threads import bench_threads, thread_cases


def test_the_ratio_is_that_of_several_threads_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdtokens.bench.timing.SETTLE_SECONDS", 0.0)
    seconds = {1: 0.01, 2: 0.03}
    before = torch.get_num_threads()
    found = bench_threads(
        3,
        2,
        {
            "slower": lambda: time.sleep(seconds[torch.get_num_threads()]),
            "alike": lambda: time.sleep(0.02),
        },
    )
    slower, alike = found["rows"]
    assert slower["ratio"] == pytest.approx(3, rel=0.5)
    assert slower["milliseconds"]["several"] > slower["milliseconds"]["one"]
    assert alike["ratio"] == pytest.approx(1, rel=0.5)
    assert found["worst_ratio"] == max(slower["ratio"], alike["ratio"])
    assert torch.get_num_threads() == before
    assert threads_table(found).row_count == 2


def test_cases_are_calls_that_work() -> None:
    cases = thread_cases((24, 3, 100), (8, 4, 100), (24, 6))
    assert len(cases) == 6
    for case in cases.values():
        case()
