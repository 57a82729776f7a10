"""The decoder against the pipeline it was made of."""

from __future__ import annotations

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
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.errors import DeployError
from spdtokens.inference.convert import as_decoder, load_pipeline
from spdtokens.inference.training import save_model
from spdtokens.runtime import DecoderError, load_model
from tests.inference.made import KINDS, NAMES, SFREQ, TINY, made, trials


@pytest.mark.parametrize("kind", KINDS)
def test_decoders_predict_what_pipelines_predict(kind: str) -> None:
    it = made(kind)
    X, _ = trials(12, seed=1)
    found, wanted = it.decoder.predict_proba(X), it.expected(X)
    # Transformers are stored in float32.
    networks = isinstance(it.pipeline["classifier"], TokenTransformerClassifier)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 if networks else 1e-9)
    assert np.ptp(found[:, 0]) > 0.01  # not the same for all trials
    assert it.decoder.predict(X).tolist() == [("left", "right")[i] for i in wanted.argmax(1)]


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_pipelines_again(kind: str, tmp_path: Path) -> None:
    it = made(kind)
    save_model(it.decoder, tmp_path / "model.spdt")
    found = load_pipeline(tmp_path / "model.spdt")
    X, _ = trials(12, seed=1)
    wanted = it.decoder.predict_proba(X)
    np.testing.assert_allclose(found.predict_proba(X), wanted, rtol=0, atol=1e-9)
    assert found.classes_.tolist() == ["left", "right"]
    for (_, step), (_, other) in zip(found.steps, it.pipeline.steps, strict=True):
        assert type(step) is type(other)
        assert str(as_lists(step.get_params())) == str(as_lists(other.get_params()))


def as_lists(value: Any) -> Any:
    """Parameters as JSON keeps them."""
    if isinstance(value, dict):
        return {name: as_lists(item) for name, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_are_those_of_the_filter_bank(kind: str) -> None:
    it = made(kind)
    X, _ = trials(5, seed=2)
    filterbank = it.pipeline["filterbank"]
    wanted = filterbank.transform(X).reshape(5, filterbank.n_matrices_, *it.decoder.shape[1:])
    found = it.decoder.covariances(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10 * np.abs(wanted).max())
    assert it.decoder.shape == found.shape[1:]


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_models_of_matrices(in_pipeline: bool) -> None:
    X, y = trials()
    C = FilterBankCovariances(SFREQ).fit_transform(X)
    classifier = TokenDiscriminantClassifier()
    model = make_pipeline(classifier) if in_pipeline else classifier
    decoder = as_decoder(model.fit(C, y), ch_names=NAMES)
    np.testing.assert_allclose(decoder.predict_proba(C), model.predict_proba(C), rtol=0, atol=1e-9)
    assert decoder.classes == ("0", "1")
    with pytest.raises(ValueError, match="no samples"):
        _ = decoder.n_samples


def test_recentred_models_follow_a_recording() -> None:
    X, y = trials()
    steps = [FilterBankCovariances(SFREQ), Recentring(), TokenDiscriminantClassifier()]
    model = DecodingPipeline([(str(i), step) for i, step in enumerate(steps)])
    model.fit(X, y, domains=np.arange(40) // 20)
    new, _ = trials(9, seed=3)
    decoder = as_decoder(model, ch_names=NAMES)
    expected = model.predict_proba(2 * new)
    np.testing.assert_allclose(decoder.predict_proba(2 * new), expected, rtol=0, atol=1e-9)


def test_any_pipeline_of_our_steps_will_do() -> None:
    """Names of steps do not matter, nor whose pipeline it is."""
    X, y = trials()
    names = np.array(["left", "right"])[y]
    network = TokenTransformerClassifier(
        ["euclidean", "cholesky"], **TINY, epochs=2, random_state=0
    )
    model = make_pipeline(FilterBankCovariances(SFREQ, bands="paper3"), network).fit(X, names)
    decoder = as_decoder(model, ch_names=NAMES, unit_in_volts=1e-6)
    np.testing.assert_allclose(decoder.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-5)
    assert decoder.classes == ("left", "right")
    assert (decoder.sfreq, decoder.unit_in_volts) == (SFREQ, 1e-6)


@pytest.mark.parametrize("estimator", ["lwf", "sch"])
def test_an_estimator_that_the_runtime_lacks_is_refused_when_saved(
    estimator: str, tmp_path: Path
) -> None:
    X, y = trials()
    model = make_decoder("mi", sfreq=SFREQ).set_params(filterbank__estimator=estimator).fit(X, y)
    decoder = as_decoder(model, ch_names=NAMES)
    np.testing.assert_allclose(decoder.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-9)
    with pytest.raises(DecoderError, match=f"'{estimator}'.*oas"):
        save_model(decoder, tmp_path / "model.spdt")
    assert not list(tmp_path.iterdir())
    save_model(
        as_decoder(model.set_params(filterbank__estimator="oas").fit(X, y), ch_names=NAMES),
        tmp_path / "model.spdt",
    )
    assert load_model(tmp_path / "model.spdt").ch_names == NAMES


def test_what_a_model_file_cannot_hold_is_refused() -> None:
    X, y = trials()
    C = FilterBankCovariances(SFREQ).fit_transform(X)
    with pytest.raises(DeployError, match="TokenEmbedding, LogisticRegression"):
        as_decoder(
            make_pipeline(FilterBankCovariances(SFREQ), TokenEmbedding(), LogisticRegression()).fit(
                X, y
            ),
            ch_names=NAMES,
        )
    with pytest.raises(DeployError, match="TokenMLPClassifier"):
        as_decoder(TokenMLPClassifier(epochs=1).fit(C, y), ch_names=NAMES)
    tokens = TokenEmbedding().fit_transform(C)
    with pytest.raises(DeployError, match="embedding=None"):
        as_decoder(TokenDiscriminantClassifier(None).fit(tokens, y), ch_names=NAMES)
