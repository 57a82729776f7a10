"""Networks on tokens: as scikit-learn and people use them, alone and many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pyriemann.estimation import Covariances
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    NetworkClassifier,
    Recentring,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    fit_together,
    make_decoder,
)
from spdtokens.classifiers.base import held_back
from spdtokens.classifiers.nn import SPDTokenMLP, SPDTokenTransformer
from spdtokens.classifiers.nn.transformer import geometric_bias
from spdtokens.classifiers.transformer import TokenNetworkClassifier
from spdtokens.errors import ModelError, NotSPDError, UserError
from spdtokens.geometry import EMBEDDINGS
from spdtokens.geometry.embeddings import SUPERVISED

TINY: dict[str, Any] = {
    "d_model": 16,
    "n_layers": 1,
    "n_heads": 2,
    "d_ff": 32,
    "epochs": 30,
    "batch_size": 16,
    "learning_rate": 1e-2,
}
SFREQ = 100.0


def tokens(n: int = 60, n_tokens: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, n_tokens, 6))
    X[:, :, 0] += 2 * y[:, None]
    return X, np.array(["feet", "left", "right"])[y]


def trials(n: int = 48, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Raw trials whose classes differ in the variance of one channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 4, 150))
    X[:, 1] *= (1 + 2 * y)[:, None]
    return X, y


def matrices(n: int = 48, m: int = 1, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    X, y = trials(n, seed)
    pieces = X.reshape(n, 4, m, -1).swapaxes(1, 2)
    return pieces @ pieces.swapaxes(-1, -2) / pieces.shape[-1], y


def ready(**options: Any) -> TokenTransformerClassifier:
    """On tokens by default."""
    return TokenTransformerClassifier(**{**TINY, "embedding": None, "random_state": 0, **options})


def test_predictions() -> None:
    X, y = tokens()
    model = ready().fit(X[::2], y[::2])
    np.testing.assert_array_equal(model.classes_, ["feet", "left", "right"])
    probability = model.predict_proba(X)
    assert probability.shape == (60, 3)
    np.testing.assert_allclose(probability.sum(1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probability.argmax(1)])
    assert model.score(X[1::2], y[1::2]) > 0.7
    assert model.history_["train loss"].shape == (1, 30)
    assert model.history_["train loss"][0, -1] < model.history_["train loss"][0, 0]
    assert model.n_epochs_ == [30]
    # The same number whichever trials are predicted beside it.
    np.testing.assert_allclose(model.predict_proba(X[7:8]), probability[7:8], rtol=1e-12)
    # Decisions are logarithms of probabilities.
    values = model.decision_function(X)
    np.testing.assert_allclose(
        values - values[:, :1], np.log(probability / probability[:, :1]), atol=1e-9
    )


@pytest.mark.parametrize("make", [TokenTransformerClassifier, TokenMLPClassifier])
@pytest.mark.parametrize("ensemble", [1, 3])
def test_probabilities_are_those_of_the_networks_in_torch(make: type, ensemble: int) -> None:
    C, y = matrices(m=3)
    model = make(epochs=3, ensemble=ensemble, random_state=0).fit(C, y)
    with torch.no_grad():
        X = torch.from_numpy(model.embedding_.tokens(C))
        members = [network(X).softmax(1).numpy() for network in model.networks_]
    np.testing.assert_allclose(model.predict_proba(C), np.mean(members, 0), rtol=1e-9)
    decisions = np.log(model.predict_proba(C))
    np.testing.assert_allclose(
        model.decision_function(C), decisions[:, 1] - decisions[:, 0], atol=1e-9
    )


@pytest.mark.parametrize("embedding", [None, "log_euclidean"])
def test_one_token_needs_no_axis(embedding: str | None) -> None:
    X, y = tokens(n_tokens=1) if embedding is None else matrices()
    flat, deep = ready(embedding=embedding), ready(embedding=embedding).fit(X[:24], y[:24])
    flat.fit(X[:24, 0], y[:24])
    np.testing.assert_array_equal(flat.predict_proba(X[:, 0]), deep.predict_proba(X))
    assert flat.n_features_in_ == (6 if embedding is None else 4)
    assert embedding is None or flat.score(X[24:, 0], y[24:]) > 0.8


def test_random_state() -> None:
    X, y = tokens()

    def fitted(seed: Any) -> np.ndarray:
        return ready(random_state=seed).fit(X, y).predict_proba(X)

    before = torch.get_rng_state()
    np.testing.assert_array_equal(fitted(3), fitted(3))
    assert not np.array_equal(fitted(3), fitted(4))
    np.testing.assert_array_equal(
        fitted(np.random.RandomState(5)), fitted(np.random.RandomState(5))
    )
    assert torch.equal(before, torch.get_rng_state())  # nobody else's randomness is touched


def test_the_first_of_an_ensemble_is_the_network_that_the_seed_gives_alone() -> None:
    X, y = tokens()
    model, alone = ready(random_state=7, ensemble=3).fit(X, y), ready(random_state=7).fit(X, y)
    assert model.history_["train loss"].shape == (3, 30)
    first, second, _ = (network.head.weight.detach() for network in model.networks_)
    assert torch.equal(alone.networks_[0].head.weight, first)
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("make", [TokenTransformerClassifier, TokenMLPClassifier])
def test_validation_chooses_the_epoch_and_never_splits_groups(make: type) -> None:
    X, y = tokens(90)
    y = np.random.default_rng(0).permutation(y)  # nothing to learn
    options = {"epochs": 30, "batch_size": 16, "learning_rate": 1e-2, "random_state": 0}
    options |= {"keep": "best", "patience": 5, "validation": 0.3}
    model = make(None, **options).fit(X, y)
    losses = model.history_["validation loss"][0]
    assert model.n_epochs_ == [losses.argmin() + 1]
    assert len(losses) == model.n_epochs_[0] + 5
    groups = np.repeat(np.arange(30), 3)
    grouped = make(None, **options).fit(X, y, groups=groups)
    plan = held_back(0, np.unique(y, return_inverse=True)[1], groups, 0.3)
    np.testing.assert_array_equal(grouped.held_back_, plan.validation)
    assert set(groups[grouped.held_back_]).isdisjoint(np.delete(groups, grouped.held_back_))


def test_given_trials_choose_the_epoch_and_are_not_trained_on() -> None:
    (C, y), (V, v) = matrices(), matrices(20, seed=2)
    options = {**TINY, "keep": "best", "random_state": 0}
    model = TokenTransformerClassifier(**options).fit(C, y, validation=(V, v))
    assert model.held_back_ is None
    losses = model.history_["validation loss"][0]
    assert model.n_epochs_ == [int(losses.argmin()) + 1]
    right = model.predict_proba(V)[np.arange(20), v]
    assert losses.min() == pytest.approx(-np.log(right).mean(), rel=1e-4)
    # Others to validate on change no curve of training, nor the embedding.
    other = TokenTransformerClassifier(**options).fit(C, y, validation=(50 * V[::-1], v))
    np.testing.assert_array_equal(model.history_["train loss"], other.history_["train loss"])
    assert model.embedding_.scale_ == other.embedding_.scale_
    assert not np.array_equal(losses, other.history_["validation loss"][0])
    with pytest.raises(ModelError, match="class 7"):
        TokenTransformerClassifier(**options).fit(C, y, validation=(V, np.full(20, 7)))


@pytest.mark.parametrize("make", [TokenTransformerClassifier, TokenMLPClassifier])
@pytest.mark.parametrize(
    "embedding", ["log_euclidean", "affine_invariant", ["euclidean", "cholesky"]]
)
def test_matrices_are_embedded_first(make: type, embedding: Any) -> None:
    C, y = matrices(m=2)
    options = {"epochs": 4, "random_state": 0}
    model = make(embedding, **options).fit(C[:24], y[:24])
    first = TokenEmbedding(embedding, unit_free=True).fit(C[:24])
    same = make(None, **options).fit(first.tokens(C[:24]), y[:24])
    np.testing.assert_array_equal(model.predict_proba(C), same.predict_proba(first.tokens(C)))
    assert model.n_features_in_ == 4
    given = make(TokenEmbedding(embedding, unit_free=True), **options).fit(C[:24], y[:24])
    np.testing.assert_array_equal(model.predict_proba(C), given.predict_proba(C))


@pytest.mark.parametrize("make", [TokenTransformerClassifier, TokenDiscriminantClassifier])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("embedding", sorted(EMBEDDINGS | SUPERVISED))
def test_predictions_do_not_depend_on_the_unit(embedding: str, m: int, make: type) -> None:
    """Beyond rounding.

    A trial in single precision and the same in another unit differ in the last digit, as recordings
    do, and training must not amplify that.
    """
    y = np.arange(64) % 2
    X = np.random.default_rng(1).standard_normal((64, m, 8, 150)).astype(np.float32)
    X[:, :, 1] *= (1 + y)[:, None, None]
    short = {**TINY, "epochs": 5, "learning_rate": 1e-3, "random_state": 0}
    model = make(embedding, **(short if make is TokenTransformerClassifier else {}))

    def found(X: np.ndarray) -> np.ndarray:
        Z = X.astype(np.float64)
        C = Z @ Z.swapaxes(-1, -2) / 150
        return clone(model).fit(C, y).predict_proba(C)

    expected = found(X)
    for unit in np.float32([1e-6, 1e3, 1e6]):
        np.testing.assert_allclose(found(unit * X), expected, atol=1e-4)


def test_geometric_attention_gets_the_distances_of_the_matrices() -> None:
    C, y = matrices(m=3)
    options = {**TINY, "random_state": 0}
    plain = TokenTransformerClassifier(**options).fit(C, y)
    geometric = TokenTransformerClassifier(**options, attention="geometric", alpha=3.0).fit(C, y)
    assert not np.allclose(plain.predict_proba(C), geometric.predict_proba(C))
    with torch.no_grad():
        X = torch.from_numpy(geometric.embedding_.tokens(C))
        bias = geometric_bias(torch.from_numpy(C), 3.0).double()
        expected = geometric.networks_[0](X, bias).softmax(1).numpy()
    np.testing.assert_allclose(geometric.predict_proba(C), expected, atol=1e-5)
    off = TokenTransformerClassifier(**options, attention="geometric", alpha=0.0).fit(C, y)
    np.testing.assert_allclose(off.predict_proba(C), plain.predict_proba(C), atol=1e-6)
    # With one matrix there is nothing to attend to.
    one, other = (
        TokenTransformerClassifier(**options, attention=attention).fit(C[:, 0], y)
        for attention in ("standard", "geometric")
    )
    np.testing.assert_array_equal(one.predict_proba(C[:, 0]), other.predict_proba(C[:, 0]))


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("embedding", [["log_euclidean", "euclidean"], None])
def test_geometric_attention_needs_one_token_per_matrix(embedding: Any, m: int) -> None:
    C, y = matrices(m=m)
    X = np.ones((48, 2, 5)) if embedding is None else C
    with pytest.raises(ModelError, match="attention='geometric'"):
        TokenTransformerClassifier(embedding, attention="geometric", **TINY).fit(X, y)


def test_an_mlp_has_about_as_many_parameters_as_the_papers_transformer() -> None:
    C, y = matrices()
    (mlp,) = TokenMLPClassifier(epochs=1, random_state=0).fit(C, y).networks_
    (transformer,) = TokenTransformerClassifier(epochs=1, random_state=0).fit(C, y).networks_
    assert isinstance(mlp, SPDTokenMLP)
    assert isinstance(transformer, SPDTokenTransformer)
    counts = [sum(p.numel() for p in network.parameters()) for network in (mlp, transformer)]
    assert counts[0] == pytest.approx(counts[1], rel=0.02)
    (narrow,) = TokenMLPClassifier(width=5, n_layers=2, epochs=1).fit(C, y).networks_
    assert (narrow.width, len(narrow.hidden)) == (5, 2)


def test_what_a_batch_norm_takes_out_does_not_wander() -> None:
    """Biases before a batch norm have no gradient but rounding errors, which Adam would follow."""
    X = np.random.default_rng(2).standard_normal((64, 4, 128)).astype(np.float32)
    y = np.arange(64) % 2
    X[:, 1] *= (1 + y)[:, None]

    def found(X: np.ndarray) -> np.ndarray:
        C = np.stack([np.cov(trial.astype(np.float64)) for trial in X])
        return TokenMLPClassifier(epochs=5, random_state=1).fit(C, y).predict_proba(C)

    np.testing.assert_allclose(found(np.float32(1e6) * X), found(X), atol=1e-5)


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = tokens()
    ready(verbose=True).fit(X, y)
    shown = capsys.readouterr()
    assert "TokenTransformerClassifier" in shown.err
    assert "30/30" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"n_heads": 3}, "n_heads=3"),
        ({"device": "cuda"}, "cuda"),
        ({"device": "tpu9"}, "tpu9"),
        ({"device": "meta"}, "meta"),
        ({"ensemble": 0}, "ensemble"),
        ({"epochs": 0}, "epochs"),
        ({"validation": 1.5}, "validation"),
        ({"validation": 0.99}, "99%"),
        ({"keep": "best"}, "validation"),
        ({"random_state": -1}, "random_state"),
        ({"batch_size": 1, "n_tokens": 1}, "batch_size"),
    ],
)
def test_bad_settings_are_refused(change: dict, culprit: str) -> None:
    if change.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a graphics card")
    change = dict(change)
    X, y = tokens(n_tokens=change.pop("n_tokens", 2))
    with pytest.raises(ModelError, match=culprit):
        ready(**change).fit(X, y)


def test_bad_tokens_are_refused() -> None:
    X, y = tokens()
    model = ready()
    with pytest.raises(ModelError, match="left"):
        model.fit(X, np.full(60, "left"))
    with pytest.raises(ValueError, match="59"):
        model.fit(X, y[:-1])
    holes = X.copy()
    holes[[3, 8], 0, 1] = np.nan
    with pytest.raises(ModelError, match="3, 8"):
        model.fit(holes, y)
    model.fit(X, y)
    with pytest.raises(ModelError, match="NaN"):
        model.predict(holes)
    with pytest.raises(ValueError, match=r"1 features, but TokenTransformerClassifier is exp"):
        model.predict(X[:, :1])
    with pytest.raises(ModelError, match=r"\(2, 6\).*\(2, 5\)"):
        model.predict(X[:, :, :5])
    with pytest.raises(ModelError, match=r"shape \(60, 1, 2, 6\)"):
        model.fit(X[:, None], y)


@pytest.mark.parametrize("make", [TokenTransformerClassifier, TokenMLPClassifier])
def test_bad_matrices_are_refused(make: type) -> None:
    C, y = matrices(m=2)
    model = make(epochs=1, random_state=0)
    with pytest.raises(ModelError, match=r"48,.*47"):
        model.fit(C, y[:-1])
    with pytest.raises(NotSPDError):
        model.fit(-C, y)
    with pytest.raises(UserError, match="FilterBankCovariances"):
        model.fit(trials()[0][0], y)
    model.fit(C, y)
    for wrong in (C[:, :1], C[:, 0], C[..., :3, :3]):
        with pytest.raises(UserError, match="2 matrices of 4 rows"):
            model.predict(wrong)


# Many at once.

Case = tuple[BaseEstimator, tuple[Any, Any], dict[str, Any]]
SHORT: dict[str, Any] = {**TINY, "epochs": 3, "learning_rate": 1e-3}


def transformer(seed: int = 0, **options: Any) -> TokenTransformerClassifier:
    return TokenTransformerClassifier(**{**SHORT, "random_state": seed, **options})


def mlp(seed: int = 0, **options: Any) -> TokenMLPClassifier:
    return TokenMLPClassifier(**{"width": 12, "epochs": 3, "random_state": seed, **options})


def decoder(classifier: BaseEstimator, **options: Any) -> DecodingPipeline:
    first = FilterBankCovariances(SFREQ, **options)
    return DecodingPipeline([("filterbank", first), ("classifier", classifier)])


def of_seeds() -> list[Case]:
    data = matrices()
    return [
        (make(seed, ensemble=n), data, {})
        for make in (transformer, mlp)
        for seed, n in ((0, 1), (1, 3), (2, 2))
    ]


def of_people() -> list[Case]:
    """Unequal numbers of trials, and batches of unequal size."""
    sets = [matrices(n, seed=n) for n in (48, 30, 33)]
    return [(make(s), data, {}) for make in (transformer, mlp) for data in sets for s in (0, 1)]


def of_matrices_and_tokens() -> list[Case]:
    data = matrices(m=3)
    embedded = TokenEmbedding().fit(data[0]).tokens(data[0])
    kinds: list[Any] = ["euclidean", "affine_invariant", ["euclidean", "class_filters"]]
    kinds += [TokenEmbedding(isometric=True), TokenEmbedding(floor="paper")]
    return [
        *((transformer(embedding=kind), data, {}) for kind in kinds),
        (transformer(attention="geometric"), data, {}),
        (transformer(attention="geometric", alpha=2.0), data, {}),
        (transformer(embedding=["euclidean", "cholesky", "log_euclidean"]), matrices(), {}),
        (transformer(embedding=None), (embedded, data[1]), {}),
        (transformer(embedding=None), (embedded[:, 0], data[1]), {}),
    ]


def of_validation() -> list[Case]:
    data, held, groups = matrices(), matrices(20, seed=2), np.arange(48) // 4
    best = {"keep": "best", "epochs": 6, "learning_rate": 1e-2}
    share = {**best, "validation": 0.25}
    return [
        (make(seed, **options), data, params)
        for make in (transformer, mlp)
        for seed in (0, 1)
        for options, params in (
            (share, {}),
            (share, {"groups": groups}),
            (share | {"patience": 2}, {"groups": groups}),
            (best, {"validation": held}),
            (best, {"validation": (held[0] * 1.1, held[1])}),
            ({}, {"groups": groups}),
        )
    ]


def of_recipes() -> list[Case]:
    data = matrices(m=2)
    changes: list[dict[str, Any]] = [
        {"epochs": 2},
        {"batch_size": 7},
        {"learning_rate": 1e-2},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled": False},
        {"betas": (0.8, 0.99)},
        {"betas": [0.8, 0.99]},
        {"label_smoothing": 0.1},
        {"dropout": 0.0},
        {"n_layers": 2},
    ]
    more = [{"d_model": 8}, {"n_heads": 4}, {"d_ff": 8}, {"bn_embed": False}]
    wider = [{"width": 9}, {"width": None}]
    return [
        *((transformer(**change), data, {}) for change in changes + more),
        *((mlp(**change), data, {}) for change in changes + wider),
    ]


def of_pipelines() -> list[Case]:
    data, held, groups = trials(), trials(20, seed=2), np.arange(48) // 4
    best = {"keep": "best", "epochs": 6, "learning_rate": 1e-2}
    theirs = make_pipeline(Covariances("oas"), transformer())
    return [
        (decoder(transformer(0)), data, {}),
        (decoder(transformer(1)), data, {}),
        (decoder(transformer(0), bands="paper3"), data, {}),
        (decoder(mlp(0), bands="paper3"), data, {}),
        (decoder(transformer(0, **best)), data, {"validation": held}),
        (decoder(mlp(0, **best, validation=0.25)), data, {"groups": groups}),
        (decoder(mlp(0, **best, validation=0.25)), data, {"classifier__groups": groups}),
        (decoder(transformer(0)), trials(30, seed=5), {}),
        (theirs, data, {}),
        (clone(theirs), data, {}),
    ]


def of_potentials() -> list[Case]:
    """Class averages: what training trials give is not what ``transform`` would."""
    rng = np.random.default_rng(3)
    data, groups = (trials()[0], rng.permutation(48) % 2), np.arange(48) % 12
    options = {"estimator": "xdawn", "n_filters": 2, "cross_fit": 4, "bands": "1-24"}
    other = (data[0], 1 - data[1])
    return [
        (decoder(transformer(seed), **options), mine, params)
        for seed in (0, 1)
        for mine in (data, other)
        for params in ({}, {"groups": groups})
    ]


def of_sessions() -> list[Case]:
    data, domains = trials(), np.repeat(["a", "b"], 24)

    def recentred(seed: int) -> DecodingPipeline:
        first = [("filterbank", FilterBankCovariances(SFREQ)), ("recentring", Recentring())]
        return DecodingPipeline([*first, ("classifier", transformer(seed))])

    return [(recentred(seed), data, {"domains": domains}) for seed in (0, 1)] + [
        (recentred(0), data, {})
    ]


def of_all_kinds() -> list[Case]:
    data, weight = trials(), np.random.default_rng(0).uniform(0.5, 2, 48)
    flat = TokenEmbedding()
    return [
        (decoder(transformer()), data, {}),
        (make_decoder("mi", sfreq=SFREQ), data, {"sample_weight": weight}),
        (make_pipeline(FilterBankCovariances(SFREQ), flat, LogisticRegression()), data, {}),
        (mlp(), matrices(), {}),
        (TokenDiscriminantClassifier(), matrices(), {}),
        (NetworkClassifier("spdnet", epochs=2, random_state=0), matrices(), {}),
        (decoder(transformer(1)), data, {}),
    ]


CASES = [
    of_seeds,
    of_people,
    of_matrices_and_tokens,
    of_validation,
    of_recipes,
    of_pipelines,
    of_potentials,
    of_sessions,
    of_all_kinds,
]


def is_like(found: BaseEstimator, alone: BaseEstimator, X: Any) -> None:
    """Fitted to the same bits."""
    np.testing.assert_array_equal(found.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(found.classes_, alone.classes_)
    if isinstance(found, Pipeline):
        before = [pipeline[:-1].transform(X) for pipeline in (found, alone)]
        np.testing.assert_array_equal(*before)
        found, alone = found[-1], alone[-1]
    assert found.n_features_in_ == alone.n_features_in_
    if not isinstance(found, TokenNetworkClassifier):
        return
    assert len(found.networks_) == len(alone.networks_) == found.ensemble
    for mine, other in zip(found.networks_, alone.networks_, strict=True):
        weights, expected = mine.state_dict(), other.state_dict()
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in weights)
    assert found.history_.keys() == alone.history_.keys()
    for name, curve in alone.history_.items():
        np.testing.assert_array_equal(found.history_[name], curve)
    assert found.n_epochs_ == alone.n_epochs_
    np.testing.assert_array_equal(found.held_back_, alone.held_back_)


@pytest.mark.parametrize("cases", CASES)
def test_fitted_together_each_is_left_as_its_own_fit_leaves_it(
    cases: Callable[[], list[Case]],
) -> None:
    estimators, data, params = (list(column) for column in zip(*cases(), strict=True))
    alone = [
        clone(estimator).fit(X, y, **more)
        for estimator, (X, y), more in zip(estimators, data, params, strict=True)
    ]
    found = fit_together(estimators, data, params)
    assert [id(model) for model in found] == [id(estimator) for estimator in estimators]
    for model, other, (X, _) in zip(found, alone, data, strict=True):
        is_like(model, other, X)
    # No two of them are the same by accident.
    made = [alone[i].predict_proba(data[i][0]) for i in range(len(alone))]
    networks = {p.tobytes() for p in made}
    assert len(networks) > len(made) / 3


def test_what_was_fitted_together_is_not_tied_together() -> None:
    """To fit one again changes none of the others, nor steps that the user holds."""
    data, other = trials(), trials(30, seed=5)
    step = FilterBankCovariances(SFREQ, estimator="xdawn", n_filters=2)
    one, two = (
        DecodingPipeline([("filterbank", first), ("classifier", transformer())])
        for first in (clone(step), step)
    )
    fit_together([one, two], [data, data])
    assert two["filterbank"] is step
    expected = two.predict_proba(data[0])
    one.fit(3 * other[0][..., :120], other[1])
    np.testing.assert_array_equal(two.predict_proba(data[0]), expected)


class Times(TransformerMixin, BaseEstimator):
    """Matrices times a number."""

    def __init__(self, weights: Any = 1.0) -> None:
        self.weights = weights

    def fit(self, X: Any, y: Any = None) -> Times:  # noqa: ARG002
        self.n_features_in_ = X.shape[-1]
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X * np.mean(self.weights)


class Root(Times):
    """The same parameter, another meaning."""

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X @ X


def test_steps_are_alike_only_if_their_class_and_all_parameters_are() -> None:
    data = matrices()
    long = np.ones(5000)
    other = long.copy()
    other[2500] = 1e6  # NumPy's text of the two is the same
    firsts = [Times(long), Times(other), Root(long), Times(2.0)]
    plain = {**SHORT, "embedding": TokenEmbedding("euclidean")}
    made = [
        Pipeline([("a", a), ("b", TokenTransformerClassifier(**plain, random_state=0))])
        for a in firsts
    ]
    alone = [clone(model).fit(*data) for model in made]
    for model, expected in zip(fit_together(made, [data] * 4), alone, strict=True):
        is_like(model, expected, data[0])


def test_steps_may_be_left_out_and_need_not_be_picklable() -> None:
    data = matrices()
    models = [
        Pipeline([("a", a), ("b", "passthrough"), ("c", transformer())])
        for a in (LocalTimes(lambda: 2.0), LocalTimes(lambda: 3.0), "passthrough")
    ]
    alone = [transformer().fit(factor * data[0], data[1]) for factor in (2.0, 3.0, 1.0)]
    found = fit_together(models, [data] * 3)
    for model, expected, factor in zip(found, alone, (2.0, 3.0, 1.0), strict=True):
        np.testing.assert_array_equal(
            model.predict_proba(data[0]), expected.predict_proba(factor * data[0])
        )


class LocalTimes(Times):
    """Whose parameter is a function."""

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X * self.weights()


def test_progress_is_told_in_estimators() -> None:
    told: list[float] = []
    fit_together(
        [transformer(ensemble=2), mlp(), TokenDiscriminantClassifier(), decoder(transformer())],
        [matrices()] * 3 + [trials()],
        listener=told.append,
    )
    assert sum(told) == pytest.approx(4)
    assert len(told) > 4


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sample_weight": np.ones(48)}, "sample_weight"),
        ({"domains": np.ones(48)}, "domains"),
        ({"net__groups": np.ones(48)}, "net__groups"),
    ],
)
def test_what_no_step_takes_is_refused(params: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fit_together([decoder(transformer())], [trials()], [params])


def test_as_many_data_as_estimators() -> None:
    with pytest.raises(ModelError, match="2, 1 and 2"):
        fit_together([transformer(), transformer()], [matrices()])
    with pytest.raises(ModelError, match="1, 1 and 2"):
        fit_together([transformer()], [matrices()], [{}, {}])
    assert fit_together([], []) == []
