"""Trials of which it is known what tells the classes apart."""

from __future__ import annotations

import copy
from pathlib import Path

import mne
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    TokenDiscriminantClassifier,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.classifiers.explain import band_attention, channel_importance, electrode_info
from spdtokens.classifiers.nn import geometric_bias
from spdtokens.errors import ModelError, ReportError
from spdtokens.geometry import EMBEDDINGS
from spdtokens.inference.convert import as_decoder, load_pipeline
from spdtokens.runtime import model_bytes

CHANNELS, SFREQ, SAMPLES = 6, 100.0, 200
BANDS = [(6.0, 12.0), (16.0, 24.0), (30.0, 40.0)]
#: The channel and the band whose power is the class.
CHANNEL, BAND = 4, 1


def planted_trials(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixed noise, and in one channel an oscillation at 20 Hz that is louder in class 1."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    mixing = np.eye(CHANNELS) + 0.2 * np.random.default_rng(99).standard_normal((CHANNELS,) * 2)
    X = mixing @ rng.standard_normal((n, CHANNELS, SAMPLES))
    times = np.arange(SAMPLES) / SFREQ
    phases = rng.uniform(0, 2 * np.pi, (n, 1))
    size = np.where(y, 1.3, 0.5) * rng.uniform(0.7, 1.3, n)
    X[:, CHANNEL] += size[:, None] * np.sin(2 * np.pi * 20 * times + phases)
    # Volts, and gains that differ by orders: no answer may depend on them.
    return 1e-5 * X * (10.0 ** np.arange(-1, CHANNELS - 1) % 7 + 1)[:, None], y


TINY = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "dropout": 0.1}
LEARNT = {"epochs": 25, "learning_rate": 4e-3}


def fitted(filterbank: dict | None = None, **more) -> DecodingPipeline:
    options = {"random_state": 1, **TINY, **LEARNT, **more}
    return of_steps(TokenTransformerClassifier(**options), **filterbank or {})


def of_steps(classifier, unit: float = 1.0, **options) -> DecodingPipeline:
    X, y = planted_trials(120)
    first = FilterBankCovariances(**{"sfreq": SFREQ, "bands": BANDS, **options})
    model = DecodingPipeline([("filterbank", first), ("classifier", classifier)])
    return model.fit(unit * X, y)


@pytest.fixture(scope="module")
def model() -> DecodingPipeline:
    return fitted()


@pytest.mark.parametrize("embedding", ["log_euclidean", "bures_wasserstein", "affine_invariant"])
def test_the_planted_channel_and_band_come_first(embedding: str) -> None:
    X, y = planted_trials(80, seed=1)
    model = fitted(embedding=embedding)
    assert model.score(X, y) > 0.85
    share = channel_importance(model, X)
    assert share.shape == (len(BANDS), CHANNELS)
    assert share.sum() == pytest.approx(1)
    assert np.unravel_index(share.argmax(), share.shape) == (BAND, CHANNEL)
    assert share.sum(1).argmax() == BAND
    assert share[:, CHANNEL].sum() > 2 * np.delete(share.sum(0), CHANNEL).max()


