"""Ring, electrodes, channels, counters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from spdtokens.errors import LiveError
from spdtokens.inference.live import LiveDecoder
from spdtokens.inference.live.channels import pick
from spdtokens.inference.live.latencies import Latencies, Rate
from spdtokens.inference.live.quality import judge, listed
from spdtokens.inference.live.ring import Ring
from tests.inference.live.standin import StandIn


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=60), clear=st.integers(0, 60))
def test_the_ring_holds_the_last_samples(sizes: list[int], clear: int) -> None:
    ring, seen = Ring(2, 7), np.empty((2, 0))
    for i, n in enumerate(sizes):
        if i == clear:
            ring.clear()
            seen = seen[:, :0]
        chunk = 100.0 * i + np.arange(2 * n).reshape(2, n)
        ring.append(chunk)
        seen = np.concatenate([seen, chunk], 1)
        assert ring.filled == seen.shape[1]
        np.testing.assert_array_equal(ring.last(5), seen[:, -5:])
        if ring.filled >= 7:
            np.testing.assert_array_equal(ring.window(), seen[:, -7:])


def test_a_window_is_a_copy() -> None:
    ring = Ring(1, 2)
    ring.append(np.ones((1, 2)))
    ring.window()[:] = 5
    assert (ring.window() == 1).all()


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e9])
def test_electrodes_are_judged_beside_each_other(unit: float) -> None:
    rng = np.random.default_rng(1)
    X = np.cumsum(rng.standard_normal((9, 250)), 1) + 1e3
    X[1] = 7.0
    X[2] = np.clip(X[2], *np.quantile(X[2], [0.2, 0.8]))
    X[3] *= 60
    X[4] += 20 * rng.standard_normal(250)
    X[5] = 1e3 + 1e-3 * (X[5] - 1e3)
    X[6, 3] = np.nan
    assert judge(unit * X) == [
        "",
        "flat",
        "clipped",
        "huge",
        "noisy",
        "weak",
        "not a number",
        "",
        "",
    ]


def test_all_dead() -> None:
    assert judge(np.zeros((2, 50))) == ["flat", "flat"]
    assert judge(np.full((1, 50), np.nan)) == ["not a number"]


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdefgh"), 3) == "a, b, c and 5 more"


def test_channels_are_found_by_name_whatever_case_and_order() -> None:
    assert pick(["C3", "FCz"], ["fcz ", "EOG", "EEG C3-REF"], 3) == [2, 0]


def test_missing_channels_are_named() -> None:
    with pytest.raises(LiveError, match=r"lacks 2 of them: C4, Pz\. It has: C3, EOG.*--channels"):
        pick(["C3", "C4", "Pz"], ["C3", "EOG"], 2)


def test_channels_can_be_named() -> None:
    assert pick(["C3", "C4"], None, 3, ["C4", "-", "C3"]) == [2, 0]
    assert pick(["C3", "C4"], ["x", "y"], 2, ["C3", "C4"]) == [0, 1]
    with pytest.raises(LiveError, match="names 2 channels, and the stream has 3"):
        pick(["C3", "C4"], None, 3, ["C4", "C3"])


def test_a_stream_without_names() -> None:
    for names in (None, [None, None]):
        with pytest.raises(LiveError, match=r"does not name its 2 channels.*--channels C3,C4"):
            pick(["C3", "C4"], names, 2)


def test_a_name_that_is_there_twice() -> None:
    with pytest.raises(LiveError, match="more than one channel called C3"):
        pick(["C3"], ["C3", "c3"], 2)


def test_latencies_and_rate() -> None:
    times = Latencies(most=100)
    assert times.milliseconds() is None
    for i in range(1000):
        times.add(i / 1e3)
    median, high = times.milliseconds()
    assert median == pytest.approx(949.5)
    assert high == pytest.approx(998.01)
    rate = Rate()
    assert rate.hertz() is None
    for i in range(20_000):
        rate.add(i * 0.004, 1)
    assert rate.hertz() == pytest.approx(250, rel=0.02)
    assert len(rate._marks) < 120


def test_decisions_are_made_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two, and other programs on the cores, a decision took 15 ms instead of 2."""
    pytest.importorskip("mne_lsl")
    from spdtokens.inference.live.lsl import Wanted
    from spdtokens.inference.live.run import LiveRun
    from spdtokens.inference.live.status import Status

    seen: list[int] = []

    def looked(*_: object) -> None:
        seen.extend(pool["num_threads"] for pool in threadpool_info())

    monkeypatch.setattr(LiveRun, "_run", looked)
    decoder = StandIn()
    live = LiveDecoder(decoder, 0.1)
    LiveRun(live, Wanted("x", decoder.ch_names, 100.0), Status(live, "m", "x"), None).run()
    assert seen
    assert set(seen) == {1}
