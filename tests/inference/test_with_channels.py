"""Models on recordings that lack some of their channels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    MontageInterpolator,
    Recentring,
    TokenDiscriminantClassifier,
    load_dataset,
    load_model,
    load_pipeline,
    predict,
    save_model,
)
from spdtokens.errors import DeployError, SignalError
from spdtokens.inference import as_decoder, with_channels
from spdtokens.runtime import Decoder, DecoderError
from spdtokens.runtime.model_file import packed, unpacked
from tests.inference.helpers import made, trials

#: Channels of a recording without Cz, and how they mix those of the trials.
GIVEN = ("C3", "C1", "C2", "C4", "Pz")
MIX = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def simulated() -> tuple[Decoder, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Train on one session of simulated EEG, recentred; return another."""
    dataset = load_dataset("sim-mi")
    first, second = (dataset.load("1", session) for session in dataset.sessions("1")[:2])
    pipeline = DecodingPipeline(
        [
            ("filterbank", FilterBankCovariances(dataset.sfreq, bands="8-30", estimator="oas")),
            ("recentring", Recentring()),
            ("classifier", TokenDiscriminantClassifier()),
        ]
    ).fit(first.X, first.y)
    decoder = as_decoder(pipeline, ch_names=dataset.ch_names)
    return decoder, second.X, second.y, dataset.ch_names


def test_most_decisions_stay_if_channels_are_missing(simulated: tuple) -> None:
    decoder, X, y, names = simulated
    rows = [i for i in range(len(names)) if i % 4]
    lacking = with_channels(decoder, [names[i] for i in rows])
    correct = {
        "all": (decoder.predict(X) == y.astype(str)).mean(),
        "some": (lacking.predict(X[:, rows]) == y.astype(str)).mean(),
        # As if the missing channels were some others.
        "shuffled": (
            decoder.predict(X[:, np.roll(np.arange(len(names)), 5)]) == y.astype(str)
        ).mean(),
    }
    assert correct["some"] > correct["all"] - 0.1
    assert correct["some"] > correct["shuffled"] + 0.1


@pytest.mark.parametrize("kind", ["imagery", "windows", "causal", "flicker", "ensemble"])
def test_a_model_for_other_channels_is_saved(kind: str, tmp_path: Path) -> None:
    it = made(kind)
    X = MIX @ trials(6, seed=1)[0]
    decoder = with_channels(it.decoder, ["EOG", *GIVEN])
    assert decoder.ch_names == GIVEN
    save_model(decoder, tmp_path / "model.spdt")
    loaded = load_model(tmp_path / "model.spdt")
    np.testing.assert_array_equal(loaded.predict_proba(X), decoder.predict_proba(X))
    # The same as a pipeline, and step by step.
    pipeline = load_pipeline(tmp_path / "model.spdt")
    np.testing.assert_allclose(pipeline.predict_proba(X), decoder.predict_proba(X), atol=1e-6)
    filterbank = it.pipeline[0]
    C = FilterBankCovariances(**filterbank.get_params()).fit_transform(X)
    C = MontageInterpolator(it.decoder.ch_names, GIVEN).fit_transform(C)
    wanted = it.pipeline["classifier"].predict_proba(C)
    np.testing.assert_allclose(decoder.predict_proba(X), wanted, rtol=0, atol=1e-5)
    again = as_decoder(pipeline, ch_names=GIVEN)
    np.testing.assert_array_equal(again.interpolation, decoder.interpolation)


def test_a_model_of_covariances_for_other_channels() -> None:
    decoder = replace(made("imagery").decoder, front=None, sfreq=None)
    C = made("imagery").decoder.covariances(trials(3)[0])[:, 0]
    other = with_channels(decoder, GIVEN)
    found = other.covariances(MIX @ C @ MIX.T)
    np.testing.assert_allclose(found[:, 0, 0, 2], 0.95 * C[:, 0, 2])
    with pytest.raises(DecoderError, match=r"\(n, 1, 5, 5\)"):
        other.covariances(C)


def test_flat_channels_are_named_by_their_number_in_the_recording() -> None:
    X = MIX @ trials(3)[0]
    X[1, 4] = 0
    with pytest.raises(DecoderError, match="Trial 1, channel number 4"):
        with_channels(made("imagery").decoder, GIVEN).predict_proba(X)


def test_what_cannot_be_interpolated() -> None:
    with pytest.raises(DeployError, match="class averages"):
        with_channels(made("potentials").decoder, GIVEN)
    with pytest.raises(DeployError, match="original model file"):
        with_channels(with_channels(made("imagery").decoder, GIVEN), GIVEN)
    with pytest.raises(SignalError, match=r"\(C3, Cz, C4, Pz\): 0 %"):
        with_channels(made("imagery").decoder, ["Fp1", "Fp2"])


@pytest.mark.parametrize("change", ["another number of channels", "no array", "an older format"])
def test_files_whose_matrix_does_not_fit_are_refused(change: str, tmp_path: Path) -> None:
    path = tmp_path / "model.spdt"
    save_model(with_channels(made("imagery").decoder, GIVEN), path)
    config, arrays = unpacked(path)
    assert config["format"] == 3
    if change == "another number of channels":
        arrays["interpolation"] = arrays["interpolation"][:, :4]
    elif change == "no array":
        del arrays["interpolation"]
    else:
        config.pop("interpolated")
    path.write_bytes(packed(json.dumps(config), arrays))
    with pytest.raises(DecoderError, match="not a valid model file"):
        load_model(path)


def test_prediction_interpolates_only_on_request(tmp_path: Path) -> None:
    decoder = made("imagery").decoder
    X = MIX @ trials(6, seed=1)[0]
    file = tmp_path / "new.npz"
    np.savez(file, X=X[:, ::-1], sfreq=decoder.sfreq, ch_names=GIVEN[::-1])
    with pytest.raises(DeployError, match=r"lacks 1 of 4 channels: Cz\..*--interpolate"):
        predict(decoder, file)
    found = predict(decoder, file, interpolate=True)
    wanted = with_channels(decoder, GIVEN).predict_proba(X)
    np.testing.assert_allclose(found.probabilities, wanted, rtol=0, atol=1e-9)
    assert found.notes[0].startswith(
        "1 of 4 channels of the model were interpolated for new.npz: Cz."
    )


def test_files_that_have_all_channels_are_decoded_as_always(tmp_path: Path) -> None:
    decoder = made("imagery").decoder
    X, _ = trials(6, seed=1)
    file = tmp_path / "new.npz"
    np.savez(file, X=X, sfreq=decoder.sfreq, ch_names=decoder.ch_names)
    found = predict(decoder, file, interpolate=True)
    np.testing.assert_array_equal(found.probabilities, decoder.predict_proba(X))
    assert found.notes == []
