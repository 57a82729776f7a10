"""Steady-state visual evoked potentials: visual cortex follows a flicker, with harmonics.

All five flickers drive the same sources equally strongly. Where the power lies says nothing, only
at which frequency; a covariance over a broad band cannot tell the classes apart.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.simulated.subject import (
    RELEASE,
    Disturbances,
    Place,
    Samples,
    Spread,
    generator,
    make_session,
    make_subject,
    ongoing_alpha,
    record,
    shuffled_labels,
    smooth_step,
    times,
)
from spdtokens.runtime.threads import one_thread

NAME = "sim-ssvep"
# Flickers, subjects and sizes of the MAMEM SSVEP data, as five sessions of 25 trials.
CHANNELS = ("PO7", "PO3", "POz", "PO4", "PO8", "O1", "Oz", "O2")
FLICKERS = (6.66, 7.5, 8.57, 10.0, 12.0)
CLASSES = tuple(f"{hertz:g} Hz" for hertz in FLICKERS)
SFREQ, TMIN, TMAX = 256.0, 0.0, 5.0
SUBJECTS, SESSIONS, PER_CLASS = 11, 5, 5

VISUAL = (Place("O1", 0.80, 0.3), Place("O2", 0.80, 0.3), Place("Oz", 0.70, 0.6))
ALPHA = (Place("PO3", 0.75, 0.2), Place("PO4", 0.75, 0.2), Place("Pz", 0.75, 0.3))
# Peak moments of the fundamental and its harmonics, in nanoampere-metres.
HARMONICS = (6.0, 3.0, 1.4)
POSTERIOR = 24.0
SPREAD = Spread(gain=0.3, channel_gain=0.2, cap=2.0)
NOISE = Disturbances(
    background=24.0, blink=500.0, muscle=50.0, blink_rate=0.05, line=2.0e-6, sensor=2.0e-6
)


def sim_ssvep(release: int = RELEASE) -> Dataset:
    """Simulated SSVEP in the shape of the MAMEM data.

    Parameters
    ----------
    release : int, optional
        Seed. Only the default is calibrated.
    """
    sessions = tuple(str(i + 1) for i in range(SESSIONS))
    return Dataset(
        name=NAME,
        description="Simulated SSVEP: flicker-driven dipoles in a spherical head, five frequencies",
        paradigm="ssvep",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=SFREQ,
        tmin=TMIN,
        window=(0.5, 5.0),
        index={str(i + 1): sessions for i in range(SUBJECTS)},
        read=partial(_read, release),
        stimulus_hz=FLICKERS,
        unit_in_volts=1.0,
    )


# The same bits in every process: a recording is known by its content.
@one_thread()
def _read(release: int, subject: str, session: str) -> Recording:
    traits = generator(NAME, int(subject), 0, release)
    person = make_subject(traits, (*VISUAL, *ALPHA), len(CHANNELS), SPREAD)
    strength = traits.lognormal(0, 0.35)
    rng = generator(NAME, int(subject), int(session), release)
    day = make_session(rng, person, CHANNELS, SPREAD)
    y = shuffled_labels(rng, dict.fromkeys(range(len(FLICKERS)), PER_CLASS))
    t = times(TMIN, TMAX, SFREQ)
    alpha = POSTERIOR * ongoing_alpha(rng, (len(y), len(ALPHA)), t, person.alpha)
    task = np.concatenate([driven(rng, y, t, strength), alpha], axis=1)
    return Recording(
        subject=subject,
        session=session,
        X=record(rng, person, day, task, t, NOISE),
        y=y,
        run=np.full(len(y), "1"),
        group=np.arange(len(y)),
    )


def driven(
    rng: np.random.Generator, y: NDArray[np.int64], t: NDArray[np.float64], strength: float
) -> Samples:
    """Moments of the visual sources, shape (trials, 3, samples)."""
    waves = np.zeros((len(y), len(VISUAL), len(t)), dtype=np.float32)
    hertz = np.array(FLICKERS)[y][:, None, None]
    # The flicker starts at any phase; the sources follow one after the other.
    phase = rng.uniform(0, 2 * np.pi, (len(y), 1, 1)) + np.array([0.0, 0.5, 1.0])[:, None]
    attention = strength * rng.lognormal(0, 0.3, (len(y), 1, 1)) * smooth_step(t, 0.1, 0.4)
    for k, moment in enumerate(HARMONICS, start=1):
        waves += moment * attention * np.sin(k * (2 * np.pi * hertz * t + phase))
    return waves
