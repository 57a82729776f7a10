"""An ONNX file is used with its own model file and no other."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


def of_another_model(spdt: Path, _onnx: Path) -> None:
    spdt.write_bytes(model_bytes(made("ensemble").decoder))


def of_other_classes(_spdt: Path, path: Path) -> None:
    model = onnx.load(path)
    next(prop for prop in model.metadata_props if prop.key == "classes").value = '["right", "left"]'
    onnx.save(model, path)


def with_other_numbers(_spdt: Path, path: Path) -> None:
    """It says that it is of this model, and computes something else."""
    model = onnx.load(path)
    for constant in model.graph.initializer:
        turned = -numpy_helper.to_array(constant)
        constant.CopyFrom(numpy_helper.from_array(turned, constant.name))
    onnx.save(model, path)


def with_other_inputs(_spdt: Path, path: Path) -> None:
    model = onnx.load(path)
    model.graph.input[0].name = model.graph.node[0].input[0] = "matrices"
    onnx.save(model, path)


def no_onnx(_spdt: Path, path: Path) -> None:
    path.write_bytes(b"\x80\x04no graph")


def empty(_spdt: Path, path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "spoil",
    [of_another_model, of_other_classes, with_other_numbers, with_other_inputs, no_onnx, empty],
)
def test_what_does_not_belong_together(
    files: tuple[Path, Path], spoil: Callable[[Path, Path], None]
) -> None:
    spoil(*files)
    with pytest.raises(DecoderError, match=r"model\.onnx"):
        load_model(*files)


def test_no_such_file(files: tuple[Path, Path]) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(files[0], files[1].with_name("other.onnx"))


def test_without_onnx_runtime(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DecoderError, match="pip install onnxruntime"):
        load_model(*files)
    assert load_model(files[0]).classes == ("left", "right")
