from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import welch

from spdtokens.datasets.simulated.subject import (
    blinks,
    bump,
    coloured,
    frequencies,
    line_noise,
    one_over_f,
    smooth_step,
)


@pytest.mark.parametrize("exponent", [0.8, 1.2, 1.8])
def test_noise_falls_as_asked(exponent: float) -> None:
    sfreq, samples = 250.0, 1250
    f = frequencies(samples, sfreq)
    wave = coloured(np.random.default_rng(0), (200,), samples, one_over_f(f, exponent))
    assert wave.dtype == np.float32
    assert wave.std() == pytest.approx(1, rel=0.1)
    hertz, density = welch(wave, sfreq, nperseg=500)
    shown = (hertz >= 2) & (hertz <= 100)
    slope = np.polyfit(np.log(hertz[shown]), np.log(density.mean(0)[shown]), 1)[0]
    assert slope == pytest.approx(-exponent, abs=0.1)


def test_a_rhythm_peaks_where_asked_and_is_not_periodic() -> None:
    f = frequencies(1000, 200.0)
    wave = coloured(np.random.default_rng(1), (300, 2), 1000, bump(f, 11.0, 1.0))
    assert wave.shape == (300, 2, 1000)
    hertz, density = welch(wave, 200.0, nperseg=400)
    assert hertz[density.mean((0, 1)).argmax()] == pytest.approx(11.0, abs=0.5)
    ends = np.corrcoef(wave[:, 0, 0], wave[:, 0, -1])[0, 1]
    assert abs(ends) < 0.25


def test_each_source_has_its_own_spectrum() -> None:
    f = frequencies(1000, 200.0)
    spectra = np.stack([bump(f, 10.0, 0.5), bump(f, 30.0, 0.5)])
    wave = coloured(np.random.default_rng(1), (50, 2), 1000, spectra)
    hertz, density = welch(wave, 200.0, nperseg=400)
    np.testing.assert_allclose(hertz[density.mean(0).argmax(-1)], [10, 30], atol=0.5)


def test_envelopes() -> None:
    t = np.linspace(-1, 5, 601)
    np.testing.assert_allclose(smooth_step(t, 0, 1)[[0, 100, 150, 200, 600]], [0, 0, 0.5, 1, 1])
    wave = blinks(np.random.default_rng(0), 400, t, 0.2)
    peaks = ((wave[:, 1:-1] > 0.4) & (np.diff(wave, axis=1)[:, :-1] > 0)).any(1).mean()
    assert peaks == pytest.approx(1 - np.exp(-0.2 * 6), abs=0.1)
    mains = line_noise(np.random.default_rng(0), 20, np.arange(500) / 250)
    assert mains.std() == pytest.approx(1, rel=0.02)
