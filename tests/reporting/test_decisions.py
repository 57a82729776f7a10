"""Models of a study that was really run, looked into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.experiments.config import read_study
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import Plan, plan_study, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.reporting.decisions import Decision, Unexplained, decisions
from spdtokens.reporting.refit import refit
from spdtokens.reporting.report import Report, make_report
from tests.classifiers.test_explain import CHANNEL, SFREQ, planted_trials

CHANNELS = ("FC3", "FC4", "C3", "Cz", "C4", "POz")
MANY, ONE, LAST = "token-log-euclidean-multiband", "token-bures-wasserstein", "prototypes"
STUDY = """
datasets = ["planted"]
protocols = ["session-transfer"]
seeds = 1
[[methods]]
name = "ts-lr"
[[methods]]
name = "token-log-euclidean-multiband"
epochs = 40
changes = { d_model = 16, n_layers = 1, n_heads = 2, d_ff = 32, learning_rate = 5e-3 }
[[methods]]
name = "token-bures-wasserstein"
epochs = 40
[methods.changes]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
learning_rate = 5e-3
keep = "best"
[[methods]]
name = "token-euclidean"
label = "prototypes"
estimator = "xdawn"
epochs = 1
changes = { d_model = 16, n_layers = 1, n_heads = 2, d_ff = 32 }
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    home = tmp_path_factory.mktemp("study")
    (home / "planted").mkdir()
    for subject in (1, 2, 3):
        for session in (1, 2):
            X, y = planted_trials(48, seed=10 * subject + session)
            np.savez(
                home / "planted" / f"sub-{subject}_ses-{session}.npz",
                X=X, y=y, sfreq=SFREQ, classes=np.array(["quiet", "loud"]),
                ch_names=np.array(CHANNELS),
            )  # fmt: skip
    (home / "study.toml").write_text(STUDY)
    planned = plan_study(read_study(home / "study.toml"))
    with RunStore(home / "study.sqlite") as store:
        run_study(planned, store, InProcess(planned.source))
    return planned


@pytest.fixture(scope="module")
def report(planned: Plan) -> Report:
    lines: list[str] = []
    with RunStore(planned.study.path.with_suffix(".sqlite")) as store:
        report = make_report(planned, store, tell=lines.append)
    assert len(lines) == 3
    assert all(line.startswith("What decides: refitting") for line in lines)
    return report


def test_models_are_those_of_the_study_and_find_what_was_planted(report: Report) -> None:
    found = {one.method: one for one in report.found[0].decisions}
    assert set(found) == {MANY, ONE, LAST}
    many, one = found[MANY], found[ONE]
    assert isinstance(many, Decision)
    assert isinstance(one, Decision)
    for looked in (many, one):
        assert looked.changed == 0
        assert looked.apart < 1e-12
    assert many.names == ("4-8 Hz", "8-13 Hz", "13-30 Hz")
    peak = np.unravel_index(many.importance.argmax(), many.importance.shape)
    assert peak == (2, CHANNEL)  # 20 Hz
    assert many.attention is not None
    np.testing.assert_allclose(many.attention.sum(1), 1)
    assert one.names == ("4-40 Hz",)
    assert one.importance.argmax() == CHANNEL
    assert one.attention is None


def test_a_method_without_channels_is_named_with_the_reason(report: Report) -> None:
    (failed,) = (one for one in report.found[0].decisions if isinstance(one, Unexplained))
    assert failed.method == LAST
    assert "not to channels" in failed.reason


def test_weights_are_those_of_the_models(planned: Plan, report: Report) -> None:
    facts = report.found[0]
    assert set(facts.parameters) == {MANY, ONE}
    for method in (MANY, ONE):
        model = refit(facts.answer.results[method][0], planned.source).model
        (network,) = model.networks_
        assert facts.parameters[method] == sum(p.numel() for p in network.parameters())


def test_other_predictions_than_those_stored_are_counted(planned: Plan, report: Report) -> None:
    answer = report.found[0].answer
    stored = answer.results[MANY]
    swapped = [replace(r, probabilities=r.probabilities[:, ::-1].copy()) for r in stored]
    only = replace(answer, results={MANY: swapped}, rows=answer.rows[1:2])
    (one,) = decisions(only, planned.source, lambda _text: None)
    assert isinstance(one, Decision)
    assert one.changed == len(one.run.y)
    assert one.apart > 0.1


def test_the_command_shows_them_or_not(planned: Plan, tmp_path: Path) -> None:
    path, out = planned.study.path, tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(path), "-o", str(out), "--no-explain"])
    assert result.exit_code == 0, result.output
    assert "What decides" not in out.read_text() + result.stderr
    assert "Efficiency" in out.read_text()
    result = CliRunner().invoke(app, ["report", str(path), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "refitting token-log-euclidean-multiband, subject" in result.stderr
    assert "<h3>What decides</h3>" in out.read_text()
    assert "prototypes could not be looked into" in out.read_text()


def test_the_recommended_preset_is_looked_into_too(planned: Plan) -> None:
    home = planned.study.path.parent
    text = 'datasets = ["planted"]\nprotocols = ["session-transfer"]\nmethods = ["recommended"]\n'
    (home / "recommended.toml").write_text(text)
    own = plan_study(read_study(home / "recommended.toml"))
    lines: list[str] = []
    with RunStore(home / "recommended.sqlite") as store:
        run_study(own, store, InProcess(own.source))
        report = make_report(own, store, tell=lines.append)
    (one,) = report.found[0].decisions
    assert isinstance(one, Decision)
    assert (one.changed, one.names, one.attention) == (0, ("8-30 Hz",), None)
    assert one.importance.argmax() == CHANNEL
    assert "seed" not in lines[0]
