"""Spatial filters shared by all people: training, prediction, mirrored trials, calibration."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from spdtokens import SpatialFilterClassifier
from spdtokens.classifiers import filters
from spdtokens.errors import ModelError
from spdtokens.runtime.signals import with_means

MIRROR = [2, 1, 0, 3]  # C3, Cz, C4, Pz
PAIRS = [("left", "right")]
BANDS, WINDOWS, MEANS = 2, 3, 2
Array = NDArray[Any]


@cache
def data(n: int = 60, seed: int = 0, flipped: bool = False) -> tuple[Array, Array]:
    """Trials of two bands and three windows: less power on the other side, and a slow wave."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.array(["left", "right", "rest"])[np.arange(n) % 3])
    X = rng.standard_normal((n, BANDS * WINDOWS, 4, 40))
    sides = (2, 0) if not flipped else (0, 2)
    for label, side in zip(("left", "right"), sides, strict=True):
        X[y == label, :, side] *= 0.6
        X[y == label, :, side] += 0.3
    C = with_means(X.reshape(-1, 4, 40), MEANS)
    return C.reshape(n, BANDS * WINDOWS, 4 + MEANS, 4 + MEANS), y


SMALL: dict[str, Any] = {
    "n_windows": WINDOWS,
    "n_means": MEANS,
    "means_step": 2,
    "n_filters": 4,
    "epochs": 8,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "ensemble": 2,
    "random_state": 0,
}
MIRRORED = SMALL | {"mirror": MIRROR, "mirror_labels": PAIRS}


@pytest.fixture(autouse=True)
def in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """On every processor."""
    monkeypatch.setattr(filters, "training_dtype", lambda _: torch.float32)


@cache
def fitted(mirror: bool = True) -> SpatialFilterClassifier:
    return SpatialFilterClassifier(**(MIRRORED if mirror else SMALL)).fit(*data())


def copied(mirror: bool = True) -> SpatialFilterClassifier:
    """A fitted classifier of one's own, to calibrate."""
    made = clone(fitted(mirror))
    vars(made).update(vars(fitted(mirror)))
    return made


def with_rows(C: Array, order: list[int]) -> Array:
    """Matrices of the same trials with channels in another order; means are before channels."""
    rows = [*range(MEANS), *(MEANS + i for i in order)]
    return C[..., rows, :][..., rows]


def test_it_learns() -> None:
    assert fitted().score(*data(seed=1)) > 0.6
    assert fitted().history_["train loss"].shape == (2, 8)
    assert (fitted().history_["train loss"][:, -1] < fitted().history_["train loss"][:, 0]).all()


def test_slow_waves_are_used() -> None:
    """Labels that are in the means only."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 4, 40))
    X[:, 0] -= X[:, 0].mean(1, keepdims=True)
    X[:, 0] += 0.5 * (2 * y - 1)[:, None]
    C = with_means(X, 1)
    options: dict[str, Any] = {"n_filters": 2, "epochs": 30, "batch_size": 8, "learning_rate": 1e-2}
    options |= {"ensemble": 1, "random_state": 0}
    model = SpatialFilterClassifier(n_means=1, **options).fit(C[:40], y[:40])
    assert model.score(C[40:], y[40:]) > 0.9
    plain = SpatialFilterClassifier(**options).fit(C[:40, 1:, 1:], y[:40])
    assert plain.score(C[40:, 1:, 1:], y[40:]) < 0.8


def test_mirrored_trials_have_mirrored_probabilities() -> None:
    C, _ = data(seed=1)
    assert fitted().classes_.tolist() == ["left", "rest", "right"]
    found = fitted().predict_proba(with_rows(C, MIRROR))
    np.testing.assert_allclose(found, fitted().predict_proba(C)[:, [2, 1, 0]], rtol=0, atol=1e-10)
    other = fitted(mirror=False).predict_proba(with_rows(C, MIRROR))
    assert np.abs(other - fitted(mirror=False).predict_proba(C)[:, [2, 1, 0]]).max() > 0.01


@pytest.mark.parametrize("mirror", [True, False])
def test_prediction_is_that_of_the_modules(mirror: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Averaged over the networks, and over both views of a trial."""
    networks, trained = [], filters.trained

    def recorded(*args: Any) -> Any:
        networks.append((result := trained(*args))[0])
        return result

    monkeypatch.setattr(filters, "trained", recorded)
    model = SpatialFilterClassifier(**(MIRRORED if mirror else SMALL)).fit(*data())
    (network,) = networks

    C, _ = data(seed=1)
    views = [(C, [0, 1, 2])] + ([(with_rows(C, MIRROR), [2, 1, 0])] if mirror else [])
    wanted = []
    for view, classes in views:
        row, column = np.triu_indices(4)
        tokens = view[:, :, MEANS + row, MEANS + column] / model.scale_
        # Windows 0 and 2 of the first band; the first rows are times the root of the mean power.
        used = view[:, [0, 2]]
        power = np.einsum("nwii->nw", used[:, :, MEANS:, MEANS:]) / 4
        means = used[:, :, :MEANS, MEANS:] / np.sqrt(power * model.scale_)[..., None, None]
        x = torch.from_numpy(tokens.astype(np.float32)).unflatten(1, (BANDS, WINDOWS)).unbind(1)
        flat = torch.from_numpy(means.reshape(len(C), -1).astype(np.float32))
        with torch.no_grad():
            scores = network.eval()(x, flat).numpy()
        wanted.append(softmax(scores, axis=2).mean(1)[:, classes])
    np.testing.assert_allclose(model.predict_proba(C), np.mean(wanted, 0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**30])
