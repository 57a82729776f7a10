"""Other people's training loops train our module."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV

from spdtokens import FilterBankCovariances
from spdtokens.classifiers.nn import TransformerConfig, TrialTransformer

skorch = pytest.importorskip("skorch", reason="skorch is not installed (extra 'dev')")

SFREQ = 100.0
TINY = TransformerConfig(d_model=16, n_layers=1, n_heads=2, d_ff=32)


def trials(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the 10 Hz power of the first channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 4, 200))
    t = np.arange(200) / SFREQ
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    X[:, 0] += (0.3 + 1.5 * y[:, None]) * np.sin(2 * np.pi * 10 * t + phase)
    return X.astype(np.float32), y


def classifier(**options):
    return skorch.NeuralNetClassifier(
        TrialTransformer,
        module__n_outputs=2,
        module__config=TINY,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=3e-3,
        max_epochs=15,
        batch_size=20,
        train_split=None,
        verbose=0,
        **options,
    )


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_skorch_trains_it_on_raw_trials() -> None:
    raw = {"n_chans": 4, "n_times": 200, "sfreq": SFREQ, "bands": "paper3"}
    net = classifier(**{f"module__{k}": v for k, v in raw.items()})
    net.fit(*trials(60))
    losses = net.history[:, "train_loss"]
    assert losses[-1] < 0.5 * losses[0]
    X, y = trials(60, seed=1)
    assert net.score(X, y) > 0.85
    np.testing.assert_allclose(net.predict_proba(X).sum(1), 1, rtol=1e-5)


def test_skorch_trains_it_on_covariances() -> None:
    (X, y), (X_new, y_new) = trials(60), trials(60, seed=1)
    filterbank = FilterBankCovariances(SFREQ, bands="paper3").fit(X)
    net = classifier(module__n_chans=4, module__n_tokens=3).fit(filterbank.transform(X), y)
    assert net.score(filterbank.transform(X_new), y_new) > 0.85


def test_scikit_learn_searches_through_it() -> None:
    raw = {"n_chans": 4, "n_times": 200, "sfreq": SFREQ}
    net = classifier(**{f"module__{k}": v for k, v in raw.items()})
    # The classes differ at 10 Hz, so the search must find that band.
    grid = {"module__bands": [[(20, 40)], [(8, 13)]]}
    search = GridSearchCV(net, grid, cv=2, refit=False, error_score="raise").fit(*trials(60))
    assert search.best_params_ == {"module__bands": [(8, 13)]}
