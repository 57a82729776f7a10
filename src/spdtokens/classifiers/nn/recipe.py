"""How networks are trained, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from spdtokens.classifiers.nn.matt import (
    MATT_BCI2A,
    MATT_BCICHA,
    MATT_MAMEM,
    MAttConfig,
    original_config,
)
from spdtokens.errors import ModelError

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
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if name == "patience" and value is None:
                continue
            if not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} is a whole number of at least 1, not {value!r}.")
        if not self.learning_rate > 0:
            raise ModelError(f"learning_rate is positive, not {self.learning_rate!r}.")
        if self.weight_decay < 0:
            raise ModelError(f"weight_decay is not negative, but {self.weight_decay!r} is.")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ModelError(f"betas are two numbers in [0, 1), not {self.betas!r}.")
        if not 0 <= self.label_smoothing < 1:
            raise ModelError(f"label_smoothing is in [0, 1), not {self.label_smoothing!r}.")
        if self.keep not in ("last", "best"):
            raise ModelError(f"keep is 'last' or 'best', not {self.keep!r}.")

    @property
    def needs_validation(self) -> bool:
        """Whether some trials must be held back from training."""
        return self.keep == "best" or self.patience is not None


# The recipe published with each network of the comparison.
#
# Epochs, rates and batches are those of the publication or its code; where these retrain on
# training
# and validation trials together, or augment, we do not, and say so. ``COMMON`` is the paper's, the
# same for all.

COMMON = Recipe()

# Weight decay as part of the gradient, lowest validation loss; the rest is another for every data
# set, like the network itself.
_MATT = Recipe(
    epochs=350,
    batch_size=128,
    learning_rate=5e-4,
    weight_decay=0.1,
    decoupled=False,
    keep="best",
)
MATT: dict[MAttConfig, Recipe] = {
    MATT_BCI2A: _MATT,
    MATT_BCICHA: replace(_MATT, epochs=130, batch_size=64, learning_rate=1e-2),
    MATT_MAMEM: replace(_MATT, epochs=180, batch_size=64, learning_rate=5e-3),
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
        recipe = MATT[original_config(n_chans)]
    else:
        recipe = PUBLISHED.get(name, COMMON)
    return recipe if epochs is None else replace(recipe, epochs=epochs)


# Where to compute.


def resolve_device(name: str) -> torch.device:
    """The device of a name; ``'auto'`` is the graphics card if there is one.

    Raises
    ------
    ModelError
        For a device that torch does not know or this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"There is no device {name!r}: use 'auto', 'cpu' or 'cuda'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"device={name!r} asks for a graphics card, and torch sees none here. Use 'auto' or "
            "'cpu', or install a CUDA build of torch and its driver."
        )
    if device.type not in ("cpu", "cuda"):
        raise ModelError(f"Training runs on 'cpu' or 'cuda', not on {name!r}.")
    return device


def check_unused_device(name: str, what: str) -> None:
    """Refuse to compute ``what``, which is always done on the processor, elsewhere.

    Raises
    ------
    ModelError
        For any device but ``'auto'`` and ``'cpu'``.
    """
    if name != "auto" and resolve_device(name).type != "cpu":
        raise ModelError(
            f"device={name!r} is for networks, and {what} is computed on the CPU. Leave device out."
        )
