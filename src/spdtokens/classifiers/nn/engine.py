"""Train many runs of one architecture as one batched network.

Small networks on small data spend most of their time on overhead, not on arithmetic. Runs (seeds x
subjects x folds) therefore share every operation: all weights have a leading axis of runs. Each run
has its own trials, trial order, dropout and step count, and its result does not depend on the other
runs, bit for bit. Groups of runs are trained in parallel, one thread per group. Every operation
uses one thread, whatever the number of runs.
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

#: Number of trials per run that are evaluated at a time.
EVALUATED_AT_ONCE = 256
#: Number of runs that share their operations: enough to hide the cost of a call, few enough that
#: the activations stay in the cache between two layers.
GROUP_SIZE = 12

Curves = dict[str, NDArray[np.float64]]


class RunStreams:
    """Independent random streams of one seed: initial weights, order of trials and dropout.

    Parameters
    ----------
    seed : int
        Seed >= 0.
    """

    def __init__(self, seed: int) -> None:
        weights, order, dropout = np.random.SeedSequence(seed).spawn(3)
        self._weights_seed = int(weights.generate_state(1, np.uint64)[0] >> 1)
        self.order = np.random.Generator(np.random.PCG64(order))
        self.dropout = np.random.Generator(np.random.SFC64(dropout))

    def weights(self) -> torch.Generator:
        """Return a new generator for the initial weights."""
        return torch.Generator().manual_seed(self._weights_seed)


def dropout_masks(streams: Sequence[RunStreams], entries: int, p: float, device: Any) -> Tensor:
    """Draw dropout masks (runs, entries): 0 with probability ``p``, else 1 / (1 - p).

    Each entry takes 16 random bits, so ``p`` is rounded to a multiple of 1 / 65536. The scale of
    the kept entries uses the rounded value, which keeps the mean exact.
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
    """Trials that the runs of a training share.

    Parameters
    ----------
    tokens : Tensor, shape (n, n_tokens, n_features)
        Tokens in float32. Their device is where training happens.
    labels : Tensor, shape (n,)
        Class numbers from 0, in int64.
    bias : Tensor, shape (n, n_tokens, n_tokens), default=None
        Bias of the attention scores in float32, see :func:`geometric_bias`.

    See Also
    --------
    RunPlan : Trials of the pool that one run is trained on.
    train_runs : Train runs on a pool.

    Examples
    --------
    >>> import torch
    >>> from spdtokens.classifiers.nn import Pool
    >>> pool = Pool(torch.zeros(20, 1, 6), torch.arange(20) % 2)
    >>> pool.tokens.shape
    torch.Size([20, 1, 6])
    """

    tokens: Tensor
    labels: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class RunPlan:
    """Seed and trials of one run.

    Parameters
    ----------
    seed : int
        Seed of initial weights, order of trials and dropout.
    train : ndarray of int, shape (n,)
        Training trials, as indices into the pool.
    validation : ndarray of int, shape (n_validation,), default=None
        Trials that choose the epoch (``keep='best'``, ``patience``). Otherwise they only add a
        curve. They are never trained on.
    watched : mapping of str to ndarray of int, default={}
        More trials to score after every epoch, by name (``'test'``). They only add curves: no
        epoch is chosen by them.

    See Also
    --------
    train_runs : Train runs together.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.classifiers.nn import RunPlan
    >>> plan = RunPlan(42, np.arange(60), watched={"test": np.arange(60, 90)})
    >>> list(plan.parts())
    ['train', 'test']
    """

    seed: int
    train: NDArray[np.int64]
    validation: NDArray[np.int64] | None = None
    watched: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def parts(self) -> dict[str, NDArray[np.int64]]:
        """Return all parts by name.

        Returns
        -------
        dict of str to ndarray of int
            Training trials first, then watched trials, then validation trials.
        """
        parts = {"train": self.train, **self.watched}
        return parts if self.validation is None else parts | {"validation": self.validation}

    def moved(self, by: int) -> RunPlan:
        """Shift all indices.

        Parameters
        ----------
        by : int
            Number that is added to every index.

        Returns
        -------
        RunPlan
            Plan for a pool in which the trials begin ``by`` places later.
        """
        validation = None if self.validation is None else by + self.validation
        watched = {name: by + index for name, index in self.watched.items()}
        return RunPlan(self.seed, by + self.train, validation, watched)


