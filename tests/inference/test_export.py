"""ONNX compared with the pipelines; ``spdtokens export``; the device folder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

import spdtokens
from spdtokens import TokenTransformerClassifier
from spdtokens.cli import app
from spdtokens.errors import DeployError
from spdtokens.inference import as_decoder, export, onnx_model, write_device_folder, write_onnx
from spdtokens.runtime import load_model, model_bytes
from spdtokens.runtime.networks import file_digest, geometric_bias
from tests.inference.helpers import KINDS, NAMES, TINY, made, trials


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def exported(path: Path, decoder: Any) -> Path:
    path.write_bytes(model_bytes(decoder))
    write_onnx(path, path.with_suffix(".onnx"))
    return path.with_suffix(".onnx")


@pytest.mark.parametrize("kind", KINDS)
def test_onnx_predicts_what_the_estimators_predict(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.spdt"
    decoder = load_model(path, onnx=exported(path, made(kind).decoder))
    for n in (1, 2, 33):
        X, _ = trials(n, seed=n)
        np.testing.assert_allclose(
            decoder.predict_proba(X), made(kind).pipeline.predict_proba(X), rtol=0, atol=1e-5
        )
    assert np.ptp(decoder.predict_proba(X)[:, 0]) > 0.01  # not the same for all trials


@pytest.mark.parametrize("attention", ["standard", "geometric"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_tokens_and_attention(tokens: int, attention: str, tmp_path: Path) -> None:
    """A single token needs no attention bias; seven tokens use the batched code."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, tokens, 4, 12))
    C, y = A @ A.swapaxes(-1, -2) / 12, np.arange(30) % 2
    C[y == 1, :, 0] *= 2
    C[y == 1, :, :, 0] *= 2
    classifier = TokenTransformerClassifier(**TINY, epochs=1, attention=attention, random_state=0)
    wanted = classifier.fit(C, y).predict_proba(C)
    path = tmp_path / "model.spdt"
    file = exported(path, as_decoder(classifier, classes=("a", "b"), ch_names=NAMES))
    for n in (1, 30):
        for way in (load_model(path), load_model(path, onnx=file)):
            np.testing.assert_allclose(way.predict_proba(C[:n]), wanted[:n], rtol=0, atol=1e-5)
    names = [value.name for value in onnx.load(file).graph.input]
    assert names == ["tokens"] + ["bias"] * (attention == "geometric" and tokens > 1)


@pytest.mark.parametrize("kind", ["transformer", "ensemble"])
def test_another_evaluator(kind: str) -> None:
    """The reference evaluator of ONNX, without fused operators."""
    decoder = made(kind).decoder
    X, _ = trials(3, seed=3)
    C = decoder.covariances(X)
    given: dict[str, Any] = {"tokens": decoder.tokens(C).astype(np.float32)}
    if kind == "ensemble":
        given["bias"] = geometric_bias(C, decoder.network.alpha).astype(np.float32)
    found = ReferenceEvaluator(onnx_model(decoder)).run(["probabilities"], given)[0]
    np.testing.assert_allclose(found, made(kind).pipeline.predict_proba(X), rtol=0, atol=1e-5)


def test_spatial_filters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.spdt"
    with pytest.raises(DeployError, match=r"spatial filters cannot be exported to ONNX.*export"):
        exported(path, made("spatial filters").decoder)
    assert not path.with_suffix(".onnx").exists()


def test_the_graph_tells_what_it_is_and_has_few_nodes(tmp_path: Path) -> None:
    """Six nodes per block with one token."""
    path = tmp_path / "model.spdt"
    graph = onnx.load(exported(path, made("transformer").decoder))
    about = {prop.key: prop.value for prop in graph.metadata_props}
    assert (about.pop("sha256"), about.pop("spdtokens_version")) == (
        file_digest(path),
        spdtokens.__version__,
    )
    assert {key: json.loads(value) for key, value in about.items()} == {
        "classes": ["left", "right"],
        "ch_names": list(NAMES),
        "sfreq": 100,
        "n_samples": 150,
        "tmin": 0,
    }
    block = ["LayerNormalization", "Gemm", "Relu", "Concat", "Gemm", "LayerNormalization"]
    kinds = [node.op_type for node in graph.graph.node]
    assert kinds == ["Flatten", "Gemm", *block, "Gemm", *block, "Gemm", "Softmax"]


