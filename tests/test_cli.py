"""The commands as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import spdtokens
from spdtokens.cli import app
from spdtokens.paper import theory
from tests.helpers import run, run_json, unboxed


@pytest.fixture
def two_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [claim for claim in theory.CLAIMS if claim.id in ("vech-norm", "index-formula")]
    monkeypatch.setattr(theory, "CLAIMS", few)


def test_version_and_help() -> None:
    assert run("--version").stdout.strip() == f"spdtokens {spdtokens.__version__}"
    assert "theory" in run(code=2).output


def test_every_option_is_described() -> None:
    def described(command: Any) -> None:
        for parameter in command.params:
            assert parameter.help, f"{command.name} {parameter.name}"
            assert parameter.help.endswith("."), parameter.help
        for inner in getattr(command, "commands", {}).values():
            described(inner)

    described(typer.main.get_command(app))


class TestStart:
    """What is quick does not wait for the libraries that training needs."""

    HEAVY = ("torch", "sklearn", "mne", "pyriemann", "matplotlib", "pandas")

    @staticmethod
    def imported(code: str, *words: str) -> set[str]:
        """Libraries that a process has imported at its end."""
        tell = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
        done = subprocess.run(
            [sys.executable, "-c", f"{tell}\n{code}", *words], capture_output=True, text=True
        )
        return set(done.stderr.split())

    @pytest.mark.parametrize(
        "words",
        [
            ["--help"],
            ["--nothing"],
            ["evaluate"],
            ["evaluate", "--dataset", "sim-mi", "--window", "x"],
            ["study", "run", "s.toml", "--workers", "many"],
            ["protocols"],
            ["methods"],
        ],
        ids=" ".join,
    )
    def test_commands_are_light(self, words: list[str]) -> None:
        found = self.imported("from spdtokens.cli import app; app()", *words)
        assert "spdtokens.cli.app" in found
        assert not found & {*self.HEAVY}

    def test_help_of_every_command_is_light(self) -> None:
        code = """
import typer.main
from typer.testing import CliRunner
from spdtokens.cli import app

def ask(command, *words):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
    for name, inner in getattr(command, "commands", {}).items():
        ask(inner, *words, name)

