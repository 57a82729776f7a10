"""The preset `recommended`: tokens by paradigm, the classifier, its place in evaluations."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from spdtokens.training.methods import MethodError, Settings, get_method
from spdtokens.training.recommended import (
    EMBEDDINGS,
    GAINS,
    gain_drift,
    paradigm_of,
    recommended_tokens,
)

from spdtokens import SPDTokenClassifier, evaluate, load_dataset
from spdtokens.data import Dataset, Recording
from spdtokens.models import ModelError
from spdtokens.signal.bands import SignalError
from spdtokens.signal.folds import folds_in_time
from spdtokens.training import TrainingError

SFREQ = 128.0


def rhythms(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the strength of 10 Hz in one channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = np.arange(256) / SFREQ
    X = rng.standard_normal((n, 5, 256))
    waves = np.sin(2 * np.pi * 10 * t + rng.uniform(0, 6.3, (n, 1)))
    X[:, 2] += (0.5 + 1.5 * y[:, None]) * waves
    return 1e-5 * X, y


def test_tokens_depend_on_the_paradigm_and_the_window_only() -> None:
    imagery = recommended_tokens("motor imagery", (0.5, 4.0))
    assert imagery["bands"] == [(8.0, 30.0)]
    assert imagery["windows"] == [(0.5, 4.0)]
    assert imagery["covariance"] == "oas"
    assert recommended_tokens("other", (0.5, 4.0)) == imagery
    potentials = recommended_tokens("erp", (-0.2, 0.8))
    assert potentials["covariance"] == "xdawn"
    np.testing.assert_allclose(potentials["windows"], [(-0.2, 0.8), (-0.2, 0.55)])
    flicker = recommended_tokens("ssvep", (1.0, 5.0), (10.0, 15.0))["bands"]
    assert flicker[:2] == [(9.75, 10.25), (14.75, 15.25)]
    assert (29.0, 31.0) in flicker  # around the second harmonic of 15 Hz
    assert len(flicker) == 2 * 2 * 2 + 4
    # In half a second 0.5 Hz cannot be told apart, nor can 1 Hz: one width is left.
    short = recommended_tokens("ssvep", (0.0, 0.5), (10.0, 15.0))["bands"]
    np.testing.assert_allclose(short[:2], [(9.0, 11.0), (14.0, 16.0)], atol=1e-3)
    assert len(short) == 2 * 2 + 4


def test_paradigms_by_name() -> None:
    assert paradigm_of(None, ()) == paradigm_of("mi", ()) == "motor imagery"
    assert paradigm_of(None, (13.0,)) == paradigm_of("ssvep", (13.0,)) == "ssvep"
    with pytest.raises(TrainingError, match=r"no paradigm 'p300'\. There are: mi, erp"):
        paradigm_of("p300", ())
    with pytest.raises(TrainingError, match="flicker frequencies, which are not known"):
        recommended_tokens("ssvep", (0.0, 4.0))


def test_it_is_the_default_and_decodes() -> None:
    X, y = rhythms()
    test, labels = rhythms(seed=1)
    model = SPDTokenClassifier(sfreq=SFREQ)
    assert model.preset == "recommended"
    assert model.fit(X, y).score(test, labels) > 0.9
    names = ("affine_invariant", "whitened_root", "principal_correlation", "class_filters")
    assert model.tokenizer_.token_names_ == [f"8-30 Hz, {name}" for name in names]
    probability = model.predict_proba(test)
    np.testing.assert_allclose(probability.sum(1), 1)
    # The unit does not matter, and neither does chance.
    volts = clone(model).fit(1e6 * X, y).predict_proba(1e6 * test)
    np.testing.assert_allclose(volts, probability, atol=1e-6)
    again = pickle.loads(pickle.dumps(clone(model).fit(X, y)))
    np.testing.assert_array_equal(again.predict_proba(test), probability)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9


def test_scores_listen_less_to_gains_that_may_change() -> None:
    X, y = rhythms()
    heard = {}
    for expected in (0.0, 0.06, 0.6):
        model = SPDTokenClassifier(sfreq=SFREQ, gains=(0.0, expected)).fit(X, y)
        embedding = model.tokenizer_.embedding_
        drift = gain_drift(embedding, embedding.reference.numpy(), 5, 0.0, 0.06)
        weight = model.networks_[0].weight.numpy()
        effects = np.tensordot(drift, weight[..., 1] - weight[..., 0], 2)
        heard[expected] = np.linalg.norm(effects) / logit(model.predict_proba(X)[:, 1]).std()
    assert heard[0.6] < heard[0.06] < heard[0.0]


def test_the_preset_expects_gains_to_change() -> None:
    X, y = rhythms()
    test, _ = rhythms(seed=1)
    default = SPDTokenClassifier(sfreq=SFREQ).fit(X, y).predict_proba(test)
    told = SPDTokenClassifier(sfreq=SFREQ, gains=GAINS).fit(X, y).predict_proba(test)
    np.testing.assert_array_equal(told, default)
    none = SPDTokenClassifier(sfreq=SFREQ, gains=(0.0, 0.0)).fit(X, y).predict_proba(test)
    assert np.abs(none - default).max() > 1e-3


def test_of_few_trials_there_are_neither_filters_nor_gains() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(8) % 2
    C = rng.standard_normal((8, 8, 40))
    C[y == 1, 3] *= 2
    C = C @ C.swapaxes(-1, -2) / 40
    few = SPDTokenClassifier().fit(C, y)
    assert few.tokenizer_.embedding == EMBEDDINGS[:-1]
    plain = SPDTokenClassifier(EMBEDDINGS[:-1], gains=(0.0, 0.0)).fit(C, y)
    np.testing.assert_allclose(few.predict_proba(C), plain.predict_proba(C), atol=1e-12)
    enough = SPDTokenClassifier().fit(C[:, :7, :7], y)
    assert enough.tokenizer_.embedding == EMBEDDINGS
    # Whoever names them gets them.
    asked = SPDTokenClassifier(EMBEDDINGS, gains=GAINS).fit(C, y)
    assert asked.tokenizer_.n_tokens_ == 4
    assert np.abs(asked.predict_proba(C) - few.predict_proba(C)).max() > 1e-3


def test_matrices_of_potentials_have_no_gains() -> None:
    X, y = rhythms()
    C = SPDTokenClassifier(sfreq=SFREQ).fit(X, y).tokenizer_.covariances(X)
    told = SPDTokenClassifier(paradigm="erp").fit(C, y).predict_proba(C)
    none = SPDTokenClassifier(gains=(0.0, 0.0)).fit(C, y).predict_proba(C)
    np.testing.assert_allclose(told, none, atol=1e-12)
    with pytest.raises(TrainingError, match="gains is for covariances of channels"):
        SPDTokenClassifier(paradigm="erp", gains=(0.1, 0.1)).fit(C, y)


def test_drift_is_what_gains_do_to_tokens() -> None:
    X, y = rhythms()
    tokenizer = SPDTokenClassifier(sfreq=SFREQ, delays=(0.1,)).fit(X, y).tokenizer_
    middle = tokenizer.embedding_.reference.numpy()
    drift = gain_drift(tokenizer.embedding_, middle, 5, 0.2, 0.3)
    assert drift.shape == (6, 4, 55)
    both = np.ones(10)
    both[[1, 6]] = np.exp(0.3)  # a channel and its past
    for row, factor in ((0, np.full(10, np.exp(0.2))), (2, both)):
        moved = tokenizer.embedding_.to_token(middle * factor[:, None] * factor)
        np.testing.assert_allclose(
            drift[row], moved - tokenizer.embedding_.to_token(middle), atol=1e-12
        )


def test_covariances_are_taken_as_they_are() -> None:
    X, y = rhythms()
    raw = SPDTokenClassifier(sfreq=SFREQ).fit(X, y)
    C = raw.tokenizer_.covariances(X)
    given = SPDTokenClassifier().fit(C, y)
    np.testing.assert_allclose(given.predict_proba(C), raw.predict_proba(X), atol=1e-9)


def test_own_bands_windows_and_embedding() -> None:
    X, y = rhythms()
    model = SPDTokenClassifier(
        "log_euclidean", sfreq=SFREQ, bands="paper3", windows=[(0, 1), (1, 2)], covariance="lwf"
    )
    model.fit(X, y)
    assert model.tokenizer_.n_tokens_ == 6
    assert model.tokenizer_.covariance == "lwf"
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 5}, "epochs is for networks, and preset 'recommended' has none"),
        ({"ensemble": 3}, "ensemble is for networks"),
        ({"validation": 0.2}, "validation is for networks"),
        ({"preset": "best"}, "no preset 'best'. There are: recommended, paper"),
        ({"paradigm": "rest"}, "no paradigm 'rest'"),
        ({"gains": (0.1,)}, r"gains are two numbers, none below zero, not \(0\.1,\)"),
        ({"gains": (0.1, -1.0)}, "gains are two numbers"),
        ({"gains": (0.1, 0.1), "preset": "paper"}, "gains is for preset 'recommended'"),
        ({"gains": (0.1, 0.1), "paradigm": "erp"}, "those of potentials have class averages"),
    ],
)
def test_bad_settings_are_refused(change: dict, message: str) -> None:
    X, y = rhythms(20)
    with pytest.raises(TrainingError, match=message):
        SPDTokenClassifier(sfreq=SFREQ, **change).fit(X, y)


def test_networks_cannot_weigh_trials() -> None:
    X, y = rhythms(20)
    with pytest.raises(TrainingError, match="Preset 'paper' cannot weigh trials"):
        SPDTokenClassifier(sfreq=SFREQ, preset="paper").fit(X, y, sample_weight=np.ones(20))


def test_short_trials_are_refused_by_name() -> None:
    X, y = rhythms(20)
    with pytest.raises(SignalError, match="4-8 Hz"):
        SPDTokenClassifier(sfreq=SFREQ, stimulus_frequencies=(10,)).fit(X[..., :20], y)


def test_it_is_a_method_for_every_paradigm() -> None:
    method = get_method("recommended")
    for name in ("sim-mi", "sim-erp", "sim-ssvep"):
        dataset = load_dataset(name)
        options = method.options(dataset, Settings())
        wanted = recommended_tokens(dataset.paradigm, dataset.window, dataset.stimulus_frequencies)
        assert options["windows"] == wanted["windows"]
        assert options["covariance"] == wanted["covariance"]
        own = method.options(dataset, Settings(bands="paper3", covariance="lwf"))
        assert (own["bands"], own["covariance"]) == ("paper3", "lwf")
    unknown = replace(load_dataset("sim-ssvep"), stimulus_frequencies=())
    with pytest.raises(TrainingError, match="flicker frequencies"):
        method.options(unknown, Settings())


def two_people() -> Dataset:
    """Two subjects with two sessions each."""

    def read(subject: str, session: str) -> Recording:
        X, y = rhythms(40, seed=10 * int(subject) + int(session))
        order = np.random.default_rng(int(session)).permutation(40)
        X = X[:, ::-1] if subject == "2" else X
        return Recording(subject, session, X[order], y[order], np.full(40, "0"), np.arange(40))

    return Dataset(
        name="two people",
        description="",
        paradigm="motor imagery",
        classes=("weak", "strong"),
        ch_names=tuple("ABCDE"),
        sfreq=SFREQ,
        tmin=0.0,
        window=(0.5, 2.0),
        index={"1": ("1", "2"), "2": ("1", "2")},
        read=read,
    )


def test_own_trials_count_for_as_much_as_those_of_all_others() -> None:
    dataset = two_people()
    answer = evaluate(dataset, ["recommended"], protocol="leave-one-subject-out-calibrated")
    run = next(r for r in answer.results["recommended"] if r.spec.subject == "2")
    (mine,) = (dataset.load("2", s) for s in ("1", "2") if s != run.spec.fold)
    others = [dataset.load("1", s) for s in ("1", "2")]
    X, y = (np.concatenate([getattr(r, name) for r in (*others, mine)]) for name in ("X", "y"))
    weight = np.repeat([1.0, 2.0], [80, 40])
    test = dataset.load("2", run.spec.fold).X
    model = get_method("recommended").classifier(dataset, Settings())
    expected = model.fit(X, y, sample_weight=weight).predict_proba(test)
    np.testing.assert_allclose(run.probabilities, expected, atol=1e-9)
    plain = clone(model).fit(X, y).predict_proba(test)
    assert np.abs(plain - expected).max() > 1e-3


def test_ingredients_can_be_changed_one_by_one() -> None:
    dataset = load_dataset("sim-erp")
    changes = {"delays": (), "cross_fit": 1, "ridge": 0.1, "embedding": "affine_invariant"}
    changes["gains"] = (0.1, 0.06)
    settings = Settings(changes=changes)
    method = get_method("recommended")
    model = method.classifier(dataset, settings)
    assert {name: getattr(model, name) for name in changes} == changes
    assert model.windows == recommended_tokens("erp", dataset.window)["windows"]
    plain = method.configuration(dataset, Settings())
    found = {k for k, v in method.configuration(dataset, settings).items() if v != plain[k]}
    assert found == {*changes, "of few trials"}
    # What is named holds of few trials too: another run than that of the preset.
    named = method.configuration(dataset, Settings(changes={"embedding": EMBEDDINGS}))
    assert named != plain
    with pytest.raises(MethodError, match=r"recommended has no 'n_layers'\. It has: windows"):
        method.configuration(dataset, Settings(changes={"n_layers": 2}))
    with pytest.raises(ModelError, match="ridge"):
        SPDTokenClassifier(sfreq=SFREQ, ridge=0.0).fit(*rhythms(20))


def test_probabilities_of_noise_are_not_confident() -> None:
    """What sees labels, common spatial patterns above all, is fitted within the folds."""
    confidence = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((180, 32, 250))
        y = np.arange(180) % 2
        model = SPDTokenClassifier(sfreq=125.0).fit(X[:80], rng.permutation(y[:80]))
        confidence.append(model.predict_proba(X[80:]).max(1).mean())
    assert np.mean(confidence) < 0.57


def test_probabilities_of_potentials_that_are_noise_are_not_confident() -> None:
    """Xdawn's filters and averages know labels too."""
    confidence = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((220, 16, 64))
        y = np.arange(220) % 2
        model = SPDTokenClassifier(sfreq=64.0, paradigm="erp")
        model.fit(X[:120], rng.permutation(y[:120]))
        confidence.append(model.predict_proba(X[120:]).max(1).mean())
    assert np.mean(confidence) < 0.57


