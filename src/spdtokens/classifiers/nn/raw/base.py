"""What the networks on raw EEG share: their checks, and layers of more than one of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.errors import ModelError


class RawNet(nn.Module):
    """A network from raw trials (n, n_chans, n_times), float32, to logits (n, n_outputs).

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
        Sampling frequency in Hz.
    shortest : int
        The smallest ``n_times`` that leaves something after all pooling.

    Notes
    -----
    Trials are expected in a unit in which they vary by about 1, as after standardisation.
    """

    def __init__(
        self, n_chans: int, n_outputs: int, n_times: int, sfreq: float, shortest: int
    ) -> None:
        super().__init__()
        if n_chans < 1:
            raise ModelError(f"n_chans is at least 1, not {n_chans}.")
        if n_outputs < 2:
            raise ModelError(f"A classifier needs n_outputs of at least 2, not {n_outputs}.")
        if not sfreq > 0:
            raise ModelError(f"sfreq is a positive number of Hz, not {sfreq}.")
        if n_times < shortest:
            raise ModelError(
                f"{type(self).__name__} needs trials of at least n_times={shortest} samples, not "
                f"{n_times}: shorter ones leave its last layers nothing. Use longer trials."
            )
        self.n_chans, self.n_outputs, self.n_times = n_chans, n_outputs, n_times
        self.sfreq = sfreq

    def checked(self, trials: Tensor) -> Tensor:
        """The trials, if their shape is (n, n_chans, n_times)."""
        if trials.ndim != 3 or trials.shape[1:] != (self.n_chans, self.n_times):
            raise ModelError(
                f"Expected trials of shape (n, {self.n_chans}, {self.n_times}), got "
                f"{tuple(trials.shape)}."
            )
        return trials


class MaxNormConv2d(nn.Conv2d):
    """A convolution whose filters are shrunk to a norm of at most ``max_norm`` before use."""

    max_norm: float = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, in, height, width) to images (n, out, height, width)."""
        shrink_rows(self.weight, self.max_norm)
        return super().forward(x)


class MaxNormLinear(nn.Linear):
    """A linear layer whose output units keep weights of a norm of at most ``max_norm``."""

    def __init__(self, in_features: int, out_features: int, max_norm: float) -> None:
        super().__init__(in_features, out_features)
        self.max_norm = max_norm

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, in) to (n, out)."""
        shrink_rows(self.weight, self.max_norm)
        return super().forward(x)


def shrink_rows(weight: Tensor, max_norm: float) -> None:
    """Shrink, in place, what belongs to one output to a norm of at most ``max_norm``.

    Before each use is after each optimiser step, where Keras does it. Through ``data``, because a
    second forward pass before a backward pass is no error: it changes nothing any more.
    """
    weight.data.copy_(torch.renorm(weight.data, p=2, dim=0, maxnorm=max_norm))


class TimeSpaceConv(nn.Module):
    """Temporal filters on each channel, then spatial filters over all of them.

    With nothing between the two, they are one convolution, and run as one: the same result for a
    fraction of the work.

    Parameters
    ----------
    n_chans, n_time, n_space : int
        Channels, temporal filters, spatial filters.
    length : int
        Of the temporal filters, in samples.
    bias : bool
        Of the spatial filters; superfluous before a batch norm.
    """

    def __init__(self, n_chans: int, n_time: int, n_space: int, length: int, bias: bool) -> None:
        super().__init__()
        self.time = nn.Conv2d(1, n_time, (1, length))
        self.space = nn.Conv2d(n_time, n_space, (n_chans, 1), bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Trials (n, n_chans, times) to (n, n_space, times - length + 1)."""
        assert self.time.bias is not None
        space = self.space.weight[..., 0]
        weight = torch.einsum("fk,sfc->sck", self.time.weight[:, 0, 0], space)
        bias = space.sum(-1) @ self.time.bias
        if self.space.bias is not None:
            bias = bias + self.space.bias
        return F.conv1d(x, weight, bias)


class Dropout(nn.Dropout):
    """Dropout that decides by 16 random bits an entry.

    torch draws a whole random float for each, on one thread: ten times slower on a processor, and
    nearly half of the training time of a network with attention dropout.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape."""
        if not self.training or not self.p:
            return x
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits = words.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
        # p is rounded to a multiple of 1 / 65536; scaling by the rounded one keeps the mean exact.
        dropped = min(round(self.p * 65536), 65535)
        return x * (bits >= dropped - 32768).to(x.dtype).mul_(65536 / (65536 - dropped))


class MultiHead(nn.Module):
    """Multi-head self-attention whose inner width and scale are free.

    Parameters
    ----------
    width, inner, n_heads : int
        Width of the tokens, of all heads together, and the number of heads.
    scale : float
        Multiplies the scores.
    dropout : float
        Of the attention weights.
    """

    def __init__(
        self, width: int, inner: int, n_heads: int, *, scale: float, dropout: float
    ) -> None:
        super().__init__()
        if inner % n_heads:
            raise ModelError(f"n_heads={n_heads} does not divide the width {inner} of all heads.")
        self.n_heads, self.scale = n_heads, scale
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, tokens, width) to tokens of the same shape."""
        query, key, value = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = self.dropout(((self.scale * query) @ key.mT).softmax(-1))
        mixed = weights @ value
        return self.out(mixed.transpose(1, 2).flatten(2))


@torch.no_grad()
def reset_glorot(network: nn.Module) -> None:
    """Draw the weights of all layers as Glorot and Bengio (2010), uniform; biases start at 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
