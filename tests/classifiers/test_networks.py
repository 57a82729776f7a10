"""The networks to compare with, as scikit-learn classifiers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from spdtokens import FilterBankCovariances, NetworkClassifier
from spdtokens.classifiers import networks
from spdtokens.classifiers.nn import RunPlan
from spdtokens.classifiers.nn.networks import NETWORKS
from spdtokens.classifiers.nn.recipe import Recipe, published_recipe
from spdtokens.errors import ModelError, NotSPDError, UserError


def trials(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    X = np.random.default_rng(seed).standard_normal((n, 4, 128))
    X[:, 1] *= (1 + y)[:, None]
    return X, np.array(["left", "right"])[y]


def matrices(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = trials(n, seed)
    return FilterBankCovariances(128).fit_transform(X), y


def classifier(**more: object) -> NetworkClassifier:
    return NetworkClassifier("eegnet", sfreq=128.0, epochs=4, random_state=1, **more)


def spdnet(**more: object) -> NetworkClassifier:
    return NetworkClassifier("spdnet", epochs=4, random_state=1, **more)


def test_given_trials_choose_the_epoch_and_are_not_trained_on() -> None:
    X, y = trials(24, 0)
    V, v = trials(10, 1)
    model = classifier().fit(X, y, validation=(V, v))
    assert model.held_back_ is None
    losses = model.history_["validation loss"]
    assert model.epoch_ == int(np.argmin(losses)) + 1
    # Others to validate on change no curve of training.
    other = classifier().fit(X, y, validation=(50 * V[::-1], v))
    np.testing.assert_array_equal(model.history_["train loss"], other.history_["train loss"])
    assert not np.array_equal(losses, other.history_["validation loss"])
    # The loss of the kept epoch is that of what is predicted now.
    right = np.searchsorted(model.classes_, v)
    now = -np.log(model.predict_proba(V)[np.arange(10), right]).mean()
    assert losses[model.epoch_ - 1] == pytest.approx(now, rel=1e-4)


def test_held_back_trials_are_told() -> None:
    X, y = trials(24, 0)
    model = classifier().fit(X, y)
    assert model.held_back_ is not None
    assert len(model.held_back_) == 3
    grouped = classifier().fit(X, y, groups=np.arange(24) // 4)
    assert len(set(np.asarray(grouped.held_back_) // 4)) * 4 == len(np.asarray(grouped.held_back_))
    assert classifier(recipe="common").fit(X, y).held_back_ is None


def test_the_recipe_is_that_of_the_network_and_its_channels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Recipe] = []

    def train(*args: object, **_options: object) -> tuple[nn.Module, dict, int]:
        seen.append(args[4])  # type: ignore[arg-type]
        return nn.Identity(), {}, 1

    monkeypatch.setattr(networks, "train_module", train)
    rng = np.random.default_rng(0)
    for n_chans in (8, 56):
        X, y = rng.standard_normal((32, n_chans, 256)), np.arange(32) % 2
        NetworkClassifier("matt", sfreq=128.0, random_state=0).fit(X, y)
    assert seen == [published_recipe("matt", 8), published_recipe("matt", 56)]


@pytest.mark.parametrize("name", ["spdnet", "spdnet-paper", "spdtransnet"])
def test_networks_on_matrices_do_not_see_the_unit(name: str) -> None:
    C, y = matrices(32, 0)
    model = NetworkClassifier(name, epochs=3, random_state=1).fit(C, y)
    probability = model.predict_proba(C)
    assert model.n_features_in_ == 4
    assert probability.shape == (32, 2)
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-6)
    volts = NetworkClassifier(name, epochs=3, random_state=1).fit(1e-12 * C, y)
    np.testing.assert_allclose(volts.predict_proba(1e-12 * C), probability, atol=1e-4)
    # What the module gives for matrices whose mean variance in training is 100.
    scaled = torch.from_numpy(400 * C / np.trace(C, axis1=1, axis2=2).mean()).float()
    if NETWORKS[name].input == "covariance":
        with torch.inference_mode():
            expected = model.module_(scaled).softmax(-1).numpy()
        np.testing.assert_allclose(probability, expected, atol=1e-5)


def test_the_seed_decides() -> None:
    C, y = matrices(32, 0)
    one, two, other = (spdnet().set_params(random_state=s).fit(C, y) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.predict_proba(C), two.predict_proba(C))
    assert not np.array_equal(one.predict_proba(C), other.predict_proba(C))


def test_what_cannot_be_trained_is_refused() -> None:
    (X, y), (C, _) = trials(24, 0), matrices(24, 0)
    with pytest.raises(ModelError, match="alexnet"):
        NetworkClassifier("alexnet").fit(X, y)
    with pytest.raises(ModelError, match="pass sfreq"):
        NetworkClassifier("eegnet").fit(X, y)
    with pytest.raises(ModelError, match="recipe"):
        classifier(recipe="best").fit(X, y)
    with pytest.raises(ModelError, match="NaN"):
        classifier().fit(np.where(np.arange(128) == 5, np.nan, X), y)
    with pytest.raises(NotSPDError):
        spdnet().fit(-C, y)
    with pytest.raises(UserError, match=r"24,.*23"):
        spdnet().fit(C, y[:-1])
    with pytest.raises(ModelError, match="class up"):
        classifier().fit(X, y, validation=(X[:2], ["left", "up"]))
    fitted = spdnet().fit(C, y)
    for wrong in (np.stack([C, C], axis=1), C[..., :3, :3]):
        with pytest.raises(ModelError, match=r"\(1, 4, 4\)"):
            fitted.predict(wrong)
    with pytest.raises(ModelError, match="one band"):
        spdnet().fit(np.stack([C, C], axis=1), y)


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def noise(n: int = 17) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.standard_normal((n, 3))).float(), torch.arange(n) % 2


@pytest.mark.parametrize("keep", ["last", "best"])
def test_training_stops_when_the_validation_loss_no_longer_falls(keep: str) -> None:
    plan = RunPlan(0, np.arange(9), np.arange(9, 17))  # a last batch of one trial is left out
    recipe = Recipe(epochs=60, batch_size=4, learning_rate=0.1, keep=keep, patience=3)  # type: ignore[arg-type]
    told: list[float] = []
    _, curves, kept = networks.train_module(
        two_layers, *noise(), plan, recipe, n_classes=2, listener=told.append
    )
    losses = curves["validation loss"]
    assert len(losses) == losses.argmin() + 1 + 3 < 60
    assert kept == (losses.argmin() + 1 if keep == "best" else len(losses))
    assert sum(told) == 60


def test_training_that_diverges_is_reported() -> None:
    recipe = Recipe(epochs=5, batch_size=4, learning_rate=1e30)
    with pytest.raises(ModelError, match="learning_rate"):
        networks.train_module(two_layers, *noise(), RunPlan(0, np.arange(17)), recipe, n_classes=2)
