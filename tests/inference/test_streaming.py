"""Live decoding over LSL: published decisions, faults and reconnections, replay, commands."""

from __future__ import annotations

import gc
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import mne
import numpy as np
import pytest
from rich.console import Console
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.errors import LiveError, UserError
from spdtokens.inference.live import Event, LiveDecoder
from spdtokens.inference.lsl import ProbabilityOutlet, described_units, pick
from spdtokens.inference.replay import Playable, Replay, open_playable
from spdtokens.inference.streaming import Display, LiveRun, View, picture
from tests.inference.helpers import NAMES, SFREQ, made, trials
from tests.inference.standin import StandIn, noise

lsl = pytest.importorskip("mne_lsl.lsl")
# Refuses signals in another unit.
DECODER = StandIn(sfreq=250.0, n_samples=100, about={"amplitude": 1.0}, unit_in_volts=1e-6)
WAIT = 60.0


class Seen(Display):
    """A display that stores events and lets other threads wait for them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.news = threading.Condition()

    def event(self, event: Event) -> None:
        with self.news:
            self.events.append(event)
            self.news.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(condition, WAIT), self.kinds

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def next(self, kind: str) -> Callable[[], bool]:
        """Return a function that tells whether a new event of this kind occurred."""
        before = self.kinds.count(kind)
        return lambda: self.kinds.count(kind) > before

    def last(self, kind: str) -> str:
        return [event.text for event in self.events if event.kind == kind][-1]


class Sender:
    """An outlet controlled by the test."""

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
        """Send until the condition holds."""
        for _ in range(int(WAIT / 0.02)):
            if condition():
                return
            self.send(**options)
            with seen.news:
                seen.news.wait(0.02)
        raise AssertionError(f"did not happen; events: {seen.kinds}")

    def end(self) -> None:
        self.outlet._del()


@contextmanager
def running(
    name: str, stream: str | None = "", decisions: int | None = None, **options: Any
) -> Iterator[tuple[LiveRun, Seen]]:
    """Run in a thread; raise its errors at the end."""
    seen, errors = Seen(), []
    options = {"out_stream": f"{name}-out", "display": seen, "model": "stand-in", **options}
    run = LiveRun(DECODER, name if stream == "" else stream, **options)

    def go() -> None:
        try:
            with run:
                run.run(decisions=decisions, timeout=WAIT)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield run, seen
        if decisions or not seen.events:
            thread.join(WAIT)
    finally:
        run.stop()
        thread.join(WAIT)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delays of the run and the replay."""
    monkeypatch.setattr("spdtokens.inference.replay.LINGER", 0.0)
    monkeypatch.setattr("spdtokens.inference.streaming.SILENT", 0.5)
    monkeypatch.setattr("spdtokens.inference.streaming.SEARCH", 0.5)


@pytest.mark.usefixtures("soon")
def test_what_is_published_is_what_is_computed(name: str, tmp_path: Path) -> None:
    """Compare the output stream of a replay with decisions on the same windows."""
    X = noise(6, DECODER)
    order = [3, 0, 2, 1]  # the stream has the channels in another order, and one more
    names = (*(DECODER.ch_names[i].lower() for i in order), "EOG")
    playable = Playable(
        "noise", 1e-6 * np.vstack([X[order], X[:1]]), 250.0, names, "volts", [(100, "left")]
    )
    player = Replay(playable, name, speed=4)
    log = tmp_path / "log.jsonl"
    with running(name, decisions=50, json_lines=log) as (run, seen):
        (info,) = lsl.resolve_streams(WAIT, name=f"{name}-out", minimum=1)
        inlet = lsl.StreamInlet(info)
        inlet.open_stream(WAIT)
        full = inlet.get_sinfo(WAIT)
        assert player.wait(WAIT)
        seen.wait_for(lambda: "connected" in seen.kinds)
        player.play()
    player.close()
    assert full.get_channel_names() == list(DECODER.classes)
    assert (full.dtype, full.sfreq) == (np.float32, 0.0)
    assert "stand-in" in full.as_xml
    published, stamps = inlet.pull_chunk(1.0, 50)
    session, ends = DECODER.session(), range(100, X.shape[1] + 1, 25)
    expected = [session.probabilities(X[:, e - 100 : e], learn=e % 100 == 0) for e in ends]
    assert len(published) == 50
    np.testing.assert_allclose(published, expected[:50], atol=1e-6)
    np.testing.assert_allclose(np.diff(stamps), 0.1, atol=1e-9)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    logged = [line["probabilities"] for line in lines if "probabilities" in line]
    np.testing.assert_allclose([list(p.values()) for p in logged], expected[:50], rtol=1e-9)
    assert run.live.lost == 0
    assert run.rate == pytest.approx(1000, rel=0.5)  # played four times as fast


