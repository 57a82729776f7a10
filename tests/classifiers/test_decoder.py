"""Whole decoders: what a paradigm decides, what ``fit`` hands on, and recentring."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.preprocessing import Whitening
from pyriemann.transfer import TLCenter, encode_domains
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import FunctionTransformer

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    Recentring,
    SpatialFilterClassifier,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.classifiers.discriminant import Refit, fit_discriminant
from spdtokens.datasets.select import get_paradigm
from spdtokens.errors import DataError, ModelError, NotSPDError, SignalError
from spdtokens.inference import as_decoder, load_pipeline, save_model
from spdtokens.preprocessing import Band
from spdtokens.preprocessing.covariance import folds_in_time
from spdtokens.runtime import load_model
from spdtokens.runtime.balance import running_balance
from spdtokens.runtime.networks import means_over_time
from spdtokens.runtime.signals import with_means
from spdtokens.runtime.tokens import inverse_root
from tests.matrices import random_spd, rhythms

SFREQ = 128.0
SMALL: dict[str, Any] = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "random_state": 0}


def potentials(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A wave, or none, in two channels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    t = np.arange(128) / SFREQ
    X = rng.standard_normal((n, 5, 128))
    X[:, :2] += 0.8 * y[:, None, None] * np.exp(-(((t - 0.3) / 0.08) ** 2))
    return X, y


# What a paradigm decides.


def test_rhythms_are_decoded_from_one_band_of_the_window() -> None:
    decoder = make_decoder("mi", sfreq=250, tmin=-0.5, window=(0.5, 4.0))
    assert [name for name, _ in decoder.steps] == ["filterbank", "classifier"]
    X, y = np.random.default_rng(0).standard_normal((12, 3, 1200)), np.arange(12) % 2
    filterbank = decoder.fit(X, y)["filterbank"]
    assert (filterbank.bands_, filterbank.windows_) == ((Band(8, 30),), ((0.5, 4.0),))
    assert (filterbank.estimator, filterbank.delays) == ("oas", ())
    assert decoder["classifier"].get_params() == TokenDiscriminantClassifier().get_params()
    other = make_decoder("other", sfreq=250, tmin=-0.5, window=(0.5, 4.0))
    np.testing.assert_array_equal(other.fit(X, y).predict_proba(X), decoder.predict_proba(X))
    assert make_decoder("mi", sfreq=250).fit(X, y)["filterbank"].windows_ == ((0.0, 4.8),)


def test_potentials_are_decoded_from_xdawn_in_two_windows() -> None:
    X, y = np.random.default_rng(0).standard_normal((20, 3, 300)), np.arange(20) % 2
    decoder = make_decoder("erp", sfreq=250, tmin=-0.2, window=(-0.2, 0.8)).fit(X, y)
    filterbank = decoder["filterbank"]
    np.testing.assert_allclose(filterbank.windows_, [(-0.2, 0.8), (-0.2, 0.55)])
    assert filterbank.bands_ == (Band(1, 24),)
    assert (filterbank.estimator, filterbank.delays, filterbank.cross_fit) == ("xdawn", (0.1,), 5)
    assert decoder["classifier"].gains is None  # rows are not channels
    whole = make_decoder("erp", sfreq=250, tmin=-0.2).fit(X, y)["filterbank"]
    np.testing.assert_allclose(whole.windows_, [(-0.2, 1.0), (-0.2, 0.7)])


def test_flicker_is_decoded_around_its_frequencies() -> None:
    X, y = np.random.default_rng(0).standard_normal((12, 3, 1000)), np.arange(12) % 2
    decoder = make_decoder("ssvep", sfreq=250, stimulus_hz=(10.0, 15.0), window=(0.0, 4.0))
    bands = decoder.fit(X, y)["filterbank"].bands_
    assert bands[:2] == (Band(9.75, 10.25), Band(14.75, 15.25))
    assert len(bands) == 2 * 2 * 2 + 4
    assert decoder["filterbank"].decimate
    with pytest.raises(ModelError, match="stimulus_hz"):
        make_decoder("ssvep", sfreq=250)


def test_paradigms_have_short_and_long_names() -> None:
    assert get_paradigm("mi") == get_paradigm("motor imagery") == "motor imagery"
    assert get_paradigm("erp") == get_paradigm("P300") == "erp"
    with pytest.raises(DataError, match="'p3'"):
        make_decoder("p3")


def test_default_bands_are_cut_at_half_the_sampling_rate() -> None:
    X, y = rhythms(40)
    with pytest.warns(UserWarning, match=r"8-30 Hz cut to above 8 Hz .* 21\.3"):
        decoder = make_decoder("mi", sfreq=SFREQ / 3)
    assert decoder.fit(X, y)["filterbank"].bands_ == (Band(8, None),)
    flicker = make_decoder("ssvep", sfreq=64.0 / 1.1, stimulus_hz=(8.0, 9.0))
    with pytest.warns(UserWarning, match="30-45 Hz left out"):
        flicker.fit(X, y)
    assert max(band.high or 0 for band in flicker["filterbank"].bands_) < 32 / 1.1
    with pytest.raises(SignalError, match="8-30 Hz"):
        decoder.set_params(filterbank__bands="8-30").fit(X, y)


def test_trials_too_short_for_a_band_are_refused_by_name() -> None:
    X, y = rhythms(20)
    with pytest.raises(SignalError, match="4-8 Hz"):
        make_decoder("ssvep", sfreq=SFREQ, stimulus_hz=(10,)).fit(X[..., :20], y)


def test_it_decodes_whatever_the_unit() -> None:
    (X, y), (test, labels) = rhythms(), rhythms(seed=1)
    decoder = make_decoder("mi", sfreq=SFREQ)
    assert clone(decoder).fit(X, y).score(test, labels) > 0.9
    assert cross_val_score(decoder, X, y, cv=3).mean() > 0.9
    probability = decoder.fit(X, y).predict_proba(test)
    volts = clone(decoder).fit(1e6 * X, y).predict_proba(1e6 * test)
    np.testing.assert_allclose(volts, probability, atol=1e-6)
    again = pickle.loads(pickle.dumps(decoder))
    np.testing.assert_array_equal(again.predict_proba(test), probability)
    np.testing.assert_array_equal(clone(decoder).fit_predict(X, y), decoder.predict(X))


@pytest.mark.parametrize("paradigm", ["mi", "erp"])
def test_matrices_are_taken_as_they_are(paradigm: str) -> None:
    X, y = rhythms()
    signals = make_decoder("mi", sfreq=SFREQ).fit(X, y)
    C = signals["filterbank"].transform(X)
    found = make_decoder(paradigm).fit(C, y).predict_proba(C)
    if paradigm == "mi":
        np.testing.assert_allclose(found, signals.predict_proba(X), atol=1e-9)
    else:  # whose rows are not channels
        none = TokenDiscriminantClassifier(gains=None).fit(C, y).predict_proba(C)
        np.testing.assert_allclose(found, none, atol=1e-12)


def test_its_parameters_can_be_searched() -> None:
    X, y = rhythms()
    grid = {"filterbank__bands": ["20-40", "8-13"], "classifier__ridge": [0.01, 0.1]}
    search = GridSearchCV(make_decoder("mi", sfreq=SFREQ), grid, cv=2).fit(X, y)
    assert search.best_params_["filterbank__bands"] == "8-13"  # where the classes differ


def test_probabilities_of_potentials_that_are_noise_are_not_confident() -> None:
    """Xdawn's filters and averages know labels too."""
    confidence = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((220, 16, 64))
        y = rng.permutation(np.arange(120) % 2)
        decoder = make_decoder("erp", sfreq=64).fit(X[:120], y)
        confidence.append(decoder.predict_proba(X[120:]).max(1).mean())
    assert np.mean(confidence) < 0.57


