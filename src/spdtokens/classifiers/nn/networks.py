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


def _from(module: str, make: Callable[[Any, TrialShape], Any]) -> Callable[[TrialShape], Any]:
    return lambda shape: make(import_module(f"spdtokens.classifiers.nn.{module}"), shape)


def _raw(name: str, module: str = "convolutional") -> Callable[[TrialShape], Any]:
    return _from(module, lambda m, s: getattr(m, name)(s.n_chans, s.n_outputs, s.n_times, s.sfreq))


SPD, RAW = "SPD network", "raw network"
NETWORKS = {
    network.name: network
    for network in (
        Network(
            "spdnet",
            SPD,
            "Huang and Van Gool 2017",
            "covariance",
            _from("spdnet", lambda m, s: m.SPDNet(s.n_chans, s.n_outputs)),
            counts=(829, 4342, 127),
        ),
        Network(
            "spdnet-paper",
            SPD,
            "Huang and Van Gool 2017, at the size of the paper's table",
            "covariance",
            _from("spdnet", lambda m, s: m.SPDNet.paper(s.n_chans, s.n_outputs)),
            counts=(1016, 3194, 185),
        ),
        Network(
            "spdtransnet",
            SPD,
            "Seraphim et al. 2024, single trials",
            "tokens",
            _from(
                "spdtransnet",
                lambda m, s: m.SPDTransNet(m.token_dim(s.n_chans), s.n_tokens, s.n_outputs),
            ),
            embedding="affine_invariant",  # whitened by the training mean, then the logarithm
            counts=(199000, 360030, 173025),
        ),
        Network(
            "matt",
            SPD,
            "Pan et al. 2022",
            "raw",
            _from(
                "matt",
                lambda m, s: m.MAtt(
                    s.n_chans, s.n_times, s.n_outputs, m.original_config(s.n_chans)
                ),
            ),
            counts=(9026, 24476, 72195),
        ),
        Network(
            "tsmnet",
            SPD,
            "Kobler et al. 2022",
            "raw",
            _raw("TSMNet", "spdnet"),
            extra="baselines",
            counts=(5309, 10327, 3280),
        ),
        *(
            Network(name, RAW, reference, "raw", _raw(kind), counts=counts)
            for name, reference, kind, counts in (
                ("eegnet", "Lawhern et al. 2018", "EEGNet", (2292, 2162, 1557)),
                ("shallownet", "Schirrmeister et al. 2017", "ShallowNet", (40004, 91122, 14325)),
                ("deepnet", "Schirrmeister et al. 2017", "DeepNet", (278079, 298927, 274530)),
                ("atcnet", "Altaheri et al. 2022", "ATCNet", (113732, 114490, 113449)),
                ("eeg-conformer", "Song et al. 2022", "EEGConformer", (400452, 270466, 163045)),
                (
                    "raw-transformer",
                    "the paper's ablation",
                    "RawTransformer",
                    (865668, 982658, 822149),
                ),
            )
        ),
    )
}
