r"""MAtt: attention between covariances of parts of a trial, after learnt filters.

References
----------
Y.-T. Pan, J.-L. Chou and C.-S. Wei, "MAtt: a manifold attention network for EEG decoding",
NeurIPS 2022.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.classifiers.nn.convolutional import RawNet
from spdtokens.classifiers.nn.spdnet import RECTIFIED, BiMap, Unit
from spdtokens.geometry import expm, logm, token_dim, vech

#: Added to the diagonal of covariances of trace 1.
_RIDGE = 1e-5


class MAttConfig(NamedTuple):
    """Sizes of MAtt; the defaults are the original's for BCI2a.

    Parameters
    ----------
    n_spatial : int
        Spatial filters (convolution 1).
    n_temporal, kernel : int
        Temporal filters (convolution 2) and their length in samples.
    n_mapped : int
        Size of queries, keys and values; at most ``n_temporal``.
    n_tokens : int
        Number of parts that a trial is cut into.
    """

    n_spatial: int = 22
    n_temporal: int = 20
    kernel: int = 12
    n_mapped: int = 18
    n_tokens: int = 3


#: Sizes in the original for other numbers of channels: BCIcha (56) and MAMEM (8).
ORIGINAL = {56: MAttConfig(22, 16, 64, 8, 3), 8: MAttConfig(125, 15, 36, 12, 7)}


class ManifoldAttention(nn.Module):
    r"""Self-attention between SPD matrices in the log-Euclidean geometry.

    .. math::

        w_{ij} = \operatorname{softmax}_j \frac{1}{1 + \log(1 + d^2(Q_i, K_j))}, \qquad
        Y_i = \exp \sum_j w_{ij} \log V_j,

    with :math:`Q, K, V` bilinear maps of the tokens and :math:`d` the Frobenius norm of the
    difference of logarithms.

    Parameters
    ----------
    d_in, d_out : int
        Sizes of the matrices before and after.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (BiMap(d_in, d_out) for _ in range(3))

    def weights(self, C: Tensor) -> Tensor:
        """Compute attention weights (n, tokens, tokens); rows attend to columns."""
        gap = logm(self.query(C)).unsqueeze(2) - logm(self.key(C)).unsqueeze(1)
        # Unlike the distance, its square has a gradient where two tokens are equal.
        squared = gap.square().sum((-2, -1))
        return (1 / (1 + squared.log1p())).softmax(-1)

    def forward(self, C: Tensor) -> Tensor:
        """Map SPD tokens (n, tokens, d_in, d_in) to (n, tokens, d_out, d_out)."""
        values = logm(self.value(C))
        return expm(torch.einsum("nij,njab->niab", self.weights(C), values))


class MAtt(RawNet):
    """MAtt on raw trials.

    Spatial and temporal convolution, each with bias and batch norm; the trial cut into tokens;
    their covariances with trace 1, plus 1e-5 on the diagonal; manifold attention; ReEig at 1e-4;
    LogEig; upper triangles side by side; linear.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz. Filters have the same number of samples at any rate.
    config : MAttConfig, optional
        Sizes. By default the original's for this number of channels, or those for BCI2a.

    Notes
    -----
    The number of parameters is that of the original, 9,026 (22 channels, 4 classes), 24,476 (56, 2)
    and 72,195 (8, 5), with a bias in every layer but BiMap and an affine batch norm after both
    convolutions.

    Padding keeps the length of a trial; an even kernel has one more zero at the end. If the samples
    do not divide evenly, the first tokens have one more. Off-diagonal entries of the upper triangle
    are not multiplied by sqrt 2.

    Trials are first divided by the standard deviation of the training trials
    (:class:`~spdtokens.classifiers.nn.spdnet.Unit`): batch norm adds 1e-5 to a variance, which is
    larger than that of signals in volts.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        n_times: int,
        sfreq: float,
        config: MAttConfig | None = None,
    ) -> None:
        config = config or ORIGINAL.get(n_chans, MAttConfig())
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=2 * config.n_tokens)
        self.config = config
        self.unit = Unit("signals")
        self.attention = ManifoldAttention(config.n_temporal, config.n_mapped)
        self.spatial = nn.Conv1d(n_chans, config.n_spatial, 1)
        self.norm1 = nn.BatchNorm1d(config.n_spatial)
        self.temporal = nn.Conv1d(config.n_spatial, config.n_temporal, config.kernel)
        self.norm2 = nn.BatchNorm1d(config.n_temporal)
        self.head = nn.Linear(config.n_tokens * token_dim(config.n_mapped), n_outputs)

    def tokens(self, X: Tensor) -> Tensor:
        """Compute covariances (n, tokens, n_temporal, n_temporal) of trials."""
        X = self.checked(X)
        x = self.norm2(self._filtered(self.unit(X.to(self.head.weight.dtype))))
        each, more = divmod(self.n_times, self.config.n_tokens)
        # split concatenates the gradients of the parts; tensor_split would pad each with zeros.
        parts = x.split([each + (i < more) for i in range(self.config.n_tokens)], -1)
        return torch.stack([_unit_trace_covariance(part) for part in parts], 1)

    def _filtered(self, x: Tensor) -> Tensor:
        """Apply both convolutions and the norm between them to trials (n, channels, samples).

        All three are linear in the channels and a constant 1, and run as one convolution of those.
        The original's 125 spatial filters of 8 channels train 8 times faster this way.
        """
        scale, shift = self._first_norm(x)
        first = torch.cat([scale[:, None] * self.spatial.weight[..., 0], shift[:, None]], 1)
        weight = torch.einsum("tsk,sc->tck", self.temporal.weight, first)
        k = self.config.kernel
        # The output of the norm is padded with zeros, so the constant 1 ends with the trial.
        # torch's padding='same' warns about even kernels.
        padded = F.pad(F.pad(x, (0, 0, 0, 1), value=1.0), ((k - 1) // 2, k // 2))
        return F.conv1d(padded, weight, self.temporal.bias)

    def _first_norm(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scale and shift (n_spatial,) of the first norm, including the spatial bias."""
        norm: Any = self.norm1  # torch types its statistics as optional
        weight, bias = self.spatial.weight[..., 0], cast("Tensor", self.spatial.bias)
        if self.training:
            n = x.shape[0] * x.shape[2]
            centre = x.mean((0, 2))
            centred = x - centre[:, None]
            covariance = torch.einsum("nct,ndt->cd", centred, centred) / n
            mean = weight @ centre + bias
            var = ((weight @ covariance) * weight).sum(1)
            with torch.no_grad():
                norm.num_batches_tracked.add_(1)
                norm.running_mean.lerp_(mean, norm.momentum)
                norm.running_var.lerp_(var * (n / (n - 1)), norm.momentum)
        else:
            mean, var = norm.running_mean, norm.running_var
        scale = norm.weight * torch.rsqrt(var + norm.eps)
        return scale, norm.bias + scale * (bias - mean)

    def forward(self, X: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        attended = self.attention(self.tokens(X))
        # ReEig and LogEig share an eigendecomposition.
        return self.head(vech(logm(attended, floor=RECTIFIED)).flatten(1))


def _unit_trace_covariance(x: Tensor) -> Tensor:
    """Compute covariances (n, d, d) of signals (n, d, samples), with trace 1 plus a ridge."""
    x = x - x.mean(-1, keepdim=True)
    C = x @ x.mT
    trace = C.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    return C / trace + _RIDGE * torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
