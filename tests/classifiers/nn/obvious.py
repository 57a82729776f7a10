"""The obvious way to train: torch's own layers and differentiation, one run, one batch at a time.

An independent oracle for the engine. Dropout masks are taken from the run's stream in the order
in which the layers ask for them, through a stand-in for ``torch.nn.functional.dropout``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.engine import RunStreams, dropout_masks
from spdtokens.classifiers.nn.layers import aligned
from spdtokens.classifiers.nn.recipe import Recipe


class ExplicitAttentionLayer(nn.TransformerEncoderLayer):
    """Torch's encoder layer on its path with explicit attention weights and their dropout."""

    def _sa_block(self, x, attn_mask, *_, **__):
        out, _ = self.self_attn(x, x, x, attn_mask=attn_mask, need_weights=True)
        return self.dropout1(out)


class Obvious(nn.Module):
    """Algorithm 1 of the paper, built from ``nn.TransformerEncoder``."""

    def __init__(self, model: SPDTokenTransformer) -> None:
        super().__init__()
        c = model.config
        self.n_heads = c.n_heads
        self.project = nn.Linear(model.n_features, c.d_model)
        self.positions = nn.Parameter(torch.empty(model.n_tokens, c.d_model))
        self.bn_embed = nn.BatchNorm1d(c.d_model) if c.bn_embed else None
        layer = ExplicitAttentionLayer(c.d_model, c.n_heads, c.d_ff, c.dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, c.n_layers, enable_nested_tensor=False)
        self.head = nn.Linear(c.d_model, model.n_classes)
        self.take(model)

    def pairs(self, model: SPDTokenTransformer) -> Iterator[tuple[Tensor, Tensor]]:
        """Our tensor and the same part of torch's."""
        yield model.project.weight, self.project.weight
        yield model.project.bias, self.project.bias
        yield model.positions, self.positions
        if model.bn_embed is not None and self.bn_embed is not None:
            for name in ("weight", "bias", "running_mean", "running_var"):
                yield getattr(model.bn_embed, name), getattr(self.bn_embed, name)
        d = model.config.d_model
        for ours, theirs in zip(model.blocks, self.encoder.layers, strict=True):
            attention, theirs_attention = ours.attention, theirs.self_attn
            for name in ("weight", "bias"):
                packed = getattr(theirs_attention, f"in_proj_{name}")
                yield getattr(attention.query_key, name), packed[: 2 * d]
                yield getattr(attention.value, name), packed[2 * d :]
                yield getattr(attention.out, name), getattr(theirs_attention.out_proj, name)
                yield getattr(ours.expand, name), getattr(theirs.linear1, name)
                yield getattr(ours.contract, name), getattr(theirs.linear2, name)
                yield getattr(ours.norm1, name), getattr(theirs.norm1, name)
                yield getattr(ours.norm2, name), getattr(theirs.norm2, name)
        yield model.head.weight, self.head.weight
        yield model.head.bias, self.head.bias

    @torch.no_grad()
    def take(self, model: SPDTokenTransformer) -> None:
        for ours, theirs in self.pairs(model):
            theirs.copy_(ours)

    def forward(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        x = self.project(tokens) + self.positions
        if self.bn_embed is not None:
            x = self.bn_embed(x.flatten(0, 1)).view_as(x)
        mask = None if bias is None else bias.repeat_interleave(self.n_heads, 0)
        return self.head(self.encoder(x, mask=mask).mean(1))


@contextmanager
def masks_from(take: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let every dropout of torch multiply by ``take(x)`` instead of drawing."""

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        assert not inplace
        return x * take(x) if training and p > 0 else x

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "dropout", dropout)
        yield


class MaskFeed:
    """Hands out a run's masks of one step, in the engine's order and the shapes torch asks for."""

    def __init__(self, masks: Tensor, tokens: int, trials: int, heads: int) -> None:
        self.masks, self.used = masks, 0
        self.tokens, self.trials, self.heads = tokens, trials, heads

    def __call__(self, x: Tensor) -> Tensor:
        T, n, filled = self.tokens, self.trials, aligned(self.trials)
        entries = x.numel() // n * filled  # the engine fills batches up
        part = self.masks[self.used : self.used + entries]
        self.used += entries
        if x.shape[:2] == (n, T):  # (trials, tokens, features)
            return part.view(-1, T, filled).permute(2, 1, 0)[:n]
        assert x.numel() == n * self.heads * T * T  # attention weights
        weights = part.view(self.heads, T, T, filled).permute(3, 0, 1, 2)[:n]
        return weights.reshape(x.shape)


def train_obviously(
    obvious: nn.Module,
    tokens: Tensor,
    labels: Tensor,
    seed: int,
    recipe: Recipe,
    *,
    heads: int,
    masked: int,
    dropout: float,
    bias: Tensor | None = None,
) -> list[float]:
    """Train with the random streams of a run; mean loss of every epoch."""
    streams = RunStreams(seed)
    optimizer = torch.optim.AdamW(
        obvious.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    obvious.train()
    losses = []
    for _ in range(recipe.epochs):
        order = torch.from_numpy(streams.order.permutation(np.arange(len(tokens))))
        total = 0.0
        for index in order.split(recipe.batch_size):
            n, T = len(index), tokens.shape[1]
            feed: Callable[[Tensor], Tensor] = torch.ones_like
            if dropout:
                masks = dropout_masks([streams], masked * aligned(n), dropout, "cpu")[0]
                feed = MaskFeed(masks, T, n, heads)
            with masks_from(feed):
                extra = () if bias is None else (bias[index],)
                scores = obvious(tokens[index], *extra)
            loss = F.cross_entropy(scores, labels[index], label_smoothing=recipe.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * n
        losses.append(total / len(tokens))
    return losses
