r"""SPDNet: a network whose layers take SPD matrices to SPD matrices.

References
----------
Z. Huang and L. Van Gool, "A Riemannian network for SPD matrix learning", AAAI 2017.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from spdtokens.classifiers.nn.spd_layers import BiMap, Unit, rectifier, reeig
from spdtokens.classifiers.nn.transformer import UndrawnLinear, reset_linear
from spdtokens.errors import ModelError
from spdtokens.geometry import LOG, spectral_token, token_dim


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
    threshold : float
        ReEig raises smaller eigenvalues to it. The original's 1e-4.
    relative : bool
        Whether the threshold is a multiple of each matrix's own mean eigenvalue, or (default) of
        the unit of the whole data.
    generator : torch.Generator, optional
        Draws the initial weights; torch's global one by default.

    Notes
    -----
    The original's threshold is an absolute number, which in volts would raise every eigenvalue of
    EEG. Here covariances are first divided by the mean eigenvalue of the first training batch
    (:class:`~spdtokens.classifiers.nn.spd_layers.Unit`), so that 1e-4 means the same in any unit.

    A square BiMap right before LogEig is a rotation of the features that the linear layer could do
    itself: ``log(W^T C W) = W^T log(C) W``. Only layers that shrink add anything.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        dims: Sequence[int] | None = None,
        *,
        threshold: float = 1e-4,
        relative: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n_chans < 1:
            raise ModelError(f"n_chans is at least 1, not {n_chans}.")
        if n_outputs < 2:
            raise ModelError(f"A classifier needs at least 2 classes, not {n_outputs}.")
        if dims is None:
            dims = (-(-3 * n_chans // 4), -(-n_chans // 2))
        self.n_chans, self.n_outputs, self.dims = n_chans, n_outputs, tuple(dims)
        self.floor = rectifier(threshold, relative=relative)
        self.unit = Unit("covariances")
        sizes = (n_chans, *self.dims)
        self.bimaps = nn.ModuleList(
            [BiMap(a, b, generator=generator) for a, b in itertools.pairwise(sizes)]
        )
        self.head = UndrawnLinear(token_dim(sizes[-1]), n_outputs)
        reset_linear(self.head, generator)

    @classmethod
    def paper(
        cls, n_chans: int, n_outputs: int, *, generator: torch.Generator | None = None
    ) -> Self:
        """The SPDNet that the paper's size of 1,016 parameters (BCI2a) points to.

        Without any BiMap: 22 * 23 / 2 = 253 features, times 4 classes, plus 4 biases is 1,016.
        The paper does not print its layers. Counting BiMaps too, no network of one or two has
        this size with the upper triangle and a bias; (19, 11, 11) and (21, 14, 8) do, and
        (16, 11) with the full matrix flattened, but nothing speaks for these numbers and none of
        them fits MAMEM's 8 channels.
        """
        return cls(n_chans, n_outputs, (), generator=generator)

    def features(self, C: Tensor) -> Tensor:
        """What the linear layer sees: (n, p (p + 1) / 2), isometric, p the last of the sizes."""
        C = self.unit(self._checked(C))
        for i, bimap in enumerate(self.bimaps):
            C = bimap(reeig(C, self.floor) if i else C)
        # The last ReEig and LogEig share an eigendecomposition.
        return spectral_token(C, LOG, isometric=True, floor=self.floor)

    def forward(self, C: Tensor) -> Tensor:
        """Class scores (n, classes) of covariances (n, channels, channels).

        Parameters
        ----------
        C : Tensor, shape (n, channels, channels) or (n, 1, channels, channels)
        """
        return self.head(self.features(C).to(self.head.weight.dtype))

    def _checked(self, C: Tensor) -> Tensor:
        d = self.n_chans
        if C.ndim == 4 and C.shape[1] == 1:
            C = C[:, 0]
        if C.ndim != 3 or C.shape[1:] != (d, d):
            raise ModelError(
                f"Expected covariances (n, {d}, {d}) or (n, 1, {d}, {d}), got a tensor of shape "
                f"{tuple(C.shape)}. Of several bands or windows SPDNet takes one; of raw trials "
                "compute covariances first."
            )
        return C
