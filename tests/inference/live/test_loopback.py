"""Over real LSL: what is published is what is computed on the same windows; faults are survived."""

from __future__ import annotations

import gc
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdtokens.errors import LiveError
from spdtokens.inference.live import Event, LiveDecoder
from spdtokens.inference.live.lsl import Wanted, described_units
from spdtokens.inference.live.outlet import ProbabilityOutlet
from spdtokens.inference.live.playable import Playable
from spdtokens.inference.live.replay import Replay
from spdtokens.inference.live.run import JsonLines, Limits, LiveRun
from spdtokens.inference.live.status import Status
from tests.inference.live.standin import StandIn, noise

lsl = pytest.importorskip("mne_lsl.lsl")
# Decides only on signals in its unit.
DECODER = StandIn(sfreq=250.0, n_samples=100, about={"amplitude": 1.0})
WAIT = 60.0


class Seen:
    """A display that keeps what it is shown, and lets others wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.decisions: list[Any] = []
        self._news = threading.Condition()

    def decision(self, status: Status) -> None:
        with self._news:
            self.decisions.append(status.decision)
            self._news.notify_all()

    def event(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def refresh(self, status: Status) -> None:
        pass

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(condition, WAIT), (self.kinds, len(self.decisions))

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def next(self, kind: str) -> Callable[[], bool]:
        """Whether there was another event of a kind since this was asked for."""
        before = self.kinds.count(kind)
        return lambda: self.kinds.count(kind) > before

    def last(self, kind: str) -> Event:
        return [event for event in self.events if event.kind == kind][-1]


class Sender:
    """An outlet at a hand: sends when told, with the stamps it is told."""

    def __init__(self, name: str, ch_names: tuple[str, ...], sfreq: float = 250.0) -> None:
        info = lsl.StreamInfo(name, "EEG", len(ch_names), sfreq, "float32", f"{name}-{id(self)}")
        if ch_names[0]:
            info.set_channel_names(list(ch_names))
        self.outlet = lsl.StreamOutlet(info)
        self.sfreq, self.n_channels = sfreq, len(ch_names)
        self.time = lsl.local_clock()
        self._rng = np.random.default_rng(3)

    def send(self, n: int = 25, change: Callable[[np.ndarray], None] = lambda _: None) -> None:
        X = self._rng.standard_normal((n, self.n_channels)).astype(np.float32)
        change(X)
        self.outlet.push_chunk(X, self.time + np.arange(n) / self.sfreq)
        self.time += n / self.sfreq

    def until(self, condition: Callable[[], bool], seen: Seen, **options: Any) -> None:
        """Go on sending until something has happened."""
        for _ in range(int(WAIT / 0.02)):
            if condition():
                return
            self.send(**options)
            with seen._news:
                seen._news.wait(0.02)
        raise AssertionError(f"did not happen; events: {seen.kinds}")

    def end(self) -> None:
        self.outlet._del()


class Runner:
    """A live run in a thread."""

    def __init__(self, name: str, **options: Any) -> None:
        self.seen, self.error = Seen(), None
        self.log = options.pop("log", None)
        given, unit = options.pop("given", None), options.pop("unit_in_volts", None)
        stream = options.pop("stream", name)
        self.wanted = Wanted(stream, DECODER.ch_names, DECODER.sfreq, given, unit)
        self.live = LiveDecoder(DECODER, 0.1, tell=lambda event: self.run.event(event))
        self.status = Status(self.live, "model", name)
        outlet = ProbabilityOutlet(f"{name}-out", DECODER.classes, {"model": "stand-in"})
        self.run = LiveRun(self.live, self.wanted, self.status, self.seen, outlet, self.log)
        self._thread = threading.Thread(target=self._go, args=(Limits(timeout=WAIT, **options),))

    def _go(self, limits: Limits) -> None:
        try:
            with self.run:
                self.run.run(limits)
        except Exception as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


@contextmanager
def running(name: str, **options: Any) -> Iterator[Runner]:
    runner = Runner(name, **options)
    runner._thread.start()
    try:
        yield runner
    finally:
        runner.run.stop()
        runner.join()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed sooner than by default, and nothing is waited for at the end."""
    monkeypatch.setattr("spdtokens.inference.live.replay.LINGER", 0.0)
    monkeypatch.setattr("spdtokens.inference.live.run.SILENT", 0.5)
    monkeypatch.setattr("spdtokens.inference.live.run.SEARCH", 0.5)


