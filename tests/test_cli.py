"""The commands as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import spdtokens
from spdtokens.cli import app
from spdtokens.paper import theory

runner = CliRunner()


@pytest.fixture
def two_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [claim for claim in theory.CLAIMS if claim.id in ("vech-norm", "index-formula")]
    monkeypatch.setattr(theory, "CLAIMS", few)


def test_version() -> None:
    assert runner.invoke(app, ["--version"]).stdout.strip() == f"spdtokens {spdtokens.__version__}"


def test_no_arguments_show_help() -> None:
    result = runner.invoke(app, [])
    assert "theory" in result.output
    assert "bench" in result.output


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
    def test_json_is_all_of_standard_output(self) -> None:
        result = runner.invoke(app, ["theory", "--json"])
        claims = json.loads(result.stdout)["claims"]
        assert [claim["id"] for claim in claims] == ["vech-norm", "index-formula"]
        assert {"id", "claim", "verdict", "evidence"} <= set(claims[0])

    def test_table_and_files(self, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "folder"
        result = runner.invoke(app, ["theory", "--out", str(folder)], env={"COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("2 claims: 1 holds, 1 corrected")
        assert "1 holds: vech-norm" in result.stdout  # in full with --all only
        assert "zero diagonal gives" not in result.stdout
        assert sorted(path.name for path in folder.iterdir()) == [
            "bilipschitz.png",
            "conditioning.png",
            "theory.json",
        ]
        assert len(json.loads((folder / "theory.json").read_text())["claims"]) == 2
        assert (folder / "conditioning.png").read_bytes().startswith(b"\x89PNG")

    def test_out_that_is_a_file_is_refused_before_any_work(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("precious")
        result = runner.invoke(app, ["theory", "--out", str(file)])
        assert result.exit_code == 2
        assert "is a file" in " ".join(result.output.replace("│", " ").split())
        assert "Tested" not in result.output
        assert file.read_text() == "precious"


class TestDatasets:
    def test_list(self) -> None:
        found = json.loads(runner.invoke(app, ["datasets", "--json"]).stdout)["datasets"]
        names = [listing["name"] for listing in found]
        assert names[:3] == ["sim-mi", "sim-erp", "sim-ssvep"]
        assert {"bci2a", "bcicha", "mamem", "moabb:NAME"} <= set(names)
        table = runner.invoke(app, ["datasets"], env={"COLUMNS": "160"}).stdout
        assert "Kaggle" in table

    def test_check(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((8, 3, 400))
        X[:, 1] = 0.0
        np.savez(
            tmp_path / "sub-7_ses-a.npz", X=X, y=np.arange(8) % 2, classes=["l", "r"],
            sfreq=200.0, ch_names=["C3", "Cz", "C4"],
        )  # fmt: skip
        result = runner.invoke(app, ["datasets", "check", str(tmp_path)], env={"COLUMNS": "160"})
        assert "Cz is flat" in result.stdout
        assert "0 of 1 without remarks" in result.stdout
        data = json.loads(runner.invoke(app, ["datasets", "check", str(tmp_path), "--json"]).stdout)
        assert data["recordings"][0]["classes"] == {"l": 4, "r": 4}
        wrong = runner.invoke(app, ["datasets", "check", str(tmp_path), "--subject", "8"])
        assert wrong.exit_code == 1
        assert "no subject '8'" in wrong.output

    def test_picture(self, tmp_path: Path) -> None:
        file = tmp_path / "p.png"
        result = runner.invoke(app, ["datasets", "picture", "sim-ssvep", "--out", str(file)])
        assert result.exit_code == 0, result.output
        assert file.read_bytes().startswith(b"\x89PNG")
        assert runner.invoke(app, ["datasets", "picture", "bci2a"]).exit_code == 2

    def test_unknown_name_has_no_traceback(self) -> None:
        result = runner.invoke(app, ["datasets", "check", "nowhere"])
        assert result.exit_code == 1
        assert "Error: There is no data set 'nowhere'" in result.output
        assert "Traceback" not in result.output


def test_cache(tmp_path: Path) -> None:
    env = {"SPDTOKENS_CACHE": str(tmp_path)}
    np.savez(tmp_path / f"{'0a' * 20}.npz", np.ones(1000))
    np.save(tmp_path / "recording.npy", np.ones(1000))
    assert "1 file, 0.0 MB" in runner.invoke(app, ["cache"], env=env).stdout
    assert "removed 1 file" in runner.invoke(app, ["cache", "--clear"], env=env).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["recording.npy"]


def test_tokenize(tmp_path: Path) -> None:
    env = {"SPDTOKENS_CACHE": str(tmp_path / "cache")}
    command = ["tokenize", "sim-ssvep", "--out", str(tmp_path / "out"), "--subject", "2"]
    for extra, cached in ((["--no-cache"], 0), ([], 5), ([], 5)):
        result = runner.invoke(app, [*command, "--bands", "stimulus", *extra], env=env)
        assert result.exit_code == 0, result.output
        assert len(list((tmp_path / "cache").glob("*.npz"))) == cached
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 5
    with np.load(files[0]) as arrays:
        assert arrays["tokens"].shape == (25, 10, 36)
        assert len(arrays["token_names"]) == 10
        assert set(arrays["y"]) == set(range(5))
    for option, value, message in (
        ("--embedding", "affine_invariant", "fitted on training trials"),
        ("--embedding", "magic", "no embedding 'magic'"),
        ("--bands", "magic", "no bands 'magic'"),
    ):
        wrong = runner.invoke(app, [*command, option, value], env=env)
        assert wrong.exit_code == 1
        assert message in wrong.output


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
            folder / f"sub-01_ses-{session}.npz",
            C=X @ X.transpose(0, 2, 1) / 80,
            y=y,
            classes=np.array(["rest", "move"]),
            ch_names=np.array(["C3", "Cz", "C4"]),
        )
    return folder


def test_evaluate(covariance_folder: Path) -> None:
    command = ["evaluate", "--dataset", str(covariance_folder), "--seeds", "2", "--epochs", "3"]
    result = runner.invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["results"]
    assert [row["method"] for row in rows] == [
        "token-log-euclidean",
        "token-bures-wasserstein",
        "token-euclidean",
        "ts-lr",
    ]
    keys = {"method", "metric", "score", "std", "train_score", "chance", "n_test", "n_runs"}
    assert keys | {"p_value"} <= set(rows[0])
    assert [row["n_runs"] for row in rows] == [2, 2, 2, 1]
    assert {row["n_test"] for row in rows} == {40}
    assert 0.8 < rows[-1]["score"] <= 1
    assert rows[0]["p_value"] is None
    assert 0 <= rows[-1]["p_value"] <= 1
    shown = runner.invoke(app, [*command, "--method", "ts-lr,token-euclidean"])
    assert "2/2" in shown.stderr  # two seeds
    for word in ("token-euclidean", "train", "test", "chance", "50.0", "target access"):
        assert word in shown.stdout


@pytest.mark.parametrize("words", [["--covariance", "magic"], ["--covariance=magic"]], ids=" ".join)
def test_old_options_are_taken_and_not_shown(words: list[str]) -> None:
    command = ["evaluate", "--dataset", "sim-mi", "--method", "ts-lr"]
    old, new = (runner.invoke(app, [*command, *more]) for more in (words, ["--estimator", "magic"]))
    assert new.exit_code == 1
    assert "'magic'" in new.stderr
    note, rest = old.stderr.split("\n", 1)
    assert "--covariance" in note
    assert "--estimator" in note
    assert rest == new.stderr
    assert "--covariance" not in runner.invoke(app, ["evaluate", "--help"]).stdout
    both = runner.invoke(app, ["evaluate", "--covariance", "oas", "--estimator", "lwf"])
    assert both.exit_code == 2
    assert "--covariance" in both.stderr
    assert "--estimator" not in runner.invoke(app, ["tokenize", "--covariance", "oas"]).stderr


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
    ],
)
def test_evaluate_refuses_in_a_line(covariance_folder: Path, options, culprit) -> None:
    command = ["evaluate", "--dataset", str(covariance_folder), "--method", "ts-lr", *options]
    result = runner.invoke(app, command)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert culprit in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "options",
    [["--window", "1"], ["--stimulus-hz", "a,b"], ["--where", "imagined"]],
    ids=" ".join,
)
def test_evaluate_explains_how_options_are_written(covariance_folder: Path, options) -> None:
    result = runner.invoke(app, ["evaluate", "--dataset", str(covariance_folder), *options])
    assert result.exit_code == 2
    assert f"{options[0]} must be" in " ".join(result.output.replace("│", " ").split())


def test_evaluate_needs_an_earlier_session(covariance_folder: Path) -> None:
    (covariance_folder / "sub-01_ses-2.npz").unlink()
    result = runner.invoke(app, ["evaluate", "--dataset", str(covariance_folder)])
    assert result.exit_code == 1
    assert "Subject 01 has 1 session" in result.stderr


def test_protocols_are_listed() -> None:
    found = json.loads(runner.invoke(app, ["protocols", "--json"]).stdout)
    names = [protocol["name"] for protocol in found["protocols"]]
    assert {"session-transfer", "blocks", "leave-one-subject-out"} <= set(names)
    assert "online" in [access["name"] for access in found["access"]]
    table = runner.invoke(app, ["protocols"], env={"COLUMNS": "140"}).stdout
    for name in names:
        assert name in table


def test_methods_are_listed() -> None:
    rows = json.loads(runner.invoke(app, ["methods", "--json"]).stdout)["methods"]
    assert len(rows) >= 32
    counts = {row["name"]: row["parameters"] for row in rows}
    assert counts["matt"] == {"BCI2a": 9026, "BCIcha": 24476, "MAMEM": 72195}
    assert counts["spdnet-paper"]["BCI2a"] == 1016
    assert counts["token-log-euclidean"]["BCI2a"] == 827_908 + 3 * 128
    assert counts["ts-lr"]["BCI2a"] is None
    narrow = runner.invoke(app, ["methods"], env={"COLUMNS": "80"}).stdout
    assert "token-log-euclidean-multiband" in narrow
    assert "Lawhern" not in narrow
    assert "Lawhern" in runner.invoke(app, ["methods"], env={"COLUMNS": "160"}).stdout


def test_reproduce_lists_as_json() -> None:
    for options in (["--list", "--json"], ["--json"]):
        names = json.loads(runner.invoke(app, ["reproduce", *options]).stdout)["names"]
        assert {"all-subjects", "multiband"} <= {row["name"] for row in names}
        assert {row["kind"] for row in names} == {"table", "figure"}
        assert all(row["title"] for row in names)
