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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from spdtokens.runtime.threads import usable_threads
from spdtokens.spd.parallel import share_out
from spdtokens.training.checkpoint import Checkpoint
from spdtokens.training.group import Group, Pool
from spdtokens.training.network import BatchedNetwork, TokenModel
from spdtokens.training.recipe import Recipe, TrainingError
from spdtokens.training.state import RunStates, load_into

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
            raise TrainingError(
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

        share_out(train, self._groups, usable_threads())
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
    TrainingError
    """
    if not plans:
        raise TrainingError("There are no runs to train.")
    names = set(plans[0].parts())
    for number, plan in enumerate(plans):
        where = f"Run {number} (seed {plan.seed})"
        if set(plan.parts()) != names:
            raise TrainingError(
                f"{where} has the parts {sorted(plan.parts())}, the first run {sorted(names)}: "
                "runs trained together have the same ones."
            )
        for name, index in plan.parts().items():
            if len(index) == 0:
                raise TrainingError(f"{where} has no {name} trials.")
        if recipe.needs_validation and plan.validation is None:
            raise TrainingError(
                f"{where}: keep='best' and patience choose by validation trials, and none are "
                "given. Hold some training trials back."
            )
        if plan.validation is not None:
            shared = np.intersect1d(plan.train, plan.validation)
            if len(shared):
                raise TrainingError(
                    f"{where} validates on trials it trains on: {shared[:5].tolist()}."
                )
        trained_on = np.bincount(pool.labels.numpy(force=True)[plan.train], minlength=n_classes)
        missing = np.flatnonzero(trained_on == 0)
        if len(missing):
            raise TrainingError(
                f"{where} has no training trials of class {', '.join(map(str, missing))}: the "
                "network could never learn to predict it. Train on trials of every class, or "
                "leave the class out."
            )
