"""The discriminant against direct computations and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from spdtokens.models import ModelError
from spdtokens.models.discriminant import RIDGE, Refit, fit_discriminant


def made(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    tokens = rng.standard_normal((n, 2, 40)) * np.array([1.0, 30.0])[:, None] + 5.0
    tokens[:, 0, 0] += 1.5 * y
    tokens[:, 1, 1] += 30.0 * (y == 1)
    return tokens, y


def scores(head, tokens: np.ndarray) -> np.ndarray:
    found = head(torch.from_numpy(tokens)).numpy()
    return found - found.mean(1, keepdims=True)


def directly(
    tokens: np.ndarray, y: np.ndarray, w: np.ndarray, test: np.ndarray, drift: np.ndarray
) -> np.ndarray:
    """The textbook, with matrices as large as there are features."""
    w = w / w.sum()
    centre = (w[:, None, None] * tokens).sum(0)
    total = (w[:, None] * ((tokens - centre) ** 2).sum(2)).sum(0)
    X, T = (((t - centre) / np.sqrt(total)[:, None]).reshape(len(t), -1) for t in (tokens, test))
    means = np.stack([np.average(X[y == k], axis=0, weights=w[y == k]) for k in range(3)])
    R = X - means[y]
    S = (R * w[:, None]).T @ R
    S += RIDGE * np.trace(S) * np.eye(len(S))
    for change in (drift / np.sqrt(total)[:, None]).reshape(-1, len(S)):
        S += np.outer(change, change)
    W = np.linalg.solve(S, means.T)
    found = T @ W - 0.5 * np.einsum("kf,fk->k", means, W)
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
    head = fit_discriminant(tokens, y, w if weighted else None, drift=drift if drifts else None)
    found, expected = scores(head, test), directly(tokens, y, w, test, drift)
    factor = (found * expected).sum() / (expected * expected).sum()
    assert factor > 0
    np.testing.assert_allclose(found, factor * expected, rtol=1e-8, atol=1e-10)


def test_what_drifts_is_not_listened_to() -> None:
    tokens, y = made()
    drift = np.zeros((1, 2, 40))
    drift[0, 0, 0] = 1e3  # where classes differ
    size = {}
    for name, changes in {"plain": None, "held": drift}.items():
        weight = fit_discriminant(tokens, y, drift=changes).weight
        size[name] = float(weight[0, 0].abs().max() / weight.abs().max())
    assert size["plain"] > 0.5
    assert size["held"] < 1e-3


def test_with_one_token_and_this_ridge_scikit_learn_agrees() -> None:
    tokens, y = made(90)
    tokens = tokens[:, :1]
    X = tokens[:, 0]
    S = np.mean([np.cov(X[y == k].T, bias=True) for k in range(3)], axis=0)
    # scikit-learn shrinks the covariance of each class towards its own mean variance.
    shrinkage = RIDGE * 40 / (1 + RIDGE * 40)
    lda = LinearDiscriminantAnalysis(
        solver="eigen", shrinkage=None, covariance_estimator=_Fixed(S, shrinkage)
    ).fit(X, y)
    assert (
        fit_discriminant(tokens, y)(torch.from_numpy(tokens)).numpy().argmax(1) == lda.predict(X)
    ).all()


class _Fixed:
    """A covariance estimator that knows the answer."""

    def __init__(self, S: np.ndarray, shrinkage: float) -> None:
        d = len(S)
        self.covariance_ = (1 - shrinkage) * S + shrinkage * np.trace(S) / d * np.eye(d)

    def fit(self, _X: np.ndarray) -> _Fixed:
        return self


def test_a_weight_of_two_is_a_trial_given_twice() -> None:
    tokens, y = made()
    twice = np.r_[np.arange(60), np.arange(20)]
    doubled = fit_discriminant(tokens[twice], y[twice])
    weighted = fit_discriminant(tokens, y, np.where(np.arange(60) < 20, 2.0, 1.0))
    a, b = scores(doubled, tokens), scores(weighted, tokens)
    np.testing.assert_allclose(a / np.abs(a).max(), b / np.abs(b).max(), atol=1e-9)


def test_units_and_offsets_of_a_token_do_not_matter() -> None:
    tokens, y = made()
    expected = scores(fit_discriminant(tokens, y), tokens)
    other = tokens * np.array([1e-9, 1e6])[:, None] + np.array([3.0, -1e5])[:, None]
    np.testing.assert_allclose(scores(fit_discriminant(other, y), other), expected, atol=1e-5)


def test_a_token_that_never_changes_says_nothing() -> None:
    tokens, y = made()
    dead = np.concatenate([tokens, np.full((60, 1, 40), 7.0)], 1)
    head = fit_discriminant(dead, y)
    assert (head.weight[2] == 0).all()
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


def inverse_temperature(scores: np.ndarray, y: np.ndarray) -> float:
    """The factor with the least log loss, on a grid, as if two trials of a class had been there."""
    n = np.bincount(y)[y]
    targets = np.tile((1 / (n + 2) / 2)[:, None], 3)
    targets[np.arange(len(y)), y] = (n + 1) / (n + 2)
    weight = targets / n[:, None]
    grid = np.exp(np.linspace(-8, 6, 14001))
    losses = [-(weight * log_softmax(f * scores, axis=1)).sum() for f in grid]
    return float(grid[np.argmin(losses)])


@pytest.mark.parametrize("n", [60, 120], ids=["few trials", "many trials"])
@pytest.mark.parametrize("drifts", [0, 3])
def test_the_temperature_is_that_of_tokens_made_without_the_labels_of_a_fold(
    drifts: int, n: int
) -> None:
    """Every fold as the textbook has it, of tokens that differ from fold to fold."""
    tokens, y = made(n)
    rng = np.random.default_rng(4)
    drift = rng.standard_normal((drifts, 2, 40))
    refits, held_out = [], np.empty((n, 3))
    for train, test in StratifiedKFold(5).split(tokens, y):
        own = tokens[:, 1:] + rng.standard_normal((n, 1, 40))
        own_drift = rng.standard_normal((drifts, 1, 40))
        refits.append(Refit(train, test, own, own_drift if drifts else None))
        held_out[test] = fold_scores(
            tokens, own, y, train, test, np.concatenate([drift[:, :1], own_drift], axis=1)
        )
    head = fit_discriminant(
        tokens,
        y,
        drift=drift if drifts else None,
        refitted=np.array([False, True]),
        refits=refits,
    )
    plain = directly(tokens, y, np.ones(n), tokens, drift)
    found = scores(head, tokens)
    factor = (found * plain).sum() / (plain * plain).sum()
    assert factor == pytest.approx(inverse_temperature(held_out, y), rel=2e-3)


def fold_scores(
    tokens: np.ndarray,
    own: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    drift: np.ndarray,
) -> np.ndarray:
    """Scores of a fold: the first token scaled by all trials, the second by those of the fold."""
    rows = []
    for token, of in ((tokens[:, 0], np.arange(len(y))), (own[:, 0], train)):
        centre = token[of].mean(0)
        rows.append((centre, np.sqrt(((token[of] - centre) ** 2).sum(1).mean())))
    X = np.hstack([(tokens[:, 0] - rows[0][0]) / rows[0][1], (own[:, 0] - rows[1][0]) / rows[1][1]])
    D = np.hstack([drift[:, 0] / rows[0][1], drift[:, 1] / rows[1][1]])
    means = np.stack([X[train][y[train] == k].mean(0) for k in range(3)])
    R = X[train] - means[y[train]]
    S = R.T @ R / len(train)
    S += RIDGE * np.trace(S) * np.eye(len(S)) + D.T @ D
    W = np.linalg.solve(S, means.T)
    return X[test] @ W - 0.5 * np.einsum("kf,fk->k", means, W)


def test_groups_are_not_split_between_the_folds_of_the_temperature() -> None:
    """A trial that is there five times foretells itself, unless its copies are kept together."""
    rng = np.random.default_rng(0)
    tokens, y = rng.standard_normal((40, 1, 60)), np.arange(40) % 2
    copies = np.tile(np.arange(40), 5)
    size = {}
    for name, groups in {"apart": None, "together": copies}.items():
        head = fit_discriminant(tokens[copies], y[copies], groups=groups)
        size[name] = float(head.weight.abs().max())
    assert size["together"] < 0.1 * size["apart"]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(5), r"each of 60 trials.*shape \(5,\)"),
        (-np.ones(60), "none of them negative"),
        (np.full(60, np.nan), "or missing"),
        ((np.arange(60) % 3 > 0).astype(float), "zero for all trials of a class"),
    ],
)
def test_bad_weights_are_refused(weight: np.ndarray, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fit_discriminant(*made(), weight)