# What fit hands on.


def of_steps(*steps: Any) -> DecodingPipeline:
    return DecodingPipeline([(type(step).__name__.lower(), step) for step in steps])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_temperature_of_potentials_is_fitted_without_the_labels_of_a_fold(
    grouped: bool, weighted: bool
) -> None:
    """The folds by hand: filter bank and embedding fitted to the training part of each."""
    X, y = potentials(60)
    groups = np.arange(60) // 3 if grouped else None
    weight = np.random.default_rng(1).uniform(0.5, 2, 60) if weighted else None
    filterbank = FilterBankCovariances(
        SFREQ, bands="1-24,4-12", estimator="xdawn", n_filters=2, cross_fit=3
    )
    names = ("affine_invariant", "log_euclidean")
    decoder = of_steps(filterbank, TokenDiscriminantClassifier(names, gains=None))
    decoder.fit(X, y, groups=groups, sample_weight=weight)

    C = clone(filterbank).fit_transform(X, y, groups)
    whole = TokenEmbedding(names, unit_free=True).fit(C)
    refits = []
    for train, test in folds_in_time(y, 5, groups):
        part = clone(filterbank)
        made = np.empty_like(C)
        made[train] = part.fit_transform(
            X[train], y[train], None if groups is None else groups[train]
        )
        made[test] = part.transform(X[test])
        made /= whole.scale_
        tokens = TokenEmbedding(names).fit(made[train]).tokens(made)
        refits.append(Refit(train, test, tokens, None))
    head = fit_discriminant(
        whole.tokens(C),
        y,
        weight,
        groups=groups,
        refitted=np.ones(4, dtype=bool),
        refits=refits,
    )
    # As exact as the temperature is found.
    np.testing.assert_allclose(decoder[-1].coef_, head.weight, rtol=2e-5)
    np.testing.assert_allclose(decoder[-1].intercept_, head.bias, rtol=2e-5)
    # Who is not handed the folds takes the temperature from matrices that know the labels.
    decoder.set_params(tokendiscriminantclassifier__ridge=0.012)
    told = decoder.fit(X, y, groups=groups, sample_weight=weight)[-1].coef_
    seen = clone(decoder[-1]).fit(C, y, groups=groups, sample_weight=weight).coef_
    factor = (told * seen).sum() / (seen * seen).sum()
    np.testing.assert_allclose(told, factor * seen, rtol=1e-6, atol=1e-12)
    assert abs(factor - 1) > 0.01


