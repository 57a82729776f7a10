"""The folded network against the one it was folded from."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from spdtokens.bench.timing import thread_count
from spdtokens.classifiers.nn import SMALL, SPDTokenTransformer, TransformerConfig, folded
from spdtokens.runtime import DecoderError

FEATURES, CLASSES = 15, 3
TINY = {"d_model": 24, "n_layers": 3, "n_heads": 4, "d_ff": 40}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products: on a busy machine two threads wait for each other and are slower."""
    with thread_count(1):
        yield


def used_model(
    tokens: int, config: TransformerConfig | None = None, features: int = FEATURES
) -> SPDTokenTransformer:
    """A network no parameter of which is at its start value, with running statistics."""
    rng = torch.Generator().manual_seed(tokens)
    config = config or TransformerConfig(**TINY)
    model = SPDTokenTransformer(features, tokens, CLASSES, config, generator=rng)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=rng)
        bias = torch.zeros(50, tokens, tokens)
        for _ in range(4):
            model(1 + 3 * torch.randn(50, tokens, features, generator=rng), bias)
    return model


def some_tokens(n: int, tokens: int, features: int = FEATURES) -> torch.Tensor:
    rng = torch.Generator().manual_seed(7)
    return 1 + 3 * torch.randn(n, tokens, features, generator=rng, dtype=torch.float64)


def some_bias(n: int, tokens: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(8)
    return -torch.rand(n, tokens, tokens, generator=rng, dtype=torch.float64)


@torch.no_grad()
def expected(model: SPDTokenTransformer, *inputs: torch.Tensor) -> np.ndarray:
    return model.double().eval()(*inputs).numpy()


@pytest.mark.parametrize("bn_embed", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 3, 9])
@pytest.mark.parametrize("n", [1, 5])
def test_folding_is_exact(n: int, tokens: int, bn_embed: bool) -> None:
    model = used_model(tokens, TransformerConfig(**TINY, bn_embed=bn_embed))
    network = folded(model, np.float64)
    x = some_tokens(n, tokens)
    np.testing.assert_allclose(network.scores(x.numpy()), expected(model, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("config", [SMALL, TransformerConfig()])
def test_float32(tokens: int, config: TransformerConfig) -> None:
    model = used_model(tokens, config, features=253)
    network = folded(model)
    x = some_tokens(4, tokens, 253)
    wanted = torch.from_numpy(expected(model, x)).softmax(-1).numpy()
    for given in (x.numpy(), x.float().numpy()):
        found = network.probabilities(given)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    alone = network.probabilities(x[:1].numpy())
    np.testing.assert_allclose(alone, wanted[:1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("tokens", [3, 8])
def test_geometric_attention(n: int, tokens: int) -> None:
    model = used_model(tokens, TransformerConfig(**TINY, attention="geometric"))
    network = folded(model, np.float64)
    x, bias = some_tokens(n, tokens), 3 * some_bias(n, tokens)
    found = network.scores(x.numpy(), bias.numpy())
    np.testing.assert_allclose(found, expected(model, x, bias), rtol=0, atol=1e-12)
    assert np.abs(found - network.scores(x.numpy(), 0 * bias.numpy())).max() > 1e-3
    with pytest.raises(DecoderError, match="pass bias=geometric_bias"):
        network.scores(x.numpy())


def test_geometric_attention_over_one_token_needs_no_bias() -> None:
    model = used_model(1, TransformerConfig(**TINY, attention="geometric"))
    x = some_tokens(2, 1)
    found = folded(model, np.float64).scores(x.numpy())
    np.testing.assert_allclose(found, expected(model, x), rtol=0, atol=1e-12)


def test_a_model_in_training_is_folded_as_in_eval_mode() -> None:
    model = used_model(1, TransformerConfig(**TINY, dropout=0.5))
    assert model.training
    network = folded(model, np.float64)
    assert model.training
    x = some_tokens(2, 1)
    np.testing.assert_allclose(network.scores(x.numpy()), expected(model, x), rtol=0, atol=1e-12)


def test_later_training_does_not_change_it() -> None:
    model = used_model(1).double()
    network = folded(model, np.float64)
    x = some_tokens(1, 1).numpy()
    before = network.scores(x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(network.scores(x), before)


def test_many_trials_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = used_model(3)
    network = folded(model, np.float64)
    x, bias = some_tokens(7, 3), some_bias(7, 3)
    monkeypatch.setattr("spdtokens.runtime.networks._COLUMNS", 8)  # two trials of three tokens
    found = network.scores(x.numpy(), bias.numpy())
    np.testing.assert_allclose(found, expected(model, x, bias), rtol=0, atol=1e-12)
    assert network.scores(x[:0].numpy()).shape == (0, CLASSES)


def test_a_deep_network_does_not_overflow() -> None:
    """Gains of 30 at each of 48 layer norms: 30 ** 48 is far beyond float32."""
    model = used_model(1, TransformerConfig(**TINY | {"n_layers": 24}))
    with torch.no_grad():
        for block in model.blocks:
            block.norm1.weight += 30
            block.norm2.weight += 30
    network = folded(model)
    x = some_tokens(1, 1)
    wanted = expected(model, x)
    np.testing.assert_allclose(network.scores(x.numpy()), wanted, rtol=1e-3)
    # The guard is what does it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spdtokens.runtime.networks._LARGE", np.inf)
        patch.setattr("spdtokens.runtime.networks._SMALL", -np.inf)
        with pytest.raises(RuntimeWarning, match="overflow"):
            network.scores(x.numpy())


def test_threads_do_not_disturb_each_other() -> None:
    for tokens in (1, 3):
        network = folded(used_model(tokens))
        x = some_tokens(40, tokens).float().numpy()
        alone = [network.probabilities(trial[None]) for trial in x]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(network.probabilities, np.tile(x, (10, 1, 1))[:, None]))
        np.testing.assert_array_equal(together, np.tile(alone, (10, 1, 1)))


@pytest.mark.parametrize("shape", [(2, 3, FEATURES), (2, 1, FEATURES + 1), (1, FEATURES)])
def test_wrong_tokens_are_refused(shape: tuple[int, ...]) -> None:
    network = folded(used_model(1))
    with pytest.raises(DecoderError, match=r"Expected tokens of shape \(n, 1, 15\)"):
        network.scores(np.zeros(shape))


def test_a_wrong_bias_is_refused() -> None:
    network = folded(used_model(3))
    with pytest.raises(DecoderError, match=r"Expected a bias of shape \(2, 3, 3\)"):
        network.scores(np.zeros((2, 3, FEATURES)), np.zeros((1, 3, 3)))
