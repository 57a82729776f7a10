"""An ONNX file is used with its own model file and no other; spatial filters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from scipy.special import softmax

from spdtokens.inference import write_onnx
from spdtokens.runtime import DecoderError, load_model, model_bytes, networks
from spdtokens.runtime.networks import SpatialFilters
from tests.inference.helpers import made, trials
from tests.matrices import random_spd


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


# Spatial filters.


def spatial_filters(
    members: int = 2, means: int = 2, step: int = 2, windows: int = 3
) -> SpatialFilters:
    rng = np.random.default_rng(0)
    shapes = (members, 2, 4, 5), (members, 2, windows, 5, 3), (members, 2, means, 4, 3)
    arrays = (rng.standard_normal(shape) for shape in (*shapes, (members, 3)))
    return SpatialFilters(*arrays, 1e-6, step)


def matrices(n: int = 4, rows: int = 6, seed: int = 0) -> NDArray[Any]:
    return random_spd(n, 6, rows, seed=seed).numpy()


@pytest.mark.parametrize("means", [0, 2])
def test_probabilities_of_spatial_filters(means: int) -> None:
    network, C = spatial_filters(means=means), matrices(rows=4 + means)
    assert network.shape == (6, (4 + means) * (5 + means) // 2, 3)
    seen = C[:, :, means:, means:].reshape(4, 2, 3, 4, 4)
    power = np.einsum("ebik,nbwij,ebjk->enbwk", network.filters, seen, network.filters)
    scores = np.einsum("enbwk,ebwkc->enc", np.log(power + 1e-6), network.weight)
    if means:
        used = C[:, [0, 2]]  # of the first band
        roots = np.sqrt(np.einsum("nwii->nwi", used[:, :, :means, :means]))
        M = used[:, :, :means, means:] / roots[..., None]
        scores += np.einsum("nwri,ewric->enc", M, network.means)
    wanted = softmax(scores + network.bias[:, None], axis=-1).mean(0)
    np.testing.assert_allclose(network.of_matrices(C), wanted, rtol=1e-9)
    tokens = np.empty((4, *network.shape[:2]))
    np.testing.assert_array_equal(network.probabilities(tokens, C), network.of_matrices(C))


def test_spatial_filters_of_many_trials_are_applied_in_parts() -> None:
    network, C = spatial_filters(), np.concatenate([matrices()] * 100)
    assert 6 * len(C) > networks._MATRICES
    found = network.of_matrices(C)
    np.testing.assert_allclose(found, np.tile(found[:4], (100, 1)), rtol=1e-12)
    assert network.of_matrices(C[:0]).shape == (0, 3)


def test_linear_layers_of_spatial_filters_can_be_replaced() -> None:
    network, C = spatial_filters(), matrices()
    weight, bias = network.linear()
    again = network.with_linear(weight, bias)
    np.testing.assert_array_equal(again.of_matrices(C), network.of_matrices(C))
    other = network.with_linear(2 * weight, 2 * bias)
    np.testing.assert_array_equal(other.means, 2 * network.means)
    scores = network.features(C) @ weight + bias[:, None]
    np.testing.assert_allclose(other.of_matrices(C), softmax(2 * scores, axis=-1).mean(0))


def test_spatial_filters_in_single_precision() -> None:
    network, C = spatial_filters(), matrices()
    small = network.astype(np.float32)
    assert {a.dtype for a in vars(small).values() if isinstance(a, np.ndarray)} == {
        np.dtype(np.float32)
    }
    assert (small.eps, small.step) == (network.eps, network.step)
    np.testing.assert_allclose(small.of_matrices(C), network.of_matrices(C), atol=1e-4)


def test_powers_below_zero_by_rounding() -> None:
    C = matrices()
    C[0, :, 2:, 2:] = -1e-9 * np.eye(4)
    assert np.isfinite(spatial_filters().of_matrices(C)).all()