@pytest.mark.parametrize("paradigm", ["mi", "erp"])
def test_no_fold_of_the_temperature_sees_labels_of_its_test_part(paradigm: str) -> None:
    X, y = rhythms(40)
    model = SPDTokenClassifier(sfreq=SFREQ, paradigm=paradigm).fit(X, y)
    C = model.tokenizer_.fit_covariances(X, y)
    (train, test), *_ = folds_in_time(y, 5)
    other = y.copy()
    other[test] = 1 - other[test]
    found = [
        next(model.tokenizer_.refitted(X, C, labels, [(train, test)])) for labels in (y, other)
    ]
    tokens = [embedding.to_token(matrices) for embedding, matrices in found]
    np.testing.assert_array_equal(*tokens)
    assert tokens[0].shape[1] == model.tokenizer_.is_refitted_.sum() > 0


def test_a_device_is_refused_and_not_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rhythms(20)
    SPDTokenClassifier(sfreq=SFREQ, device="cpu").fit(X, y)
    with pytest.raises(TrainingError, match="device='cuda'"):
        SPDTokenClassifier(sfreq=SFREQ, device="cuda").fit(X, y)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(TrainingError, match="device='cuda' is for networks"):
        SPDTokenClassifier(sfreq=SFREQ, device="cuda").fit(X, y)


def test_default_bands_are_cut_at_half_the_sampling_rate() -> None:
    X, y = rhythms(40)
    with pytest.warns(UserWarning, match=r"8-30 Hz cut to above 8 Hz .* 21\.3"):
        model = SPDTokenClassifier(sfreq=SFREQ / 3).fit(X, y)
    assert [str(band) for band in model.tokenizer_.bands_] == ["above 8 Hz"]
    with pytest.warns(UserWarning, match="30-45 Hz left out"):
        model = SPDTokenClassifier(sfreq=64.0 / 1.1, stimulus_frequencies=(8.0, 9.0)).fit(X, y)
    assert max(band.high or 0 for band in model.tokenizer_.bands_) < 32 / 1.1
    with pytest.warns(UserWarning, match="4-40 Hz cut to above 4 Hz"):
        SPDTokenClassifier(sfreq=SFREQ / 3, preset="paper", epochs=1).fit(X, y)
    for preset in ("recommended", "paper"):
        with pytest.raises(SignalError, match="8-30 Hz"):
            SPDTokenClassifier(sfreq=SFREQ / 3, preset=preset, bands=[(8, 30)]).fit(X, y)
