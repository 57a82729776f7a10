r"""SPDNet and TSMNet, and their layers from SPD matrices to SPD matrices.

References
----------
Z. Huang and L. Van Gool, "A Riemannian network for SPD matrix learning", AAAI 2017.

R. J. Kobler, J. Hirayama, Q. Zhao and M. Kawanabe, "SPD domain-specific batch normalization to
crack interpretable unsupervised domain adaptation in EEG", NeurIPS 2022.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from spdtokens.classifiers.nn.convolutional import RawNet
from spdtokens.classifiers.nn.recipe import check_sizes
from spdtokens.errors import ModelError
from spdtokens.geometry import (
    LOG,
    Floor,
    SpectralFunction,
    invsqrtm,
    spectral,
    spectral_token,
    token_dim,
)

#: Threshold of ReEig in the original, in the unit of the network.
RECTIFIED = Floor(0.0, 1e-4)
#: Identity above the floor.
_RAISE = SpectralFunction("ReEig", lambda a: a, lambda a, b: torch.ones_like(a + b))


class Unit(nn.Module):
    """Divide the data by one number, the size of the training trials.

    Thresholds such as ReEig's 1e-4, or the 1e-5 of a batch norm, presume a unit. With this in front
    a network learns the same from volts as from microvolts. The number is 1 until
    :meth:`calibrate` is called, and is part of the state dict.

    Parameters
    ----------
    of : {'covariances', 'signals'}
        Kind of data. Covariances (..., d, d) are divided by their mean eigenvalue, signals
        (n, n_channels, n_times) by their standard deviation over time.
    """

    value: Tensor

    def __init__(self, of: Literal["covariances", "signals"]) -> None:
        super().__init__()
        self.of = of
        self.register_buffer("value", torch.ones((), dtype=torch.float64))

    @torch.no_grad()
    def calibrate(self, X: Tensor) -> None:
        """Take the unit from training trials."""
        if self.of == "covariances":
            size = X.double().diagonal(dim1=-2, dim2=-1).mean()
        else:
            size = X.double().var(-1, correction=0).mean().sqrt()
        if not bool(torch.isfinite(size)) or not bool(size > 0):
            raise ModelError(
                f"The mean size of the {self.of} must be finite and > 0, got {size.item():g}. Look "
                "for NaN samples, or trials that are zero throughout."
            )
        self.value.copy_(size)

    def forward(self, X: Tensor) -> Tensor:
        """Divide ``X`` by the unit; shape and dtype stay the same."""
        return X / self.value


class BiMap(nn.Module):
    r"""Bilinear map of SPD matrices, :math:`C \mapsto W^\top C W` with orthonormal columns.

    Parameters
    ----------
    d_in, d_out : int
        Sizes of the matrices before and after, ``d_out <= d_in``.

    Notes
    -----
    The parameter ``raw`` (d_in, d_out) is unconstrained, so any optimiser works, and :attr:`weight`
    is its polar factor :math:`A (A^\top A)^{-1/2}`, the nearest matrix with orthonormal columns.
    Unlike with ``torch.nn.utils.parametrizations`` the module can be pickled, and weight decay
    shrinks ``raw`` without changing ``weight``. An orthonormal ``raw`` is its own polar factor, so
    weights of another library can be copied into it.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        if not 1 <= d_out <= d_in:
            raise ModelError(
                f"The output size of BiMap must be from 1 to {d_in}, its input size, got {d_out}."
            )
        self.d_in, self.d_out = d_in, d_out
        self.raw = nn.Parameter(torch.empty(d_in, d_out))
        nn.init.orthogonal_(self.raw)

    @property
    def weight(self) -> Tensor:
        """Map ``W``, shape (d_in, d_out), with orthonormal columns."""
        return self.raw @ invsqrtm(self.raw.mT @ self.raw)

    def forward(self, C: Tensor) -> Tensor:
        """Map matrices (..., d_in, d_in) to (..., d_out, d_out), in the dtype of ``C``."""
        W = self.weight.to(C.dtype)
        return W.mT @ C @ W


def reeig(C: Tensor) -> Tensor:
    """Raise the eigenvalues of SPD matrices (..., d, d) to a floor, with exact gradients.

    Before a logarithm this is not needed: ``logm(C, floor=RECTIFIED)`` gives the same.
    """
    return spectral(C, _RAISE, floor=RECTIFIED)