@pytest.mark.usefixtures("soon")
def test_faults_are_told_and_survived(name: str) -> None:
    """Gap, silence, flat electrode, NaN samples; a sender that ends and comes back changed."""
    names = DECODER.ch_names
    sender = Sender(name, names)
    with running(name) as (run, seen):
        live = run.live
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
        assert "C4 flat" in seen.last("withheld")
        sender.until(again, seen)

        def no_number(X: np.ndarray) -> None:
            X[0, 0] = np.nan

        withheld, again = seen.next("withheld"), seen.next("decides again")
        sender.send(change=no_number)
        sender.until(withheld, seen)
        assert "C3: " in seen.last("withheld")
        sender.until(again, seen)

        silent, again = seen.next("silent"), seen.next("samples again")
        seen.wait_for(silent)
        sender.until(again, seen)

        lost = seen.next("lost")
        sender.end()
        seen.wait_for(lost)

        for wrong, culprit in (((names[:3],), "Pz"), ((names, 500.0), "500")):
            refused = seen.next("refused")
            other = Sender(name, *wrong)
            seen.wait_for(refused)
            assert culprit in seen.last("refused")
            other.end()

        connected = seen.next("connected")
        more = Sender(name, ("EOG", *names[::-1]))
        seen.wait_for(connected)
        decided, learnt = live.decided, live.learnt
        more.until(lambda: live.decided > decided, seen)
        assert live.learnt > learnt > 0
        assert run.reconnections == 1
        more.end()
    first, second, third = run.summary()
    assert first.startswith(f"{live.decided} decisions (left ")
    assert f"{live.lost} lost" in second
    assert f"{live.learnt} window" in second
    assert "computing" in third


@pytest.mark.usefixtures("soon")
def test_a_new_sender_while_the_old_one_is_silent(name: str) -> None:
    old = Sender(name, DECODER.ch_names)
    with running(name) as (run, seen):
        old.until(lambda: run.live.decided > 0, seen)
        seen.wait_for(lambda: "silent" in seen.kinds)
        connected = seen.next("connected")
        new = Sender(name, DECODER.ch_names)
        seen.wait_for(connected)
        decided = run.live.decided
        new.until(lambda: run.live.decided > decided, seen)
    assert "lost" not in seen.kinds


def test_a_stream_for_another_model_is_refused(name: str) -> None:
    outlet = lsl.StreamOutlet(lsl.StreamInfo(f"{name}-text", "Markers", 1, 0.0, "string", name))
    with pytest.raises(LiveError, match=f"'{name}-text' must contain signals"):
        channels_of(f"{name}-text")
    outlet._del()
    sender = Sender(name, ("", "", "", ""))
    with pytest.raises(LiveError, match="--channels C3,Cz,C4,Pz"):
        channels_of(name, WAIT)
    sender.time -= 5.0
    with running(name, channels=DECODER.ch_names) as (run, seen):
        sender.until(lambda: run.live.decided > 0, seen)
    assert "s behind" in seen.last("behind")


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


@pytest.mark.parametrize(
    ("available", "given", "picks"),
    [
        (["fcz ", "EOG", "EEG C3-REF"], None, [2, 0]),
        (None, ["FCz", "-", "C3"], [2, 0]),
        (["x", "y"], ["C3", "FCz"], [0, 1]),
        (["C3", "EOG"], None, "lacks FCz. It has: C3, EOG.*--channels"),
        (["C3", "c3", "FCz"], None, "more than one C3.*--channels"),
        (None, None, "--channels C3,FCz"),
        ([None, None], None, "--channels C3,FCz"),
        (["C3", "FCz", "EOG"], ["C3", "FCz"], "--channels must name 3"),
    ],
)
def test_channels_are_found_by_name(available: Any, given: Any, picks: Any) -> None:
    """Case and order do not matter; ``picks`` is the result or the error."""
    arguments = (["C3", "FCz"], available, len(available or given or "12"), given)
    if isinstance(picks, list):
        assert pick(*arguments) == picks
        return
    with pytest.raises(LiveError, match=picks):
        pick(*arguments)


