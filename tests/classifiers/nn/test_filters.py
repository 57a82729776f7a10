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


def network(**options: object) -> SpatialFilterNetwork:
    torch.manual_seed(0)
    return SpatialFilterNetwork(D, BANDS, WINDOWS, 3, n_filters=5, **options).double()


def mirrored(dropout: float = 0.0) -> SpatialFilterNetwork:
    """Means of two parts of a window, in four channels; classes 0 and 2 are exchanged."""
    made = network(
        n_means=MEANS,
        dropout=dropout,
        mirror=MIRROR,
        mirror_means=torch.cat([MIRROR, D + MIRROR]),
        swap=torch.tensor([2, 1, 0]),
    )
    torch.nn.init.normal_(made.head.weight, generator=generator(1))
    return made


def matrices(n: int = 6) -> torch.Tensor:
    return random_spd(n, BANDS * WINDOWS, D, seed=3)


def flat(C: torch.Tensor, means: torch.Tensor | None = None) -> torch.Tensor:
    row, column = np.triu_indices(D)
    tokens = C[..., row, column].flatten(1)
    return tokens if means is None else torch.cat([tokens, means.flatten(1)], 1)


def test_gradient_of_the_weights() -> None:
    filters = torch.randn(2, 3, 4, generator=generator(), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(RankOne.apply, (filters,))


def test_scores_are_linear_in_the_logarithms_of_powers() -> None:
    model, C = network().eval(), matrices()
    model.powers.running_mean.normal_(generator=generator(2))
    model.powers.running_var.uniform_(0.5, 2.0, generator=generator(3))
    W = model.filters
    powers = torch.einsum("bik,nbwij,bjk->nbwk", W, C.unflatten(1, (BANDS, WINDOWS)), W)
    logs = torch.log(powers + EPS).flatten(1)
    norm = model.powers
    wanted = model.head((logs - norm.running_mean) / (norm.running_var + norm.eps).sqrt())
    torch.testing.assert_close(model(flat(C)), wanted, rtol=1e-10, atol=1e-10)


def test_gradient_of_the_network_is_that_of_the_formula() -> None:
    model, C = network().eval(), matrices()
    (found,) = torch.autograd.grad(model(flat(C)).square().sum(), model.filters)
    W = model.filters
    powers = torch.einsum("bik,nbwij,bjk->nbwk", W, C.unflatten(1, (BANDS, WINDOWS)), W)
    scores = model.head(model.powers(torch.log(powers + EPS).flatten(1)))
    (wanted,) = torch.autograd.grad(scores.square().sum(), W)
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_mirrored", [0, 2, 6])
def test_mirrored_trials_in_training(n_mirrored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with exchanged rows and columns in the input, and exchanged classes in the output."""
    model, C = mirrored().train(), matrices()
    means = torch.randn(6, 2, D, generator=generator(4), dtype=torch.float64)
    chance = torch.arange(6) / 6 + 0.5 - (n_mirrored - 0.5) / 6
    monkeypatch.setattr(torch, "rand", lambda n: chance[:n])
    found = model(flat(C, means))

    first = slice(0, n_mirrored)
    C, means = C.clone(), means.clone()
    C[first] = C[first][..., MIRROR, :][..., MIRROR]
    means[first] = means[first][..., MIRROR]
    monkeypatch.setattr(torch, "rand", torch.ones)
    wanted = model(flat(C, means))
    wanted[first] = wanted[first][:, [2, 1, 0]]
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_nothing_is_mirrored_or_dropped_in_evaluation() -> None:
    model, x = mirrored(dropout=0.5).eval(), flat(matrices(), torch.ones(6, MEANS).double())
    torch.manual_seed(1)
    first = model(x)
    torch.testing.assert_close(model(x), first, rtol=0, atol=0)
    assert not torch.equal(model.train()(x), model(x))


def test_means_have_no_weight_before_training() -> None:
    model = network(n_means=MEANS).eval()
    C = matrices()
    zero, one = (model(flat(C, torch.full((6, MEANS), x).double())) for x in (0.0, 1.0))
    torch.testing.assert_close(zero, one, rtol=0, atol=0)


def test_powers_of_rounding_errors_are_finite() -> None:
    model, C = network().eval(), matrices()
    C[0] = -1e-9 * torch.eye(D)
    assert model(flat(C)).isfinite().all()


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
