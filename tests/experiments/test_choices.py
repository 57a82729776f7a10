"""Estimators spelled out in a study file: as in Python, or a mistake that is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenTransformerClassifier,
)
from spdtokens.cli import app
from spdtokens.errors import StudyError
from spdtokens.evaluation.estimators import describe
from spdtokens.evaluation.plan import Choice
from spdtokens.experiments.config import check_study
from tests.experiments.files import problems, read
from tests.experiments.small import edit, planned, run_here, stored, table, write_study
from tests.experiments.spelled import ESTIMATORS, SPELLED, SPELLED_RUNS, TOP, assert_by_hand

runner = CliRunner()
HEAD = 'datasets = ["sim-mi"]\nprotocols = ["session-transfer"]\n'


def spelled(folder: Path, text: str) -> Choice:
    (question,) = read(folder, HEAD + text).questions
    (choice,) = question.choices
    return choice


# ------------------------------------------------------------------ as in Python


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'class = "TokenTransformerClassifier"\nn_layers = 2',
            TokenTransformerClassifier(n_layers=2),
        ),
        (
            'class = "spdtokens.TokenDiscriminantClassifier"\ngains = [0.1, 0.2]\n'
            "embedding = {class = 'TokenEmbedding', embedding = ['cholesky'], isometric = true}",
            TokenDiscriminantClassifier(
                TokenEmbedding(["cholesky"], isometric=True), gains=[0.1, 0.2]
            ),
        ),
        ('class = "pyriemann.classification.MDM"\nmetric = "logeuclid"', MDM(metric="logeuclid")),
        (
            '[[methods.steps]]\nclass = "FilterBankCovariances"\nsfreq = 250\n'
            "bands = [[8, 13], [13, 30]]\nwindows = [[0.5, 2.5]]\n"
            '[[methods.steps]]\nclass = "TokenTransformerClassifier"\nn_layers = 2',
            DecodingPipeline(
                [
                    (
                        "filterbank",
                        FilterBankCovariances(250, bands=[[8, 13], [13, 30]], windows=[[0.5, 2.5]]),
                    ),
                    ("classifier", TokenTransformerClassifier(n_layers=2)),
                ]
            ),
        ),
        (
            '[[methods.steps]]\nclass = "pyriemann.estimation.Covariances"\nestimator = "oas"\n'
            '[[methods.steps]]\nclass = "pyriemann.tangentspace.TangentSpace"\n'
            '[[methods.steps]]\nclass = "sklearn.preprocessing.StandardScaler"\n'
            '[[methods.steps]]\nclass = "sklearn.preprocessing.StandardScaler"\nwith_mean = false\n'
            '[[methods.steps]]\nclass = "sklearn.linear_model.LogisticRegression"',
            DecodingPipeline(
                [
                    ("covariances", Covariances("oas")),
                    ("tangentspace", TangentSpace()),
                    ("standardscaler", StandardScaler()),
                    ("standardscaler-2", StandardScaler(with_mean=False)),
                    ("classifier", LogisticRegression()),
                ]
            ),
        ),
    ],
    ids=["class", "nested", "dotted path", "steps", "steps of others"],
)
def test_the_estimator_is_that_of_python(tmp_path: Path, text: str, expected: Any) -> None:
    choice = spelled(tmp_path, f'[[methods]]\nlabel = "mine"\n{text}')
    assert type(choice.method) is type(expected)
    assert describe(choice.method) == describe(expected)
    assert choice.title == "mine"


def test_without_a_label_it_is_named_by_its_class(tmp_path: Path) -> None:
    text = '[[methods]]\nclass = "TokenTransformerClassifier"'
    assert spelled(tmp_path, text).title == "TokenTransformerClassifier"
    twice = problems(tmp_path, HEAD + text + "\n" + text + "\nn_layers = 2")
    (found,) = twice
    assert "label" in found
    assert "TokenTransformerClassifier" in found


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('class = "TokenTransformerClasifier"', ["'TokenTransformerClassifier'"]),
        ('class = "TokenTransformerClassifier"\nn_layer = 2', ["'n_layer'", "'n_layers'"]),
        ('class = "pyriemann.classification.MMD"', ["'MDM'"]),
        ('class = "pyriemann.clasification.MDM"', ["pyriemann.clasification"]),
        ('class = "subprocess.Popen"\nargs = ["ls"]', ["subprocess.Popen"]),
        ('class = "os.system"', ["os.system"]),
        ('class = "FilterBankCovariances"', ["'sfreq'"]),
        ('class = "FilterBankCovariances"\nsfreq = 250', ["FilterBankCovariances", "classifier"]),
        ('class = "sklearn.model_selection.KFold"', ["KFold", "classifier"]),
        ('class = "sklearn.svm.SVC"\nname = "svm"', ["SVC", "'name'"]),
        ('class = "sklearn.svm.SVC"\nkernel = {function = "os.system"}', ["os.system"]),
        ('class = "sklearn.svm.SVC"\nsteps = []', ["steps", "class"]),
        ("class = 3", ["'3'"]),
        ("steps = []", ["[[methods.steps]]"]),
        ("steps = 3", ["[[methods.steps]]"]),
        ('steps = ["ts-lr"]', ["[[methods.steps]]"]),
        ('steps = [{name = "ts-lr"}]', ["[[methods.steps]]"]),
        ('[[methods.steps]]\nclass = "TokenEmbedding"', ["TokenEmbedding", "classifier"]),
        (
            '[[methods.steps]]\nclass = "pyriemann.classification.MDM"\n'
            '[[methods.steps]]\nclass = "sklearn.svm.SVC"\nkernal = "rbf"',
            ["'kernal'", "'kernel'"],
        ),
        (
            '[[methods.steps]]\nclass = "sklearn.svm.SVC"\n'
            '[[methods.steps]]\nclass = "sklearn.svm.SVC"',
            ["SVC", "last"],
        ),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, words: list[str]) -> None:
    methods = f'[[methods]]\nname = "mdm"\n[[methods]]\nlabel = "mine"\n{text}\n'
    (found,) = problems(tmp_path, HEAD + methods)
    assert found.startswith("[[methods]] 2: ")
    for word in words:
        assert word in found


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = (
        '[[methods]]\nclass = "TokenTransformerClassifier"\nlayers = 2\n'
        '[[methods]]\nclass = "Nothing"\n[[methods]]\nname = "ts-lx"\n'
    )
    found = problems(tmp_path, HEAD + text)
    assert [line[:13] for line in found] == ["[[methods]] 1", "[[methods]] 2", "[[methods]] 3"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('class = "TokenTransformerClassifier"\nn_layers = 0', ["n_layers", "0"]),
        ('class = "TokenTransformerClassifier"\nlearning_rate = "fast"', ["mine"]),
        ('class = "NetworkClassifier"\nnetwork = "spdnett"', ["spdnett"]),
        (
            '[[methods.steps]]\nclass = "FilterBankCovariances"\nsfreq = 125\n'
            '[[methods.steps]]\nclass = "pyriemann.classification.MDM"',
            ["125", "250"],
        ),
    ],
)
def test_values_that_do_not_fit_are_told_before_anything_runs(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    study = read(tmp_path, HEAD + f'[[methods]]\nlabel = "mine"\n{text}')
    with pytest.raises(StudyError) as caught:
        check_study(study)
    for word in words:
        assert word in str(caught.value)


def test_a_wrong_class_ends_the_command_in_a_line(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", SPELLED.replace("n_layers", "n_layer"))
    for command in ("run", "status", "show"):
        result = runner.invoke(app, ["study", command, str(file)])
        assert result.exit_code == 1
        assert "'n_layers'" in result.stderr
        assert "Traceback" not in result.output
    assert not file.with_suffix(".sqlite").exists()


# ------------------------------------------------------------------ run


def test_runs_are_done_stored_and_resumed(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", SPELLED)

    class Stopped(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.done >= 5:
            raise Stopped

    with pytest.raises(Stopped):
        run_here(file, tell=stop)
    before = len(stored(file))
    assert 5 <= before < SPELLED_RUNS
    again = run_here(file)
    assert (again.before, again.done, again.failures) == (before, SPELLED_RUNS - before, [])
    assert_by_hand(file, stored(file))
    assert run_here(file).done == 0
    rows = table(file)[0]["results"]
    assert {row["method"]: row["n_runs"] for row in rows} == {
        "two layers": 4,
        "selected": 2,
        "forest": 4,
        "searched": 2,
    }


def test_other_parameters_are_other_runs_and_back_again(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", SPELLED)
    run_here(file)
    before = table(file)
    edit(file, "C = 0.5", "C = 0.25")
    assert run_here(file).done == 2
    # A default that is said, another order and another label change nothing.
    edit(file, "C = 0.25", "max_iter = 100\nC = 0.5")
    edit(file, 'label = "forest"', 'label = "wood"')
    assert run_here(file).done == 0
    edit(file, 'label = "wood"', 'label = "forest"')
    assert table(file) == before


def test_an_estimator_and_a_name_that_mean_the_same_share_runs(tmp_path: Path) -> None:
    name = '[[methods]]\nname = "spd-token-mlp"\nepochs = 2\n'
    file = write_study(tmp_path / "study", TOP + name)
    run_here(file)
    in_full = (
        '[[methods]]\nlabel = "in full"\n[[methods.steps]]\nclass = "TokenMLPClassifier"\n'
        "epochs = 2\n"
    )
    file.write_text(TOP + in_full)
    assert run_here(file).done == 0
    (row,) = table(file)[0]["results"]
    assert (row["method"], row["n_runs"]) == ("in full", 4)


def test_signals_through_pyriemann(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    recordings = []
    for session in (1, 2):
        rng = np.random.default_rng(session)
        y = np.arange(24) % 2
        X = rng.standard_normal((24, 4, 150))
        X[:, 0] *= (1 + y)[:, None]
        np.savez(
            folder / f"sub-1_ses-{session}.npz",
            X=X,
            y=y,
            sfreq=100.0,
            classes=np.array(["rest", "move"]),
        )
        recordings.append((X, y))
    file = tmp_path / "study.toml"
    steps = (
        '[[methods.steps]]\nclass = "pyriemann.estimation.Covariances"\nestimator = "lwf"\n'
        '[[methods.steps]]\nclass = "pyriemann.classification.MDM"\n'
    )
    file.write_text(f"{TOP}[[methods]]\n{steps}")
    assert run_here(file).done == 1
    (result,) = stored(file)
    (X, y), (T, _) = recordings
    by_hand = Pipeline([("a", Covariances("lwf")), ("b", MDM())]).fit(X, y)
    np.testing.assert_array_equal(result.probabilities, by_hand.predict_proba(T))


def test_exports_and_reports_know_them(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", SPELLED)
    run_here(file)
    out = tmp_path / "runs.csv"
    assert runner.invoke(app, ["study", "export", str(file), "--out", str(out)]).exit_code == 0
    text = out.read_text()
    for title in ESTIMATORS:
        assert title in text
    page = tmp_path / "report.html"
    result = runner.invoke(app, ["report", str(file), "-o", str(page)])
    assert result.exit_code == 0, result.output
    for title in ESTIMATORS:
        assert title in page.read_text()
    compared = runner.invoke(
        app, ["study", "compare", str(file), "--reference", "searched", "--json"]
    )
    assert compared.exit_code == 0, compared.output
    assert json.loads(compared.stdout)


def test_a_run_that_fails_names_its_title(tmp_path: Path) -> None:
    """Values of the parameters of others are known to be wrong only when they are fitted."""
    file = write_study(tmp_path / "study", SPELLED.replace("C = 0.5", "C = -1"))
    progress = run_here(file)
    assert progress.done == SPELLED_RUNS - 2
    assert {failure.spec.method for failure in progress.failures} == {"selected"}
    assert all("'C'" in failure.reason for failure in progress.failures)
    assert len(planned(file).once()) == SPELLED_RUNS
