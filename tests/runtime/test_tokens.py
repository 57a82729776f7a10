"""Tokens, and covariance to probabilities, against embedding and network in torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from spdtokens.bench.latency import NUMPY, decoders
from spdtokens.bench.timing import thread_count
from spdtokens.classifiers.nn import SPDTokenTransformer, TransformerConfig, geometric_bias
from spdtokens.errors import NotSPDError
from spdtokens.geometry import Floor, get_embedding, token_dim
from spdtokens.runtime import DecoderError, networks
from spdtokens.runtime.tokens import Reference, Tokens
from tests.classifiers.nn.test_transformer import TINY, used_model
from tests.matrices import random_spd, with_spectrum

NAMES = ("log_euclidean", "bures_wasserstein", "euclidean", "cholesky", "log_cholesky")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products: on a busy machine two threads wait for each other and are slower."""
    with thread_count(1):
        yield


def token(name: str, C: Any, floor: Floor | None = None) -> Any:
    floor = floor or Floor()
    made = Tokens((name,), False, floor.relative, floor.absolute, 1.0, None)
    return made(np.asarray(C)[None, None])[0, 0]


@torch.no_grad()
def expected(model: SPDTokenTransformer, C: torch.Tensor) -> Any:
    tokens = get_embedding("log_euclidean").to_token(C[None]).float()
    bias = geometric_bias(C[None], model.config.alpha)
    extra = (bias,) if model.config.attention == "geometric" else ()
    return model.eval()(tokens, *extra).softmax(-1).numpy()


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("d", [2, 8, 22])
@pytest.mark.parametrize("bn_embed", [True, False])
def test_covariance_to_probabilities(tokens: int, d: int, bn_embed: bool) -> None:
    model = used_model(tokens, TransformerConfig(bn_embed=bn_embed), features=token_dim(d))
    decoder = decoders(model, d)[NUMPY]
    for seed in range(3):
        C = random_spd(tokens, d, seed=seed)
        before = C.clone()
        found = decoder.predict_proba(C[None].numpy())
        np.testing.assert_allclose(found, expected(model, C), rtol=0, atol=1e-5)
        assert found.sum() == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(C, before, rtol=0, atol=0)


