"""Train many runs of one architecture as one batched network.

Small networks on small data spend their time on everything but arithmetic. So runs (seeds x
subjects x folds) share every operation: weights have a leading axis of runs. Each run has its own
trials, order, dropout and step count, and its result does not depend on its neighbours, bit by
bit. Groups of runs are trained side by side, one thread each: no thread ever waits for another in
the middle of a step, and every operation is done by one thread, whatever the number of runs.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from spdtokens._files import written_whole
from spdtokens.classifiers.nn.layers import (
    BatchedNetwork,
    Layout,
    Step,
    TokenModel,
    aligned,
    copy_to_row,
    cross_entropy,
)
from spdtokens.classifiers.nn.recipe import Recipe
from spdtokens.errors import ModelError
from spdtokens.runtime.threads import share_out, usable_threads

# Random numbers of a run: its own, whatever trains beside it.


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

    def bits(self, entries: int) -> NDArray[np.int16]:
        """The next 16 random bits for each of so many dropout decisions."""
        words = -(-entries // 4)
        drawn = self.dropout.integers(0, 2**64 - 1, words, dtype=np.uint64, endpoint=True)
        return drawn.view(np.int16)[:entries]

    def state(self) -> dict[str, Any]:
        """Where the streams are, as plain values."""
        dropout: dict[str, Any] = dict(self.dropout.bit_generator.state)
        dropout["state"] = {"state": dropout["state"]["state"].tolist()}
        return {"order": self.order.bit_generator.state, "dropout": dropout}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state` was taken."""
        self.order.bit_generator.state = state["order"]
        dropout = dict(state["dropout"])
        dropout["state"] = {"state": np.array(dropout["state"]["state"], dtype=np.uint64)}
        self.dropout.bit_generator.state = dropout


def dropout_masks(streams: Sequence[RunStreams], entries: int, p: float, device: Any) -> Tensor:
    """Masks (runs, entries) that are 0 with probability ``p`` and otherwise make up for it.

    Sixteen bits decide each entry, so ``p`` is rounded to a multiple of 1 / 65536; kept entries
    are scaled by what the rounded value demands, which leaves the mean exact.
    """
    dropped = max(1, round(p * 65536))
    masks = torch.empty(len(streams), entries)
    for mask, stream in zip(masks, streams, strict=True):
        torch.ge(torch.from_numpy(stream.bits(entries)), dropped - 32768, out=mask)
    return masks.mul_(65536 / (65536 - dropped)).to(device)


# What training changes: weights, moments, running statistics, random streams.


@dataclass
class RunStates:
    """The state of runs, a row each; a slice of it shares the memory of the whole.

    Attributes
    ----------
    weights : Tensor, shape (runs, parameters)
    first, second : Tensor, shape (runs, live parameters)
        Adam's moments.
    steps : Tensor, shape (runs, layers)
        Updates done; the optimizer counts them for each layer.
    buffers : Tensor, shape (runs, buffers)
    best_weights, best_buffers : Tensor
        Those with the lowest validation loss; empty (runs, 0) unless they are to be kept.
    best_loss : Tensor, shape (runs,)
    best_epoch : Tensor of int64, shape (runs,)
        Epoch, from 1, of the lowest validation loss; 0 for none.
    active : Tensor of bool, shape (runs,)
        False for a run that was stopped early.
    streams : list of RunStreams
    """

    weights: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor
    buffers: Tensor
    best_weights: Tensor
    best_buffers: Tensor
    best_loss: Tensor
    best_epoch: Tensor
    active: Tensor
    streams: list[RunStreams] = field(default_factory=list)

    @classmethod
    def initial(
        cls,
        network: BatchedNetwork,
        model: TokenModel,
        seeds: Sequence[int],
        *,
        keep_best: bool,
        device: torch.device,
    ) -> RunStates:
        """Fresh runs, their weights drawn from their seeds; ``model`` is used to draw them."""
        streams = [RunStreams(seed) for seed in seeds]
        runs = len(seeds)
        weights = torch.zeros(runs, network.parameters.size)
        buffers = torch.zeros(runs, network.buffers.size)
        for run, stream in enumerate(streams):
            model.reset_parameters(stream.weights())
            copy_to_row(model, network.parameters, weights[run])
            copy_to_row(model, network.buffers, buffers[run])
        weights, buffers = weights.to(device), buffers.to(device)
        return cls(
            weights=weights,
            first=torch.zeros(runs, network.live, device=device),
            second=torch.zeros(runs, network.live, device=device),
            steps=torch.zeros(runs, len(network.layers), device=device),
            buffers=buffers,
            best_weights=weights.clone() if keep_best else weights[:, :0].clone(),
            best_buffers=buffers.clone() if keep_best else buffers[:, :0].clone(),
            best_loss=torch.full((runs,), float("inf")),
            best_epoch=torch.zeros(runs, dtype=torch.int64),
            active=torch.ones(runs, dtype=torch.bool),
            streams=streams,
        )

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, part: slice) -> RunStates:
        tensors = {name: tensor[part] for name, tensor in self.tensors().items()}
        return RunStates(**tensors, streams=self.streams[part])

    def tensors(self) -> dict[str, Tensor]:
        """All but the streams, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def kept(self, run: int) -> tuple[Tensor, Tensor]:
        """Weights and buffers to keep of a run: the best if they were asked for, else the last."""
        if self.best_weights.shape[1] and self.best_epoch[run]:
            return self.best_weights[run], self.best_buffers[run]
        return self.weights[run], self.buffers[run]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a file."""
        return {name: tensor.cpu().numpy() for name, tensor in self.tensors().items()}

    def restore(self, arrays: dict[str, NDArray[Any]], streams: list[dict[str, Any]]) -> None:
        """Take over what was saved."""
        for name, tensor in self.tensors().items():
            tensor.copy_(torch.from_numpy(np.asarray(arrays[name])))
        for stream, saved in zip(self.streams, streams, strict=True):
            stream.restore(saved)