def test_groups_go_to_every_step_that_takes_them() -> None:
    X, y = potentials()
    groups = np.arange(60) % 12
    filterbank = FilterBankCovariances(SFREQ, estimator="xdawn", n_filters=2, cross_fit=4)
    network = TokenTransformerClassifier(epochs=3, validation=0.25, **SMALL)
    decoder = of_steps(filterbank, network).fit(X, y, groups=groups)
    C = clone(filterbank).fit_transform(X, y, groups=groups)
    expected = clone(network).fit(C, y, groups=groups)
    np.testing.assert_array_equal(decoder[-1].held_back_, expected.held_back_)
    np.testing.assert_array_equal(
        decoder.predict_proba(X), expected.predict_proba(decoder[0].transform(X))
    )
    other = of_steps(clone(filterbank), clone(network)).fit(X, y)
    assert not np.array_equal(other.predict_proba(X), decoder.predict_proba(X))


def test_weights_reach_the_classifier_by_either_name() -> None:
    X, y = rhythms()
    weight = np.where(np.arange(60) < 20, 3.0, 1.0)
    decoder = make_decoder("mi", sfreq=SFREQ)
    C = clone(decoder["filterbank"]).fit_transform(X)
    expected = clone(decoder["classifier"]).fit(C, y, sample_weight=weight).coef_
    for told in ({"sample_weight": weight}, {"classifier__sample_weight": weight}):
        np.testing.assert_array_equal(decoder.fit(X, y, **told)["classifier"].coef_, expected)
    assert not np.array_equal(decoder.fit(X, y)["classifier"].coef_, expected)


def test_validation_trials_take_the_way_of_new_trials() -> None:
    (X, y), (V, v) = rhythms(), rhythms(20, seed=1)
    network = TokenTransformerClassifier(epochs=6, keep="best", **SMALL)
    first = [FilterBankCovariances(SFREQ, bands="paper3"), Recentring()]
    decoder = of_steps(*first, network).fit(X, y, validation=(V, v))
    before = of_steps(*map(clone, first))
    C = before.fit_transform(X)
    expected = clone(network).fit(C, y, validation=(before.transform(V), v))
    for name, curve in expected.history_.items():
        np.testing.assert_array_equal(decoder[-1].history_[name], curve)
    # Of matrices there are no steps before.
    alone = of_steps(clone(network)).fit(C, y, validation=(before.transform(V), v))
    np.testing.assert_array_equal(alone.predict_proba(C), expected.predict_proba(C))


