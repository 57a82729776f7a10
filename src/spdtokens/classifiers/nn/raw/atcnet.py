"""ATCNet: convolution, then attention and a temporal convolutional network on sliding windows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spdtokens.classifiers.nn.raw.base import (
    Dropout,
    MaxNormConv2d,
    MaxNormLinear,
    MultiHead,
    RawNet,
    reset_glorot,
)
from spdtokens.errors import ModelError

FILTER, SECOND_FILTER = 64, 16
POOL, SECOND_POOL = 8, 7
HEADS, HEAD_WIDTH = 2, 8
TCN_FILTER, TCN_DEPTH = 4, 2


class ATCNet(RawNet):
    """ATCNet: an EEGNet-like block, windows of its output, attention and a TCN on each.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
        Filters and pools stay the paper's number of samples, whatever the frequency.
    n_filters, depth : int
        Temporal filters, and spatial filters of each.
    n_windows : int
        Windows that slide over the output of the convolutions by a step each.
    dropout : float
        Of convolutions, TCN and what attention adds; attention weights are dropped with 0.5.
    max_norm : float
        Largest norm of the classifiers' weights of a class; that of spatial filters is 1.

    Notes
    -----
    The paper's pools, 8 and 7, leave ``n_times // 56`` steps. Where that gives windows of fewer
    than 2 steps, on which attention has nothing to choose from, the second pool is the largest
    that gives windows of 2.

    As in the authors' code, each window has its own classifier and logits are averaged; the
    paper's text joins the windows instead. Attention weights are dropped, as in their code;
    braindecode 0.8 drops its output. Constants of batch norm are braindecode's.

    References
    ----------
    Altaheri et al. (2022), Physics-informed attention temporal convolutional network for EEG-based
    motor imagery classification, IEEE Trans. Ind. Informatics 19, 2249-2258.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        n_times: int,
        sfreq: float,
        *,
        n_filters: int = 16,
        depth: int = 2,
        n_windows: int = 5,
        dropout: float = 0.3,
        max_norm: float = 0.25,
    ) -> None:
        if n_windows < 1:
            raise ModelError(f"n_windows is at least 1, not {n_windows}.")
        least = n_windows + 1  # steps for windows of 2
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=POOL * least)
        self.second_pool = min(SECOND_POOL, n_times // POOL // least)
        width = n_filters * depth
        self.spatial = nn.Sequential(
            same_padding(FILTER),
            nn.Conv2d(1, n_filters, (1, FILTER), bias=False),
            nn.BatchNorm2d(n_filters, eps=1e-4),
            MaxNormConv2d(n_filters, width, (n_chans, 1), groups=n_filters, bias=False),
            nn.BatchNorm2d(width, eps=1e-4),
            nn.ELU(),
            nn.AvgPool2d((1, POOL)),
            Dropout(dropout),
        )
        self.temporal = nn.Sequential(
            same_padding(SECOND_FILTER),
            nn.Conv2d(width, width, (1, SECOND_FILTER), bias=False),
            nn.BatchNorm2d(width, eps=1e-4),
            nn.ELU(),
            nn.AvgPool2d((1, self.second_pool)),
            Dropout(dropout),
        )
        self.attentions = nn.ModuleList([WindowAttention(width, dropout) for _ in range(n_windows)])
        self.tcns = nn.ModuleList(
            [
                nn.Sequential(*[CausalBlock(width, 2**i, dropout) for i in range(TCN_DEPTH)])
                for _ in range(n_windows)
            ]
        )
        self.heads = nn.ModuleList(
            [MaxNormLinear(width, n_outputs, max_norm) for _ in range(n_windows)]
        )
        self._reset()

    def _reset(self) -> None:
        reset_glorot(self)
        for block in self.modules():
            if isinstance(block, CausalBlock):
                nn.init.kaiming_uniform_(block.first.weight)
                nn.init.kaiming_uniform_(block.second.weight)

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
        x = self.temporal(self.spatial(self.checked(trials)[:, None]))[:, :, 0]  # (n, width, steps)
        windows = x.unfold(-1, x.shape[-1] - len(self.heads) + 1, 1).unbind(2)
        logits = [
            head(tcn(attention(window))[..., -1])
            for window, attention, tcn, head in zip(
                windows, self.attentions, self.tcns, self.heads, strict=True
            )
        ]
        return torch.stack(logits).mean(0)


class WindowAttention(nn.Module):
    """Self-attention over the steps of a window, added to it."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.attention = MultiHead(
            width, HEADS * HEAD_WIDTH, HEADS, scale=HEAD_WIDTH**-0.5, dropout=0.5
        )
        self.dropout = Dropout(dropout)

    def forward(self, window: Tensor) -> Tensor:
        """Windows (n, width, steps) to windows of the same shape."""
        return window + self.dropout(self.attention(self.norm(window.mT))).mT


class CausalBlock(nn.Module):
    """Residual block of a TCN: two dilated convolutions that see no later step."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.pad = nn.ConstantPad1d(((TCN_FILTER - 1) * dilation, 0), 0.0)
        self.first = nn.Conv1d(width, width, TCN_FILTER, dilation=dilation)
        self.first_norm = nn.BatchNorm1d(width)
        self.second = nn.Conv1d(width, width, TCN_FILTER, dilation=dilation)
        self.second_norm = nn.BatchNorm1d(width)
        self.activation = nn.ELU()
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Steps (n, width, steps) to steps of the same shape."""
        y = self.dropout(self.activation(self.first_norm(self.first(self.pad(x)))))
        y = self.dropout(self.activation(self.second_norm(self.second(self.pad(y)))))
        return self.activation(x + y)


def same_padding(length: int) -> nn.ZeroPad2d:
    """Zeros in time that keep the number of samples; an even filter takes one more at the end."""
    return nn.ZeroPad2d(((length - 1) // 2, length // 2, 0, 0))
