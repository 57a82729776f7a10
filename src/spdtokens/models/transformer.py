"""The SPD Token Transformer: Algorithm 1 of the paper."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.models.config import STANDARD, ModelError, TransformerConfig


class UndrawnLinear(nn.Linear):
    """A linear layer that leaves its weights to the network: drawn once, from its generator."""

    def reset_parameters(self) -> None:
        """Nothing: torch would draw from its global generator here."""


class SelfAttention(nn.Module):
    """Multi-head self-attention over the tokens of a trial.

    Parameters
    ----------
    d_model, n_heads : int
    dropout : float
        Applied to the attention weights.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        # Apart, because with one token nothing depends on queries and keys.
        self.query_key = UndrawnLinear(d_model, 2 * d_model)
        self.value = UndrawnLinear(d_model, d_model)
        self.out = UndrawnLinear(d_model, d_model)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw what ``nn.MultiheadAttention`` draws in its own way; the rest is as it was."""
        d_model = self.value.in_features
        bound = math.sqrt(6 / (d_model + 3 * d_model))  # queries, keys, values as one matrix
        for layer in (self.query_key, self.value):
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Mix tokens (n, tokens, d_model); ``bias`` (n, tokens, tokens) is added to the scores."""
        n, tokens, d_model = x.shape
        value = self.value(x).view(n, tokens, self.n_heads, -1)
        # A softmax over one score is 1, whatever queries and keys are.
        weights = self.weights(x, bias) if tokens > 1 else x.new_ones(n, self.n_heads, 1, 1)
        weights = F.dropout(weights, self.dropout, self.training)
        mixed = (weights @ value.transpose(1, 2)).transpose(1, 2)
        return self.out(mixed.reshape(n, tokens, d_model))

    def weights(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Attention weights (n, heads, tokens, tokens): rows attend to columns."""
        n, tokens, d_model = x.shape
        query_key = self.query_key(x).view(n, tokens, 2, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        scores = query_key[0] @ query_key[1].mT / math.sqrt(d_model // self.n_heads)
        if bias is not None:
            scores = scores + bias[:, None]
        return scores.softmax(-1)


class EncoderBlock(nn.Module):
    """Post-norm encoder block: attention, then a ReLU feed-forward part, each with a residual."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.attention = SelfAttention(config.d_model, config.n_heads, config.dropout)
        self.norm1 = nn.LayerNorm(config.d_model)
        self.expand = UndrawnLinear(config.d_model, config.d_ff)
        self.contract = UndrawnLinear(config.d_ff, config.d_model)
        self.norm2 = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Tokens (n, tokens, d_model) to tokens of the same shape."""
        x = self.norm1(x + self._dropped(self.attention(x, bias)))
        hidden = self._dropped(F.relu(self.expand(x)))
        return self.norm2(x + self._dropped(self.contract(hidden)))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class SPDTokenTransformer(nn.Module):
    """Tokens of SPD matrices in, class scores out.

    Linear projection shared by all tokens, learnable positions, BN-Embed, post-norm encoder
    blocks, mean over tokens, linear head.

    Parameters
    ----------
    n_features : int
        Length of a token: d (d + 1) / 2 for matrices d x d.
    n_tokens : int
        Tokens of a trial: bands times windows.
    n_classes : int
    config : TransformerConfig
        By default the paper's standard network.
    generator : torch.Generator, optional
        Draws the initial weights; torch's global one by default.
    **changes
        Fields of :class:`TransformerConfig` to replace, such as ``n_layers=2``.

    Examples
    --------
    >>> import torch
    >>> from spdtokens import SPDTokenTransformer
    >>> network = SPDTokenTransformer(253, 3, 4, n_layers=2)
    >>> network(torch.zeros(5, 3, 253)).shape
    torch.Size([5, 4])

    Notes
    -----
    Initial weights are those torch gives its own layers (``nn.TransformerEncoderLayer``), drawn
    independently for each block; ``nn.TransformerEncoder`` would start all blocks as copies.
    Positions start at normal values of standard deviation 0.02: the paper does not say.
    """

    def __init__(
        self,
        n_features: int,
        n_tokens: int,
        n_classes: int,
        config: TransformerConfig = STANDARD,
        *,
        generator: torch.Generator | None = None,
        **changes: Any,
    ) -> None:
        super().__init__()
        config = replace(config, **changes)
        for name, value in (("n_features", n_features), ("n_tokens", n_tokens)):
            if value < 1:
                raise ModelError(f"{name} is at least 1, not {value}.")
        if n_classes < 2:
            raise ModelError(f"A classifier needs at least 2 classes, not {n_classes}.")
        self.config = config
        self.n_features, self.n_tokens, self.n_classes = n_features, n_tokens, n_classes
        self.project = UndrawnLinear(n_features, config.d_model)
        self.positions = nn.Parameter(torch.empty(n_tokens, config.d_model))
        self.bn_embed = nn.BatchNorm1d(config.d_model) if config.bn_embed else None
        self.blocks = nn.ModuleList([EncoderBlock(config) for _ in range(config.n_layers)])
        self.head = UndrawnLinear(config.d_model, n_classes)
        # BN-Embed takes out what is added to all tokens, and one token attends to itself whatever
        # it asks for. Such weights have a gradient of zero but for rounding, which Adam turns into
        # full steps: what the running mean has not followed yet would reach the scores.
        self.project.bias.requires_grad_(not config.bn_embed)
        self.positions.requires_grad_(not config.bn_embed or n_tokens > 1)
        for module in self.modules():
            if isinstance(module, SelfAttention):
                module.query_key.requires_grad_(n_tokens > 1)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        nn.init.normal_(self.positions, std=0.02, generator=generator)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                reset_linear(module, generator)
            elif isinstance(module, nn.LayerNorm | nn.BatchNorm1d):
                module.reset_parameters()
        for module in self.modules():
            if isinstance(module, SelfAttention):
                module.reset_parameters(generator)

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (n, tokens, features) projected, placed and normalised: (n, tokens, d_model)."""
        if tokens.ndim != 3 or tokens.shape[1:] != (self.n_tokens, self.n_features):
            raise ModelError(
                f"Expected tokens of shape (n, {self.n_tokens}, {self.n_features}), got "
                f"{tuple(tokens.shape)}."
            )
        x = self.project(tokens) + self.positions
        if self.bn_embed is None:
            return x
        if self.training and tokens.shape[0] * tokens.shape[1] == 1:
            raise ModelError(
                "A batch of one trial with one token has no variance, so BN-Embed cannot train on "
                "it. Use larger batches, or bn_embed=False."
            )
        return self.bn_embed(x.flatten(0, 1)).view_as(x)

    def forward(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        """Class scores (n, classes) of tokens (n, tokens, features).

        Parameters
        ----------
        tokens : Tensor, shape (n, tokens, features)
        bias : Tensor, shape (n, tokens, tokens), optional
            Added to the attention scores: see :func:`spdtokens.models.geometric_bias`.
        """
        x = self.embed(tokens)
        bias = self._checked_bias(bias)
        for block in self.blocks:
            x = block(x, bias)
        return self.head(x.mean(1))

    def attention_weights(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        """What attends to what: (n, layers, heads, tokens, tokens), rows to columns."""
        x = self.embed(tokens)
        bias = self._checked_bias(bias)
        weights = []
        for block in self.blocks:
            assert isinstance(block, EncoderBlock)
            weights.append(block.attention.weights(x, bias))
            x = block(x, bias)
        return torch.stack(weights, 1)

    def _checked_bias(self, bias: Tensor | None) -> Tensor | None:
        if self.config.attention == "geometric" and bias is None and self.n_tokens > 1:
            raise ModelError(
                "Geometric attention needs the distances of a trial's matrices: pass "
                "bias=geometric_bias(covariances, alpha)."
            )
        return bias


def reset_linear(layer: nn.Linear, generator: torch.Generator | None) -> None:
    """Draw weights and bias as ``nn.Linear`` does, uniform within 1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(layer.in_features)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