def test_domains_go_to_recentring() -> None:
    X, y = rhythms()
    domains = np.repeat(["a", "b", "c"], 20)
    decoder = of_steps(FilterBankCovariances(SFREQ), Recentring(), TokenDiscriminantClassifier())
    decoder.fit(X, y, domains=domains)
    C = FilterBankCovariances(SFREQ).fit_transform(X)
    expected = Recentring().fit_transform(C, domains=domains)
    np.testing.assert_allclose(
        decoder[-1].coef_, TokenDiscriminantClassifier().fit(expected, y).coef_, rtol=1e-9
    )


@pytest.mark.parametrize("name", ["groups", "sample_weight", "domains", "validation", "unlabeled"])
def test_what_no_step_takes_is_refused(name: str) -> None:
    X, y = rhythms(20)
    value = (X, y) if name in ("validation", "unlabeled") else np.ones(20)
    first = FunctionTransformer(lambda X: X.reshape(len(X), -1))
    theirs = DecodingPipeline([("flat", first), ("between", "passthrough"), ("net", _Plain())])
    with pytest.raises(ModelError, match=f"takes {name}"):
        theirs.fit(X, y, **{name: value})
    assert theirs.fit(X, y).predict(X).shape == (20,)


class _Plain(TokenDiscriminantClassifier):
    """Takes trials and labels only."""

    def __init__(self) -> None:
        super().__init__(None)

    def fit(self, X: Any, y: Any) -> _Plain:  # type: ignore[override]
        return super().fit(X, y)


@pytest.mark.parametrize("paradigm", ["mi", "erp"])
def test_matrices_of_training_trials_can_be_cached(paradigm: str, tmp_path: Path) -> None:
    X, y = potentials()
    weight = np.random.default_rng(1).uniform(0.5, 2, 60)
    expected = make_decoder(paradigm, sfreq=SFREQ).fit(X, y, sample_weight=weight)
    for _ in range(2):  # once to write, once to read
        decoder = make_decoder(paradigm, sfreq=SFREQ).set_params(memory=str(tmp_path))
        decoder.fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(decoder.predict_proba(X), expected.predict_proba(X))
    assert list(tmp_path.rglob("*.pkl"))
    held = TokenTransformerClassifier(epochs=2, keep="best", **SMALL)
    cached = of_steps(FilterBankCovariances(SFREQ), held).set_params(memory=str(tmp_path))
    assert cached.fit(X, y, validation=(X, y)).predict_proba(X).shape == (60, 2)


# Recentring.


