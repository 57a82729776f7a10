"""Networks on raw EEG to compare with: trials (n, n_chans, n_times) to class scores.

They are written from their papers, with the parameter names of braindecode (``n_chans, n_outputs,
n_times, sfreq``), and tested against its release 0.8.1 where that can build them. Unlike networks
on SPD tokens they depend on the unit of the signal: standardise trials before training. In volts
they do not learn, because the constants of batch norms and the positions of tokens are larger than
the signal.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.classifiers.nn.recipe import check_sizes
from spdtokens.classifiers.nn.transformer import SPDTokenTransformer
from spdtokens.errors import ModelError


class RawNet(nn.Module):
    """Base class of networks on raw trials (n, n_chans, n_times) in float32.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz.
    shortest : int
        Smallest ``n_times`` that leaves a sample after all pooling.

    Notes
    -----
    Trials should have a standard deviation of about 1, as after standardisation.
    """

    def __init__(
        self, n_chans: int, n_outputs: int, n_times: int, sfreq: float, shortest: int
    ) -> None:
        super().__init__()
        check_sizes(n_chans=n_chans, n_outputs=n_outputs)
        if not sfreq > 0:
            raise ModelError(f"sfreq must be > 0, got {sfreq}.")
        if n_times < shortest:
            raise ModelError(
                f"{type(self).__name__} needs at least n_times={shortest} samples, got {n_times}. "
                "Use longer trials."
            )
        self.n_chans, self.n_outputs, self.n_times = n_chans, n_outputs, n_times
        self.sfreq = sfreq

    def checked(self, trials: Tensor) -> Tensor:
        """Raise ModelError for trials of another shape than (n, n_chans, n_times)."""
        if trials.ndim != 3 or trials.shape[1:] != (self.n_chans, self.n_times):
            raise ModelError(
                f"Expected trials of shape (n, {self.n_chans}, {self.n_times}), got "
                f"{tuple(trials.shape)}."
            )
        return trials


class MaxNormConv2d(nn.Conv2d):
    """Convolution whose filters have a norm of at most ``max_norm``."""

    max_norm = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, in, height, width) to images (n, out, height, width)."""
        return self._conv_forward(x, limited(self), self.bias)


class MaxNormLinear(nn.Linear):
    """Linear layer whose weights per output have a norm of at most ``max_norm``."""

    max_norm = 0.25

    def forward(self, x: Tensor) -> Tensor:
        """Map features (n, in) to (n, out)."""
        return F.linear(x, limited(self), self.bias)


def limited(layer: MaxNormConv2d | MaxNormLinear) -> Tensor:
    """Return the weights of a layer, with a norm per output of at most ``max_norm``.

    Keras scales them after each optimiser step, which is equivalent to before each use. In training
    this is in place, on ``data``, so that autograd allows a second forward pass before the backward
    pass. In evaluation the layer stays as it is: predictions do not change an estimator.
    """
    weight = torch.renorm(layer.weight.data, p=2, dim=0, maxnorm=layer.max_norm)
    if not layer.training:
        return weight
    layer.weight.data.copy_(weight)
    return layer.weight


