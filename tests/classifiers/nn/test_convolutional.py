"""What every network on raw EEG does, at the shape of every data set."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F

from spdtokens._extras import how_to_install, is_installed
from spdtokens.classifiers.nn.convolutional import (
    ATCNet,
    DeepNet,
    EEGConformer,
    EEGNet,
    RawNet,
    RawTransformer,
    ShallowNet,
)
from spdtokens.classifiers.nn.spdnet import TSMNet
from spdtokens.errors import ModelError

# Channels, classes, samples, Hz; then the parameters, of which those of the first five networks
# are braindecode's wherever tests/classifiers/nn/test_braindecode.py compares them.
SHAPES = [
    (22, 4, 438, 125),
    (56, 2, 160, 128),
    (8, 5, 125, 125),
    (17, 2, 128, 128),
    (8, 4, 1152, 256),
    (64, 2, 560, 160),
]
PARAMETERS: dict[type[RawNet], list[int]] = {
    EEGNet: [2292, 2162, 1557, 1506, 3540, 2674],
    ShallowNet: [40004, 91122, 14325, 28482, 25284, 106002],
    DeepNet: [278079, 298927, 274530, 276952, 275729, 304327],
    ATCNet: [113732, 114490, 113449, 113242, 113284, 114746],
    EEGConformer: [400452, 270466, 163045, 177346, 869572, 549506],
    RawTransformer: [865668, 982658, 822149, 850562, 849924, 1051778],
    # By hand: 4 (25 + 1) + 40 (4 channels + 1) + 40 x 20 + 1 + classes (210 + 1).
    TSMNet: [5309, 10327, 3280, 4087, 3069, 11607],
}
missing = pytest.mark.skipif(
    not is_installed("baselines"), reason=f"needs {how_to_install('baselines')}"
)
NETWORKS = [pytest.param(n, marks=missing) if n is TSMNet else n for n in PARAMETERS]
# The shortest trials at 125 Hz: each network's own arithmetic, worked out by hand.
SHORTEST: dict[type[RawNet], int] = {
    EEGNet: 27,
    ShallowNet: 99,
    DeepNet: 37,
    ATCNet: 48,
    EEGConformer: 99,
    RawTransformer: 25,
    TSMNet: 13,
}

every_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.__name__)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[2]}")


def trials(shape: tuple[int, int, int, int], n: int = 3) -> torch.Tensor:
    return torch.randn(n, shape[0], shape[2], generator=torch.Generator().manual_seed(1))


@every_network
@every_shape
def test_contract(network: type[RawNet], shape: tuple[int, int, int, int]) -> None:
    torch.manual_seed(0)
    net = network(*shape)
    X = trials(shape)
    logits = net(X)
    assert logits.shape == (3, shape[1])
    assert logits.dtype == torch.float32
    F.cross_entropy(logits, torch.arange(3) % shape[1]).backward()
    for name, parameter in net.named_parameters():
        if not parameter.requires_grad:  # a batch norm behind it takes it out
            assert name == "transformer.project.bias"
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    net.eval()
    with torch.no_grad():
        expected = net(X)
        assert expected.isfinite().all()
        # Rows do not see each other, and the order of the sums may differ between batch sizes.
        torch.testing.assert_close(net(X[:1]), expected[:1], atol=1e-5, rtol=1e-4)
        for twin in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            torch.testing.assert_close(twin(X), expected, atol=0, rtol=0)


@every_network
def test_parameter_counts(network: type[RawNet]) -> None:
    counts = [sum(p.numel() for p in network(*shape).parameters()) for shape in SHAPES]
    assert counts == PARAMETERS[network]


@every_network
def test_the_same_seed_gives_the_same_network(network: type[RawNet]) -> None:
    nets = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        nets.append(network(*SHAPES[2]).eval())
    a, b, c = (net(trials(SHAPES[2])) for net in nets)
    torch.testing.assert_close(a, b, atol=0, rtol=0)
    assert not torch.allclose(a, c)


@every_network
def test_the_shortest_trial_works_and_a_shorter_one_is_refused(network: type[RawNet]) -> None:
    shortest = SHORTEST[network]
    assert network(5, 2, shortest, 125)(torch.randn(2, 5, shortest)).shape == (2, 2)
    with pytest.raises(ModelError, match=f"at least n_times={shortest} samples"):
        network(5, 2, shortest - 1, 125)


@every_network
def test_bad_input_is_refused(network: type[RawNet]) -> None:
    with pytest.raises(ModelError, match="n_chans"):
        network(0, 2, 250, 125)
    with pytest.raises(ModelError, match="n_outputs"):
        network(5, 1, 250, 125)
    with pytest.raises(ModelError, match="sfreq"):
        network(5, 2, 250, 0)
    net = network(5, 2, 250, 125)
    for shape in [(5, 250), (3, 6, 250), (3, 5, 249), (3, 1, 5, 250)]:
        with pytest.raises(ModelError, match=r"Expected trials of shape \(n, 5, 250\)"):
            net(torch.zeros(shape))


@every_network
def test_learns_an_oscillation(network: type[RawNet]) -> None:
    """Noise, and in half of the trials 10 Hz of random phase on one of four channels."""
    torch.manual_seed(0)
    n, sfreq, n_times = 48, 125, 150
    y = torch.arange(n) % 2
    phase = 2 * torch.pi * torch.rand(n, 1)
    X = torch.randn(n, 4, n_times)
    X[:, 2] += 2 * y[:, None] * torch.sin(20 * torch.pi * torch.arange(n_times) / sfreq + phase)
    net = network(4, 2, n_times, sfreq)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4 if network is RawTransformer else 3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (net.eval()(X).argmax(1) == y).float().mean()
    assert accuracy > 0.85