ask(typer.main.get_command(app))
print("all of them", file=__import__("sys").stderr)
"""
        found = self.imported(code)
        assert {"all", "of", "them"} <= found
        assert not found & {*self.HEAVY}

    def test_a_decoder_does_not_wait_for_what_it_does_not_use(self) -> None:
        found = self.imported("from spdtokens import make_decoder")
        assert "spdtokens.classifiers" in found
        # scikit-learn itself imports pandas where that is installed.
        assert not found & {"pyriemann", "mne", "matplotlib"}


@pytest.mark.usefixtures("two_claims")
class TestTheory:
    def test_json(self) -> None:
        claims = run_json("theory")["claims"]
        assert [claim["id"] for claim in claims] == ["vech-norm", "index-formula"]
        assert {"id", "claim", "verdict", "evidence"} <= set(claims[0])

    def test_table_and_files(self, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "folder"
        said = run("theory", "--out", folder).stdout
        assert said.startswith("2 claims: 1 holds, 1 corrected")
        assert "1 holds: vech-norm" in said  # in full with --all only
        files = ["bilipschitz.png", "conditioning.png", "theory.json"]
        assert sorted(path.name for path in folder.iterdir()) == files
        assert len(json.loads((folder / "theory.json").read_text())["claims"]) == 2
        assert (folder / "conditioning.png").read_bytes().startswith(b"\x89PNG")

    def test_out_that_is_a_file_is_refused_before_any_work(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("precious")
        said = run("theory", "--out", file, code=2).output
        assert "is a file" in unboxed(said)
        assert "Tested" not in said
        assert file.read_text() == "precious"


class TestDatasets:
    def test_list(self) -> None:
        names = [listing["name"] for listing in run_json("datasets")["datasets"]]
        assert names[:3] == ["sim-mi", "sim-erp", "sim-ssvep"]
        assert {"bci2a", "bcicha", "mamem", "moabb:NAME"} <= set(names)
        assert "Kaggle" in run("datasets").stdout

    def test_check(self, tmp_path: Path) -> None:
        X = np.random.default_rng(0).standard_normal((8, 3, 400))
        X[:, 1] = 0.0
        np.savez(
            tmp_path / "sub-7_ses-a.npz", X=X, y=np.arange(8) % 2, classes=["l", "r"],
            sfreq=200.0, ch_names=["C3", "Cz", "C4"],
        )  # fmt: skip
        assert "Cz is flat" in run("datasets", "check", tmp_path).stdout
        (recording,) = run_json("datasets", "check", tmp_path)["recordings"]
        assert recording["classes"] == {"l": 4, "r": 4}
        assert "'8'" in run("datasets", "check", tmp_path, "--subject", 8, code=1).stderr
        assert "'nowhere'" in run("datasets", "check", "nowhere", code=1).stderr

    def test_picture(self, tmp_path: Path) -> None:
        file = tmp_path / "p.png"
        run("datasets", "picture", "sim-ssvep", "--out", file)
        assert file.read_bytes().startswith(b"\x89PNG")
        run("datasets", "picture", "bci2a", code=2)


def test_tokenize(tmp_path: Path) -> None:
    command = ("tokenize", "sim-ssvep", "--out", tmp_path / "out", "--subject", 2)
    run(*command, "--bands", "stimulus", "--no-cache")  # which version 0.1 had
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 5
    with np.load(files[0]) as arrays:
        assert arrays["tokens"].shape == (25, 10, 36)
        assert len(arrays["token_names"]) == 10
        assert set(arrays["y"]) == set(range(5))
    for option, value in (
        ("--embedding", "affine_invariant"),  # fitted on training trials
        ("--embedding", "magic"),
        ("--bands", "magic"),
    ):
        assert value in run(*command, option, value, code=1).stderr


@pytest.fixture
def covariance_folder(tmp_path: Path) -> Path:
    """A subject with two sessions of covariances, classes that differ in one variance."""
    folder = tmp_path / "easy"
    folder.mkdir()
    for session in ("1", "2"):
        rng = np.random.default_rng(int(session))
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 3, 80))
        X[:, 0] *= (1 + y)[:, None]
        np.savez(
            folder / f"sub-01_ses-{session}.npz", C=X @ X.transpose(0, 2, 1) / 80, y=y,
            classes=["rest", "move"], ch_names=["C3", "Cz", "C4"],
        )  # fmt: skip
    return folder


def test_evaluate(covariance_folder: Path) -> None:
    command = ("evaluate", "--dataset", covariance_folder, "--seeds", 2, "--epochs", 3)
    rows = run_json(*command)["results"]
    names = ["token-log-euclidean", "token-bures-wasserstein", "token-euclidean", "ts-lr"]
    assert [row["method"] for row in rows] == names
    keys = {"method", "metric", "score", "std", "train_score", "chance", "n_test", "n_runs"}
    assert keys | {"p_value"} <= set(rows[0])
    assert [row["n_runs"] for row in rows] == [2, 2, 2, 1]
    assert {row["n_test"] for row in rows} == {40}
    assert 0.8 < rows[-1]["score"] <= 1
    assert rows[0]["p_value"] is None
    assert 0 <= rows[-1]["p_value"] <= 1
    shown = run(*command, "--method", "ts-lr,token-euclidean")
    assert "2/2" in shown.stderr  # two seeds
    assert shown.stdout.startswith("Best method: ts-lr, accuracy ")
    assert "above chance (50.0 %). Next best: token-euclidean" in unboxed(shown.stdout)
    for word in ("token-euclidean", "train", "test", "chance", "50.0", "target access"):
        assert word in shown.stdout


def test_evaluate_takes_options_of_the_loader(covariance_folder: Path) -> None:
    for path in covariance_folder.iterdir():
        with np.load(path) as opened:
            arrays = dict(opened)
        np.savez(path, **arrays, coin=np.arange(40) // 2 % 2)
    command = ("evaluate", "--dataset", covariance_folder, "--method", "ts-lr")
    own = run_json(*command, "--dataset-option", "unit=uV")["results"][0]["score"]
    other = run_json(*command, "--dataset-option", "label_from=coin")["results"][0]["score"]
    assert own > 0.8 > 0.7 > other


def test_a_leaky_score_is_called_so(covariance_folder: Path) -> None:
    for path in covariance_folder.iterdir():
        with np.load(path) as opened:
            arrays = dict(opened)
        np.savez(path, **arrays, group=np.arange(40) // 2)
    command = ("evaluate", "--dataset", covariance_folder, "--method", "mdm")
    shown = run(*command, "--protocol", "paper-shuffled").stdout
    assert shown.startswith("mdm, accuracy ")
    assert "The score is leaky: " in unboxed(shown)


@pytest.mark.parametrize("words", [["--covariance", "magic"], ["--covariance=magic"]], ids=" ".join)
def test_old_options_are_taken_and_not_shown(words: list[str]) -> None:
    command = ("evaluate", "--dataset", "sim-mi", "--method", "ts-lr")
    old, new = (run(*command, *more, code=1) for more in (words, ["--estimator", "magic"]))
    assert "'magic'" in new.stderr
    note, rest = old.stderr.split("\n", 1)
    assert "--covariance" in note
    assert "--estimator" in note
    assert rest == new.stderr
    assert "--covariance" not in run("evaluate", "--help").stdout
    both = run("evaluate", "--covariance", "oas", "--estimator", "lwf", code=2)
    assert "--covariance" in both.stderr
    assert "--estimator" not in run("tokenize", "--covariance", "oas", code=2).stderr


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        (["--method", "lda"], "'lda'"),
        (["--method", ""], "method"),
        (["--method", "eegnet"], "signals"),
        (["--preset", "best"], "'best'"),
        (["--subjects", "7"], "'7'"),
        (["--device", "tpu9"], "'tpu9'"),
        (["--protocol", "session-transfr"], "'session-transfer'"),
        (["--target-access", "all"], "unlabeled_full"),
        (["--alignment", "center"], "recentre"),
        (["--alignment", "recentre"], "recentre"),
        (["--folds", "3"], "'folds'"),
        (["--metric", "acc"], "'acc'"),
        (["--paradigm", "eeg"], "'eeg'"),
        (["--classes", "rest,mov"], "'move'"),
        (["--where", "imagined=1"], "'imagined'"),
        (["--bands", "8-13-20"], "'8-13-20'"),
        (["--window", "1"], "--window must be"),
        (["--stimulus-hz", "a,b"], "--stimulus-hz must be"),
        (["--where", "imagined"], "--where must be"),
        (["--dataset-option", "segments=4"], "'segments'"),
        (["--dataset-option", "unit=furlong"], "'furlong'"),
        (["--dataset-option", "channels=C3"], "channels"),
        (["--dataset-option", "unit"], "--dataset-option must be"),
        (["--dataset-option", "unit=V", "--dataset-option", "unit=uV"], "--dataset-option must be"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_evaluate_refuses_by_name(covariance_folder: Path, options: Any, culprit: str) -> None:
    code = 2 if "must be" in culprit else 1  # of the option as it is written, or of its value
    command = ("evaluate", "--dataset", covariance_folder, "--method", "ts-lr", *options)
    said = run(*command, code=code).stderr
    assert culprit in unboxed(said)
    assert code == 2 or said.startswith("Error: ")


def test_evaluate_on_other_subjects(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for subject in range(1, 7):
        X = rng.standard_normal((20, 3, 80))
        y = np.arange(20) % 2
        X[:, 0] *= (1 + y)[:, None]
        np.savez(
            tmp_path / f"sub-{subject:02d}_ses-1.npz", C=X @ X.transpose(0, 2, 1) / 80, y=y,
            classes=["rest", "move"], ch_names=["C3", "Cz", "C4"],
        )  # fmt: skip
    command = ("evaluate", "--dataset", tmp_path, "--method", "ts-lr")
    recentred = ("--target-access", "unlabeled_full", "--alignment", "recentre")
    between = (*command, "--protocol", "between-subjects")
    (row,) = run_json(*between, "--test-subjects", "5,2", *recentred)["results"]
    assert list(row["subjects"]) == ["02", "05"]
    assert row["score"] == pytest.approx(np.mean(list(row["subjects"].values())))
    assert (row["n_runs"], row["n_subjects"], row["n_test"], row["n_train"]) == (1, 2, 40, 80)
    groups = ("--protocol", "subjects-k-fold", "--folds", 3)
    (row,) = run_json(*command, *groups)["results"]
    assert list(row["subjects"]) == [f"{i:02d}" for i in range(1, 7)]
    assert (row["n_runs"], row["n_test"], row["n_train"]) == (3, 120, 80)
    assert "--test-subjects" in run(*between, code=1).stderr
    assert "'9'" in run(*between, "--test-subjects", "2,9", code=1).stderr
    assert "05" in run(*between, "--test-subjects", "5", "--subjects", "1,2", code=1).stderr
    assert "folds" in run(*between, "--test-subjects", "5", "--folds", 3, code=1).stderr


def test_evaluate_needs_an_earlier_session(covariance_folder: Path) -> None:
    (covariance_folder / "sub-01_ses-2.npz").unlink()
    said = run("evaluate", "--dataset", covariance_folder, code=1).stderr
    assert "Subject 01" in said


def test_protocols_are_listed() -> None:
    found = run_json("protocols")
    names = [protocol["name"] for protocol in found["protocols"]]
    assert {"session-transfer", "blocks", "leave-one-subject-out"} <= set(names)
    assert "online" in [access["name"] for access in found["access"]]
    table = run("protocols").stdout
    for name in names:
        assert name in table


def test_methods_are_listed() -> None:
    rows = run_json("methods")["methods"]
    assert len(rows) >= 32
    counts = {row["name"]: row["parameters"] for row in rows}
    assert counts["matt"] == {"BCI2a": 9026, "BCIcha": 24476, "MAMEM": 72195}
    assert counts["spdnet-paper"]["BCI2a"] == 1016
    assert counts["eegnet-paper"]["BCI2a"] == 5108
    assert counts["atcnet-paper"]["BCI2a"] == 123892
    assert counts["token-log-euclidean"]["BCI2a"] == 827_908 + 3 * 128
    assert counts["ts-lr"]["BCI2a"] is None
    narrow = run("methods", columns=80).stdout
    assert "token-log-euclidean-multiband" in narrow
    assert "Lawhern" not in narrow
    assert "Lawhern" in run("methods").stdout


def test_reproduce_is_listed() -> None:
    names = run_json("reproduce")["names"]
    assert names == run_json("reproduce", "--list")["names"]
    assert {"all-subjects", "multiband"} <= {row["name"] for row in names}
    assert {row["kind"] for row in names} == {"table", "figure"}
    assert all(row["title"] for row in names)
