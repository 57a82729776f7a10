"""A stranger adds an embedding, a method, a network, a data set, a protocol and a figure.

By docs/extending.md only: its files are written as they stand, installed by pip, and used by the
commands of the page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spdtokens
from spdtokens import FilterBankCovariances, load_dataset
from spdtokens.geometry import unvech

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
FILES = {
    name: code
    for code in re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)
    for name in re.findall(r"\A# (\S+)\n", code)
}


def command(words: str) -> str:
    """The one command of the page that has these words."""
    (line,) = re.findall(rf"^spdtokens .*{words}.*$", PAGE, re.MULTILINE)
    return str(line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stranger works; the package is installed into ``site`` there."""
    folder = tmp_path_factory.mktemp("stranger")
    for name, code in FILES.items():
        path = folder / ("" if name == "study.toml" else "package") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install += ["--no-build-isolation", "--disable-pip-version-check", "--target", "site"]
    subprocess.run([*install, "./package"], cwd=folder, check=True, capture_output=True)
    return folder


def spd(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the page where the package is installed."""
    path = os.pathsep.join((str(folder / "site"), str(Path(spdtokens.__file__).parents[1])))
    return subprocess.run(
        [sys.executable, "-c", "from spdtokens.cli import app; app()", *shlex.split(line)[1:]],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def done(folder: Path, line: str) -> str:
    result = spd(folder, line)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_file_is_one_and_its_last_line_is_the_registry() -> None:
    code = {name: text for name, text in FILES.items() if name.endswith(".py")}
    assert len(code) == 6
    for name, text in code.items():
        last = re.split(r"\n\n\n", text.strip())[-1]
        assert re.match(r"[A-Z]+(\[\"[\w-]+\"\] = |\.append\()", last), name
        assert f'"{name.removesuffix(".py").replace("/", ".")}"' in FILES["pyproject.toml"]
    assert "mock" not in PAGE


def test_embedding(folder: Path) -> None:
    done(folder, command("fourth_root"))
    dataset = load_dataset("sim-ssvep")
    path = min((folder / "tokens").iterdir())
    C = FilterBankCovariances(dataset.sfreq, windows=[dataset.window], tmin=dataset.tmin)
    with np.load(path) as arrays:
        roots = unvech(arrays["tokens"][:, 0])
    found = np.linalg.matrix_power(roots, 4)
    wanted = C.fit_transform(dataset.load("1", dataset.sessions("1")[0]).X)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max())


def test_method(folder: Path) -> None:
    rows = json.loads(done(folder, f"{command('ts-lr,ts-knn')} --json"))["results"]
    assert [row["method"] for row in rows] == ["ts-lr", "ts-knn"]
    assert rows[1]["score"] > rows[1]["chance"]


def test_data_set(folder: Path) -> None:
    assert json.loads(done(folder, f"{command('datasets check')} --json"))["name"] == "loud"


def test_protocol(folder: Path) -> None:
    (row,) = json.loads(done(folder, f"{command('evaluate .*first-half')} --json"))["results"]
    assert row["n_test"] == 2 * 60


def test_all_of_it_in_a_study_and_the_figure_in_its_report(folder: Path) -> None:
    assert "0 failed" in done(folder, command("study run"))
    done(folder, command("report study"))
    page = (folder / "report.html").read_text()
    assert "Gap between train and test" in page
    for name in ("ts-knn", "linear tokens", "first-half", "loud"):
        assert name in page


def test_a_plugin_that_breaks_is_named(folder: Path) -> None:
    module = folder / "site" / "mine" / "gap.py"
    whole = module.read_text()
    module.write_text("import nowhere")
    try:
        broken = spd(folder, "spdtokens datasets")
    finally:
        module.write_text(whole)
    assert broken.returncode == 1
    assert "'gap' of mine" in broken.stderr
    assert "nowhere" in broken.stderr
    assert "Traceback" not in broken.stderr
