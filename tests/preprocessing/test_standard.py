"""Trials for networks on raw EEG."""

from __future__ import annotations

import numpy as np
import pytest

from spdtokens import StandardTrials
from spdtokens.errors import SignalError
from spdtokens.preprocessing import Band, zero_phase

SFREQ = 100.0


def trials(n: int = 10) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3, 300)) * np.array([1.0, 5.0, 1e-6])[:, None] + 7.0


def test_one_band_and_window_with_channels_standardised_over_training_trials() -> None:
    X = trials()
    made = StandardTrials(SFREQ, bands="8-30", windows=[(0.0, 2.0)], tmin=-0.5).fit(X[:6])
    filtered = zero_phase(X, [Band(8, 30)], SFREQ)[0][..., 50:250]
    mean = filtered[:6].mean((0, 2), keepdims=True)
    deviation = filtered[:6].std((0, 2), keepdims=True)
    np.testing.assert_allclose(made.transform(X), (filtered - mean) / deviation, rtol=1e-9)
    # The strength of a trial is kept, the unit of the signal is not.
    assert made.transform(X)[:6].std(2).std() > 0.01
    other = StandardTrials(SFREQ, bands="8-30", windows=[(0.0, 2.0)], tmin=-0.5).fit(1e6 * X[:6])
    np.testing.assert_allclose(other.transform(1e6 * X), made.transform(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"bands": "paper3"}, {"windows": [(0, 1), (1, 2)]}, {"windows": [(0, 9)]}], ids=str
)
def test_what_a_network_cannot_take_is_refused(options: dict) -> None:
    with pytest.raises(SignalError):
        StandardTrials(SFREQ, **options).fit(trials())


def test_trials_that_cannot_be_used_are_refused() -> None:
    X = trials()
    made = StandardTrials(SFREQ).fit(X)
    with pytest.raises(SignalError, match="got 3 and 200"):
        made.transform(X[..., :200])
    X[4, 1, 9] = np.nan
    for use in (made.transform, made.fit):
        with pytest.raises(SignalError, match="Trial 4"):
            use(X)