@dataclass(frozen=True)
class TrainedRun:
    """Result of a run.

    Parameters
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        Trained network, in evaluation mode and on the CPU.
    curves : dict of str to ndarray, shape (n_epochs,)
        ``'train loss'`` and ``'train accuracy'`` of the batches as they were trained on, with
        dropout, and the same for every other part, scored after the epoch. Shorter than the
        recipe's epochs if training was stopped early.
    epoch : int
        Epoch whose weights were kept, counted from 1.

    See Also
    --------
    train_runs : Train runs together.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from spdtokens.classifiers.nn import Pool, Recipe, RunPlan, SPDTokenMLP, train_runs
    >>> pool = Pool(torch.randn(20, 1, 6), torch.arange(20) % 2)
    >>> network = SPDTokenMLP(6, 1, 2, width=8)
    >>> (run,) = train_runs(network, pool, [RunPlan(0, np.arange(20))], Recipe(epochs=3))
    >>> run.epoch, run.curves["train loss"].shape
    (3, (3,))
    """

    model: TokenModel
    curves: dict[str, NDArray[np.float64]]
    epoch: int


class Training:
    """Runs that are being trained.

    Parameters
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        Architecture. Its weights are not used: every run draws its own from its seed.
    pool : Pool
        All trials. Their device is where training happens.
    plans : sequence of RunPlan
        Seed and trials of each run.
    recipe : Recipe
        Optimiser, number of epochs and choice of the epoch.

    Attributes
    ----------
    epochs : int
        Number of epochs done so far.
    state : dict of str to Tensor, shape (n_runs, ...)
        Weights and running moments of batch norms, Adam's moments, and its number of updates per
        layer.
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
        # Runs step together as long as their batches have equal size. After sorting by the number
        # of training trials, such runs are neighbours: a step works on slices and copies nothing. A
        # run that has stopped, or has no batch left in an epoch, is left out.
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
        """Train all runs for more epochs, at most until the last of the recipe.

        Parameters
        ----------
        epochs : int
            Number of epochs.
        listener : callable, default=None
            Called with the number of run-epochs that were done.
        """
        numbers = range(self.epochs, min(self.epochs + epochs, self.recipe.epochs))

        def train(group: slice) -> None:
            for number in numbers:
                if self._active[group].any():
                    self._epoch(group, number)
                if listener:
                    listener(group.stop - group.start)

        share_out(train, _groups(len(self), self.pool.tokens.device))
        self._views.clear()  # frees memory that only training needs
        self.epochs = numbers.stop

    def results(self) -> list[TrainedRun]:
        """Return the trained runs.

        Returns
        -------
        list of TrainedRun
            In the order of the plans.
        """
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
        """Train the active runs of a group for one epoch (numbered from 0), then score them."""
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
        """Yield slices of neighbouring runs with batches of equal size, and the stacked batches."""
        least = self.network.least_batch if training else 1
        for size, some in itertools.groupby(enumerate(batches, first), lambda b: len(b[1])):
            rows, equal = zip(*some, strict=True)
            if size >= least:
                yield slice(rows[0], rows[-1] + 1), torch.from_numpy(np.stack(equal))

    def _step(
        self, runs: slice, index: Tensor, *, training: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return loss and number of hits of runs on batches (runs, trials); update if training."""
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
            # Each layer is updated as soon as its gradient is known. All layers therefore share one
            # buffer for gradients, which is small enough to stay in the cache.
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
        """Return inputs, labels and bias of trials (runs, valid), padded to an aligned number."""
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
        """Return the weights of runs by name, and gradients and Adam's tensors of each layer."""
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
        """Keep the weights of the best epoch, and stop a run that no longer improves."""
        loss = np.float32(self.curves["validation loss"][row, number])
        if loss < self._best_loss[row]:
            self._best_loss[row], self._best_epoch[row] = loss, number + 1
            if self.recipe.keep == "best":
                self._kept[row] = self.state["weights"][row].clone()
        if self.recipe.patience is not None:
            self._active[row] = number + 1 - self._best_epoch[row] < self.recipe.patience


