"""The discriminant against direct computations, and what the classifier adds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from spdtokens import FilterBankCovariances, TokenDiscriminantClassifier, TokenEmbedding
from spdtokens.classifiers.discriminant import (
    DRAWS,
    EMBEDDINGS,
    GAINS,
    HANDICAP,
    RIDGE,
    RIDGES,
    WITHOUT_LABELS,
    Fitted,
    Refit,
    _local,
    fit_discriminant,
    gain_drift,
)
from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.datasets import from_arrays
from spdtokens.errors import ModelError, UserError
from tests.matrices import rhythms


def made(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    tokens = rng.standard_normal((n, 2, 40)) * np.array([1.0, 30.0])[:, None] + 5.0
    tokens[:, 0, 0] += 1.5 * y
    tokens[:, 1, 1] += 30.0 * (y == 1)
    return tokens, y


def scores(head: Fitted, tokens: np.ndarray) -> np.ndarray:
    found = np.tensordot(tokens, head.weight, 2) + head.bias
    return found - found.mean(1, keepdims=True)


def textbook(
    X: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    test: np.ndarray,
    drift: np.ndarray,
    ridge: float = RIDGE,
) -> np.ndarray:
    """Scores of the rows ``test``, with matrices as large as there are features."""
    means = np.stack([np.average(X[y == k], axis=0, weights=w[y == k]) for k in range(3)])
    R = X - means[y]
    S = (R * w[:, None]).T @ R
    S += ridge * np.trace(S) * np.eye(len(S)) + drift.T @ drift
    W = np.linalg.solve(S, means.T)
    return test @ W - 0.5 * np.einsum("kf,fk->k", means, W)


def directly(
    tokens: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    test: np.ndarray,
    drift: np.ndarray,
    ridge: float = RIDGE,
) -> np.ndarray:
    w = w / w.sum()
    centre = (w[:, None, None] * tokens).sum(0)
    unit = np.sqrt((w[:, None] * ((tokens - centre) ** 2).sum(2)).sum(0))[:, None]
    X, T = (((t - centre) / unit).reshape(len(t), -1) for t in (tokens, test))
    found = textbook(X, y, w, T, (drift / unit).reshape(-1, X.shape[1]), ridge)
    return found - found.mean(1, keepdims=True)


@pytest.mark.parametrize("n", [60, 120], ids=["few trials", "many trials"])
@pytest.mark.parametrize("drifts", [0, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_textbook(weighted: bool, drifts: int, n: int) -> None:
    tokens, y = made(n)
    test, _ = made(20, seed=1)
    rng = np.random.default_rng(2)
    w = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
    drift = rng.standard_normal((drifts, 2, 40)) * np.array([1.0, 30.0])[:, None]
    head = fit_discriminant(tokens, y, w if weighted else None, RIDGE, drift if drifts else None)
    found, expected = scores(head, test), directly(tokens, y, w, test, drift)
    factor = (found * expected).sum() / (expected * expected).sum()
    assert factor > 0
    np.testing.assert_allclose(found, factor * expected, rtol=1e-8, atol=1e-10)


def test_units_and_offsets_of_a_token_do_not_matter() -> None:
    tokens, y = made()
    expected = scores(fit_discriminant(tokens, y), tokens)
    other = tokens * np.array([1e-9, 1e6])[:, None] + np.array([3.0, -1e5])[:, None]
    np.testing.assert_allclose(scores(fit_discriminant(other, y), other), expected, atol=1e-5)


def test_a_token_that_never_changes_says_nothing() -> None:
    tokens, y = made()
    dead = np.concatenate([tokens, np.full((60, 1, 40), 7.0)], 1)
    head = fit_discriminant(dead, y)
    assert (head[0][2] == 0).all()
    np.testing.assert_allclose(
        scores(head, dead), scores(fit_discriminant(tokens, y), tokens), atol=1e-9
    )


def test_probabilities_of_new_trials_can_be_taken_as_such() -> None:
    tokens, y = made(150)
    test, labels = made(600, seed=3)
    found = scores(fit_discriminant(tokens, y), test)
    losses = {f: log_loss(labels, softmax(f * found, axis=1)) for f in (0.33, 1.0, 3.0)}
    assert losses[1.0] == min(losses.values())


def test_no_trial_is_certain_however_clear_the_classes_are() -> None:
    tokens, y = made(60)
    tokens[:, 0, 0] += 1e3 * y
    probability = softmax(scores(fit_discriminant(tokens, y), tokens), axis=1).max(1)
    assert 0.9 < probability.mean() < 0.999  # of 20 trials a class, none was wrong


def test_few_trials_and_equal_trials() -> None:
    tokens, y = made(3)
    assert (scores(fit_discriminant(tokens, y), tokens).argmax(1) == y).all()
    same = tokens[[0, 1, 2] * 3]
    assert (scores(fit_discriminant(same, y[[0, 1, 2] * 3]), tokens).argmax(1) == y).all()


def calibrated(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """The factor with the least log loss, on a grid, as if two trials of a class had been there.

    And this log loss for each trial.
    """
    n = np.bincount(y)[y]
    targets = np.tile((1 / (n + 2) / 2)[:, None], 3)
    targets[np.arange(len(y)), y] = (n + 1) / (n + 2)
    grid = np.exp(np.linspace(-9, 4, 1301))
    losses = [-(targets * log_softmax(f * scores, axis=1)).sum(1) for f in grid]
    best = int(np.argmin([np.mean(loss / n) for loss in losses]))
    return float(grid[best]), losses[best]


@pytest.mark.parametrize("n", [60, 120], ids=["few trials", "many trials"])
@pytest.mark.parametrize("drifts", [0, 3])
@pytest.mark.parametrize("strength", [0.0, 3.0])
@pytest.mark.parametrize("grouped", [False, True])
def test_ridges_and_temperature_are_those_of_trials_left_out(
    grouped: bool, strength: float, drifts: int, n: int
) -> None:
    """Every fold and ridge as the textbook has it, of tokens that differ from fold to fold."""
    tokens, y = made(n)
    rng = np.random.default_rng(4)
    # Strong variance that says nothing asks for a small ridge.
    tokens[:, 0, 3:6] += strength * 20 * rng.standard_normal((n, 3))
    tokens[:, 0, 0] += strength * y
    drift = rng.standard_normal((drifts, 2, 40))
    refits, held_out = [], np.empty((len(RIDGES), n, 3))
    for train, test in StratifiedKFold(5).split(tokens, y):
        own = tokens[:, 1:] + rng.standard_normal((n, 1, 40))
        own_drift = rng.standard_normal((drifts, 1, 40))
        refits.append(Refit(train, test, own, own_drift if drifts else None))
        moved = np.concatenate([drift[:, :1], own_drift], axis=1)
        for k, ridge in enumerate(RIDGES):
            held_out[k, test] = fold_scores(tokens, own, y, train, test, moved, ridge)
    groups = np.arange(n) // 3 if grouped else np.arange(n)
    head = fit_discriminant(
        tokens,
        y,
        drift=drift if drifts else None,
        groups=groups if grouped else None,
        refitted=np.array([False, True]),
        refits=refits,
    )
    factors, losses = zip(*(calibrated(one, y) for one in held_out), strict=True)
    means = np.mean(losses, axis=1)  # classes are balanced
    np.testing.assert_allclose([head.losses[ridge] for ridge in RIDGES], means, rtol=1e-4)
    drawn = np.random.default_rng(0).exponential(size=(DRAWS, groups.max() + 1))
    apart = np.array(losses) - losses[RIDGES.index(RIDGE)]
    summed = np.stack([np.bincount(groups, one - one.mean()) for one in apart])
    error = np.sqrt((summed**2).sum(1)) / n
    error[RIDGES.index(RIDGE) :] = 0  # sessions do not differ
    handicapped = np.array(losses) + HANDICAP * error[:, None]
    best = (drawn[:, groups] @ handicapped.T).argmin(1)
    shares = np.bincount(best, minlength=len(RIDGES)) / DRAWS
    found = np.array(list(head.ridge_weights.values()))
    assert tuple(head.ridge_weights) == RIDGES
    np.testing.assert_allclose(found, shares, atol=0.01)
    assert head.ridge == RIDGES[int(found.argmax())]
    mixed = found * factors
    factor, _ = calibrated(np.tensordot(mixed, held_out, 1), y)
    plain = [directly(tokens, y, np.ones(n), tokens, drift, ridge) for ridge in RIDGES]
    expected = factor * np.tensordot(mixed, plain, 1)
    np.testing.assert_allclose(scores(head, tokens), expected, rtol=2e-2, atol=0.01)


def ratio(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Local variance within classes as a share of all variance within classes, trial by trial."""
    local = total = 0.0
    for k in np.unique(y):
        trials = [i for i in range(len(y)) if y[i] == k]
        mean = sum(w[i] * X[i] for i in trials) / sum(w[i] for i in trials)
        total += sum(w[i] * ((X[i] - mean) ** 2).sum() for i in trials)
        for i, following in pairwise(trials):
            local += w[following] * ((X[following] - X[i]) ** 2).sum() / 2
    return local / total