def test_the_unit_does_not_matter(factor: float) -> None:
    C, y = data()
    scaled = SpatialFilterClassifier(**MIRRORED).fit(factor * C, y)
    new, _ = data(seed=1)
    found, wanted = scaled.predict_proba(factor * new), fitted().predict_proba(new)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_the_seed_decides_every_bit() -> None:
    C, _ = data(seed=1)
    wanted = fitted().predict_proba(C)
    again = clone(fitted()).fit(*data())
    np.testing.assert_array_equal(again.predict_proba(C), wanted)
    other = clone(fitted()).set_params(random_state=1).fit(*data())
    assert np.abs(other.predict_proba(C) - wanted).max() > 1e-3


def test_networks_of_an_ensemble_differ() -> None:
    one, other = fitted().network_.filters[:2]
    assert np.abs(one - other).max() > 0.1 * np.abs(one).max()
    losses = fitted().history_["train loss"]
    assert (losses[0] != losses[1]).all()


def test_single_precision_is_enough() -> None:
    (C, y), (new, _) = data(), data(seed=1)
    model = SpatialFilterClassifier(**MIRRORED).fit(C.astype(np.float32), y)
    found = model.predict_proba(new.astype(np.float32))
    np.testing.assert_allclose(found, fitted().predict_proba(new), rtol=0, atol=1e-4)


def test_training_in_bfloat16_learns_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "training_dtype", lambda _: torch.bfloat16)
    model = clone(fitted()).fit(*data())
    assert model.score(*data(seed=1)) > 0.6
    assert not np.array_equal(model.network_.filters, fitted().network_.filters)


@pytest.mark.parametrize("n", [33, 17])
def test_a_last_batch_of_one_trial(n: int) -> None:
    """It has no variance to normalise by."""
    C, y = data()
    model = SpatialFilterClassifier(**SMALL | {"epochs": 1, "ensemble": 1}).fit(C[:n], y[:n])
    assert np.isfinite(model.predict_proba(C)).all()


