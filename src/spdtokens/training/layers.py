"""Layers of many networks at once, forward and backward.

Every weight has a leading axis of runs. Backward passes are written out: they are short, and they
put each gradient where the optimizer wants it, without a graph to build and walk. Tests compare
them with torch's own differentiation.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from spdtokens.training.mixing import mix, mix_backward
from spdtokens.training.step import Step, multiplied, row


class Layer(Protocol):
    """One step of a network; ``backward`` undoes the last ``forward`` of the same step.

    Attributes
    ----------
    names : tuple of str
        Its weights, as the module calls them.
    """

    names: tuple[str, ...]

    def forward(self, step: Step, x: Tensor) -> Tensor:
        """Activations (runs, features, columns) to activations."""

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        """Gradient after the layer to gradient before it; writes those of the weights."""

    def mask_entries(self, tokens: int, trials: int) -> int:
        """Entries of the dropout masks this layer takes in a step."""


class Undropped:
    """A layer without dropout."""

    names: tuple[str, ...] = ()

    def mask_entries(self, tokens: int, trials: int) -> int:  # noqa: ARG002
        """No masks."""
        return 0


class Linear(Undropped):
    """``W x + b``.

    Parameters
    ----------
    name : str
        Of the layer in the module, before ``.weight`` and ``.bias``.
    first : bool
        Nothing lies before this layer: its input needs no gradient.
    """

    def __init__(self, name: str, *, first: bool = False) -> None:
        self.names = self.weight, self.bias = f"{name}.weight", f"{name}.bias"
        self.first = first

    def forward(self, step: Step, x: Tensor) -> Tensor:
        step.save(x)
        return torch.baddbmm(row(step.weights[self.bias]), step.weights[self.weight], x)

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        (x,) = step.saved()
        torch.bmm(dy, x.mT, out=step.grads[self.weight])
        if self.bias in step.grads:  # before a batch norm it is not learnt
            torch.sum(dy, -1, out=step.grads[self.bias])
        return dy if self.first else torch.bmm(step.weights[self.weight].mT, dy)


class Positions(Undropped):
    """Add a learnable vector to each token."""

    names: tuple[str, ...] = ("positions",)

    def forward(self, step: Step, x: Tensor) -> Tensor:
        return self._per_token(step, x).add_(row(step.weights["positions"].mT)).view_as(x)

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        if "positions" in step.grads:
            step.grads["positions"].copy_(self._per_token(step, dy).sum(-1).mT)
        return dy

    @staticmethod
    def _per_token(step: Step, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], step.tokens, step.trials)


class BatchNorm(Undropped):
    """Normalise each feature over tokens and trials of the batch; learn its running moments."""

    eps, momentum = 1e-5, 0.1

    def __init__(self, name: str) -> None:
        self.name = name
        self.names = (f"{name}.weight", f"{name}.bias")

    def forward(self, step: Step, x: Tensor) -> Tensor:
        weight, bias = (row(step.weights[f"{self.name}.{part}"]) for part in ("weight", "bias"))
        mean, var = (step.buffers[f"{self.name}.running_{part}"] for part in ("mean", "var"))
        if not step.training:
            scale = weight * row(var + self.eps).rsqrt()
            return torch.addcmul(bias - row(mean) * scale, x, scale)
        count = step.counting(x)[0, 0].numel()
        batch_mean = step.counting(x).mean((-2, -1))
        x = x - row(batch_mean)
        batch_var = step.counting(x).square().mean((-2, -1))
        mean.lerp_(batch_mean, self.momentum)
        var.lerp_(batch_var * (count / (count - 1)), self.momentum)
        inverse = row(batch_var + self.eps).rsqrt_()
        x.mul_(inverse)
        step.save(x, inverse)
        return torch.addcmul(bias, x, weight)

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        x, inverse = step.saved()
        d_weight, d_bias = (step.grads[f"{self.name}.{part}"] for part in ("weight", "bias"))
        torch.sum(dy * x, -1, out=d_weight)
        torch.sum(dy, -1, out=d_bias)
        weight = row(step.weights[f"{self.name}.weight"])
        count = step.counting(x)[0, 0].numel()
        centred = dy - row(d_bias) / count
        dx = centred.addcmul_(x, row(d_weight) / -count).mul_(weight * inverse)
        return step.clear_filling(dx)


class LayerNorm(Undropped):
    """Normalise each column over its features."""

    eps = 1e-5

    def __init__(self, name: str) -> None:
        self.names = self.weight, self.bias = f"{name}.weight", f"{name}.bias"

    def forward(self, step: Step, x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        inverse = x.square().mean(1, keepdim=True).add_(self.eps).rsqrt_()
        x.mul_(inverse)
        step.save(x, inverse)
        return torch.addcmul(row(step.weights[self.bias]), x, row(step.weights[self.weight]))

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        x, inverse = step.saved()
        weight = step.weights[self.weight]
        along = dy * x
        torch.sum(along, -1, out=step.grads[self.weight])
        torch.sum(dy, -1, out=step.grads[self.bias])
        along = along.mul_(row(weight)).mean(1, keepdim=True).neg_()
        dy = dy * row(weight)
        dy.sub_(dy.mean(1, keepdim=True))
        return dy.addcmul_(x, along).mul_(inverse)


class SelfAttention:
    """Multi-head attention among the tokens of a trial, with dropout on its weights."""

    def __init__(self, name: str, heads: int) -> None:
        self.heads = heads
        self.query_key = Linear(f"{name}.query_key")
        self.value = Linear(f"{name}.value")
        self.out = Linear(f"{name}.out")
        self.names = (*self.query_key.names, *self.value.names, *self.out.names)

    def mask_entries(self, tokens: int, trials: int) -> int:
        return self.heads * tokens * tokens * trials

    def forward(self, step: Step, x: Tensor) -> Tensor:
        tokens, trials = step.tokens, step.trials
        mask = step.mask(self.heads, tokens, tokens, trials)
        by_head = (len(x), self.heads, -1, tokens, trials)
        if tokens == 1:  # the weight is 1, whatever queries and keys are
            mixed = self.value.forward(step, x)
            if mask is not None:
                step.save(mask)
                mixed.view(by_head).mul_(mask)
            return self.out.forward(step, mixed)
        value = self.value.forward(step, x).view(by_head)
        query, key = self.query_key.forward(step, x).chunk(2, 1)
        mixed, notes = mix(query.view(by_head), key.view(by_head), value, step.bias, mask)
        step.save(*notes)
        return self.out.forward(step, mixed.view_as(x))

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        tokens, trials = step.tokens, step.trials
        by_head = (len(dy), self.heads, -1, tokens, trials)
        d_mixed = self.out.backward(step, dy)
        if tokens == 1:
            if step.masks is not None:
                (mask,) = step.saved()
                d_mixed.view(by_head).mul_(mask)
            return self.value.backward(step, d_mixed)
        d_query_key, d_value = mix_backward(d_mixed.view(by_head), *step.saved())
        dx = self.query_key.backward(step, d_query_key.flatten(-2).flatten(1, -2))
        return dx.add_(self.value.backward(step, d_value.view_as(dy)))


class EncoderBlock:
    """Attention and a ReLU feed-forward part, each with dropout, residual and layer norm."""

    def __init__(self, name: str, d_model: int, d_ff: int, heads: int) -> None:
        self.d_model, self.d_ff = d_model, d_ff
        self.attention = SelfAttention(f"{name}.attention", heads)
        self.norm1 = LayerNorm(f"{name}.norm1")
        self.expand = Linear(f"{name}.expand")
        self.contract = Linear(f"{name}.contract")
        self.norm2 = LayerNorm(f"{name}.norm2")
        parts = (self.attention, self.norm1, self.expand, self.contract, self.norm2)
        self.names = tuple(weight for part in parts for weight in part.names)

    def mask_entries(self, tokens: int, trials: int) -> int:
        columns = tokens * trials
        attention = self.attention.mask_entries(tokens, trials)
        return attention + (2 * self.d_model + self.d_ff) * columns

    def forward(self, step: Step, x: Tensor) -> Tensor:
        columns = x.shape[-1]
        attended = self.attention.forward(step, x)
        mask1 = step.mask(self.d_model, columns)
        x = self.norm1.forward(step, multiplied(attended, mask1).add_(x))
        hidden = self.expand.forward(step, x).relu_()
        mask2 = step.mask(self.d_ff, columns)
        contracted = self.contract.forward(step, multiplied(hidden, mask2))
        mask3 = step.mask(self.d_model, columns)
        step.save(hidden, *(mask for mask in (mask1, mask2, mask3) if mask is not None))
        return self.norm2.forward(step, multiplied(contracted, mask3).add_(x))

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        d_sum = self.norm2.backward(step, dy)
        hidden, *masks = step.saved()
        mask1, mask2, mask3 = masks or (None, None, None)
        d_hidden = self.contract.backward(step, d_sum if mask3 is None else d_sum * mask3)
        # Where an entry was dropped or negative, hidden is 0 and nothing flows back.
        d_hidden = torch.ops.aten.threshold_backward(d_hidden, hidden, 0)
        d_sum.add_(self.expand.backward(step, multiplied(d_hidden, mask2)))
        d_sum = self.norm1.backward(step, d_sum)
        d_attended = d_sum if mask1 is None else d_sum * mask1
        return self.attention.backward(step, d_attended).add_(d_sum)


class HiddenLayer:
    """Linear, optional batch norm, ReLU, dropout: a layer of the token MLP."""

    def __init__(self, name: str, width: int, norm: str | None, *, first: bool) -> None:
        self.width = width
        self.linear = Linear(name, first=first)
        self.norm = None if norm is None else BatchNorm(norm)
        self.names = (*self.linear.names, *(self.norm.names if self.norm else ()))

    def mask_entries(self, tokens: int, trials: int) -> int:  # noqa: ARG002
        return self.width * trials

    def forward(self, step: Step, x: Tensor) -> Tensor:
        x = self.linear.forward(step, x)
        if self.norm is not None:
            x = self.norm.forward(step, x)
        mask = step.mask(self.width, x.shape[-1])
        x = multiplied(x.relu_(), mask)
        step.save(x, *(() if mask is None else (mask,)))
        return x

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        x, *mask = step.saved()
        dy = torch.ops.aten.threshold_backward(dy, x, 0)
        dy = multiplied(dy, mask[0] if mask else None)
        if self.norm is not None:
            dy = self.norm.backward(step, dy)
        return self.linear.backward(step, dy)


class MeanOverTokens(Undropped):
    """Mean over the tokens of a trial: columns become trials."""

    def forward(self, step: Step, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], step.tokens, step.trials).mean(2)

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        dy = dy.div(step.tokens).unsqueeze(2)
        return dy.expand(-1, -1, step.tokens, -1).reshape(*dy.shape[:2], -1)
