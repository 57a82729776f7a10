"""A few runs trained together on one thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spdtokens.training.network import BatchedNetwork, cross_entropy
from spdtokens.training.recipe import Recipe, TrainingError
from spdtokens.training.slice import RunSlice
from spdtokens.training.state import RunStates
from spdtokens.training.step import Step

#: Trials of a run that are evaluated at a time.
EVALUATED_AT_ONCE = 256

Curves = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Pool:
    """Trials that runs draw from.

    Attributes
    ----------
    tokens : Tensor of float32, shape (n, tokens, features)
    labels : Tensor of int64, shape (n,)
    bias : Tensor of float32, shape (n, tokens, tokens), optional
        Added to attention scores.
    """

    tokens: Tensor
    labels: Tensor
    bias: Tensor | None = None


class Group:
    """Neighbouring runs, trained one epoch at a time.

    Runs step together as long as their batches have equal size. Sorted by the size of their
    training sets, such runs are neighbours, so that every step works on slices and copies nothing;
    a run that has no batch left in this epoch, or has stopped, is left out of the slice.

    Parameters
    ----------
    network : BatchedNetwork
    state : RunStates
        Of the runs of this group.
    pool : Pool
    parts : sequence of mapping of str to ndarray
        For each run, indices into the pool: ``'train'`` and whatever else is to be scored.
    recipe : Recipe
    curves : dict of str to ndarray, shape (runs, epochs)
        Written to: ``'train loss'``, ``'train accuracy'``, ...
    """

    def __init__(
        self,
        network: BatchedNetwork,
        state: RunStates,
        pool: Pool,
        parts: Sequence[dict[str, NDArray[np.int64]]],
        recipe: Recipe,
        curves: Curves,
    ) -> None:
        self.network, self.state, self.pool = network, state, pool
        self.parts, self.recipe, self.curves = parts, recipe, curves
        self._slices: dict[tuple[int, int], RunSlice] = {}

    def __len__(self) -> int:
        return len(self.state)

    def release(self) -> None:
        """Give back the memory that only training needs."""
        self._slices.clear()

    def _slice(self, runs: slice) -> RunSlice:
        key = (runs.start, runs.stop)
        if key not in self._slices:
            self._slices[key] = RunSlice(self.network, self.state[runs], self.recipe)
        return self._slices[key]

    def epoch(self, number: int) -> None:
        """Train every active run for an epoch (numbered from 0), then score it."""
        orders = [
            stream.order.permutation(part["train"]) if active else part["train"][:0]
            for stream, part, active in zip(
                self.state.streams, self.parts, self.state.active.tolist(), strict=True
            )
        ]
        loss = np.zeros(len(self))
        correct = np.zeros(len(self))
        size = self.recipe.batch_size
        for start in range(0, max(map(len, orders)), size):
            batches = [self._usable(order[start : start + size]) for order in orders]
            for runs, index in _equal_neighbours(batches):
                step_loss, step_correct = self._step(runs, index)
                loss[runs] += step_loss * index.shape[1]
                correct[runs] += step_correct
        seen = np.array([max(len(order), 1) for order in orders])
        ran = self.state.active.numpy()
        self._record("train", number, loss / seen, correct / seen, ran)
        self._check_finite(number, ran)
        for name in self.parts[0]:
            if name != "train":
                self._record(name, number, *self.score(name), ran)
        if self.recipe.needs_validation:
            self._select(number)

    def score(self, part: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Loss and accuracy (runs,) on a part of the trials, with the current weights."""
        loss, correct = np.zeros(len(self)), np.zeros(len(self))
        index_of = [parts[part] for parts in self.parts]
        for start in range(0, max(map(len, index_of)), EVALUATED_AT_ONCE):
            batches = [index[start : start + EVALUATED_AT_ONCE] for index in index_of]
            for runs, index in _equal_neighbours(batches):
                trials = index.shape[1]
                step = self._slice(runs).evaluation_step(trials)
                scores, labels = self._scores(step, index)
                loss[runs] += cross_entropy(scores, labels, trials)[0].numpy(force=True) * trials
                correct[runs] += _hits(scores, labels, trials)
        sizes = np.array([len(index) for index in index_of])
        return loss / sizes, correct / sizes

    def _usable(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        # One trial with one token has no variance: a batch norm cannot train on it.
        alone = len(batch) * self.network.tokens == 1
        return batch[:0] if alone and self.network.needs_variance else batch

    def _scores(self, step: Step, index: Tensor) -> tuple[Tensor, Tensor]:
        pool = self.pool
        index = index.to(pool.tokens.device)
        batch = self.network.gather(pool.tokens, pool.labels, pool.bias, index)
        step.bias = batch.bias
        return self.network.forward(step, batch.inputs), batch.labels

    def _step(self, runs: slice, index: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
        """One update of some runs on batches (runs, trials); their losses and hits."""
        part = self._slice(runs)
        step = part.training_step(index.shape[1])
        scores, labels = self._scores(step, index)
        loss, d_scores = cross_entropy(scores, labels, step.valid, self.recipe.label_smoothing)
        part.learn(step, d_scores)
        return loss.numpy(force=True), _hits(scores, labels, step.valid)

    def _record(
        self,
        part: str,
        number: int,
        loss: NDArray[np.float64],
        accuracy: NDArray[np.float64],
        ran: NDArray[np.bool_],
    ) -> None:
        self.curves[f"{part} loss"][ran, number] = loss[ran]
        self.curves[f"{part} accuracy"][ran, number] = accuracy[ran]

    def _check_finite(self, number: int, ran: NDArray[np.bool_]) -> None:
        lost = ran & ~np.isfinite(self.curves["train loss"][:, number])
        if lost.any():
            raise TrainingError(
                f"Training ran away in epoch {number + 1}: the loss is no longer a number. Lower "
                f"learning_rate (now {self.recipe.learning_rate:g}), or scale the tokens."
            )

    def _select(self, number: int) -> None:
        """Keep the best weights, stop runs that no longer improve."""
        state, active = self.state, self.state.active
        loss = torch.from_numpy(self.curves["validation loss"][:, number]).to(state.best_loss)
        better = active & (loss < state.best_loss)
        state.best_loss[better] = loss[better]
        state.best_epoch[better] = number + 1
        if state.best_weights.shape[1]:
            for run in better.nonzero().flatten().tolist():
                state.best_weights[run] = state.weights[run]
                state.best_buffers[run] = state.buffers[run]
        if self.recipe.patience is not None:
            active &= number + 1 - state.best_epoch < self.recipe.patience


def _hits(scores: Tensor, labels: Tensor, valid: int) -> NDArray[np.int64]:
    """Right answers of each run (runs,) among the trials that count."""
    right = scores[..., :valid].argmax(1) == labels[:, :valid]
    return right.sum(1).numpy(force=True)


def _equal_neighbours(batches: Sequence[NDArray[np.int64]]) -> Iterator[tuple[slice, Tensor]]:
    """Slices of neighbouring runs whose batches have equal size, and those batches stacked."""
    start = 0
    while start < len(batches):
        stop = start + 1
        while stop < len(batches) and len(batches[stop]) == len(batches[start]):
            stop += 1
        if len(batches[start]):
            yield slice(start, stop), torch.from_numpy(np.stack(batches[start:stop]))
        start = stop
