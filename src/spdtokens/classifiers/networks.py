"""Networks to compare with as scikit-learn classifiers, and their training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spdtokens._extras import how_to_install, is_installed
from spdtokens.classifiers.base import (
    ProbabilisticClassifier,
    check_finite,
    coded,
    encode,
    seed_of,
)
from spdtokens.classifiers.nn.engine import (
    EVALUATED_AT_ONCE,
    Curves,
    RunPlan,
    RunStreams,
    check_plans,
)
from spdtokens.classifiers.nn.networks import NETWORKS, Network, TrialShape
from spdtokens.classifiers.nn.recipe import (
    Listener,
    Recipe,
    TrainingBars,
    published_recipe,
    resolve_device,
)
from spdtokens.classifiers.transformer import Validation, planned
from spdtokens.errors import ModelError
from spdtokens.geometry.matrix_functions import as_tensor
from spdtokens.geometry.tokens import TokenEmbedding, as_matrices, matrix_tags
from spdtokens.preprocessing.filterbank import as_trials
from spdtokens.runtime.threads import one_thread


class NetworkClassifier(ProbabilisticClassifier):
    """Published network for comparison, on SPD matrices or raw trials.

    SPD networks take matrices and go after :class:`FilterBankCovariances`. Networks on raw EEG take
    trials and go after :class:`StandardTrials`.

    Parameters
    ----------
    network : str, default='spdnet'
        Name of the network. On matrices: ``'spdnet'``, ``'spdnet-paper'``, ``'spdtransnet'``. On
        trials: ``'eegnet'``, ``'eegnet-paper'``, ``'shallownet'``, ``'deepnet'``, ``'atcnet'``,
        ``'atcnet-paper'``, ``'eeg-conformer'``, ``'raw-transformer'``, ``'matt'``, ``'tsmnet'``.
    sfreq : float, default=None
        Sampling rate in Hz. Required for networks on trials.
    recipe : {'published', 'common'}, default='published'
        Recipe published with the network, or the paper's common one: Adam 1e-3, batches of 64,
        50 epochs, last epoch.
    epochs : int, default=None
        Number of epochs. By default the recipe's.
    validation : float, default=0.125
        Share of the training trials held out for validation, if the recipe chooses an epoch. The
        default is that of MAtt.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials and dropout.
    device : {'auto', 'cpu', 'cuda'}, default='auto'
        Where to train. ``'auto'`` is CUDA where available, else the CPU.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    module_ : nn.Module
        Trained network, in evaluation mode.
    embedding_ : TokenEmbedding or None
        Scales matrices independently of their unit, and computes tokens for networks on tokens.
        None for networks on trials.
    history_ : dict of str to ndarray, shape (n_epochs,)
        Loss and accuracy on training and validation trials.
    epoch_ : int
        Epoch that was kept, counted from 1.
    held_back_ : ndarray of int or None
        Indices of the training trials that were held out for validation.
    n_features_in_ : int
        Number of channels, or rows of a matrix.

    See Also
    --------
    TokenTransformerClassifier : The network of the paper.
    spdtokens.classifiers.nn.networks.Network : Register a network.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import NetworkClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((20, 3, 200)), np.repeat([0, 1], 10)
    >>> model = NetworkClassifier("eegnet", sfreq=100, epochs=2, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (20, 2)
    """

    # For scikit-learn's metadata routing.
    __metadata_request__fit: ClassVar = {"groups": True, "validation": True}

    def __init__(
        self,
        network: str = "spdnet",
        *,
        sfreq: float | None = None,
        recipe: Literal["published", "common"] = "published",
        epochs: int | None = None,
        validation: float = 0.125,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.sfreq = sfreq
        self.recipe = recipe
        self.epochs = epochs
        self.validation = validation
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input."""
        return matrix_tags(super().__sklearn_tags__())

    @one_thread()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        validation: Validation | None = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_times), (n, d, d) or (n, n_matrices, d, d)
            Trials, or SPD matrices.
        y : array, shape (n,)
            Labels.
        groups : array, shape (n,), default=None
            Groups of trials that are never split between training and validation.
        validation : tuple of array, default=None
            Validation trials and labels, instead of holding out some of ``X``.

        Returns
        -------
        self
            Fitted classifier.
        """
        network = self._network()
        if self.recipe not in ("published", "common"):
            raise ModelError(f"recipe must be 'published' or 'common', got {self.recipe!r}.")
        device, seed = resolve_device(self.device), seed_of(self.random_state)
        checked = self._checked(X, network)
        n_chans = checked.shape[-2]
        common = self.recipe == "common"
        recipe = published_recipe(network.name, n_chans, common=common, epochs=self.epochs)
        self.classes_, codes = encode(y, len(checked))
        self.n_features_in_, self.input_shape_ = n_chans, checked.shape[1:]
        self.embedding_, size = None, {"n_times": checked.shape[-1], "sfreq": self.sfreq}
        if network.input != "raw":
            embedding = TokenEmbedding(network.embedding, unit_free=True)
            self.embedding_ = embedding.fit_matrices(checked, codes)
            size = {"n_tokens": checked.shape[1]}
        shape = TrialShape(n_chans, len(self.classes_), **size)
        inputs, given = self._inputs(checked, network), None
        if validation is not None:
            held, labels = validation() if callable(validation) else validation
            given = len(inputs)
            inputs = torch.cat([inputs, self._inputs(self._checked(held, network), network)])
            codes = np.concatenate([codes, coded(labels, self.classes_)])
        share = self.validation if recipe.needs_validation else None
        plan = planned(seed, codes, groups, share, given)
        self.held_back_ = plan.validation if given is None else None

        def build() -> nn.Module:
            module = network.build(shape)
            unit: Any = getattr(module, "unit", None)
            if unit is not None:
                unit.calibrate(inputs[plan.train])
            return module

        with TrainingBars() as bars:
            self.module_, self.history_, self.epoch_ = train_module(
                build,
                inputs.to(device),
                torch.from_numpy(codes).to(device),
                plan,
                recipe,
                n_classes=len(self.classes_),
                listener=bars.add(network.name, recipe.epochs) if self.verbose else None,
            )
        return self

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict class probabilities.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_times), (n, d, d) or (n, n_matrices, d, d)
            Trials, or SPD matrices, as in ``fit``.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities in the order of ``classes_``.
        """
        check_is_fitted(self)
        network = self._network()
        checked = self._checked(X, network)
        if checked.shape[1:] != self.input_shape_:
            raise ModelError(
                f"X must have trials of shape {self.input_shape_}, got {checked.shape[1:]}."
            )
        with torch.inference_mode():
            parts = self._inputs(checked, network).split(EVALUATED_AT_ONCE)
            found = torch.cat([self.module_(part).softmax(-1) for part in parts])
        return found.double().numpy()

    def _network(self) -> Network:
        if self.network not in NETWORKS:
            raise ModelError(f"network must be one of {', '.join(NETWORKS)}, got {self.network!r}.")
        network = NETWORKS[self.network]
        if network.extra is not None and not is_installed(network.extra):
            raise ModelError(
                f"{network.name} needs an optional dependency: {how_to_install(network.extra)}."
            )
        if network.input == "raw" and self.sfreq is None:
            raise ModelError(
                f"{network.name} takes raw trials, not covariances: pass sfreq, the sampling rate "
                "in Hz."
            )
        return network

    def _checked(self, X: ArrayLike, network: Network) -> NDArray[Any]:
        """Return trials (n, n_channels, n_times) or matrices (n, n_matrices, d, d)."""
        if network.input != "raw":
            return as_matrices(X)
        trials = as_trials(X)
        check_finite(trials)
        return trials

    def _inputs(self, X: NDArray[Any], network: Network) -> Tensor:
        if self.embedding_ is not None:
            tokens = network.input == "tokens"
            X = self.embedding_.of_matrices(X) if tokens else self.embedding_.scaled(X)
        inputs: Tensor = as_tensor(np.ascontiguousarray(X)).float()
        return inputs


