"""Pipelines to model files and back: same predictions, files of version 0.1, nothing executed."""

from __future__ import annotations

import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    Recentring,
    SpatialFilterClassifier,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.errors import DeployError, UserError
from spdtokens.inference import as_decoder, load_pipeline, predict, save_model, write_onnx
from spdtokens.runtime import DecoderError, load_model, model_bytes
from tests.inference.helpers import KINDS, NAMES, ONLY_NUMPY, SFREQ, made, trials

#: Made once by version 0.1; ``trials.npz`` has trials and what each model said of them. How:
#: ``git log -- tests/inference/first_edition/make.py``.
FIRST_EDITION = Path(__file__).parent / "first_edition"
MODELS = sorted(path.stem for path in FIRST_EDITION.glob("*.spdt"))


@pytest.mark.parametrize("kind", [*KINDS, *ONLY_NUMPY])
def test_decoders_and_files_predict_what_pipelines_predict(kind: str, tmp_path: Path) -> None:
    it = made(kind)
    X, _ = trials(12, seed=1)
    found, wanted = it.decoder.predict_proba(X), it.pipeline.predict_proba(X)
    # Networks are stored in float32.
    kinds = TokenTransformerClassifier | SpatialFilterClassifier
    networks = isinstance(it.pipeline["classifier"], kinds)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 if networks else 1e-9)
    assert np.ptp(found[:, 0]) > 0.01  # not the same for all trials
    assert it.decoder.predict(X).tolist() == [("left", "right")[i] for i in wanted.argmax(1)]

    filterbank = it.pipeline["filterbank"]
    C = filterbank.transform(X).reshape(12, filterbank.n_matrices_, *it.decoder.shape[1:])
    np.testing.assert_allclose(
        it.decoder.covariances(X), C, rtol=1e-8, atol=1e-10 * np.abs(C).max()
    )

    save_model(it.decoder, tmp_path / "model.spdt")
    again = load_model(tmp_path / "model.spdt")
    np.testing.assert_array_equal(again.predict_proba(X), found)
    for name in ("classes", "ch_names", "sfreq", "n_samples", "tmin", "about"):
        assert getattr(again, name) == getattr(it.decoder, name)
    loaded = load_pipeline(tmp_path / "model.spdt")
    np.testing.assert_allclose(loaded.predict_proba(X), found, rtol=0, atol=1e-9)
    assert loaded.classes_.tolist() == ["left", "right"]
    for (_, step), (_, other) in zip(loaded.steps, it.pipeline.steps, strict=True):
        assert type(step) is type(other)
        assert str(as_lists(step.get_params())) == str(as_lists(other.get_params()))


def test_a_stored_model_of_spatial_filters_can_be_calibrated(tmp_path: Path) -> None:
    it = made("spatial filters")
    save_model(it.decoder, tmp_path / "model.spdt")
    loaded = load_pipeline(tmp_path / "model.spdt")
    X, y = trials(20, seed=2)
    C = it.pipeline["filterbank"].transform(X)
    mine = deepcopy(it.pipeline["classifier"]).calibrate(C, y)
    labels = np.array(["left", "right"])[y]
    found = loaded["classifier"].calibrate(C, labels).predict_proba(C)
    np.testing.assert_allclose(found, mine.predict_proba(C), rtol=0, atol=1e-3)
    assert np.abs(found - it.pipeline.predict_proba(X)).max() > 0.05


