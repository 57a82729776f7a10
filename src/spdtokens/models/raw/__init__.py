"""Networks on raw EEG, to compare with: trials (n, n_chans, n_times) in, logits out.

They are written from their papers, with the vocabulary of braindecode (``n_chans, n_outputs,
n_times, sfreq``), and checked against its release 0.8.1 where that can build them. Unlike the
networks on SPD tokens they depend on the unit of the signal: standardise trials before training.
In volts none of them learns, because the constants of their batch norms, or the positions of
their tokens, drown the signal.
"""

from spdtokens.models.raw.atcnet import ATCNet
from spdtokens.models.raw.base import RawNet
from spdtokens.models.raw.conformer import EEGConformer
from spdtokens.models.raw.deep import DeepNet
from spdtokens.models.raw.eegnet import EEGNet
from spdtokens.models.raw.shallow import ShallowNet
from spdtokens.models.raw.transformer import RawTransformer

__all__ = [
    "ATCNet",
    "DeepNet",
    "EEGConformer",
    "EEGNet",
    "RawNet",
    "RawTransformer",
    "ShallowNet",
]
