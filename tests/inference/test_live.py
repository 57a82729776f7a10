"""LiveDecoder: chunks in, decisions out; gaps, flat electrodes, NaN samples."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdtokens import Recentring, evaluate, load_dataset, make_decoder, train
from spdtokens.datasets import Dataset, Recording
from spdtokens.errors import LiveError
from spdtokens.inference import as_decoder
from spdtokens.inference.live import (
    LEAST,
    MOST,
    Decision,
    Event,
    LiveDecoder,
    Piece,
    Timeline,
    judge,
)
from spdtokens.runtime import Decoder
from tests.inference.standin import StandIn, noise

DECODER = StandIn()
N = DECODER.n_samples


def fed(
    X: np.ndarray, stamps: np.ndarray | None = None, cuts: tuple[int, ...] = (), step: float = 0.1
) -> tuple[list[Decision], list[Event], LiveDecoder]:
    events: list[Event] = []
    live = LiveDecoder(DECODER, step, tell=events.append)
    decisions: list[Decision] = []
    for a, b in pairwise([0, *cuts, X.shape[1]]):
        decisions += live.feed(X[:, a:b], None if stamps is None else stamps[a:b])
    return decisions, events, live


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_decisions_are_those_of_the_windows() -> None:
    X = noise(20)
    assert not any(d.learnt for d in LiveDecoder(StandIn(recentring=None)).feed(X))
    decisions, events, live = fed(X)
    assert [d.sample for d in decisions] == list(range(N, 2001, 10))
    assert events == []
    session = DECODER.session()
    for d in decisions:
        learn = (d.sample - N) % N == 0
        expected = session.probabilities(X[:, d.sample - N : d.sample], learn=learn)
        np.testing.assert_array_equal(d.probabilities, expected)
        assert d.label == DECODER.classes[expected.argmax()]
        assert d.learnt == learn
    assert live.decided == len(decisions)
    assert live.learnt == len(session.learnt) == 40


@pytest.mark.parametrize("step", [N / DECODER.sfreq, 0.13])
def test_windows_that_are_learnt_from_never_overlap(step: float) -> None:
    decisions, _, _ = fed(noise(30), step=step)
    learnt = np.array([d.sample for d in decisions if d.learnt])
    assert np.diff(learnt).min() >= N
    assert len(learnt) == len(decisions) if step > 0.13 else len(learnt) > 20


@settings(max_examples=25)
@given(
    cuts=st.lists(st.integers(1, 899), max_size=40, unique=True).map(sorted),
    lost=st.integers(1, 40),
    late=st.sampled_from([0.0, 0.004, 0.03]),
)
def test_chunk_sizes_change_no_decision(cuts: list[int], lost: int, late: float) -> None:
    X = noise(9)
    X[0, 400] = np.nan
    X[2, 600:700] = 1.0
    stamps = late_chunks(900, 16, late, DECODER.sfreq)
    stamps[250:] += lost / DECODER.sfreq
    stamps[800:] += 0.01
    (one, told, _), (other, told_too, _) = fed(X, stamps), fed(X, stamps, tuple(cuts))
    assert told == told_too
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.probabilities, b.probabilities)
        alike = {"probabilities": None, "seconds": 0.0}
        assert replace(a, **alike) == replace(b, **alike)


def test_a_window_never_spans_a_gap() -> None:
    X, stamps = noise(10), np.arange(1000) / DECODER.sfreq
    stamps[333:] += 1.7
    decisions, events, live = fed(X, stamps)
    assert kinds(events) == ["gap"]
    assert "170 samples" in events[0].text
    assert (live.lost, live.gaps) == (170, 1)
    ends = [d.sample for d in decisions]
    assert ends == [*range(N, 334, 10), *range(333 + N, 1001, 10)]
    assert [d.sample for d in decisions if d.learnt][-1] > 900  # still learning
    after = next(d for d in decisions if d.sample == 333 + N)
    assert after.learnt
    assert after.time == stamps[333 + N - 1]


def test_a_clock_set_back_and_a_small_loss() -> None:
    stamps = np.arange(1000) / DECODER.sfreq
    stamps[333:] += 0.01
    decisions, events, live = fed(noise(10), stamps)
    assert kinds(events) == ["slip"]
    assert live.lost == 1
    assert len(decisions) == 96
    stamps[500:] -= 50
    _, events, live = fed(noise(10), stamps)
    assert "gap" in kinds(events)
    assert (live.gaps, live.lost) == (1, 1)


@pytest.mark.parametrize("factor", [0.5, 0.96, 1.0, 1.04, 2.0])
def test_a_rate_that_is_not_the_announced_one(factor: float) -> None:
    """It is reported; beyond 10 %, decisions are withheld."""
    stamps = 1e5 + np.arange(4000) / (DECODER.sfreq * factor)
    decisions, events, live = fed(noise(40), stamps)
    told = [event for event in events if event.kind == "rate"]
    assert len(told) == (factor != 1)
    assert all(f"{factor * DECODER.sfreq:g} Hz" in event.text for event in told)
    after = [d for d in decisions if d.sample > 11 * DECODER.sfreq]
    wrong = abs(factor - 1) > 0.1
    assert all((d.probabilities is None) == wrong for d in after)
    right = stamps[-1] + np.arange(1, 4001) / DECODER.sfreq
    live.feed(noise(40), right)
    assert [event.kind for event in events].count("rate") == 2 * (
        factor != 1
    )  # and when it is right again
    live.restart()  # another sender, whose rate is unknown
    assert live.feed(noise(5), 2e5 + np.arange(500) / DECODER.sfreq)[0].probabilities is not None


def test_a_flat_electrode_is_named_and_survived() -> None:
    X = noise(10)
    X[2, 300:600] = 4.2
    decisions, events, live = fed(X)
    assert kinds(events) == ["bad channel", "withheld", "decides again", "good channel"]
    assert events[0].text == "C4: flat"
    assert "C4 flat" in events[1].text
    withheld = [d.sample for d in decisions if d.probabilities is None]
    assert withheld == list(range(350, 601, 10))
    assert all(d.withheld and not d.label and not d.learnt for d in decisions if d.withheld)
    assert live.withheld == len(withheld)
    assert live.decided == len(decisions) - len(withheld)
    X[2] = np.where(np.arange(1000) // 40 % 2, 4.2, noise(10)[2])  # flat at times
    _, events, _ = fed(X)
    assert kinds(events).count("bad channel") == 1  # reported once


def test_samples_that_are_no_numbers() -> None:
    X = noise(10)
    X[0, 400] = np.nan
    X[3, 402] = np.inf
    decisions, events, live = fed(X)
    withheld = [d.sample for d in decisions if d.probabilities is None]
    assert withheld == list(range(410, 451, 10))
    told = next(event for event in events if event.kind == "withheld")
    assert "C3, Pz" in told.text
    assert kinds(events)[-1] in ("decides again", "good channel")
    assert live.quality == [""] * 4


def test_errors_of_the_program_are_not_hidden() -> None:
    class Wrong(StandIn):
        def session(self) -> Any:
            return None

    with pytest.raises(AttributeError):
        LiveDecoder(Wrong(), 0.1).feed(noise(1))


def test_signals_in_another_unit_are_not_decided_on() -> None:
    live = LiveDecoder(StandIn(about={"amplitude": 1.0}), 0.1)
    (decision,) = live.feed(noise(0.5))
    assert decision.label
    live.restart()
    (decision,) = live.feed(1e-6 * noise(0.5))
    assert "e-07 times as large" in decision.withheld
    assert "--unit" in decision.withheld


def test_restart_fills_the_window_anew_and_keeps_what_was_learnt() -> None:
    live = LiveDecoder(DECODER, 0.1)
    X = noise(3)
    live.feed(X, np.arange(300) / DECODER.sfreq)
    before = live.learnt
    live.restart()
    assert live.filled == 0
    assert live.feed(X[:, : N - 1], 1e6 + np.arange(N - 1) / DECODER.sfreq) == []
    (decision,) = live.feed(X[:, N - 1 : N], [1e6 + (N - 1) / DECODER.sfreq])
    assert decision.learnt
    assert live.learnt == before + 1
    assert live.gaps == 0


def test_wrong_models_options_and_chunks() -> None:
    with pytest.raises(LiveError, match="covariance"):
        LiveDecoder(StandIn(sfreq=None))
    for options in ({"step": 0.0}, {"step": 0.001}, {"step": np.nan}, {"gap": 0.0}):
        with pytest.raises(LiveError, match=next(iter(options))):
            LiveDecoder(DECODER, **options)
    live = LiveDecoder(DECODER)
    with pytest.raises(LiveError, match="4 channels"):
        live.feed(np.zeros((3, 10)))
    with pytest.raises(LiveError, match=r"10 samples .*9"):
        live.feed(np.zeros((4, 10)), np.arange(9))
    with pytest.raises(LiveError, match=r"10 samples .*9"):
        live.feed(np.zeros((4, 10)), [*range(9), np.nan])


def test_an_hour_in_constant_memory() -> None:
    """22 channels at 250 Hz, two decisions per second, one gap and one bad channel per minute."""
    events: list[str] = []
    live = LiveDecoder(recentred_decoder(), 0.5, tell=lambda event: events.append(event.kind))
    minute = np.random.default_rng(0).standard_normal((22, 15_000))
    minute[7, 9000:9900] = 0.0
    n, size, objects, memory = 0, 50, [], []
    for i in range(60):
        for start in range(0, 15_000, size):
            stamps = (i * 0.5 + (n + np.arange(size)) / 250.0) + 3e5
            live.feed(minute[:, start : start + size], stamps)
            n += size
        events.clear()
        objects.append(sys.getallocatedblocks())
        memory.append(psutil.Process().memory_info().rss)
    assert (live.taken, live.gaps, live.lost) == (900_000, 59, 59 * 125)
    assert live.decided > 60 * 100
    assert live.withheld > 0
    # One window kept for each decision would be 600 MB, one number 7000 objects.
    assert objects[-1] - objects[9] < 2000, objects
    assert memory[-1] - memory[9] < 4e6, memory


def recentred_decoder() -> Decoder:
    """Fit a decoder with recentring, for 22 channels and windows of 2 s."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 22, 500)), np.arange(40) % 2
    X[y == 1, 0] *= 1.5
    model = make_decoder("mi", sfreq=250.0)
    model.steps.insert(1, ("recentring", Recentring()))
    names = tuple(f"E{i}" for i in range(22))
    return as_decoder(model.fit(X, y), classes=("rest", "move"), ch_names=names)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Load the first trials of two sessions."""
    whole = load_dataset("sim-mi")

    @cache  # simulation takes most of the time
    def read(subject: str, session: str) -> Recording:
        r = whole.load(subject, session)
        parts = {name: getattr(r, name)[:48] for name in ("X", "y", "run", "group")}
        return replace(r, **parts, about={})

    return replace(whole, name="sim-mi-begin", index={"1": ("1", "2")}, read=read)


@pytest.mark.parametrize("recentre", [True, False], ids=["recentred", "plain"])
def test_trials_in_a_row_are_decided_on_as_evaluated(dataset: Dataset, recentre: bool) -> None:
    """With access ``online`` if the model recentres."""
    found = evaluate(
        dataset,
        ["recommended"],
        "session-transfer",
        access="online" if recentre else "train",
        alignment="recentre" if recentre else "none",
    )
    (result,) = found.results["recommended"]
    decoder = train(replace(dataset, index={"1": ("1",)}), recentre=recentre).decoder
    second = dataset.load("1", "2")
    live = LiveDecoder(decoder, decoder.n_samples / 250.0)
    X = np.concatenate(list(second.X), axis=1)
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(np.arange(1, X.shape[1]), 200, replace=False))
    decisions = [d for chunk in np.split(X, cuts, axis=1) for d in live.feed(chunk)]
    probabilities = np.array([d.probabilities for d in decisions])
    np.testing.assert_array_equal(result.y, second.y)
    np.testing.assert_allclose(probabilities, result.probabilities, rtol=0, atol=1e-9)
    assert [d.label for d in decisions] == [
        dataset.classes[i] for i in result.probabilities.argmax(1)
    ]
    assert all(d.learnt == recentre for d in decisions)
    assert result.test["accuracy"] > 0.4  # above chance


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
    words = ["", "flat", "clipped", "huge", "noisy", "weak", "not a number", "", ""]
    assert judge(unit * X) == words
    assert judge(np.zeros((2, 50))) == ["flat", "flat"]
    assert judge(np.full((1, 50), np.nan)) == ["not a number"]


SFREQ = 250.0


def pieces(stamps: np.ndarray, timeline: Timeline | None = None) -> list[Piece]:
    return list((timeline or Timeline(SFREQ)).pieces(stamps))


def gaps(found: list[Piece]) -> list[tuple[int, int]]:
    return [(p.start, round(p.gap * SFREQ)) for p in found if p.gap is not None]


def without(lost: Any, n: int = 5000, start: float = 1e5) -> np.ndarray:
    """Return exact time stamps of a stream that lost samples."""
    return start + np.setdiff1d(np.arange(n), lost) / SFREQ


def late_chunks(n: int, size: int, most: float, sfreq: float = SFREQ) -> np.ndarray:
    """Return time stamps of chunks that are up to ``most`` seconds late."""
    late = np.random.default_rng(0).uniform(0, most, -(-n // size))
    return 1e5 + np.arange(n) / sfreq + np.repeat(late, size)[:n]


EXACT = without(range(0))


@pytest.mark.parametrize(
    ("stamps", "tolerance", "expected", "slipped"),
    [
        pytest.param(EXACT, None, [], 0, id="exact"),
        pytest.param(without(range(2000, 2010)), None, [(2000, 10)], 0, id="small gap"),
        pytest.param(without(range(1003, 2500)), None, [(1003, 1497)], 0, id="large gap"),
        pytest.param(without(range(3, 90)), None, [(3, 87)], 0, id="early gap"),
        pytest.param(without(range(700, 701)), 0.003, [(700, 1)], 0, id="strict"),
        pytest.param(without(range(700, 800)), 1.0, [], 100, id="tolerant"),
        pytest.param(late_chunks(30_000, 16, 0.003), None, [], 3, id="late"),
        pytest.param(late_chunks(30_000, 16, 0.018), None, [], 3, id="later"),
        pytest.param(late_chunks(30_000, 16, 0.06), None, [], 3, id="latest"),
        pytest.param(1e5 + 1.0002 * (EXACT - 1e5), None, [], 0, id="drift of 200 ppm"),
    ],
)
def test_gaps_are_found_where_they_are(
    stamps: np.ndarray, tolerance: float | None, expected: list[tuple[int, int]], slipped: int
) -> None:
    timeline = Timeline(SFREQ, tolerance)
    found = pieces(stamps, timeline)
    assert gaps(found) == expected
    assert [p.start for p in found[1:]] == [p.stop for p in found[:-1]]
    assert (found[0].start, found[-1].stop) == (0, len(stamps))
    assert timeline.slipped <= slipped


@pytest.mark.parametrize("k", [1, 2, 4])
def test_small_losses_are_found_within_two_seconds_and_add_up(k: int) -> None:
    timeline = Timeline(SFREQ)
    begins = np.arange(900, 20_000, 1700)
    lost = (begins[:, None] + np.arange(k)).ravel()
    found = pieces(without(lost, 21_000), timeline)
    assert not gaps(found)
    assert [p.slip for p in found if p.slip] == [k] * len(begins)
    ends = np.array([p.stop for p in found if p.slip]) + k * np.arange(1, len(begins) + 1)
    assert ((begins < ends) & (ends <= begins + k + 2 * SFREQ)).all()
    assert timeline.slipped == len(lost)


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


@pytest.mark.parametrize("rate", [245.0, 250.0, 260.0, 500.0])
@pytest.mark.parametrize("chunk", [1, 25])
@pytest.mark.parametrize("late", [0.0, 0.03])
def test_the_rate_is_that_of_the_stamps(rate: float, chunk: int, late: float) -> None:
    """For time stamps per sample or per chunk, with and without jitter."""
    n = np.arange(int(32 * SFREQ))
    stamps = 1e5 + n // chunk * chunk / rate
    stamps += np.random.default_rng(0).uniform(0, late, len(n))[n // chunk]
    found = [p.rate for p in pieces(stamps) if p.rate is not None]
    assert len(found) == 3  # every ten seconds, after the first second
    np.testing.assert_allclose(found, rate, rtol=0.003 + late / 10)


def test_the_rate_is_not_measured_across_a_gap() -> None:
    found = pieces(without(range(4000, 6000), n=9000))
    assert [p.stop for p in found if p.rate is not None] == [2750, 4000 + 2750]
    np.testing.assert_allclose([p.rate for p in found if p.rate], SFREQ)
