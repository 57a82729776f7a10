"""The commands, in processes of their own: replay to stream, Ctrl-C, errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.inference import save_model
from spdtokens.inference.live.decoder import LiveDecoder
from spdtokens.inference.live.view import picture
from tests.inference.made import NAMES, SFREQ, made, trials

pytest.importorskip("mne_lsl")
WAIT = 120
COMMAND = [sys.executable, "-c", "from spdtokens.cli import app; app()"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.spdt"
    save_model(made("imagery").decoder, path)
    return path


def start(*arguments: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *arguments], text=True, **pipes)


def test_replay_to_stream_until_ctrl_c(name: str, model: Path, tmp_path: Path) -> None:
    X, y = trials(seed=5)
    recording = tmp_path / "trials.npz"
    np.savez(recording, X=X, y=y, sfreq=SFREQ, ch_names=np.array(NAMES))
    log = tmp_path / "log.jsonl"
    replay = start("replay", str(recording), "--name", name, "--wait", f"{WAIT}", "--speed", "4")
    options = ("--stream", name, "--timeout", f"{WAIT}", "--step", "0.3")
    stream = start("stream", str(model), *options, "--json-lines", str(log))
    try:
        lines = [stream.stdout.readline() for _ in range(20)]
        stream.send_signal(signal.SIGINT)
        _, told = stream.communicate(timeout=WAIT)
        assert stream.returncode == 0, told
        replay.send_signal(signal.SIGTERM)
        _, played = replay.communicate(timeout=WAIT)
        assert replay.returncode == 0, played
    finally:
        stream.kill()
        replay.kill()
    assert "connected: connected to" in told
    assert "decisions (left" in told
    assert "40 markers" in played
    # From the first sample on: the replay had waited for a listener.
    live = LiveDecoder(made("imagery").decoder, 0.3)
    expected = live.feed(np.concatenate(list(X), axis=1))
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    decided = [line for line in logged if "decision" in line]
    assert len(decided) >= 20
    for got, wanted, line in zip(decided, expected, lines, strict=False):
        assert got["sample"] == wanted.sample
        assert got["decision"] == wanted.label
        assert f" s  {wanted.label}  |  left {wanted.probabilities[0]:.3f}" in line
        values = list(got["probabilities"].values())
        np.testing.assert_allclose(values, wanted.probabilities, rtol=1e-9)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 1
    return result.stderr


def test_no_stream_is_told_with_what_there_is(name: str, model: Path) -> None:
    from mne_lsl.lsl import StreamInfo, StreamOutlet

    outlet = StreamOutlet(StreamInfo(f"{name}-other", "EEG", 8, 500.0, "float32", "amp"))
    told = run("stream", str(model), "--stream", name, "--timeout", "1")
    assert f"Error: No stream '{name}' within 1 s" in told
    assert f"'{name}-other' (type EEG, 8 channels, 500 Hz" in told
    assert "--stream" in told
    told = run("stream", str(model), "--stream", f"{name}-other", "--timeout", "60")
    assert "500 samples a second, and the model decodes 100" in told
    outlet._del()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--step", "0"), "step of 0 s"),
        (("--unit", "inch"), "no unit 'inch'"),
        (("--gap", "-1"), "gap of -1 s"),
        (("--json-lines", "/no/such/folder/x"), "No such file or directory"),
    ],
)
def test_wrong_options(model: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in run("stream", str(model), *arguments)


def test_wrong_files(tmp_path: Path) -> None:
    assert "nothing.spdt" in run("stream", str(tmp_path / "nothing.spdt"))
    assert "no such folder or file" in run("replay", str(tmp_path / "nothing"))


@pytest.mark.parametrize("option", [("--speed", "0"), ("--chunk", "-1")])
def test_wrong_replays(tmp_path: Path, option: tuple[str, str]) -> None:
    X, y = trials()
    path = tmp_path / "trials.npz"
    np.savez(path, X=X, y=y, sfreq=SFREQ, ch_names=np.array(NAMES))
    assert "above zero" in run("replay", str(path), *option)


def test_without_the_extra(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdtokens.inference.live.lsl.is_installed", lambda _: False)
    for arguments in (("stream", str(model)), ("replay", "sim-mi")):
        assert "pip install 'spdtokens[live]'" in run(*arguments)


def test_the_view_tells_what_matters() -> None:
    from rich.console import Console

    from spdtokens.inference.live.status import Status

    def shown() -> str:
        console = Console(width=110, record=True, file=StringIO())
        console.print(picture(status))
        return console.export_text()

    live = LiveDecoder(made("imagery").decoder, 0.5, tell=lambda event: status.events.append(event))
    status = Status(live, "model.spdt", "stream", "out")
    X = np.concatenate(list(trials()[0]), axis=1)
    live.feed(X[:, :30])
    assert "filling the window: 0.3 of 1.5 s" in shown()
    for decision in live.feed(X[:, 30:200]):
        status.take(decision, 0.002)
    assert status.decision.label in shown()
    assert "latency 2.00 ms" in shown()
    assert "none: the model was trained without" in shown()
    assert "all 4 good" in shown()
    X[1, 200:400] = 0.0
    for decision in live.feed(X[:, 200:400]):
        status.take(decision, None)
    assert "withheld: Cz flat for a whole window" in shown()
    assert "3 of 4 good; flat: Cz" in shown()
    assert "Cz: flat" in shown()
