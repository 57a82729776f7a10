from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spdtokens.bench.live import (
    OURS,
    PEER,
    RECENTRED,
    Peer,
    _core_times,
    _ratios,
    bench_live,
    trained,
)
from spdtokens.bench.show import live_table
from spdtokens.datasets import Recording, load_dataset


def part(recording: Recording, n: int = 96) -> Recording:
    parts = {name: getattr(recording, name)[:n] for name in ("X", "y", "run", "group")}
    return replace(recording, **parts)


def test_the_ways_are_decoders_that_decode() -> None:
    """A comparison with something that guesses would be worthless."""
    dataset = load_dataset("sim-mi")
    first, second = (part(dataset.load("1", session)) for session in dataset.sessions("1"))
    ways = {
        OURS: trained(dataset, first, recentre=False),
        RECENTRED: trained(dataset, first, recentre=True),
        PEER: Peer.trained(dataset, first),
    }
    for way in ways.values():
        assert way.n_samples == first.X.shape[-1]
        assert way.classes == dataset.classes
    for name in (RECENTRED, PEER):
        session = ways[name].session()
        found = np.array([session.probabilities(x) for x in second.X[:60]]).argmax(1)
        assert (found == second.y[:60]).mean() > 0.4
    times = _core_times(ways, second.X, 50)
    ratios = _ratios(times)
    assert ratios[OURS] == pytest.approx(np.median(times[OURS]) / np.median(times[PEER]))
    row = {"median": 1.0, "p99": 2.0, "decisions": 3}
    found = {
        **dict.fromkeys(("core", "loopback"), dict.fromkeys(ways, row)),
        **dict.fromkeys(("core_ratio", "loopback_ratio"), ratios),
        "channels": 22,
        "sfreq": 250.0,
        "window_seconds": 5.0,
        "goal_milliseconds": 10.0,
    }
    assert live_table(found).row_count == 3


@pytest.mark.slow
def test_over_lsl() -> None:
    pytest.importorskip("mne_lsl")
    found = bench_live(1.0, 50)
    assert set(found["loopback"]) == {OURS, RECENTRED, PEER}
    for times in found["loopback"].values():
        assert times["decisions"] > 20
        assert 0 < times["median"] <= times["p99"]
