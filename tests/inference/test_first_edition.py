"""Model files of the first edition (0.1): first_edition/make.py tells how they were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.errors import DeployError
from spdtokens.inference import predict
from spdtokens.inference.convert import load_pipeline
from spdtokens.inference.onnx import write_onnx
from spdtokens.runtime import load_model, model_bytes

HERE = Path(__file__).parent / "first_edition"
MODELS = sorted(path.stem for path in HERE.glob("*.spdt"))


def trials() -> dict[str, np.ndarray]:
    with np.load(HERE / "trials.npz") as file:
        return dict(file)


def test_there_are_models_of_every_paradigm_and_network() -> None:
    assert MODELS == ["erp", "geometric", "imagery", "paper", "ssvep"]
    assert load_model(HERE / "imagery.spdt").recentring is not None
    assert load_model(HERE / "ssvep.spdt").front.decimated is not None


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_those_of_then(name: str) -> None:
    known = trials()
    decoder = load_model(HERE / f"{name}.spdt")
    found = decoder.predict_proba(known["X"].astype(np.float64))
    networks = name in ("paper", "geometric")  # which are stored in float32
    np.testing.assert_allclose(found, known[name], rtol=0, atol=1e-6 if networks else 1e-9)
    assert np.ptp(known[name][:, 0]) > 0.05
    assert decoder.classes == ("left", "right")


@pytest.mark.parametrize("name", MODELS)
def test_they_are_written_again_and_predict_files(name: str, tmp_path: Path) -> None:
    known = trials()
    decoder = load_model(HERE / f"{name}.spdt")
    (tmp_path / "again.spdt").write_bytes(model_bytes(decoder))
    np.savez(
        tmp_path / "new.npz", X=known["X"].astype(float), sfreq=64.0, ch_names=decoder.ch_names
    )
    found = predict(tmp_path / "again.spdt", tmp_path / "new.npz")
    np.testing.assert_allclose(found.probabilities, known[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["imagery", "geometric"])
def test_they_are_exported(name: str, tmp_path: Path) -> None:
    known = trials()
    write_onnx(HERE / f"{name}.spdt", tmp_path / "model.onnx")
    decoder = load_model(HERE / f"{name}.spdt", tmp_path / "model.onnx")
    found = decoder.predict_proba(known["X"].astype(np.float64))
    np.testing.assert_allclose(found, known[name], rtol=0, atol=1e-5)
    folder = tmp_path / "device"
    result = CliRunner().invoke(
        app, ["export", str(HERE / f"{name}.spdt"), "--runtime", str(folder)]
    )
    assert result.exit_code == 0, result.output


def test_they_do_not_tell_the_parameters_of_a_pipeline() -> None:
    with pytest.raises(DeployError, match=r"train again"):
        load_pipeline(HERE / "imagery.spdt")
