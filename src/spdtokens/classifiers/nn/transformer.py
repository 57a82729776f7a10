"""The SPD Token Transformer: Algorithm 1 of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from spdtokens.errors import ModelError
from spdtokens.runtime.networks import Array, FoldedBlock, FoldedTransformer, stored

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
        for name in ("d_model", "n_layers", "n_heads", "d_ff"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} is a whole number of at least 1, not {value!r}.")
        if self.d_model % self.n_heads:
            fitting = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0]
            raise ModelError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}: every head gets "
                f"an equal part of the width. Heads that fit: {', '.join(map(str, fitting))}."
            )
        if not 0 <= self.dropout < 1:
            raise ModelError(f"dropout is a probability in [0, 1), not {self.dropout!r}.")
        if self.attention not in ("standard", "geometric"):
            raise ModelError(f"attention is 'standard' or 'geometric', not {self.attention!r}.")


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
            Added to the attention scores: see :func:`spdtokens.classifiers.nn.geometric_bias`.
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


# Fold a trained token transformer into few matrices, in float64.
#
# What a trained network computes for one trial is mostly calls, not arithmetic: 32 linear layers
# and
# 12 layer norms, of some hundred rows each. Everything linear that stands side by side becomes one
# matrix. All of it is exact algebra:
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
    project, offsets, blocks, head = _fold(model)
    return FoldedTransformer(
        stored(project, dtype),
        stored(offsets, dtype),
        tuple(block.astype(dtype) for block in blocks),
        stored(head, dtype),
        model.config.n_heads,
        model.config.attention == "geometric",
    )


def _fold(model: SPDTokenTransformer) -> tuple[Array, Array, tuple[FoldedBlock, ...], Array]:
    """Projection, offsets, blocks and head."""
    project, offsets = _folded_embedding(model)
    gain, shift = np.ones(len(project)), np.zeros(len(project))
    blocks: list[FoldedBlock] = []
    for block in cast("Iterable[EncoderBlock]", model.blocks):
        folded, gain, shift = _folded_block(block, gain, shift, model.n_tokens)
        blocks.append(folded)
    mix = blocks[0].mix
    if model.n_tokens == 1 and mix is not None:
        project, offsets = mix[:, :-1] @ project, mix[:, :-1] @ offsets + mix[:, -1:]
        blocks[0] = replace(blocks[0], mix=None)
    W, c = _linear(model.head)
    return project, offsets, tuple(blocks), _augmented(W * gain, W @ shift + c)


def _array(tensor: Any) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()


def _linear(layer: nn.Linear) -> tuple[Array, Array]:
    return _array(layer.weight), _array(layer.bias)


def _augmented(W: Array, *columns: Array) -> Array:
    """Matrix ``[W | ...]`` of vectors and matrices side by side."""
    return np.column_stack([W, *columns])


def _centred(W: Array) -> Array:
    """``P W``: what follows is a layer norm, which subtracts the mean over its rows."""
    return W - W.mean(0)


def _folded_embedding(model: SPDTokenTransformer) -> tuple[Array, Array]:
    """Projection (d_model, features) and offsets (d_model, tokens)."""
    W, c = _linear(model.project)
    offsets = c[:, None] + _array(model.positions).T
    bn = model.bn_embed
    if bn is None:
        return W, offsets
    scale = _array(bn.weight) / np.sqrt(_array(bn.running_var) + bn.eps)
    mean, shift = _array(bn.running_mean), _array(bn.bias)
    return W * scale[:, None], scale[:, None] * (offsets - mean[:, None]) + shift[:, None]


def _folded_attention(
    attention: SelfAttention, gain: Array, shift: Array, n_tokens: int
) -> tuple[Array | None, Array]:
    """``attend`` and ``mix`` of a block whose input is ``gain * z + shift``."""
    d = len(gain)
    Wqk, cqk = _linear(attention.query_key)
    Wv, cv = _linear(attention.value)
    Wo, co = _linear(attention.out)
    if n_tokens == 1:
        M = np.eye(d) + Wo @ Wv
        return None, _centred(_augmented(M * gain, M @ shift + Wo @ cv + co))
    W, c = np.concatenate([Wqk, Wv]), np.concatenate([cqk, cv])
    attend = _augmented(W * gain, W @ shift + c)
    attend[:d] /= math.sqrt(d // attention.n_heads)
    return attend, _centred(_augmented(np.diag(gain), shift + co, Wo))


def _folded_block(
    block: EncoderBlock, gain: Array, shift: Array, n_tokens: int
) -> tuple[FoldedBlock, Array, Array]:
    """A block whose input is ``gain * z + shift``; the gain and shift of its output."""
    attend, mix = _folded_attention(block.attention, gain, shift, n_tokens)
    gain, shift = _array(block.norm1.weight), _array(block.norm1.bias)
    W1, c1 = _linear(block.expand)
    W2, c2 = _linear(block.contract)
    folded = FoldedBlock(
        attend,
        mix,
        expand=_augmented(W1 * gain, W1 @ shift + c1),
        contract=_centred(_augmented(np.diag(gain), shift + c2, W2)),
        eps=(block.norm1.eps, block.norm2.eps),
    )
    return folded, _array(block.norm2.weight), _array(block.norm2.bias)