#: Module and inputs of a batch to class scores and a term of the loss.
Objective = Callable[[Any, Tensor], tuple[Tensor, Tensor]]


def train_module(
    build: Callable[[], nn.Module],
    inputs: Tensor,
    labels: Tensor,
    plan: RunPlan,
    recipe: Recipe,
    *,
    n_classes: int,
    listener: Listener | None = None,
    objective: Objective | None = None,
) -> tuple[nn.Module, Curves, int]:
    """Train one module with torch's autograd.

    For networks that the batched engine does not support. Recipe, plan, curves and choice of the
    epoch are the same. The order of trials comes from the same random stream of the seed, dropout
    from torch's global generator.

    Parameters
    ----------
    build : callable
        Function that returns the module, called with torch's generator seeded.
    inputs : Tensor, shape (n, ...)
        Input in float32. Its device is where training happens.
    labels : Tensor, shape (n,)
        Class numbers in int64.
    plan : RunPlan
        Seed and trials.
    recipe : Recipe
        Optimiser, number of epochs and choice of the epoch.
    n_classes : int
        Number of classes.
    listener : callable, optional
        Called with the number of epochs that were just done.
    objective : callable, optional
        Maps the module and the inputs of a training batch to class scores and a term that is added
        to their cross-entropy. By default the module's scores, and no term. Curves are without it.

    Returns
    -------
    module : nn.Module
        Trained module, in evaluation mode and on the CPU.
    curves : dict of str to ndarray, shape (n_epochs,)
        Loss and accuracy of each part.
    epoch : int
        Epoch whose weights were kept, counted from 1.
    """
    check_plans([plan], labels, recipe, n_classes)
    streams, parts = RunStreams(plan.seed), plan.parts()
    curves: dict[str, list[float]] = {f"{p} {of}": [] for p in parts for of in ("loss", "accuracy")}
    best_loss, best_epoch, best, kept = float("inf"), 0, None, recipe.epochs
    devices = [inputs.device] if inputs.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(streams.weights().initial_seed())
        module = build().to(inputs.device)
        optimizer = _optimizer(module, recipe)
        for epoch in range(1, recipe.epochs + 1):
            parts["train"] = streams.order.permutation(plan.train)
            for part, index in parts.items():
                learner = optimizer if part == "train" else None
                loss, accuracy = _epoch(module, inputs, labels, index, recipe, learner, objective)
                curves[f"{part} loss"].append(loss)
                curves[f"{part} accuracy"].append(accuracy)
            if not np.isfinite(curves["train loss"][-1]):
                raise ModelError(
                    f"Training diverged at epoch {epoch} (the loss is not finite): lower "
                    f"learning_rate (now {recipe.learning_rate:g})."
                )
            if recipe.needs_validation and curves["validation loss"][-1] < best_loss:
                best_loss, best_epoch = curves["validation loss"][-1], epoch
                if recipe.keep == "best":
                    best = copy.deepcopy(module.state_dict())
            stopped = recipe.patience is not None and epoch - best_epoch >= recipe.patience
            if listener:
                listener(1 + (recipe.epochs - epoch if stopped else 0))
            if stopped:
                kept = epoch
                break
    if best is not None:
        module.load_state_dict(best)
        kept = best_epoch
    return module.cpu().eval(), {name: np.array(v) for name, v in curves.items()}, kept


