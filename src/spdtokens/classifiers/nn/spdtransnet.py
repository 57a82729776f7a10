r"""SPDTransNet: a transformer whose tokens remain symmetric matrices between layers.

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
        # The mean of the heads; signs drawn at random would turn attention into a guess.
        nn.init.constant_(self.merge.weight, 1 / n_heads)

    def weights(self, x: Tensor) -> Tensor:
        """The merged map (n, tokens, tokens): rows attend to columns. Rows need not sum to 1."""
        n, tokens, d_model = x.shape
        query, key = (
            layer(x).view(n, tokens, self.n_heads, -1).transpose(1, 2)
            for layer in (self.query, self.key)
        )
        maps = (query @ key.mT / math.sqrt(d_model // self.n_heads)).softmax(-1)
        maps = F.dropout(maps, self.dropout, self.training)
        return self.merge(maps.movedim(1, -1)).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, tokens, d_model) to tokens of the same shape."""
        return self.weights(x) @ x


class SPDTransNet(nn.Module):
    """Tokens of whitened covariances in, class scores out.

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
    d_model : int
        Width of the tokens inside, a triangular number m (m + 1) / 2: that of matrices m x m.
    n_layers, n_heads, d_ff : int
        Encoder blocks, attention heads of each, width of their feed-forward parts.
    d_hidden : int
        Width between the two fully connected layers at the end.
    dropout : float
        Probability of dropping an entry, in [0, 1).

    Notes
    -----
    The original scores one epoch of sleep from a sequence of epochs. For single trials its second
    encoder, which runs over epochs, is dropped: a trial is one epoch.

    Covariances are whitened by a mean of the recording first, which rids them of their unit: the
    embedding ``'affine_invariant'`` does that.

    Chosen here, not taken from the publication: the sizes; no positions, because the last layers
    read all tokens side by side and know each by its place; heads that begin merged by their mean.
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
                    f"{name}={value} is not the length of the upper triangle of a matrix: the "
                    f"nearest are {token_dim(m)} ({m} x {m}) and {token_dim(m + 1)}."
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
        """Class scores (n, classes) of tokens (n, tokens, features)."""
        if tokens.shape[1:] != (self.n_tokens, self.n_features):
            raise ModelError(
                f"Expected tokens (n, {self.n_tokens}, {self.n_features}), got a tensor of shape "
                f"{tuple(tokens.shape)}."
            )
        x = self.blocks(self.project(tokens.to(self.project.weight.dtype)))
        hidden = F.relu(self.hidden(x.flatten(1)))
        return self.head(F.dropout(hidden, self.dropout, self.training))