@pytest.mark.usefixtures("soon")
def test_what_is_published_is_what_is_computed(name: str, tmp_path: Path) -> None:
    """Replay to stream to its output stream, and the same windows by hand."""
    X = noise(6, DECODER)
    order = [3, 0, 2, 1]  # the stream has the channels in another order, and one more
    names = (*(DECODER.ch_names[i].lower() for i in order), "EOG")
    playable = Playable(
        "noise", 1e-6 * np.vstack([X[order], X[:1]]), 250.0, names, "volts", [(100, "left")]
    )
    player = Replay(playable, name, speed=4)
    log = tmp_path / "log.jsonl"
    with running(name, decisions=50, log=JsonLines(log), unit_in_volts=1e-6) as runner:
        (info,) = lsl.resolve_streams(WAIT, name=f"{name}-out", minimum=1)
        inlet = lsl.StreamInlet(info)
        inlet.open_stream(WAIT)
        full = inlet.get_sinfo(WAIT)
        assert player.wait(WAIT)
        runner.seen.wait_for(lambda: "connected" in runner.seen.kinds)
        player.play()
        runner.join()
    player.close()
    assert full.get_channel_names() == list(DECODER.classes)
    assert (full.dtype, full.sfreq) == (np.float32, 0.0)
    assert "stand-in" in full.as_xml
    published, stamps = inlet.pull_chunk(1.0, 50)
    expected, _ = _by_hand(X)
    assert len(published) == 50
    np.testing.assert_allclose(published, expected[:50], atol=1e-6)
    np.testing.assert_allclose(np.diff(stamps), 0.1, atol=1e-9)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    logged = [line["probabilities"] for line in lines if "probabilities" in line]
    np.testing.assert_allclose([list(p.values()) for p in logged], expected[:50], rtol=1e-9)
    assert runner.live.lost == 0


def _by_hand(X: np.ndarray) -> tuple[np.ndarray, list[int]]:
    session, ends = DECODER.session(), list(range(100, X.shape[1] + 1, 25))
    return np.array(
        [session.probabilities(X[:, e - 100 : e], learn=e % 100 == 0) for e in ends]
    ), ends


@pytest.mark.usefixtures("soon")
def test_faults_are_told_and_survived(name: str) -> None:
    """A gap, silence, a flat electrode, no numbers; a sender that ends and comes back changed."""
    names = DECODER.ch_names
    sender = Sender(name, names)
    with running(name) as runner:
        seen, live = runner.seen, runner.live
        sender.until(lambda: live.decided > 2, seen)

        gap, before = seen.next("gap"), live.lost
        sender.time += 0.5
        sender.until(gap, seen)
        assert live.lost == before + 125
        decided = live.decided
        sender.until(lambda: live.decided > decided, seen)

        def flat(X: np.ndarray) -> None:
            X[:, 2] = 1.5

        withheld, again = seen.next("withheld"), seen.next("decides again")
        sender.until(withheld, seen, change=flat)
        assert "C4 flat" in seen.last("withheld").text
        sender.until(again, seen)

        def no_number(X: np.ndarray) -> None:
            X[0, 0] = np.nan

        withheld, again = seen.next("withheld"), seen.next("decides again")
        sender.send(change=no_number)
        sender.until(withheld, seen)
        assert "C3: samples of the window are not numbers" in seen.last("withheld").text
        sender.until(again, seen)

        silent, again = seen.next("silent"), seen.next("samples again")
        seen.wait_for(silent)
        sender.until(again, seen)

        lost = seen.next("lost")
        sender.end()
        seen.wait_for(lost)

        refused = seen.next("refused")
        less = Sender(name, names[:3])
        seen.wait_for(refused)
        assert "lacks 1 of them: Pz" in seen.last("refused").text
        less.end()

        refused = seen.next("refused")
        rate = Sender(name, names, sfreq=500.0)
        seen.wait_for(refused)
        assert "500 samples a second" in seen.last("refused").text
        rate.end()

        connected = seen.next("connected")
        more = Sender(name, ("EOG", *names[::-1]))
        seen.wait_for(connected)
        decided, learnt = live.decided, live.learnt
        more.until(lambda: live.decided > decided, seen)
        assert live.learnt > learnt > 0
        assert runner.status.reconnections == 1
        more.end()


