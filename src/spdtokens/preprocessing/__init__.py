"""Filter banks, windows and covariance estimators: from EEG to SPD matrices."""

from spdtokens.preprocessing.bands import Band, resolve_bands, stimulus_bands
from spdtokens.preprocessing.filterbank import FilterBankCovariances, StandardTrials
from spdtokens.preprocessing.filters import CausalFilter, causal, zero_phase
from spdtokens.preprocessing.montage import (
    MontageInterpolator,
    coverage,
    electrode_positions,
    interpolation_matrix,
)

__all__ = [
    "Band",
    "CausalFilter",
    "FilterBankCovariances",
    "MontageInterpolator",
    "StandardTrials",
    "causal",
    "coverage",
    "electrode_positions",
    "interpolation_matrix",
    "resolve_bands",
    "stimulus_bands",
    "zero_phase",
]
