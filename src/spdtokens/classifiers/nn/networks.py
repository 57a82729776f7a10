"""Networks to compare with, by name: what they take, how they are built, where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from spdtokens.classifiers.nn.matt import MAtt, original_config
from spdtokens.classifiers.nn.raw import (
    ATCNet,
    DeepNet,
    EEGConformer,
    EEGNet,
    RawTransformer,
    ShallowNet,
)
from spdtokens.classifiers.nn.spdnet import SPDNet
from spdtokens.classifiers.nn.spdtransnet import SPDTransNet
from spdtokens.classifiers.nn.tsmnet import TSMNet
from spdtokens.geometry import token_dim

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
    """

    name: str
    family: str
    reference: str
    input: Input
    build: Callable[[TrialShape], nn.Module]
    embedding: str = "log_euclidean"
    extra: str | None = None


def _matt(shape: TrialShape) -> nn.Module:
    config = original_config(shape.n_chans)
    return MAtt(shape.n_chans, shape.n_times, shape.n_outputs, config)


def _raw(kind: Callable[..., nn.Module]) -> Callable[[TrialShape], nn.Module]:
    return lambda s: kind(s.n_chans, s.n_outputs, s.n_times, s.sfreq)


SPD, RAW = "SPD network", "raw network"
NETWORKS = {
    network.name: network
    for network in (
        Network(
            "spdnet",
            SPD,
            "Huang and Van Gool 2017",
            "covariance",
            lambda s: SPDNet(s.n_chans, s.n_outputs),
        ),
        Network(
            "spdnet-paper",
            SPD,
            "Huang and Van Gool 2017, at the size of the paper's table",
            "covariance",
            lambda s: SPDNet.paper(s.n_chans, s.n_outputs),
        ),
        Network(
            "spdtransnet",
            SPD,
            "Seraphim et al. 2024, single trials",
            "tokens",
            lambda s: SPDTransNet(token_dim(s.n_chans), s.n_tokens, s.n_outputs),
            embedding="affine_invariant",  # whitened by the training mean, then the logarithm
        ),
        Network("matt", SPD, "Pan et al. 2022", "raw", _matt),
        Network("tsmnet", SPD, "Kobler et al. 2022", "raw", _raw(TSMNet), extra="baselines"),
        Network("eegnet", RAW, "Lawhern et al. 2018", "raw", _raw(EEGNet)),
        Network("shallownet", RAW, "Schirrmeister et al. 2017", "raw", _raw(ShallowNet)),
        Network("deepnet", RAW, "Schirrmeister et al. 2017", "raw", _raw(DeepNet)),
        Network("atcnet", RAW, "Altaheri et al. 2022", "raw", _raw(ATCNet)),
        Network("eeg-conformer", RAW, "Song et al. 2022", "raw", _raw(EEGConformer)),
        Network("raw-transformer", RAW, "the paper's ablation", "raw", _raw(RawTransformer)),
    )
}
