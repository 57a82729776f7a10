"""The core: chunks in, decisions out; gaps, flat electrodes and samples that are no numbers."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdtokens import Recentring, make_decoder
from spdtokens.errors import LiveError
from spdtokens.inference.convert import as_decoder
from spdtokens.inference.live import Decision, Event, LiveDecoder
from spdtokens.runtime import Decoder
from tests.inference.live.standin import StandIn, noise

DECODER = StandIn()
N = DECODER.n_samples


def fed(
    X: np.ndarray, stamps: np.ndarray | None = None, cuts: tuple[int, ...] = (), step: float = 0.1
) -> tuple[list[Decision], list[Event], LiveDecoder]:
    events: list[Event] = []
    live = LiveDecoder(DECODER, step, tell=events.append)
    decisions: list[Decision] = []
    bounds = [0, *cuts, X.shape[1]]
    for a, b in pairwise(bounds):
        decisions += live.feed(X[:, a:b], None if stamps is None else stamps[a:b])
    return decisions, events, live


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_decisions_are_those_of_the_windows() -> None:
    X = noise(20)
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


def test_with_steps_of_a_window_every_window_is_learnt_from() -> None:
    decisions, _, _ = fed(noise(20), step=N / DECODER.sfreq)
    assert [d.sample for d in decisions] == list(range(N, 2001, N))
    assert all(d.learnt for d in decisions)


def test_windows_that_are_learnt_from_never_overlap() -> None:
    decisions, _, _ = fed(noise(30), step=0.13)
    learnt = np.array([d.sample for d in decisions if d.learnt])
    assert len(learnt) > 20
    assert np.diff(learnt).min() >= N


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 899), max_size=40, unique=True).map(sorted))
def test_chunk_sizes_change_no_decision(cuts: list[int]) -> None:
    X = noise(9)
    X[0, 400] = np.nan
    X[2, 600:700] = 1.0
    stamps = 7.0 + np.arange(900) / DECODER.sfreq
    stamps[250:] += 0.31
    stamps[800:] += 0.01
    (one, told, _), (other, told_too, _) = fed(X, stamps), fed(X, stamps, tuple(cuts))
    assert told == told_too
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.sample, a.time, a.label, a.withheld, a.learnt) == (
            b.sample,
            b.time,
            b.label,
            b.withheld,
            b.learnt,
        )
        np.testing.assert_array_equal(a.probabilities, b.probabilities)


def test_a_window_never_spans_a_gap() -> None:
    X, stamps = noise(10), np.arange(1000) / DECODER.sfreq
    stamps[333:] += 1.7
    decisions, events, live = fed(X, stamps)
    assert kinds(events) == ["gap"]
    assert "170 samples" in events[0].text
    assert (live.lost, live.gaps) == (170, 1)
    ends = [d.sample for d in decisions]
    assert ends == [*range(N, 334, 10), *range(333 + N, 1001, 10)]
    assert [d.sample for d in decisions if d.learnt][-1] > 900  # goes on learning
    after = next(d for d in decisions if d.sample == 333 + N)
    assert after.learnt
    assert after.time == stamps[333 + N - 1]


def test_a_small_loss_is_counted_and_told() -> None:
    stamps = np.arange(1000) / DECODER.sfreq
    stamps[333:] += 0.01
    decisions, events, live = fed(noise(10), stamps)
    assert kinds(events) == ["slip"]
    assert live.lost == 1
    assert len(decisions) == 96


@pytest.mark.parametrize("factor", [0.5, 0.96, 1.0, 1.04, 2.0])
def test_a_rate_that_is_not_the_announced_one(factor: float) -> None:
    """Told; and beyond a tenth, where frequencies are other ones, nothing is decided."""
    stamps = 1e5 + np.arange(4000) / (DECODER.sfreq * factor)
    decisions, events, live = fed(noise(40), stamps)
    told = [event for event in events if event.kind == "rate"]
    assert len(told) == (factor != 1)
    assert all(f"{factor * DECODER.sfreq:g} Hz" in event.text for event in told)
    after = [d for d in decisions if d.sample > 11 * DECODER.sfreq]
    wrong = abs(factor - 1) > 0.1
    assert all((d.probabilities is None) == wrong for d in after)
    live.restart()  # another sender, of which nothing is known yet
    assert live.feed(noise(5), 2e5 + np.arange(500) / DECODER.sfreq)[0].probabilities is not None


def test_a_flat_electrode_is_named_and_survived() -> None:
    X = noise(10)
    X[2, 300:600] = 4.2
    decisions, events, live = fed(X)
    assert kinds(events) == ["bad channel", "withheld", "decides again", "good channel"]
    assert events[0].text == "C4: flat"
    assert "C4 flat for a whole window" in events[1].text
    withheld = [d.sample for d in decisions if d.probabilities is None]
    assert withheld == list(range(350, 601, 10))
    assert all(d.withheld and not d.label and not d.learnt for d in decisions if d.withheld)
    assert live.withheld == len(withheld)
    assert live.decided == len(decisions) - len(withheld)


def test_samples_that_are_no_numbers() -> None:
    X = noise(10)
    X[0, 400] = np.nan
    X[3, 402] = np.inf
    decisions, events, live = fed(X)
    withheld = [d.sample for d in decisions if d.probabilities is None]
    assert withheld == list(range(410, 451, 10))
    told = next(event for event in events if event.kind == "withheld")
    assert "C3, Pz: samples of the window are not numbers" in told.text
    assert kinds(events)[-1] in ("decides again", "good channel")
    assert live.quality == [""] * 4


def test_a_model_that_gives_no_numbers_decides_nothing() -> None:
    class Broken(StandIn):
        def session(self):
            class Session:
                def probabilities(self, window, learn=True):  # noqa: ARG002
                    return np.full(3, np.nan)

            return Session()

    live = LiveDecoder(Broken(), 0.1)
    (decision,) = live.feed(noise(0.5))
    assert decision.probabilities is None
    assert "no numbers" in decision.withheld


def test_errors_of_the_program_are_not_hidden() -> None:
    class Wrong(StandIn):
        def session(self):
            class Session:
                def probabilities(self, window, learn=True):  # noqa: ARG002
                    raise TypeError("a mistake in the code")

            return Session()

    with pytest.raises(TypeError):
        LiveDecoder(Wrong(), 0.1).feed(noise(1))


def test_signals_in_another_unit_are_not_decided_on() -> None:
    live = LiveDecoder(StandIn(about={"amplitude": 1.0}), 0.1)
    (decision,) = live.feed(noise(0.5))
    assert decision.label
    live.restart()
    (decision,) = live.feed(1e-6 * noise(0.5))
    assert "e-07 times as large" in decision.withheld
    assert "--unit" in decision.withheld


def test_a_model_that_does_not_recentre_learns_nothing() -> None:
    live = LiveDecoder(StandIn(recentring=None), 0.1)
    assert not any(d.learnt for d in live.feed(noise(3)))
    assert live.learnt == 0


def test_a_model_of_covariances_is_refused() -> None:
    with pytest.raises(LiveError, match="covariance matrices"):
        LiveDecoder(StandIn(sfreq=None))


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


@pytest.mark.parametrize("step", [0.0, 0.001, np.nan])
def test_a_step_of_nothing_is_refused(step: float) -> None:
    with pytest.raises(LiveError, match="step"):
        LiveDecoder(DECODER, step)


def test_wrong_chunks_are_refused() -> None:
    live = LiveDecoder(DECODER)
    with pytest.raises(LiveError, match="4 channels"):
        live.feed(np.zeros((3, 10)))
    with pytest.raises(LiveError, match="time stamps"):
        live.feed(np.zeros((4, 10)), np.arange(9))


def test_an_hour_in_constant_memory() -> None:
    """22 channels at 250 Hz, a decision each half second, with a gap and a bad channel a minute."""
    decoder = recentred_decoder()
    events = []
    live = LiveDecoder(decoder, 0.5, tell=lambda event: events.append(event.kind))
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
    assert live.taken == 900_000
    assert live.gaps == 59
    assert live.lost == 59 * 125
    assert live.decided > 60 * 100
    assert live.withheld > 0
    # One window kept for each decision would be 600 MB, one number 7000 objects.
    assert objects[-1] - objects[9] < 2000, objects
    assert memory[-1] - memory[9] < 4e6, memory


def recentred_decoder() -> Decoder:
    """A real one, of 22 channels and windows of 2 s, that follows the mean of its session."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 22, 500)), np.arange(40) % 2
    X[y == 1, 0] *= 1.5
    model = make_decoder("mi", sfreq=250.0)
    model.steps.insert(1, ("recentring", Recentring()))
    names = tuple(f"E{i}" for i in range(22))
    return as_decoder(model.fit(X, y), classes=("rest", "move"), ch_names=names)
