"""Signals beside their past."""

from __future__ import annotations

import numpy as np
import pytest

from spdtokens import FilterBankCovariances
from spdtokens.errors import SignalError
from spdtokens.preprocessing.filters import delay_samples
from spdtokens.runtime.signals import with_delays

X = np.random.default_rng(0).standard_normal((5, 3, 100))


def test_each_delay_adds_the_channels_as_they_were() -> None:
    late = with_delays(X, (4, 10))
    assert late.shape == (5, 9, 100)
    np.testing.assert_array_equal(late[:, :3], X)
    np.testing.assert_array_equal(late[:, 3:6, 4:], X[..., :-4])
    np.testing.assert_array_equal(late[:, 6:, 10:], X[..., :-10])
    assert (late[:, 3:6, :4] == 0).all()
    assert with_delays(X, ()) is X


def test_the_filter_bank_takes_the_past_from_before_the_window() -> None:
    options = {"sfreq": 100.0, "bands": "none", "windows": [(0.3, 0.9)], "regularisation": 0.0}
    C = FilterBankCovariances(**options, delays=[0.1]).fit_transform(X)
    both = np.concatenate([X[..., 30:90], X[..., 20:80]], axis=1)
    expected = np.stack([np.cov(trial) for trial in both])
    np.testing.assert_allclose(C, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("delay", [0.001, 1.0, -0.1])
def test_impossible_delays_are_refused(delay: float) -> None:
    with pytest.raises(SignalError, match=f"A delay of {delay:g} s"):
        delay_samples([delay], 100.0, 100)


def test_windows_too_short_for_all_rows_are_refused() -> None:
    short = {"sfreq": 100.0, "bands": "none", "windows": [(0.2, 0.25)]}
    FilterBankCovariances(**short).fit(X)
    with pytest.raises(SignalError, match="5 samples for 6 channels"):
        FilterBankCovariances(**short, delays=[0.1]).fit(X)
