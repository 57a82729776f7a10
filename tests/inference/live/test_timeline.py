"""Gaps are found, late chunks are not taken for gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.inference.live.timeline import LEAST, MOST, Piece, Timeline

SFREQ = 250.0


def pieces(stamps: np.ndarray, timeline: Timeline | None = None, cuts: tuple = ()) -> list[Piece]:
    """Of a stream cut into chunks, with places in the whole stream."""
    timeline = timeline or Timeline(SFREQ)
    found, begin = [], 0
    for chunk in np.split(stamps, cuts):
        found += [
            replace(p, start=begin + p.start, stop=begin + p.stop) for p in timeline.pieces(chunk)
        ]
        begin += len(chunk)
    return found


def gaps(found: list[Piece]) -> list[tuple[int, int]]:
    return [(p.start, round(p.gap * SFREQ)) for p in found if p.gap is not None]


def without(lost: range, n: int = 5000, start: float = 1e5) -> np.ndarray:
    """Exact stamps of a stream that lost samples."""
    return start + np.setdiff1d(np.arange(n), lost) / SFREQ


@pytest.mark.parametrize("lost", [range(2000, 2010), range(1003, 2500), range(3, 90)])
def test_a_gap_is_found_where_it_is(lost: range) -> None:
    found = pieces(without(lost))
    assert gaps(found) == [(lost.start, len(lost))]
    assert [p.start for p in found[1:]] == [p.stop for p in found[:-1]]
    assert (found[0].start, found[-1].stop) == (0, 5000 - len(lost))


def test_a_regular_stream_has_none() -> None:
    found = pieces(without(range(0)))
    assert not gaps(found)
    assert sum(p.slip for p in found) == 0


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_small_loss_is_found_within_two_seconds(k: int) -> None:
    timeline = Timeline(SFREQ)
    found = pieces(without(range(2100, 2100 + k)), timeline)
    assert not gaps(found)
    assert [p.slip for p in found if p.slip] == [k]
    assert timeline.slipped == k
    where = next(p.stop for p in found if p.slip)
    assert 2100 < where <= 2100 + 2 * SFREQ


def test_small_losses_add_up() -> None:
    timeline = Timeline(SFREQ)
    lost = np.arange(900, 20_000, 1700)
    n = 21_000  # the last is found in the second after it
    pieces(1e5 + np.setdiff1d(np.arange(n), lost) / SFREQ, timeline)
    assert timeline.slipped == len(lost)


def late_chunks(n: int, size: int, most: float, seed: int = 0) -> np.ndarray:
    """Chunks stamped when they came, up to ``most`` seconds late."""
    late = np.random.default_rng(seed).uniform(0, most, -(-n // size))
    return 1e5 + np.arange(n) / SFREQ + np.repeat(late, size)[:n]


@pytest.mark.parametrize("most", [0.003, 0.018, 0.06])
def test_lateness_is_no_gap(most: float) -> None:
    timeline = Timeline(SFREQ)
    assert not gaps(pieces(late_chunks(30_000, 16, most), timeline))
    assert timeline.slipped <= 3  # of 30 000


def test_a_gap_among_late_chunks() -> None:
    stamps = late_chunks(10_000, 16, 0.02)
    stamps[6000:] += 0.5
    ((where, lost),) = gaps(pieces(stamps))
    assert where == 6000
    assert abs(lost - 125) <= 5


def test_tolerance_is_learnt_and_forgotten() -> None:
    timeline = Timeline(SFREQ)
    assert timeline.tolerance == MOST
    pieces(late_chunks(5000, 16, 0.05), timeline)
    assert 0.08 < timeline.tolerance <= 0.15
    timeline.begin_anew()
    pieces(without(range(0), 60_000, 2e5), timeline)
    assert timeline.tolerance == LEAST


def test_tolerance_can_be_given() -> None:
    assert gaps(pieces(without(range(700, 701)), Timeline(SFREQ, 0.003))) == [(700, 1)]
    assert not gaps(pieces(without(range(700, 800)), Timeline(SFREQ, 1.0)))


def test_a_clock_set_back_is_a_gap() -> None:
    stamps = without(range(0), 1000)
    stamps[400:] -= 5000
    ((where, lost),) = gaps(pieces(stamps))
    assert where == 400
    assert lost == -5000 * SFREQ


@pytest.mark.parametrize("rate", [245.0, 250.0, 260.0, 500.0])
@pytest.mark.parametrize("chunk", [1, 25])
@pytest.mark.parametrize("late", [0.0, 0.03])
def test_the_rate_is_that_of_the_stamps(rate: float, chunk: int, late: float) -> None:
    """Of streams that stamp each sample, or a chunk when it comes, more or less late."""
    n = np.arange(int(32 * SFREQ))
    stamps = 1e5 + n // chunk * chunk / rate
    stamps += np.random.default_rng(0).uniform(0, late, len(n))[n // chunk]
    found = [p.rate for p in pieces(stamps) if p.rate is not None]
    assert len(found) == 3  # ten seconds each, after the first
    np.testing.assert_allclose(found, rate, rtol=0.003 + late / 10)


def test_the_rate_is_not_measured_across_a_gap() -> None:
    found = pieces(without(range(4000, 6000), n=9000))
    assert [p.stop for p in found if p.rate is not None] == [2750, 4000 + 2750]
    np.testing.assert_allclose([p.rate for p in found if p.rate], SFREQ)


def test_drifting_clocks_lose_nothing() -> None:
    timeline = Timeline(SFREQ)
    pieces(1e5 + np.arange(200_000) / SFREQ * (1 + 200e-6), timeline)  # 200 ppm
    assert timeline.slipped == 0


@given(
    cuts=st.lists(st.integers(1, 2999), max_size=30, unique=True).map(sorted),
    lost=st.integers(1, 40),
    at=st.integers(5, 2900),
    late=st.sampled_from([0.0, 0.004, 0.03]),
)
def test_chunks_do_not_matter(cuts: list[int], lost: int, at: int, late: float) -> None:
    stamps = late_chunks(3000, 16, late)
    stamps[at:] += lost / SFREQ
    whole, cut = pieces(stamps), pieces(stamps, cuts=tuple(cuts))

    def told(found: list[Piece]) -> list[tuple]:
        return [(p.start, p.gap) for p in found if p.gap is not None] + [
            (p.stop, p.slip) for p in found if p.slip
        ]

    assert told(whole) == told(cut)
