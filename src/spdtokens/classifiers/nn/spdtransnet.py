r"""SPDTransNet: a transformer whose tokens remain symmetric matrices between layers.

References
----------
M. Seraphim, A. Lechervy, F. Yger, L. Brun and O. Etard, "Structure-preserving transformers for
sequences of SPD matrices", EUSIPCO 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.classifiers.nn.transformer import UndrawnLinear, reset_linear
from spdtokens.errors import ModelError
from spdtokens.geometry import LOG, invsqrtm, matrix_dim, spectral_token, token_dim
from spdtokens.geometry.matrix_functions import numpy_too


@dataclass(frozen=True)
class SPDTransNetConfig:
    """Everything about SPDTransNet but the shape of its data.

    Attributes
    ----------
    d_model : int
        Width of the tokens inside, a triangular number m (m + 1) / 2: that of matrices m x m.
    n_layers, n_heads, d_ff : int
        Encoder blocks, attention heads of each, width of their feed-forward parts.
    d_hidden : int
        Width between the two fully connected layers at the end.
    dropout : float
        Probability of dropping an entry, in [0, 1).
    """

    d_model: int = 120
    n_layers: int = 2
    n_heads: int = 8
    d_ff: int = 210
    d_hidden: int = 64
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("d_model", "n_layers", "n_heads", "d_ff", "d_hidden"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} is a whole number of at least 1, not {value!r}.")
        _refuse_unless_triangular("d_model", self.d_model)
        if self.d_model % self.n_heads:
            fitting = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0]
            raise ModelError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}: every head gets "
                f"an equal part of the width. Heads that fit: {', '.join(map(str, fitting))}."
            )
        if not 0 <= self.dropout < 1:
            raise ModelError(f"dropout is a probability in [0, 1), not {self.dropout!r}.")


@numpy_too
def whiten(C: Tensor, mean: Tensor) -> Tensor:
    r"""Covariances as seen from their mean, :math:`M^{-1/2} C M^{-1/2}`.

    SPDTransNet whitens by the mean of the recording. That is a fitted step: learn the mean from
    trials that may be seen, and pass it here.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
    mean : Tensor or ndarray, shape (d, d), or of leading axes that broadcast, as (tokens, d, d)

    Returns
    -------
    whitened : Tensor or ndarray, shape (..., d, d)
        Of no unit.
    """
    if C.ndim < 2 or mean.ndim < 2 or C.shape[-2:] != mean.shape[-2:]:
        raise ModelError(
            f"Covariances of shape {tuple(C.shape)} cannot be whitened by a mean of shape "
            f"{tuple(mean.shape)}: both end in (d, d), with the same channels."
        )
    W = invsqrtm(mean)
    return W @ C @ W


class StructurePreservingAttention(nn.Module):
    r"""Attention that only ever takes linear combinations of whole tokens.

    .. math::

        Y = \Big(\sum_h m_h \operatorname{softmax}
            \frac{Q_h K_h^\top}{\sqrt{d_h}}\Big) X

    The maps of the heads are merged by one bias-free linear map h -> 1 and applied to the tokens
    as they are: no projection of values, none of the output. A combination of upper triangles is
    the upper triangle of the combination, so that tokens remain symmetric matrices.

    Parameters
    ----------
    d_model, n_heads : int
    dropout : float
        Applied to the attention maps of the heads.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.query = UndrawnLinear(d_model, d_model)
        self.key = UndrawnLinear(d_model, d_model)
        self.merge = UndrawnLinear(n_heads, 1, bias=False)

    def head_maps(self, x: Tensor) -> Tensor:
        """Attention maps (n, heads, tokens, tokens) before they are merged."""
        n, tokens, d_model = x.shape
        query, key = (
            layer(x).view(n, tokens, self.n_heads, -1).transpose(1, 2)
            for layer in (self.query, self.key)
        )
        return (query @ key.mT / math.sqrt(d_model // self.n_heads)).softmax(-1)

    def weights(self, x: Tensor) -> Tensor:
        """The merged map (n, tokens, tokens): rows attend to columns. Rows need not sum to 1."""
        maps = F.dropout(self.head_maps(x), self.dropout, self.training)
        return self.merge(maps.movedim(1, -1)).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, tokens, d_model) to tokens of the same shape."""
        return self.weights(x) @ x


class SPDTransNetBlock(nn.Module):
    """Post-norm encoder block: attention, then a ReLU feed-forward part, each with a residual."""

    def __init__(self, config: SPDTransNetConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.attention = StructurePreservingAttention(
            config.d_model, config.n_heads, config.dropout
        )
        self.norm1 = nn.LayerNorm(config.d_model)
        self.expand = UndrawnLinear(config.d_model, config.d_ff)
        self.contract = UndrawnLinear(config.d_ff, config.d_model)
        self.norm2 = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, tokens, d_model) to tokens of the same shape."""
        x = self.norm1(x + self._dropped(self.attention(x)))
        hidden = self._dropped(F.relu(self.expand(x)))
        return self.norm2(x + self._dropped(self.contract(hidden)))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class SPDTransNet(nn.Module):
    """Whitened covariances or their tokens in, class scores out.

    Tokens are upper triangles of matrix logarithms. A linear map takes them to a triangular
    width, encoder blocks with :class:`StructurePreservingAttention` mix them, and two fully
    connected layers read all of them side by side.

    Parameters
    ----------
    n_features : int
        Length of a token: d (d + 1) / 2 for matrices d x d.
    n_tokens : int
        Tokens of a trial: bands times windows.
    n_outputs : int
        Classes.
    config : SPDTransNetConfig
    generator : torch.Generator, optional
        Draws the initial weights; torch's global one by default.

    Notes
    -----
    The original scores one epoch of sleep from a sequence of epochs. For single trials its second
    encoder, which runs over epochs, is dropped: a trial is one epoch.

    The network expects covariances that were whitened by a mean of the recording: see
    :func:`whiten`, which also rids them of their unit. Whitening is fitted, so it is not done here.

    Chosen here, not taken from the publication: the sizes; no positions, because the last layers
    read all tokens side by side and know each by its place; heads that begin merged by their mean.
    """

    def __init__(
        self,
        n_features: int,
        n_tokens: int,
        n_outputs: int,
        config: SPDTransNetConfig | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("n_features", n_features), ("n_tokens", n_tokens)):
            if value < 1:
                raise ModelError(f"{name} is at least 1, not {value}.")
        if n_outputs < 2:
            raise ModelError(f"A classifier needs at least 2 classes, not {n_outputs}.")
        _refuse_unless_triangular("n_features", n_features)
        self.config = config = config or SPDTransNetConfig()
        self.n_features, self.n_tokens, self.n_outputs = n_features, n_tokens, n_outputs
        self.n_chans = matrix_dim(n_features)
        self.project = UndrawnLinear(n_features, config.d_model)
        self.blocks = nn.ModuleList([SPDTransNetBlock(config) for _ in range(config.n_layers)])
        self.hidden = UndrawnLinear(n_tokens * config.d_model, config.d_hidden)
        self.head = UndrawnLinear(config.d_hidden, n_outputs)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        for module in self.modules():
            if isinstance(module, StructurePreservingAttention):
                # The mean of the heads; signs drawn at random would turn attention into a guess.
                nn.init.constant_(module.merge.weight, 1 / module.n_heads)
            elif isinstance(module, nn.Linear) and module.bias is not None:
                reset_linear(module, generator)
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()

    def forward(self, X: Tensor) -> Tensor:
        """Class scores (n, classes).

        Parameters
        ----------
        X : Tensor, shape (n, tokens, features) or (n, tokens, d, d)
            Tokens, or whitened covariances, which become ``triu(log C)``.
        """
        x = self.project(self._tokens(X))
        for block in self.blocks:
            x = block(x)
        hidden = F.relu(self.hidden(x.flatten(1)))
        return self.head(F.dropout(hidden, self.config.dropout, self.training))

    def attention_weights(self, X: Tensor) -> Tensor:
        """What attends to what: (n, layers, tokens, tokens), heads merged, rows to columns."""
        x = self.project(self._tokens(X))
        weights = []
        for block in self.blocks:
            assert isinstance(block, SPDTransNetBlock)
            weights.append(block.attention.weights(x))
            x = block(x)
        return torch.stack(weights, 1)

    def _tokens(self, X: Tensor) -> Tensor:
        """Tokens (n, tokens, features) of the network's dtype."""
        d = self.n_chans
        if X.shape[1:] == (self.n_tokens, d, d):
            X = spectral_token(X, LOG)
        if X.shape[1:] != (self.n_tokens, self.n_features):
            raise ModelError(
                f"Expected tokens (n, {self.n_tokens}, {self.n_features}) or whitened covariances "
                f"(n, {self.n_tokens}, {d}, {d}), got a tensor of shape {tuple(X.shape)}."
            )
        return X.to(self.project.weight.dtype)


def _refuse_unless_triangular(name: str, value: int) -> None:
    m = (math.isqrt(8 * value + 1) - 1) // 2
    if token_dim(m) != value:
        raise ModelError(
            f"{name}={value} is not the length of the upper triangle of a matrix: the nearest "
            f"are {token_dim(m)} ({m} x {m}) and {token_dim(m + 1)} ({m + 1} x {m + 1})."
        )
