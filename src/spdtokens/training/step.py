"""What one training step of a group of runs works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

Views = Mapping[str, Tensor]

#: Every matrix of every run begins at a multiple of so many numbers (64 bytes). BLAS rounds by
#: where in memory a matrix lies: only so does a run's result not depend on its neighbours.
ALIGNED = 16


def aligned(count: int) -> int:
    """The next multiple of ``ALIGNED``."""
    return -(-count // ALIGNED) * ALIGNED


@dataclass
class Step:
    """Weights, gradients and notes of one pass of ``runs`` networks over a batch each.

    Activations lie feature by feature, (runs, features, tokens * trials) with trials innermost:
    then a linear layer is one batched matrix product, and norms and attention work on long rows.

    Attributes
    ----------
    weights, grads, buffers : mapping of str to Tensor, shape (runs, ...)
        Views into the state of all runs. Layers write ``grads`` and update ``buffers``.
    tokens, trials : int
        Shape of the batch, the same for all runs; trials are filled up to a multiple of
        ``ALIGNED``.
    valid : int
        Trials that count, the first ones. The rest is there for the sake of its place in memory:
        no gradient comes from it, and batch norms do not look at it.
    training : bool
    masks : Tensor, shape (runs, entries), optional
        Dropout masks of the whole pass: 0, or 1 / (1 - p). Layers take theirs in turn.
    bias : Tensor, shape (runs, 1, tokens, tokens, trials), optional
        Added to attention scores.
    """

    weights: Views
    grads: Views
    buffers: Views
    tokens: int
    trials: int
    valid: int
    training: bool
    masks: Tensor | None = None
    bias: Tensor | None = None
    _saved: list[tuple[Tensor, ...]] = field(default_factory=list)
    _used: int = 0

    def save(self, *tensors: Tensor) -> None:
        """Keep tensors for the backward pass, which takes them in reverse order."""
        if self.training:
            self._saved.append(tensors)

    def saved(self) -> tuple[Tensor, ...]:
        """What the last layer not yet asked for has saved."""
        return self._saved.pop()

    def counting(self, x: Tensor) -> Tensor:
        """The part (runs, features, tokens, valid trials) of activations that counts."""
        return x.view(*x.shape[:2], -1, self.trials)[..., : self.valid]

    def clear_filling(self, x: Tensor) -> Tensor:
        """Set what does not count to zero, in place."""
        x.view(*x.shape[:2], -1, self.trials)[..., self.valid :] = 0
        return x

    def mask(self, *shape: int) -> Tensor | None:
        """The next dropout mask (runs, *shape), or None where nothing is dropped."""
        if self.masks is None:
            return None
        entries = 1
        for size in shape:
            entries *= size
        part = self.masks[:, self._used : self._used + entries]
        self._used += entries
        return part.view(-1, *shape)


def multiplied(x: Tensor, mask: Tensor | None) -> Tensor:
    """``x * mask`` in place; ``x`` itself without a mask."""
    return x if mask is None else x.mul_(mask)


def row(x: Tensor) -> Tensor:
    """A per-feature vector (runs, features) as (runs, features, 1)."""
    return x.unsqueeze(-1)
