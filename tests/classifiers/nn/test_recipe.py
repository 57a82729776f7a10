from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spdtokens.classifiers.networks import train_module
from spdtokens.classifiers.nn.engine import RunPlan
from spdtokens.classifiers.nn.networks import NETWORKS, TrialShape
from spdtokens.classifiers.nn.recipe import COMMON, PUBLISHED, Recipe, published_recipe


def test_every_recipe_is_of_a_network() -> None:
    assert set(PUBLISHED) <= set(NETWORKS)


@pytest.mark.parametrize(
    ("n_chans", "kernel", "rate", "batch_size", "epochs"),
    [
        (22, 12, 5e-4, 128, 350),
        (56, 64, 1e-2, 64, 130),
        (8, 36, 5e-3, 64, 180),
        (17, 12, 5e-4, 128, 350),
    ],
)
def test_network_and_recipe_of_matt_go_together(
    n_chans: int, kernel: int, rate: float, batch_size: int, epochs: int
) -> None:
    assert NETWORKS["matt"].build(TrialShape(n_chans, 2, 160, 128.0)).config.kernel == kernel
    recipe = published_recipe("matt", n_chans)
    assert (recipe.learning_rate, recipe.batch_size, recipe.epochs) == (rate, batch_size, epochs)
    assert (recipe.weight_decay, recipe.decoupled, recipe.keep) == (0.1, False, "best")


def test_common_recipe_and_length() -> None:
    assert published_recipe("matt", 8, common=True) == COMMON
    assert published_recipe("spdnet", 8) == COMMON
    assert published_recipe("matt", 8, epochs=3).epochs == 3
    assert published_recipe("matt", 8, epochs=3).learning_rate == 5e-3
    tsmnet = published_recipe("tsmnet", 22)
    assert (tsmnet.epochs, tsmnet.batch_size, tsmnet.learning_rate) == (50, 50, 1e-3)


class Spared(nn.Module):
    """Two weights that the scores do not depend on, one of them spared the decay."""

    undecayed = frozenset({"spared"})

    def __init__(self) -> None:
        super().__init__()
        self.spared = nn.Parameter(torch.ones(2))
        self.other = nn.Parameter(torch.ones(2))

    def forward(self, X: Tensor) -> Tensor:
        return X + 0 * (self.spared + self.other)


@pytest.mark.parametrize("decoupled", [True, False])
def test_weights_are_spared_the_decay(decoupled: bool) -> None:
    everything = np.arange(8)
    module, _, _ = train_module(
        Spared,
        torch.randn(8, 2, generator=torch.Generator().manual_seed(0)),
        torch.arange(8) % 2,
        RunPlan(0, everything),
        Recipe(epochs=3, weight_decay=0.1, decoupled=decoupled),
        n_classes=2,
    )
    assert isinstance(module, Spared)
    assert torch.equal(module.spared, torch.ones(2))
    assert bool((module.other < 1).all())
