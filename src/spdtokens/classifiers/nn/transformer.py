"""SPD Token Transformer (Algorithm 1 of the paper), token MLP, and folding for inference."""

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

Attention = Literal["standard", "geometric"]


@dataclass(frozen=True)
class TransformerConfig:
    """Hyperparameters of a token transformer.

    Parameters
    ----------
    d_model : int, default=128
        Width of the residual stream.
    n_layers : int, default=6
        Number of encoder blocks.
    n_heads : int, default=8
        Attention heads per block. Must divide ``d_model``.
    d_ff : int, default=256
        Hidden width of the feed-forward networks.
    dropout : float, default=0.1
        Dropout probability, in [0, 1).
    bn_embed : bool, default=True
        Whether projected tokens are batch-normalised (BN-Embed of the paper).
    attention : {'standard', 'geometric'}, default='standard'
        ``'geometric'`` lowers the attention score of two tokens by ``alpha`` times the
        Bures-Wasserstein distance between their matrices.
    alpha : float, default=0.5
        Weight of the distance in geometric attention.

    Raises
    ------
    ModelError
        If a value is out of range, or ``n_heads`` does not divide ``d_model``.

    See Also
    --------
    spdtokens.SPDTokenTransformer : Network with these hyperparameters.

    Examples
    --------
    >>> from spdtokens import SPDTokenTransformer
    >>> from spdtokens.classifiers.nn import TransformerConfig
    >>> config = TransformerConfig(d_model=64, n_layers=4, n_heads=4, d_ff=128)
    >>> network = SPDTokenTransformer(253, 1, 4, config)
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
                f"n_heads={n_heads} does not divide d_model={d_model}: use one of {fitting}."
            )
        check_values(
            self,
            dropout=(0 <= self.dropout < 1, "in [0, 1)"),
            attention=(
                self.attention in ("standard", "geometric"),
                "'standard' or 'geometric'",
            ),
        )


#: Networks of the paper: for BCI2a and BCIcha, and for MAMEM.
STANDARD = TransformerConfig()
SMALL = TransformerConfig(d_model=64, n_layers=4, n_heads=4, d_ff=128)


class UndrawnLinear(nn.Linear):
    """Linear layer without initialisation: the network draws the weights from its generator."""

    def reset_parameters(self) -> None:
        """Do nothing, where torch would draw from its global generator."""


class SelfAttention(nn.Module):
    """Multi-head self-attention over the tokens of a trial.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    n_heads : int
        Number of heads.
    dropout : float
        Dropout probability of the attention weights.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        # Separate from the values: with one token nothing depends on queries and keys.
        self.query_key = UndrawnLinear(d_model, 2 * d_model)
        self.value = UndrawnLinear(d_model, d_model)
        self.out = UndrawnLinear(d_model, d_model)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw queries, keys and values as ``nn.MultiheadAttention`` does; set all biases to 0."""
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
        # A softmax over one score is 1 for any query and key.
        weights = self.weights(x, bias) if tokens > 1 else x.new_ones(n, self.n_heads, 1, 1)
        weights = F.dropout(weights, self.dropout, self.training)
        mixed = (weights @ value.transpose(1, 2)).transpose(1, 2)
        return self.out(mixed.reshape(n, tokens, d_model))

    def weights(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Compute attention weights (n, heads, tokens, tokens); rows attend to columns."""
        n, tokens, d_model = x.shape
        query_key = self.query_key(x).view(n, tokens, 2, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        scores = query_key[0] @ query_key[1].mT / math.sqrt(d_model // self.n_heads)
        if bias is not None:
            scores = scores + bias[:, None]
        return scores.softmax(-1)


class EncoderBlock(nn.Module):
    """Post-norm encoder block: attention and a ReLU feed-forward network, each with a residual."""

    def __init__(self, attention: nn.Module, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.attention = attention
        self.norm1 = nn.LayerNorm(d_model)
        self.expand = UndrawnLinear(d_model, d_ff)
        self.contract = UndrawnLinear(d_ff, d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, *bias: Tensor | None) -> Tensor:
        """Map tokens (n, tokens, d_model) to tokens of the same shape."""
        x = self.norm1(x + self._dropped(self.attention(x, *bias)))
        hidden = self._dropped(F.relu(self.expand(x)))
        return self.norm2(x + self._dropped(self.contract(hidden)))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class SPDTokenTransformer(nn.Module):
    """Transformer from tokens of SPD matrices to class scores.

    A linear projection shared by all tokens, learnable positions, BN-Embed, post-norm encoder
    blocks, the mean over tokens, and a linear head.

    Parameters
    ----------
    n_features : int
        Length of a token: d (d + 1) / 2 for d x d matrices.
    n_tokens : int
        Tokens per trial: bands times windows.
    n_classes : int
        Number of classes.
    config : TransformerConfig, default=TransformerConfig()
        Hyperparameters. The default is the paper's network for BCI2a and BCIcha.
    generator : torch.Generator, default=None
        Generator of the initial weights. By default torch's global one.
    **changes : int, float, bool or str
        Fields of :class:`~spdtokens.classifiers.nn.TransformerConfig` to replace, such as
        ``n_layers=2``.

    Raises
    ------
    ModelError
        If a size or hyperparameter is out of range.

    See Also
    --------
    TokenTransformerClassifier : The network as a scikit-learn classifier.
    spdtokens.classifiers.nn.folded : Convert a trained network to NumPy matrices.

    Notes
    -----
    Initial weights follow torch's own layers (``nn.TransformerEncoderLayer``) and are drawn
    independently for each block, whereas ``nn.TransformerEncoder`` starts all blocks as copies.
    Initial positions are normal with standard deviation 0.02, which the paper does not specify.

    Examples
    --------
    >>> import torch
    >>> from spdtokens import SPDTokenTransformer
    >>> network = SPDTokenTransformer(253, 3, 4, n_layers=2)
    >>> network(torch.zeros(5, 3, 253)).shape
    torch.Size([5, 4])
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
        # BN-Embed removes whatever is added to all tokens, and a single token always attends to
        # itself. The gradient of such weights is zero up to rounding, which Adam would turn into
        # full steps. They are therefore not learnt.
        self.project.bias.requires_grad_(not config.bn_embed)
        self.positions.requires_grad_(not config.bn_embed or n_tokens > 1)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights again.

        Parameters
        ----------
        generator : torch.Generator, default=None
            Generator of the weights. By default torch's global one.
        """
        nn.init.normal_(self.positions, std=0.02, generator=generator)
        reset_layers(self, generator)
        for module in self.modules():
            if isinstance(module, SelfAttention):
                module.reset_parameters(generator)

    def embed(self, tokens: Tensor) -> Tensor:
        """Project tokens, add positions and normalise.

        Parameters
        ----------
        tokens : Tensor, shape (n, n_tokens, n_features)
            Tokens.

        Returns
        -------
        Tensor, shape (n, n_tokens, d_model)
            Input of the first encoder block.
        """
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
        """Compute class scores.

        Parameters
        ----------
        tokens : Tensor, shape (n, n_tokens, n_features)
            Tokens.
        bias : Tensor, shape (n, n_tokens, n_tokens), default=None
            Bias of the attention scores, see :func:`~spdtokens.classifiers.nn.geometric_bias`.
            Geometric attention needs it.

        Returns
        -------
        Tensor, shape (n, n_classes)
            Class scores (logits).
        """
        return self.head(self.features(tokens, bias))

    def features(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        """Compute the input of the head: the mean over the encoded tokens.

        Parameters
        ----------
        tokens : Tensor, shape (n, n_tokens, n_features)
            Tokens.
        bias : Tensor, shape (n, n_tokens, n_tokens), default=None
            Bias of the attention scores, as in :meth:`forward`.

        Returns
        -------
        Tensor, shape (n, d_model)
            Features of each trial.
        """
        return self._encoded(tokens, bias)[-1].mean(1)

    def attention_weights(self, tokens: Tensor, bias: Tensor | None = None) -> Tensor:
        """Compute the attention weights of all blocks.

        Parameters
        ----------
        tokens : Tensor, shape (n, n_tokens, n_features)
            Tokens.
        bias : Tensor, shape (n, n_tokens, n_tokens), default=None
            Bias of the attention scores.

        Returns
        -------
        Tensor, shape (n, n_layers, n_heads, n_tokens, n_tokens)
            Attention weights. Rows attend to columns and sum to 1.
        """
        attentions = [cast("SelfAttention", block.attention) for block in self.blocks]
        inputs = self._encoded(tokens, bias)[:-1]
        pairs = zip(attentions, inputs, strict=True)
        return torch.stack([attention.weights(x, bias) for attention, x in pairs], 1)

    def _encoded(self, tokens: Tensor, bias: Tensor | None) -> list[Tensor]:
        """Return the input of each block, and the output of the last."""
        if self.config.attention == "geometric" and bias is None and self.n_tokens > 1:
            raise ModelError(
                "Geometric attention needs the distances between the matrices of a trial: pass "
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
    """Multilayer perceptron on concatenated tokens.

    Hidden layers (linear, batch norm, ReLU, dropout) and a linear head.

    Parameters
    ----------
    n_features : int
        Length of a token: d (d + 1) / 2 for d x d matrices.
    n_tokens : int
        Tokens per trial.
    n_classes : int
        Number of classes.
    width : int, default=512
        Width of each hidden layer, see :func:`matching_width`.
    n_layers : int, default=3
        Number of hidden layers.
    dropout : float, default=0.1
        Dropout probability.
    generator : torch.Generator, default=None
        Generator of the initial weights. By default torch's global one.

    See Also
    --------
    spdtokens.TokenMLPClassifier : The network as a scikit-learn classifier.

    Examples
    --------
    >>> import torch
    >>> from spdtokens.classifiers.nn import SPDTokenMLP
    >>> SPDTokenMLP(253, 3, 4, width=64)(torch.zeros(5, 3, 253)).shape
    torch.Size([5, 4])
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
        # A batch norm removes whatever is added to all trials: the gradient is only rounding error.
        for layer in self.hidden:
            layer.bias.requires_grad_(False)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights again.

        Parameters
        ----------
        generator : torch.Generator, default=None
            Generator of the weights. By default torch's global one.
        """
        reset_layers(self, generator)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute class scores.

        Parameters
        ----------
        tokens : Tensor, shape (n, n_tokens, n_features)
            Tokens.

        Returns
        -------
        Tensor, shape (n, n_classes)
            Class scores (logits).
        """
        x = tokens.flatten(1)
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = F.dropout(F.relu(norm(layer(x))), self.dropout, self.training)
        return self.head(x)


def matching_width(inputs: int, n_classes: int, n_parameters: int, n_layers: int = 3) -> int:
    """Compute the width at which an MLP has a given number of parameters.

    Solves ``(n_layers - 1) w^2 + (inputs + 3 n_layers + n_classes) w = n_parameters`` for the width
    ``w``. The linear term counts the first and last layer, biases and batch norms.

    Parameters
    ----------
    inputs : int
        Number of inputs: tokens per trial times their length.
    n_classes : int
        Number of classes.
    n_parameters : int
        Desired number of parameters.
    n_layers : int, default=3
        Number of hidden layers.

    Returns
    -------
    int
        Width of each hidden layer, at least 1.

    See Also
    --------
    SPDTokenMLP : The network.

    Examples
    --------
    >>> from spdtokens.classifiers.nn import SPDTokenMLP, matching_width
    >>> width = matching_width(253, 4, 100_000)
    >>> sum(p.numel() for p in SPDTokenMLP(253, 1, 4, width=width).parameters())
    100204
    """
    a, b = n_layers - 1, inputs + 3 * n_layers + n_classes
    if a == 0:
        return max(1, round(n_parameters / b))
    return max(1, round((math.sqrt(b * b + 4 * a * n_parameters) - b) / (2 * a)))


def geometric_bias(C: Tensor, alpha: float = 0.5) -> Tensor:
    r"""Compute the attention bias of geometric attention.

    .. math:: -\alpha\, d_{BW}(C_i, C_j) \,/\, \sqrt{\operatorname{mean}_t \operatorname{tr} C_t}

    with the Bures-Wasserstein distance :math:`d_{BW}`. The paper adds alpha times "the BW distance
    score" without a scale. Dividing by the size of the matrices of the trial makes the bias
    independent of the unit of the signal. It does not change during training and is computed once
    per trial.

    Parameters
    ----------
    C : Tensor, shape (n, n_tokens, d, d)
        SPD matrices of the trials.
    alpha : float, default=0.5
        Weight of the distance.

    Returns
    -------
    Tensor, shape (n, n_tokens, n_tokens)
        Bias in float32, to be added to the attention scores.

    See Also
    --------
    spdtokens.SPDTokenTransformer : Network that takes the bias.

    Examples
    --------
    >>> import torch
    >>> from spdtokens.classifiers.nn import geometric_bias
    >>> C = torch.stack([torch.eye(2), 4 * torch.eye(2)])[None]
    >>> geometric_bias(C, alpha=1.0)
    tensor([[[ 0.0000, -0.6325],
             [-0.6325,  0.0000]]])
    """
    bias = distances(C.detach().double().cpu().numpy(), alpha)
    return torch.from_numpy(bias).float().to(C.device)


# Folding a trained token transformer into few matrices, in float64.
#
# For a single trial, the time of a trained network is spent on calls, not on arithmetic: 32 linear
# layers and 12 layer norms with some hundred rows each. Adjacent linear operations are therefore
# multiplied into one matrix. The algebra is exact:
#
# - BN-Embed and positions become part of the projection. - Gain and shift of a layer norm become
# part of the linear maps after it, and its centring :math:`P = I - 11^\top / d` part of those
# before it. What is left of the layer norm is a division by the length of a vector, ``y / sqrt(y.y
# / d + eps)``. - A residual is a block of the matrix: ``x + W u + c`` is ``[I | c | W]`` times
# ``[x; 1; u]``. - With one token, attention is the linear map ``Wo Wv`` and joins its residual; in
# the first block it also joins the projection. - ``1 / sqrt(d_head)`` becomes part of the queries.


def folded(model: SPDTokenTransformer, dtype: DTypeLike = np.float32) -> FoldedTransformer:
    """Convert a network to NumPy matrices for fast prediction of single trials.

    Parameters
    ----------
    model : SPDTokenTransformer
        Network. It is folded as in evaluation mode, and later training does not change the result.
    dtype : dtype, default=numpy.float32
        Dtype of the matrices. The folding itself is done in float64.

    Returns
    -------
    FoldedTransformer
        Network with methods ``scores`` and ``probabilities``, both of tokens
        (n, n_tokens, n_features).

    See Also
    --------
    spdtokens.SPDTokenTransformer : The torch module.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import SPDTokenTransformer
    >>> from spdtokens.classifiers.nn import folded
    >>> network = folded(SPDTokenTransformer(253, 3, 4, n_layers=2))
    >>> network.probabilities(np.zeros((5, 3, 253))).shape
    (5, 4)
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
    """Fold a block whose input is ``gain * z + shift``."""

    def centred(*columns: Array) -> Array:
        W = np.column_stack(columns)
        return W - W.mean(0)  # the layer norm that follows subtracts the mean

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
