"""An ONNX file is used with its own model file and no other."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from spdtokens.inference import write_onnx
from spdtokens.runtime import DecoderError, load_model, model_bytes
from tests.inference.helpers import made, trials


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "model.spdt", tmp_path / "model.onnx"
    paths[0].write_bytes(model_bytes(made("transformer").decoder))
    write_onnx(*paths)
    return paths


def test_they_belong_together(files: tuple[Path, Path]) -> None:
    X, _ = trials(4, seed=4)
    found = load_model(files[0], files[1], onnx_threads=2)
    np.testing.assert_allclose(
        found.predict_proba(X), load_model(files[0]).predict_proba(X), rtol=0, atol=1e-6
    )
    assert found.predict_proba(X).dtype == np.float64


def test_of_another_model(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(model_bytes(made("ensemble").decoder))
    with pytest.raises(DecoderError, match=r"model\.onnx was not made of this model file"):
        load_model(*files)


def test_of_other_classes(files: tuple[Path, Path]) -> None:
    model = onnx.load(files[1])
    next(prop for prop in model.metadata_props if prop.key == "classes").value = '["right", "left"]'
    onnx.save(model, files[1])
    with pytest.raises(DecoderError, match="was not made of this model file"):
        load_model(*files)


def test_with_other_numbers(files: tuple[Path, Path]) -> None:
    """It says that it is of this model, and computes something else."""
    model = onnx.load(files[1])
    for constant in model.graph.initializer:
        turned = -numpy_helper.to_array(constant)
        constant.CopyFrom(numpy_helper.from_array(turned, constant.name))
    onnx.save(model, files[1])
    with pytest.raises(DecoderError, match="does not compute what its model file does"):
        load_model(*files)


def test_with_other_inputs(files: tuple[Path, Path]) -> None:
    model = onnx.load(files[1])
    model.graph.input[0].name = model.graph.node[0].input[0] = "matrices"
    onnx.save(model, files[1])
    with pytest.raises(DecoderError, match="does not take this model's tokens"):
        load_model(*files)


@pytest.mark.parametrize("contents", [b"", b"\x80\x04no graph", b"PK\x03\x04"])
def test_no_onnx_at_all(files: tuple[Path, Path], contents: bytes) -> None:
    files[1].write_bytes(contents)
    with pytest.raises(DecoderError, match="is no ONNX file that can be used"):
        load_model(*files)


def test_no_such_file(files: tuple[Path, Path]) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(files[0], files[1].with_name("other.onnx"))


def test_without_onnx_runtime(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DecoderError, match="needs ONNX Runtime: pip install onnxruntime"):
        load_model(*files)
    assert load_model(files[0]).classes == ("left", "right")
