"""Network of spatial filters, shared by all people and all windows of a band."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Added to powers of about 1 before the logarithm.
EPS = 1e-6


def training_dtype(device: torch.device) -> torch.dtype:
    """Precision of the tokens in training: bfloat16 where the processor multiplies it natively.

    Products are several times faster; sums are accumulated in single precision. Trained weights are
    in single precision, and so is everything but the tokens.
    """
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if device.type == "cpu" and native() else torch.float32


class SpatialFilterNetwork(nn.Module):
    r"""Ensemble of networks: logarithms of the power of spatial filters, and a linear layer.

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
        Number of spatial filters per band and member.
    members : int, default=1
        Number of networks, which are trained on the same batches.
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
    spdtokens.SpatialFilterClassifier : Trains it.

    Examples
    --------
    >>> import torch
    >>> from spdtokens.classifiers.nn.filters import SpatialFilterNetwork
    >>> network = SpatialFilterNetwork(3, 2, 4, 2, n_filters=5, members=7)
    >>> network([torch.rand(6, 4, 6), torch.rand(6, 4, 6)]).shape
    torch.Size([6, 7, 2])
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
        members: int = 1,
        dropout: float = 0.5,
        mirror: Tensor | None = None,
        mirror_means: Tensor | None = None,
        swap: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.members, self.dropout = members, dropout
        self.mirror, self.mirror_means, self.swap = mirror, mirror_means, swap
        shape = (n_bands, n_channels, members, n_filters)
        self.filters = nn.Parameter(torch.randn(shape) / sqrt(n_channels))
        n_powers = n_bands * n_windows * n_filters
        self.powers = nn.BatchNorm1d(members * n_powers)
        self.means = nn.BatchNorm1d(n_means) if n_means else None
        weight = torch.zeros(members, n_powers + n_means, n_outputs)
        nn.init.uniform_(weight[:, :n_powers], -1 / sqrt(n_powers), 1 / sqrt(n_powers))
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(members, n_outputs))

    def forward(self, bands: Sequence[Tensor], means: Tensor | None = None) -> Tensor:
        """Compute scores (n, members, n_outputs).

        Parameters
        ----------
        bands : sequence of Tensor, shape (n, n_windows, d (d + 1) / 2)
            Tokens of each band.
        means : Tensor, shape (n, n_means), default=None
            Means over time.

        Returns
        -------
        Tensor, shape (n, members, n_outputs)
            Scores.
        """
        n = len(bands[0])
        n_mirrored = 0
        if self.training and self.mirror is not None:
            n_mirrored = int((torch.rand(n) < 0.5).sum())
            if means is not None:
                first = means[:n_mirrored, self.mirror_means]
                means = torch.cat([first, means[n_mirrored:]])
        found = self._powers([band[n_mirrored:] for band in bands], self.filters)
        if n_mirrored:
            seen = [band[:n_mirrored] for band in bands]
            found = torch.cat([self._powers(seen, self.filters[:, self.mirror]), found])
        features = self.powers(found).view(n, self.members, -1)
        if self.means is not None:
            shared = self.means(means)[:, None].expand(-1, self.members, -1)
            features = torch.cat([features, shared], 2)
        features = F.dropout(features, self.dropout, self.training)
        scores = torch.einsum("nmf,mfc->nmc", features, self.weight) + self.bias
        if n_mirrored:
            scores = torch.cat([scores[:n_mirrored][..., self.swap], scores[n_mirrored:]])
        return scores

    def _powers(self, bands: Sequence[Tensor], filters: Tensor) -> Tensor:
        """Logarithms of powers (n, members * bands * windows * filters)."""
        weights = RankOne.apply(filters.flatten(2)).to(bands[0].dtype)
        pairs = zip(bands, weights, strict=True)
        found = torch.stack([band.flatten(0, 1) @ weight for band, weight in pairs]).float()
        n, n_windows, _ = bands[0].shape
        logs = torch.log(found.clamp_min(0) + EPS)
        logs = logs.view(len(bands), n, n_windows, self.members, filters.shape[-1])
        return logs.permute(1, 3, 0, 2, 4).reshape(n, self.powers.num_features)


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
