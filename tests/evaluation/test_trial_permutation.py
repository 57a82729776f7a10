from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from spdtokens.evaluation.statistics import mcnemar, trial_permutation


def columns(*scores: np.ndarray) -> np.ndarray:
    """Runs (runs, n, 2) of the probability of class 1."""
    return np.stack([np.stack([1 - score, score], axis=1) for score in scores])


def by_trying_all_swaps(metric: str, y: np.ndarray, a: np.ndarray, b: np.ndarray, unit: np.ndarray):
    """The p-value from its definition, with scikit-learn's metrics; ranks where order counts."""
    score = {
        "accuracy": lambda p: sk.accuracy_score(y, p.argmax(1)),
        "balanced_accuracy": lambda p: sk.balanced_accuracy_score(y, p.argmax(1)),
        "kappa": lambda p: sk.cohen_kappa_score(y, p.argmax(1)),
        "f1": lambda p: sk.f1_score(y, p.argmax(1), average="macro", zero_division=0.0),
        "roc_auc": lambda p: np.mean([sk.roc_auc_score(y == k, p[:, k]) for k in range(3)]),
    }[metric]
    if metric == "roc_auc":
        a, b = (stats.rankdata(p, axis=-2) for p in (a, b))
    names = np.unique(unit)

    def difference(swap: tuple[int, ...]) -> float:
        moved = np.isin(unit, names[np.array(swap, dtype=bool)])[:, None]
        pairs = list(zip(a, b, strict=True))
        one = [score(np.where(moved, q, p)) for p, q in pairs]
        other = [score(np.where(moved, p, q)) for p, q in pairs]
        return float(np.mean(one) - np.mean(other))

    observed = difference((0,) * len(names))
    all_ = [difference(swap) for swap in product((0, 1), repeat=len(names))]
    return observed, np.mean(np.abs(all_) >= abs(observed) - 1e-9)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "kappa", "f1", "roc_auc"])
@pytest.mark.parametrize("runs", [1, 2])
def test_permutation_over_trials_by_trying_all_swaps(metric: str, runs: int) -> None:
    rng = np.random.default_rng(runs)
    y = rng.permutation(np.arange(18) % 3)
    unit = np.arange(18) // 3 * 5  # of three trials each, of several classes
    p = rng.dirichlet(np.ones(3), (2, runs, 18)) + [[[[0]]], [[[0.4]]]] * np.eye(3)[y]
    p[0] = np.round(p[0], 1)  # with ties
    a, b = p / p.sum(-1, keepdims=True)
    found = trial_permutation(metric, y, a, b, unit)
    observed, wanted = by_trying_all_swaps(metric, y, a, b, unit)
    assert (found.n, found.test) == (6, "trial_permutation")
    assert found.mean_difference == pytest.approx(observed)
    assert found.p_value == pytest.approx(wanted)
    back = trial_permutation(metric, y, b, a, unit)
    assert (back.mean_difference, back.p_value) == pytest.approx((-observed, wanted))


def test_permutation_of_accuracy_over_single_trials_is_mcnemars() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    a, b = columns(rng.random(60)), columns(np.where(rng.random(60) < 0.75, y, rng.random(60)))
    found = trial_permutation("accuracy", y, a, b, np.arange(60))
    wanted = mcnemar(a[0].argmax(1) == y, b[0].argmax(1) == y)
    assert found.mean_difference == pytest.approx(wanted.mean_difference)
    # Four standard errors of 10,000 random swaps.
    p = wanted.p_value
    assert found.p_value == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 10_000) + 1e-4)


def delong(y: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """P-value of DeLong, DeLong and Clarke-Pearson (1988), from every pair of trials."""
    parts = []
    for score in (a, b):
        above = score[y == 1][:, None] - score[y == 0]
        kernel = (np.sign(above) + 1) / 2
        parts.append((kernel.mean(1), kernel.mean(0)))
    (a10, a01), (b10, b01) = parts
    variance = (a10 - b10).var(ddof=1) / len(a10) + (a01 - b01).var(ddof=1) / len(a01)
    return float(2 * stats.norm.sf(abs(a10.mean() - b10.mean()) / np.sqrt(variance)))


def test_permutation_of_areas_agrees_with_delong_whatever_the_scale() -> None:
    rng = np.random.default_rng(3)
    found, wanted = [], []
    for _ in range(30):
        y = (rng.random(150) < 0.3).astype(int)
        common = rng.standard_normal(150)
        one, other = (common + rng.standard_normal(150) + y for _ in range(2))
        # A steep and a flat probability, of the same order as before.
        a, b = 1 / (1 + np.exp(-5 * one)), 0.5 + 1e-6 * np.tanh(other)
        found.append(
            trial_permutation("roc_auc", y, columns(a), columns(b), np.arange(150)).p_value
        )
        wanted.append(delong(y, a, b))
    np.testing.assert_allclose(found, wanted, atol=0.04)


@pytest.mark.parametrize("metric", ["balanced_accuracy", "roc_auc"])
def test_permutation_over_trials_keeps_its_level(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equally good methods of different scales; groups of four trials that say the same."""
    monkeypatch.setattr("spdtokens.evaluation.statistics.RANDOM_FLIPS", 500)
    rng = np.random.default_rng(0)
    unit, n, sets = np.repeat(np.arange(40), 4), 160, 400
    by_unit = by_trial = 0
    for _ in range(sets):
        y = np.repeat(rng.random(40) < 0.4, 4).astype(int)
        noise = np.repeat(rng.standard_normal((2, 40)), 4, axis=1) + rng.normal(0, 0.2, (2, n))
        one, other = 1 / (1 + np.exp(-(noise + y - 0.5) * [[8], [0.1]]))
        a, b = columns(one), columns(other)
        by_unit += trial_permutation(metric, y, a, b, unit).p_value < 0.05
        by_trial += trial_permutation(metric, y, a, b, np.arange(n)).p_value < 0.05
    # Within three standard errors of 400 draws; as if all were independent, far too often.
    assert 0.017 < by_unit / sets < 0.083
    assert by_trial / sets > 0.2


def test_permutation_over_trials_says_why_it_cannot_be_done() -> None:
    y, p = np.array([0, 1, 0, 1]), columns(np.array([0.1, 0.8, 0.3, 0.4]))
    one = trial_permutation("accuracy", y, p, p, np.zeros(4))
    assert np.isnan(one.p_value)
    assert one.why_not
    missing = trial_permutation("roc_auc", np.zeros(4, int), p, p, np.arange(4))
    assert np.isnan(missing.p_value)
    assert missing.why_not
    assert trial_permutation("f1", y, p, p, np.arange(4)).p_value == 1
