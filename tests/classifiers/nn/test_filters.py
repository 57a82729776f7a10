"""The network of spatial filters against the formula of its docstring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from spdtokens.classifiers.nn.filters import EPS, RankOne, SpatialFilterNetwork
from tests.matrices import generator, random_spd

D, BANDS, WINDOWS, MEANS = 4, 2, 3, 8
MIRROR = torch.tensor([2, 1, 0, 3])


def network(members: int = 2, **options: object) -> SpatialFilterNetwork:
    torch.manual_seed(0)
    made = SpatialFilterNetwork(D, BANDS, WINDOWS, 3, n_filters=5, members=members, **options)
    torch.nn.init.normal_(made.bias)
    return made


def mirrored(dropout: float = 0.0) -> SpatialFilterNetwork:
    """Means of two parts of a window, in four channels; classes 0 and 2 are exchanged."""
    made = network(
        n_means=MEANS,
        dropout=dropout,
        mirror=MIRROR,
        mirror_means=torch.cat([MIRROR, D + MIRROR]),
        swap=torch.tensor([2, 1, 0]),
    )
    torch.nn.init.normal_(made.weight, std=0.1, generator=generator(1))
    return made


def matrices(n: int = 6) -> torch.Tensor:
    return random_spd(n, BANDS, WINDOWS, D, seed=3).float()


def bands(C: torch.Tensor) -> list[torch.Tensor]:
    row, column = np.triu_indices(D)
    return list(C[..., row, column].unbind(1))


def by_formula(model: SpatialFilterNetwork, C: torch.Tensor) -> torch.Tensor:
    W, n = model.filters, len(C)
    powers = torch.einsum("bimk,nbwij,bjmk->nmbwk", W, C, W)
    features = model.powers(torch.log(powers + EPS).reshape(n, -1)).view(n, model.members, -1)
    return torch.einsum("nmf,mfc->nmc", features, model.weight) + model.bias


def test_gradient_of_the_weights() -> None:
    filters = torch.randn(2, 3, 4, generator=generator(), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(RankOne.apply, (filters,))


def test_scores_are_linear_in_the_logarithms_of_powers() -> None:
    model, C = network().eval(), matrices()
    model.powers.running_mean.normal_(generator=generator(2))
    model.powers.running_var.uniform_(0.5, 2.0, generator=generator(3))
    found = model(bands(C))
    assert found.shape == (6, 2, 3)
    torch.testing.assert_close(found, by_formula(model, C), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_gradient_of_the_network_is_that_of_the_formula(training: bool) -> None:
    model, C = network(dropout=0.0).train(training), matrices()
    found, wanted = (
        torch.autograd.grad(scores.square().sum(), [model.filters, model.weight, model.bias])
        for scores in (model(bands(C)), by_formula(model, C))
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def test_members_do_not_know_each_other() -> None:
    model, C = network().eval(), matrices()
    before = model(bands(C))
    with torch.no_grad():
        model.filters[:, :, 1] *= 3
        model.weight[1] *= 2
    after = model(bands(C))
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert not torch.allclose(after[:, 1], before[:, 1], atol=0.01)


@pytest.mark.parametrize("n_mirrored", [0, 2, 6])
def test_mirrored_trials_in_training(n_mirrored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with exchanged rows and columns in the input, and exchanged classes in the output."""
    model, C = mirrored().train(), matrices()
    means = torch.randn(6, 2, D, generator=generator(4))
    chance = torch.arange(6) / 6 + 0.5 - (n_mirrored - 0.5) / 6
    monkeypatch.setattr(torch, "rand", lambda n: chance[:n])
    found = model(bands(C), means.flatten(1))

    first = slice(0, n_mirrored)
    C, means = C.clone(), means.clone()
    C[first] = C[first][..., MIRROR, :][..., MIRROR]
    means[first] = means[first][..., MIRROR]
    monkeypatch.setattr(torch, "rand", torch.ones)
    wanted = model(bands(C), means.flatten(1))
    wanted[first] = wanted[first][..., [2, 1, 0]]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_nothing_is_mirrored_or_dropped_in_evaluation() -> None:
    model, x = mirrored(dropout=0.5).eval(), (bands(matrices()), torch.ones(6, MEANS))
    torch.manual_seed(1)
    first = model(*x)
    torch.testing.assert_close(model(*x), first, rtol=0, atol=0)
    assert not torch.equal(model.train()(*x), model(*x))


def test_means_have_no_weight_before_training() -> None:
    model = network(n_means=MEANS).eval()
    C = matrices()
    zero, one = (model(bands(C), torch.full((6, MEANS), x)) for x in (0.0, 1.0))
    torch.testing.assert_close(zero, one, rtol=0, atol=0)


def test_powers_of_rounding_errors_are_finite() -> None:
    model, C = network().eval(), matrices()
    C[0] = -1e-9 * torch.eye(D)
    assert model(bands(C)).isfinite().all()


def test_tokens_in_bfloat16() -> None:
    """Products are rounded; powers, their logarithms and the scores are in single precision."""
    model, C = network().eval(), matrices()
    found = model([band.bfloat16() for band in bands(C)])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, model(bands(C)), rtol=0, atol=0.1)


class Context:
    """What autograd passes to a function."""

    saved_tensors: tuple[torch.Tensor, ...]

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        self.saved_tensors = tensors


def test_weights_are_computed_on_the_device_of_the_filters() -> None:
    """Without a GPU: fake tensors refuse operations across devices, here 'meta' and 'cpu'."""
    context = Context()
    with FakeTensorMode():
        filters = torch.empty(2, 3, 4, device="meta")
        weights = RankOne.forward(context, filters)
        gradient = RankOne.backward(context, weights)
    assert weights.shape == (2, 6, 4)
    assert gradient.shape == filters.shape
    assert weights.device.type == gradient.device.type == "meta"