class SPDNet(nn.Module):
    """SPDNet on covariances: (BiMap, ReEig) x layers, LogEig, vech, linear.

    Parameters
    ----------
    n_chans : int
        Number of rows of the covariances.
    n_outputs : int
        Number of classes.
    dims : sequence of int, optional
        Sizes of the matrices after each BiMap, not increasing. By default three quarters and half
        of the channels. Without any BiMap (empty) the scores are linear in the logarithm of the
        covariance.

    Notes
    -----
    The paper's SPDNet has 1,016 parameters for BCI2a, and its layers are not printed. Without any
    BiMap (``dims=()``), 22 * 23 / 2 = 253 features times 4 classes plus 4 biases is 1,016. Counting
    BiMaps too, no network of one or two has this size with the upper triangle and a bias;
    (19, 11, 11) and (21, 14, 8) do, and (16, 11) with the full matrix flattened, but nothing speaks
    for these numbers and none of them fits the 8 channels of MAMEM.

    The original's threshold is an absolute number, which in volts would raise every eigenvalue of
    EEG. Here covariances are first divided by the mean eigenvalue of the training trials
    (:class:`~spdtokens.classifiers.nn.spdnet.Unit`), so that 1e-4 means the same in any unit.

    A square BiMap right before LogEig is a rotation of the features that the linear layer can
    absorb: ``log(W^T C W) = W^T log(C) W``. Only layers that reduce the size have an effect.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        check_sizes(n_chans=n_chans, n_outputs=n_outputs)
        if dims is None:
            dims = (-(-3 * n_chans // 4), -(-n_chans // 2))
        self.n_chans, self.n_outputs, self.dims = n_chans, n_outputs, tuple(dims)
        self.unit = Unit("covariances")
        sizes = (n_chans, *self.dims)
        self.bimaps = nn.ModuleList([BiMap(a, b) for a, b in itertools.pairwise(sizes)])
        self.head = nn.Linear(token_dim(sizes[-1]), n_outputs)

    def forward(self, C: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of covariances (n, d, d) or (n, 1, d, d)."""
        d = self.n_chans
        if C.ndim == 4 and C.shape[1] == 1:
            C = C[:, 0]
        if C.ndim != 3 or C.shape[1:] != (d, d):
            raise ModelError(
                f"Expected covariances (n, {d}, {d}) or (n, 1, {d}, {d}), got shape "
                f"{tuple(C.shape)}. SPDNet takes one band and window."
            )
        C = self.unit(C)
        for i, bimap in enumerate(self.bimaps):
            C = bimap(reeig(C) if i else C)
        # The last ReEig and LogEig share an eigendecomposition.
        features = spectral_token(C, LOG, isometric=True, floor=RECTIFIED)
        return self.head(features.to(self.head.weight.dtype))


#: Length of the temporal filters of TSMNet in samples: 0.1 s at the original's 250 Hz.
FILTER = 25


class TSMNet(RawNet):
    """TSMNet of spd_learn (extra ``baselines``) on raw trials.

    4 temporal and 40 spatial filters; the covariance of the filtered trial; BiMap to 20 x 20, ReEig
    at 1e-4; batch norm on the manifold (mean and dispersion); LogEig; linear.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz. The filters have 25 samples at any rate, as in the original.

    Attributes
    ----------
    undecayed : frozenset of str
        Parameter without weight decay in the original code: that of the BiMap.

    Notes
    -----
    Layers, sizes, initial weights and forward pass are those of spd_learn, except that

    - everything from the covariance on is in float64, as in the original. In float32 spd_learn
      clamps eigenvalues at 1.2e-4 before inverse roots, above the 1e-4 of ReEig. That matters below
      5 channels, whose 4 temporal filters span fewer than 20 dimensions, and after training on
      smooth signals; elsewhere both agree to about 1e-6. In float64 it clamps at 2e-13;
    - the bias of the batch norm, which spd_learn keeps at the identity, is removed, so that only
      learnt values count as parameters;
    - the module can be pickled, unlike modules with torch's parametrisations.

    spd_learn does not implement all of the paper. It has one domain: the domain-specific
    statistics, which adapt to a new session without labels, are missing, and so are the momentum
    that grows during training (training normalises by the batch, prediction by running statistics
    of momentum 0.1) and the final refit of the statistics on all training trials. The gradient does
    not pass through the mean of the batch. The result is the paper's TSMNet with plain SPD batch
    norm.

    The 1e-4 of ReEig assumes trials with a standard deviation of about 1, as after
    standardisation.
    """

    undecayed = frozenset({"net.spdnet.0.parametrizations.weight.original"})

    def __init__(self, n_chans: int, n_outputs: int, n_times: int, sfreq: float) -> None:
        # Trials are padded by reflection for half a filter.
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=FILTER // 2 + 1)
        from spd_learn.models import TSMNet as Original

        net = Original(n_chans=n_chans, n_outputs=n_outputs, temp_kernel_length=FILTER)
        for part in (net.spdnet, net.spdbnorm, net.head):
            part.double()
        parametrize.remove_parametrizations(net.spdbnorm, "bias")
        net.spdbnorm.bias = None
        # The shape after the first step, so that state dicts before and after training agree.
        net.spdbnorm.running_var = net.spdbnorm.running_var.reshape(1, 1)
        self.net = net

    def covariances(self, trials: Tensor) -> Tensor:
        """Compute covariances (n, 40, 40) of the filtered trials, in float64."""
        filtered = self.net.cnn(self.checked(trials).unsqueeze(1))
        return self.net.covpool(filtered).double()

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        net = self.net
        C = net.spdnet(self.covariances(trials))
        return net.head(net.logeig(net.spdbnorm(C))).to(trials.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        shape = (self.n_chans, self.n_outputs, self.n_times, self.sfreq)
        return _rebuilt, (type(self), shape, self.state_dict(), self.training)


def _rebuilt(
    kind: type[TSMNet],
    shape: tuple[int, int, int, float],
    state: dict[str, Tensor],
    training: bool,
) -> TSMNet:
    with torch.random.fork_rng([]):  # the weights drawn here are replaced
        module = kind(*shape)
    module.load_state_dict(state, assign=True)
    return module.train(training)
