"""Models looked into: of a study that was really run, and their weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline
from typer.testing import CliRunner

from spdtokens import (
    FilterBankCovariances,
    NetworkClassifier,
    StandardTrials,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
)
from spdtokens.classifiers.methods import METHODS, Settings
from spdtokens.cli import app
from spdtokens.datasets import Dataset
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Question, Source
from spdtokens.experiments.config import read_study
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import Plan, plan_study, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.reporting.decisions import (
    best_token_methods,
    decisions,
    median_run,
    parameters_of,
)
from spdtokens.reporting.report import Report, make_report
from tests.classifiers.test_explain import CHANNEL, SFREQ, planted_trials
from tests.golden.sets import IMAGERY
from tests.reporting.helpers import made_facts, made_run, run_of

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
    assert all("refitting" in line for line in lines)
    return report


def test_models_are_those_of_the_study_and_find_what_was_planted(report: Report) -> None:
    found = {one.method: one for one in report.found[0].decisions}
    assert set(found) == {MANY, ONE}
    many, one = found[MANY], found[ONE]
    for looked in (many, one):
        assert looked.changed == 0
    assert many.names == ("4-8 Hz", "8-13 Hz", "13-30 Hz")
    peak = np.unravel_index(many.importance.argmax(), many.importance.shape)
    assert peak == (2, CHANNEL)  # 20 Hz
    assert many.attention is not None
    np.testing.assert_allclose(many.attention.sum(1), 1)
    assert one.names == ("4-40 Hz",)
    assert one.importance.argmax() == CHANNEL
    assert one.attention is None


def test_a_method_without_channels_is_named_with_the_reason(report: Report) -> None:
    assert list(report.found[0].unexplained) == [LAST]
    assert "xdawn" in report.found[0].unexplained[LAST]


def test_other_predictions_than_those_stored_are_counted(planned: Plan, report: Report) -> None:
    answer = report.found[0].answer
    stored = answer.results[MANY]
    swapped = [replace(r, probabilities=r.probabilities[:, ::-1].copy()) for r in stored]
    only = replace(answer, results={MANY: swapped}, rows=answer.rows[1:2])
    (one,), _ = decisions(only, planned.source, lambda _text: None)
    assert one.changed == len(one.run.y)


def test_the_command_shows_them_or_not(planned: Plan, tmp_path: Path) -> None:
    path, out = planned.study.path, tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(path), "-o", str(out), "--no-explain"])
    assert result.exit_code == 0, result.output
    assert "Channel importance" not in out.read_text()
    assert "refitting" not in result.stderr
    assert "Efficiency" in out.read_text()
    result = CliRunner().invoke(app, ["report", str(path), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "refitting token-log-euclidean-multiband, subject" in result.stderr
    assert "<h3>Channel importance</h3>" in out.read_text()
    assert "prototypes cannot be explained" in out.read_text()


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
    assert (one.changed, one.names, one.attention) == (0, ("8-30 Hz",), None)
    assert one.importance.argmax() == CHANNEL
    assert "seed" not in lines[0]


def test_the_subject_in_the_middle_is_taken() -> None:
    runs = [
        made_run("a", subject, seed=seed, right=right + 0.1 * seed)
        for subject, right in (("1", 0.8), ("2", 0.5), ("3", 0.6), ("4", 0.9))
        for seed in (0, 1)
    ]
    found = median_run(runs, "accuracy").spec
    assert (found.subject, found.seed) == ("3", 0)
    assert median_run(runs[:6], "accuracy").spec.subject == "3"
    assert median_run(runs[:2], "accuracy").spec.subject == "1"


def test_only_the_best_token_methods_are_looked_into() -> None:
    scores = {
        "ts-lr": 0.95,
        "token-euclidean": 0.6,
        "token-cholesky": 0.7,
        "token-log-euclidean": 0.8,
        "token-log-cholesky": 0.9,
        "token-bures-wasserstein": 1.0,
    }
    leaky = {"token-bures-wasserstein": "all trials were seen"}
    source = Source()
    results = {
        name: [
            run_of(
                METHODS[name].make(IMAGERY), source, name, right=right, leaky=leaky.get(name, "")
            )
        ]
        for name, right in scores.items()
    }
    answer = made_facts(results).answer
    best = ["token-log-cholesky", "token-log-euclidean", "token-cholesky"]
    assert best_token_methods(answer, source) == best


# ------------------------------------------------------------------ weights


def weights_of(estimator: BaseEstimator, source: Source, dataset: Dataset) -> dict[str, int]:
    run = run_of(estimator, source)
    answer = Evaluation(Question("sim-mi", ()), {"name": [run], "none yet": []}, [], ("a", "b"))
    return parameters_of(answer, source, dataset)


SMALL: dict[str, Any] = {"epochs": 1, "random_state": 0}
TINY = SMALL | {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}
WINDOW: dict[str, Any] = {"tmin": -0.5, "windows": [(0.5, 2.0)]}


def on_matrices(classifier: BaseEstimator, **options: Any) -> Pipeline:
    return make_pipeline(FilterBankCovariances(100, **WINDOW, **options), classifier)


def on_trials(classifier: BaseEstimator) -> Pipeline:
    return make_pipeline(StandardTrials(100, **WINDOW), classifier)


@pytest.mark.parametrize(
    "estimator",
    [
        METHODS["token-log-euclidean"].make(IMAGERY, Settings(epochs=1)),
        on_matrices(TokenTransformerClassifier(**TINY), delays=(0.05,)),
        on_matrices(TokenTransformerClassifier(**TINY), bands="8-13,13-30"),
        on_matrices(TokenTransformerClassifier(["log_euclidean", "cholesky"], **TINY)),
        on_matrices(TokenMLPClassifier(TokenEmbedding("cholesky"), width=5, **SMALL)),
        on_matrices(TokenMLPClassifier(**SMALL), bands="paper3"),
        on_matrices(NetworkClassifier("spdnet", **SMALL)),
        on_matrices(NetworkClassifier("spdtransnet", **SMALL), bands="paper3"),
        on_trials(NetworkClassifier("eegnet", sfreq=100, **SMALL)),
    ],
    ids=[
        "paper",
        "delays",
        "bands",
        "embeddings",
        "mlp",
        "mlp bands",
        "spdnet",
        "spdtransnet",
        "eegnet",
    ],
)
def test_weights_of_any_estimator_are_those_after_fitting(estimator: Pipeline) -> None:
    trials = IMAGERY.load("1", "a")
    last = clone(estimator).fit(trials.X, trials.y)[-1]
    module = last.module_ if isinstance(last, NetworkClassifier) else last.networks_[0]
    expected = sum(p.numel() for p in module.parameters())
    assert weights_of(estimator, Source(), IMAGERY) == {"name": expected}


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(Covariances("oas"), TokenTransformerClassifier(**TINY)),
        make_pipeline(
            FilterBankCovariances(100), TokenEmbedding(), TokenMLPClassifier(None, **SMALL)
        ),
        NetworkClassifier("eegnet", sfreq=100, **SMALL),
        make_pipeline(Covariances("oas"), MDM()),
        METHODS["token-euclidean"].make(IMAGERY, Settings(estimator="xdawn")),
    ],
    ids=["covariances", "tokens", "no window", "no network", "xdawn"],
)
def test_weights_that_only_fitting_tells_are_not_guessed(estimator: BaseEstimator) -> None:
    assert weights_of(estimator, Source(), IMAGERY) == {}
