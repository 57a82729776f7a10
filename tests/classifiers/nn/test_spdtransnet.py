from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from spdtokens.classifiers.nn.spdtransnet import SPDTransNet
from spdtokens.errors import ModelError
from spdtokens.geometry import logm, unvech, vech
from tests.matrices import generator, random_spd, relative_error

TINY = {"d_model": 6, "n_layers": 2, "n_heads": 2, "d_ff": 9, "d_hidden": 5}


def drawn(net: SPDTransNet) -> SPDTransNet:
    """In eval mode and double precision, all parameters at random."""
    rng = generator(5)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=rng) / p.shape[-1] ** 0.5)
    return net.double().eval()


def linear(p: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def layer_norm(p: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]


def numpy_attention(p: dict[str, np.ndarray], name: str, x: np.ndarray, n_heads: int) -> np.ndarray:
    """Attention over the tokens (tokens, d_model) of one trial, entry by entry."""
    tokens, d_model = x.shape
    width = d_model // n_heads
    Q, K = linear(p, f"{name}query", x), linear(p, f"{name}key", x)
    merged = np.zeros((tokens, tokens))
    for h in range(n_heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(tokens):
            scores = np.array([Q[i, part] @ K[j, part] for j in range(tokens)]) / np.sqrt(width)
            merged[i] += p[f"{name}merge.weight"][0, h] * np.exp(scores) / np.exp(scores).sum()
    return merged @ x


def in_numpy(net: SPDTransNet, covariances: np.ndarray) -> np.ndarray:
    """Scores of one trial's whitened covariances (tokens, d, d), in eval mode."""
    p = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    d = covariances.shape[-1]
    logs = [scipy.linalg.logm(C) for C in covariances]
    x = np.array([[log[i, j] for i in range(d) for j in range(i, d)] for log in logs])
    x = linear(p, "project", x)
    for layer, block in enumerate(net.blocks):
        b = f"blocks.{layer}."
        attended = numpy_attention(p, f"{b}attention.", x, block.attention.n_heads)
        x = layer_norm(p, f"{b}norm1", x + attended)
        hidden = np.maximum(linear(p, f"{b}expand", x), 0)
        x = layer_norm(p, f"{b}norm2", x + linear(p, f"{b}contract", hidden))
    return linear(p, "head", np.maximum(linear(p, "hidden", x.reshape(-1)), 0))


@pytest.mark.parametrize(("n_tokens", "n_heads"), [(3, 2), (1, 3), (4, 1)])
def test_forward_equals_the_equations(n_tokens, n_heads) -> None:
    net = drawn(SPDTransNet(10, n_tokens, 3, **TINY | {"n_heads": n_heads}))
    C = random_spd(5, n_tokens, 4)
    expected = np.array([in_numpy(net, trial) for trial in C.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(net(vech(logm(C))).numpy(), expected, rtol=0, atol=1e-10)


def test_attention_combines_whole_matrices() -> None:
    attention = SPDTransNet(6, 3, 2, **TINY).double().eval().blocks[0].attention
    S = logm(random_spd(2, 3, 3))
    with torch.no_grad():
        expected = torch.einsum("nij,njab->niab", attention.weights(vech(S)), S)
        assert relative_error(unvech(attention(vech(S))), expected) < 1e-12


def test_heads_begin_as_their_mean() -> None:
    net = SPDTransNet(10, 3, 2).eval()
    weights = net.blocks[0].attention.weights(torch.randn(2, 3, 120, generator=generator(0)))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))


def test_gradients_are_exact() -> None:
    net = drawn(SPDTransNet(6, 2, 2, **TINY))
    names, weights = zip(*net.named_parameters(), strict=True)

    def scores(C, *weights):
        parts = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(net, parts, (vech(logm(0.5 * (C + C.mT))),))

    C = random_spd(2, 2, 3).requires_grad_()
    inputs = (C, *(w.detach().clone().requires_grad_() for w in weights))
    assert torch.autograd.gradcheck(scores, inputs, fast_mode=True)


def test_gradients_are_finite_at_the_mean() -> None:
    net = SPDTransNet(10, 2, 2, **TINY)
    C = torch.eye(4).expand(3, 2, 4, 4).clone().requires_grad_()
    net(vech(logm(C))).square().sum().backward()
    grads = [C.grad, *(p.grad for p in net.parameters())]
    assert all(g is not None and bool(torch.isfinite(g).all()) for g in grads)


@pytest.mark.parametrize(("n_features", "d_model"), [(11, 120), (10, 128)])
def test_sizes_that_are_no_triangle_are_refused(n_features: int, d_model: int) -> None:
    with pytest.raises(ModelError, match="n_features" if n_features == 11 else "d_model"):
        SPDTransNet(n_features, 2, 2, d_model=d_model)
