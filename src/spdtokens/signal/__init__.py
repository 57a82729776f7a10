"""EEG in, SPD matrices out: filter banks, windows, covariances."""

from spdtokens.signal.bands import Band, SignalError, resolve_bands, stimulus_bands
from spdtokens.signal.filterbank import FilterBankCovariances
from spdtokens.signal.filters import CausalFilter, causal, zero_phase, zero_phase_tensor
from spdtokens.signal.standard import StandardTrials

__all__ = [
    "Band",
    "CausalFilter",
    "FilterBankCovariances",
    "SignalError",
    "StandardTrials",
    "causal",
    "resolve_bands",
    "stimulus_bands",
    "zero_phase",
    "zero_phase_tensor",
]
