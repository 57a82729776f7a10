"""Train many runs of one architecture as one batched network.

Small networks on small data spend their time on everything but arithmetic. So runs (seeds x
subjects x folds) share every operation: weights have a leading axis of runs. Each run has its own
trials, order, dropout and step count, and its result does not depend on its neighbours, bit by
bit. Groups of runs are trained side by side, one thread each: no thread ever waits for another in
the middle of a step, and every operation is done by one thread, whatever the number of runs.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from spdtokens.classifiers.nn.layers import (
    BatchedNetwork,
    Step,
    TokenModel,
    aligned,
    cross_entropy,
)
from spdtokens.classifiers.nn.recipe import Listener, Recipe
from spdtokens.errors import ModelError
from spdtokens.runtime.threads import share_out, usable_threads

#: Trials of a run that are evaluated at a time.
EVALUATED_AT_ONCE = 256
#: Runs that share their operations: enough to hide the cost of a call, few enough that what a
#: layer hands to the next is still in the cache.
GROUP_SIZE = 12

Curves = dict[str, NDArray[np.float64]]


class RunStreams:
    """Three independent streams of a seed: initial weights, order of trials, dropout.

    Parameters
    ----------
    seed : int
        Not negative.
    """

    def __init__(self, seed: int) -> None:
        weights, order, dropout = np.random.SeedSequence(seed).spawn(3)
        self._weights_seed = int(weights.generate_state(1, np.uint64)[0] >> 1)
        self.order = np.random.Generator(np.random.PCG64(order))
        self.dropout = np.random.Generator(np.random.SFC64(dropout))

    def weights(self) -> torch.Generator:
        """A fresh generator for the initial weights."""
        return torch.Generator().manual_seed(self._weights_seed)


def dropout_masks(streams: Sequence[RunStreams], entries: int, p: float, device: Any) -> Tensor:
    """Masks (runs, entries) that are 0 with probability ``p`` and otherwise make up for it.

    Sixteen bits decide each entry, so ``p`` is rounded to a multiple of 1 / 65536; kept entries
    are scaled by what the rounded value demands, which leaves the mean exact.
    """
    dropped = max(1, round(p * 65536))
    masks = torch.empty(len(streams), entries)
    for mask, stream in zip(masks, streams, strict=True):
        words = stream.dropout.integers(0, 2**64 - 1, -(-entries // 4), np.uint64, endpoint=True)
        bits = torch.from_numpy(words.view(np.int16)[:entries])
        torch.ge(bits, dropped - 32768, out=mask)
    return masks.mul_(65536 / (65536 - dropped)).to(device)


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


@dataclass(frozen=True)
class RunPlan:
    """What one run trains on.

    Attributes
    ----------
    seed : int
    train : ndarray of int, shape (n,)
        Indices into the pool of trials.
    validation : ndarray of int, optional
        Trials to choose the epoch by, or only to draw a curve; never trained on.
    watched : mapping of str to ndarray of int
        Trials scored after every epoch for plots only, by name (``'test'``). Nothing is ever
        chosen by them.
    """

    seed: int
    train: NDArray[np.int64]
    validation: NDArray[np.int64] | None = None
    watched: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def parts(self) -> dict[str, NDArray[np.int64]]:
        """All parts by name, those to train on first."""
        parts = {"train": self.train, **self.watched}
        return parts if self.validation is None else parts | {"validation": self.validation}

    def moved(self, by: int) -> RunPlan:
        """The same trials where all lie so many places further on in the pool."""
        validation = None if self.validation is None else by + self.validation
        watched = {name: by + index for name, index in self.watched.items()}
        return RunPlan(self.seed, by + self.train, validation, watched)


@dataclass(frozen=True)
class TrainedRun:
    """What became of a run.

    Attributes
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        In eval mode, on the processor.
    curves : dict of str to ndarray, shape (epochs,)
        ``'train loss'`` and ``'train accuracy'`` (of the batches as they were trained on, with
        dropout), and the same of every other part, scored after the epoch. Shorter if stopped.
    epoch : int
        From 1: the epoch whose weights were kept.
    """

    model: TokenModel
    curves: dict[str, NDArray[np.float64]]
    epoch: int


class Training:
    """Runs under way.

    Parameters
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        The architecture. Its own weights do not matter: every run draws its own from its seed.
    pool : Pool
        All trials. Its device is where training happens.
    plans : sequence of RunPlan
    recipe : Recipe

    Attributes
    ----------
    epochs : int
        Done so far.
    """

    def __init__(
        self, model: TokenModel, pool: Pool, plans: Sequence[RunPlan], recipe: Recipe
    ) -> None:
        check_plans(plans, pool.labels, recipe, model.n_classes)
        self.pool, self.recipe, self.epochs = pool, recipe, 0
        self.network = network = BatchedNetwork(model)
        if recipe.batch_size < network.least_batch:
            raise ModelError(
                "A batch of one trial with one token has no variance, so a batch norm cannot train "
                f"on it: batch_size must be >= 2, got {recipe.batch_size}."
            )
        self._model = copy.deepcopy(model)
        # Runs step together as long as their batches have equal size. Sorted by the size of their
        # training sets, such runs are neighbours, so that every step works on slices and copies
        # nothing; a run that has no batch left in an epoch, or has stopped, is left out.
        self._order = sorted(range(len(plans)), key=lambda i: -len(plans[i].train))
        runs, n = [plans[i] for i in self._order], len(plans)
        self.parts = [run.parts() for run in runs]
        self.curves = {
            f"{name} {what}": np.full((n, recipe.epochs), np.nan)
            for name in self.parts[0]
            for what in ("loss", "accuracy")
        }
        self.streams = [RunStreams(run.seed) for run in runs]
        weights = torch.zeros(n, network.layout.size)
        for row, stream in enumerate(self.streams):
            self._model.reset_parameters(stream.weights())
            network.layout.copy_from(self._model, weights[row])
        device = pool.tokens.device
        #: A row per run: weights and running moments of batch norms, Adam's moments, and the number
        #: of its updates of each layer.
        self.state = {
            "weights": weights.to(device),
            "first": torch.zeros(n, network.learnt, device=device),
            "second": torch.zeros(n, network.learnt, device=device),
            "steps": torch.zeros(n, len(network.layers), device=device),
        }
        self._adam = partial(
            adam,
            lr=recipe.learning_rate,
            beta1=recipe.betas[0],
            beta2=recipe.betas[1],
            eps=1e-8,
            weight_decay=recipe.weight_decay,
            decoupled_weight_decay=recipe.decoupled,
            fused=True,
            amsgrad=False,
            maximize=False,
        )
        self._active = np.ones(n, dtype=bool)
        self._best_loss = np.full(n, np.inf, dtype=np.float32)
        self._best_epoch = np.zeros(n, dtype=int)
        self._kept: dict[int, Tensor] = {}  # weights of the best epoch
        self._views: dict[tuple[int, int], _Views] = {}

    def __len__(self) -> int:
        return len(self.streams)

    def advance(self, epochs: int, listener: Listener | None = None) -> None:
        """Train all runs for so many more epochs, or until the recipe's last."""
        numbers = range(self.epochs, min(self.epochs + epochs, self.recipe.epochs))

        def train(group: slice) -> None:
            for number in numbers:
                if self._active[group].any():
                    self._epoch(group, number)
                if listener:
                    listener(group.stop - group.start)

        share_out(train, _groups(len(self), self.pool.tokens.device))
        self._views.clear()  # memory that only training needs
        self.epochs = numbers.stop

    def results(self) -> list[TrainedRun]:
        """Trained runs, in the order of the plans."""
        runs = []
        for row in np.argsort(self._order):
            lasted = int(np.isfinite(self.curves["train loss"][row]).sum())
            weights = self._kept.get(row, self.state["weights"][row])
            views = self.network.layout.views(weights[None])
            model = copy.deepcopy(self._model)
            model.load_state_dict({name: v[0].cpu() for name, v in views.items()}, strict=False)
            epoch = int(self._best_epoch[row]) if row in self._kept else lasted
            curves = {name: curve[row, :lasted].copy() for name, curve in self.curves.items()}
            runs.append(TrainedRun(model.eval(), curves, epoch))
        return runs

    def _epoch(self, group: slice, number: int) -> None:
        """Train every active run of a group for an epoch (numbered from 0), then score it."""
        ran = np.flatnonzero(self._active[group]) + group.start
        for part in self.parts[0]:
            loss, correct, seen = np.zeros((3, len(self)))
            index_of = [self.parts[row][part] for row in range(group.start, group.stop)]
            size = EVALUATED_AT_ONCE
            if part == "train":
                size = self.recipe.batch_size
                index_of = [
                    self.streams[row].order.permutation(index) if self._active[row] else index[:0]
                    for row, index in enumerate(index_of, group.start)
                ]
            seen[group] = [max(len(index), 1) for index in index_of]
            for start in range(0, max(map(len, index_of)), size):
                batches = [index[start : start + size] for index in index_of]
                for runs, index in self._equal_neighbours(group.start, batches, part == "train"):
                    step_loss, right = self._step(runs, index, training=part == "train")
                    loss[runs] += step_loss * index.shape[1]
                    correct[runs] += right
            self.curves[f"{part} loss"][ran, number] = loss[ran] / seen[ran]
            self.curves[f"{part} accuracy"][ran, number] = correct[ran] / seen[ran]
            if not np.isfinite(self.curves["train loss"][ran, number]).all():
                raise ModelError(
                    f"Training diverged at epoch {number + 1} (the loss is not finite): lower "
                    f"learning_rate (now {self.recipe.learning_rate:g}), or scale the tokens."
                )
        if self.recipe.needs_validation:
            for row in ran:
                self._select(row, number)

    def _equal_neighbours(
        self, first: int, batches: Sequence[NDArray[np.int64]], training: bool
    ) -> Iterator[tuple[slice, Tensor]]:
        """Slices of neighbouring runs whose batches have equal size, and those batches stacked."""
        least = self.network.least_batch if training else 1
        for size, some in itertools.groupby(enumerate(batches, first), lambda b: len(b[1])):
            rows, equal = zip(*some, strict=True)
            if size >= least:
                yield slice(rows[0], rows[-1] + 1), torch.from_numpy(np.stack(equal))

    def _step(
        self, runs: slice, index: Tensor, *, training: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Losses and hits of some runs on batches (runs, trials); in training one update, too."""
        network, recipe = self.network, self.recipe
        weights, updates = self._views_of(runs)
        valid, device = index.shape[1], self.pool.tokens.device
        inputs, labels, bias = self._gather(index.to(device))
        step = Step(weights, {}, network.tokens, labels.shape[1], valid, training, bias)
        if training and network.dropout:
            entries = network.dropped * step.trials
            step.masks = dropout_masks(self.streams[runs], entries, network.dropout, device)
        scores = network.forward(step, inputs)
        smoothing = recipe.label_smoothing if training else 0.0
        loss, d_scores = cross_entropy(scores, labels, valid, smoothing)
        right = (scores[..., :valid].argmax(1) == labels[:, :valid]).sum(1)
        if training:
            # Each layer is updated as soon as its gradient is known. So all layers share one piece
            # of memory for their gradients, small enough to stay in the cache until the optimizer
            # has read it.
            for layer, (grads, tensors) in zip(
                reversed(network.layers), reversed(updates), strict=True
            ):
                step.grads = grads
                d_scores = layer.backward(step, d_scores)
                if grads:
                    of_weights, of_grads, first, second, steps = tensors
                    self._adam(of_weights, of_grads, first, second, [], steps)
        return loss.numpy(force=True), right.numpy(force=True)

    def _gather(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Inputs, labels and bias of trials (runs, valid), repeated up to an aligned number."""
        pool, tokens = self.pool, self.network.tokens
        runs, valid = index.shape
        trials = aligned(valid)
        index = torch.cat([index, index[:, :1].expand(-1, trials - valid)], 1)
        if tokens == 1:
            rows = pool.tokens.flatten(1)[index]
        else:
            which = index.unsqueeze(1) * tokens + torch.arange(tokens, device=index.device)[:, None]
            rows = pool.tokens.flatten(0, 1)[which.flatten(1)]
        bias = pool.bias
        if bias is not None:
            bias = bias[index].permute(0, 2, 3, 1).unsqueeze(1).contiguous()
        return rows.mT, pool.labels[index.flatten()].view(runs, trials), bias

    def _views_of(self, runs: slice) -> _Views:
        """Weights of runs by name; for each layer its gradients, and Adam's tensors."""
        key = (runs.start, runs.stop)
        if key not in self._views:
            weights, first, second, steps = (tensor[runs] for tensor in self.state.values())
            layouts = self.network.layouts
            scratch = torch.zeros(len(weights), max(of.size for of in layouts)).to(weights)
            updates, start = [], 0
            for i, layout in enumerate(layouts):
                part = slice(start, start + layout.size)
                grads, start = scratch[:, : layout.size], part.stop
                tensors = (weights[:, part], grads, first[:, part], second[:, part], steps[:, i])
                updates.append((layout.views(grads), [list(tensor) for tensor in tensors]))
            self._views[key] = (self.network.layout.views(weights), updates)
        return self._views[key]

    def _select(self, row: int, number: int) -> None:
        """Keep the best weights of a run, stop it when it no longer improves."""
        loss = np.float32(self.curves["validation loss"][row, number])
        if loss < self._best_loss[row]:
            self._best_loss[row], self._best_epoch[row] = loss, number + 1
            if self.recipe.keep == "best":
                self._kept[row] = self.state["weights"][row].clone()
        if self.recipe.patience is not None:
            self._active[row] = number + 1 - self._best_epoch[row] < self.recipe.patience


#: Weights by name; for each layer its gradients by name, and what Adam works on.
_Views = tuple[dict[str, Tensor], list[tuple[dict[str, Tensor], list[list[Tensor]]]]]


def train_runs(
    model: TokenModel,
    pool: Pool,
    plans: Sequence[RunPlan],
    recipe: Recipe,
    *,
    listener: Listener | None = None,
) -> list[TrainedRun]:
    """Train runs together, each as if it were alone.

    Parameters
    ----------
    model, pool, plans, recipe
        As in :class:`Training`.
    listener : callable, optional
        For progress bars; called from the threads that train.

    Returns
    -------
    list of TrainedRun
        In the order of ``plans``.
    """
    training = Training(model, pool, plans, recipe)
    training.advance(recipe.epochs, listener)
    return training.results()


def _groups(runs: int, device: torch.device) -> list[slice]:
    """Runs shared out evenly, as many groups as keep every thread busy."""
    if device.type != "cpu":
        return [slice(0, runs)]  # one graphics card does everything at once
    threads = usable_threads()
    rounds = -(-runs // (threads * GROUP_SIZE))
    count = min(runs, threads * rounds)
    edges = np.linspace(0, runs, count + 1).round().astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def check_plans(plans: Sequence[RunPlan], labels: Tensor, recipe: Recipe, n_classes: int) -> None:
    """Refuse runs that cannot be trained, before any work is done.

    Raises
    ------
    ModelError
    """
    if not plans:
        raise ModelError("There are no runs to train.")
    names, classes = sorted(plans[0].parts()), labels.numpy(force=True)
    for number, plan in enumerate(plans):
        parts = plan.parts()
        empty = [name for name, index in parts.items() if not len(index)]
        missing = np.setdiff1d(np.arange(n_classes), classes[plan.train]).tolist()
        shared = np.intersect1d(plan.train, parts.get("validation", [])).tolist()
        for wrong, what in (
            (sorted(parts) != names, f"has the parts {sorted(parts)}, the first run {names}"),
            (empty, f"has no {', '.join(empty)} trials"),
            (
                recipe.needs_validation and plan.validation is None,
                "has no validation trials, by which keep='best' and patience choose: pass "
                "validation, the share of training trials to hold back, such as 0.2",
            ),
            (shared, f"validates on trials it trains on: {shared[:5]}"),
            (
                missing,
                f"has no training trials of class {', '.join(map(str, missing))}, which the "
                "network could never learn: train on trials of every class, or leave it out",
            ),
        ):
            if wrong:
                raise ModelError(f"Run {number} (seed {plan.seed}) {what}.")
