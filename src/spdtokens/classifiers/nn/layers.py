"""Layers of many networks at once, forward and backward.

Every weight has a leading axis of runs. Backward passes are written by hand: they are short, and
they write each gradient where the optimiser reads it, without an autograd graph. Tests compare them
with torch's autograd.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from spdtokens.classifiers.nn.transformer import SPDTokenMLP, SPDTokenTransformer

Views = Mapping[str, Tensor]

#: Every matrix of every run begins at a multiple of this many floats (64 bytes). The rounding of
#: BLAS depends on the alignment of a matrix; with equal alignment the result of a run does not
#: depend on its neighbours.
ALIGNED = 16


def aligned(count: int) -> int:
    """Round up to a multiple of ``ALIGNED``."""
    return -(-count // ALIGNED) * ALIGNED


@dataclass
class Step:
    """One pass of ``runs`` networks over one batch each.

    Activations are stored feature by feature, (runs, features, tokens * trials) with trials
    innermost: a linear layer is then one batched matrix product, and norms and attention work on
    long rows.

    Parameters
    ----------
    weights : mapping of str to Tensor, shape (runs, ...)
        Weights, and the running moments of batch norms, which layers update.
    grads : mapping of str to Tensor, shape (runs, ...)
        Where layers write the gradients of their weights.
    tokens, trials : int
        Shape of the batch, the same for all runs. Trials are padded to a multiple of ``ALIGNED``.
    valid : int
        Number of trials before the padding. The padding has no gradient, and batch norms ignore
        it.
    training : bool
        Whether a backward pass follows.
    bias : Tensor, shape (runs, 1, tokens, tokens, trials), optional
        Added to the attention scores.
    masks : Tensor, shape (runs, entries), optional
        Dropout masks of the whole pass: 0, or 1 / (1 - p). Layers take theirs in turn.
    """

    weights: Views
    grads: Views
    tokens: int
    trials: int
    valid: int
    training: bool
    bias: Tensor | None = None
    masks: Tensor | None = None
    _saved: list[tuple[Any, ...]] = field(default_factory=list)
    _used: int = 0

    def save(self, *tensors: Tensor | None) -> None:
        """Keep tensors for the backward pass, which reads them in reverse order."""
        if self.training:
            self._saved.append(tensors)

    def saved(self) -> tuple[Any, ...]:
        """Return the tensors saved last, and forget them."""
        return self._saved.pop()

    def counting(self, x: Tensor) -> Tensor:
        """Return activations without the padding: (runs, features, tokens, valid trials)."""
        return x.view(*x.shape[:2], -1, self.trials)[..., : self.valid]

    def mask(self, *shape: int) -> Tensor | None:
        """Return the next dropout mask (runs, *shape), or None without dropout."""
        if self.masks is None:
            return None
        entries = math.prod(shape)
        part = self.masks[:, self._used : self._used + entries]
        self._used += entries
        return part.view(-1, *shape)


def multiplied(x: Tensor, mask: Tensor | None) -> Tensor:
    """Multiply ``x`` by a mask in place; leave it as it is without one."""
    return x if mask is None else x.mul_(mask)


def row(x: Tensor) -> Tensor:
    """View a vector per feature (runs, features) as (runs, features, 1)."""
    return x.unsqueeze(-1)


# Attention. Queries, keys and values are (runs, heads, head width, tokens, trials). With few
# tokens, which is usual for EEG, every pair of tokens is a row of trials, and all operations run on
# such rows. With many tokens the matrices of each trial are multiplied, which needs a reordered
# copy.

#: Number of tokens from which matrix products, including the copy, are faster.
MANY_TOKENS = 8


def _contract_width(a: Tensor, b: Tensor) -> Tensor:
    """Multiply token i of ``a`` with token j of ``b``: (runs, heads, i, j, trials)."""
    if a.shape[3] >= MANY_TOKENS:
        pairs = a.permute(0, 1, 4, 3, 2) @ b.permute(0, 1, 4, 2, 3)
        return pairs.permute(0, 1, 3, 4, 2).contiguous()
    return (a.unsqueeze(4) * b.unsqueeze(3)).sum(2)


def _weigh(weights: Tensor, x: Tensor) -> Tensor:
    """Sum ``weights[i, j] x[j]`` over tokens j: (runs, heads, width, i, trials)."""
    if x.shape[3] >= MANY_TOKENS:
        mixed = x.permute(0, 1, 4, 2, 3) @ weights.permute(0, 1, 4, 3, 2)
        return mixed.permute(0, 1, 3, 4, 2).contiguous()
    return (weights.unsqueeze(2) * x.unsqueeze(3)).sum(4)


def _attention_backward(
    d_mixed: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    dropped: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of queries and keys, stacked (runs, 2, ...), and of values.

    This is a function so that its tensors are freed before the linear layers run.
    """
    d_value = _weigh(dropped.transpose(2, 3), d_mixed)
    d_weights = multiplied(_contract_width(d_mixed, value), mask).mul_(weights)
    d_scores = d_weights.sub_(weights * d_weights.sum(3, keepdim=True))
    d_scores.mul_(1 / math.sqrt(query.shape[2]))
    d_query = _weigh(d_scores, key)
    d_key = _weigh(d_scores.transpose(2, 3), query)
    return torch.stack([d_query, d_key], 1), d_value