@pytest.mark.usefixtures("soon")
def test_a_new_sender_while_the_old_one_is_silent(name: str) -> None:
    old = Sender(name, DECODER.ch_names)
    with running(name) as runner:
        old.until(lambda: runner.live.decided > 0, runner.seen)
        runner.seen.wait_for(lambda: "silent" in runner.seen.kinds)
        connected = runner.seen.next("connected")
        new = Sender(name, DECODER.ch_names)
        runner.seen.wait_for(connected)
        decided = runner.live.decided
        new.until(lambda: runner.live.decided > decided, runner.seen)
    assert "lost" not in runner.seen.kinds


def test_a_stream_for_another_model_is_refused(name: str) -> None:
    sender = Sender(name, ("", "", "", ""))
    with pytest.raises(LiveError, match=r"does not name its 4 channels.*--channels C3,Cz,C4,Pz"):  # noqa: SIM117
        with running(name) as runner:
            runner.join()
    sender.time -= 5.0
    with running(name, given=DECODER.ch_names) as runner:
        sender.until(lambda: runner.live.decided > 0, runner.seen)
    assert "s behind the signal" in runner.seen.last("behind").text


@pytest.mark.parametrize(
    ("units", "volts"),
    [
        (["microvolts", "uV", "µV"], [1e-6, 1e-6]),
        (["V", "-6", "mV"], [1.0, 1e-3]),
        (["uV", "uV", "none"], None),
        (None, None),
    ],
)
def test_units_are_read(units: list[str] | None, volts: list[float] | None) -> None:
    info = lsl.StreamInfo("units", "EEG", 3, 250.0, "float32", "units")
    if units is not None:
        info.set_channel_names(list("abc"))
        info._set_channel_info(units, "ch_unit")
    found = described_units(info, [0, 2])
    assert (None if found is None else found.ravel().tolist()) == volts


def channels_of(stream: str | None, timeout: float = 0.5) -> int:
    """How many channels the stream has that a run connects to."""
    live, seen = LiveDecoder(DECODER, tell=lambda _: None), Seen()
    wanted = Wanted(stream, DECODER.ch_names, 250.0)
    with LiveRun(live, wanted, Status(live, "", ""), seen) as run:
        run.run(Limits(seconds=0.0, timeout=timeout))
    (found,) = re.findall(r"of its (\d+) channels", seen.last("connected").text)
    return int(found)


def sender_of(name: str, n_channels: int) -> Sender:
    more = n_channels - len(DECODER.ch_names)
    return Sender(name, (*DECODER.ch_names, *(f"EOG{i}" for i in range(more))))


@pytest.mark.usefixtures("soon")
def test_several_streams_are_listed_and_none_is_taken(name: str) -> None:
    """The search ends with the first answer: that one was taken."""
    senders = [sender_of(f"{name}-{n}", n) for n in (5, 6)]
    own = ProbabilityOutlet(f"{name}-out", DECODER.classes, {})
    with pytest.raises(LiveError) as caught:
        channels_of(None)
    told = str(caught.value)
    for n in (5, 6):
        line = rf"'{name}-{n}' \(type EEG, {n} channels, 250 Hz, source id '{name}-{n}-\d+'"
        assert re.search(line, told)
    assert "--stream" in told
    assert f"{name}-out" not in told
    assert channels_of(f"{name}-6") == 6
    for sender in senders:
        sender.end()
    own.close()


