"""Filters against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from scipy.interpolate import make_interp_spline

from spdtokens.preprocessing import Band, CausalFilter, causal, zero_phase
from spdtokens.preprocessing.bands import UNFILTERED
from spdtokens.preprocessing.filters import (
    butterworth,
    decimated_length,
    reach,
    transform_length,
)

SFREQ = 250.0
BANDS = [Band(4, 8), Band(8, 30), Band(None, 30), Band(1, None)]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


@pytest.mark.parametrize("band", BANDS, ids=str)
def test_zero_phase_is_sosfiltfilt_away_from_the_ends(band: Band) -> None:
    X = noise(3, 2, 2000)
    expected = scipy.signal.sosfiltfilt(butterworth(band, SFREQ), X, padlen=1500)
    (found,) = zero_phase(X, [band], SFREQ)
    middle = slice(400, -400)
    np.testing.assert_allclose(found[..., middle], expected[..., middle], atol=2e-4)


def test_offsets_do_not_leak_and_units_do_not_matter() -> None:
    X = noise(2, 500)
    clean, offset = (zero_phase(x, [Band(8, 30)], SFREQ)[0] for x in (X, X + 1e5))
    np.testing.assert_allclose(offset, clean, atol=1e-8)
    for scale in (1e-6, 1e6):
        scaled = zero_phase(scale * X, [Band(8, 30)], SFREQ)[0]
        np.testing.assert_allclose(scaled, scale * clean, rtol=1e-9)


def test_low_pass_keeps_the_offset_and_no_band_changes_nothing() -> None:
    X = noise(2, 500) + 7.0
    low, same = zero_phase(X, [Band(None, 30), Band(None, None)], SFREQ)
    assert low.mean() == pytest.approx(X.mean(), abs=1e-2)
    np.testing.assert_array_equal(same, X)


@pytest.mark.parametrize("length", [3, 20, 100])
def test_short_trials(length: int) -> None:
    (found,) = zero_phase(noise(2, length), [Band(8, 30)], SFREQ)
    assert found.shape == (2, length)
    assert np.isfinite(found).all()


def test_the_input_is_left_alone() -> None:
    X = noise(2, 100)
    before = X.copy()
    X.flags.writeable = False  # as a memory map would be
    for band in (Band(8, 30), Band(None, 30)):
        assert zero_phase(X, [band], SFREQ)[0].shape == X.shape
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("size", [1, 7, 250])
def test_causal_in_chunks_is_causal_at_once(size: int) -> None:
    X = noise(3, 1000) + 50
    live = CausalFilter(BANDS, SFREQ)
    chunks = [live.process(X[:, i : i + size]) for i in range(0, 1000, size)]
    for i, whole in enumerate(causal(X, BANDS, SFREQ)):
        np.testing.assert_allclose(np.concatenate([c[i] for c in chunks], -1), whole, atol=1e-9)
    live.reset()
    np.testing.assert_allclose(live.process(X)[0], causal(X, BANDS, SFREQ)[0])


def test_causal_does_not_see_the_future() -> None:
    X = noise(1, 500)
    Y = X.copy()
    Y[:, 300:] += 100
    a, b = (causal(x, [Band(8, 30)], SFREQ)[0] for x in (X, Y))
    np.testing.assert_array_equal(a[:, :300], b[:, :300])
    assert np.abs(a[:, 300:] - b[:, 300:]).max() > 1
    c, d = (zero_phase(x, [Band(8, 30)], SFREQ)[0] for x in (X, Y))
    assert np.abs(c[:, :300] - d[:, :300]).max() > 1e-3


def test_a_decimated_band_is_the_band_at_fewer_samples() -> None:
    """Against the band at the full rate, interpolated at the times of the new samples."""
    X = noise(3, 600)
    bands = [Band(9.75, 10.25), Band(11, 13), Band(20, 30), UNFILTERED]
    full = zero_phase(X, bands, SFREQ)
    for band, whole, found in zip(
        bands, full, zero_phase(X, bands, SFREQ, decimate=True), strict=True
    ):
        if band == UNFILTERED:
            np.testing.assert_array_equal(found, X)
            continue
        assert found.shape[-1] < 0.8 * X.shape[-1]
        length = transform_length(600, reach(bands, SFREQ, 600))
        step = length / decimated_length(band, SFREQ, length)
        times = step * np.arange(found.shape[-1])
        expected = make_interp_spline(np.arange(600), whole, k=7, axis=-1)(times)
        inside = (times > 30) & (times < 570)  # splines are poor at the ends
        difference = np.abs(found - expected)[..., inside].max()
        assert difference < 2e-3 * np.abs(whole).max()
