"""Trials to validate on, given or held back."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from spdtokens.training.network_classifier import NetworkClassifier
from spdtokens.training.recipe import TrainingError


def trials(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    X = np.random.default_rng(seed).standard_normal((n, 4, 128))
    X[:, 1] *= (1 + y)[:, None]
    return X, np.array(["left", "right"])[y]


def classifier(**more: object) -> NetworkClassifier:
    return NetworkClassifier("eegnet", sfreq=128.0, epochs=4, random_state=1, **more)


def test_given_trials_choose_the_epoch_and_are_not_trained_on() -> None:
    X, y = trials(24, 0)
    V, v = trials(10, 1)
    model = classifier().fit(X, y, validation=(V, v))
    assert model.held_back_ is None
    losses = model.history_["validation loss"]
    assert model.epoch_ == int(np.argmin(losses)) + 1
    # Everything is fitted on training trials: others to validate on change no curve of training.
    other = classifier().fit(X, y, validation=(50 * V[::-1], v))
    np.testing.assert_array_equal(model.preparation_.scale_, other.preparation_.scale_)
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


def test_a_class_that_is_not_trained_on_cannot_validate() -> None:
    X, y = trials(24, 0)
    with pytest.raises(TrainingError, match="of class up, which is not among"):
        classifier().fit(X, y, validation=(X[:2], ["left", "up"]))


def test_what_a_batch_norm_takes_out_does_not_wander() -> None:
    """Biases before a batch norm have no gradient but rounding errors, which Adam would follow."""
    X, y = trials(64, 2)
    X = X.astype(np.float32)
    model = NetworkClassifier("spd-token-mlp", sfreq=128.0, epochs=5, random_state=1)
    expected = clone(model).fit(X, y).predict_proba(X)
    unit = np.float32(1e6)
    scaled = clone(model).fit(unit * X, y).predict_proba(unit * X)
    np.testing.assert_allclose(scaled, expected, atol=1e-5)
