"""Runs that take a step together."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.optim.adam import adam

from spdtokens.training.network import BatchedNetwork
from spdtokens.training.recipe import Recipe
from spdtokens.training.state import RunStates
from spdtokens.training.step import Step, aligned
from spdtokens.training.streams import dropout_masks


class RunSlice:
    """Neighbouring runs whose batches have equal size: their weights as views, and one update.

    Parameters
    ----------
    network : BatchedNetwork
    state : RunStates
        Of these runs; written to.
    recipe : Recipe
    """

    def __init__(self, network: BatchedNetwork, state: RunStates, recipe: Recipe) -> None:
        self.network, self.state, self.recipe = network, state, recipe
        self.weights = network.parameters.views(state.weights)
        self.buffers = network.buffers.views(state.buffers)

    def evaluation_step(self, valid: int) -> Step:
        """A pass without dropout that learns nothing."""
        return Step(
            weights=self.weights,
            grads={},
            buffers=self.buffers,
            tokens=self.network.tokens,
            trials=aligned(valid),
            valid=valid,
            training=False,
        )

    def training_step(self, valid: int) -> Step:
        """A pass with dropout, to be followed by :meth:`learn`."""
        step = self.evaluation_step(valid)
        step.training = True
        if self.network.dropout:
            step.masks = dropout_masks(
                self.state.streams,
                self.network.mask_entries(step.trials),
                self.network.dropout,
                self.state.weights.device,
            )
        return step

    def learn(self, step: Step, d_scores: Tensor) -> None:
        """Go back through the layers, updating each as soon as its gradient is known.

        So all layers share one piece of memory for their gradients, small enough to stay in the
        cache until the optimizer has read it.
        """
        for layer, (grads, update) in zip(
            reversed(self.network.layers), reversed(self._updates), strict=True
        ):
            step.grads = grads
            d_scores = layer.backward(step, d_scores)
            if grads:
                self._adam(*update)

    @cached_property
    def _updates(self) -> list[tuple[dict[str, Tensor], tuple[list[Tensor], ...]]]:
        """For each layer the views its gradients are written to, and what Adam works on."""
        state, network = self.state, self.network
        largest = max(layout.size for layout in network.layouts)
        scratch = torch.zeros(len(state), largest, device=state.weights.device)
        updates: list[tuple[dict[str, Tensor], tuple[list[Tensor], ...]]] = []
        for i, (layout, part) in enumerate(zip(network.layouts, network.segments(), strict=True)):
            grads = scratch[:, : layout.size]
            update = (
                list(state.weights[:, part]),
                list(grads),
                list(state.first[:, part]),
                list(state.second[:, part]),
                list(state.steps[:, i]),
            )
            updates.append((layout.views(grads), update))
        return updates

    def _adam(
        self,
        weights: list[Tensor],
        grads: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        steps: list[Tensor],
    ) -> None:
        adam(
            weights,
            grads,
            first,
            second,
            [],
            steps,
            fused=True,
            decoupled_weight_decay=self.recipe.decoupled,
            amsgrad=False,
            beta1=self.recipe.betas[0],
            beta2=self.recipe.betas[1],
            lr=self.recipe.learning_rate,
            weight_decay=self.recipe.weight_decay,
            eps=1e-8,
            maximize=False,
        )
