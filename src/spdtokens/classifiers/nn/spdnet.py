r"""SPDNet and TSMNet, whose layers take SPD matrices to SPD matrices, and those layers.

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

#: ReEig raises smaller eigenvalues to this, the original's, in the unit of the network.
RECTIFIED = Floor(0.0, 1e-4)
#: Changes eigenvalues only where they are below the floor.
_RAISE = SpectralFunction("ReEig", lambda a: a, lambda a, b: torch.ones_like(a + b))


class Unit(nn.Module):
    """Divide the data by one number, the size of the training trials.

    Thresholds such as ReEig's 1e-4, or the 1e-5 of a batch norm, presume a unit. With this in front
    a network learns the same from volts as from microvolts. The number is 1 until
    :meth:`calibrate` is called, and is part of the state dict.

    Parameters
    ----------
    of : {'covariances', 'signals'}
        Covariances (..., d, d) are divided by their mean eigenvalue, signals
        (n, channels, samples) by their standard deviation over time.
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
                f"The {self.of} have a mean size of {size.item():g}, which is no unit to measure "
                "them in. Look for NaN samples, or for trials that are zero throughout."
            )
        self.value.copy_(size)

    def forward(self, X: Tensor) -> Tensor:
        """``X`` in the network's own unit, of the same shape and dtype."""
        return X / self.value


class BiMap(nn.Module):
    r"""Bilinear map of SPD matrices, :math:`C \mapsto W^\top C W` with orthonormal columns.

    Parameters
    ----------
    d_in, d_out : int
        Sizes of the matrices before and after; ``d_out`` at most ``d_in``.

    Notes
    -----
    The parameter ``raw`` (d_in, d_out) is free, so that any optimiser will do, and :attr:`weight`
    is its polar factor :math:`A (A^\top A)^{-1/2}`, the nearest matrix with orthonormal columns.
    Unlike ``torch.nn.utils.parametrizations`` this leaves a plain module that can be pickled, and
    weight decay shrinks ``raw`` without bending ``weight``. An orthonormal ``raw`` is its own
    polar factor: copy weights of another library into it as they are.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        if not 1 <= d_out <= d_in:
            raise ModelError(
                f"BiMap cannot take {d_in} x {d_in} matrices to {d_out} x {d_out}: orthonormal "
                f"columns allow sizes from 1 to {d_in}."
            )
        self.d_in, self.d_out = d_in, d_out
        self.raw = nn.Parameter(torch.empty(d_in, d_out))
        nn.init.orthogonal_(self.raw)

    @property
    def weight(self) -> Tensor:
        """The map ``W``, shape (d_in, d_out), with orthonormal columns."""
        return self.raw @ invsqrtm(self.raw.mT @ self.raw)

    def forward(self, C: Tensor) -> Tensor:
        """Matrices (..., d_in, d_in) to (..., d_out, d_out), of the dtype of ``C``."""
        W = self.weight.to(C.dtype)
        return W.mT @ C @ W


def reeig(C: Tensor) -> Tensor:
    """ReEig: raise the eigenvalues of SPD matrices (..., d, d) to a floor, with exact gradients.

    Followed by a logarithm it needs no step of its own: ``logm(C, floor=RECTIFIED)`` is the same.
    """
    return spectral(C, _RAISE, floor=RECTIFIED)


class SPDNet(nn.Module):
    """Covariances in, class scores out: (BiMap, ReEig) x layers, LogEig, vech, linear.

    Parameters
    ----------
    n_chans : int
        Covariances are n_chans x n_chans.
    n_outputs : int
        Classes.
    dims : sequence of int, optional
        Sizes of the matrices after each BiMap, none larger than the one before. By default three
        quarters and then half of the channels. Empty: no BiMap, so that what remains is linear in
        the logarithm of the covariance.

    Notes
    -----
    The paper's SPDNet has 1,016 parameters for BCI2a, and its layers are not printed. Without any
    BiMap (``dims=()``), 22 * 23 / 2 = 253 features times 4 classes plus 4 biases is 1,016. Counting
    BiMaps too, no network of one or two has this size with the upper triangle and a bias;
    (19, 11, 11) and (21, 14, 8) do, and (16, 11) with the full matrix flattened, but nothing speaks
    for these numbers and none of them fits MAMEM's 8 channels.

    The original's threshold is an absolute number, which in volts would raise every eigenvalue of
    EEG. Here covariances are first divided by the mean eigenvalue of the training trials
    (:class:`~spdtokens.classifiers.nn.spdnet.Unit`), so that 1e-4 means the same in any unit.

    A square BiMap right before LogEig is a rotation of the features that the linear layer could do
    itself: ``log(W^T C W) = W^T log(C) W``. Only layers that shrink add anything.
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
        """Class scores (n, classes) of covariances (n, channels, channels).

        Parameters
        ----------
        C : Tensor, shape (n, channels, channels) or (n, 1, channels, channels)
        """
        d = self.n_chans
        if C.ndim == 4 and C.shape[1] == 1:
            C = C[:, 0]
        if C.ndim != 3 or C.shape[1:] != (d, d):
            raise ModelError(
                f"Expected covariances (n, {d}, {d}) or (n, 1, {d}, {d}), got a tensor of shape "
                f"{tuple(C.shape)}. Of several bands or windows SPDNet takes one; of raw trials "
                "compute covariances first."
            )
        C = self.unit(C)
        for i, bimap in enumerate(self.bimaps):
            C = bimap(reeig(C) if i else C)
        # The last ReEig and LogEig share an eigendecomposition.
        features = spectral_token(C, LOG, isometric=True, floor=RECTIFIED)
        return self.head(features.to(self.head.weight.dtype))


