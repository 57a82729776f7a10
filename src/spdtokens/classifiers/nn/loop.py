"""Train one module at a time, by torch's own differentiation.

For networks the batched engine does not know. The same recipe, plan, curves and choice of epoch;
the order of trials comes from the same stream of the run's seed, dropout from torch's generator.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from spdtokens.classifiers.nn.engine import (
    EVALUATED_AT_ONCE,
    Curves,
    Listener,
    Pool,
    RunPlan,
    RunStreams,
    check_plans,
)
from spdtokens.classifiers.nn.recipe import Recipe
from spdtokens.errors import ModelError


def train_module(
    build: Callable[[], nn.Module],
    inputs: Tensor,
    labels: Tensor,
    plan: RunPlan,
    recipe: Recipe,
    *,
    n_classes: int,
    listener: Listener | None = None,
) -> tuple[nn.Module, Curves, int]:
    """Train a module from scratch.

    Parameters
    ----------
    build : callable
        Makes the module; torch's generator is seeded around it.
    inputs : Tensor of float32, shape (n, ...)
        Its device is where training happens.
    labels : Tensor of int64, shape (n,)
    plan : RunPlan
    recipe : Recipe
    n_classes : int
    listener : callable, optional
        Told of every epoch.

    Returns
    -------
    module : nn.Module
        In eval mode, on the processor.
    curves : dict of str to ndarray, shape (epochs,)
    epoch : int
        From 1: the one whose weights were kept.
    """
    check_plans([plan], Pool(inputs, labels), recipe, n_classes)
    streams = RunStreams(plan.seed)
    devices = [inputs.device] if inputs.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(streams.weights().initial_seed())
        module = build().to(inputs.device)
        trainer = _Trainer(module, inputs, labels, plan, recipe, streams)
        for number in range(recipe.epochs):
            trainer.epoch(number)
            if listener:
                listener(1)
            if trainer.has_stopped(number):
                if listener:
                    listener(recipe.epochs - number - 1)
                break
    return trainer.result()


class _Trainer:
    """One run under way."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        plan: RunPlan,
        recipe: Recipe,
        streams: RunStreams,
    ) -> None:
        self.module, self.inputs, self.labels = module, inputs, labels
        self.parts, self.recipe, self.streams = plan.parts(), recipe, streams
        kind = torch.optim.AdamW if recipe.decoupled else torch.optim.Adam
        # Names of parameters for which a network asks to be spared the decay.
        spared: frozenset[str] = getattr(module, "undecayed", frozenset())
        named = list(module.named_parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for name, p in named if name not in spared]},
            {"params": [p for name, p in named if name in spared], "weight_decay": 0.0},
        ]
        self.optimizer = kind(
            groups,
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            betas=recipe.betas,
        )
        self.curves: dict[str, list[float]] = {}
        self.best_loss, self.best_epoch = float("inf"), 0
        self.best: dict[str, Tensor] | None = None

    def epoch(self, number: int) -> None:
        """Train for an epoch (numbered from 0) and score."""
        self.module.train()
        order = torch.from_numpy(self.streams.order.permutation(self.parts["train"]))
        loss, correct, seen = 0.0, 0, 0
        for index in order.split(self.recipe.batch_size):
            if len(index) == 1:
                continue  # batch norms cannot train on one trial
            X, y = self._batch(index)
            scores = self.module(X)
            step = F.cross_entropy(scores, y, label_smoothing=self.recipe.label_smoothing)
            self.optimizer.zero_grad()
            step.backward()
            self.optimizer.step()
            loss += step.item() * len(index)
            correct += int((scores.argmax(1) == y).sum())
            seen += len(index)
        self._record("train", loss / max(seen, 1), correct / max(seen, 1))
        if not np.isfinite(self.curves["train loss"][-1]):
            raise ModelError(
                f"Training ran away in epoch {number + 1}: the loss is no longer a number. Lower "
                f"learning_rate (now {self.recipe.learning_rate:g})."
            )
        for part in self.parts:
            if part != "train":
                self._record(part, *self._score(self.parts[part]))
        self._select(number)

    def _batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        index = index.to(self.inputs.device)
        return self.inputs[index], self.labels[index]

    def _record(self, part: str, loss: float, accuracy: float) -> None:
        self.curves.setdefault(f"{part} loss", []).append(loss)
        self.curves.setdefault(f"{part} accuracy", []).append(accuracy)

    @torch.no_grad()
    def _score(self, part: NDArray[np.int64]) -> tuple[float, float]:
        self.module.eval()
        loss, correct = 0.0, 0
        for index in torch.from_numpy(part).split(EVALUATED_AT_ONCE):
            X, y = self._batch(index)
            scores = self.module(X)
            loss += F.cross_entropy(scores, y, reduction="sum").item()
            correct += int((scores.argmax(1) == y).sum())
        return loss / len(part), correct / len(part)

    def _select(self, number: int) -> None:
        if not self.recipe.needs_validation:
            return
        loss = self.curves["validation loss"][-1]
        if loss < self.best_loss:
            self.best_loss, self.best_epoch = loss, number + 1
            if self.recipe.keep == "best":
                self.best = copy.deepcopy(self.module.state_dict())

    def has_stopped(self, number: int) -> bool:
        """Whether the validation loss has not fallen for too long."""
        patience = self.recipe.patience
        return patience is not None and number + 1 - self.best_epoch >= patience

    def result(self) -> tuple[nn.Module, Curves, int]:
        """The trained module, its curves, and the epoch kept."""
        kept = len(self.curves["train loss"])
        if self.best is not None:
            self.module.load_state_dict(self.best)
            kept = self.best_epoch
        curves = {name: np.array(values) for name, values in self.curves.items()}
        return self.module.cpu().eval(), curves, kept