def _optimizer(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if recipe.decoupled else torch.optim.Adam
    # Parameters that the network excludes from weight decay.
    spared: frozenset[str] = getattr(module, "undecayed", frozenset())
    named = list(module.named_parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in named if name not in spared]},
        {"params": [p for name, p in named if name in spared], "weight_decay": 0.0},
    ]
    decay, betas = recipe.weight_decay, recipe.betas
    return kind(groups, lr=recipe.learning_rate, weight_decay=decay, betas=betas)


def _epoch(
    module: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    trials: NDArray[np.int64],
    recipe: Recipe,
    optimizer: torch.optim.Optimizer | None,
    objective: Objective | None = None,
) -> tuple[float, float]:
    """Compute loss and accuracy over trials; with an optimiser, update after each batch."""
    training = optimizer is not None
    module.train(training)
    size = recipe.batch_size if training else EVALUATED_AT_ONCE
    smoothing = recipe.label_smoothing if training else 0.0
    loss, correct, seen = 0.0, 0, 0
    with torch.set_grad_enabled(training):
        for index in torch.from_numpy(trials).to(inputs.device).split(size):
            if training and len(index) == 1:
                continue  # batch norms cannot train on one trial
            x, y = inputs[index], labels[index]
            scores, term = objective(module, x) if training and objective else (module(x), 0.0)
            reduction = "mean" if training else "sum"
            step = F.cross_entropy(scores, y, label_smoothing=smoothing, reduction=reduction)
            if optimizer is not None:
                optimizer.zero_grad()
                (step + term).backward()
                optimizer.step()
            loss += step.item() * (len(index) if training else 1)
            correct += int((scores.argmax(1) == y).sum())
            seen += len(index)
    return loss / max(seen, 1), correct / max(seen, 1)
