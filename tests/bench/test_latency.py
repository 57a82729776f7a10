from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from spdtokens.bench import latency
from spdtokens.bench.latency import OURS, PEER
from spdtokens.bench.timing import thread_count


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products: on a busy machine two threads wait for each other and are slower."""
    with thread_count(1):
        yield


@pytest.mark.parametrize("tokens", [1, 3])
def test_both_ways_agree(tokens: int) -> None:
    ways = latency.candidates(tokens, channels=8)
    assert set(ways) == {OURS, PEER}
    ours, theirs = ways[OURS](), ways[PEER]()
    assert ours.shape == theirs.shape == (latency.CLASSES,)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert np.ptp(theirs) > 1e-3  # the classes are told apart: agreement says something


def test_ways_that_differ_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        latency.FoldedClassifier, "probabilities", lambda *_: np.full(latency.CLASSES, 0.25)
    )
    with pytest.raises(RuntimeError, match="The two ways differ by"):
        latency.candidates(1, channels=4)


def test_the_peer_is_on_torchs_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain layers would call the feed-forward part from Python."""

    def slow(*_: object) -> None:
        raise AssertionError("the slow path")

    ways = latency.candidates(3, channels=4)
    monkeypatch.setattr(nn.TransformerEncoderLayer, "_ff_block", slow)
    assert ways[PEER]().shape == (latency.CLASSES,)
    with pytest.raises(AssertionError, match="the slow path"):
        nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)(torch.zeros(1, 1, 8))


def test_every_call_is_timed_and_the_ways_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "CALLS", 3)
    monkeypatch.setattr(latency, "WARM_UP", 1)
    called = ""

    def way(letter: str) -> object:
        def run() -> None:
            nonlocal called
            called += letter

        return run

    times = latency.call_times({"a": way("a"), "b": way("b")}, rounds=2)
    assert called == "bbbbaaaa" + "aaaabbbb"
    assert times["a"].shape == (2, 3)
    assert (times["a"] > 0).all()


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as fast in every round, though the machine slows down in between."""
    ours = np.array([[1.0, 1.0, 2.0], [5.0, 5.0, 5.0], [1.0, 1.0, 1.0]])
    monkeypatch.setattr(latency, "candidates", lambda _: {})
    monkeypatch.setattr(latency, "call_times", lambda *_: {OURS: ours, PEER: 10 * ours})
    result = latency.bench_latency(repeats=1001)
    assert result["threads"] == 1
    assert result["calls"] == 1050
    assert [row["tokens"] for row in result["rows"]] == [1, 3]
    row = result["rows"][0]
    assert row["channels"] == 22
    assert row["speedup"] == 10
    assert row["milliseconds"][OURS] == {"median": 1.0, "p99": 5.0}
    assert row["milliseconds"][PEER]["median"] == 10.0


def test_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "CALLS", 5)
    result = latency.bench_latency(repeats=20, tokens=(1,))
    (row,) = result["rows"]
    for times in row["milliseconds"].values():
        assert 0 < times["median"] <= times["p99"]
    # It is several times faster; this much holds on any machine, however busy.
    assert row["speedup"] > 1
