"""``spdtokens export`` as a user runs it, and the folder as a device does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.inference import device
from spdtokens.runtime import load_model, model_bytes
from tests.inference.made import made, trials

runner = CliRunner()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "imagery.spdt"
    path.write_bytes(model_bytes(made("imagery").decoder))
    return path


def lines(folder: Path, X: object) -> list[str]:
    """What the example prints, in a Python that has no spdtokens."""
    np.save(folder / "X.npy", X)
    run = subprocess.run(
        [sys.executable, "-P", "-c", _ALONE, "decode.py", "X.npy"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    return (run.stdout + run.stderr).splitlines()


_ALONE = """
import runpy, sys
MISSING = ('torch', 'scipy', 'mne', 'sklearn', 'spdtokens', 'onnx', 'threadpoolctl')
class Refuse:
    def find_spec(self, name, *_):
        if name.split('.')[0] in MISSING:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


def test_both(model: Path) -> None:
    onnx, folder = model.with_suffix(".onnx"), model.parent / "device"
    result = runner.invoke(app, ["export", str(model), str(onnx), "--runtime", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"Written: {onnx}" in result.stdout
    found = {path.name for path in folder.iterdir()}
    assert found == {"README.md", "decode.py", "model.spdt", "model.onnx", "spdtokens_runtime"}
    X, _ = trials(3, seed=5)
    wanted = load_model(model).predict_proba(X)
    for line, (left, right) in zip(lines(folder, X), wanted, strict=True):
        name = "left" if left > right else "right"
        assert line == f"{name}  (left {left:.3f}  right {right:.3f})"
    readme = (folder / "README.md").read_text()
    assert "4 channels at 100 Hz, 150 samples a trial" in readme
    assert "C3, Cz, C4, Pz" in readme
    assert "onnxruntime" in readme


def test_the_folder_alone(model: Path) -> None:
    folder = model.parent / "device"
    folder.mkdir()  # an empty one will do
    result = runner.invoke(app, ["export", str(model), "--runtime", str(folder)])
    assert result.exit_code == 0, result.output
    assert not (folder / "model.onnx").exists()
    assert "onnxruntime" not in (folder / "README.md").read_text()
    (said,) = lines(folder, np.zeros((1, 4, 7)))
    assert said.startswith("Error: Expected trials (n, 4, 150)")
    assert sorted(path.name for path in model.parent.iterdir()) == ["device", "imagery.spdt"]


def test_models_of_covariances(model: Path) -> None:
    decoder = made("imagery").decoder
    of_matrices = replace(decoder, front=None, sfreq=None)
    model.write_bytes(model_bytes(of_matrices))
    folder = model.parent / "device"
    device.write_device_folder(folder, load_model(model), model)
    shape = ", ".join(map(str, decoder.shape))
    assert f"an array (trials, {shape})" in (folder / "README.md").read_text()
    C = decoder.covariances(trials(1, seed=6)[0])
    assert lines(folder, C)[0].startswith(of_matrices.predict(C)[0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{model}"], "Say what to write"),
        (["{model}", "{model}"], "should end in .onnx"),
        (["{model}", "{folder}/none/m.onnx"], "There is no folder"),
        (["{model}", "--runtime", "{folder}"], "exists and is not empty"),
        (["{model}", "--runtime", "{folder}/none/device"], "There is no folder"),
        (["{folder}/none.spdt", "{folder}/m.onnx"], "No such file"),
        (["{folder}/broken.spdt", "{folder}/m.onnx"], "is not a whole model file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_told(model: Path, arguments: list[str], said: str) -> None:
    (model.parent / "broken.spdt").write_bytes(model.read_bytes()[:-3])
    before = {path: path.read_bytes() for path in model.parent.iterdir()}
    given = [part.format(model=model, folder=model.parent) for part in arguments]
    result = runner.invoke(app, ["export", *given])
    assert result.exit_code == 1
    assert said in result.output
    assert {path: path.read_bytes() for path in model.parent.iterdir()} == before


def test_a_folder_is_written_whole(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(device, "_readme", fail)
    result = runner.invoke(app, ["export", str(model), "--runtime", str(model.parent / "device")])
    assert result.exit_code == 1
    assert "disk full" in result.output
    assert [path.name for path in model.parent.iterdir()] == ["imagery.spdt"]


def test_a_link_to_an_empty_folder(model: Path) -> None:
    far, link = model.parent / "far", model.parent / "link"
    far.mkdir()
    link.symlink_to(far)
    device.write_device_folder(link, load_model(model), model)
    assert link.is_symlink()
    assert (far / "decode.py").is_file()


def test_the_current_folder_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be replaced under the feet of the shell."""
    here = model.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in (".", str(here)):
        result = runner.invoke(app, ["export", str(model), "--runtime", name])
        assert (result.exit_code, list(here.iterdir())) == (1, [])
        assert name in result.stderr