def test_without_the_package(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(DeployError, match=r"pip install 'spdtokens\[onnx\]"):
        write_onnx(model, model.with_suffix(".onnx"))
    assert list(model.parent.iterdir()) == [model]


def lines(folder: Path, X: object) -> list[str]:
    """Run the example without spdtokens installed, and return what it prints."""
    np.save(folder / "X.npy", X)
    found = subprocess.run(
        [sys.executable, "-P", "-c", _ALONE, "decode.py", "X.npy"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    return (found.stdout + found.stderr).splitlines()


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
    result = run(model, onnx, "--runtime", folder)
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
    for part in ("4 channels at 100 Hz", "150 samples", "C3, Cz, C4, Pz", "onnxruntime"):
        assert part in readme


@pytest.mark.parametrize("link", [False, True])
def test_the_folder_alone(model: Path, link: bool) -> None:
    """An empty folder is accepted, and a symbolic link to one is kept."""
    folder = given = model.parent / "device"
    folder.mkdir()
    if link:
        given = model.parent / "link"
        given.symlink_to(folder)
    result = run(model, "--runtime", given)
    assert result.exit_code == 0, result.output
    assert not (folder / "model.onnx").exists()
    assert "onnxruntime" not in (folder / "README.md").read_text()
    (said,) = lines(folder, np.zeros((1, 4, 7)))
    assert said.startswith("Error: ")
    assert "150" in said
    assert given.is_symlink() == link
    assert set(model.parent.iterdir()) == {folder, given, model}


def test_models_of_covariances(model: Path) -> None:
    decoder = made("imagery").decoder
    of_matrices = replace(decoder, front=None, sfreq=None)
    model.write_bytes(model_bytes(of_matrices))
    folder = model.parent / "device"
    write_device_folder(folder, load_model(model), model)
    shape = ", ".join(map(str, decoder.shape))
    assert f"(trials, {shape})" in (folder / "README.md").read_text()
    C = decoder.covariances(trials(1, seed=6)[0])
    assert lines(folder, C)[0].startswith(of_matrices.predict(C)[0])


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("{model}", "--runtime"),
        ("{model} {model}", ".onnx"),
        ("{model} {folder}/none/m.onnx", "{folder}/none"),
        ("{model} --runtime {folder}", "{folder}"),
        ("{model} --runtime {folder}/none/device", "{folder}/none"),
        ("{model} --runtime {folder}/here", "{folder}/here"),  # the current folder
        ("{model} --runtime .", "current folder"),
        ("{folder}/none.spdt {folder}/m.onnx", "none.spdt"),
        ("{folder}/broken.spdt {folder}/m.onnx", "broken.spdt"),
    ],
)
def test_mistakes_are_told(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, culprit: str
) -> None:
    (model.parent / "broken.spdt").write_bytes(model.read_bytes()[:-3])
    (model.parent / "here").mkdir()
    monkeypatch.chdir(model.parent / "here")
    before = sorted(model.parent.rglob("*"))
    places = {"model": model, "folder": model.parent}
    result = run(*arguments.format(**places).split())
    assert result.exit_code == 1
    assert culprit.format(**places) in result.stderr
    assert sorted(model.parent.rglob("*")) == before


def test_a_folder_is_written_whole(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(export, "_readme", fail)
    result = run(model, "--runtime", model.parent / "device")
    assert result.exit_code == 1
    assert "disk full" in result.stderr
    assert list(model.parent.iterdir()) == [model]
