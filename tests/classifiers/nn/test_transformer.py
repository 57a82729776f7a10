from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry.distance import distance_wasserstein

from spdtokens.bench.timing import thread_count
from spdtokens.classifiers.nn import (
    SMALL,
    STANDARD,
    SPDTokenMLP,
    SPDTokenTransformer,
    TransformerConfig,
    folded,
    geometric_bias,
    matching_width,
)
from spdtokens.errors import ModelError
from spdtokens.geometry import token_dim
from spdtokens.runtime import DecoderError
from tests.classifiers.nn.obvious import Obvious

TINY = TransformerConfig(d_model=16, n_layers=2, n_heads=4, d_ff=32)
FEATURES, CLASSES = 15, 3


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products: on a busy machine two threads wait for each other and are slower."""
    with thread_count(1):
        yield


def used_model(
    tokens: int, config: TransformerConfig = TINY, features: int = FEATURES
) -> SPDTokenTransformer:
    """A network in training mode, no weight at its start value, with running statistics."""
    rng = torch.Generator().manual_seed(tokens)
    model = SPDTokenTransformer(features, tokens, CLASSES, config, generator=rng)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=rng)
        for _ in range(4):
            x = 1 + 3 * torch.randn(50, tokens, features, generator=rng)
            model(x, torch.zeros(50, tokens, tokens))
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


@pytest.mark.parametrize(
    ("channels", "classes", "config", "stated"),
    [
        (22, 4, STANDARD, 827_908),  # BCI2a
        (56, 2, STANDARD, 999_554),  # BCIcha
        (8, 5, SMALL, 136_581),  # MAMEM
    ],
)
def test_parameter_counts_of_the_paper(channels, classes, config, stated) -> None:
    model = SPDTokenTransformer(token_dim(channels), 1, classes, config)
    total = sum(p.numel() for p in model.parameters())
    positions, bn_affine = config.d_model, 2 * config.d_model
    assert total == stated + positions + bn_affine


def test_dead_parameters_with_one_token() -> None:
    model = SPDTokenTransformer(token_dim(22), 1, 4)
    model(torch.randn(8, 1, 253)).sum().backward()
    dead = sum(
        p.numel() for p in model.parameters() if p.grad is None or not p.grad.abs().sum() > 0
    )
    assert dead >= 198_144  # queries and keys of six layers


@pytest.mark.parametrize("tokens", [1, 2, 3, 9])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("config", "changes"),
    [(STANDARD, {}), (SMALL, {}), (TINY, {"bn_embed": False}), (TINY, {"attention": "geometric"})],
    ids=["standard", "small", "without BN-Embed", "geometric"],
)
def test_forward_and_weights_equal_torchs(
    tokens: int, training: bool, config: TransformerConfig, changes: dict
) -> None:
    config = replace(config, dropout=0.0, **changes)
    model = used_model(tokens, config).double()
    x, bias = some_tokens(20, tokens), some_bias(20, tokens)
    weights = model.eval().attention_weights(x, bias)
    obvious = Obvious(model).double().train(training)
    found = model.train(training)(x, bias)
    torch.testing.assert_close(found, obvious(x, bias))
    assert weights.shape == (20, config.n_layers, config.n_heads, tokens, tokens)
    layer, inputs = obvious.eval().encoder.layers[0].self_attn, model.eval().embed(x)
    mask = bias.repeat_interleave(config.n_heads, 0)
    _, theirs = layer(inputs, inputs, inputs, attn_mask=mask, average_attn_weights=False)
    if not training:
        torch.testing.assert_close(weights[:, 0], theirs)
    if tokens > 1:
        assert not torch.allclose(found, model(x, 0 * bias))
    if tokens > 1 and config.attention == "geometric":
        with pytest.raises(ModelError, match="geometric_bias"):
            model(x)


@given(seed=st.integers(0, 2**31))
def test_generator_decides_the_weights(seed: int) -> None:
    one, two = (
        SPDTokenTransformer(6, 2, 2, TINY, generator=torch.Generator().manual_seed(seed))
        for _ in range(2)
    )
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    one.reset_parameters(torch.Generator().manual_seed(seed + 1))
    assert not torch.equal(one.project.weight, two.project.weight)


def test_initial_weights_have_torchs_spread() -> None:
    model = SPDTokenTransformer(50, 1, 4, generator=torch.Generator().manual_seed(0))
    layer = torch.nn.TransformerEncoderLayer(128, 8, 256, batch_first=True)
    block = model.blocks[3]
    d = 128
    for ours, theirs in [
        (block.attention.query_key.weight, layer.self_attn.in_proj_weight[: 2 * d]),
        (block.attention.value.weight, layer.self_attn.in_proj_weight[2 * d :]),
        (block.attention.out.weight, layer.self_attn.out_proj.weight),
        (block.expand.weight, layer.linear1.weight),
        (block.contract.bias, layer.linear2.bias),
    ]:
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.2)
    assert not torch.equal(model.blocks[0].expand.weight, model.blocks[1].expand.weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_heads": 3}, "n_heads=3"),
        ({"d_model": 0}, "d_model"),
        ({"n_layers": 1.5}, "n_layers"),
        ({"dropout": 1.0}, "dropout"),
        ({"attention": "cosine"}, "attention"),
    ],
)
def test_bad_configurations_are_refused(change, message) -> None:
    with pytest.raises(ModelError, match=message):
        TransformerConfig(**{**vars(STANDARD), **change})


def test_bad_input_is_refused() -> None:
    model = SPDTokenTransformer(10, 2, 2, TINY)
    with pytest.raises(ModelError, match=r"\(n, 2, 10\).*\(4, 3, 10\)"):
        model(torch.randn(4, 3, 10))
    with pytest.raises(ModelError, match="n_classes"):
        SPDTokenTransformer(10, 2, 1, TINY)
    with pytest.raises(ModelError, match="n_features"):
        SPDTokenTransformer(0, 2, 2, TINY)


def test_fields_of_the_config_are_keywords() -> None:
    network = SPDTokenTransformer(253, 3, 4, n_layers=2, d_model=32)
    assert network.config == replace(STANDARD, n_layers=2, d_model=32)
    assert len(network.blocks) == 2
    with pytest.raises(ModelError, match="n_heads=5"):
        SPDTokenTransformer(253, 3, 4, n_heads=5)
    with pytest.raises(TypeError, match="n_layer"):
        SPDTokenTransformer(253, 3, 4, n_layer=2)


@pytest.mark.parametrize(("features", "tokens", "classes"), [(253, 1, 4), (1596, 1, 2), (36, 6, 5)])
def test_matching_width_matches(features, tokens, classes) -> None:
    wanted = sum(p.numel() for p in SPDTokenTransformer(features, tokens, classes).parameters())
    width = matching_width(features * tokens, classes, wanted)
    mlp = SPDTokenMLP(features, tokens, classes, width=width)
    assert sum(p.numel() for p in mlp.parameters()) == pytest.approx(wanted, rel=0.01)
    shallow = SPDTokenMLP(
        features,
        tokens,
        classes,
        n_layers=1,
        width=matching_width(features * tokens, classes, 5000, 1),
    )
    assert sum(p.numel() for p in shallow.parameters()) < 7000


def test_forward_equals_a_plain_stack() -> None:
    mlp = SPDTokenMLP(5, 2, 3, width=7, n_layers=2).eval()
    plain = torch.nn.Sequential(
        torch.nn.Flatten(),
        mlp.hidden[0],
        mlp.norms[0],
        torch.nn.ReLU(),
        mlp.hidden[1],
        mlp.norms[1],
        torch.nn.ReLU(),
        mlp.head,
    ).eval()
    X = torch.randn(4, 2, 5)
    torch.testing.assert_close(mlp(X), plain(X))


def matrices(n: int, tokens: int, d: int) -> torch.Tensor:
    X = torch.randn(
        n, tokens, d, 3 * d, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    return X @ X.mT


@pytest.mark.parametrize("d", [2, 8, 22])
def test_bias_against_pyriemann(d: int) -> None:
    C = matrices(5, 3, d)
    bias = geometric_bias(C, alpha=0.7)
    for trial in range(5):
        size = C[trial].diagonal(dim1=-2, dim2=-1).sum(-1).mean().sqrt().item()
        for i, j in [(0, 1), (0, 2), (1, 2)]:
            distance = distance_wasserstein(C[trial, i].numpy(), C[trial, j].numpy())
            assert bias[trial, i, j].item() == pytest.approx(-0.7 * distance / size, rel=1e-5)
            assert bias[trial, i, j] == bias[trial, j, i]
    assert torch.equal(bias.diagonal(dim1=1, dim2=2), torch.zeros(5, 3))

    torch.testing.assert_close(geometric_bias(1e-12 * C, alpha=0.7), bias)


# The folded network against the one it was folded from, in training mode.


@pytest.mark.parametrize("changes", [{}, {"bn_embed": False}, {"attention": "geometric"}])
@pytest.mark.parametrize("tokens", [1, 2, 3, 9])
@pytest.mark.parametrize("n", [1, 5])
def test_folding_is_exact(n: int, tokens: int, changes: dict) -> None:
    model = used_model(tokens, replace(TINY, **changes))
    network = folded(model, np.float64)
    assert model.training
    inputs = (some_tokens(n, tokens),)
    if tokens > 1 and changes == {"attention": "geometric"}:
        with pytest.raises(DecoderError, match="geometric_bias"):
            network.scores(inputs[0].numpy())
        inputs += (3 * some_bias(n, tokens),)
    found = network.scores(*(x.numpy() for x in inputs))
    np.testing.assert_allclose(found, expected(model, *inputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("config", [SMALL, TransformerConfig()])
def test_float32(tokens: int, config: TransformerConfig) -> None:
    model = used_model(tokens, config, features=253)
    network = folded(model)
    x = some_tokens(4, tokens, 253)
    wanted = torch.from_numpy(expected(model, x)).softmax(-1).numpy()
    for taken in (x.numpy(), x.float().numpy()):
        found = network.probabilities(taken)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    alone = network.probabilities(x[:1].numpy())
    np.testing.assert_allclose(alone, wanted[:1], rtol=0, atol=1e-5)


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
    model = used_model(1, replace(TINY, n_layers=24))
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
    with pytest.raises(DecoderError, match=r"\(n, 1, 15\)"):
        folded(used_model(1)).scores(np.zeros(shape))


def test_a_wrong_bias_is_refused() -> None:
    network = folded(used_model(3))
    with pytest.raises(DecoderError, match=r"\(2, 3, 3\)"):
        network.scores(np.zeros((2, 3, FEATURES)), np.zeros((1, 3, 3)))
