"""The estimators as scikit-learn, and people, use them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import spdtokens
from spdtokens.models import ModelError
from spdtokens.signal import SignalError
from spdtokens.spd import EMBEDDINGS
from spdtokens.spd.embeddings import SUPERVISED
from spdtokens.training import (
    PRESETS,
    SPDTokenClassifier,
    TokenTransformerClassifier,
    TrainingError,
)
from spdtokens.training.device import resolve_device
from spdtokens.training.labels import held_back
from spdtokens.training.presets import resolve_preset

TINY = {
    "preset": "paper",
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


def trials(n: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """Raw trials whose classes differ in the variance of one channel."""
    rng = np.random.default_rng(1)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 4, 150))
    X[:, 1] *= (1 + 2 * y)[:, None]
    return X, y


def single_precision_trials() -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(64) % 2
    X = np.random.default_rng(1).standard_normal((64, 8, 150)).astype(np.float32)
    X[:, 1] *= (1 + y)[:, None]
    return X, y


@parametrize_with_checks([TokenTransformerClassifier(**TINY, random_state=0)])
def test_scikit_learns_own_checks(estimator, check) -> None:
    check(estimator)  # asserts inside


def test_predictions() -> None:
    X, y = tokens()
    model = TokenTransformerClassifier(**TINY, random_state=0).fit(X[::2], y[::2])
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


def test_two_axes_are_one_token() -> None:
    X, y = tokens(n_tokens=1)
    flat = TokenTransformerClassifier(**TINY, random_state=0).fit(X[:, 0], y)
    deep = TokenTransformerClassifier(**TINY, random_state=0).fit(X, y)
    np.testing.assert_array_equal(flat.predict_proba(X[:, 0]), deep.predict_proba(X))


def test_random_state() -> None:
    X, y = tokens()

    def fitted(seed) -> np.ndarray:
        return TokenTransformerClassifier(**TINY, random_state=seed).fit(X, y).predict_proba(X)

    before = torch.get_rng_state()
    np.testing.assert_array_equal(fitted(3), fitted(3))
    assert not np.array_equal(fitted(3), fitted(4))
    np.testing.assert_array_equal(
        fitted(np.random.RandomState(5)), fitted(np.random.RandomState(5))
    )
    assert torch.equal(before, torch.get_rng_state())  # nobody else's randomness is touched


def test_ensemble_is_the_mean_of_its_members() -> None:
    X, y = tokens()
    model = TokenTransformerClassifier(**TINY, random_state=7, ensemble=3).fit(X, y)
    alone = TokenTransformerClassifier(**TINY, random_state=7).fit(X, y)
    assert len(model.networks_) == 3
    assert model.history_["train loss"].shape == (3, 30)
    # The first member is the network that the seed gives alone.
    np.testing.assert_array_equal(
        alone.networks_[0].head.weight.detach(), model.networks_[0].head.weight.detach()
    )
    with torch.no_grad():
        members = [n(torch.from_numpy(X)).softmax(1).numpy() for n in model.networks_]
    np.testing.assert_allclose(model.predict_proba(X), np.mean(members, 0), rtol=1e-10)
    assert not np.allclose(members[0], members[1])


def test_validation_chooses_the_epoch_and_never_splits_groups() -> None:
    X, y = tokens(90)
    y = np.random.default_rng(0).permutation(y)  # nothing to learn
    options = {**TINY, "keep": "best", "patience": 5, "validation": 0.3}
    model = TokenTransformerClassifier(**options, random_state=0).fit(X, y)
    losses = model.history_["validation loss"][0]
    assert model.n_epochs_ == [losses.argmin() + 1]
    assert len(losses) == model.n_epochs_[0] + 5
    groups = np.repeat(np.arange(30), 3)
    plan = held_back(3, np.unique(y, return_inverse=True)[1], groups, 0.3)
    assert not set(groups[plan.train]) & set(groups[plan.validation])
    grouped = TokenTransformerClassifier(**options, random_state=0).fit(X, y, groups=groups)
    assert len(grouped.history_["validation loss"][0]) >= 1


@pytest.mark.parametrize("embedding", ["log_euclidean", "bures_wasserstein", "euclidean"])
def test_raw_trials_and_covariances(embedding: str) -> None:
    X, y = trials()
    model = spdtokens.SPDTokenClassifier(embedding, sfreq=SFREQ, bands="none", **TINY)
    model.set_params(random_state=0).fit(X[:24], y[:24])
    assert model.score(X[24:], y[24:]) > 0.8
    C = model.tokenizer_.covariances(X)
    same = SPDTokenClassifier(embedding, **TINY, random_state=0).fit(C[:24], y[:24])
    np.testing.assert_allclose(same.predict_proba(C), model.predict_proba(X), atol=1e-6)


SHORT = TINY | {"epochs": 5, "learning_rate": 1e-3}


@pytest.mark.parametrize("preset", [SHORT, {"preset": "recommended"}], ids=["paper", "recommended"])
@pytest.mark.parametrize("bands", ["none", [(4, 12), (12, 30)]], ids=["1 token", "2 tokens"])
@pytest.mark.parametrize("embedding", sorted(EMBEDDINGS | SUPERVISED))
def test_predictions_do_not_depend_on_the_unit(embedding: str, bands, preset: dict) -> None:
    """Beyond rounding.

    A trial in single precision and the same in another unit differ in the last digit, as recordings
    do, and training must not amplify that.
    """
    X, y = single_precision_trials()
    model = SPDTokenClassifier(embedding, sfreq=SFREQ, bands=bands, random_state=0, **preset)
    expected = clone(model).fit(X, y).predict_proba(X)
    for unit in np.float32([1e-6, 1e3, 1e6]):
        scaled = clone(model).fit(unit * X, y).predict_proba(unit * X)
        np.testing.assert_allclose(scaled, expected, atol=1e-4)


def test_geometric_attention() -> None:
    X, y = trials()
    options = {"sfreq": SFREQ, "bands": [(4, 12), (12, 30)], **TINY, "random_state": 0}
    plain = SPDTokenClassifier(**options).fit(X, y)
    geometric = SPDTokenClassifier(**options, attention="geometric").fit(X, y)
    assert not np.allclose(plain.predict_proba(X), geometric.predict_proba(X))
    off = SPDTokenClassifier(**options, attention="geometric", alpha=0.0).fit(X, y)
    np.testing.assert_allclose(off.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    # With one token there is nothing to attend to.
    options["bands"] = "none"
    np.testing.assert_array_equal(
        SPDTokenClassifier(**options).fit(X, y).predict_proba(X),
        SPDTokenClassifier(**options, attention="geometric").fit(X, y).predict_proba(X),
    )


def test_clone_pickle_grid_search_and_cross_validation() -> None:
    X, y = trials()
    model = SPDTokenClassifier(sfreq=SFREQ, bands="none", **TINY, random_state=0)
    assert clone(model).get_params() == model.get_params()
    fitted = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    groups = np.repeat(np.arange(12), 4)
    scores = cross_val_score(model, X, y, cv=GroupKFold(3), groups=groups)
    assert scores.mean() > 0.7
    search = GridSearchCV(model, {"n_layers": [1, 2], "embedding": ["euclidean"]}, cv=2).fit(X, y)
    assert search.best_params_["embedding"] == "euclidean"
    assert search.best_score_ > 0.7


def test_checkpoint_and_progress_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = tokens()
    file = tmp_path / "run.npz"
    options = {**TINY, "random_state": 0, "checkpoint": file, "verbose": True}
    first = TokenTransformerClassifier(**options).fit(X, y)
    assert file.exists()
    shown = capsys.readouterr()
    assert "TokenTransformerClassifier" in shown.err
    assert "30/30" in shown.err
    assert shown.out == ""
    again = TokenTransformerClassifier(**options).fit(X, y)  # nothing left to train
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_heads": 3}, ModelError, "n_heads=3 does not divide d_model=16"),
        ({"device": "cuda"}, TrainingError, "asks for a graphics card, and torch sees none"),
        ({"device": "tpu9"}, TrainingError, "There is no device 'tpu9'"),
        ({"device": "meta"}, TrainingError, "runs on 'cpu' or 'cuda'"),
        ({"preset": "best"}, TrainingError, "no preset 'best'. There are: paper"),
        ({"ensemble": 0}, TrainingError, "ensemble is a whole number from 1"),
        ({"validation": 1.5}, TrainingError, "validation is the share"),
        ({"validation": 0.99}, TrainingError, "Cannot hold back 99% of 60 trials"),
        ({"keep": "best"}, TrainingError, "pass validation"),
        ({"random_state": -1}, TrainingError, "random_state is not negative"),
        ({"batch_size": 1, "n_tokens": 1}, TrainingError, "BN-Embed cannot train on them"),
    ],
)
def test_bad_settings_are_refused(change, error, message) -> None:
    if change.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a graphics card")
    change = dict(change)
    X, y = tokens(n_tokens=change.pop("n_tokens", 2))
    with pytest.raises(error, match=message):
        TokenTransformerClassifier(**{**TINY, **change}).fit(X, y)


def test_bad_data_is_refused() -> None:
    X, y = tokens()
    model = TokenTransformerClassifier(**TINY, random_state=0)
    with pytest.raises(TrainingError, match="All 60 training trials are of one class, left: a"):
        model.fit(X, np.full(60, "left"))
    holes = X.copy()
    holes[[3, 8], 0, 1] = np.nan
    with pytest.raises(TrainingError, match=r"NaN or infinity in 2 of 60 trials \(3, 8\)"):
        model.fit(holes, y)
    model.fit(X, y)
    with pytest.raises(TrainingError, match="NaN or infinity"):
        model.predict(holes)
    with pytest.raises(ValueError, match=r"1 features, but TokenTransformerClassifier is exp"):
        model.predict(X[:, :1])
    with pytest.raises(TrainingError, match=r"trials of shape \(2, 6\), got \(2, 5\)"):
        model.predict(X[:, :, :5])
    with pytest.raises(TrainingError, match="Expected tokens"):
        model.fit(X[:, None], y)


def test_bad_trials_are_refused() -> None:
    X, y = trials()
    model = SPDTokenClassifier(sfreq=SFREQ, bands="none", **TINY)
    with pytest.raises(TrainingError, match="Expected 48 labels"):
        model.fit(X, y[:-1])
    with pytest.raises(ModelError, match="does not divide"):
        clone(model).set_params(n_heads=7).fit(X, y)
    model.fit(X, y)
    with pytest.raises(SignalError, match="fitted to 4 channels, got 3"):
        model.predict(X[:, :3])
    with pytest.raises(SignalError, match="fitted to trials of 150 samples, got 100"):
        model.predict(X[..., :100])
    with pytest.raises(SignalError, match="pass sfreq"):
        SPDTokenClassifier(**TINY).fit(X, y)


def test_presets() -> None:
    paper, small = PRESETS["paper"], PRESETS["paper-small"]
    assert (paper.config.d_model, paper.config.n_layers, paper.config.n_heads) == (128, 6, 8)
    assert (paper.config.d_ff, paper.config.dropout, paper.config.bn_embed) == (256, 0.1, True)
    assert (paper.recipe.epochs, paper.recipe.batch_size) == (50, 64)
    assert (paper.recipe.learning_rate, paper.recipe.weight_decay) == (1e-3, 0.0)
    assert (paper.recipe.keep, paper.recipe.patience) == ("last", None)
    assert (small.config.d_model, small.config.n_layers, small.config.n_heads) == (64, 4, 4)
    assert (small.config.d_ff, small.recipe.batch_size) == (128, 32)
    changed = resolve_preset("paper", n_layers=2, epochs=100, dropout=None)
    assert (changed.config.n_layers, changed.recipe.epochs) == (2, 100)
    assert changed.config.dropout == 0.1


def test_device() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected


@pytest.mark.slow
def test_scikit_learns_own_checks_with_the_papers_preset() -> None:
    results = check_estimator(TokenTransformerClassifier(random_state=0), on_skip=None)
    assert len(results) > 40
    assert {result["status"] for result in results} <= {"passed", "skipped"}