class TimeSpaceConv(nn.Module):
    """Temporal filters on each channel, then spatial filters over all channels.

    Both are linear, so they run as one convolution: the same result with much less work.

    Parameters
    ----------
    n_chans, n_time, n_space : int
        Number of channels, temporal filters and spatial filters.
    length : int
        Length of the temporal filters in samples.
    bias : bool
        Whether the spatial filters have a bias; not needed before a batch norm.
    """

    def __init__(self, n_chans: int, n_time: int, n_space: int, length: int, bias: bool) -> None:
        super().__init__()
        self.time = nn.Conv2d(1, n_time, (1, length))
        self.space = nn.Conv2d(n_time, n_space, (n_chans, 1), bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map trials (n, n_chans, times) to (n, n_space, times - length + 1)."""
        assert self.time.bias is not None
        space = self.space.weight[..., 0]
        weight = torch.einsum("fk,sfc->sck", self.time.weight[:, 0, 0], space)
        bias = space.sum(-1) @ self.time.bias
        if self.space.bias is not None:
            bias = bias + self.space.bias
        return F.conv1d(x, weight, bias)


class Dropout(nn.Dropout):
    """Dropout that draws 16 random bits per entry.

    torch draws a random float per entry on one thread, which is ten times slower on a CPU and takes
    nearly half of the training time of a network with attention dropout.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries of a tensor of any shape."""
        if not self.training or not self.p:
            return x
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits = words.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
        # Scaling by p rounded to a multiple of 1 / 65536 keeps the mean exact.
        dropped = min(round(self.p * 65536), 65535)
        return x * (bits >= dropped - 32768).to(x.dtype).mul_(65536 / (65536 - dropped))


class MultiHead(nn.Module):
    """Multi-head self-attention with free inner width and scale.

    Parameters
    ----------
    width, inner, n_heads : int
        Width of the tokens, total width of all heads, and number of heads.
    scale : float
        Factor of the attention scores.
    dropout : float
        Dropout probability of the attention weights.
    """

    def __init__(
        self, width: int, inner: int, n_heads: int, *, scale: float, dropout: float
    ) -> None:
        super().__init__()
        self.n_heads, self.scale = n_heads, scale
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (n, tokens, width) to tokens of the same shape."""
        query, key, value = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = self.dropout(((self.scale * query) @ key.mT).softmax(-1))
        mixed = weights @ value
        return self.out(mixed.transpose(1, 2).flatten(2))


@torch.no_grad()
def reset_glorot(network: nn.Module) -> None:
    """Draw all weights uniformly as Glorot and Bengio (2010); set biases to 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class EEGNet(RawNet):
    """EEGNet, version 4: temporal filters, two spatial filters of each, separable convolution.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz.
    n_filters, n_separable : int
        F1 and F2 of the paper: number of temporal filters and of separable filters.
    kernel_length : int
        Length of the temporal filters in samples: half a second at the paper's 128 Hz.

    Notes
    -----
    Dropout is 0.25, the paper's value across subjects. Convolutions are padded by half their
    length, as in braindecode's ``EEGNetv4``. Unlike there, the norm of the classifier is limited,
    as in the paper.

    ``eegnet-paper`` has F1 = 16, F2 = 32 and filters of 65 samples. With 22 channels, 4 classes
    and 438 samples that gives the 5,108 parameters that the paper on SPD tokens prints for EEGNet
    without stating its shape. The shape is an inference from that number, and not the only one:
    filters of 64 samples with a bias have as many parameters.

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
        n_separable: int = 16,
        kernel_length: int = 64,
    ) -> None:
        gained = 1 - kernel_length % 2  # an even filter with this padding adds a sample
        # Pool of 4, one more sample by the even separable filter, pool of 8.
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=28 - gained)
        n_spatial = 2 * n_filters
        self.temporal = nn.Sequential(
            nn.Conv2d(
                1, n_filters, (1, kernel_length), padding=(0, kernel_length // 2), bias=False
            ),
            nn.BatchNorm2d(n_filters, **KERAS),
        )
        self.spatial = nn.Sequential(
            MaxNormConv2d(n_filters, n_spatial, (n_chans, 1), groups=n_filters, bias=False),
            *norm_and_average(n_spatial, 4, 0.25, **KERAS),
        )
        self.separable = nn.Sequential(
            nn.Conv2d(n_spatial, n_spatial, (1, 16), padding=(0, 8), groups=n_spatial, bias=False),
            nn.Conv2d(n_spatial, n_separable, 1, bias=False),
            *norm_and_average(n_separable, 8, 0.25, **KERAS),
        )
        steps = ((n_times + gained) // 4 + 1) // 8
        self.head = MaxNormLinear(n_separable * steps, n_outputs)
        reset_glorot(self)

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        x = self.temporal(self.checked(trials)[:, None])  # (n, F1, n_chans, times)
        x = self.separable(self.spatial(x))  # (n, F2, 1, steps)
        return self.head(x.flatten(1))


#: Batch norm defaults of Keras: momentum 0.99 in its convention, epsilon 1e-3.
KERAS: dict[str, Any] = {"eps": 1e-3, "momentum": 0.01}


def norm_and_average(width: int, pool: int, dropout: float, **norm: Any) -> list[nn.Module]:
    """Return the end of a convolutional block: batch norm, ELU, average pooling, dropout."""
    average = nn.AvgPool2d((1, pool))
    return [nn.BatchNorm2d(width, **norm), nn.ELU(), average, Dropout(dropout)]


#: Filter length, pool length and stride of ShallowNet and EEGConformer in samples.
FILTER, POOL, STRIDE = 25, 75, 15


class ShallowNet(RawNet):
    """The shallow ConvNet (ShallowFBCSPNet): filter, square, average, logarithm, classify.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz. Filters of 25 samples and pools of 75 with stride 15 are 0.1, 0.3 and
        0.06 s at the paper's 250 Hz. They have the same number of samples at any rate, as in
        braindecode.

    References
    ----------
    Schirrmeister et al. (2017), Deep learning with convolutional neural networks for EEG decoding
    and visualization, Human Brain Mapping 38, 5391-5420.
    """

    def __init__(self, n_chans: int, n_outputs: int, n_times: int, sfreq: float) -> None:
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=FILTER - 1 + POOL)
        self.filters = TimeSpaceConv(n_chans, 40, 40, FILTER, bias=False)
        self.norm = nn.BatchNorm1d(40)
        self.pool = nn.AvgPool1d(POOL, STRIDE)
        self.dropout = Dropout(0.5)
        steps = (n_times - FILTER + 1 - POOL) // STRIDE + 1
        self.head = nn.Linear(40 * steps, n_outputs)
        reset_glorot(self)

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        x = self.norm(self.filters(self.checked(trials)))
        x = self.pool(x.square()).clamp(min=1e-6).log()  # (n, 40, steps)
        return self.head(self.dropout(x).flatten(1))


#: Filter and pool lengths of DeepNet in samples, and widths of its blocks.
DEEP_FILTER, DEEP_POOL = 10, 3
WIDTHS = (25, 50, 100, 200)


class DeepNet(RawNet):
    """The deep ConvNet (Deep4Net): filters in time and space, then three convolutional blocks.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz. Filters have 10 samples at any rate, as in the paper and braindecode.

    Notes
    -----
    The paper pools each block by 3, which needs 441 samples. For shorter trials the pools are
    reduced one by one, the last of the largest first (3333, 3332, 3322, ..., 1111), until a sample
    is left, see :func:`pools`.

    References
    ----------
    Schirrmeister et al. (2017), Deep learning with convolutional neural networks for EEG decoding
    and visualization, Human Brain Mapping 38, 5391-5420.
    """

    def __init__(self, n_chans: int, n_outputs: int, n_times: int, sfreq: float) -> None:
        shortest = len(WIDTHS) * (DEEP_FILTER - 1) + 1
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest)
        self.pools = pools(n_times)
        first, *later = self.pools
        layers: list[nn.Module] = [
            TimeSpaceConv(n_chans, WIDTHS[0], WIDTHS[0], DEEP_FILTER, bias=False),
            *_norm_and_pool(WIDTHS[0], first),
        ]
        for (before, width), pool in zip(pairwise(WIDTHS), later, strict=True):
            conv = nn.Conv1d(before, width, DEEP_FILTER, bias=False)
            layers += [Dropout(0.5), conv, *_norm_and_pool(width, pool)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(WIDTHS[-1] * steps(n_times, self.pools), n_outputs)
        reset_glorot(self)

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        return self.head(self.features(self.checked(trials)).flatten(1))


def _norm_and_pool(width: int, pool: int) -> list[nn.Module]:
    return [nn.BatchNorm1d(width), nn.ELU(), nn.MaxPool1d(pool)]


def steps(n_times: int, sizes: tuple[int, ...]) -> int:
    """Return the number of samples after blocks with pools of these sizes; <= 0 if none."""
    for size in sizes:
        n_times = (n_times - DEEP_FILTER + 1) // size
    return n_times


def pools(n_times: int) -> tuple[int, ...]:
    """Return the sizes of the four pools for trials of ``n_times`` samples."""
    sizes = [DEEP_POOL] * len(WIDTHS)
    while steps(n_times, tuple(sizes)) < 1 and max(sizes) > 1:
        largest = max(sizes)
        sizes[len(sizes) - 1 - sizes[::-1].index(largest)] -= 1
    return tuple(sizes)


class EEGConformer(RawNet):
    """EEG Conformer: tokens of a shallow ConvNet, encoder blocks, perceptron on all tokens.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz. Filters of 25 samples and pools of 75 with stride 15, the paper's at
        250 Hz, have the same number of samples at any rate.

    Notes
    -----
    As in the authors' code, attention scores are divided by the square root of the full width, not
    of the width of a head, and tokens have no positions.

    References
    ----------
    Song et al. (2022), EEG Conformer: convolutional transformer for EEG decoding and visualization,
    IEEE Trans. Neural Syst. Rehabil. Eng. 31, 710-719.
    """

    def __init__(self, n_chans: int, n_outputs: int, n_times: int, sfreq: float) -> None:
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=FILTER - 1 + POOL)
        width = 40
        self.tokens = nn.Sequential(
            TimeSpaceConv(n_chans, width, width, FILTER, bias=True),
            nn.BatchNorm1d(width),
            nn.ELU(),
            nn.AvgPool1d(POOL, STRIDE),
            Dropout(0.5),
            nn.Conv1d(width, width, 1),
        )
        self.blocks = nn.Sequential(*[ConformerBlock(width) for _ in range(6)])
        n_tokens = (n_times - FILTER + 1 - POOL) // STRIDE + 1
        self.head = nn.Sequential(
            nn.Linear(n_tokens * width, 256),
            nn.ELU(),
            Dropout(0.5),
            nn.Linear(256, 32),
            nn.ELU(),
            Dropout(0.3),
            nn.Linear(32, n_outputs),
        )

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        tokens = self.tokens(self.checked(trials)).mT  # (n, tokens, width)
        return self.head(self.blocks(tokens).flatten(1))


