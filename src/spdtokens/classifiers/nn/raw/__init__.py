"""Networks on raw EEG, to compare with: trials (n, n_chans, n_times) in, logits out.

They are written from their papers, with the vocabulary of braindecode (``n_chans, n_outputs,
n_times, sfreq``), and checked against its release 0.8.1 where that can build them. Unlike the
networks on SPD tokens they depend on the unit of the signal: standardise trials before training.
In volts none of them learns, because the constants of their batch norms, or the positions of
their tokens, drown the signal.
"""

from spdtokens.classifiers.nn.raw.atcnet import ATCNet
from spdtokens.classifiers.nn.raw.base import RawNet
from spdtokens.classifiers.nn.raw.conformer import EEGConformer
from spdtokens.classifiers.nn.raw.deep import DeepNet
from spdtokens.classifiers.nn.raw.eegnet import EEGNet
from spdtokens.classifiers.nn.raw.shallow import ShallowNet
from spdtokens.classifiers.nn.raw.transformer import RawTransformer

__all__ = [
    "ATCNet",
    "DeepNet",
    "EEGConformer",
    "EEGNet",
    "RawNet",
    "RawTransformer",
    "ShallowNet",
]
