from __future__ import annotations

import copy
import itertools
import math
import pickle
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from spd_learn.models import SPDNet as PeerSPDNet

from spdtokens.classifiers.nn.spdnet import BiMap, SPDNet, TSMNet, reeig
from spdtokens.errors import ModelError
from tests.matrices import F64, generator, random_spd, relative_error, with_spectrum


def n_parameters(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def two_classes(n: int = 60, d: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Covariances of white signals whose first or second channel is the stronger one."""
    y = torch.arange(n) % 2
    X = torch.randn(n, d, 200, generator=generator(3))
    X[torch.arange(n), y] *= 1.5
    return X @ X.mT / 200, y


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def train(
    net: torch.nn.Module, X: torch.Tensor, y: torch.Tensor, steps: int, decay: float = 0.0
) -> None:
    """A few steps of plain Adam."""
    optimiser = torch.optim.Adam(net.train().parameters(), lr=0.01, weight_decay=decay)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimiser.step()
    net.eval()


def in_numpy(net: SPDNet, C: torch.Tensor) -> torch.Tensor:
    """The equations of the network, one matrix after another."""

    def of_eigenvalues(M: np.ndarray, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        values, V = np.linalg.eigh(0.5 * (M + M.T))
        return (V * f(values)) @ V.T

    i, j = np.triu_indices(net.dims[-1])
    features = []
    for M in C.numpy():
        for bimap in net.bimaps:
            W = bimap.weight.detach().numpy()
            M = of_eigenvalues(W.T @ M @ W, lambda values: np.maximum(values, 1e-4))
        features.append(of_eigenvalues(M, np.log)[i, j] * np.where(i == j, 1, np.sqrt(2)))
    weight, bias = (p.detach().numpy() for p in (net.head.weight, net.head.bias))
    return torch.from_numpy(np.array(features) @ weight.T + bias)


def test_forward_equals_the_spdnet_of_spd_learn() -> None:
    peer = PeerSPDNet("cov", subspacedim=5, n_chans=8, n_outputs=3).double().eval()
    net = SPDNet(8, 3, (5,)).double().eval()
    with torch.no_grad():
        net.bimaps[0].raw.copy_(peer.bimap.weight[0])
        net.head.load_state_dict(peer.classifier.state_dict())
        C = random_spd(10, 8)
        torch.testing.assert_close(net(C), peer(C), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dims", [(5,), (6, 4), (6, 6, 2)])
def test_forward_equals_the_equations(dims: tuple[int, ...]) -> None:
    net = SPDNet(6, 2, dims).double().eval()
    C = random_spd(10, 6, kappa=1e6)
    with torch.no_grad():
        assert dims == (5,) or bool((torch.linalg.eigvalsh(net.bimaps[0](C))[:, 0] < 1e-5).all())
        torch.testing.assert_close(net(C), in_numpy(net, C), rtol=0, atol=1e-10)


def test_gradients_are_exact() -> None:
    net = SPDNet(5, 2, (4, 3)).double().eval()
    C = random_spd(3, 5, kappa=200.0)
    names, weights = zip(*net.named_parameters(), strict=True)

    def scores(C, *weights):
        parts = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(
            net, parts, (1e-3 * 0.5 * (C + C.mT),)
        )  # some eigenvalues are raised

    args = (C.requires_grad_(), *(w.detach().clone().requires_grad_() for w in weights))
    assert torch.autograd.gradcheck(scores, args)


def test_gradients_are_finite_at_the_identity() -> None:
    net = SPDNet(5, 2, (4, 3))
    C = torch.eye(5).expand(3, 5, 5).clone().requires_grad_()
    net(C).square().sum().backward()
    grads = [C.grad, *(p.grad for p in net.parameters())]
    assert all(g is not None and bool(torch.isfinite(g).all()) for g in grads)


def test_bimap_stays_on_the_stiefel_manifold_in_training_with_weight_decay() -> None:
    C, y = two_classes()
    net = SPDNet(6, 2, (5, 3))
    before = net.bimaps[0].weight.detach().clone()
    train(net, C, y, steps=100, decay=0.1)
    W = net.bimaps[0].weight.detach()
    torch.testing.assert_close(W.mT @ W, torch.eye(5), rtol=0, atol=1e-5)
    assert float((W - before).norm()) > 0.05


def test_an_orthonormal_raw_weight_is_its_own_polar_factor() -> None:
    bimap = BiMap(7, 3).double()
    torch.testing.assert_close(bimap.weight, bimap.raw, rtol=0, atol=1e-6)
    with torch.no_grad():
        bimap.raw *= 1e-3
    W = bimap.weight
    torch.testing.assert_close(W.mT @ W, torch.eye(3, dtype=F64), rtol=0, atol=1e-12)


def test_reeig_raises_small_eigenvalues_only() -> None:
    raised = reeig(with_spectrum([1e-6, 0.5, 2.0]))
    assert relative_error(raised, with_spectrum([1e-4, 0.5, 2.0])) < 1e-12


def test_sizes_that_the_documentation_names() -> None:
    for dims in ((), (19, 11, 11), (21, 14, 8)):
        assert n_parameters(SPDNet(22, 4, dims)) == 1016
    # Two BiMaps, the full 11 x 11 matrix flattened.
    assert 22 * 16 + 16 * 11 + 11 * 11 * 4 + 4 == 1016
    few = [(a,) for a in range(1, 23)]
    few += [(a, b) for a, b in itertools.product(range(1, 23), repeat=2) if b <= a]
    for dims in few:
        maps = sum(a * b for a, b in itertools.pairwise((22, *dims)))
        assert maps + 4 * (dims[-1] * (dims[-1] + 1) // 2) + 4 != 1016
    assert SPDNet(22, 4).dims == (17, 11)
    assert SPDNet(1, 2).dims == (1, 1)


@pytest.mark.parametrize("unit", [1e-12, 1e6])
def test_the_unit_does_not_matter(unit) -> None:
    C, y = two_classes()
    C[:, 5] *= 1e-3  # so that ReEig has something to raise
    C[:, :, 5] *= 1e-3
    scores = []
    for factor in (1.0, unit):
        torch.manual_seed(0)
        net = SPDNet(6, 2, (5, 3))
        net.unit.calibrate(factor * C)
        train(net, factor * C, y, steps=5)
        with torch.no_grad():
            scores.append(net(factor * C))
    torch.testing.assert_close(*scores, rtol=1e-3, atol=1e-3)


def test_double_covariances_in_a_single_network() -> None:
    net = SPDNet(4, 2).eval()
    C = random_spd(3, 4)
    scores = net(C)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, net(C.float()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dims", "culprit"), [((5,), "from 1 to 4"), ((3, 0), "from 1 to 3")])
def test_bad_sizes_are_refused(dims: tuple[int, ...], culprit: str) -> None:
    with pytest.raises(ModelError, match=culprit):
        SPDNet(4, 2, dims)


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_trials_without_size_are_refused(value) -> None:
    with pytest.raises(ModelError, match="covariances"):
        SPDNet(4, 2).unit.calibrate(torch.full((3, 4, 4), value))


def test_state_dict_carries_the_unit() -> None:
    C, y = two_classes()
    net, twin = SPDNet(6, 2), SPDNet(6, 2).eval()
    net.unit.calibrate(1e-12 * C)
    train(net, 1e-12 * C, y, steps=1)
    twin.load_state_dict(net.state_dict())
    with torch.no_grad():
        assert torch.equal(twin(1e-12 * C), net(1e-12 * C))


# TSMNet beside spd_learn's own; what it shares with all raw networks is in test_networks.


def pair(n_chans: int, n_times: int) -> tuple[TSMNet, torch.nn.Module]:
    """Ours and spd_learn's, with the same weights: they draw them in the same order."""
    from spd_learn.models import TSMNet as Peer

    torch.manual_seed(5)
    ours = TSMNet(n_chans, 3, n_times, 128.0)
    torch.manual_seed(5)
    return ours, Peer(n_chans=n_chans, n_outputs=3)


def trials(n_chans: int, n_times: int, n: int = 24) -> torch.Tensor:
    return torch.randn(n, n_chans, n_times, generator=generator(2))


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
    train(ours, X, torch.arange(24) % 3, 5)
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
    train(twins[0], X, torch.arange(24) % 3, 2)  # a copy trains on, and not the original with it
    with torch.no_grad():
        assert not torch.equal(twins[0](X), scores)
        assert torch.equal(ours(X), scores)


def test_the_bimap_stays_orthonormal() -> None:
    ours, _ = pair(6, 80)
    train(ours, trials(6, 80), torch.arange(24) % 3, 10)
    W = ours.net.spdnet[0].weight.detach()[0]
    torch.testing.assert_close(W.mT @ W, torch.eye(20, dtype=W.dtype), atol=1e-5, rtol=0)
