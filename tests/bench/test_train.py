from __future__ import annotations

import pytest
import torch

from spdtokens.bench import train
from spdtokens.bench.obvious import ObviousTransformer, log_token
from spdtokens.bench.show import train_tables
from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.geometry import get_embedding


def test_the_peer_computes_the_same() -> None:
    """A peer that does less work would flatter us."""
    model = SPDTokenTransformer(36, 3, 4).eval()
    peer = ObviousTransformer.like(model)
    tokens = torch.randn(5, 3, 36)
    torch.testing.assert_close(peer.eval()(tokens), model(tokens), atol=1e-5, rtol=1e-5)
    C = train.Shape(trials=6, channels=8).covariances().double()
    torch.testing.assert_close(log_token(C), get_embedding("log_euclidean").to_token(C))


def test_bench_reports_what_it_promises(monkeypatch) -> None:
    small = train.Shape(trials=20, channels=4)
    monkeypatch.setattr(train.Shape, "__init__", _shrunk(train.Shape.__init__, small))
    monkeypatch.setattr(
        train, "memory_per_run", lambda _: {"state_megabytes": 1, "peak_megabytes": 2}
    )
    monkeypatch.setattr(train, "growth", lambda rounds: iter([_growth_row(rounds)]))
    result = train.bench_train(rounds=3, runs=3, threads=1)
    assert [row["tokens"] for row in result["comparisons"]] == [1, 3]
    for row in result["comparisons"]:
        times = row["milliseconds_per_run_epoch"]
        assert row["speedup_vs_obvious"] > 0
        assert row["speedup_vs_cached"] > 0
        assert set(times) == {"obvious", "cached", "spdtokens"}
        assert row["memory"]["peak_megabytes"] == 2
    assert [row["channels"] for row in result["geometric_attention"]] == [8, 22, 56]
    tables = list(train_tables(result))
    assert [table.row_count for table in tables] == [2, 3, 1]


def test_memory_is_that_of_the_state_and_more() -> None:
    memory = train.memory_per_run(train.Shape(runs=12, trials=32, channels=8))
    # Three numbers a weight (itself and Adam's two), four bytes each, but for queries and keys.
    parameters = sum(p.numel() for p in SPDTokenTransformer(36, 1, 4).parameters())
    assert memory["state_megabytes"] == pytest.approx(
        4e-6 * (3 * parameters - 2 * 198_144), rel=0.01
    )
    assert 0.7 * memory["state_megabytes"] < memory["peak_megabytes"] < 30


def _shrunk(init, small):
    def shrunk(self, runs=45, trials=252, channels=22, tokens=1) -> None:  # noqa: ARG001
        init(self, runs, small.trials, channels if channels != 22 else small.channels, tokens)

    return shrunk


def _growth_row(rounds: int) -> dict:
    shape = train.Shape(runs=2)
    training = train.start_training(shape, train.Recipe(epochs=rounds + 1))
    milliseconds = train.epoch_milliseconds(training, rounds)
    return {
        "varied": "runs",
        **vars(shape),
        "milliseconds_per_run_epoch": milliseconds,
        "microseconds_per_trial": 1e3 * milliseconds / shape.trials,
    }