class ConformerBlock(nn.Module):
    """Pre-norm encoder block: attention, then a GELU feed-forward network of 4 times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.LayerNorm(width),
            MultiHead(width, width, 10, scale=width**-0.5, dropout=0.5),
            Dropout(0.5),
        )
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            Dropout(0.5),
            nn.Linear(4 * width, width),
            Dropout(0.5),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (n, tokens, width) to tokens of the same shape."""
        x = x + self.attention(x)
        return x + self.feed_forward(x)


class ATCNet(RawNet):
    """ATCNet: an EEGNet-like block, windows of its output, attention and a TCN on each window.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz. Filters and pools have the paper's number of samples at any rate.
    attention_width : int
        Total width of the two attention heads.
    attention_norm : bool
        Whether a layer norm precedes the attention.

    Notes
    -----
    The paper's pools, 8 and 7, leave ``n_times // 56`` steps. Where windows would have fewer than 2
    steps, the second pool is the largest that gives windows of 2 steps.

    As in the authors' code, each window has its own classifier and the scores are averaged; the
    paper's text concatenates the windows instead. Dropout applies to the attention weights, as in
    their code; in braindecode 0.8 it applies to the output. Batch norm constants are braindecode's.

    ``atcnet-paper`` has attention as wide as its input, 32, and no layer norm before it, as if
    written with ``torch.nn.MultiheadAttention``. With 22 channels and 4 classes that gives the
    123,892 parameters that the paper on SPD tokens prints for ATCNet without stating its shape. The
    shape is an inference from that number: it takes the fewest changes, but others fit as well.

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
        attention_width: int = 16,
        attention_norm: bool = True,
    ) -> None:
        n_windows, n_filters, width, dropout = 5, 16, 32, 0.3
        least = n_windows + 1  # steps for windows of 2
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=8 * least)
        self.second_pool = min(7, n_times // 8 // least)
        self.spatial = nn.Sequential(
            same_padding(64),
            nn.Conv2d(1, n_filters, (1, 64), bias=False),
            nn.BatchNorm2d(n_filters, eps=1e-4),
            MaxNormConv2d(n_filters, width, (n_chans, 1), groups=n_filters, bias=False),
            *norm_and_average(width, 8, dropout, eps=1e-4),
        )
        self.temporal = nn.Sequential(
            same_padding(16),
            nn.Conv2d(width, width, (1, 16), bias=False),
            *norm_and_average(width, self.second_pool, dropout, eps=1e-4),
        )
        self.attentions, self.tcns, self.heads = (
            nn.ModuleList([make() for _ in range(n_windows)])
            for make in (
                lambda: WindowAttention(width, attention_width, attention_norm, dropout),
                lambda: nn.Sequential(*[CausalBlock(width, 2**i, dropout) for i in range(2)]),
                lambda: MaxNormLinear(width, n_outputs),
            )
        )
        reset_glorot(self)
        for block in self.modules():
            if isinstance(block, CausalBlock):
                nn.init.kaiming_uniform_(block.first.weight)
                nn.init.kaiming_uniform_(block.second.weight)

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
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
    """Self-attention of two heads over the steps of a window, with a residual."""

    def __init__(self, width: int, inner: int, norm: bool, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6) if norm else nn.Identity()
        self.attention = MultiHead(width, inner, 2, scale=(inner / 2) ** -0.5, dropout=0.5)
        self.dropout = Dropout(dropout)

    def forward(self, window: Tensor) -> Tensor:
        """Map windows (n, width, steps) to windows of the same shape."""
        return window + self.dropout(self.attention(self.norm(window.mT))).mT


class CausalBlock(nn.Module):
    """Residual block of a TCN: two causal dilated convolutions."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.pad = nn.ConstantPad1d(((4 - 1) * dilation, 0), 0.0)
        self.first = nn.Conv1d(width, width, 4, dilation=dilation)
        self.first_norm = nn.BatchNorm1d(width)
        self.second = nn.Conv1d(width, width, 4, dilation=dilation)
        self.second_norm = nn.BatchNorm1d(width)
        self.activation = nn.ELU()
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map steps (n, width, steps) to steps of the same shape."""
        y = self.dropout(self.activation(self.first_norm(self.first(self.pad(x)))))
        y = self.dropout(self.activation(self.second_norm(self.second(self.pad(y)))))
        return self.activation(x + y)


def same_padding(length: int) -> nn.ZeroPad2d:
    """Pad time with zeros to keep the number of samples; one more at the end for even filters."""
    return nn.ZeroPad2d(((length - 1) // 2, length // 2, 0, 0))


class RawTransformer(RawNet):
    """The paper's transformer on raw time series, for its input ablation.

    A token is a patch: all channels of a short time segment, concatenated. The rest is
    :class:`spdtokens.SPDTokenTransformer`, so that only the input differs.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
        Number of channels, classes and samples.
    sfreq : float
        Sampling rate in Hz.

    Notes
    -----
    The paper does not define the tokens of raw time series; patches of 0.2 s are our choice. A
    trial is cut into equal patches of about that length. The remaining samples at its end, fewer
    than ``n_tokens``, are not used.
    """

    def __init__(self, n_chans: int, n_outputs: int, n_times: int, sfreq: float) -> None:
        wanted = max(1, round(0.2 * sfreq))
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=wanted)
        self.n_tokens = round(n_times / wanted)
        self.patch = n_times // self.n_tokens
        self.transformer = SPDTokenTransformer(n_chans * self.patch, self.n_tokens, n_outputs)

    def forward(self, trials: Tensor) -> Tensor:
        """Compute class scores (n, n_outputs) of trials (n, n_chans, n_times)."""
        used = self.checked(trials)[..., : self.n_tokens * self.patch]
        patches = used.unflatten(-1, (self.n_tokens, self.patch))  # (n, chans, tokens, patch)
        return self.transformer(patches.transpose(1, 2).flatten(2))
