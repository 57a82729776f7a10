from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from spdtokens.bench import latency
from spdtokens.bench.latency import NUMPY, ONNX, PEER
from spdtokens.bench.timing import thread_count


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products: on a busy machine two threads wait for each other and are slower."""
    with thread_count(1):
        yield


@pytest.mark.parametrize("tokens", [1, 3])
def test_all_ways_agree(tokens: int) -> None:
    ways = latency.candidates(tokens, channels=8)
    assert list(ways) == [NUMPY, ONNX, PEER]
    theirs = ways[PEER]()
    for name in (NUMPY, ONNX):
        ours = ways[name]()
        assert ours.shape == theirs.shape == (latency.CLASSES,)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert np.ptp(theirs) > 1e-3  # the classes are told apart: agreement says something


@pytest.mark.parametrize("name", [NUMPY, ONNX])
def test_ways_that_differ_are_not_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(predict_proba=lambda C: np.full((len(C), latency.CLASSES), 0.25))
    made = latency.decoders
    monkeypatch.setattr(latency, "decoders", lambda *args: made(*args) | {name: wrong})
    with pytest.raises(RuntimeError, match=f"{name} differs by"):
        latency.candidates(1, channels=4)


def test_without_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "is_installed", lambda _: False)
    assert list(latency.candidates(1, channels=4)) == [NUMPY, PEER]


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
    times = {NUMPY: ours, ONNX: 2 * ours, PEER: 10 * ours}
    monkeypatch.setattr(latency, "call_times", lambda *_: times)
    result = latency.bench_latency(repeats=1001)
    assert result["threads"] == 1
    assert result["calls"] == 1050
    assert [row["tokens"] for row in result["rows"]] == [1, 3]
    row = result["rows"][0]
    assert row["channels"] == 22
    assert row["speedup"] == {NUMPY: 10, ONNX: 5}
    assert row["milliseconds"][NUMPY] == {"median": 1.0, "p99": 5.0}
    assert row["milliseconds"][PEER]["median"] == 10.0


def test_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "CALLS", 5)
    result = latency.bench_latency(repeats=20, tokens=(1,))
    (row,) = result["rows"]
    for times in row["milliseconds"].values():
        assert 0 < times["median"] <= times["p99"]
    assert set(row["speedup"]) == {NUMPY, ONNX}
