"""Networks to compare with, by name: what they take, how they are built, where they come from.

Nothing here waits for torch: a network's module is imported when it is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn

Input = Literal["raw", "covariance", "tokens"]


@dataclass(frozen=True)
class TrialShape:
    """What a network must know of its trials.

    Attributes
    ----------
    n_chans, n_outputs : int
        Channels and classes.
    n_times : int
        Samples; 0 where there are only covariances.
    sfreq : float
        Samples a second; 0 where there are only covariances.
    n_tokens : int
        Covariance matrices of a trial.
    """

    n_chans: int
    n_outputs: int
    n_times: int = 0
    sfreq: float = 0.0
    n_tokens: int = 1


#: The paper's data sets as networks see them.
SHAPES = {
    "BCI2a": TrialShape(22, 4, 438, 125.0),
    "BCIcha": TrialShape(56, 2, 160, 128.0),
    "MAMEM": TrialShape(8, 5, 125, 125.0),
}


@dataclass(frozen=True)
class Network:
    """A network by name.

    Attributes
    ----------
    name, family, reference : str
    input : {'raw', 'covariance', 'tokens'}
    build : callable
        From a :class:`TrialShape` to a module.
    embedding : str
        Of tokens.
    extra : str, optional
        Ours, without which it cannot be built.
    counts : tuple of int, optional
        Parameters at each of ``SHAPES``, for tables.
    """

    name: str
    family: str
    reference: str
    input: Input
    build: Callable[[TrialShape], nn.Module]
    embedding: str = "log_euclidean"
    extra: str | None = None
    counts: tuple[int, ...] | None = None


#: What the networks of each input are built with.
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
    *more: Any,
    **options: Any,
) -> Network:
    """A network of this package, by ``module.Class``; ``more`` arguments go to the class."""
    module, kind = where.split(".")

    def build(shape: TrialShape) -> nn.Module:
        home = import_module(f"spdtokens.classifiers.nn.{module}")
        return getattr(home, kind)(*_ARGUMENTS[taken](shape), *more)

    family = RAW if module == "convolutional" else SPD
    return Network(name, family, reference, taken, build, counts=counts, **options)


_HUANG, _SCHIRRMEISTER = "Huang and Van Gool 2017", "Schirrmeister et al. 2017"
_ABLATION = "the paper's ablation"
NETWORKS = {
    network.name: network
    for network in (
        _ours("spdnet", "covariance", "spdnet.SPDNet", _HUANG, (829, 4342, 127)),
        _ours(
            "spdnet-paper",
            "covariance",
            "spdnet.SPDNet",
            f"{_HUANG}, at the size of the paper's table",
            (1016, 3194, 185),
            (),  # no BiMap
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
            _ours(name, "raw", f"convolutional.{kind}", reference, counts)
            for name, reference, kind, counts in (
                ("eegnet", "Lawhern et al. 2018", "EEGNet", (2292, 2162, 1557)),
                ("shallownet", _SCHIRRMEISTER, "ShallowNet", (40004, 91122, 14325)),
                ("deepnet", _SCHIRRMEISTER, "DeepNet", (278079, 298927, 274530)),
                ("atcnet", "Altaheri et al. 2022", "ATCNet", (113732, 114490, 113449)),
                ("eeg-conformer", "Song et al. 2022", "EEGConformer", (400452, 270466, 163045)),
                ("raw-transformer", _ABLATION, "RawTransformer", (865668, 982658, 822149)),
            )
        ),
    )
}