def load_into(
    model: TokenModel, network: BatchedNetwork, weights: Tensor, buffers: Tensor
) -> TokenModel:
    """Put flat weights and buffers of a run into a module, which is returned in eval mode."""
    sources = _named(network.parameters, weights) | _named(network.buffers, buffers)
    model.load_state_dict(sources, strict=False)
    return model.eval()


def _named(layout: Layout, row: Tensor) -> dict[str, Tensor]:
    return {name: view[0] for name, view in layout.views(row[None]).items()}


# Runs that take a step together.


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


# A few runs trained together on one thread.

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
            raise ModelError(
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


#: Runs that share their operations: enough to hide the cost of a call, few enough that what a
#: layer hands to the next is still in the cache.
GROUP_SIZE = 12

#: Told how many run-epochs, or runs, were just done.
Listener = Callable[[float], None]


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
        """All parts by name."""
        parts = {"train": self.train, **self.watched}
        return parts if self.validation is None else parts | {"validation": self.validation}


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
        check_plans(plans, pool, recipe, model.n_classes)
        self.recipe, self.epochs = recipe, 0
        self.network = network = BatchedNetwork(model)
        if recipe.batch_size * network.tokens == 1 and network.needs_variance:
            raise ModelError(
                "Batches of one trial with one token have no variance, so BN-Embed cannot train "
                "on them. Use a larger batch_size, or bn_embed=False."
            )
        self._model = copy.deepcopy(model)
        # Neighbours of equal size step together.
        self._order = sorted(range(len(plans)), key=lambda i: -len(plans[i].train))
        runs = [plans[i] for i in self._order]
        self.state = RunStates.initial(
            network,
            self._model,
            [run.seed for run in runs],
            keep_best=recipe.keep == "best",
            device=pool.tokens.device,
        )
        parts = [run.parts() for run in runs]
        self.curves = {
            f"{name} {what}": np.full((len(runs), recipe.epochs), np.nan)
            for name in parts[0]
            for what in ("loss", "accuracy")
        }
        self._groups = [
            Group(
                network,
                self.state[part],
                pool,
                parts[part],
                recipe,
                {name: curve[part] for name, curve in self.curves.items()},
            )
            for part in _groups(len(runs), pool.tokens.device)
        ]

    def __len__(self) -> int:
        return len(self.state)

    def advance(self, epochs: int, listener: Listener | None = None) -> None:
        """Train all runs for so many more epochs, or until the recipe's last."""
        numbers = range(self.epochs, min(self.epochs + epochs, self.recipe.epochs))

        def train(group: Group) -> None:
            for number in numbers:
                if group.state.active.any():
                    group.epoch(number)
                if listener:
                    listener(len(group))
            group.release()

        share_out(train, self._groups)
        self.epochs = numbers.stop

    def results(self) -> list[TrainedRun]:
        """Trained runs, in the order of the plans."""
        placed = sorted(zip(self._order, range(len(self)), strict=True))
        return [self._result(row) for _, row in placed]

    def _result(self, row: int) -> TrainedRun:
        lasted = int(np.isfinite(self.curves["train loss"][row]).sum())
        best = self.recipe.keep == "best" and int(self.state.best_epoch[row])
        weights, buffers = self.state.kept(row)
        return TrainedRun(
            model=load_into(copy.deepcopy(self._model), self.network, weights.cpu(), buffers.cpu()),
            curves={name: curve[row, :lasted].copy() for name, curve in self.curves.items()},
            epoch=best or lasted,
        )


def train_runs(
    model: TokenModel,
    pool: Pool,
    plans: Sequence[RunPlan],
    recipe: Recipe,
    *,
    listener: Listener | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
) -> list[TrainedRun]:
    """Train runs together, each as if it were alone.

    Parameters
    ----------
    model, pool, plans, recipe
        As in :class:`Training`.
    listener : callable, optional
        For progress bars; called from the threads that train.
    checkpoint : Path, optional
        File to save to every ``checkpoint_every`` epochs, and to go on from if it exists. It stays
        when training is done; a checkpoint of another training is refused.

    Returns
    -------
    list of TrainedRun
        In the order of ``plans``.
    """
    training = Training(model, pool, plans, recipe)
    if checkpoint is None:
        training.advance(recipe.epochs, listener)
        return training.results()
    file = Checkpoint(checkpoint, training.network, pool, plans, recipe)
    training.epochs = file.load(training.state, training.curves)
    if listener:
        listener(training.epochs * len(plans))
    while training.epochs < recipe.epochs:
        training.advance(checkpoint_every, listener)
        file.save(training.state, training.curves, training.epochs)
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


def check_plans(plans: Sequence[RunPlan], pool: Pool, recipe: Recipe, n_classes: int) -> None:
    """Refuse runs that cannot be trained, before any work is done.

    Raises
    ------
    ModelError
    """
    if not plans:
        raise ModelError("There are no runs to train.")
    names = set(plans[0].parts())
    for number, plan in enumerate(plans):
        where = f"Run {number} (seed {plan.seed})"
        if set(plan.parts()) != names:
            raise ModelError(
                f"{where} has the parts {sorted(plan.parts())}, the first run {sorted(names)}: "
                "runs trained together have the same ones."
            )
        for name, index in plan.parts().items():
            if len(index) == 0:
                raise ModelError(f"{where} has no {name} trials.")
        if recipe.needs_validation and plan.validation is None:
            raise ModelError(
                f"{where}: keep='best' and patience choose by validation trials, and none are "
                "given. Hold some training trials back."
            )
        if plan.validation is not None:
            shared = np.intersect1d(plan.train, plan.validation)
            if len(shared):
                raise ModelError(
                    f"{where} validates on trials it trains on: {shared[:5].tolist()}."
                )
        trained_on = np.bincount(pool.labels.numpy(force=True)[plan.train], minlength=n_classes)
        missing = np.flatnonzero(trained_on == 0)
        if len(missing):
            raise ModelError(
                f"{where} has no training trials of class {', '.join(map(str, missing))}: the "
                "network could never learn to predict it. Train on trials of every class, or "
                "leave the class out."
            )


# Interrupted training goes on from the last saved epoch.


class Checkpoint:
    """A file that holds the state of runs after some epochs: arrays and JSON, no pickle.

    Parameters
    ----------
    path : Path
        Ends in ``.npz``.
    network, pool, plans, recipe
        Of the training; a file of any other training is refused.
    """

    def __init__(
        self,
        path: Path,
        network: BatchedNetwork,
        pool: Pool,
        plans: Sequence[RunPlan],
        recipe: Recipe,
    ) -> None:
        if path.suffix != ".npz":
            raise ModelError(f"A checkpoint is a .npz file, not {path.name}.")
        if not path.parent.is_dir():
            raise ModelError(f"There is no folder {path.parent} for the checkpoint.")
        self.path = path
        self.fingerprint = _fingerprint(network, pool, plans, recipe)

    def save(self, state: RunStates, curves: Curves, epochs: int) -> None:
        """Write the state after so many epochs; the file before stays until this one is whole."""
        about = {
            "fingerprint": self.fingerprint,
            "epochs": epochs,
            "streams": [stream.state() for stream in state.streams],
        }
        arrays = state.to_arrays() | {f"curve {name}": curve for name, curve in curves.items()}
        with written_whole(self.path) as temporary:
            np.savez(temporary, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)

    def load(self, state: RunStates, curves: Curves) -> int:
        """Take over a saved state if there is one; the epochs already done."""
        if not self.path.exists():
            return 0
        try:
            with self.path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about: dict[str, Any] = json.loads(str(arrays.pop("about")))
        except (ValueError, KeyError, BadZipFile, OSError, EOFError) as error:
            raise ModelError(
                f"{self.path} cannot be read as a checkpoint ({error}). Remove it to start anew."
            ) from error
        if about.get("fingerprint") != self.fingerprint:
            raise ModelError(
                f"{self.path} belongs to another training: other trials, seeds, network or "
                "recipe. Remove it, or give another file."
            )
        for name, curve in curves.items():
            curve[:] = arrays.pop(f"curve {name}")
        state.restore(arrays, about["streams"])
        return int(about["epochs"])


def _fingerprint(
    network: BatchedNetwork, pool: Pool, plans: Sequence[RunPlan], recipe: Recipe
) -> str:
    """A hash of all that the result depends on."""
    digest = hashlib.sha256()
    shape = {
        "network": network.about,
        "recipe": asdict(recipe),
        "seeds": [plan.seed for plan in plans],
    }
    digest.update(json.dumps(shape, sort_keys=True).encode())
    arrays = [pool.tokens, pool.labels, *([] if pool.bias is None else [pool.bias])]
    for tensor in arrays:
        digest.update(np.ascontiguousarray(tensor.numpy(force=True)).tobytes())
    for plan in plans:
        for name, index in plan.parts().items():
            digest.update(name.encode() + np.ascontiguousarray(index).tobytes())
    return digest.hexdigest()
