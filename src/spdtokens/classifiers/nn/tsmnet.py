r"""TSMNet: a classifier in the tangent space of the covariances of learned filters.

References
----------
R. J. Kobler, J. Hirayama, Q. Zhao and M. Kawanabe, "SPD domain-specific batch normalization to
crack interpretable unsupervised domain adaptation in EEG", NeurIPS 2022.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from spdtokens.classifiers.nn.raw.base import RawNet

#: Samples of the temporal filters, 0.1 s at the original's 250 Hz.
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
