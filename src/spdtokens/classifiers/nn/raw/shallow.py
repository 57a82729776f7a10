"""ShallowNet: band power, learned."""

from __future__ import annotations

from torch import Tensor, nn

from spdtokens.classifiers.nn.raw.base import Dropout, RawNet, TimeSpaceConv, reset_glorot

FILTER, POOL, STRIDE = 25, 75, 15


class ShallowNet(RawNet):
    """The shallow ConvNet (ShallowFBCSPNet): filter, square, average, logarithm, classify.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
        Filters of 25 samples and averages over 75, every 15, are 0.1, 0.3 and 0.06 s at the
        paper's 250 Hz; they stay that many samples at other frequencies, as in braindecode.
    n_filters : int
        Temporal filters, and as many spatial ones.
    dropout : float

    References
    ----------
    Schirrmeister et al. (2017), Deep learning with convolutional neural networks for EEG decoding
    and visualization, Human Brain Mapping 38, 5391-5420.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        n_times: int,
        sfreq: float,
        *,
        n_filters: int = 40,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=FILTER - 1 + POOL)
        self.filters = TimeSpaceConv(n_chans, n_filters, n_filters, FILTER, bias=False)
        self.norm = nn.BatchNorm1d(n_filters)
        self.pool = nn.AvgPool1d(POOL, STRIDE)
        self.dropout = Dropout(dropout)
        steps = (n_times - FILTER + 1 - POOL) // STRIDE + 1
        self.head = nn.Linear(n_filters * steps, n_outputs)
        reset_glorot(self)

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
        x = self.norm(self.filters(self.checked(trials)))
        x = self.pool(x.square()).clamp(min=1e-6).log()  # (n, n_filters, steps)
        return self.head(self.dropout(x).flatten(1))
