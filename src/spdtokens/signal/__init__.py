"""EEG in, SPD matrices and tokens out: filter banks, windows, covariances."""

from spdtokens.signal.bands import Band, SignalError, resolve_bands, stimulus_bands
from spdtokens.signal.filters import CausalFilter, causal, zero_phase, zero_phase_tensor
from spdtokens.signal.tokenizer import Tokenizer

__all__ = [
    "Band",
    "CausalFilter",
    "SignalError",
    "Tokenizer",
    "causal",
    "resolve_bands",
    "stimulus_bands",
    "zero_phase",
    "zero_phase_tensor",
]