class Layer:
    """Layer of a batched network.

    Attributes
    ----------
    names : tuple of str
        Names of its weights in the torch module.
    """

    names: tuple[str, ...] = ()

    def forward(self, step: Step, x: Tensor) -> Tensor:
        """Map activations (runs, features, columns) to activations."""
        raise NotImplementedError

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        """Map the gradient after the layer to that before it; write those of the weights."""
        raise NotImplementedError


class Linear(Layer):
    """Linear layer ``W x + b``.

    Parameters
    ----------
    name : str
        Name of the layer in the torch module, without ``.weight`` and ``.bias``.
    first : bool
        Whether this is the first layer, whose input needs no gradient.
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
        if self.bias in step.grads:  # not learnt before a batch norm
            torch.sum(dy, -1, out=step.grads[self.bias])
        return dy if self.first else torch.bmm(step.weights[self.weight].mT, dy)


class Positions(Layer):
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


class BatchNorm(Layer):
    """Normalise each feature over the tokens and trials of the batch; track running moments."""

    eps, momentum = 1e-5, 0.1

    def __init__(self, name: str) -> None:
        self.name = name
        self.names = (f"{name}.weight", f"{name}.bias")

    def forward(self, step: Step, x: Tensor) -> Tensor:
        weight, bias = (row(step.weights[f"{self.name}.{part}"]) for part in ("weight", "bias"))
        mean, var = (step.weights[f"{self.name}.running_{part}"] for part in ("mean", "var"))
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
        dx.view(*dx.shape[:2], -1, step.trials)[..., step.valid :] = 0
        return dx


class LayerNorm(Layer):
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


class SelfAttention(Layer):
    """Multi-head attention among the tokens of a trial, with dropout on its weights."""

    def __init__(self, name: str, heads: int) -> None:
        self.heads = heads
        self.query_key = Linear(f"{name}.query_key")
        self.value = Linear(f"{name}.value")
        self.out = Linear(f"{name}.out")
        self.names = (*self.query_key.names, *self.value.names, *self.out.names)

    def forward(self, step: Step, x: Tensor) -> Tensor:
        tokens, trials = step.tokens, step.trials
        mask = step.mask(self.heads, tokens, tokens, trials)
        by_head = (len(x), self.heads, -1, tokens, trials)
        if tokens == 1:  # the only weight is 1 for any query and key
            mixed = self.value.forward(step, x)
            step.save(mask)
            multiplied(mixed.view(by_head), mask)
            return self.out.forward(step, mixed)
        value = self.value.forward(step, x).view(by_head)
        query, key = self.query_key.forward(step, x).chunk(2, 1)
        query, key = query.view(by_head), key.view(by_head)
        scores = _contract_width(query, key).mul_(1 / math.sqrt(query.shape[2]))
        if step.bias is not None:
            scores.add_(step.bias)
        weights = scores.softmax(3)
        dropped = weights if mask is None else weights * mask
        step.save(query, key, value, weights, dropped, mask)
        return self.out.forward(step, _weigh(dropped, value).view_as(x))

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        tokens, trials = step.tokens, step.trials
        by_head = (len(dy), self.heads, -1, tokens, trials)
        d_mixed = self.out.backward(step, dy)
        if tokens == 1:
            multiplied(d_mixed.view(by_head), *step.saved())
            return self.value.backward(step, d_mixed)
        d_query_key, d_value = _attention_backward(d_mixed.view(by_head), *step.saved())
        dx = self.query_key.backward(step, d_query_key.flatten(-2).flatten(1, -2))
        return dx.add_(self.value.backward(step, d_value.view_as(dy)))


class EncoderBlock(Layer):
    """Attention and a ReLU feed-forward network, each with dropout, residual and layer norm."""

    def __init__(self, name: str, heads: int) -> None:
        self.attention = SelfAttention(f"{name}.attention", heads)
        self.norm1 = LayerNorm(f"{name}.norm1")
        self.expand = Linear(f"{name}.expand")
        self.contract = Linear(f"{name}.contract")
        self.norm2 = LayerNorm(f"{name}.norm2")
        parts = (self.attention, self.norm1, self.expand, self.contract, self.norm2)
        self.names = tuple(weight for part in parts for weight in part.names)

    def forward(self, step: Step, x: Tensor) -> Tensor:
        attended = self.attention.forward(step, x)
        mask1 = step.mask(*x.shape[1:])
        x = self.norm1.forward(step, multiplied(attended, mask1).add_(x))
        hidden = self.expand.forward(step, x).relu_()
        mask2 = step.mask(*hidden.shape[1:])
        contracted = self.contract.forward(step, multiplied(hidden, mask2))
        mask3 = step.mask(*x.shape[1:])
        step.save(hidden, mask1, mask2, mask3)
        return self.norm2.forward(step, multiplied(contracted, mask3).add_(x))

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        d_sum = self.norm2.backward(step, dy)
        hidden, mask1, mask2, mask3 = step.saved()
        d_hidden = self.contract.backward(step, d_sum if mask3 is None else d_sum * mask3)
        # Where an entry was dropped or negative, hidden is 0 and the gradient is 0.
        d_hidden = torch.ops.aten.threshold_backward(d_hidden, hidden, 0)
        d_sum.add_(self.expand.backward(step, multiplied(d_hidden, mask2)))
        d_sum = self.norm1.backward(step, d_sum)
        d_attended = d_sum if mask1 is None else d_sum * mask1
        return self.attention.backward(step, d_attended).add_(d_sum)


class HiddenLayer(Layer):
    """Hidden layer of the token MLP: linear, batch norm, ReLU, dropout."""

    def __init__(self, number: int) -> None:
        self.linear = Linear(f"hidden.{number}", first=number == 0)
        self.norm = BatchNorm(f"norms.{number}")
        self.names = (*self.linear.names, *self.norm.names)

    def forward(self, step: Step, x: Tensor) -> Tensor:
        x = self.norm.forward(step, self.linear.forward(step, x))
        mask = step.mask(*x.shape[1:])
        x = multiplied(x.relu_(), mask)
        step.save(x, mask)
        return x

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        x, mask = step.saved()
        dy = multiplied(torch.ops.aten.threshold_backward(dy, x, 0), mask)
        return self.linear.backward(step, self.norm.backward(step, dy))


class MeanOverTokens(Layer):
    """Mean over the tokens of a trial: columns become trials."""

    def forward(self, step: Step, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], step.tokens, step.trials).mean(2)

    def backward(self, step: Step, dy: Tensor) -> Tensor:
        dy = dy.div(step.tokens).unsqueeze(2)
        return dy.expand(-1, -1, step.tokens, -1).reshape(*dy.shape[:2], -1)


TokenModel = SPDTokenTransformer | SPDTokenMLP


class Layout:
    """Aligned positions of named tensors in a flat row.

    Parameters
    ----------
    shapes : mapping of str to torch.Size
        Shapes of the tensors by name.
    """

    def __init__(self, shapes: Mapping[str, torch.Size]) -> None:
        self.shapes = dict(shapes)
        self.starts, self.size = {}, 0
        for name, shape in self.shapes.items():
            self.starts[name] = self.size
            self.size += aligned(shape.numel())

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Return views (runs, *shape) into flat rows (runs, size), by name."""
        return {
            name: rows[:, self.starts[name] : self.starts[name] + shape.numel()].unflatten(1, shape)
            for name, shape in self.shapes.items()
        }

    def copy_from(self, model: nn.Module, row: Tensor) -> None:
        """Copy the tensors of a module into a flat row (size,)."""
        source = model.state_dict()
        for name, view in self.views(row[None]).items():
            view[0].copy_(source[name])


