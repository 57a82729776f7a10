"""Training recipes, devices and progress bars. Importing this does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from spdtokens.errors import ModelError

if TYPE_CHECKING:
    import torch
    from rich.progress import Progress

#: Called with the number of run-epochs, or runs, that were just done.
Listener = Callable[[float], None]

#: Seeds of the paper, and with those of its stability experiments.
SEEDS = (42, 123, 456, 789, 1024)
STABILITY_SEEDS = (*SEEDS, 2048, 3096, 4096, 5000, 6000)


@dataclass(frozen=True)
class Recipe:
    """Settings of a training: Adam on the mean cross-entropy of shuffled batches.

    The defaults are the paper's.

    Parameters
    ----------
    epochs : int, default=50
        Number of epochs.
    batch_size : int, default=64
        Trials per batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    weight_decay : float, default=0.0
        Weight decay.
    decoupled : bool, default=True
        Whether the weight decay is decoupled from the gradient (AdamW) or part of it (Adam with L2
        penalty).
    betas : tuple of float, default=(0.9, 0.999)
        Decay rates of Adam's two moments.
    label_smoothing : float, default=0.0
        Share of the target that is spread evenly over the classes.
    keep : {'last', 'best'}, default='last'
        Weights to keep: those of the last epoch, or those of the epoch with the lowest validation
        loss.
    patience : int, default=None
        Stop a run when its validation loss has not decreased for this many epochs.

    Raises
    ------
    ModelError
        If a value is out of range.

    See Also
    --------
    train_runs : Train runs by a recipe.

    Examples
    --------
    >>> from spdtokens.classifiers.nn import Recipe
    >>> Recipe(epochs=100, keep="best").needs_validation
    True
    """

    epochs: int = 50
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    decoupled: bool = True
    betas: tuple[float, float] = (0.9, 0.999)
    label_smoothing: float = 0.0
    keep: Literal["last", "best"] = "last"
    patience: int | None = None

    def __post_init__(self) -> None:
        patience = {} if self.patience is None else {"patience": self.patience}
        check_sizes(epochs=self.epochs, batch_size=self.batch_size, **patience)
        betas = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        check_values(
            self,
            learning_rate=(self.learning_rate > 0, "> 0"),
            weight_decay=(self.weight_decay >= 0, ">= 0"),
            label_smoothing=(0 <= self.label_smoothing < 1, "in [0, 1)"),
            betas=(betas, "two numbers in [0, 1)"),
            keep=(self.keep in ("last", "best"), "'last' or 'best'"),
        )

    @property
    def needs_validation(self) -> bool:
        """Whether training needs validation trials."""
        return self.keep == "best" or self.patience is not None


def check_sizes(**sizes: int) -> None:
    """Raise ModelError for sizes that are not integers >= 1, or fewer than 2 classes."""
    for name, value in sizes.items():
        least = 2 if name in ("n_classes", "n_outputs") else 1
        if not isinstance(value, int) or value < least:
            raise ModelError(f"{name} must be an integer >= {least}, got {value!r}.")


def check_values(config: Any, **rules: tuple[bool, str]) -> None:
    """Raise ModelError for the first value of a configuration that breaks its rule."""
    for name, (fine, rule) in rules.items():
        if not fine:
            raise ModelError(f"{name} must be {rule}, got {getattr(config, name)!r}.")


# Published recipes. Epochs, learning rates and batch sizes are those of the publication or its
# code. Where these retrain on training and validation trials together, or augment the data, we do
# not. ``COMMON`` is the recipe of the paper, the same for all networks.

COMMON = Recipe()

# Weight decay as part of the gradient, lowest validation loss. The other values depend on the data
# set, which is recognised by its number of channels, like the network itself.
_MATT = Recipe(
    epochs=350,
    batch_size=128,
    learning_rate=5e-4,
    weight_decay=0.1,
    decoupled=False,
    keep="best",
)
MATT = {
    56: replace(_MATT, epochs=130, batch_size=64, learning_rate=1e-2),
    8: replace(_MATT, epochs=180, batch_size=64, learning_rate=5e-3),
}

PUBLISHED = {
    # From the configuration files of its code: Adam 1e-3, weight decay 1e-4 as part of the gradient
    # (none for the BiMap), batches of 50, 50 epochs, lowest validation loss. Its Adam moves the
    # BiMap along the Stiefel manifold; here Adam moves the coordinates of a Cayley map, whose steps
    # differ at the same rate. Not done here: a fifth of the trials for validation, batches
    # stratified by domain, and a final refit of the batch norm statistics.
    "tsmnet": Recipe(batch_size=50, weight_decay=1e-4, decoupled=False, keep="best"),
    # 500 epochs, lowest validation loss.
    "eegnet": Recipe(epochs=500, keep="best"),
    # Early stopping on validation trials, without the second phase on all trials.
    "shallownet": Recipe(epochs=800, keep="best", patience=80),
    "deepnet": Recipe(epochs=800, keep="best", patience=80),
    "atcnet": Recipe(epochs=1000, learning_rate=9e-4, keep="best", patience=300),
    # 2000 epochs, last one, without segmentation-and-recombination augmentation.
    "eeg-conformer": Recipe(epochs=2000, batch_size=72, learning_rate=2e-4, betas=(0.5, 0.999)),
}
# Other networks use the common recipe: they are from this paper, or were published for other data.


def published_recipe(
    name: str, n_chans: int, *, common: bool = False, epochs: int | None = None
) -> Recipe:
    """Return the recipe of a network.

    Parameters
    ----------
    name : str
        Name of the network.
    n_chans : int
        Number of channels, which decides the configuration and recipe of MAtt.
    common : bool
        Whether to use the common recipe instead of the published one.
    epochs : int, optional
        Number of epochs instead of the recipe's.
    """
    if common:
        recipe = COMMON
    elif name == "matt":
        recipe = MATT.get(n_chans, _MATT)
    else:
        recipe = PUBLISHED.get(name, COMMON)
    return recipe if epochs is None else replace(recipe, epochs=epochs)


def resolve_device(name: str) -> torch.device:
    """Return the device of a name; ``'auto'`` is CUDA where available, else the CPU.

    Raises
    ------
    ModelError
        For a device that torch does not know or this machine does not have.
    """
    import torch

    found = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if found else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"device must be 'auto', 'cpu' or 'cuda', got {name!r}.") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not found):
        available = (
            "'auto', 'cpu' or 'cuda'" if found else "'auto' or 'cpu' (CUDA is not available)"
        )
        raise ModelError(f"device must be {available}, got {name!r}.")
    return device


def check_unused_device(name: str, what: str) -> None:
    """Raise ModelError if a device other than the CPU is asked of a method that has no network."""
    if name not in ("auto", "cpu") and resolve_device(name).type != "cpu":
        raise ModelError(
            f"device={name!r} is for networks only: {what} runs on the CPU. Remove device."
        )


class TrainingBars:
    """Context manager of progress bars on standard error, one per training."""

    _progress: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def add(self, text: str, total: int) -> Listener:
        """Start a bar over ``total`` steps; return a function to call with each advance."""
        from rich import progress
        from rich.console import Console

        if self._progress is None:  # nothing is shown before the first bar
            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                # Steps may be fractions, which MofNCompleteColumn would round down.
                progress.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
            )
            self._progress = progress.Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        return partial(self._progress.advance, self._progress.add_task(text, total=total))