@pytest.mark.parametrize("weighted", [False, True])
def test_the_usual_ridge_is_a_share_of_the_variance_between_consecutive_trials(
    weighted: bool,
) -> None:
    rng = np.random.default_rng(5)
    y = rng.permutation(np.repeat([0, 1, 2], [24, 30, 6]))
    w = rng.uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    session = 6 * rng.standard_normal((3, 5))[np.arange(60) // 20]
    usual = {}
    for name, offset in {"one session": 0, "three sessions": session}.items():
        X = rng.standard_normal((60, 5)) + offset
        expected = ratio(X, y, w)
        assert _local(X, y, w / w.sum()) == pytest.approx(min(expected, 1.0), rel=1e-12)
        # A group per class cannot be left out, so that the usual ridge is taken.
        head = fit_discriminant(X[:, None], y, w if weighted else None, groups=y)
        usual[name] = head.ridge
        assert head.ridge_weights[head.ridge] == 1
        apart = [abs(np.log(ridge / (RIDGE * min(expected, 1.0)))) for ridge in RIDGES]
        assert head.ridge == RIDGES[int(np.argmin(apart))]
    assert usual["three sessions"] < usual["one session"] == RIDGE


def test_the_local_variance_has_bounds() -> None:
    y, share = np.zeros(4000, dtype=int), np.full(4000, 1 / 4000)
    alternating = (-1.0) ** np.arange(4000)[:, None]  # neighbours differ more than others
    assert _local(alternating, y, share) == 1.0
    assert _local(np.sort(alternating, axis=0), y, share) == 1e-3
    assert _local(np.zeros((4000, 1)), y, share) == 1.0


def fold_scores(
    tokens: np.ndarray,
    own: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    drift: np.ndarray,
    ridge: float,
) -> np.ndarray:
    """Scores of a fold: the first token scaled by all trials, the second by those of the fold."""
    rows, drifts = [], []
    for i, (token, of) in enumerate(((tokens[:, 0], np.arange(len(y))), (own[:, 0], train))):
        centred = token - token[of].mean(0)
        unit = np.sqrt((centred[of] ** 2).sum(1).mean())
        rows.append(centred / unit)
        drifts.append(drift[:, i] / unit)
    X, w = np.hstack(rows), np.full(len(train), 1 / len(train))
    return textbook(X[train], y[train], w, X[test], np.hstack(drifts), ridge)


def test_groups_are_not_split_between_the_folds_of_the_temperature() -> None:
    """A trial that is there five times foretells itself, unless its copies are kept together."""
    rng = np.random.default_rng(0)
    tokens, y = rng.standard_normal((40, 1, 60)), np.arange(40) % 2
    copies = np.tile(np.arange(40), 5)
    size, ridge = {}, {}
    for name, groups in {"apart": None, "together": copies}.items():
        head = fit_discriminant(tokens[copies], y[copies], groups=groups)
        size[name], ridge[name] = np.abs(head.weight).max(), head.ridge
    assert size["together"] < 0.1 * size["apart"]
    assert ridge["apart"] < RIDGE <= ridge["together"]


def sessions(seed: int, gain: float) -> tuple[np.ndarray, np.ndarray]:
    """Ten sessions of 30 trials, between which the gain of every channel changes."""
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 2
    signals = rng.standard_normal((300, 6, 60))
    signals[:, 0] += (0.5 * y)[:, None] * signals[:, 1]
    signals *= np.exp(gain * rng.standard_normal((10, 6)))[np.arange(300) // 30, :, None]
    return signals @ signals.swapaxes(1, 2) / 60, y


def test_pooled_sessions_get_a_smaller_ridge_if_they_differ() -> None:
    """Their differences are most of the variance, of which the ridge is a share."""
    chosen = {}
    for gain in (0.0, 1.5):
        C, y = sessions(0, gain)
        train = np.arange(300) % 3 > 0
        by_ridge = {
            ridge: TokenDiscriminantClassifier(ridge=ridge).fit(C[train], y[train])
            for ridge in ("auto", RIDGE)
        }
        chosen[gain] = by_ridge["auto"].ridge_
        score, usual = (model.score(C[~train], y[~train]) for model in by_ridge.values())
        assert score > usual + 0.03 if gain else score >= usual - 0.02
    assert chosen[1.5] < RIDGE <= chosen[0.0]


def test_the_ridge_that_is_asked_for_is_used() -> None:
    C, y = covariances()
    model = TokenDiscriminantClassifier(ridge=0.1).fit(C, y)
    assert model.ridge_ == 0.1
    assert list(model.held_out_loss_) == [0.1]
    assert model.ridge_weights_ == {0.1: 1.0}
    chosen = TokenDiscriminantClassifier().fit(C, y)
    assert tuple(chosen.held_out_loss_) == RIDGES
    assert chosen.ridge_ in RIDGES


def test_without_held_out_trials_the_ridge_is_the_usual() -> None:
    C, y = covariances()
    groups = (y == "task").astype(int)  # a group per class cannot be left out
    model = TokenDiscriminantClassifier().fit(C, y, groups=groups)
    assert model.ridge_ == RIDGE
    assert model.ridge_weights_ == {ridge: float(ridge == RIDGE) for ridge in RIDGES}
    assert np.isnan(list(model.held_out_loss_.values())).all()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(5), r"60.*\(5,\)"),
        (-np.ones(60), "sample_weight"),
        (np.full(60, np.nan), "nan"),
        ((np.arange(60) % 3 > 0).astype(float), "sample_weight"),
    ],
)
def test_bad_weights_are_refused(weight: np.ndarray, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fit_discriminant(*made(), weight)


# The classifier.


def covariances(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = rhythms(n, seed)
    C = FilterBankCovariances(128, bands="8-30", estimator="oas").fit_transform(X)
    return C, np.array(["rest", "task"])[y]


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_discriminant_of_its_tokens(weighted: bool) -> None:
    C, y = covariances()
    weight = np.random.default_rng(0).uniform(0.5, 2, 60) if weighted else None
    model = TokenDiscriminantClassifier("log_euclidean", ridge=0.1, gains=None)
    model.fit(C, y, sample_weight=weight)
    tokens = TokenEmbedding("log_euclidean", unit_free=True).fit(C).tokens(C)
    head = fit_discriminant(tokens, (y == "task").astype(int), weight, 0.1)
    np.testing.assert_allclose(model.coef_, head[0], rtol=1e-12)
    np.testing.assert_allclose(model.intercept_, head[1], rtol=1e-12)
    found = scores(head, tokens)
    np.testing.assert_allclose(model.predict_proba(C), softmax(found, axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(C), found[:, 1] - found[:, 0], rtol=1e-9)
    np.testing.assert_array_equal(model.predict(C), model.classes_[found.argmax(1)])


def test_it_decodes_whatever_the_unit() -> None:
    (C, y), (test, labels) = covariances(), covariances(seed=1)
    model = TokenDiscriminantClassifier().fit(C, y)
    assert model.score(test, labels) > 0.9
    assert model.embedding_.names == EMBEDDINGS
    np.testing.assert_array_equal(model.classes_, ["rest", "task"])
    volts = TokenDiscriminantClassifier().fit(1e-12 * C, y).predict_proba(1e-12 * test)
    np.testing.assert_allclose(volts, model.predict_proba(test), atol=1e-6)


def test_three_classes_have_three_decision_values() -> None:
    C, _ = covariances()
    y = np.arange(60) % 3
    model = TokenDiscriminantClassifier().fit(C, y)
    assert model.decision_function(C).shape == (60, 3)
    found = softmax(model.decision_function(C), axis=1)
    np.testing.assert_allclose(found, model.predict_proba(C), rtol=1e-9)


def test_ready_tokens_need_no_matrices() -> None:
    C, y = covariances()
    tokens = TokenEmbedding(unit_free=True).fit(C).tokens(C)
    of_matrices = TokenDiscriminantClassifier("log_euclidean", gains=None).fit(C, y)
    for X in (tokens, tokens[:, 0]):
        model = TokenDiscriminantClassifier(None).fit(X, y)
        assert model.embedding_ is None
        np.testing.assert_allclose(model.predict_proba(X), of_matrices.predict_proba(C), rtol=1e-9)


def test_an_embedding_with_its_own_parameters() -> None:
    C, y = covariances()
    model = TokenDiscriminantClassifier(TokenEmbedding("euclidean", isometric=True), gains=None)
    model.set_params(embedding__floor="paper").fit(C, y)
    assert model.embedding_.get_params() == model.embedding.get_params()
    assert not hasattr(model.embedding, "tokens_")  # parameters are not fitted
    assert model.embedding_.scale_ == 1  # nobody asked for another
    assert TokenDiscriminantClassifier("euclidean").fit(C, y).embedding_.unit_free


def test_drift_is_what_gains_do_to_tokens() -> None:
    C, y = covariances()
    embedding = TokenEmbedding(EMBEDDINGS, unit_free=True).fit(C, y)
    middle = embedding.reference_
    drift = gain_drift(embedding, middle, 0.2, 0.3)
    assert drift.shape == (6, 4, 15)
    one = np.ones(5)
    one[1] = np.exp(0.3)
    still = embedding.embedding_.to_token(middle[None])[0]
    for row, factor in ((0, np.full(5, np.exp(0.2))), (2, one)):
        moved = embedding.embedding_.to_token((middle * factor[:, None] * factor)[None])[0]
        np.testing.assert_allclose(drift[row], moved - still, atol=1e-9)


def test_by_default_gains_are_expected_to_change() -> None:
    (C, y), (test, _) = covariances(), covariances(seed=1)

    def found(**options: object) -> np.ndarray:
        return TokenDiscriminantClassifier(**options).fit(C, y).predict_proba(test)

    np.testing.assert_array_equal(found(gains=GAINS), found())
    np.testing.assert_array_equal(found(gains=(0.0, 0.0)), found(gains=None))
    assert np.abs(found(gains=None) - found()).max() > 1e-3
    assert np.abs(found(embedding="euclidean", gains=None) - found(embedding="euclidean")).max() > 0


def test_of_few_trials_there_are_neither_filters_nor_gains() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(8) % 2
    C = rng.standard_normal((8, 8, 40))
    C[y == 1, 3] *= 2
    C = C @ C.swapaxes(-1, -2) / 40
    few = TokenDiscriminantClassifier().fit(C, y)
    assert few.embedding_.names == WITHOUT_LABELS
    plain = TokenDiscriminantClassifier(WITHOUT_LABELS, gains=None).fit(C, y)
    np.testing.assert_array_equal(few.predict_proba(C), plain.predict_proba(C))
    assert TokenDiscriminantClassifier().fit(C[:, :7, :7], y).embedding_.names == EMBEDDINGS
    # Whoever names them gets them.
    asked = TokenDiscriminantClassifier(EMBEDDINGS, gains=GAINS).fit(C, y)
    assert asked.embedding_.n_tokens_ == 4
    assert np.abs(asked.predict_proba(C) - few.predict_proba(C)).max() > 1e-3


@pytest.mark.parametrize("weighted", [False, True])
def test_the_temperature_is_fitted_with_filters_that_have_not_seen_a_fold(weighted: bool) -> None:
    """The folds by hand: filters of classes are fitted in each. There is nothing to be found."""
    C, y = covariances()
    y = np.random.default_rng(1).permutation(y)
    codes = (y == "task").astype(int)
    weight = np.random.default_rng(0).uniform(0.5, 2, 60) if weighted else None
    names = ("affine_invariant", "class_filters")
    model = TokenDiscriminantClassifier(names, gains=GAINS).fit(C, y, sample_weight=weight)
    whole = TokenEmbedding(names, unit_free=True).fit(C, codes)
    middle = whole.reference_
    refits = []
    for train, test in StratifiedKFold(5).split(C, y):
        part = TokenEmbedding("class_filters").fit(whole.scaled(C)[train], codes[train])
        tokens = part.tokens(whole.scaled(C))
        refits.append(Refit(train, test, tokens, gain_drift(part, middle, *GAINS)))
    head = fit_discriminant(
        whole.tokens(C),
        codes,
        weight,
        drift=gain_drift(whole, middle, *GAINS),
        refitted=np.array([False, True]),
        refits=refits,
    )
    # As exact as the temperature is found.
    np.testing.assert_allclose(model.coef_, head[0], rtol=2e-5)
    seen = fit_discriminant(whole.tokens(C), codes, weight, drift=gain_drift(whole, middle, *GAINS))
    # Who looks is more certain.
    assert np.linalg.norm(seen[0]) > 1.01 * np.linalg.norm(model.coef_)


def test_probabilities_of_noise_are_not_confident() -> None:
    """What sees labels, common spatial patterns above all, is fitted within the folds."""
    confidence = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((180, 32, 100))
        C = X @ X.swapaxes(-1, -2) / 100
        model = TokenDiscriminantClassifier().fit(C[:80], rng.permutation(np.arange(80) % 2))
        confidence.append(model.predict_proba(C[80:]).max(1).mean())
    assert np.mean(confidence) < 0.57


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ridge": 0.0}, ModelError, "ridge"),
        ({"ridge": "best"}, ModelError, "ridge.*best"),
        ({"gains": (0.1,)}, ModelError, r"gains.*\(0\.1,\)"),
        ({"gains": (0.1, -1.0)}, ModelError, "gains"),
        ({"gains": (0.1, np.nan)}, ModelError, "gains"),
        ({"embedding": "best"}, UserError, "best"),
    ],
)
def test_bad_settings_are_refused(options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        TokenDiscriminantClassifier(**options).fit(*covariances(20))


@pytest.mark.parametrize(("n", "names"), [(6, WITHOUT_LABELS), (40, EMBEDDINGS)])
def test_options_leave_the_choice_of_tokens(n: int, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    signals, y = rng.standard_normal((n, 8, 50)), np.arange(n) % 2
    C = signals @ signals.swapaxes(1, 2) / 50
    changed = get_method("recommended").make(
        from_arrays(C, y), Settings(changes={"isometric": True})
    )
    direct = TokenDiscriminantClassifier(TokenEmbedding("auto", isometric=True, unit_free=True))
    spelled_out = TokenDiscriminantClassifier(TokenEmbedding(names, isometric=True, unit_free=True))
    wanted = spelled_out.fit(C, y).predict_proba(C)
    for model in (changed, direct):
        np.testing.assert_array_equal(model.fit(C, y).predict_proba(C), wanted)
