"""DeepNet: four blocks of convolution and max pooling."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from spdtokens.classifiers.nn.raw.base import Dropout, RawNet, TimeSpaceConv, reset_glorot

FILTER, POOL = 10, 3
WIDTHS = (25, 50, 100, 200)


class DeepNet(RawNet):
    """The deep ConvNet (Deep4Net): filters in time and space, then ever more features.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
        Filters are 10 samples whatever the frequency, as in the paper and braindecode.
    dropout : float

    Notes
    -----
    The paper pools each block by 3, which takes 441 samples. For shorter trials the filters stay
    and the pools shrink, one step at a time: of the largest pools the last (3333, 3332, 3322, ...,
    2222, 2221, ..., 1111), and the first that leaves a sample is taken; see :func:`pools`.

    References
    ----------
    Schirrmeister et al. (2017), Deep learning with convolutional neural networks for EEG decoding
    and visualization, Human Brain Mapping 38, 5391-5420.
    """

    def __init__(
        self, n_chans: int, n_outputs: int, n_times: int, sfreq: float, *, dropout: float = 0.5
    ) -> None:
        shortest = len(WIDTHS) * (FILTER - 1) + 1
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest)
        self.pools = pools(n_times)
        first, *later = self.pools
        layers: list[nn.Module] = [
            TimeSpaceConv(n_chans, WIDTHS[0], WIDTHS[0], FILTER, bias=False),
            *norm_and_pool(WIDTHS[0], first),
        ]
        for (before, width), pool in zip(pairwise(WIDTHS), later, strict=True):
            conv = nn.Conv1d(before, width, FILTER, bias=False)
            layers += [Dropout(dropout), conv, *norm_and_pool(width, pool)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(WIDTHS[-1] * steps(n_times, self.pools), n_outputs)
        reset_glorot(self)

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
        return self.head(self.features(self.checked(trials)).flatten(1))


def norm_and_pool(width: int, pool: int) -> list[nn.Module]:
    """The second half of a block, after its convolution."""
    return [nn.BatchNorm1d(width), nn.ELU(), nn.MaxPool1d(pool)]


def steps(n_times: int, sizes: tuple[int, ...]) -> int:
    """Samples that are left after blocks with pools of these sizes; 0 or less if none."""
    for size in sizes:
        n_times = (n_times - FILTER + 1) // size
    return n_times


def pools(n_times: int) -> tuple[int, ...]:
    """Sizes of the four pools for trials of ``n_times`` samples: the paper's 3 if they fit."""
    sizes = [POOL] * len(WIDTHS)
    while steps(n_times, tuple(sizes)) < 1 and max(sizes) > 1:
        largest = max(sizes)
        sizes[len(sizes) - 1 - sizes[::-1].index(largest)] -= 1
    return tuple(sizes)
