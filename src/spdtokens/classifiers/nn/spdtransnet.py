r"""SPDTransNet: a transformer whose tokens stay symmetric matrices in all layers.

References
----------
M. Seraphim, A. Lechervy, F. Yger, L. Brun and O. Etard, "Structure-preserving transformers for
sequences of SPD matrices", EUSIPCO 2024.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.classifiers.nn.recipe import check_sizes
from spdtokens.classifiers.nn.transformer import EncoderBlock, UndrawnLinear, reset_layers
from spdtokens.errors import ModelError
from spdtokens.geometry import token_dim


class StructurePreservingAttention(nn.Module):
    r"""Attention that takes linear combinations of whole tokens only.

    .. math::

        Y = \Big(\sum_h m_h \operatorname{softmax}
            \frac{Q_h K_h^\top}{\sqrt{d_h}}\Big) X

    The attention maps of the heads are merged by one linear map h -> 1 without bias and applied to
    the tokens, without projections of values or output. A combination of upper triangles is the
    upper triangle of the combination, so tokens stay symmetric matrices.

    Parameters
    ----------
    d_model : int
        Width of the tokens.
    n_heads : int
        Number of heads.
    dropout : float
        Dropout probability of the attention maps.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.query = UndrawnLinear(d_model, d_model)
        self.key = UndrawnLinear(d_model, d_model)
        self.merge = UndrawnLinear(n_heads, 1, bias=False)
        # Starts as the mean of the heads: random signs would cancel the attention.
        nn.init.constant_(self.merge.weight, 1 / n_heads)

    def weights(self, x: Tensor) -> Tensor:
        """Compute the merged map (n, tokens, tokens); rows attend to columns."""
        n, tokens, d_model = x.shape
        query, key = (
            layer(x).view(n, tokens, self.n_heads, -1).transpose(1, 2)
            for layer in (self.query, self.key)
        )
        maps = (query @ key.mT / math.sqrt(d_model // self.n_heads)).softmax(-1)
        maps = F.dropout(maps, self.dropout, self.training)
        return self.merge(maps.movedim(1, -1)).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (n, tokens, d_model) to tokens of the same shape."""
        return self.weights(x) @ x


class SPDTransNet(nn.Module):
    """SPDTransNet on tokens of whitened covariances.

    Tokens are upper triangles of matrix logarithms. A linear map to a triangular width, encoder
    blocks with :class:`StructurePreservingAttention`, and two fully connected layers on the
    concatenated tokens.

    Parameters
    ----------
    n_features : int
        Length of a token: d (d + 1) / 2 for d x d matrices.
    n_tokens : int
        Tokens per trial: bands times windows.
    n_outputs : int
        Number of classes.
    d_model : int
        Width of the tokens inside, a triangular number m (m + 1) / 2, as for m x m matrices.
    n_layers, n_heads, d_ff : int
        Number of encoder blocks, attention heads per block, hidden width of the feed-forward
        networks.
    d_hidden : int
        Width between the two fully connected layers at the end.
    dropout : float
        Dropout probability, in [0, 1).

    Notes
    -----
    The original scores one epoch of sleep from a sequence of epochs. Here a trial is one epoch, and
    the second encoder, which runs over epochs, is left out.

    Covariances are first whitened by a mean of the recording, which removes their unit. The
    embedding ``'affine_invariant'`` does that.

    Not from the publication: the sizes; no positions, because the last layers see all tokens in
    order; heads that are initially merged by their mean.
    """

    def __init__(
        self,
        n_features: int,
        n_tokens: int,
        n_outputs: int,
        *,
        d_model: int = 120,
        n_layers: int = 2,
        n_heads: int = 8,
        d_ff: int = 210,
        d_hidden: int = 64,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_sizes(n_features=n_features, n_tokens=n_tokens, n_outputs=n_outputs)
        for name, value in (("n_features", n_features), ("d_model", d_model)):
            m = (math.isqrt(8 * value + 1) - 1) // 2
            if token_dim(m) != value:
                raise ModelError(
                    f"{name} must be a triangular number, such as {token_dim(m)} or "
                    f"{token_dim(m + 1)}, got {value}."
                )
        self.n_features, self.n_tokens, self.dropout = n_features, n_tokens, dropout
        self.project = UndrawnLinear(n_features, d_model)
        self.blocks = nn.Sequential()
        for _ in range(n_layers):
            attention = StructurePreservingAttention(d_model, n_heads, dropout)
            self.blocks.append(EncoderBlock(attention, d_model, d_ff, dropout))
        self.hidden = UndrawnLinear(n_tokens * d_model, d_hidden)
        self.head = UndrawnLinear(d_hidden, n_outputs)
        reset_layers(self)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of tokens (n, n_tokens, n_features)."""
        if tokens.shape[1:] != (self.n_tokens, self.n_features):
            raise ModelError(
                f"Expected tokens (n, {self.n_tokens}, {self.n_features}), got shape "
                f"{tuple(tokens.shape)}."
            )
        x = self.blocks(self.project(tokens.to(self.project.weight.dtype)))
        hidden = F.relu(self.hidden(x.flatten(1)))
        return self.head(F.dropout(hidden, self.dropout, self.training))
