"""Covariance to probabilities, folded, against embedding and network in torch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from spdtokens.bench.timing import thread_count
from spdtokens.models import (
    FoldedClassifier,
    ModelError,
    SPDTokenTransformer,
    TransformerConfig,
    geometric_bias,
)
from spdtokens.models.folded_classifier import FoldedTokens
from spdtokens.models.folding import folded
from spdtokens.runtime import networks
from spdtokens.spd import Floor, NotSPDError, get_embedding, token_dim
from tests.matrices import random_spd, with_spectrum
from tests.models.test_folded import TINY, used_model

NAMES = ("log_euclidean", "bures_wasserstein", "euclidean")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products: on a busy machine two threads wait for each other and are slower."""
    with thread_count(1):
        yield


@torch.no_grad()
def expected(model: SPDTokenTransformer, embedding, C: torch.Tensor) -> np.ndarray:
    tokens = embedding.to_token(C[None]).float()
    bias = geometric_bias(C[None], model.config.alpha)
    extra = (bias,) if model.config.attention == "geometric" else ()
    return model.eval()(tokens, *extra).softmax(-1)[0].numpy()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("d", [2, 8, 22])
@pytest.mark.parametrize("bn_embed", [True, False])
def test_covariance_to_probabilities(name: str, tokens: int, d: int, bn_embed: bool) -> None:
    config = TransformerConfig(bn_embed=bn_embed)
    model = used_model(tokens, config, features=token_dim(d))
    embedding = get_embedding(name)
    classifier = FoldedClassifier.from_model(model, embedding)
    for seed in range(3):
        C = random_spd(tokens, d, seed=seed)
        before = C.clone()
        found = classifier.probabilities(C.numpy())
        np.testing.assert_allclose(found, expected(model, embedding, C), rtol=0, atol=1e-5)
        assert found.sum() == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(C, before, rtol=0, atol=0)


def test_geometric_attention() -> None:
    config = TransformerConfig(**TINY, attention="geometric", alpha=2.0)
    model = used_model(3, config, features=token_dim(6))
    embedding = get_embedding("log_euclidean")
    C = random_spd(3, 6)
    found = FoldedClassifier.from_model(model, embedding).probabilities(C.numpy())
    np.testing.assert_allclose(found, expected(model, embedding, C), rtol=0, atol=1e-5)
    bias = networks.geometric_bias(C[None].numpy(), 2.0)
    np.testing.assert_allclose(bias, geometric_bias(C[None], 2.0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("isometric", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_tokens(name: str, isometric: bool, scale: float) -> None:
    embedding = get_embedding(name, isometric=isometric)
    C = random_spd(7, kappa=1e6, scale=scale)
    found = FoldedTokens.from_embedding(embedding, 7)(C.numpy())
    wanted = embedding.to_token(C).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("floor", [Floor(), Floor(relative=1e-3), Floor.paper(), Floor(0.0, 0.5)])
def test_floor(floor: Floor, dtype: torch.dtype) -> None:
    """An eigenvalue of zero and a small one; which are raised depends on the floor."""
    embedding = get_embedding("log_euclidean", floor=floor)
    C = with_spectrum([0.0, 1e-5, 0.3, 2.0, 5.0]).to(dtype)
    found = FoldedTokens.from_embedding(embedding, 5)(C.numpy())
    np.testing.assert_allclose(found, embedding.to_token(C).numpy(), rtol=0, atol=1e-4)


def test_the_symmetric_part_is_used() -> None:
    embedding = get_embedding("bures_wasserstein")
    C = random_spd(5) + 1e-3 * torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    found = FoldedTokens.from_embedding(embedding, 5)(C.numpy())
    np.testing.assert_allclose(found, embedding.to_token(C).numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spectrum", [[-0.1, 1.0, 2.0], [-2.0, -1.0, 0.0]])
def test_indefinite_matrices_are_refused(spectrum: list[float]) -> None:
    C = with_spectrum(spectrum)
    embedding = get_embedding("log_euclidean")
    with pytest.raises(NotSPDError):
        embedding.to_token(C)
    with pytest.raises(ModelError, match="not positive definite"):
        FoldedTokens.from_embedding(embedding, 3)(C.numpy())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_matrices_are_refused(name: str, bad: float) -> None:
    C = random_spd(22).numpy()
    C[3, 5] = C[5, 3] = bad
    with pytest.raises(ModelError, match="NaN or infinite"):
        FoldedTokens(name, 22)(C)


def test_wrong_shapes_are_refused() -> None:
    network = folded(used_model(1))
    with pytest.raises(ModelError, match="10 features, the network expects 15"):
        FoldedClassifier(FoldedTokens("euclidean", 4), network)
    classifier = FoldedClassifier(FoldedTokens("euclidean", 5), network)
    with pytest.raises(ModelError, match=r"shape \(1, 5, 5\), got \(5, 5\)"):
        classifier.probabilities(np.eye(5))


def test_other_embeddings_are_refused() -> None:
    with pytest.raises(ModelError, match=r"'cholesky' cannot be folded\. Choose from: log_eucl"):
        FoldedTokens.from_embedding(get_embedding("cholesky"), 5)
