from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from spdtokens.classifiers.nn import TransformerConfig, TrialTransformer, channel_saliency
from spdtokens.errors import ModelError

SFREQ, CHANNELS, SAMPLES, TELLING = 100.0, 5, 150, 2
TINY = TransformerConfig(d_model=16, n_layers=1, n_heads=2, d_ff=32, dropout=0.1)


def loud_or_quiet(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the variance of one channel; offsets differ by hundreds."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, CHANNELS, SAMPLES))
    X[:, TELLING] *= np.where(y, 1.2, 1 / 1.2)[:, None]
    return X + 100 * rng.standard_normal((n, CHANNELS, 1)), y


@pytest.fixture(scope="module")
def trained() -> TrialTransformer:
    X, y = (torch.from_numpy(a) for a in loud_or_quiet(200))
    generator = torch.Generator().manual_seed(0)
    module = TrialTransformer(
        CHANNELS, 2, SAMPLES, SFREQ, bands=[(4, 20), (20, 40)], config=TINY, generator=generator
    )
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(60):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(X), y).backward()
            optimiser.step()
    return module.eval()


def test_the_channel_that_tells_is_the_one_that_is_seen(trained: TrialTransformer) -> None:
    X, y = loud_or_quiet(60, seed=1)
    assert float((trained(torch.from_numpy(X)).argmax(-1).numpy() == y).mean()) > 0.85
    share = channel_saliency(trained, X).mean(0)
    share /= share.sum()
    assert share[TELLING] > 0.5, share
    assert share[TELLING] > 3 * np.delete(share, TELLING).max(), share


def test_it_is_the_derivative_by_the_log_of_the_gain(trained: TrialTransformer) -> None:
    X, y = loud_or_quiet(4, seed=2)
    asked, step = 1 - y, 1e-5
    module = copy.deepcopy(trained).double()
    found = channel_saliency(module, X, asked)
    for channel in range(CHANNELS):
        margins = []
        for sign in (1, -1):
            louder = X.copy()
            louder[:, channel] *= np.exp(sign * step)
            with torch.no_grad():
                scores = module(torch.from_numpy(louder)).numpy()
            margins.append(scores[np.arange(4), asked] - scores.mean(1))
        expected = np.abs(margins[0] - margins[1]) / (2 * step)
        np.testing.assert_allclose(found[:, channel], expected, rtol=1e-6)


def test_trials_and_their_covariances_agree(trained: TrialTransformer) -> None:
    X, _ = loud_or_quiet(10, seed=3)
    network = copy.deepcopy(trained.network).double()
    raw = TrialTransformer(
        CHANNELS, 2, SAMPLES, SFREQ, bands=[(4, 20), (20, 40)], regularisation=0, network=network
    )
    matrices = TrialTransformer(CHANNELS, n_tokens=2, network=network)
    C = raw.covariances(torch.from_numpy(X))
    np.testing.assert_allclose(
        channel_saliency(raw, X), channel_saliency(matrices, C), rtol=1e-6, atol=1e-9
    )


def test_offsets_batches_and_default_classes_do_not_matter(trained: TrialTransformer) -> None:
    X, _ = loud_or_quiet(10, seed=4)
    module = copy.deepcopy(trained).double()
    predicted = module(torch.from_numpy(X)).argmax(-1)
    whole = channel_saliency(module, X)
    np.testing.assert_allclose(channel_saliency(module, X, predicted, batch_size=3), whole, 1e-9)
    offset = 1e3 * np.arange(CHANNELS)[None, :, None]
    np.testing.assert_allclose(channel_saliency(module, X + offset), whole, 1e-6)


def test_modes_and_gradients_are_left_as_they_were(trained: TrialTransformer) -> None:
    X, _ = loud_or_quiet(4)
    trained.train()
    trained.network.bn_embed.eval()  # frozen
    trained.zero_grad(set_to_none=True)
    means = trained.network.bn_embed.running_mean.clone()
    with torch.no_grad():
        first, second = (channel_saliency(trained, X) for _ in range(2))
    np.testing.assert_array_equal(first, second)  # no dropout
    assert trained.network.blocks[0].training
    assert not trained.network.bn_embed.training
    assert all(p.grad is None for p in trained.parameters())
    torch.testing.assert_close(trained.network.bn_embed.running_mean, means)
    trained.eval()


@pytest.mark.parametrize(
    ("y", "message"), [([0, 1], "4 trials but labels"), ([0, 1, 2, 0], "from 0 to 1, got 0 to 2")]
)
def test_labels_that_do_not_fit(trained: TrialTransformer, y: list[int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        channel_saliency(trained, loud_or_quiet(4)[0], y)