def sessions(m: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Two sessions that differ by a mixing of the channels."""
    rng = np.random.default_rng(0)
    C = random_spd(30, m, 4).numpy()
    A = rng.standard_normal((4, 4))
    C[18:] = A @ C[18:] @ A.T
    return C, np.repeat(["monday", "tuesday"], [18, 12])


def test_training_domains_are_centred_as_by_pyriemann() -> None:
    C, domains = sessions()
    made = Recentring()
    found = made.fit_transform(C, domains=domains)
    for i in range(2):
        part = C[:, i]
        _, labels = encode_domains(part, np.zeros(30), domains)
        theirs = TLCenter("tuesday", metric="riemann")
        np.testing.assert_allclose(found[:, i], theirs.fit_transform(part, labels), atol=1e-6)
        means = np.stack([mean_riemann(part[domains == name]) for name in np.unique(domains)])
        np.testing.assert_allclose(made.reference_[i], mean_riemann(means), atol=1e-6)
    assert made.n_features_in_ == 4


def test_without_domains_there_is_one() -> None:
    C, _ = sessions(m=1)
    found = Recentring().fit_transform(C[:, 0])
    assert found.shape == (30, 4, 4)
    np.testing.assert_allclose(found, Whitening(metric="riemann").fit_transform(C[:, 0]), atol=1e-6)


def test_a_new_recording_is_followed_as_by_pyriemann() -> None:
    C, domains = sessions(m=1)
    made = Recentring().fit(C, domains=domains)
    new = random_spd(12, 4, seed=5).numpy()
    mean, expected = made.reference_[0], []
    for count, trial in enumerate(new, 1):
        expected.append(Whitening(metric="riemann").fit(mean[None]).transform(trial[None])[0])
        mean = geodesic_riemann(mean, trial, 1 / (count + 1))
    np.testing.assert_allclose(made.transform(new), expected, atol=1e-8)
    # A trial is seen from those before it only, and nothing of a recording is kept.
    np.testing.assert_array_equal(made.transform(new[:5]), made.transform(new)[:5])


def test_a_new_recording_is_followed_as_a_model_does_live() -> None:
    X, y = rhythms()
    decoder = of_steps(FilterBankCovariances(SFREQ), Recentring(), TokenDiscriminantClassifier())
    decoder.fit(X, y, domains=np.repeat(["a", "b"], 30))
    new, _ = rhythms(15, seed=3)
    session = as_decoder(decoder, ch_names=tuple("ABCDE")).session()
    live = [session.probabilities(trial) for trial in 4 * new]
    np.testing.assert_allclose(decoder.predict_proba(4 * new), live, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("domains", "start"), [("ab", 3), ("a", 10)])
def test_a_balanced_decoder_decides_as_its_model_does_live(
    tmp_path: Path, domains: str, start: int
) -> None:
    """Also read back from a file; and every method of the pipeline knows the correction."""
    X, y = rhythms()
    decoder = of_steps(
        FilterBankCovariances(SFREQ), Recentring(balanced=True), TokenDiscriminantClassifier()
    )
    decoder.fit(X, y, domains=np.repeat(list(domains), 60 // len(domains)))
    new, labels = rhythms(40, seed=3)
    at = np.sort(np.concatenate([np.flatnonzero(labels == k)[:n] for k, n in ((0, 20), (1, 3))]))
    new, labels = 4 * new[at], labels[at]
    found = decoder.predict_proba(new)
    save_model(decoder, tmp_path / "model.spdt", ch_names=tuple("ABCDE"))
    session = load_model(tmp_path / "model.spdt").session()
    live = [session.probabilities(trial) for trial in new]
    np.testing.assert_allclose(live, found, rtol=0, atol=1e-9)
    again = load_pipeline(tmp_path / "model.spdt")
    np.testing.assert_allclose(again.predict_proba(new), found, rtol=0, atol=1e-9)
    C = decoder[:-1].transform(new)
    by_hand = running_balance(decoder.steps[-1][1].predict_proba(C), np.full(2, 0.5), start)
    np.testing.assert_allclose(found, by_hand, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(decoder.predict(new), found.argmax(1))
    np.testing.assert_allclose(
        decoder.decision_function(new), np.log(found[:, 1] / found[:, 0]), atol=1e-9
    )
    assert decoder.score(new, labels) == np.mean(found.argmax(1) == labels)


def test_balance_needs_labels() -> None:
    C, domains = sessions()
    with pytest.raises(ModelError, match="needs labels"):
        Recentring(balanced=True).fit(C, domains=domains)


def test_recentring_refuses_what_it_cannot_use() -> None:
    C, domains = sessions()
    with pytest.raises(SignalError, match="one entry per trial, 30"):
        Recentring().fit(C, domains=domains[:-1])
    with pytest.raises(NotSPDError):
        Recentring().fit(-C)
    made = Recentring().fit(C)
    for wrong in (C[:, :1], C[..., :3, :3]):
        with pytest.raises(SignalError, match=r"\(2, 4, 4\)"):
            made.transform(wrong)


# Windows that share a reference, and means over time.


def rows_and_channels(n: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two bands and three windows of two means and four channels; two people differ."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 4, 60)) + 0.2
    X[n // 2 :] = rng.standard_normal((4, 4)) @ X[n // 2 :]
    C = with_means(X.reshape(-1, 4, 60), 2).reshape(n, 6, 6, 6)
    return C, np.repeat(["ann", "bob"], [n // 2, n - n // 2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_people_are_centred_band_by_band(dtype: Any) -> None:
    C, domains = rows_and_channels()
    made = Recentring(metric="euclid", n_windows=3, n_means=2)
    found = made.fit_transform(C.astype(dtype), domains=domains)
    assert found.dtype == dtype
    assert (made.n_features_in_, made.reference_.shape) == (6, (2, 4, 4))
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    for name in ("ann", "bob"):
        channels = found[domains == name][..., 2:, 2:].reshape(-1, 2, 3, 4, 4)
        mean = channels.mean((0, 2))
        np.testing.assert_allclose(mean, np.stack([np.eye(4)] * 2), atol=tolerance)
    np.testing.assert_allclose(found[..., :2, :2], C[..., :2, :2], rtol=1e-6)


def test_recentred_means_are_those_of_recentred_signals() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 3, 40)) + 0.5
    made = Recentring(metric="euclid", n_means=2)
    found = made.fit_transform(with_means(X, 2))
    W = inverse_root((X @ X.swapaxes(1, 2) / 40).mean(0))
    half = np.split(W @ X, 2, axis=-1)
    wanted = np.stack([x.mean(-1) for x in half], axis=1) * np.sqrt(0.5)
    np.testing.assert_allclose(means_over_time(found[:, None], 2)[:, 0], wanted, atol=1e-10)


def test_shrinkage_limits_the_amplification_of_directions_without_signal() -> None:
    C = np.stack([np.diag([1.0, 1e-8])] * 4)
    plain, shrunk = (Recentring(shrinkage=s).fit_transform(C)[0] for s in (0.0, 0.1))
    np.testing.assert_allclose(np.diag(plain), [1, 1], rtol=1e-6)
    np.testing.assert_allclose(np.diag(shrunk), [1 / 0.95, 1e-8 / 0.05], rtol=1e-5)


def spatial_filters() -> DecodingPipeline:
    shared = {"n_windows": 3, "n_means": 2}
    windows = [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)]
    first = FilterBankCovariances(SFREQ, bands="8-13,13-30", windows=windows, n_means=2)
    network = {"n_filters": 4, "epochs": 3, "ensemble": 1, "random_state": 0, "means_step": 2}
    last = SpatialFilterClassifier(**shared, **network)
    return of_steps(first, Recentring(metric="euclid", **shared), last)


def test_a_person_is_followed_band_by_band_as_a_model_does_live() -> None:
    X, y = rhythms()
    decoder = spatial_filters().fit(X, y, domains=np.repeat(["a", "b"], 30))
    new, _ = rhythms(15, seed=3)
    # By hand: the reference is the mean over windows, and moves towards each trial.
    C = decoder[0].transform(4 * new)
    R = decoder[1].reference_
    assert R.shape == (2, 5, 5)
    expected = []
    for count, trial in enumerate(C, 1):
        W = np.zeros((6, 7, 7))
        W[:, :2, :2] = np.eye(2)
        W[:, 2:, 2:] = np.repeat(inverse_root(R), 3, axis=0)
        expected.append(decoder[2].predict_proba((W @ trial @ W)[None])[0])
        over = trial[:, 2:, 2:].reshape(2, 3, 5, 5).mean(1)
        R = R + (over - R) / (count + 1)
    np.testing.assert_allclose(decoder.predict_proba(4 * new), expected, rtol=0, atol=1e-9)
    session = as_decoder(decoder, ch_names=tuple("ABCDE")).session()
    live = [session.probabilities(trial) for trial in 4 * new]
    np.testing.assert_allclose(live, expected, rtol=0, atol=1e-5)  # single precision


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "logeuclid"}, "metric must be 'riemann' or 'euclid', got 'logeuclid'"),
        ({"n_windows": 4}, "n_windows .* a divisor of 6 matrices per trial, got 4"),
        ({"n_windows": 0}, "n_windows must be an integer >= 1"),
        ({"shrinkage": 1.0}, r"shrinkage must be in \[0, 1\), got 1"),
        ({"shrinkage": -0.1}, "shrinkage"),
        ({"n_means": -1}, "n_means must be"),
        ({"n_means": 6}, "n_means must be"),
    ],
)
def test_bad_options_of_recentring_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Recentring(**options).fit(rows_and_channels()[0])


def test_matrices_in_single_precision_are_followed_too() -> None:
    """Rounding makes the smallest eigenvalue of a trial negative."""
    X = np.random.default_rng(0).standard_normal((20, 4, 3))
    C = (100 * (X @ X.swapaxes(1, 2))).astype(np.float32)
    assert np.linalg.eigvalsh(C.astype(np.float64)).min() < 0
    made = Recentring(metric="euclid").fit(C)
    found = made.transform(C[:2])
    assert found.dtype == np.float32
    first, second = C[:2].astype(np.float64)
    R = made.reference_[0]
    W = inverse_root(R)
    np.testing.assert_allclose(found[0], W @ first @ W, rtol=0, atol=1e-5)
    W = inverse_root((R + first) / 2)
    np.testing.assert_allclose(found[1], W @ second @ W, rtol=0, atol=1e-5)
