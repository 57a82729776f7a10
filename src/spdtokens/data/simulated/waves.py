"""Wave forms of sources: 1/f noise, rhythms, blinks, muscle bursts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

Samples = NDArray[np.float32]


def coloured(
    rng: np.random.Generator, shape: tuple[int, ...], samples: int, spectrum: NDArray[Any]
) -> Samples:
    """Gaussian noise of a given amplitude spectrum and rms 1, shape (*shape, samples).

    Parameters
    ----------
    rng : Generator
    shape : tuple of int
    samples : int
    spectrum : ndarray, shape (..., frequencies)
        Amplitudes at the frequencies of :func:`frequencies`, broadcast against ``shape``.
    """
    length = padded(samples)
    power = np.sum(spectrum[..., 1:] ** 2, axis=-1, keepdims=True) * 2
    scale = (spectrum * length / np.sqrt(2 * power)).astype(np.float32)
    scale[..., 0] = 0
    size = (*shape, length // 2 + 1)
    white = rng.standard_normal((*size, 2), dtype=np.float32).view(np.complex64)[..., 0]
    # Longer than asked for, then cut: a trial must not be periodic.
    return np.asarray(scipy.fft.irfft(white * scale, n=length, axis=-1)[..., :samples])


def padded(samples: int) -> int:
    """Even length, good for the FFT, a fifth longer than the trial."""
    return 2 * int(scipy.fft.next_fast_len(int(samples * 0.6) + 1, real=True))


def frequencies(samples: int, sfreq: float) -> NDArray[np.float64]:
    """Frequencies of the spectrum that :func:`coloured` wants."""
    return np.fft.rfftfreq(padded(samples), 1 / sfreq).astype(np.float64)


def one_over_f(f: NDArray[np.float64], exponent: NDArray[Any] | float) -> NDArray[np.float64]:
    """Amplitude spectrum whose power falls as 1/f^exponent above half a hertz."""
    power = np.maximum(f, 0.5) ** -np.asarray(exponent)[..., None]
    # Amplifiers have a high-pass; without it a trial would be mostly its slowest wave.
    return np.asarray(np.sqrt(power * (f / 0.3) ** 4 / (1 + (f / 0.3) ** 4)))


def bump(f: NDArray[np.float64], centre: float, width: float) -> NDArray[np.float64]:
    """Amplitude spectrum of a rhythm: a Gaussian about a frequency."""
    return np.asarray(np.exp(-0.5 * ((f - centre) / width) ** 2))


def ongoing_alpha(
    rng: np.random.Generator, shape: tuple[int, int], t: NDArray[np.float64], alpha: float
) -> Samples:
    """Alpha of trials and sources, rms about 1, which comes and goes whatever the task."""
    f = frequencies(len(t), 1 / (t[1] - t[0]))
    wave = coloured(rng, shape, len(t), bump(f, alpha, 0.8))
    return np.asarray(wave * rng.lognormal(0, 0.35, (shape[0], 1, 1)).astype(np.float32))


def smooth_step(
    t: NDArray[np.float64], start: NDArray[Any] | float, rise: float
) -> NDArray[np.float64]:
    """From 0 to 1 along half a cosine."""
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * np.clip((t - start) / rise, 0, 1)))


def blinks(rng: np.random.Generator, trials: int, t: NDArray[np.float64], rate: float) -> Samples:
    """Blinks of height about 1 and 0.3 s, ``rate`` a second on average, shape (trials, samples)."""
    wave = np.zeros((trials, len(t)), dtype=np.float32)
    for trial, count in enumerate(rng.poisson(rate * (t[-1] - t[0]), trials)):
        for _ in range(count):
            middle, width = rng.uniform(t[0], t[-1]), rng.uniform(0.06, 0.1)
            height = rng.lognormal(0, 0.2)
            wave[trial] += height * np.exp(-0.5 * ((t - middle) / width) ** 2)
    return wave


def muscle_bursts(
    rng: np.random.Generator, shape: tuple[int, int], t: NDArray[np.float64], rate: float
) -> Samples:
    """Wide noise above 20 Hz, always a little, in bursts much, shape (*shape, samples)."""
    sfreq = 1 / (t[1] - t[0])
    f = frequencies(len(t), sfreq)
    wave = coloured(rng, shape, len(t), smooth_step(f, 15, 25) / np.sqrt(np.maximum(f, 20)))
    envelope = np.full((*shape, len(t)), 0.15, dtype=np.float32)
    for trial, count in enumerate(rng.poisson(rate * (t[-1] - t[0]), shape[0])):
        for _ in range(count):
            source, middle = rng.integers(shape[1]), rng.uniform(t[0], t[-1])
            envelope[trial, source] += np.exp(-0.5 * ((t - middle) / rng.uniform(0.1, 0.4)) ** 2)
    return wave * envelope


def line_noise(
    rng: np.random.Generator, trials: int, t: NDArray[np.float64], hertz: float = 50.0
) -> Samples:
    """The mains, of rms 1 and at a new phase in every trial, shape (trials, samples)."""
    phase = rng.uniform(0, 2 * np.pi, (trials, 1))
    return (np.sqrt(2) * np.sin(2 * np.pi * hertz * t + phase)).astype(np.float32)
