"""Motor imagery: rhythms of the motor cortex that weaken where a movement is imagined.

The cue is followed by event-related desynchronisation of the mu and beta rhythms over the area of
the imagined limb, contralateral for a hand, while other areas idle a little more (Pfurtscheller and
Lopes da Silva, Clinical Neurophysiology 110, 1999).
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
    bump,
    coloured,
    frequencies,
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

NAME = "sim-mi"
# Montage, classes and sizes of BCI Competition IV 2a.
CHANNELS = (
    "Fz",
    "FC3",
    "FC1",
    "FCz",
    "FC2",
    "FC4",
    "C5",
    "C3",
    "C1",
    "Cz",
    "C2",
    "C4",
    "C6",
    "CP3",
    "CP1",
    "CPz",
    "CP2",
    "CP4",
    "P1",
    "Pz",
    "P2",
    "POz",
)
CLASSES = ("left hand", "right hand", "feet", "tongue")
SFREQ, TMIN, TMAX = 250.0, -0.5, 4.5
RUNS, PER_CLASS = 6, 12

AREAS = (
    Place("C3", 0.80, 0.4),
    Place("C4", 0.80, 0.4),
    Place("Cz", 0.72, 0.3),
    Place("C5", 0.78, 0.4),
    Place("C6", 0.78, 0.4),
)
ALPHA = (Place("PO3", 0.75, 0.2), Place("PO4", 0.75, 0.2), Place("Pz", 0.75, 0.3))
# Part of the power lost in each area (C3, C4, Cz, left and right tongue); negative where it grows.
LOSS = np.array(
    [
        [0.20, 0.90, -0.15, 0.10, 0.15],
        [0.90, 0.20, -0.15, 0.15, 0.10],
        [-0.25, -0.25, 0.90, -0.10, -0.10],
        [-0.15, -0.15, -0.15, 0.90, 0.90],
    ]
)
MU, BETA, POSTERIOR = 46.0, 19.0, 25.0
# How much of LOSS a subject shows: about a fifth of people cannot be decoded.
STRENGTH = (0.88, 0.45, 0.97, 0.60, 0.20, 0.35, 0.90, 1.00, 0.80)
SPREAD = Spread(
    gain=0.5,
    channel_gain=0.3,
    cap=1.2,
    session_gain=0.08,
    session_channel_gain=0.025,
    session_background=0.07,
)
NOISE = Disturbances()


def sim_mi(release: int = RELEASE) -> Dataset:
    """Simulated motor imagery in the shape of BCI Competition IV 2a.

    Parameters
    ----------
    release : int, optional
        Seed. Only the default is calibrated.
    """
    subjects = [str(i + 1) for i in range(len(STRENGTH))]
    return Dataset(
        name=NAME,
        description="Simulated motor imagery: mu and beta ERD of dipoles in a spherical head",
        paradigm="motor imagery",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=SFREQ,
        tmin=TMIN,
        window=(0.5, 4.0),
        index=dict.fromkeys(subjects, ("1", "2")),
        read=partial(_read, release),
        unit_in_volts=1.0,
    )


# The same bits in every process: a recording is known by its content.
@one_thread()
def _read(release: int, subject: str, session: str) -> Recording:
    person = make_subject(
        generator(NAME, int(subject), 0, release), (*AREAS, *ALPHA), len(CHANNELS), SPREAD
    )
    rng = generator(NAME, int(subject), int(session), release)
    day = make_session(rng, person, CHANNELS, SPREAD)
    counts = dict.fromkeys(range(len(CLASSES)), PER_CLASS)
    y = np.concatenate([shuffled_labels(rng, counts) for _ in range(RUNS)])
    t = times(TMIN, TMAX, SFREQ)
    rhythms = motor_rhythms(rng, y, t, person.alpha, STRENGTH[int(subject) - 1])
    alpha = POSTERIOR * ongoing_alpha(rng, (len(y), len(ALPHA)), t, person.alpha)
    task = np.concatenate([rhythms, alpha], axis=1)
    return Recording(
        subject=subject,
        session=session,
        X=record(rng, person, day, task, t, NOISE),
        y=y,
        run=np.repeat([str(i + 1) for i in range(RUNS)], len(y) // RUNS),
        group=np.arange(len(y)),
    )


def motor_rhythms(
    rng: np.random.Generator,
    y: NDArray[np.int64],
    t: NDArray[np.float64],
    alpha: float,
    strength: float,
) -> Samples:
    """Moments of the five motor areas, shape (trials, 5, samples)."""
    f = frequencies(len(t), 1 / (t[1] - t[0]))
    shape = (len(y), len(AREAS))
    mu = MU * coloured(rng, shape, len(t), bump(f, alpha + 0.5, 1.4))
    beta = BETA * coloured(rng, shape, len(t), bump(f, 2 * alpha + 1, 2.0))
    # Trials differ: people start late, or think of something else.
    effort = np.clip(rng.normal(1, 0.15, (len(y), 1)), 0, 1.1)
    onset = rng.normal(0.3, 0.1, (len(y), 1))
    course = smooth_step(t, onset, 0.5) * (1 - smooth_step(t, 3.9, 0.6))
    loss = (strength * effort * LOSS[y])[..., None] * course[:, None]
    level = rng.lognormal(0, 0.15, (*shape, 1))
    mu *= (level * np.sqrt(1 - np.clip(loss, None, 0.98))).astype(np.float32)
    beta *= (level * np.sqrt(1 - np.clip(0.7 * loss, None, 0.98))).astype(np.float32)
    return np.asarray(mu + beta)