def test_means_of_the_first_band_only() -> None:
    C = data(seed=1)[0].copy()
    before = fitted().predict_proba(C)
    C[:, WINDOWS:, :MEANS, MEANS:] = C[:, WINDOWS:, MEANS:, :MEANS] = 0
    C[:, 1, :MEANS, MEANS:] = C[:, 1, MEANS:, :MEANS] = 0  # not used: means_step=2
    np.testing.assert_array_equal(fitted().predict_proba(C), before)
    C[:, 2, :MEANS, MEANS:] = C[:, 2, MEANS:, :MEANS] = 0
    assert np.abs(fitted().predict_proba(C) - before).max() > 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_windows": 4}, "n_windows must be a divisor of 6 .* got 4"),
        ({"n_windows": 0}, "n_windows"),
        ({"n_means": 6}, r"n_means must be in \[0, 6\).* got 6"),
        ({"n_means": -1}, "n_means"),
        ({"means_step": 0}, "means_step"),
        ({"n_filters": 0}, "n_filters"),
        ({"ensemble": 0}, "ensemble"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1"),
        ({"dropout": -0.1}, "dropout"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 1}, "batch_size"),
        ({"device": "tpu"}, "tpu"),
        ({"mirror": [2, 1, 0]}, "mirror must give for each of 4 channels"),
        ({"mirror": [1, 2, 0, 3]}, "counterpart of that must be the channel itself"),
        ({"mirror": [2, 1, 0, 7]}, "mirror must give"),
        ({"mirror": [2, 1, 0, -1]}, "mirror must give"),
        ({"mirror": None}, "mirror_labels requires mirror"),
        ({"mirror_labels": [("left", "top")]}, "pairs of left, rest, right.*'top'"),
        ({"mirror_labels": [("left", "right", "rest")]}, "mirror_labels must be pairs"),
        ({"mirror_labels": [("left", "right"), ("right", "rest")]}, "mirror_labels"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        SpatialFilterClassifier(**MIRRORED | options).fit(*data())


def test_matrices_of_another_shape_are_refused() -> None:
    C, y = data()
    for X in (C[:, :4], C[..., :5, :5]):
        with pytest.raises(ModelError, match=r"as in fit, got"):
            fitted().predict_proba(X)
        with pytest.raises(ModelError, match=r"as in fit, got"):
            fitted().calibrate(X, y)


# Calibration.


def optimum(model: SpatialFilterClassifier, C: Array, y: Array, strength: float) -> Array:
    """Probabilities after explicit maximisation of the posterior of each network."""
    network = model.network_
    target = (y[:, None] == model.classes_).astype(float)
    weight, bias = network.linear()
    found = []
    for H, W, b in zip(network.features(C), weight, bias, strict=True):
        Z = H - H.mean(0)
        Z = Z / np.sqrt((Z**2).mean() * Z.shape[1])
        scores = H @ W + b

        def loss(flat: Array, Z: Array = Z, scores: Array = scores) -> tuple[float, Array]:
            change = flat.reshape(-1, target.shape[1])
            logs = log_softmax(scores + Z @ change[:-1] + change[-1], axis=1)
            error = np.exp(logs) - target
            grad = np.concatenate([Z.T @ error, error.sum(0)[None]]) + strength * change
            value = -(target * logs).sum() + 0.5 * strength * (change**2).sum()
            return value, grad.ravel()

        start = np.zeros((Z.shape[1] + 1) * target.shape[1])
        options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 10_000}
        best = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
        change = best.reshape(-1, target.shape[1])
        found.append(softmax(scores + Z @ change[:-1] + change[-1], axis=1))
    return np.mean(found, 0)


@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0])
def test_calibration_finds_the_optimum(strength: float) -> None:
    C, y = data(n=24, seed=2, flipped=True)
    wanted = optimum(fitted(), C, y, strength)
    model = copied().calibrate(C, y, strength)
    np.testing.assert_allclose(model.predict_proba(C), wanted, rtol=0, atol=2e-3)


def test_a_strong_prior_changes_nothing() -> None:
    C, y = data(n=24, seed=2, flipped=True)
    before = fitted().predict_proba(C)
    np.testing.assert_allclose(copied().calibrate(C, y, 1e9).predict_proba(C), before, atol=1e-6)
    assert np.abs(copied().calibrate(C, y, 1.0).predict_proba(C) - before).max() > 0.05


def test_calibration_helps_a_person_who_differs() -> None:
    """Left and right are exchanged."""
    C, y = data(n=90, seed=3, flipped=True)
    before = fitted(mirror=False).score(C[45:], y[45:])
    model = copied(mirror=False)
    assert model.calibrate(C[:45], y[:45], 0.1) is model
    assert model.score(C[45:], y[45:]) > before + 0.2


def test_the_spatial_filters_stay() -> None:
    model = copied().calibrate(*data(n=12, seed=2))
    before = fitted().network_
    np.testing.assert_array_equal(model.network_.filters, before.filters)
    assert not np.array_equal(model.network_.weight, before.weight)
    assert not np.array_equal(model.network_.means, before.means)
    assert model.network_ is not before


def test_one_trial_or_one_class_to_calibrate() -> None:
    C, y = data(seed=2)
    before = fitted().predict_proba(C)
    for trials in (slice(0, 1), np.flatnonzero(y == "left")):
        found = copied().calibrate(C[trials], y[trials]).predict_proba(C)
        assert np.isfinite(found).all()
        label = fitted().classes_.tolist().index(y[trials][0])
        assert found[:, label].mean() > before[:, label].mean()


@pytest.mark.parametrize("strength", [0, -1.0, np.nan])
def test_bad_strengths_are_refused(strength: float) -> None:
    with pytest.raises(ModelError, match="strength must be > 0"):
        fitted().calibrate(*data(), strength)


def test_bad_labels_are_refused() -> None:
    C, y = data()
    with pytest.raises(ModelError, match="each of left, rest, right, got class 'feet'"):
        fitted().calibrate(C, np.where(y == "rest", "feet", y))
    with pytest.raises(ModelError, match=r"labels of shape \(59,\)"):
        fitted().calibrate(C, y[1:])
