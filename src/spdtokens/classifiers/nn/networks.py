"""Registry of the networks to compare with.

Importing this does not import torch: the module of a network is imported when it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn

Input = Literal["raw", "covariance", "tokens"]


@dataclass(frozen=True)
class TrialShape:
    """Shape of the trials that a network is built for.

    Parameters
    ----------
    n_chans : int
        Number of channels, or rows of a covariance matrix.
    n_outputs : int
        Number of classes.
    n_times : int, default=0
        Samples per trial; 0 for networks on covariance matrices or tokens.
    sfreq : float, default=0.0
        Sampling rate in Hz; 0 for networks on covariance matrices or tokens.
    n_tokens : int, default=1
        Covariance matrices per trial.

    See Also
    --------
    Network : Build a network from a shape.

    Examples
    --------
    >>> from spdtokens.classifiers.nn.networks import NETWORKS, TrialShape
    >>> shape = TrialShape(n_chans=22, n_outputs=4, n_times=438, sfreq=125.0)
    >>> sum(p.numel() for p in NETWORKS["eegnet"].build(shape).parameters())
    2292
    """

    n_chans: int
    n_outputs: int
    n_times: int = 0
    sfreq: float = 0.0
    n_tokens: int = 1


#: Trial shapes of the paper's data sets.
SHAPES = {
    "BCI2a": TrialShape(22, 4, 438, 125.0),
    "BCIcha": TrialShape(56, 2, 160, 128.0),
    "MAMEM": TrialShape(8, 5, 125, 125.0),
}


@dataclass(frozen=True)
class Network:
    """Network that :class:`spdtokens.NetworkClassifier` trains by name.

    Parameters
    ----------
    name : str
        Name in ``NETWORKS``.
    family : str
        ``'SPD network'`` or ``'raw network'``, for tables.
    reference : str
        Publication, for tables.
    input : {'raw', 'covariance', 'tokens'}
        Input of the network: trials (n, n_channels, n_times), matrices (n, n_matrices, d, d) or
        tokens (n, n_tokens, n_features).
    build : callable
        Function from a :class:`TrialShape` to a torch module.
    embedding : str, default='log_euclidean'
        Embedding of the matrices, if the input is tokens.
    extra : str, default=None
        Optional dependency of spdtokens that the network needs.
    counts : tuple of int, default=None
        Number of parameters at each of ``SHAPES``, for tables.

    See Also
    --------
    spdtokens.NetworkClassifier : Train a network.

    Examples
    --------
    >>> from torch import nn
    >>> from spdtokens.classifiers.nn.networks import Network, TrialShape
    >>> def linear(shape):
    ...     return nn.Sequential(nn.Flatten(), nn.LazyLinear(shape.n_outputs))
    >>> network = Network("linear", "SPD network", "here", "tokens", linear)
    >>> type(network.build(TrialShape(4, 2))).__name__
    'Sequential'
    """

    name: str
    family: str
    reference: str
    input: Input
    build: Callable[[TrialShape], nn.Module]
    embedding: str = "log_euclidean"
    extra: str | None = None
    counts: tuple[int, ...] | None = None


#: Arguments of the constructors, by the input of the network.
_ARGUMENTS: dict[Input, Callable[[TrialShape], tuple[Any, ...]]] = {
    "raw": lambda s: (s.n_chans, s.n_outputs, s.n_times, s.sfreq),
    "covariance": lambda s: (s.n_chans, s.n_outputs),
    "tokens": lambda s: (s.n_chans * (s.n_chans + 1) // 2, s.n_tokens, s.n_outputs),
}


SPD, RAW = "SPD network", "raw network"


def _ours(
    name: str,
    taken: Input,
    where: str,
    reference: str,
    counts: tuple[int, ...],
    more: Mapping[str, Any] | None = None,
    **options: Any,
) -> Network:
    """Register a class of this package, ``module.Class``, with ``more`` arguments."""
    module, kind = where.split(".")

    def build(shape: TrialShape) -> nn.Module:
        home = import_module(f"spdtokens.classifiers.nn.{module}")
        return getattr(home, kind)(*_ARGUMENTS[taken](shape), **(more or {}))

    family = RAW if module == "convolutional" else SPD
    return Network(name, family, reference, taken, build, counts=counts, **options)


_HUANG, _SCHIRRMEISTER = "Huang and Van Gool 2017", "Schirrmeister et al. 2017"
_ABLATION, _TABLE = "the paper's ablation", "at the size of the paper's table"
NETWORKS = {
    network.name: network
    for network in (
        _ours("spdnet", "covariance", "spdnet.SPDNet", _HUANG, (829, 4342, 127)),
        _ours(
            "spdnet-paper",
            "covariance",
            "spdnet.SPDNet",
            f"{_HUANG}, {_TABLE}",
            (1016, 3194, 185),
            {"dims": ()},  # no BiMap
        ),
        _ours(
            "spdtransnet",
            "tokens",
            "spdtransnet.SPDTransNet",
            "Seraphim et al. 2024, single trials",
            (199000, 360030, 173025),
            embedding="affine_invariant",  # whitened by the training mean, then the logarithm
        ),
        _ours("matt", "raw", "matt.MAtt", "Pan et al. 2022", (9026, 24476, 72195)),
        _ours(
            "tsmnet",
            "raw",
            "spdnet.TSMNet",
            "Kobler et al. 2022",
            (5309, 10327, 3280),
            extra="baselines",
        ),
        *(
            _ours(name, "raw", f"convolutional.{kind}", reference, counts, *more)
            for name, reference, kind, counts, *more in (
                ("eegnet", "Lawhern et al. 2018", "EEGNet", (2292, 2162, 1557)),
                (
                    "eegnet-paper",
                    f"Lawhern et al. 2018, {_TABLE}",
                    "EEGNet",
                    (5108, 4850, 3637),
                    {"n_filters": 16, "n_separable": 32, "kernel_length": 65},
                ),
                ("shallownet", _SCHIRRMEISTER, "ShallowNet", (40004, 91122, 14325)),
                ("deepnet", _SCHIRRMEISTER, "DeepNet", (278079, 298927, 274530)),
                ("atcnet", "Altaheri et al. 2022", "ATCNet", (113732, 114490, 113449)),
                (
                    "atcnet-paper",
                    f"Altaheri et al. 2022, {_TABLE}",
                    "ATCNet",
                    (123892, 124650, 123609),
                    {"attention_width": 32, "attention_norm": False},
                ),
                ("eeg-conformer", "Song et al. 2022", "EEGConformer", (400452, 270466, 163045)),
                ("raw-transformer", _ABLATION, "RawTransformer", (865668, 982658, 822149)),
            )
        ),
    )
}