#: Samples of TSMNet's temporal filters, 0.1 s at the original's 250 Hz.
FILTER = 25


class TSMNet(RawNet):
    """spd_learn's TSMNet (extra ``baselines``): raw trials in, class scores out.

    4 temporal and 40 spatial filters; the covariance of the filtered trial; BiMap to 20 x 20, ReEig
    at 1e-4; batch norm on the manifold (mean and dispersion); LogEig; linear.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
        Filters stay 25 samples at all frequencies, as in the original.

    Attributes
    ----------
    undecayed : frozenset of str
        The parameter without weight decay in the original's code, the BiMap's.

    Notes
    -----
    Layers, sizes and initial weights are spd_learn's, and so is the forward pass, but for:

    - From the covariance on all is float64, as in the original. In float32 spd_learn clamps
      eigenvalues at absolute 1.2e-4 before inverse roots, above the 1e-4 to which ReEig may just
      have raised them. That shows below 5 channels, whose 4 temporal filters span fewer than 20
      dimensions, and after training on smooth signals; elsewhere both agree to about 1e-6. In
      float64 its clamps are at 2e-13.
    - The bias of the batch norm, which spd_learn keeps at the identity without learning it, is left
      out: nothing changes, and only what is learned counts as a parameter.
    - It can be pickled, which modules with torch's parametrisations cannot.

    Not all of the paper is in spd_learn. There is one domain: the paper's domain-specific
    statistics, which adapt to a new session without labels, are not there, and neither is the
    momentum that grows during training (training normalises by the batch itself, prediction by
    running statistics of momentum 0.1), nor the final refit of these on all training trials. The
    gradient does not pass through the mean of the batch. What is left is the paper's TSMNet with
    plain SPD batch norm.

    ReEig's 1e-4 presumes trials that vary by about 1, as after standardisation.
    """

    undecayed = frozenset({"net.spdnet.0.parametrizations.weight.original"})

    def __init__(self, n_chans: int, n_outputs: int, n_times: int, sfreq: float) -> None:
        # Trials are continued by their mirror image for half a filter.
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=FILTER // 2 + 1)
        from spd_learn.models import TSMNet as Original

        net = Original(n_chans=n_chans, n_outputs=n_outputs, temp_kernel_length=FILTER)
        for part in (net.spdnet, net.spdbnorm, net.head):
            part.double()
        parametrize.remove_parametrizations(net.spdbnorm, "bias")
        net.spdbnorm.bias = None
        # The shape that it takes in the first step; otherwise states before and after differ.
        net.spdbnorm.running_var = net.spdbnorm.running_var.reshape(1, 1)
        self.net = net

    def covariances(self, trials: Tensor) -> Tensor:
        """Covariances (n, 40, 40) of the filtered trials (n, n_chans, n_times), in float64."""
        filtered = self.net.cnn(self.checked(trials).unsqueeze(1))
        return self.net.covpool(filtered).double()

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
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
    with torch.random.fork_rng([]):  # the weights drawn here are replaced at once
        module = kind(*shape)
    module.load_state_dict(state, assign=True)
    return module.train(training)
