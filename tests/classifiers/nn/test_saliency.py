"""Saliency of channels, against finite differences."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spdtokens.classifiers.nn import SPDTokenTransformer, channel_saliency
from spdtokens.errors import ModelError
from spdtokens.geometry import get_embedding, token_dim

CHANNELS, TOKENS, TELLING = 5, 2, 2


class OnMatrices(nn.Module):
    """Matrices (n, tokens, d, d) to class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.network = SPDTokenTransformer(
            token_dim(CHANNELS), TOKENS, 2, d_model=16, n_layers=1, n_heads=2, d_ff=32
        )

    def forward(self, C: Tensor) -> Tensor:
        tokens = get_embedding("log_euclidean").to_token(C.double())
        return self.network(tokens.to(self.network.head.weight.dtype))


def loud_or_quiet(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of two classes that differ in the variance of one channel."""
    y = np.arange(n) % 2
    X = np.random.default_rng(seed).standard_normal((n, TOKENS, CHANNELS, 75))
    X[:, :, TELLING] *= np.where(y, 1.2, 1 / 1.2)[:, None, None]
    return X @ X.swapaxes(-1, -2) / 75, y


@pytest.fixture(scope="module")
def trained() -> OnMatrices:
    C, y = (torch.from_numpy(a) for a in loud_or_quiet(200))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = OnMatrices()
        optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
        for _ in range(60):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(C), y).backward()
            optimiser.step()
    return module.eval()


def test_the_channel_that_tells_is_the_one_that_is_seen(trained: OnMatrices) -> None:
    C, y = loud_or_quiet(60, seed=1)
    assert float((trained(torch.from_numpy(C)).argmax(-1).numpy() == y).mean()) > 0.85
    share = channel_saliency(trained, C).mean(0)
    share /= share.sum()
    assert share[TELLING] > 0.5, share
    assert share[TELLING] > 3 * np.delete(share, TELLING).max(), share


def test_it_is_the_derivative_by_the_log_of_the_gain(trained: OnMatrices) -> None:
    C, y = loud_or_quiet(4, seed=2)
    asked, step = 1 - y, 1e-5
    module = copy.deepcopy(trained).double()
    found = channel_saliency(module, C, asked)
    for channel in range(CHANNELS):
        margins = []
        for sign in (1, -1):
            louder = C.copy()
            louder[:, :, channel] *= np.exp(sign * step)
            louder[..., channel] *= np.exp(sign * step)
            with torch.no_grad():
                scores = module(torch.from_numpy(louder)).numpy()
            margins.append(scores[np.arange(4), asked] - scores.mean(1))
        expected = np.abs(margins[0] - margins[1]) / (2 * step)
        np.testing.assert_allclose(found[:, channel], expected, rtol=1e-6)


def test_batches_and_default_classes_do_not_matter(trained: OnMatrices) -> None:
    C, _ = loud_or_quiet(10, seed=4)
    module = copy.deepcopy(trained).double()
    whole = channel_saliency(module, C)
    predicted = module(torch.from_numpy(C)).argmax(-1).numpy()
    np.testing.assert_allclose(channel_saliency(module, C, predicted, batch_size=3), whole)


def test_modes_and_gradients_are_left_as_they_were(trained: OnMatrices) -> None:
    module = copy.deepcopy(trained).train()
    module.network.bn_embed.eval()  # frozen
    module.zero_grad(set_to_none=True)
    C, _ = loud_or_quiet(4)
    with torch.no_grad():
        first, second = (channel_saliency(module, C) for _ in range(2))
    np.testing.assert_array_equal(first, second)  # no dropout
    assert module.network.blocks[0].training
    assert not module.network.bn_embed.training
    assert all(p.grad is None for p in module.parameters())


@pytest.mark.parametrize(("y", "culprit"), [([0, 1], "y must"), ([0, 1, 2, 0], "0 to 2")])
def test_labels_that_do_not_fit(trained: OnMatrices, y: list[int], culprit: str) -> None:
    with pytest.raises(ModelError, match=culprit):
        channel_saliency(trained, loud_or_quiet(4)[0], y)