def channels_of(stream: str | None, timeout: float = 0.5) -> int:
    """Connect to a stream and return its number of channels."""
    seen = Seen()
    with LiveRun(DECODER, stream, display=seen) as run:
        run.run(seconds=0.0, timeout=timeout)
    (found,) = re.findall(r"of (\d+) channels", seen.last("connected"))
    return int(found)


def sender_of(name: str, n_channels: int) -> Sender:
    more = n_channels - len(DECODER.ch_names)
    return Sender(name, (*DECODER.ch_names, *(f"EOG{i}" for i in range(more))))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("named", [False, True])
def test_several_streams_are_listed_and_none_is_taken(name: str, named: bool) -> None:
    """The error offers a name or a source id that works."""
    gc.collect()  # streams of other tests
    senders = [sender_of(name if named else f"{name}-{n}", n) for n in (5, 6)]
    own = ProbabilityOutlet(f"{name}-out", DECODER.classes, {})
    with pytest.raises(LiveError) as caught:
        channels_of(name if named else None)
    told = str(caught.value)
    (offered,) = re.findall(r"--stream (\S+)\.", told)
    assert f"{name}-out" not in told
    for n in (5, 6):
        (line,) = re.findall(rf"'{name}.* \(type EEG, {n} channels, 250 Hz, source id '.*'", told)
        if f"'{offered}'" in line:
            assert channels_of(offered) == n
    for sender in senders:
        sender.end()
    own.close()


@pytest.mark.usefixtures("soon")
def test_our_own_output_is_not_read(name: str) -> None:
    own = ProbabilityOutlet(name, DECODER.classes, {})
    with pytest.raises(LiveError, match=rf"No stream '{name}'") as caught:
        channels_of(name)
    assert "Probabilities" not in str(caught.value)
    sender = sender_of(name, 5)
    begin = time.monotonic()
    assert channels_of(name, timeout=60.0) == 5
    assert time.monotonic() - begin < 20  # it does not wait for the whole timeout
    sender.end()
    own.close()


@pytest.mark.usefixtures("soon")
def test_another_stream_does_not_take_the_place_of_a_lost_one(name: str) -> None:
    gc.collect()  # streams of other tests
    sender = Sender(name, DECODER.ch_names)
    with running(name, stream=None) as (run, seen):
        sender.until(lambda: run.live.decided > 0, seen)
        lost = seen.next("lost")
        other = Sender(f"{name}-other", DECODER.ch_names)
        sender.end()
        seen.wait_for(lost)
        connected = seen.next("connected")
        again = Sender(name, (*DECODER.ch_names, "EOG"))
        seen.wait_for(connected)
        assert f"'{name}' on" in seen.last("connected")
        assert "of 5 channels" in seen.last("connected")
    other.end()
    again.end()