class BatchedNetwork:
    """Many networks of one architecture, with a leading axis of runs on every weight.

    Parameters
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        Architecture; its weights are not used.

    Attributes
    ----------
    layers : list of Layer
        Layers in the order of the forward pass.
    tokens : int
        Columns per trial: the number of tokens, or 1 for an MLP, which concatenates them.
    dropped : int
        Entries of all dropout masks per run and trial.
    layout : Layout
        Row of a run: the learnt weights (``requires_grad``) layer by layer, then the other weights
        and the running moments of batch norms.
    layouts : list of Layout
        Learnt weights of each layer.
    learnt : int
        Length of their part of the row.
    least_batch : int
        Smallest batch that can be trained on: a batch norm needs two columns.
    """

    def __init__(self, model: TokenModel) -> None:
        self.dropout = model.dropout
        if isinstance(model, SPDTokenMLP):
            n_hidden = len(model.hidden)
            self.layers = [*map(HiddenLayer, range(n_hidden)), Linear("head")]
            self.tokens, self.dropped = 1, n_hidden * model.width
        else:
            config, self.tokens = model.config, model.n_tokens
            blocks = [EncoderBlock(f"blocks.{i}", config.n_heads) for i in range(config.n_layers)]
            norm = [BatchNorm("bn_embed")] if config.bn_embed else []
            first, last = [Linear("project", first=True), Positions()], [MeanOverTokens()]
            self.layers = [*first, *norm, *blocks, *last, Linear("head")]
            per_token = config.n_heads * self.tokens + 2 * config.d_model + config.d_ff
            self.dropped = config.n_layers * self.tokens * per_token
        weights = dict(model.named_parameters())
        shapes = {name: weight.shape for name, weight in weights.items()}
        self.layouts = []
        for layer in self.layers:
            live = [name for name in layer.names if weights[name].requires_grad]
            self.layouts.append(Layout({name: shapes.pop(name) for name in live}))
        learnt = {n: shape for layout in self.layouts for n, shape in layout.shapes.items()}
        moments = {n: b.shape for n, b in model.named_buffers() if b.ndim}
        self.layout = Layout(learnt | shapes | moments)
        self.learnt = sum(layout.size for layout in self.layouts)
        self.least_batch = 2 if moments and self.tokens == 1 else 1

    def forward(self, step: Step, inputs: Tensor) -> Tensor:
        """Compute class scores (runs, classes, trials)."""
        for layer in self.layers:
            inputs = layer.forward(step, inputs)
        return inputs


def cross_entropy(
    scores: Tensor, labels: Tensor, valid: int, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute the mean cross-entropy (runs,) and its gradient (runs, classes, trials).

    Parameters
    ----------
    scores : Tensor, shape (runs, classes, trials)
        Class scores.
    labels : Tensor, shape (runs, trials)
        Class numbers.
    valid : int
        Number of trials before the padding, whose gradient is zero.
    smoothing : float
        Share of the target that is spread evenly over all classes.
    """
    classes = scores.shape[1]
    target = torch.full_like(scores, smoothing / classes)
    target.scatter_(1, labels.unsqueeze(1), 1 - smoothing + smoothing / classes)
    log_probability = scores.log_softmax(1)
    loss = -(target * log_probability)[..., :valid].sum((1, 2)) / valid
    d_scores = log_probability.exp_().sub_(target).div_(valid)
    d_scores[..., valid:] = 0
    return loss, d_scores
