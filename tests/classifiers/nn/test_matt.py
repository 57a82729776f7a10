from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.linalg
import torch

from spdtokens.classifiers.nn.matt import ManifoldAttention, MAtt, MAttConfig
from tests.matrices import F64, generator, random_spd

TINY = MAttConfig(n_spatial=4, n_temporal=5, kernel=6, n_mapped=3, n_tokens=3)


def two_classes(n: int = 60, d: int = 4, samples: int = 90) -> tuple[torch.Tensor, torch.Tensor]:
    """White signals of which the first or the second channel is the stronger one."""
    y = torch.arange(n) % 2
    X = torch.randn(n, d, samples, generator=generator(3))
    X[torch.arange(n), y] *= 2.5
    return X, y


def build(config: MAttConfig, n_chans: int, n_times: int, seed: int = 1) -> MAtt:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MAtt(n_chans, 2, n_times, 100.0, config)


def in_numpy(net: MAtt, trial: np.ndarray) -> np.ndarray:
    """Scores of one trial (channels, samples), straight from the equations, in eval mode."""
    p = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    config = net.config

    def batch_norm(x: np.ndarray, name: str) -> np.ndarray:
        x = x - p[f"{name}.running_mean"][:, None]
        x = x / np.sqrt(p[f"{name}.running_var"][:, None] + 1e-5)
        return p[f"{name}.weight"][:, None] * x + p[f"{name}.bias"][:, None]

    x = trial / p["unit.value"]
    x = batch_norm(p["spatial.weight"][..., 0] @ x + p["spatial.bias"][:, None], "norm1")
    k, length = config.kernel, x.shape[1]
    left = (k - 1) // 2
    padded = np.zeros((len(x), length + k - 1))
    padded[:, left : left + length] = x
    y = np.empty((config.n_temporal, length))
    for f in range(config.n_temporal):
        for t in range(length):
            y[f, t] = (p["temporal.weight"][f] * padded[:, t : t + k]).sum() + p["temporal.bias"][f]
    tokens = []
    for part in np.array_split(batch_norm(y, "norm2"), config.n_tokens, axis=1):
        C = np.cov(part)
        tokens.append(C / np.trace(C) + 1e-5 * np.eye(len(C)))
    out = numpy_attention(
        tokens, *(polar(p[f"attention.{m}.raw"]) for m in ("query", "key", "value"))
    )
    features = []
    for Y in out:
        values, V = np.linalg.eigh(Y)
        log = scipy.linalg.logm((V * np.maximum(values, 1e-4)) @ V.T)
        features += [log[i, j] for i in range(len(log)) for j in range(i, len(log))]
    return p["head.weight"] @ np.array(features) + p["head.bias"]


def polar(A: np.ndarray) -> np.ndarray:
    return scipy.linalg.polar(A)[0]


def numpy_attention(
    tokens: list[np.ndarray], Wq: np.ndarray, Wk: np.ndarray, Wv: np.ndarray
) -> list[np.ndarray]:
    Q, K, V = ([scipy.linalg.logm(W.T @ C @ W) for C in tokens] for W in (Wq, Wk, Wv))
    out = []
    for q in Q:
        scores = [1 / (1 + np.log(1 + np.linalg.norm(q - k) ** 2)) for k in K]
        w = np.exp(scores) / np.exp(scores).sum()
        out.append(scipy.linalg.expm(sum(a * v for a, v in zip(w, V, strict=True))))
    return out


def with_drawn_state(net: MAtt) -> MAtt:
    """In eval mode, with batch norms that do something."""
    rng = generator(5)
    with torch.no_grad():
        for norm in (net.norm1, net.norm2):
            for x in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                x.copy_(torch.rand(x.shape, generator=rng) + 0.5)
    return net.double().eval()