def test_geometric_attention() -> None:
    config = replace(TINY, attention="geometric", alpha=2.0)
    model = used_model(3, config, features=token_dim(6))
    C = random_spd(3, 6)
    for decoder in decoders(model, 6).values():
        found = decoder.predict_proba(C[None].numpy())
        np.testing.assert_allclose(found, expected(model, C), rtol=0, atol=1e-5)
    bias = networks.geometric_bias(C[None].numpy(), 2.0)
    np.testing.assert_allclose(bias, geometric_bias(C[None], 2.0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("floor", [Floor(), Floor(relative=1e-3), Floor.paper(), Floor(0.0, 0.5)])
def test_floor(floor: Floor) -> None:
    """An eigenvalue of zero and a small one; which are raised depends on the floor."""
    embedding = get_embedding("log_euclidean", floor=floor)
    C = with_spectrum([0.0, 1e-5, 0.3, 2.0, 5.0])
    found = token("log_euclidean", C, floor)
    np.testing.assert_allclose(found, embedding.to_token(C).numpy(), rtol=0, atol=1e-4)


def test_a_matrix_below_the_floor_among_good_ones() -> None:
    """Each of several matrices has a floor of its own."""
    C = torch.stack([random_spd(5), with_spectrum([0.0, 1e-5, 0.3, 2.0, 5.0])])
    found = Tokens(("log_euclidean",), False, 1e-12, 0.0, 1.0, None)(C[None].numpy())[0]
    wanted = get_embedding("log_euclidean").to_token(C).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_the_symmetric_part_is_used() -> None:
    C = random_spd(5) + 1e-3 * torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    wanted = get_embedding("bures_wasserstein").to_token(C).numpy()
    np.testing.assert_allclose(token("bures_wasserstein", C), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["log_euclidean", "cholesky"])
@pytest.mark.parametrize("spectrum", [[-0.1, 1.0, 2.0], [-2.0, -1.0, 0.0]])
def test_indefinite_matrices_are_refused(name: str, spectrum: list[float]) -> None:
    C = with_spectrum(spectrum)
    with pytest.raises(NotSPDError):
        get_embedding(name).to_token(C)
    with pytest.raises(DecoderError, match="not positive definite"):
        token(name, C)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_matrices_are_refused(name: str, bad: float) -> None:
    C = random_spd(22).numpy()
    C[3, 5] = C[5, 3] = bad
    with pytest.raises(DecoderError, match="NaN or infinite"):
        token(name, C)


# References.


def whitened_mean(C: np.ndarray, reference: Reference) -> np.ndarray:
    """Mean over trials and windows of recentred matrices, for each band."""
    W = reference.whitener(reference.over_windows(C).mean(0))
    moved = W @ C @ W
    return moved.reshape(len(C), -1, reference.n_windows, *C.shape[-2:]).mean((0, 2))


@pytest.mark.parametrize("n_means", [0, 2])
@pytest.mark.parametrize("n_windows", [1, 3])
def test_recentred_channels_have_mean_identity(n_windows: int, n_means: int) -> None:
    C = random_spd(8, 6, 5, seed=1).numpy()
    reference = Reference("euclid", n_windows, n_means=n_means)
    assert reference.over_windows(C).shape == (8, 6 // n_windows, 5 - n_means, 5 - n_means)
    found = whitened_mean(C, reference)
    identity = np.broadcast_to(np.eye(5 - n_means), (6 // n_windows, 5 - n_means, 5 - n_means))
    np.testing.assert_allclose(found[:, n_means:, n_means:], identity, atol=1e-12)
    W = reference.whitener(reference.over_windows(C).mean(0))
    np.testing.assert_array_equal((W @ C @ W)[..., :n_means, :n_means], C[..., :n_means, :n_means])


def test_windows_of_a_band_share_a_reference() -> None:
    C = random_spd(4, 6, 3, seed=1).numpy()
    reference = Reference("euclid", n_windows=3)
    over = reference.over_windows(C)
    np.testing.assert_allclose(over[:, 0], C[:, :3].mean(1))
    np.testing.assert_allclose(over[:, 1], C[:, 3:].mean(1))
    W = reference.whitener(over)
    assert W.shape == C.shape
    np.testing.assert_array_equal(W[:, 0], W[:, 2])
    np.testing.assert_array_equal(W[:, 3], W[:, 5])
    assert not np.allclose(W[:, 2], W[:, 3])


def test_shrinkage_of_a_reference() -> None:
    R = random_spd(2, 4, seed=2).numpy()
    W = Reference(shrinkage=0.2).whitener(R)
    trace = np.trace(R, axis1=1, axis2=2)[:, None, None]
    np.testing.assert_allclose(
        W @ (0.8 * R + 0.2 * trace / 4 * np.eye(4)) @ W, np.stack([np.eye(4)] * 2), atol=1e-10
    )


@pytest.mark.parametrize("metric", ["euclid", "riemann"])
def test_a_running_reference_is_that_of_the_channels(metric: Any) -> None:
    """Means over time do not count: it is as without their rows."""
    C = random_spd(5, 4, 5, seed=3).numpy()
    with_rows, without = (Reference(metric, 2, n_means=n) for n in (2, 0))
    R = S = without.over_windows(C[0, :, 2:, 2:])
    for i, trial in enumerate(C[1:]):
        R = with_rows.moved(R, trial, 1 / (i + 2))
        S = without.moved(S, trial[:, 2:, 2:], 1 / (i + 2))
    np.testing.assert_array_equal(R, S)
    if metric == "euclid":
        wanted = C[:, :, 2:, 2:].reshape(5, 2, 2, 3, 3).mean((0, 2))
        np.testing.assert_allclose(R, wanted, rtol=1e-12)
