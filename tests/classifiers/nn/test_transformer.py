from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.classifiers.nn import SMALL, STANDARD, SPDTokenTransformer, TransformerConfig
from spdtokens.errors import ModelError
from spdtokens.geometry import token_dim
from tests.classifiers.nn.obvious import Obvious

TINY = TransformerConfig(d_model=16, n_layers=2, n_heads=4, d_ff=32)


def lived_in(model: SPDTokenTransformer, seed: int = 0) -> SPDTokenTransformer:
    """A model whose running moments, norms and positions are not those of a fresh one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    model.train()
    for _ in range(3):
        n = (32, model.n_tokens, model.n_features)
        bias = torch.zeros(32, model.n_tokens, model.n_tokens)
        model(3 + 2 * torch.randn(n, generator=generator), bias)
    return model.eval()


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


@pytest.mark.parametrize("n_tokens", [1, 2, 3, 9])
@pytest.mark.parametrize("config", [STANDARD, SMALL, TINY], ids=["standard", "small", "tiny"])
@pytest.mark.parametrize("training", [False, True])
def test_forward_equals_torchs_encoder(n_tokens, config, training) -> None:
    config = TransformerConfig(**{**vars(config), "dropout": 0.0})
    model = lived_in(SPDTokenTransformer(36, n_tokens, 3, config)).train(training)
    obvious = Obvious(model).train(training)
    tokens = torch.randn(20, n_tokens, 36)
    torch.testing.assert_close(model(tokens), obvious(tokens), atol=1e-5, rtol=1e-5)


def test_bias_is_added_to_the_scores() -> None:
    config = TransformerConfig(**{**vars(TINY), "attention": "geometric"})
    model = lived_in(SPDTokenTransformer(10, 3, 2, config))
    tokens, bias = torch.randn(5, 3, 10), -torch.rand(5, 3, 3)
    torch.testing.assert_close(model(tokens, bias), Obvious(model).eval()(tokens, bias))
    assert not torch.allclose(model(tokens, bias), model(tokens, torch.zeros(5, 3, 3)))
    with pytest.raises(ModelError, match="geometric_bias"):
        model(tokens)


def test_without_bn_embed() -> None:
    config = TransformerConfig(**{**vars(TINY), "bn_embed": False, "dropout": 0.0})
    model = SPDTokenTransformer(10, 2, 2, config)
    tokens = torch.randn(5, 2, 10)
    torch.testing.assert_close(model(tokens), Obvious(model).eval()(tokens))


def test_short_path_equals_full_path() -> None:
    model = lived_in(SPDTokenTransformer(10, 1, 3, TINY))
    attention = model.blocks[0].attention
    x = torch.randn(7, 1, 16)
    weights = attention.weights(x)  # the full path: queries, keys, softmax
    torch.testing.assert_close(weights, torch.ones(7, 4, 1, 1))
    value = attention.value(x).view(7, 1, 4, 4).transpose(1, 2)
    full = attention.out((weights @ value).transpose(1, 2).reshape(7, 1, 16))
    torch.testing.assert_close(attention(x), full)


def test_attention_weights_are_those_of_torch() -> None:
    model = lived_in(SPDTokenTransformer(10, 3, 2, TINY))
    tokens = torch.randn(5, 3, 10)
    weights = model.attention_weights(tokens)
    assert weights.shape == (5, 2, 4, 3, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(5, 2, 4, 3))
    layer = Obvious(model).eval().encoder.layers[0].self_attn
    x = model.embed(tokens)
    _, theirs = layer(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(weights[:, 0], theirs)


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
        ({"n_heads": 3}, "n_heads=3 does not divide d_model=128.* Heads that fit: 1, 2, 4"),
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
    with pytest.raises(
        ModelError, match=r"Expected tokens of shape \(n, 2, 10\), got \(4, 3, 10\)"
    ):
        model(torch.randn(4, 3, 10))
    with pytest.raises(ModelError, match="n_classes"):
        SPDTokenTransformer(10, 2, 1, TINY)
    with pytest.raises(ModelError, match="n_features"):
        SPDTokenTransformer(0, 2, 2, TINY)
    single = SPDTokenTransformer(10, 1, 2, TINY)
    with pytest.raises(ModelError, match="batch of one trial with one token has no variance"):
        single(torch.randn(1, 1, 10))
    assert single.eval()(torch.randn(1, 1, 10)).shape == (1, 2)


def test_fields_of_the_config_are_keywords() -> None:
    network = SPDTokenTransformer(253, 3, 4, n_layers=2, d_model=32)
    assert network.config == replace(STANDARD, n_layers=2, d_model=32)
    assert len(network.blocks) == 2
    with pytest.raises(ModelError, match="n_heads=5"):
        SPDTokenTransformer(253, 3, 4, n_heads=5)
    with pytest.raises(TypeError, match="n_layer"):
        SPDTokenTransformer(253, 3, 4, n_layer=2)