def test_decisions_are_made_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads on busy cores made decisions seven times slower."""
    seen: list[int] = []

    def looked(run: LiveRun, _: float) -> None:
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        run.stop()

    monkeypatch.setattr(LiveRun, "_connect_first", looked)
    LiveRun(DECODER).run()
    assert seen
    assert set(seen) == {1}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("chunk", [0.05, 0.004])
def test_markers_are_played(name: str, chunk: float) -> None:
    X = noise(1, DECODER)
    markers = [(0, "left"), (100, "feet"), (249, "right")]
    playable = Playable("noise", X, 250.0, DECODER.ch_names, "volts", markers)
    player = Replay(playable, name, speed=10, chunk=chunk)
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


def test_recordings_are_played_with_their_annotations(tmp_path: Path) -> None:
    signal = 1e-5 * np.random.default_rng(0).standard_normal((3, 500))
    info = mne.create_info(["C3", "C4", "eye"], 100.0, ["eeg", "eeg", "eog"])
    raw = mne.io.RawArray(signal, info, verbose="error")
    raw.set_annotations(mne.Annotations([2.5, 1.0], 0.0, ["right", "left"]))
    raw.save(tmp_path / "all_raw.fif", verbose="error")
    raw.crop(0.5, verbose="error").save(tmp_path / "late_raw.fif", verbose="error")
    played = open_playable(str(tmp_path / "all_raw.fif"))
    assert played.markers == [(100, "left"), (250, "right")]
    assert (played.ch_names, played.unit, played.sfreq) == (("C3", "C4"), "volts", 100.0)
    np.testing.assert_allclose(played.X, signal[:2], rtol=1e-6)
    late = open_playable(str(tmp_path / "late_raw.fif"))
    assert late.markers == [(50, "left"), (200, "right")]
    np.testing.assert_allclose(late.X, signal[:2, 50:], rtol=1e-6)
    raw.set_annotations(None).save(tmp_path / "none_raw.fif", verbose="error")
    assert open_playable(str(tmp_path / "none_raw.fif")).markers == []


def test_trials_are_played_one_after_another(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).standard_normal((4, 3, 100)), ["b", "a", "b", "a"]
    np.savez(tmp_path / "x.npz", X=X, y=y, sfreq=100.0, unit_in_volts=1e-6)
    events = np.stack([np.arange(4) * 100, np.zeros(4, int), [2, 1, 2, 1]], 1)
    info = mne.create_info(3, 100.0, "eeg")
    epochs = mne.EpochsArray(X, info, events, event_id={"a": 1, "b": 2}, verbose="error")
    epochs.save(tmp_path / "x-epo.fif", verbose="error")
    for name, unit in (("x.npz", "microvolts"), ("x-epo.fif", "volts")):
        played = open_playable(str(tmp_path / name))
        np.testing.assert_allclose(played.X, np.concatenate(list(X), axis=1), rtol=1e-6)
        assert played.markers == [(0, "b"), (100, "a"), (200, "b"), (300, "a")]
        assert (played.unit, played.seconds) == (unit, 4.0)
    (tmp_path / "folder").mkdir()
    for session in (1, 2):
        np.savez(tmp_path / f"folder/sub-1_ses-{session}.npz", X=session * X, y=y, sfreq=100.0)
    second = open_playable(str(tmp_path / "folder"), session="2")
    np.testing.assert_array_equal(second.X, 2 * np.concatenate(list(X), axis=1))


def test_what_cannot_be_played(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", C=np.stack([np.eye(3)] * 4), y=np.array([0, 1, 0, 1]))
    (tmp_path / "x.edf").write_bytes(b"nothing")
    info = mne.create_info(["eye"], 100.0, "eog")
    raw = mne.io.RawArray(np.zeros((1, 100)), info, verbose="error")
    raw.save(tmp_path / "eye_raw.fif", verbose="error")
    for source, culprit in {
        ("nothing",): "nothing",
        ("c.npz",): "c",
        ("x.edf",): "x.edf",
        ("x.edf", "1"): "--subject",
        ("eye_raw.fif",): "eye_raw.fif",
    }.items():
        with pytest.raises(UserError, match=culprit):
            open_playable(str(tmp_path / source[0]), *source[1:])


# The commands.

COMMAND = [sys.executable, "-c", "from spdtokens.cli import app; app()"]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    X, y = trials(seed=5)
    np.savez(tmp_path / "trials.npz", X=X, y=y, sfreq=SFREQ, ch_names=np.array(NAMES))
    return tmp_path / "trials.npz"


def start(*arguments: object) -> subprocess.Popen[str]:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], text=True, **pipes)


def test_replay_to_stream_until_ctrl_c(name: str, model: Path, recording: Path) -> None:
    log = model.with_name("log.jsonl")
    replay = start("replay", recording, "--name", name, "--wait", 2 * WAIT, "--speed", 4)
    options = ("--stream", name, "--timeout", 2 * WAIT, "--step", 0.3, "--json-lines", log)
    stream = start("stream", model, *options)
    try:
        lines = [stream.stdout.readline() for _ in range(20)]
        stream.send_signal(signal.SIGINT)
        _, told = stream.communicate(timeout=2 * WAIT)
        assert stream.returncode == 0, told
        replay.send_signal(signal.SIGTERM)
        _, played = replay.communicate(timeout=2 * WAIT)
        assert replay.returncode == 0, played
    finally:
        stream.kill()
        replay.kill()
    assert "connected: connected to" in told
    assert "decisions (left" in told
    assert "40 markers" in played
    # From the first sample, since the replay waited for a listener.
    live = LiveDecoder(made("imagery").decoder, 0.3)
    expected = live.feed(np.concatenate(list(trials(seed=5)[0]), axis=1))
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    decided = [line for line in logged if "decision" in line]
    assert len(decided) >= 20
    for got, wanted, line in zip(decided, expected, lines, strict=False):
        assert (got["sample"], got["decision"]) == (wanted.sample, wanted.label)
        assert f" s  {wanted.label}  |  left {wanted.probabilities[0]:.3f}" in line
        values = list(got["probabilities"].values())
        np.testing.assert_allclose(values, wanted.probabilities, rtol=1e-9)


def test_commands_that_end_by_themselves(name: str, model: Path, recording: Path) -> None:
    sender, done = Sender(name, NAMES, SFREQ), threading.Event()

    def send() -> None:
        while not done.wait(0.02):
            sender.send()

    thread = threading.Thread(target=send)
    thread.start()
    arguments = ["stream", str(model), "--stream", name, "--decisions", "3"]
    streamed = CliRunner().invoke(app, arguments)
    done.set()
    thread.join()
    sender.end()
    assert streamed.exit_code == 0, streamed.output
    assert len(re.findall(r"  (left|right)  \|  left \d", streamed.stdout)) == 3
    assert "connected: " in streamed.stderr
    assert "3 decisions (left" in streamed.stderr
    played = CliRunner().invoke(app, ["replay", str(recording), "--name", name, "--speed", "1e3"])
    assert played.exit_code == 0, played.output
    assert "40 markers" in played.stderr


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 1
    return result.stderr


def test_no_stream_is_told_with_what_there_is(name: str, model: Path) -> None:
    other = Sender(f"{name}-other", DECODER.ch_names, 500.0)
    told = refused("stream", model, "--stream", name, "--timeout", 1)
    assert f"Error: No stream '{name}' found within 1 s" in told
    assert f"'{name}-other' (type EEG, 4 channels, 500 Hz" in told
    assert "--stream" in told
    told = refused("stream", model, "--stream", f"{name}-other", "--timeout", 60)
    assert f"'{name}-other' must have 100 Hz" in told
    assert "got 500 Hz" in told
    other.end()


def test_wrong_options(model: Path, recording: Path) -> None:
    for option, value in {
        "--step": "0",
        "--unit": "inch",
        "--gap": "-1",
        "--json-lines": "/no/such/folder/x",
    }.items():
        told = refused("stream", model, option, value)
        assert value in told
        assert option.strip("-") in told or "such" in value
    for option in ("--speed", "--chunk"):
        assert option.strip("-") in refused("replay", recording, option, -1)
    assert "nothing.spdt" in refused("stream", model.with_name("nothing.spdt"))
    assert "nothing" in refused("replay", model.with_name("nothing"))


def test_without_the_extra(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdtokens.inference.lsl.is_installed", lambda _: False)
    for arguments in (("stream", model), ("replay", "sim-mi")):
        assert "pip install 'spdtokens[live]'" in refused(*arguments)


def test_the_view_tells_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdtokens.inference.streaming.REFRESH", WAIT)
    console = Console(width=110, file=StringIO(), force_terminal=True)
    run = LiveRun(made("imagery").decoder, step=0.5, display=View(console), out_stream="out")
    X = np.concatenate(list(trials()[0]), axis=1)

    def shown(stop: int, age: float | None = None) -> str:
        """Feed samples up to ``stop`` and return the view."""
        for decision in run.live.feed(X[:, run.live.taken : stop]):
            run.take(decision, age)
        page = Console(width=110, file=StringIO(), record=True)
        page.print(picture(run))
        return page.export_text()

    assert "filling the window: 0.3 of 1.5 s" in shown(30)
    text = shown(200, 0.002)
    for part in (run.decision.label, "latency 2.00 ms", "none: the model", "all 4 good", "'out'"):
        assert part in text
    X[1, 200:400] = 0.0
    text = shown(400)
    for part in ("withheld: Cz flat", "3 of 4 good; flat: Cz", "Cz: flat"):
        assert part in text
    with run, run.display as view:
        view.refresh(run)
        view.decision(run)
    assert console.file.getvalue().count("3 of 4 good") == 2  # the second update is too early