@pytest.mark.usefixtures("soon")
def test_streams_of_one_name_are_told_apart_by_their_source(name: str) -> None:
    senders = [sender_of(name, n) for n in (5, 6)]
    with pytest.raises(LiveError, match=rf"more than one stream '{name}'") as caught:
        channels_of(name)
    ids = re.findall(r"source id '([^']+)'", str(caught.value))
    (offered,) = re.findall(r"--stream (\S+)\.", str(caught.value))
    (n_channels,) = re.findall(rf"(\d) channels, 250 Hz, source id '{offered}'", str(caught.value))
    assert len(ids) == 2
    assert channels_of(offered) == int(n_channels)
    for sender in senders:
        sender.end()


@pytest.mark.usefixtures("soon")
def test_our_own_output_is_not_read(name: str) -> None:
    own = ProbabilityOutlet(name, DECODER.classes, {})
    with pytest.raises(LiveError, match=rf"No stream '{name}'") as caught:
        channels_of(name)
    assert "type Probabilities" not in str(caught.value)
    sender = sender_of(name, 5)
    assert channels_of(name) == 5
    sender.end()
    own.close()


def test_a_stream_that_is_named_is_not_waited_for(name: str) -> None:
    sender = sender_of(name, 5)
    begin = time.monotonic()
    assert channels_of(name, timeout=60.0) == 5
    assert time.monotonic() - begin < 20
    sender.end()


@pytest.mark.usefixtures("soon")
def test_another_stream_does_not_take_the_place_of_a_lost_one(name: str) -> None:
    gc.collect()  # streams of other tests
    sender = Sender(name, DECODER.ch_names)
    with running(name, stream=None) as runner:
        sender.until(lambda: runner.live.decided > 0, runner.seen)
        lost = runner.seen.next("lost")
        other = Sender(f"{name}-other", DECODER.ch_names)
        sender.end()
        runner.seen.wait_for(lost)
        connected = runner.seen.next("connected")
        again = Sender(name, (*DECODER.ch_names, "EOG"))
        runner.seen.wait_for(connected)
        assert f"'{name}' on" in runner.seen.last("connected").text
        assert "of its 5 channels" in runner.seen.last("connected").text
    other.end()
    again.end()


def test_no_stream(name: str) -> None:
    other = Sender(f"{name}-other", DECODER.ch_names)
    live = LiveDecoder(DECODER)
    wanted = Wanted(name, DECODER.ch_names, 250.0)
    with (
        pytest.raises(LiveError, match=rf"No stream '{name}' within 1 s\. There are.*{name}-other"),
        LiveRun(live, wanted, Status(live, "", ""), Seen()) as run,
    ):
        run.run(Limits(timeout=1.0))
    other.end()


@pytest.mark.usefixtures("soon")
def test_markers_are_played(name: str) -> None:
    X = noise(1, DECODER)
    markers = [(0, "left"), (100, "feet"), (249, "right")]
    playable = Playable("noise", X, 250.0, DECODER.ch_names, "volts", markers)
    player = Replay(playable, name, speed=10, chunk=0.05)
    inlets = []
    for stream in (name, f"{name}-markers"):
        (info,) = lsl.resolve_streams(WAIT, name=stream, minimum=1)
        inlets.append(lsl.StreamInlet(info))
        inlets[-1].open_stream(WAIT)
    player.play()
    signal, stamps = (np.array(x) for x in inlets[0].pull_chunk(WAIT, 250))
    texts, when = inlets[1].pull_chunk(WAIT, 3)
    player.close()
    np.testing.assert_array_equal(signal.T, X)
    np.testing.assert_allclose(np.diff(stamps), 0.004, atol=1e-9)
    assert [text for (text,) in texts] == ["left", "feet", "right"]
    np.testing.assert_allclose(when, stamps[[0, 100, 249]], atol=1e-9)
    assert inlets[0].get_sinfo(WAIT).get_channel_units() == ["volts"] * 4
