"""Preset ``paper`` computes what the paper's appendix states, to the last digits.

The sizes of its splits are tested with the protocols, in ``tests/evaluation/test_protocols.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.classifiers.nn import SPDTokenTransformer, TransformerConfig
from spdtokens.classifiers.nn.networks import NETWORKS, SHAPES
from spdtokens.classifiers.nn.transformer import SMALL, STANDARD
from spdtokens.datasets import from_arrays
from spdtokens.geometry import TokenEmbedding
from spdtokens.geometry.tokens import FLOORS
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.runtime.tokens import eigen

SFREQ = 100.0
#: The paper's functions of eigenvalues by the name of the embedding.
FUNCTIONS = {"log-euclidean": np.log, "bures-wasserstein": np.sqrt, "euclidean": np.asarray}


def appendix_covariance(X: np.ndarray) -> np.ndarray:
    """The paper's covariance of a trial (channels, samples) in microvolts."""
    X = X - X.mean(axis=1, keepdims=True)
    return X @ X.T / (X.shape[1] - 1) + 1e-6 * np.eye(len(X))


def appendix_token(C: np.ndarray, function: Any) -> np.ndarray:
    """Row-major upper triangle of the function of a matrix, its eigenvalues clipped at 1e-12."""
    eigenvalues, V = np.linalg.eigh(C)
    M = V @ np.diag(function(np.maximum(eigenvalues, 1e-12))) @ V.T
    return np.array([M[i, j] for i in range(len(M)) for j in range(i, len(M))])


def trials(channels: int, microvolts: float, seed: int) -> np.ndarray:
    """Trials with an offset, in microvolts; channels are correlated and of different strength."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(channels) + 0.2 * rng.standard_normal((channels, channels))
    X = mixing @ rng.standard_normal((4, channels, 30 * channels))
    return microvolts * (X + rng.standard_normal((4, channels, 1)))


def pipeline_tokens(
    embedding: str, X: np.ndarray, unit_in_volts: float, preset: str = "paper"
) -> np.ndarray:
    """Tokens (n, features) that reach the network of a fitted pipeline."""
    y = np.arange(len(X)) % 2
    dataset = replace(from_arrays(X, y, sfreq=SFREQ), unit_in_volts=unit_in_volts)
    tiny = {"d_model": 4, "n_layers": 1, "n_heads": 1, "d_ff": 4}
    settings = Settings(preset=preset, bands="none", epochs=1, changes=tiny, device="cpu")
    model: Any = get_method(f"token-{embedding}").make(dataset, settings).fit(X, y)
    return model["classifier"].embedding_.transform(model["filterbank"].transform(X))


@pytest.mark.parametrize("embedding", FUNCTIONS)
@given(
    channels=st.integers(1, 6),
    microvolts=st.floats(0.01, 1e3),
    unit_in_volts=st.sampled_from([1.0, 1e-3, 1e-6]),
    seed=st.integers(0, 1000),
)
def test_tokens_are_those_of_the_appendix(
    embedding: str, channels: int, microvolts: float, unit_in_volts: float, seed: int
) -> None:
    X = trials(channels, microvolts, seed)
    expected = np.stack(
        [appendix_token(appendix_covariance(trial), FUNCTIONS[embedding]) for trial in X]
    )
    found = pipeline_tokens(embedding, X * (1e-6 / unit_in_volts), unit_in_volts)
    assert_allclose(
        found.reshape(expected.shape), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
    )


def test_the_other_preset_is_not_the_papers() -> None:
    X = trials(3, 0.01, 0)  # so weak that 1e-6 square microvolts matter
    exact, unit_free = (
        pipeline_tokens("log-euclidean", X, 1e-6, preset) for preset in ("paper", "standard")
    )
    assert np.abs(exact - unit_free).max() > 0.1


@given(channels=st.integers(1, 6), microvolts=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_epsilon_is_added_bit_for_bit(channels: int, microvolts: float, seed: int) -> None:
    X = trials(channels, microvolts, seed)
    plain = FilterBankCovariances(SFREQ, bands="none", regularisation=0.0).fit_transform(X)
    exact = FilterBankCovariances(SFREQ, bands="none", estimator="paper", unit_in_volts=1e-6)
    assert_array_equal(exact.fit_transform(X), plain + 1e-6 * np.eye(channels))


@given(d=st.integers(2, 8), small=st.floats(1e-16, 1e-10), seed=st.integers(0, 1000))
def test_eigenvalues_are_clipped_bit_for_bit(d: int, small: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    C = Q @ np.diag([small, *rng.uniform(1e-4, 1e-3, d - 1)]) @ Q.T
    C = (C + C.T) / 2
    eigenvalues, V = np.linalg.eigh(C)
    found, vectors = eigen(C, *FLOORS["paper"])
    assert_array_equal(found, np.maximum(eigenvalues, 1e-12))
    assert_array_equal(vectors, V)


def test_clipped_tokens() -> None:
    C = np.diag([1e-13, 4.0])[None]
    for name, function in (("log_euclidean", np.log), ("bures_wasserstein", np.sqrt)):
        for unit_in_volts in (1.0, 1e-3, 1e-6):
            made = TokenEmbedding(name, floor="paper", unit_in_volts=unit_in_volts)
            found = made.fit_transform(C * (1e-6 / unit_in_volts) ** 2)
            assert_allclose(found[0], [function(1e-12), 0, function(4)], rtol=1e-14)


@pytest.mark.parametrize(
    ("data", "config", "printed"),
    [("BCI2a", STANDARD, 827_908), ("BCIcha", STANDARD, 999_554), ("MAMEM", SMALL, 136_581)],
)
def test_parameters_of_the_token_network(
    data: str, config: TransformerConfig, printed: int
) -> None:
    """Projection, encoder and head, without positions and the affine part of BN-Embed."""
    shape = SHAPES[data]
    features = shape.n_chans * (shape.n_chans + 1) // 2
    network = SPDTokenTransformer(features, 1, shape.n_outputs, config)
    sizes = {name: weight.numel() for name, weight in network.named_parameters()}
    assert sum(n for name, n in sizes.items() if not name.startswith(("posi", "bn_"))) == printed
    assert sum(sizes.values()) == printed + 3 * config.d_model


@pytest.mark.parametrize(
    ("name", "printed"),
    [("spdnet-paper", 1_016), ("eegnet-paper", 5_108), ("atcnet-paper", 123_892)],
)
def test_parameters_of_other_networks(name: str, printed: int) -> None:
    network, counts = NETWORKS[name], NETWORKS[name].counts
    assert counts is not None
    assert counts[0] == printed
    for shape, count in zip(SHAPES.values(), counts, strict=True):
        assert sum(p.numel() for p in network.build(shape).parameters()) == count
