"""EEGNet: a compact convolutional network."""

from __future__ import annotations

from torch import Tensor, nn

from spdtokens.classifiers.nn.raw.base import (
    Dropout,
    MaxNormConv2d,
    MaxNormLinear,
    RawNet,
    reset_glorot,
)
from spdtokens.errors import ModelError


class EEGNet(RawNet):
    """EEGNet, version 4: temporal filters, spatial filters of each, a separable convolution.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
    n_filters, depth, n_separable : int
        F1, D and F2 of the paper: temporal filters, spatial filters of each, features.
    kernel_length : int, optional
        Of the temporal filters, in samples; half a second for None, the paper's rule. 64 is half a
        second at the paper's 128 Hz.
    dropout : float
        0.25 across subjects, as in the paper; for models of one subject it takes 0.5.
    max_norm : float
        Largest norm of the classifier's weights of a class; that of spatial filters is 1.

    Notes
    -----
    Convolutions pad by half their length, as braindecode's ``EEGNetv4``, which has no ``max_norm``
    on its classifier; the paper has.

    References
    ----------
    Lawhern et al. (2018), EEGNet: a compact convolutional neural network for EEG-based
    brain-computer interfaces, J. Neural Eng. 15, 056013.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        n_times: int,
        sfreq: float,
        *,
        n_filters: int = 8,
        depth: int = 2,
        n_separable: int = 16,
        kernel_length: int | None = 64,
        dropout: float = 0.25,
        max_norm: float = 0.25,
    ) -> None:
        length = round(sfreq / 2) if kernel_length is None else kernel_length
        if length < 1:
            raise ModelError(f"kernel_length is at least 1 sample, not {length}.")
        gained = 1 - length % 2  # an even filter, padded by half, adds a sample
        # Pooled by 4, one more sample of the even separable filter, pooled by 8.
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=28 - gained)
        n_spatial = n_filters * depth
        self.temporal = nn.Sequential(
            nn.Conv2d(1, n_filters, (1, length), padding=(0, length // 2), bias=False),
            batch_norm(n_filters),
        )
        self.spatial = nn.Sequential(
            MaxNormConv2d(n_filters, n_spatial, (n_chans, 1), groups=n_filters, bias=False),
            batch_norm(n_spatial),
            nn.ELU(),
            nn.AvgPool2d((1, 4)),
            Dropout(dropout),
        )
        self.separable = nn.Sequential(
            nn.Conv2d(n_spatial, n_spatial, (1, 16), padding=(0, 8), groups=n_spatial, bias=False),
            nn.Conv2d(n_spatial, n_separable, 1, bias=False),
            batch_norm(n_separable),
            nn.ELU(),
            nn.AvgPool2d((1, 8)),
            Dropout(dropout),
        )
        steps = ((n_times + gained) // 4 + 1) // 8
        self.head = MaxNormLinear(n_separable * steps, n_outputs, max_norm)
        reset_glorot(self)

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
        x = self.temporal(self.checked(trials)[:, None])  # (n, F1, n_chans, times)
        x = self.separable(self.spatial(x))  # (n, F2, 1, steps)
        return self.head(x.flatten(1))


def batch_norm(n_features: int) -> nn.BatchNorm2d:
    """Batch norm as Keras has it by default: 0.99 of the past kept, 1e-3 added to variances."""
    return nn.BatchNorm2d(n_features, eps=1e-3, momentum=0.01)
