from __future__ import annotations

import time

import numpy as np
import torch
from threadpoolctl import threadpool_info

from spdtokens.bench import embed
from spdtokens.bench.timing import fastest_peer, interleaved_times, thread_count


def test_all_ways_compute_the_same_tokens() -> None:
    C = embed._covariances(5, 6, torch.float64)
    for function in embed.EMBEDDINGS:
        ways = embed.torch_peers(function)
        assert set(ways) == {"spdtokens", "torch eigh", "pyRiemann (torch)", "spd_learn"}
        expected = ways["torch eigh"](C)
        for tokens in ways.values():
            torch.testing.assert_close(tokens(C), expected, rtol=1e-9, atol=1e-9)


def test_rows(monkeypatch) -> None:
    monkeypatch.setattr(embed, "SHAPES", ((12, 4), (10, 3)))
    monkeypatch.setattr("spdtokens.bench.timing.SETTLE_SECONDS", 0.0)
    rows = list(embed.bench_embed(repeats=3, threads=1))
    assert len(rows) == 16
    for row in rows:
        peers = set(row["milliseconds"]) - {"spdtokens"}
        assert len(peers) == (4 if row["pass"] == "forward" else 3)
        assert row["fastest_peer"] in peers
        assert row["ratio"] > 0


def test_times_tell_slow_from_fast() -> None:
    times = interleaved_times({"slow": lambda: time.sleep(0.02), "fast": lambda: None}, 3)
    assert times["slow"].shape == (3,)
    assert times["slow"].min() >= 20 > times["fast"].max()


def test_ratio_is_taken_within_rounds() -> None:
    """Twice as fast in every round, though the machine slows down tenfold in between."""
    times = {
        "ours": np.array([1.0, 10.0, 1.0]),
        "peer": np.array([2.0, 20.0, 2.0]),
        "other": np.array([3.0, 30.0, 3.0]),
    }
    assert fastest_peer(times, "ours") == ("peer", 0.5)


def test_thread_count_holds_for_all_and_is_restored() -> None:
    before = torch.get_num_threads()
    with thread_count(1):
        assert torch.get_num_threads() == 1
        assert all(pool["num_threads"] == 1 for pool in threadpool_info())
    assert torch.get_num_threads() == before
