"""What one training step of a group of runs works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Views = Mapping[str, Tensor]


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
        Shape of the batch; the same for all runs of the group.
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


def weighted_sum(weights: Tensor, x: Tensor) -> Tensor:
    """Sum over features (runs, 1, columns) of ``x`` (runs, features, columns), weighted."""
    return torch.bmm(weights.unsqueeze(1), x)
