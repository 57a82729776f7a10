"""What every recording has besides the task: idling brain, eyes, muscles, mains, amplifier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spdtokens.data.simulated.subject import BACKGROUND, Session, Subject
from spdtokens.data.simulated.waves import (
    Samples,
    blinks,
    coloured,
    frequencies,
    line_noise,
    muscle_bursts,
    one_over_f,
)


@dataclass(frozen=True)
class Disturbances:
    """How strong everything is that is not the task.

    Attributes
    ----------
    background : float
        Dipole moment of a typical background source, in nanoampere-metres.
    blink, muscle : float
        Moments of the eyes during a blink, and of a jaw during a burst.
    blink_rate, muscle_rate : float
        A second.
    line, sensor : float
        Root mean square, in volts, of the mains and of the amplifier's own noise.
    """

    background: float = 12.0
    blink: float = 250.0
    muscle: float = 25.0
    blink_rate: float = 0.1
    muscle_rate: float = 0.05
    line: float = 1.0e-6
    sensor: float = 1.0e-6


def times(tmin: float, tmax: float, sfreq: float) -> NDArray[np.float64]:
    """Seconds after the cue of every sample."""
    return tmin + np.arange(round((tmax - tmin) * sfreq)) / sfreq


def record(
    rng: np.random.Generator,
    subject: Subject,
    session: Session,
    task: Samples,
    t: NDArray[np.float64],
    noise: Disturbances,
) -> Samples:
    """Trials in volts: the task's sources seen through the head, with everything else on top.

    Parameters
    ----------
    rng : Generator
    subject : Subject
    session : Session
    task : ndarray, shape (trials, n_named, samples)
        Moments of the named sources in nanoampere-metres.
    t : ndarray, shape (samples,)
    noise : Disturbances

    Returns
    -------
    ndarray of float32, shape (trials, channels, samples)
    """
    trials, named, samples = task.shape
    sfreq = 1 / (t[1] - t[0])
    spectrum = one_over_f(frequencies(samples, sfreq), subject.exponents)
    idle = coloured(rng, (trials, BACKGROUND), samples, spectrum)
    # Vigilance: from trial to trial the background is not equally strong.
    idle *= rng.lognormal(0, 0.15, (trials, 1, 1)).astype(np.float32)
    level = noise.background * session.background
    X = mixed(session.columns(named + 3, BACKGROUND) * level, idle)
    X += mixed(session.columns(0, named), task)
    eyes = noise.blink * blinks(rng, trials, t, noise.blink_rate)
    X += mixed(session.columns(named, 1), eyes[:, None])
    jaws = noise.muscle * muscle_bursts(rng, (trials, 2), t, noise.muscle_rate)
    X += mixed(session.columns(named + 1, 2), jaws)
    channels = X.shape[1]
    pickup = np.float32(noise.line) * rng.lognormal(0, 0.5, (channels, 1)).astype(np.float32)
    X += pickup * line_noise(rng, trials, t)[:, None]
    X += np.float32(noise.sensor) * rng.standard_normal(X.shape, dtype=np.float32)
    return X


def mixed(mixing: NDArray[np.float64], sources: Samples) -> Samples:
    """Channels from sources."""
    return np.asarray(np.matmul(mixing.astype(np.float32), sources.astype(np.float32, copy=False)))