def as_lists(value: Any) -> Any:
    """Convert tuples to lists, as JSON does."""
    if isinstance(value, dict):
        return {name: as_lists(item) for name, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_models_of_matrices(in_pipeline: bool) -> None:
    """With and without a pipeline."""
    X, y = trials()
    C = FilterBankCovariances(SFREQ).fit_transform(X)
    classifier = TokenDiscriminantClassifier()
    model = make_pipeline(classifier) if in_pipeline else classifier
    decoder = as_decoder(model.fit(C, y), ch_names=NAMES, unit_in_volts=1e-6)
    np.testing.assert_allclose(decoder.predict_proba(C), model.predict_proba(C), rtol=0, atol=1e-9)
    assert (decoder.classes, decoder.unit_in_volts) == (("0", "1"), 1e-6)
    with pytest.raises(DecoderError, match="samples"):
        _ = decoder.n_samples


def test_recentred_models_follow_a_recording(tmp_path: Path) -> None:
    X, y = trials()
    steps = [FilterBankCovariances(SFREQ), Recentring(), TokenDiscriminantClassifier()]
    model = DecodingPipeline([(str(i), step) for i, step in enumerate(steps)])
    model.fit(X, y, domains=np.arange(40) // 20)
    new, _ = trials(9, seed=3)
    save_model(model, tmp_path / "model.spdt", ch_names=NAMES)
    expected = model.predict_proba(2 * new)
    for read in (load_model, load_pipeline):
        found = read(tmp_path / "model.spdt").predict_proba(2 * new)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_what_a_model_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    X, y = trials()
    C = FilterBankCovariances(SFREQ).fit_transform(X)
    other = make_pipeline(FilterBankCovariances(SFREQ), TokenEmbedding(), LogisticRegression())
    shrunk = make_decoder("mi", sfreq=SFREQ).set_params(filterbank__estimator="lwf").fit(X, y)
    decoder = as_decoder(shrunk, ch_names=NAMES)  # which can be used, but not saved
    np.testing.assert_allclose(decoder.predict_proba(X), shrunk.predict_proba(X), rtol=0, atol=1e-9)
    for culprit, model in {
        "oas.*'lwf'": shrunk,
        "LogisticRegression": other.fit(X, y),
        "TokenMLPClassifier": TokenMLPClassifier(epochs=1).fit(C, y),
        "embedding=None": TokenDiscriminantClassifier(None).fit(
            TokenEmbedding().fit_transform(C), y
        ),
    }.items():
        with pytest.raises(UserError, match=culprit):
            save_model(model, tmp_path / "model.spdt", ch_names=NAMES)
    with pytest.raises(DeployError, match=r"model\.pkl"):
        save_model(made("imagery").decoder, tmp_path / "model.pkl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["step", "parameter", "function", "order"])
def test_files_that_name_other_classes_are_refused(place: str, tmp_path: Path) -> None:
    """No module is imported because a file names it."""
    decoder = made("imagery").decoder
    filterbank, classifier = ({**step} for step in decoder.steps)
    other = "this.Estimator"  # a module that prints when it is imported
    if place == "step":
        classifier["class"] = other
    elif place == "order":
        filterbank, classifier = classifier, filterbank
    else:
        classifier["embedding"] = [{"function" if place == "function" else "class": other}]
    save_model(replace(decoder, steps=[filterbank, classifier]), tmp_path / "model.spdt")
    sys.modules.pop("this", None)
    with pytest.raises(DeployError, match=r"model\.spdt"):
        load_pipeline(tmp_path / "model.spdt")
    assert "this" not in sys.modules


def test_models_of_every_kind_are_left_of_the_first_edition() -> None:
    assert MODELS == ["erp", "geometric", "imagery", "paper", "ssvep"]
    assert load_model(FIRST_EDITION / "imagery.spdt").recentring is not None
    assert load_model(FIRST_EDITION / "ssvep.spdt").front.decimated is not None
    with pytest.raises(DeployError, match=r"imagery\.spdt"):  # which kept no parameters
        load_pipeline(FIRST_EDITION / "imagery.spdt")


@pytest.mark.parametrize("name", MODELS)
def test_files_of_the_first_edition(name: str, tmp_path: Path) -> None:
    """They predict the same as in version 0.1, and can be written and exported."""
    path = FIRST_EDITION / f"{name}.spdt"
    with np.load(FIRST_EDITION / "trials.npz") as file:
        X, wanted = file["X"].astype(np.float64), file[name]
    decoder = load_model(path)
    networks = name in ("paper", "geometric")  # which are stored in float32
    found = decoder.predict_proba(X)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 if networks else 1e-9)
    assert np.ptp(wanted[:, 0]) > 0.05
    assert decoder.classes == ("left", "right")
    (tmp_path / "again.spdt").write_bytes(model_bytes(decoder))
    np.savez(tmp_path / "new.npz", X=X, sfreq=64.0, ch_names=decoder.ch_names)
    again = predict(tmp_path / "again.spdt", tmp_path / "new.npz").probabilities
    np.testing.assert_allclose(again, wanted, rtol=0, atol=1e-6)
    write_onnx(path, tmp_path / "model.onnx")
    in_onnx = load_model(path, tmp_path / "model.onnx").predict_proba(X)
    np.testing.assert_allclose(in_onnx, wanted, rtol=0, atol=1e-5)
