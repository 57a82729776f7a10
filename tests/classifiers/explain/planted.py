"""Trials of which it is known what tells the classes apart."""

from __future__ import annotations

import numpy as np

CHANNELS, SFREQ, SAMPLES = 6, 100.0, 200
BANDS = [(6.0, 12.0), (16.0, 24.0), (30.0, 40.0)]
#: The channel and the band whose power is the class.
CHANNEL, BAND = 4, 1


def planted_trials(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixed noise, and in one channel an oscillation at 20 Hz that is louder in class 1."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    mixing = np.eye(CHANNELS) + 0.2 * np.random.default_rng(99).standard_normal((CHANNELS,) * 2)
    X = mixing @ rng.standard_normal((n, CHANNELS, SAMPLES))
    times = np.arange(SAMPLES) / SFREQ
    phases = rng.uniform(0, 2 * np.pi, (n, 1))
    size = np.where(y, 1.3, 0.5) * rng.uniform(0.7, 1.3, n)
    X[:, CHANNEL] += size[:, None] * np.sin(2 * np.pi * 20 * times + phases)
    # Volts, and gains that differ by orders: no answer may depend on them.
    return 1e-5 * X * (10.0 ** np.arange(-1, CHANNELS - 1) % 7 + 1)[:, None], y
