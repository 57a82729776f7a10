"""How networks are trained, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spdtokens._errors import UserError

#: The paper's seeds, and those it adds for its stability experiments.
SEEDS = (42, 123, 456, 789, 1024)
STABILITY_SEEDS = (*SEEDS, 2048, 3096, 4096, 5000, 6000)


class TrainingError(UserError):
    """Training that cannot be done; the message names the culprit and the remedy."""


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
                raise TrainingError(f"{name} is a whole number of at least 1, not {value!r}.")
        if not self.learning_rate > 0:
            raise TrainingError(f"learning_rate is positive, not {self.learning_rate!r}.")
        if self.weight_decay < 0:
            raise TrainingError(f"weight_decay is not negative, but {self.weight_decay!r} is.")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise TrainingError(f"betas are two numbers in [0, 1), not {self.betas!r}.")
        if not 0 <= self.label_smoothing < 1:
            raise TrainingError(f"label_smoothing is in [0, 1), not {self.label_smoothing!r}.")
        if self.keep not in ("last", "best"):
            raise TrainingError(f"keep is 'last' or 'best', not {self.keep!r}.")

    @property
    def needs_validation(self) -> bool:
        """Whether some trials must be held back from training."""
        return self.keep == "best" or self.patience is not None