@pytest.mark.parametrize("config", [TINY, MAttConfig(3, 4, 5, 4, 2), MAttConfig(3, 6, 1, 2, 4)])
@pytest.mark.parametrize("unit", [None, 1e-6])
def test_forward_equals_the_equations(config, unit) -> None:
    net = with_drawn_state(build(config, 3, 50))
    X = torch.randn(4, 3, 50, generator=generator(2), dtype=F64)
    if unit:
        X *= unit
        net.unit.calibrate(X)
    expected = np.array([in_numpy(net, trial) for trial in X.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(net(X).numpy(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_one_convolution_equals_its_layers_one_by_one(mode) -> None:
    net = build(TINY, 4, 60).double()
    X = torch.randn(10, 4, 60, generator=generator(2), dtype=F64) * 3 + 1
    net.norm1.weight.data.uniform_(0.5, 2, generator=generator(3))
    net.norm1.bias.data.normal_(generator=generator(4))
    net.train()
    net._filtered(X)  # so that eval mode has statistics of its own
    layers = copy.deepcopy(net)
    getattr(net, mode)(), getattr(layers, mode)()
    padded = torch.nn.functional.pad(layers.norm1(layers.spatial(X)), (2, 3))
    torch.testing.assert_close(net._filtered(X), layers.temporal(padded))
    for name, value in layers.norm1.state_dict().items():
        torch.testing.assert_close(net.norm1.state_dict()[name], value)


def test_forward_equals_the_equations_where_eigenvalues_are_rectified() -> None:
    config = MAttConfig(n_spatial=6, n_temporal=6, kernel=4, n_mapped=6, n_tokens=2)
    net = with_drawn_state(build(config, 2, 40))
    X = torch.randn(3, 2, 40, generator=generator(2), dtype=F64)
    with torch.no_grad():
        net.temporal.weight[1] = net.temporal.weight[0]  # a covariance of lower rank
        smallest = torch.linalg.eigvalsh(net.attention(net.tokens(X)))[..., 0]
        assert bool((smallest < 0.5e-4).all())
        expected = np.array([in_numpy(net, trial) for trial in X.numpy()])
        np.testing.assert_allclose(net(X).numpy(), expected, rtol=0, atol=1e-7)


def test_attention_equals_its_equation() -> None:
    attention = ManifoldAttention(5, 3).double()
    C = random_spd(2, 4, 5)
    W = [m.weight.detach().numpy() for m in (attention.query, attention.key, attention.value)]
    expected = np.array([numpy_attention(list(tokens), *W) for tokens in C.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(attention(C).numpy(), expected, rtol=0, atol=1e-12)
        weights = attention.weights(C)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, dtype=F64))


def test_gradients_are_exact() -> None:
    net = with_drawn_state(build(TINY, 3, 24))
    X = torch.randn(2, 3, 24, generator=generator(2), dtype=F64, requires_grad=True)
    names, weights = zip(*net.named_parameters(), strict=True)

    def scores(X, *weights):
        return torch.func.functional_call(net, dict(zip(names, weights, strict=True)), (X,))

    inputs = (X, *(w.detach().clone().requires_grad_() for w in weights))
    assert torch.autograd.gradcheck(scores, inputs, fast_mode=True)


def test_gradients_are_finite_where_tokens_and_maps_are_equal() -> None:
    attention = ManifoldAttention(4, 3)
    with torch.no_grad():
        attention.key.raw.copy_(attention.query.raw)
    C = random_spd(2, 1, 4).float().expand(2, 3, 4, 4).clone().requires_grad_()
    torch.testing.assert_close(attention.weights(C), torch.full((2, 3, 3), 1 / 3))
    attention(C).square().sum().backward()
    grads = [C.grad, *(p.grad for p in attention.parameters())]
    assert float(attention.value.raw.grad.abs().max()) > 0
    # Equal tokens attend equally however queries and keys are turned.
    assert float(attention.query.raw.grad.abs().max()) < 1e-5
    assert all(bool(torch.isfinite(g).all()) for g in grads)


def test_the_unit_does_not_matter() -> None:
    X, y = two_classes()
    scores = []
    for unit in (1.0, 1e-6):
        net, trials = build(TINY, 4, 90).double(), unit * X.double()
        net.unit.calibrate(trials)
        optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(5):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(trials), y).backward()
            optimiser.step()
        with torch.no_grad():
            scores.append(net.eval()(trials))
    torch.testing.assert_close(*scores, rtol=1e-6, atol=1e-6)
