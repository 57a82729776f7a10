"""What every network of the comparison does, at the shape of every data set."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens._extras import how_to_install, is_installed
from spdtokens.classifiers.nn.convolutional import RawNet
from spdtokens.classifiers.nn.networks import NETWORKS, TrialShape
from spdtokens.errors import ModelError
from spdtokens.geometry import logm, vech

# Channels, classes, samples, Hz.
SHAPES = [
    (22, 4, 438, 125),
    (56, 2, 160, 128),
    (8, 5, 125, 125),
    (17, 2, 128, 128),
    (8, 4, 1152, 256),
    (64, 2, 560, 160),
]
# The shortest trials at 125 Hz: each network's own arithmetic, worked out by hand.
SHORTEST = {
    "eegnet": 27,
    "eegnet-paper": 28,
    "shallownet": 99,
    "deepnet": 37,
    "atcnet": 48,
    "atcnet-paper": 48,
    "eeg-conformer": 99,
    "raw-transformer": 25,
    "tsmnet": 13,
    "matt": 6,
}
# Learning rate and steps, where they are not 3e-3 and 40.
LEARNT = {
    "raw-transformer": (3e-4, 40),
    "spdnet": (3e-2, 60),
    "spdnet-paper": (3e-2, 60),
    "eegnet-paper": (3e-3, 120),  # until its batch norms, which average slowly, know the moments
}


def installed(names: object) -> list:
    """Names, those without their extra to be skipped."""
    return [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                not is_installed(NETWORKS[name].extra),
                reason=f"needs {how_to_install(NETWORKS[name].extra or '')}",
            ),
        )
        for name in names  # type: ignore[attr-defined]
    ]


every_network = pytest.mark.parametrize("name", installed(NETWORKS))
every_raw_network = pytest.mark.parametrize("name", installed(SHORTEST))
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[2]}")


def build(name: str, shape: tuple[int, int, int, int]) -> nn.Module:
    return NETWORKS[name].build(TrialShape(*shape))


def inputs(name: str, X: Tensor) -> Tensor:
    """What a network takes, of trials."""
    kind = NETWORKS[name].input
    C = (X @ X.mT / X.shape[-1])[:, None]
    return {"raw": X, "covariance": C}[kind] if kind != "tokens" else vech(logm(C)).float()


def trials(shape: tuple[int, int, int, int], n: int = 3) -> Tensor:
    # Longer than they have channels, so that covariances have full rank.
    return torch.randn(n, shape[0], shape[2], generator=torch.Generator().manual_seed(1))


@every_network
@every_shape
def test_contract(name: str, shape: tuple[int, int, int, int]) -> None:
    torch.manual_seed(0)
    net, X = build(name, shape), inputs(name, trials(shape))
    logits = net(X)
    assert logits.shape == (3, shape[1])
    assert logits.dtype == torch.float32
    F.cross_entropy(logits, torch.arange(3) % shape[1]).backward()
    for of, parameter in net.named_parameters():
        if not parameter.requires_grad:  # a batch norm behind it takes it out
            assert of == "transformer.project.bias"
            continue
        assert parameter.grad is not None, of
        assert parameter.grad.isfinite().all(), of
    net.eval()
    with torch.no_grad():
        expected = net(X)
        assert expected.isfinite().all()
        # Rows do not see each other, and the order of the sums may differ between batch sizes.
        torch.testing.assert_close(net(X[:1]), expected[:1], atol=1e-4, rtol=1e-3)
        for twin in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            torch.testing.assert_close(twin(X), expected, atol=0, rtol=0)
        twin.load_state_dict({key: 2 * value for key, value in twin.state_dict().items()})
        torch.testing.assert_close(net(X), expected, atol=0, rtol=0)  # a copy of its own


@every_network
def test_the_same_seed_gives_the_same_network(name: str) -> None:
    X, scores = inputs(name, trials(SHAPES[2])), []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        scores.append(build(name, SHAPES[2])(X))  # in training: dropout too
    assert torch.equal(scores[0], scores[1])
    assert not torch.allclose(scores[0], scores[2])


@every_network
def test_bad_input_is_refused(name: str) -> None:
    with pytest.raises(ModelError):
        build(name, (0, 2, 250, 125))
    with pytest.raises(ModelError, match="n_outputs"):
        build(name, (5, 1, 250, 125))
    net, X = build(name, (5, 2, 250, 125)), inputs(name, trials((5, 2, 250, 125)))
    for wrong in (X[..., :-1], X[:, None, None], torch.cat([X, X], 1), X.flatten(1)):
        with pytest.raises(ModelError, match="Expected"):
            net(wrong)


@every_raw_network
def test_the_shortest_trial_works_and_a_shorter_one_is_refused(name: str) -> None:
    shortest = SHORTEST[name]
    net = build(name, (5, 2, shortest, 125))
    assert isinstance(net, RawNet)
    assert net(torch.randn(2, 5, shortest)).shape == (2, 2)
    with pytest.raises(ModelError, match=f"n_times={shortest}"):
        build(name, (5, 2, shortest - 1, 125))
    with pytest.raises(ModelError, match="sfreq"):
        build(name, (5, 2, 250, 0))


@every_network
def test_learns_an_oscillation(name: str) -> None:
    """Noise, and in half of the trials 10 Hz of random phase on one of four channels."""
    torch.manual_seed(0)
    n, sfreq, n_times = 48, 125, 150
    y = torch.arange(n) % 2
    phase = 2 * torch.pi * torch.rand(n, 1)
    trials = torch.randn(n, 4, n_times)
    trials[:, 2] += (
        2 * y[:, None] * torch.sin(20 * torch.pi * torch.arange(n_times) / sfreq + phase)
    )
    X, net = inputs(name, trials), build(name, (4, 2, n_times, sfreq))
    rate, steps = LEARNT.get(name, (3e-3, 40))
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (net.eval()(X).argmax(1) == y).float().mean()
    assert accuracy > 0.85