def differences(model: DecodingPipeline, X: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Importance by central differences of probabilities: no gradient, no network by hand."""
    matrices = model["filterbank"].transform(X)
    _, tokens, d, _ = matrices.shape
    found, step = np.zeros((tokens, d)), 1e-6  # a larger step may cross a kink of ReLU
    for at in np.ndindex(tokens, d):
        margins = []
        for sign in (1, -1):
            louder = matrices.copy()
            louder[:, at[0], at[1], :] *= np.exp(sign * step)
            louder[:, at[0], :, at[1]] *= np.exp(sign * step)
            logs = np.log(model["classifier"].predict_proba(louder))
            margins.append(logs[np.arange(len(X)), asked] - logs.mean(1))
        found[at] = np.abs(margins[0] - margins[1]).mean() / (2 * step)
    found *= np.log(np.diagonal(matrices, axis1=2, axis2=3)).std(0)
    return found / found.sum()


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_it_is_what_small_changes_of_gains_do(embedding: str) -> None:
    X, y = planted_trials(6, seed=2)
    model = fitted(embedding=embedding, epochs=2)
    expected = differences(model, X, 1 - y)
    np.testing.assert_allclose(channel_importance(model, X, 1 - y), expected, rtol=1e-4)


def test_an_ensemble_is_explained_by_its_mean_probability() -> None:
    X, y = planted_trials(6, seed=3)
    model = fitted(ensemble=2, epochs=2)
    expected = differences(model, X, y)
    np.testing.assert_allclose(channel_importance(model, X, y), expected, rtol=1e-4)
    one = copy.copy(model["classifier"])
    one.networks_ = one.networks_[:1]
    matrices = model["filterbank"].transform(X)
    assert np.abs(channel_importance(one, matrices, y) - expected).max() > 1e-4


def test_neither_batches_nor_units_nor_the_mode_matter(
    model: DecodingPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = planted_trials(20, seed=4)
    whole = channel_importance(model, X)
    predicted = model.predict(X)
    np.testing.assert_allclose(channel_importance(model, X, predicted), whole, rtol=1e-9)
    monkeypatch.setattr("spdtokens.classifiers.explain.AT_ONCE", 7)
    np.testing.assert_allclose(channel_importance(model, X), whole, rtol=1e-9)
    microvolts = of_steps(clone(model["classifier"]), unit=1e6)
    np.testing.assert_allclose(channel_importance(microvolts, 1e6 * X, predicted), whole, rtol=0.02)
    (network,) = model["classifier"].networks_
    assert not network.training
    assert all(p.grad is None for p in network.parameters())


def test_covariances_are_explained_as_they_are_given(model: DecodingPipeline) -> None:
    test = planted_trials(30, seed=5)[0]
    share = channel_importance(model["classifier"], model["filterbank"].transform(test))
    np.testing.assert_allclose(share, channel_importance(model, test), rtol=1e-9)
    assert np.unravel_index(share.argmax(), share.shape) == (BAND, CHANNEL)


def test_what_cannot_be_explained_is_refused(model: DecodingPipeline, tmp_path: Path) -> None:
    X, y = planted_trials(12)
    with pytest.raises(ModelError, match="per trial"):
        channel_importance(model, X, y[:3])
    with pytest.raises(ReportError, match="LogisticRegression"):
        channel_importance(LogisticRegression(), X)
    prototypes = fitted({"estimator": "xdawn", "n_filters": 1}, epochs=1)
    with pytest.raises(ReportError, match="xdawn"):
        channel_importance(prototypes, X)
    with pytest.raises(ReportError, match="delays"):
        channel_importance(fitted({"delays": (0.1,)}, epochs=1), X)
    tokens = TokenDiscriminantClassifier(None).fit(X[:, :, 0], y)
    with pytest.raises(ReportError, match="over matrices"):
        channel_importance(tokens, X[:, :, 0])
    (tmp_path / "model.spdt").write_bytes(model_bytes(as_decoder(model, ch_names=tuple("ABCDEF"))))
    for explain in (channel_importance, band_attention):
        with pytest.raises(ReportError, match="model file"):
            explain(load_pipeline(tmp_path / "model.spdt"), X)
    with pytest.raises(ReportError, match="1 trials"):
        channel_importance(model, X[:1])
    deaf = copy.deepcopy(model)
    with torch.no_grad():
        deaf["classifier"].networks_[0].head.weight.zero_()
    with pytest.raises(ReportError, match="12 trials"):
        channel_importance(deaf, X)


def test_the_discriminant_is_explained_too() -> None:
    X, y = planted_trials(120)
    model = of_steps(TokenDiscriminantClassifier())
    test, labels = planted_trials(80, seed=1)
    assert model.score(test, labels) > 0.85
    share = channel_importance(model, test)
    assert share.shape == (len(BANDS), CHANNELS)
    assert np.unravel_index(share.argmax(), share.shape) == (BAND, CHANNEL)
    with pytest.raises(ReportError, match="TokenDiscriminantClassifier"):
        band_attention(model, test)
    potentials = make_decoder("erp", sfreq=SFREQ).set_params(filterbank__n_filters=1).fit(X, y)
    with pytest.raises(ReportError, match="most rows"):
        channel_importance(potentials, test)


def by_hand(model: DecodingPipeline, X: np.ndarray) -> np.ndarray:
    """The weights of all trials at once, network by network."""
    C, classifier = model["filterbank"].transform(X), model["classifier"]
    tokens = torch.from_numpy(classifier.embedding_.tokens(C))
    bias = None
    if classifier.attention == "geometric":
        bias = geometric_bias(torch.from_numpy(C), classifier.alpha).double()
    with torch.inference_mode():
        weights = [network.attention_weights(tokens, bias) for network in classifier.networks_]
    return torch.stack(weights).mean((0, 1, 2, 3)).numpy()


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ({}, 3),
        ({"ensemble": 2}, 3),
        ({"attention": "geometric", "alpha": 3.0}, 3),
        ({"embedding": ["log_euclidean", "bures_wasserstein"]}, 6),
    ],
)
def test_it_is_the_mean_of_what_the_network_uses(
    more: dict, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = planted_trials(20, seed=1)
    model = fitted(epochs=3, **more)
    monkeypatch.setattr("spdtokens.classifiers.explain.AT_ONCE", 8)
    weights = band_attention(model, X)
    np.testing.assert_allclose(weights.sum(1), np.ones(tokens))
    assert np.abs(weights - 1 / tokens).max() > 1e-3
    np.testing.assert_allclose(weights, by_hand(model, X), rtol=1e-6)


def test_one_token_has_nothing_to_attend_to() -> None:
    with pytest.raises(ReportError, match="one token"):
        band_attention(fitted({"bands": "broadband"}, epochs=1), planted_trials(4)[0])


def test_names_are_found_in_any_case_and_others_left_out() -> None:
    info, places = electrode_info(["fcz", "EOG", "EEG C3-REF", "CZ.", "Gyro"])
    assert places == [0, 2, 3]
    assert info.ch_names == ["fcz", "EEG C3-REF", "CZ."]
    known = mne.channels.make_standard_montage("colin27_1005").get_positions()["ch_pos"]
    found = np.array([channel["loc"][:3] for channel in info["chs"]])
    # MNE moves a montage from the frame of the template to that of the head: distances stay.
    apart = np.linalg.norm(found[0] - found[1])
    assert apart == pytest.approx(np.linalg.norm(known["FCz"] - known["C3"]), rel=1e-5)
    assert found[1][0] < 0 < found[1][2]  # C3 is left, and above the ears


def test_a_position_counts_once_and_none_is_fine() -> None:
    assert electrode_info(["T3", "Cz", "T7"])[1] == [0, 1]
    info, places = electrode_info(["a", "b"])
    assert places == []
    assert info.ch_names == []
