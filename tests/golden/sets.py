"""Small data sets made of random numbers alone, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets import Dataset, Recording

CHANNELS = 6
SUBJECTS = ("1", "2", "3")
SESSIONS = ("a", "b")


def _noise(rng: np.random.Generator, n: int, samples: int) -> NDArray[np.float64]:
    """Pink-ish noise (n, channels, samples) of channels that share sources."""
    white = rng.standard_normal((n, CHANNELS, samples))
    slow = np.cumsum(rng.standard_normal((n, CHANNELS, samples)), axis=-1)
    return np.eye(CHANNELS) @ white + 0.1 * (slow - slow.mean(-1, keepdims=True))


def _imagery(rng: np.random.Generator, y: NDArray[np.int64]) -> NDArray[np.float64]:
    """A 10 Hz and a 20 Hz rhythm whose places depend on the class; 100 Hz, -0.5 to 2 s."""
    t = np.arange(250) / 100 - 0.5
    X = _noise(rng, len(y), len(t))
    for hertz in (10.0, 20.0):
        phase = rng.uniform(0, 2 * np.pi, (len(y), 1))
        strength = rng.uniform(0.5, 1.5, (len(y), 1))
        wave = strength * np.cos(2 * np.pi * hertz * t + phase)
        place = np.eye(CHANNELS)[y] + 0.3 * np.eye(CHANNELS)[(y + 3) % CHANNELS]
        X += place[:, :, None] * wave[:, None, :]
    return X


def _potentials(rng: np.random.Generator, y: NDArray[np.int64]) -> NDArray[np.float64]:
    """A bump at 0.3 s in trials of class 1; 100 Hz, -0.1 to 0.8 s."""
    t = np.arange(90) / 100 - 0.1
    bump = np.exp(-0.5 * ((t - 0.3) / 0.06) ** 2)
    place = np.linspace(0.2, 1.4, CHANNELS)
    return _noise(rng, len(y), len(t)) + y[:, None, None] * place[:, None] * bump


def _flicker(rng: np.random.Generator, y: NDArray[np.int64]) -> NDArray[np.float64]:
    """9, 12 or 15 Hz and their second harmonics; 128 Hz, 0 to 2.5 s."""
    t = np.arange(320) / 128
    f = np.array([9.0, 12.0, 15.0])[y][:, None]
    wave = np.cos(2 * np.pi * f * t) + 0.5 * np.cos(4 * np.pi * f * t)
    place = np.linspace(0.1, 0.6, CHANNELS)
    return _noise(rng, len(y), len(t)) + place[:, None] * wave[:, None, :]


def _dataset(
    name: str,
    paradigm: str,
    make: Callable[[np.random.Generator, NDArray[np.int64]], NDArray[np.float64]],
    counts: tuple[int, ...],
    **more: object,
) -> Dataset:
    def read(subject: str, session: str) -> Recording:
        seed = [len(name), SUBJECTS.index(subject), SESSIONS.index(session)]
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
        mixing = np.eye(CHANNELS) + 0.2 * rng.standard_normal((CHANNELS, CHANNELS))
        X = 1e-5 * mixing @ make(rng, y)
        n = len(y)
        return Recording(
            subject,
            session,
            X,
            y,
            run=np.repeat(["1", "2"], [n // 2, n - n // 2]),
            group=np.arange(n) // 2 if name == "golden-grouped" else np.arange(n),
        )

    return Dataset(
        name=name,
        description="for golden outputs",
        paradigm=paradigm,  # type: ignore[arg-type]
        classes=tuple(f"class {i}" for i in range(len(counts))),
        ch_names=tuple(f"C{i}" for i in range(CHANNELS)),
        index=dict.fromkeys(SUBJECTS, SESSIONS),
        read=read,
        unit_in_volts=1.0,
        **more,  # type: ignore[arg-type]
    )


def _matrices(whole: Dataset) -> Dataset:
    """Covariances of the same trials."""
    from dataclasses import replace

    def read(subject: str, session: str) -> Recording:
        recording = whole.read(subject, session)
        X = recording.X
        return replace(recording, X=X @ X.swapaxes(1, 2) / X.shape[-1])

    return replace(
        whole,
        name="golden-matrices",
        is_covariance=True,
        sfreq=None,
        tmin=0.0,
        window=(0.0, 0.0),
        unit_in_volts=None,
        read=read,
    )


_TIMES = {"sfreq": 100.0, "tmin": -0.5, "window": (0.5, 2.0)}
IMAGERY = _dataset("golden-mi", "motor imagery", _imagery, (10, 10, 10), **_TIMES)
GROUPED = _dataset("golden-grouped", "motor imagery", _imagery, (12, 12, 12), **_TIMES)
FEW = _dataset("golden-few", "motor imagery", _imagery, (3, 3), **_TIMES)
POTENTIALS = _dataset(
    "golden-erp", "erp", _potentials, (24, 12), sfreq=100.0, tmin=-0.1, window=(0.0, 0.8)
)
FLICKER = _dataset(
    "golden-ssvep",
    "ssvep",
    _flicker,
    (10, 10, 10),
    sfreq=128.0,
    tmin=0.0,
    window=(0.5, 2.5),
    stimulus_hz=(9.0, 12.0, 15.0),
)
MATRICES = _matrices(IMAGERY)
