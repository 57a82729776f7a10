"""Many networks of one architecture as one batched network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spdtokens.models.config import ModelError
from spdtokens.models.mlp import SPDTokenMLP
from spdtokens.models.transformer import SPDTokenTransformer
from spdtokens.training.layers import (
    BatchNorm,
    EncoderBlock,
    HiddenLayer,
    Layer,
    Linear,
    MeanOverTokens,
    Positions,
)
from spdtokens.training.step import Step, aligned

TokenModel = SPDTokenTransformer | SPDTokenMLP


class Layout:
    """Where each named tensor of a network lies, aligned, in a flat row of numbers.

    Parameters
    ----------
    shapes : mapping of str to torch.Size
    """

    def __init__(self, shapes: Mapping[str, torch.Size]) -> None:
        self.shapes = dict(shapes)
        self.starts, self.size = {}, 0
        for name, shape in self.shapes.items():
            self.starts[name] = self.size
            self.size += aligned(shape.numel())

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """The tensors (runs, *shape) inside flat rows (runs, size), by name."""
        return {
            name: rows[:, self.starts[name] : self.starts[name] + shape.numel()].unflatten(1, shape)
            for name, shape in self.shapes.items()
        }


@dataclass(frozen=True)
class Batch:
    """Trials of a group of runs.

    Attributes
    ----------
    inputs : Tensor, shape (runs, features, columns)
    labels : Tensor of int64, shape (runs, trials)
    bias : Tensor, shape (runs, 1, tokens, tokens, trials), optional
    """

    inputs: Tensor
    labels: Tensor
    bias: Tensor | None


class BatchedNetwork:
    """The layers of a model with a leading axis of runs on every weight.

    Parameters
    ----------
    model : SPDTokenTransformer or SPDTokenMLP
        Gives the architecture; its weights are not used.

    Attributes
    ----------
    layers : list of Layer
    layouts : list of Layout
        Of the weights of each layer that are learnt (``requires_grad``). They follow one another
        in a run's row of weights; all others lie at the end.
    about : str
        All there is to say of the architecture.
    parameters, buffers : Layout
        Of all weights of a run, and of the running moments of its batch norms.
    """

    def __init__(self, model: TokenModel) -> None:
        self.tokens = model.n_tokens
        self.layers, self.flat_tokens = _layers_of(model)
        self.dropout = _dropout_of(model)
        self.about = repr(model) + repr(getattr(model, "config", ""))
        weights = dict(model.named_parameters())
        shapes = {name: weight.shape for name, weight in weights.items()}
        self.layouts = []
        for layer in self.layers:
            live = [name for name in layer.names if weights[name].requires_grad]
            self.layouts.append(Layout({name: shapes.pop(name) for name in live}))
        learnt = {n: shape for layout in self.layouts for n, shape in layout.shapes.items()}
        self.parameters = Layout(learnt | shapes)
        self.live = sum(layout.size for layout in self.layouts)
        self.buffers = Layout({n: b.shape for n, b in model.named_buffers() if b.ndim})
        self.needs_variance = self.buffers.size > 0

    def segments(self) -> Iterator[slice]:
        """Where the weights of each layer lie in a run's row of weights."""
        start = 0
        for layout in self.layouts:
            yield slice(start, start + layout.size)
            start += layout.size

    def mask_entries(self, trials: int) -> int:
        """Entries of all dropout masks of a run in one step."""
        if not self.dropout:
            return 0
        return sum(layer.mask_entries(self.tokens, trials) for layer in self.layers)

    def gather(self, pool: Tensor, labels: Tensor, bias: Tensor | None, index: Tensor) -> Batch:
        """The trials ``index`` (runs, valid) out of a pool (n, tokens, features), filled up."""
        runs, valid = index.shape
        trials = aligned(valid)
        index = torch.cat([index, index[:, :1].expand(-1, trials - valid)], 1)
        if self.flat_tokens or self.tokens == 1:
            rows = pool.flatten(1)[index]
        else:
            offsets = torch.arange(self.tokens, device=index.device)
            which = index.unsqueeze(1) * self.tokens + offsets[:, None]
            rows = pool.flatten(0, 1)[which.flatten(1)]
        if bias is not None:
            bias = bias[index].permute(0, 2, 3, 1).unsqueeze(1).contiguous()
        return Batch(rows.mT, labels[index.flatten()].view(runs, trials), bias)

    def forward(self, step: Step, inputs: Tensor) -> Tensor:
        """Class scores (runs, classes, trials)."""
        x = inputs
        for layer in self.layers:
            x = layer.forward(step, x)
        return x


def _layers_of(model: TokenModel) -> tuple[list[Layer], bool]:
    """The batched layers, and whether the tokens of a trial enter side by side."""
    if isinstance(model, SPDTokenTransformer):
        config = model.config
        embed: list[Layer] = [Linear("project", first=True), Positions()]
        if config.bn_embed:
            embed.append(BatchNorm("bn_embed"))
        blocks: list[Layer] = [
            EncoderBlock(f"blocks.{i}", config.d_model, config.d_ff, config.n_heads)
            for i in range(config.n_layers)
        ]
        return [*embed, *blocks, MeanOverTokens(), Linear("head")], False
    if isinstance(model, SPDTokenMLP):
        hidden: list[Layer] = [
            HiddenLayer(
                f"hidden.{i}",
                model.width,
                f"norms.{i}" if len(model.norms) else None,
                first=i == 0,
            )
            for i in range(len(model.hidden))
        ]
        return [*hidden, Linear("head")], True
    raise ModelError(f"The engine trains token transformers and token MLPs, not {type(model)}.")


def _dropout_of(model: TokenModel) -> float:
    return model.config.dropout if isinstance(model, SPDTokenTransformer) else model.dropout


def cross_entropy(
    scores: Tensor, labels: Tensor, valid: int, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of each run (runs,), and its gradient (runs, classes, trials).

    Parameters
    ----------
    scores : Tensor, shape (runs, classes, trials)
    labels : Tensor, shape (runs, trials)
    valid : int
        So many first trials count; the gradient of the others is zero.
    smoothing : float
        So much of the target is spread evenly over all classes.
    """
    classes = scores.shape[1]
    target = torch.full_like(scores, smoothing / classes)
    target.scatter_(1, labels.unsqueeze(1), 1 - smoothing + smoothing / classes)
    log_probability = scores.log_softmax(1)
    loss = -(target * log_probability)[..., :valid].sum((1, 2)) / valid
    d_scores = log_probability.exp_().sub_(target).div_(valid)
    d_scores[..., valid:] = 0
    return loss, d_scores


def copy_to_row(model: nn.Module, layout: Layout, row: Tensor) -> None:
    """Write weights and buffers of a module into a flat row (size,)."""
    source = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, view in layout.views(row[None]).items():
        view[0].copy_(source[name].detach())