#: Weights by name; for each layer its gradients by name and the tensors of Adam.
_Views = tuple[dict[str, Tensor], list[tuple[dict[str, Tensor], list[list[Tensor]]]]]


def train_runs(
    model: TokenModel,
    pool: Pool,
    plans: Sequence[RunPlan],
    recipe: Recipe,
    *,
    listener: Listener | None = None,
) -> list[TrainedRun]:
    """Train runs together, each as if it were trained alone.

    Parameters
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        Architecture. Its weights are not used: every run draws its own from its seed.
    pool : Pool
        All trials. Their device is where training happens.
    plans : sequence of RunPlan
        Seed and trials of each run.
    recipe : Recipe
        Optimiser, number of epochs and choice of the epoch.
    listener : callable, default=None
        Called with the number of run-epochs that were just done, from the threads that train.

    Returns
    -------
    list of TrainedRun
        In the order of ``plans``.

    Raises
    ------
    ModelError
        If a run cannot be trained: a class without training trials, validation trials among the
        training trials or missing, or a loss that is not finite.

    See Also
    --------
    spdtokens.fit_together : Fit scikit-learn estimators together.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from spdtokens import SPDTokenTransformer
    >>> from spdtokens.classifiers.nn import Pool, Recipe, RunPlan, train_runs
    >>> pool = Pool(torch.randn(30, 2, 6), torch.arange(30) % 3)
    >>> network = SPDTokenTransformer(6, 2, 3, d_model=8, n_layers=1, n_heads=2)
    >>> plans = [RunPlan(seed, np.arange(20), np.arange(20, 30)) for seed in range(4)]
    >>> runs = train_runs(network, pool, plans, Recipe(epochs=2, keep="best"))
    >>> runs[0].model(pool.tokens).shape
    torch.Size([30, 3])
    """
    training = Training(model, pool, plans, recipe)
    training.advance(recipe.epochs, listener)
    return training.results()


def _groups(runs: int, device: torch.device) -> list[slice]:
    """Split runs evenly into as many groups as keep every thread busy."""
    if device.type != "cpu":
        return [slice(0, runs)]  # one graphics card does everything at once
    threads = usable_threads()
    rounds = -(-runs // (threads * GROUP_SIZE))
    count = min(runs, threads * rounds)
    edges = np.linspace(0, runs, count + 1).round().astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def check_plans(plans: Sequence[RunPlan], labels: Tensor, recipe: Recipe, n_classes: int) -> None:
    """Raise ModelError for runs that cannot be trained, before any work is done."""
    if not plans:
        raise ModelError("plans is empty: there are no runs to train.")
    names, classes = sorted(plans[0].parts()), labels.numpy(force=True)
    for number, plan in enumerate(plans):
        parts = plan.parts()
        empty = [name for name, index in parts.items() if not len(index)]
        missing = np.setdiff1d(np.arange(n_classes), classes[plan.train]).tolist()
        shared = np.intersect1d(plan.train, parts.get("validation", [])).tolist()
        for wrong, what in (
            (sorted(parts) != names, f"must have the parts {names}, got {sorted(parts)}"),
            (empty, f"has no {', '.join(empty)} trials"),
            (
                recipe.needs_validation and plan.validation is None,
                "has no validation trials, which keep='best' and patience need: pass validation, "
                "the share of training trials to hold out, such as 0.2",
            ),
            (shared, f"has validation trials among its training trials: {shared[:5]}"),
            (
                missing,
                f"has no training trials of class {', '.join(map(str, missing))}: train on trials "
                "of every class, or remove the class",
            ),
        ):
            if wrong:
                raise ModelError(f"Run {number} (seed {plan.seed}) {what}.")
