"""Network of spatial filters, shared by all people and all windows of a band."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Added to powers of about 1 before the logarithm.
EPS = 1e-6


class SpatialFilterNetwork(nn.Module):
    r"""Logarithms of the power of learned spatial filters, and a linear layer.

    The tokens are the upper triangles of the matrices, :math:`t = \operatorname{triu}(C)`, and
    filters are a linear projection of them with rank-one weights, shared by all windows of a band:
    the power of a filter :math:`w` is :math:`w^\top C w = \langle t, \operatorname{triu}'(w w^\top)
    \rangle` with off-diagonal entries counted twice. Logarithms of powers, and the means over time
    if there are any, are batch-normalised, dropped out and mapped to scores.

    In training, a random half of every batch is mirrored: with rows of left and right electrodes
    exchanged, the scores of left and right classes are exchanged too.

    Parameters
    ----------
    n_channels : int
        Number of channels d.
    n_bands : int
        Number of bands.
    n_windows : int
        Number of windows per band.
    n_outputs : int
        Number of classes.
    n_means : int, default=0
        Number of means over time (channels times parts of windows).
    n_filters : int, default=32
        Number of spatial filters per band.
    dropout : float, default=0.5
        Dropout probability.
    mirror : Tensor of int, shape (d,), default=None
        Index of the electrode on the other side. None to disable mirroring.
    mirror_means : Tensor of int, shape (n_means,), default=None
        The same for the means.
    swap : Tensor of int, shape (n_outputs,), default=None
        Index of the class that is mirrored to each class.

    See Also
    --------
    spdtokens.SpatialFilterClassifier : Trains an ensemble of these networks.

    Examples
    --------
    >>> import torch
    >>> from spdtokens.classifiers.nn.filters import SpatialFilterNetwork
    >>> network = SpatialFilterNetwork(3, 2, 4, 2, n_filters=5)
    >>> network(torch.rand(6, 2 * 4 * 6)).shape
    torch.Size([6, 2])
    """

    def __init__(
        self,
        n_channels: int,
        n_bands: int,
        n_windows: int,
        n_outputs: int,
        *,
        n_means: int = 0,
        n_filters: int = 32,
        dropout: float = 0.5,
        mirror: Tensor | None = None,
        mirror_means: Tensor | None = None,
        swap: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.shape = (n_bands, n_windows, n_channels * (n_channels + 1) // 2)
        self.n_means, self.dropout, self.swap = n_means, dropout, swap
        self.mirror, self.mirror_means = mirror, mirror_means
        self.filters = nn.Parameter(torch.randn(n_bands, n_channels, n_filters) / sqrt(n_channels))
        self.powers = nn.BatchNorm1d(n_bands * n_windows * n_filters)
        self.means = nn.BatchNorm1d(n_means) if n_means else None
        self.head = nn.Linear(self.powers.num_features + n_means, n_outputs)
        with torch.no_grad():
            self.head.weight[:, self.powers.num_features :] = 0

    def forward(self, x: Tensor) -> Tensor:
        """Compute scores (n, n_outputs) of flat tokens and means (n, features)."""
        n = len(x)
        n_mirrored = 0
        if self.training and self.mirror is not None:
            n_mirrored = int((torch.rand(n) < 0.5).sum())
        n_bands, n_windows, width = self.shape
        tokens = x[:, : n_bands * n_windows * width].view(n, n_bands, n_windows, width)
        means = x[:, n_bands * n_windows * width :]
        parts = []
        if n_mirrored:
            assert self.mirror_means is not None
            parts.append(self._powers(tokens[:n_mirrored], self.filters[:, self.mirror]))
            means = torch.cat([means[:n_mirrored, self.mirror_means], means[n_mirrored:]])
        parts.append(self._powers(tokens[n_mirrored:], self.filters))
        features = [self.powers(torch.cat(parts).flatten(1))]
        if self.means is not None:
            features.append(self.means(means))
        scores = self.head(F.dropout(torch.cat(features, 1), self.dropout, self.training))
        if n_mirrored:
            scores = torch.cat([scores[:n_mirrored][:, self.swap], scores[n_mirrored:]])
        return scores

    def _powers(self, tokens: Tensor, filters: Tensor) -> Tensor:
        """Logarithms of powers (n, bands, windows, filters)."""
        n, n_bands, n_windows, width = tokens.shape
        weights = RankOne.apply(filters)
        rows = tokens.transpose(0, 1).reshape(n_bands, n * n_windows, width)
        powers = (rows @ weights).unflatten(1, (n, n_windows)).transpose(0, 1)
        return torch.log(powers.clamp_min(0) + EPS)


class RankOne(torch.autograd.Function):
    """Weights ``triu'(w w^T)`` of tokens (bands, d (d + 1) / 2, k), from filters (bands, d, k)."""

    @staticmethod
    def forward(ctx, filters: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        """Multiply entries of the filters; off-diagonal entries count twice."""
        ctx.save_for_backward(filters)
        d = filters.shape[1]
        row, column = torch.triu_indices(d, d, device=filters.device)
        twice = (1.0 + (row != column).to(filters.dtype))[:, None]
        return filters[:, row] * filters[:, column] * twice

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        """Gather instead of autograd's scatter of the indexed entries, which is slow."""
        (filters,) = ctx.saved_tensors
        d = filters.shape[1]
        row, column = torch.triu_indices(d, d, device=grad.device)
        place = torch.empty(d, d, dtype=torch.int64, device=grad.device)
        place[row, column] = place[column, row] = torch.arange(len(row), device=grad.device)
        whole = grad.index_select(1, place.ravel()).unflatten(1, (d, d))
        return 2 * (whole * filters[:, None]).sum(2)
