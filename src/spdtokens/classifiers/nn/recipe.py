"""How networks are trained: recipe, device and progress. Nothing here waits for torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from spdtokens.errors import ModelError

if TYPE_CHECKING:
    import torch
    from rich.progress import Progress

#: Told how many run-epochs, or runs, were just done.
Listener = Callable[[float], None]

#: The paper's seeds, and those it adds for its stability experiments.
SEEDS = (42, 123, 456, 789, 1024)
STABILITY_SEEDS = (*SEEDS, 2048, 3096, 4096, 5000, 6000)


@dataclass(frozen=True)
class Recipe:
    """Adam on the mean cross-entropy of shuffled batches. The defaults are the paper's.

    Attributes
    ----------
    epochs, batch_size : int
    learning_rate : float
    weight_decay : float
    decoupled : bool
        Whether weights decay apart from the gradient (AdamW) or as part of it (plain Adam).
    betas : tuple of float
        Memory of Adam's two moments.
    label_smoothing : float
        Share of the target that is spread evenly over the classes.
    keep : {'last', 'best'}
        Which weights to keep: those after the last epoch, or those of the epoch with the lowest
        loss on validation trials.
    patience : int, optional
        Stop a run whose validation loss has not fallen for so many epochs.
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
        """Whether some trials must be held back from training."""
        return self.keep == "best" or self.patience is not None


def check_sizes(**sizes: int) -> None:
    """Refuse sizes that are not whole numbers >= 1, or numbers of classes below 2."""
    for name, value in sizes.items():
        least = 2 if name in ("n_classes", "n_outputs") else 1
        if not isinstance(value, int) or value < least:
            raise ModelError(f"{name} must be a whole number >= {least}, got {value!r}.")


def check_values(config: Any, **rules: tuple[bool, str]) -> None:
    """Refuse values of a configuration that break their rule."""
    for name, (fine, rule) in rules.items():
        if not fine:
            raise ModelError(f"{name} must be {rule}, got {getattr(config, name)!r}.")


# The recipe published with each network of the comparison. Epochs, rates and batches are those of
# the publication or its code; where these retrain on training and validation trials together, or
# augment, we do not, and say so. ``COMMON`` is the paper's, the same for all.

COMMON = Recipe()

# Weight decay as part of the gradient, lowest validation loss; the rest is another for every data
# set, known by its channels, like the network itself.
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
    # (none for the BiMap), batches of 50, 50 epochs, lowest validation loss. Their Adam moves the
    # BiMap along the Stiefel manifold; here it moves the coordinates of a Cayley map, with other
    # steps for the same rate. They hold back a fifth of the trials, draw batches stratified by
    # domain and refit the statistics of the batch norm afterwards; we do not.
    "tsmnet": Recipe(batch_size=50, weight_decay=1e-4, decoupled=False, keep="best"),
    # 500 epochs, lowest validation loss.
    "eegnet": Recipe(epochs=500, keep="best"),
    # Early stopping on validation trials; the second phase, on all trials, is left out.
    "shallownet": Recipe(epochs=800, keep="best", patience=80),
    "deepnet": Recipe(epochs=800, keep="best", patience=80),
    "atcnet": Recipe(epochs=1000, learning_rate=9e-4, keep="best", patience=300),
    # 2000 epochs, last one; the segmentation-and-recombination augmentation is left out.
    "eeg-conformer": Recipe(epochs=2000, batch_size=72, learning_rate=2e-4, betas=(0.5, 0.999)),
}
# Networks that are not listed have the common recipe: they come from this paper, or other data.


def published_recipe(
    name: str, n_chans: int, *, common: bool = False, epochs: int | None = None
) -> Recipe:
    """The recipe of a network, or the common one, perhaps of another length.

    Parameters
    ----------
    name : str
    n_chans : int
        MAtt's recipe goes with its configuration, which goes by the number of channels.
    common : bool
    epochs : int, optional
    """
    if common:
        recipe = COMMON
    elif name == "matt":
        recipe = MATT.get(n_chans, _MATT)
    else:
        recipe = PUBLISHED.get(name, COMMON)
    return recipe if epochs is None else replace(recipe, epochs=epochs)


def resolve_device(name: str) -> torch.device:
    """The device of a name; ``'auto'`` is the graphics card if there is one.

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
        raise ModelError(f"There is no device {name!r}: use 'auto', 'cpu' or 'cuda'.") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not found):
        raise ModelError(
            f"Training runs on 'cpu', or on 'cuda' where torch sees a graphics card, which it "
            f"{'does' if found else 'does not'} here; got device={name!r}."
        )
    return device


def check_unused_device(name: str, what: str) -> None:
    """Refuse to compute ``what``, which is always done on the processor, elsewhere."""
    if name not in ("auto", "cpu") and resolve_device(name).type != "cpu":
        raise ModelError(
            f"device={name!r} is for networks, and {what} is computed on the CPU. Leave device out."
        )


class TrainingBars:
    """Progress bars on standard error, one per training, while the context lasts."""

    _progress: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def add(self, text: str, total: int) -> Listener:
        """Begin a bar over ``total`` run-epochs; returns what to call with each advance."""
        from rich import progress
        from rich.console import Console

        if self._progress is None:  # with the first bar: nothing is shown before
            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
            )
            self._progress = progress.Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        return partial(self._progress.advance, self._progress.add_task(text, total=total))
