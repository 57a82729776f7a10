"""TSMNet beside spd_learn's own; what it shares with all raw networks is in raw/test_contract."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spdtokens._extras import how_to_install
from spdtokens.classifiers.nn.spdnet import TSMNet
from tests.matrices import generator

pytest.importorskip("spd_learn", reason=f"needs {how_to_install('baselines')}")


def pair(n_chans: int, n_times: int) -> tuple[TSMNet, torch.nn.Module]:
    """Ours and spd_learn's, with the same weights: they draw them in the same order."""
    from spd_learn.models import TSMNet as Peer

    torch.manual_seed(5)
    ours = TSMNet(n_chans, 3, n_times, 128.0)
    torch.manual_seed(5)
    return ours, Peer(n_chans=n_chans, n_outputs=3)


def trials(n_chans: int, n_times: int, n: int = 24) -> torch.Tensor:
    return torch.randn(n, n_chans, n_times, generator=generator(2))


def steps(net: TSMNet, X: torch.Tensor, n: int) -> None:
    optimizer = torch.optim.Adam(net.train().parameters(), lr=3e-3)
    y = torch.arange(len(X)) % 3
    for _ in range(n):
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()


@pytest.mark.parametrize(("n_chans", "n_times"), [(8, 125), (17, 128), (22, 438)])
def test_forward_and_gradients_equal_spd_learn(n_chans: int, n_times: int) -> None:
    ours, peer = pair(n_chans, n_times)
    X = trials(n_chans, n_times)
    for mode in (True, False):  # then by the running statistics of the pass before
        a, b = ours.train(mode)(X), peer.train(mode)(X)
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)
    y = torch.arange(len(X)) % 3
    for net in (ours.train(), peer.train()):
        F.cross_entropy(net(X), y).backward()
    theirs = dict(peer.named_parameters())
    for name, parameter in ours.net.named_parameters():
        grad = theirs[name].grad
        assert grad is not None
        torch.testing.assert_close(parameter.grad.float(), grad, atol=1e-5, rtol=1e-2)


def test_few_channels_are_computed_without_clamps() -> None:
    """3 channels span 12 dimensions of 20: the others are ReEig's 1e-4, which float32 would move.

    The batch norm and the logarithm against NumPy in float64.
    """
    ours, peer = pair(3, 200)
    X = trials(3, 200)
    with torch.no_grad():
        scores = ours(X).double().numpy()
        C = ours.net.spdnet(ours.covariances(X)).numpy()

    def function(S: np.ndarray, f) -> np.ndarray:
        values, vectors = np.linalg.eigh(S)
        return (vectors * f(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)

    mean = C.mean(0)
    root, inverse = function(mean, np.sqrt), function(mean, lambda s: s**-0.5)
    mean = root @ function(function(inverse @ C @ inverse, np.log).mean(0), np.exp) @ root
    inverse = function(mean, lambda s: s**-0.5)
    logs = function(inverse @ C @ inverse, np.log)
    logs /= np.sqrt((logs**2).sum((1, 2)).mean() + 1e-5)
    rows, columns = np.triu_indices(20)
    features = logs[:, rows, columns] * np.where(rows == columns, 1, np.sqrt(2))
    head = ours.net.head
    expected = features @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        assert np.abs(peer(X).numpy() - expected).max() > 1e-3


def test_copies_and_files_hold_the_trained_network() -> None:
    ours, _ = pair(4, 60)
    X = trials(4, 60)
    steps(ours, X, 5)
    for training in (True, False):
        ours.train(training)
        torch.manual_seed(1)
        expected_draw = torch.rand(3)
        torch.manual_seed(1)
        twins = [copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))]
        torch.testing.assert_close(torch.rand(3), expected_draw, atol=0, rtol=0)
        for twin in twins:
            assert twin.training is training
            assert twin.undecayed <= {name for name, _ in twin.named_parameters()}
    fresh, _ = pair(4, 60)
    fresh.load_state_dict(ours.state_dict())
    with torch.no_grad():
        scores = ours(X)
        for twin in (*twins, fresh.eval()):
            torch.testing.assert_close(twin(X), scores, atol=0, rtol=0)
    steps(twins[0], X, 2)  # a copy trains on, and not the original with it
    with torch.no_grad():
        assert not torch.equal(twins[0].eval()(X), scores)
        assert torch.equal(ours(X), scores)


def test_the_bimap_stays_orthonormal() -> None:
    ours, _ = pair(6, 80)
    steps(ours, trials(6, 80), 10)
    W = ours.net.spdnet[0].weight.detach()[0]
    torch.testing.assert_close(W.mT @ W, torch.eye(20, dtype=W.dtype), atol=1e-5, rtol=0)
