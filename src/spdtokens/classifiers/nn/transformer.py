"""The SPD Token Transformer: Algorithm 1 of the paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from spdtokens.classifiers.nn.recipe import check_sizes, check_values
from spdtokens.errors import ModelError
from spdtokens.runtime.networks import FoldedBlock, FoldedTransformer
from spdtokens.runtime.networks import geometric_bias as distances
from spdtokens.runtime.tokens import Array

# Shapes of the networks, as plain values.

Attention = Literal["standard", "geometric"]


@dataclass(frozen=True)
class TransformerConfig:
    """Everything about a token transformer but the shape of its data.

    Attributes
    ----------
    d_model : int
        Width of the residual stream.
    n_layers, n_heads, d_ff : int
        Encoder blocks, attention heads of each, width of their feed-forward parts.
    dropout : float
        Probability of dropping an entry, in [0, 1).
    bn_embed : bool
        Whether projected tokens are batch-normalised (the paper's BN-Embed).
    attention : {'standard', 'geometric'}
        ``'geometric'`` lowers the score of two tokens by ``alpha`` times the Bures-Wasserstein
        distance of their matrices.
    alpha : float
    """

    d_model: int = 128
    n_layers: int = 6
    n_heads: int = 8
    d_ff: int = 256
    dropout: float = 0.1
    bn_embed: bool = True
    attention: Attention = "standard"
    alpha: float = 0.5

    def __post_init__(self) -> None:
        d_model, n_heads = self.d_model, self.n_heads
        check_sizes(d_model=d_model, n_layers=self.n_layers, n_heads=n_heads, d_ff=self.d_ff)
        if d_model % n_heads:
            fitting = ", ".join(str(h) for h in range(1, d_model + 1) if d_model % h == 0)
            raise ModelError(
                f"n_heads={n_heads} does not divide d_model={d_model}: every head gets an equal "
                f"part of the width. Heads that fit: {fitting}."
            )
        check_values(
            self,
            dropout=(0 <= self.dropout < 1, "in [0, 1)"),
            attention=(
                self.attention in ("standard", "geometric"),
                "'standard' or 'geometric'",
            ),
        )


#: The paper's networks: for BCI2a and BCIcha, and for MAMEM.
STANDARD = TransformerConfig()
SMALL = TransformerConfig(d_model=64, n_layers=4, n_heads=4, d_ff=128)


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

    def __init__(self, attention: nn.Module, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.attention = attention
        self.norm1 = nn.LayerNorm(d_model)
        self.expand = UndrawnLinear(d_model, d_ff)
        self.contract = UndrawnLinear(d_ff, d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, *bias: Tensor | None) -> Tensor:
        """Tokens (n, tokens, d_model) to tokens of the same shape."""
        x = self.norm1(x + self._dropped(self.attention(x, *bias)))
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
        check_sizes(n_features=n_features, n_tokens=n_tokens, n_classes=n_classes)
        self.config, self.dropout = config, config.dropout
        self.n_features, self.n_tokens, self.n_classes = n_features, n_tokens, n_classes
        self.project = UndrawnLinear(n_features, config.d_model)
        self.positions = nn.Parameter(torch.empty(n_tokens, config.d_model))
        self.bn_embed = nn.BatchNorm1d(config.d_model) if config.bn_embed else None
        d_model, dropout = config.d_model, config.dropout
        self.blocks = nn.ModuleList()
        for _ in range(config.n_layers):
            attention = SelfAttention(d_model, config.n_heads, dropout)
            attention.query_key.requires_grad_(n_tokens > 1)
            self.blocks.append(EncoderBlock(attention, d_model, config.d_ff, dropout))
        self.head = UndrawnLinear(config.d_model, n_classes)
        # BN-Embed takes out what is added to all tokens, and one token attends to itself whatever
        # it asks for. Such weights have a gradient of zero but for rounding, which Adam turns into
        # full steps: what the running mean has not followed yet would reach the scores.
        self.project.bias.requires_grad_(not config.bn_embed)
        self.positions.requires_grad_(not config.bn_embed or n_tokens > 1)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        nn.init.normal_(self.positions, std=0.02, generator=generator)
        reset_layers(self, generator)
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
        return self.bn_embed(x.flatten(0, 1)).view_as(x)

    def forward(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        """Class scores (n, classes) of tokens (n, tokens, features).

        Parameters
        ----------
        tokens : Tensor, shape (n, tokens, features)
        bias : Tensor, shape (n, tokens, tokens), optional
            Added to the attention scores: see :func:`spdtokens.classifiers.nn.transformer_bias`.
        """
        return self.head(self._encoded(tokens, bias)[-1].mean(1))

    def attention_weights(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        """What attends to what: (n, layers, heads, tokens, tokens), rows to columns."""
        attentions = [cast("SelfAttention", block.attention) for block in self.blocks]
        inputs = self._encoded(tokens, bias)[:-1]
        pairs = zip(attentions, inputs, strict=True)
        return torch.stack([attention.weights(x, bias) for attention, x in pairs], 1)

    def _encoded(self, tokens: Tensor, bias: Tensor | None) -> list[Tensor]:
        """What enters each block, and what leaves the last."""
        if self.config.attention == "geometric" and bias is None and self.n_tokens > 1:
            raise ModelError(
                "Geometric attention needs the distances of a trial's matrices: pass "
                "bias=geometric_bias(covariances, alpha)."
            )
        states = [self.embed(tokens)]
        for block in self.blocks:
            states.append(block(states[-1], bias))
        return states


def reset_layers(network: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw linear layers as torch does, uniform within 1 / sqrt(inputs), and reset all norms."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            bound = 1 / math.sqrt(layer.in_features)
            for weight in (layer.weight, layer.bias):
                nn.init.uniform_(weight, -bound, bound, generator=generator)
        elif isinstance(layer, nn.LayerNorm | nn.BatchNorm1d):
            layer.reset_parameters()


class SPDTokenMLP(nn.Module):
    """Tokens side by side, then hidden layers (linear, batch norm, ReLU, dropout), then a head.

    Parameters
    ----------
    n_features, n_tokens, n_classes : int
    width : int
        Of each hidden layer; see :func:`matching_width`.
    n_layers : int
        Hidden layers.
    dropout : float
    generator : torch.Generator, optional
        Draws the initial weights; torch's global one by default.
    """

    def __init__(
        self,
        n_features: int,
        n_tokens: int,
        n_classes: int,
        *,
        width: int = 512,
        n_layers: int = 3,
        dropout: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes(
            n_features=n_features,
            n_tokens=n_tokens,
            n_classes=n_classes,
            width=width,
            n_layers=n_layers,
        )
        self.n_features, self.n_tokens, self.n_classes = n_features, n_tokens, n_classes
        self.width, self.dropout = width, dropout
        sizes = [n_features * n_tokens] + [width] * n_layers
        self.hidden = nn.ModuleList([UndrawnLinear(a, b) for a, b in itertools.pairwise(sizes)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(n_layers)])
        self.head = UndrawnLinear(width, n_classes)
        # A batch norm takes out what is added to all trials: no gradient but rounding errors.
        for layer in self.hidden:
            layer.bias.requires_grad_(False)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        reset_layers(self, generator)

    def forward(self, tokens: Tensor) -> Tensor:
        """Class scores (n, classes) of tokens (n, tokens, features)."""
        x = tokens.flatten(1)
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = F.dropout(F.relu(norm(layer(x))), self.dropout, self.training)
        return self.head(x)


def matching_width(inputs: int, n_classes: int, n_parameters: int, n_layers: int = 3) -> int:
    """Width at which :class:`SPDTokenMLP` has about ``n_parameters`` weights.

    Solves ``(layers - 1) w^2 + (inputs + 3 layers + classes) w = n_parameters`` for the width,
    where the middle term holds the first and last layer, biases and batch norms.
    """
    a, b = n_layers - 1, inputs + 3 * n_layers + n_classes
    if a == 0:
        return max(1, round(n_parameters / b))
    return max(1, round((math.sqrt(b * b + 4 * a * n_parameters) - b) / (2 * a)))


def geometric_bias(C: Tensor, alpha: float = 0.5) -> Tensor:
    r"""Attention scores lowered by the Bures-Wasserstein distance of two tokens' matrices.

    .. math:: -\alpha\, d_{BW}(C_i, C_j) \,/\, \sqrt{\operatorname{mean}_t \operatorname{tr} C_t}

    The paper adds alpha times "the BW distance score" and does not say how it is scaled; a score
    that depends on the unit of the signal would be an accident, so the distance is taken relative
    to the size of the trial's own matrices. These do not change in training: this is computed once
    a trial, not in every layer of every step.

    Parameters
    ----------
    C : Tensor, shape (n, tokens, d, d)
        SPD matrices of the trials.
    alpha : float

    Returns
    -------
    bias : Tensor of float32, shape (n, tokens, tokens)
    """
    bias = distances(C.detach().double().cpu().numpy(), alpha)
    return torch.from_numpy(bias).float().to(C.device)


# Fold a trained token transformer into few matrices, in float64.
#
# What a trained network computes for one trial is mostly calls, not arithmetic: 32 linear layers
# and 12 layer norms, of some hundred rows each. Everything linear that stands side by side becomes
# one matrix. All of it is exact algebra:
#
# - BN-Embed and positions are part of the projection.
# - The gain and shift of a layer norm are part of the linear maps that follow it, and its centring
#   :math:`P = I - 11^\top / d` is part of those before it: what is left of the layer norm is a
#   division by the length of a vector, ``y / sqrt(y.y / d + eps)``.
# - A residual is a block of the matrix: ``x + W u + c`` is ``[I | c | W]`` times ``[x; 1; u]``.
# - With one token, attention is the linear map ``Wo Wv``, and joins its residual; in the first
#   block it joins the projection, too.
# - ``1 / sqrt(d_head)`` is part of the queries.


def folded(model: SPDTokenTransformer, dtype: DTypeLike = np.float32) -> FoldedTransformer:
    """Fold a network as it is now: in eval mode, whatever mode it is in.

    Parameters
    ----------
    model : SPDTokenTransformer
    dtype : dtype
        Of the result; the folding itself is done in float64.
    """
    project, constant = _weights(model.project)
    offsets = constant[:, None] + _array(model.positions).T
    if model.bn_embed is not None:
        bn = model.bn_embed
        scale = _array(bn.weight) / np.sqrt(_array(bn.running_var) + bn.eps)
        project = project * scale[:, None]
        offsets = scale[:, None] * (offsets - _array(bn.running_mean)[:, None])
        offsets = offsets + _array(bn.bias)[:, None]
    gain, shift = np.ones(len(project)), np.zeros(len(project))
    blocks: list[FoldedBlock] = []
    for block in cast("Iterable[EncoderBlock]", model.blocks):
        blocks.append(_folded_block(block, gain, shift, model.n_tokens))
        gain, shift = _weights(block.norm2)
    mix = blocks[0].mix
    if model.n_tokens == 1 and mix is not None:
        project, offsets = mix[:, :-1] @ project, mix[:, :-1] @ offsets + mix[:, -1:]
        blocks[0] = replace(blocks[0], mix=None)
    W, c = _weights(model.head)
    return FoldedTransformer(
        project,
        offsets,
        tuple(blocks),
        np.column_stack([W * gain, W @ shift + c]),
        model.config.n_heads,
        model.config.attention == "geometric",
    ).astype(dtype)


def _array(tensor: Any) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()


def _weights(layer: Any) -> tuple[Array, Array]:
    return _array(layer.weight), _array(layer.bias)


def _folded_block(block: EncoderBlock, gain: Array, shift: Array, n_tokens: int) -> FoldedBlock:
    """A block whose input is ``gain * z + shift``."""

    def centred(*columns: Array) -> Array:
        W = np.column_stack(columns)
        return W - W.mean(0)  # what follows is a layer norm, which subtracts it

    attention = cast("SelfAttention", block.attention)
    d = len(gain)
    Wqk, cqk = _weights(attention.query_key)
    Wv, cv = _weights(attention.value)
    Wo, co = _weights(attention.out)
    attend = None
    if n_tokens == 1:
        M = np.eye(d) + Wo @ Wv
        mix = centred(M * gain, M @ shift + Wo @ cv + co)
    else:
        W, c = np.concatenate([Wqk, Wv]), np.concatenate([cqk, cv])
        attend = np.column_stack([W * gain, W @ shift + c])
        attend[:d] /= math.sqrt(d // attention.n_heads)
        mix = centred(np.diag(gain), shift + co, Wo)
    gain, shift = _weights(block.norm1)
    W1, c1 = _weights(block.expand)
    W2, c2 = _weights(block.contract)
    return FoldedBlock(
        attend,
        mix,
        expand=np.column_stack([W1 * gain, W1 @ shift + c1]),
        contract=centred(np.diag(gain), shift + c2, W2),
        eps=(block.norm1.eps, block.norm2.eps),
    )
