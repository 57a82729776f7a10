"""The ONNX graph against the estimators its model was made of."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import spdtokens
from spdtokens import TokenTransformerClassifier
from spdtokens.errors import DeployError
from spdtokens.inference.convert import as_decoder
from spdtokens.inference.onnx import onnx_model, write_onnx
from spdtokens.runtime import load_model, model_bytes
from spdtokens.runtime.networks import file_digest, geometric_bias
from tests.inference.made import KINDS, NAMES, TINY, made, trials


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.spdt"


def exported(path: Path, kind: str) -> Path:
    path.write_bytes(model_bytes(made(kind).decoder))
    write_onnx(path, path.with_suffix(".onnx"))
    return path.with_suffix(".onnx")


@pytest.mark.parametrize("kind", KINDS)
def test_it_predicts_what_the_estimators_predict(kind: str, path: Path) -> None:
    decoder = load_model(path, onnx=exported(path, kind))
    for n in (1, 2, 33):
        X, _ = trials(n, seed=n)
        found, wanted = decoder.predict_proba(X), made(kind).expected(X)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert np.ptp(found[:, 0]) > 0.01  # not the same for all trials


@pytest.mark.parametrize("attention", ["standard", "geometric"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_tokens_and_attention(tokens: int, attention: str, path: Path) -> None:
    """One token needs no bias whatever the attention; seven are not computed one by one."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, tokens, 4, 12))
    C, y = A @ A.swapaxes(-1, -2) / 12, np.arange(30) % 2
    C[y == 1, :, 0] *= 2
    C[y == 1, :, :, 0] *= 2
    classifier = TokenTransformerClassifier(**TINY, epochs=1, attention=attention, random_state=0)
    classifier.fit(C, y)
    decoder = as_decoder(classifier, classes=("a", "b"), ch_names=NAMES)
    path.write_bytes(model_bytes(decoder))
    write_onnx(path, path.with_suffix(".onnx"))
    wanted = classifier.predict_proba(C)
    in_onnx = load_model(path, onnx=path.with_suffix(".onnx"))
    for n in (1, 30):
        for way in (load_model(path), in_onnx):
            found = way.predict_proba(C[:n])
            np.testing.assert_allclose(found, wanted[:n], rtol=0, atol=1e-5)
    names = [value.name for value in onnx.load(path.with_suffix(".onnx")).graph.input]
    assert names == ["tokens"] + ["bias"] * (attention == "geometric" and tokens > 1)


@pytest.mark.parametrize("kind", ["transformer", "ensemble"])
def test_another_evaluator(kind: str) -> None:
    """ONNX's own, which has none of the runtime's fused operators."""
    decoder = made(kind).decoder
    X, _ = trials(3, seed=3)
    C = decoder.covariances(X)
    given: dict[str, Any] = {"tokens": decoder.tokens(C).astype(np.float32)}
    if kind == "ensemble":
        given["bias"] = geometric_bias(C, decoder.network.alpha).astype(np.float32)
    found = ReferenceEvaluator(onnx_model(decoder)).run(["probabilities"], given)[0]
    np.testing.assert_allclose(found, made(kind).expected(X), rtol=0, atol=1e-5)


def test_the_file_tells_what_it_is(path: Path) -> None:
    model = onnx.load(exported(path, "ensemble"))
    onnx.checker.check_model(model, full_check=True)
    about = {prop.key: prop.value for prop in model.metadata_props}
    assert json.loads(about["classes"]) == ["left", "right"]
    assert json.loads(about["ch_names"]) == list(NAMES)
    assert json.loads(about["sfreq"]) == 100
    assert json.loads(about["n_samples"]) == 150
    assert json.loads(about["tmin"]) == 0
    assert about["sha256"] == file_digest(path)
    assert about["spdtokens_version"] == spdtokens.__version__


def test_one_trial_needs_few_nodes(path: Path) -> None:
    """Six a block with one token: a layer norm is one node, and adds and means are none."""
    model = onnx.load(exported(path, "transformer"))
    kinds = [node.op_type for node in model.graph.node]
    block = ["LayerNormalization", "Gemm", "Relu", "Concat", "Gemm", "LayerNormalization"]
    assert kinds == ["Flatten", "Gemm", *block, "Gemm", *block, "Gemm", "Softmax"]


def test_without_the_package(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(DeployError, match=r"onnx is not installed.*pip install 'spdtokens\[onnx\]"):
        exported(path, "imagery")
    assert [file.name for file in path.parent.iterdir()] == ["model.spdt"]
