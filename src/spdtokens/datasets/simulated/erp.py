"""Error potentials: feedback that was wrong evokes a negative, then a positive wave.

Every feedback evokes a visual response. Right feedback adds a reward positivity of the cingulate
cortex, wrong feedback a negativity and a larger positivity after it, at latencies that vary from
trial to trial (Margaux et al., Advances in Human-Computer Interaction, 2012). Being small beside
the ongoing EEG and of like power, they change the covariance of a trial little; their sign and
time show only against a template, as in Xdawn.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    times,
)
from spdtokens.runtime.threads import one_thread

NAME = "sim-erp"
# Montage and sizes of the BCI challenge of NER 2015.
CHANNELS = (
    "Fp1",
    "Fp2",
    "AF7",
    "AF3",
    "AF4",
    "AF8",
    "F7",
    "F5",
    "F3",
    "F1",
    "Fz",
    "F2",
    "F4",
    "F6",
    "F8",
    "FT7",
    "FC5",
    "FC3",
    "FC1",
    "FCz",
    "FC2",
    "FC4",
    "FC6",
    "FT8",
    "T7",
    "C5",
    "C3",
    "C1",
    "Cz",
    "C2",
    "C4",
    "C6",
    "T8",
    "TP7",
    "CP5",
    "CP3",
    "CP1",
    "CPz",
    "CP2",
    "CP4",
    "CP6",
    "TP8",
    "P7",
    "P5",
    "P3",
    "P1",
    "Pz",
    "P2",
    "P4",
    "P6",
    "P8",
    "PO7",
    "POz",
    "PO8",
    "O1",
    "O2",
)
CLASSES = ("correct", "error")
SFREQ, TMIN, TMAX = 200.0, -0.2, 1.3
SESSION_TRIALS = (60, 60, 60, 60, 100)
SUBJECTS = 16
ERROR_RATE = 0.3


@dataclass(frozen=True)
class Component:
    """One wave of the evoked response.

    Attributes
    ----------
    place : Place
    latency, width : float
        Of the peak after the feedback, and of its Gaussian shape, in seconds.
    correct, error : float
        Moment at the peak in nanoampere-metres.
    """

    place: Place
    latency: float
    width: float
    correct: float
    error: float


COMPONENTS = (
    Component(Place("O1", 0.78, 0.2), 0.14, 0.025, -60.0, -60.0),
    Component(Place("O2", 0.78, 0.2), 0.14, 0.025, -60.0, -60.0),
    # Reward positivity or error negativity: the same power, the opposite sign.
    Component(Place("FCz", 0.66, 0.0), 0.27, 0.040, 22.0, -22.0),
    Component(Place("Cz", 0.66, 0.0), 0.38, 0.060, 44.0, 68.0),
    Component(Place("Pz", 0.70, 0.1), 0.55, 0.100, 40.0, 40.0),
)
ALPHA = (Place("PO3", 0.75, 0.2), Place("PO4", 0.75, 0.2))
POSTERIOR = 50.0
# Latencies, in seconds, of a subject against others and of a trial against the subject.
SUBJECT_JITTER, TRIAL_JITTER = 0.02, 0.025
SPREAD = Spread(gain=0.3, channel_gain=0.2, cap=2.0)
NOISE = Disturbances(
    background=24.0, blink=500.0, muscle=50.0, blink_rate=0.05, line=2.0e-6, sensor=2.0e-6
)


def sim_erp(release: int = RELEASE) -> Dataset:
    """Simulated error potentials in the shape of the BCI challenge of NER 2015.

    Parameters
    ----------
    release : int, optional
        Seed. Only the default is calibrated.
    """
    sessions = tuple(str(i + 1) for i in range(len(SESSION_TRIALS)))
    return Dataset(
        name=NAME,
        description="Simulated error potentials: evoked dipoles with jitter in a spherical head",
        paradigm="erp",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=SFREQ,
        tmin=TMIN,
        window=(0.0, 1.25),
        index={str(i + 1): sessions for i in range(SUBJECTS)},
        read=partial(_read, release),
        unit_in_volts=1.0,
    )


# The same bits in every process: a recording is known by its content.
@one_thread()
def _read(release: int, subject: str, session: str) -> Recording:
    traits = generator(NAME, int(subject), 0, release)
    places = (*(component.place for component in COMPONENTS), *ALPHA)
    person = make_subject(traits, places, len(CHANNELS), SPREAD)
    strength, late = traits.lognormal(0, 0.3), traits.normal(0, SUBJECT_JITTER)
    rng = generator(NAME, int(subject), int(session), release)
    day = make_session(rng, person, CHANNELS, SPREAD)
    n = SESSION_TRIALS[int(session) - 1]
    errors = round(ERROR_RATE * n)
    y = shuffled_labels(rng, {0: n - errors, 1: errors})
    t = times(TMIN, TMAX, SFREQ)
    alpha = POSTERIOR * ongoing_alpha(rng, (n, len(ALPHA)), t, person.alpha)
    task = np.concatenate([evoked(rng, y, t, strength, late), alpha], axis=1)
    return Recording(
        subject=subject,
        session=session,
        X=record(rng, person, day, task, t, NOISE),
        y=y,
        run=np.full(n, "1"),
        group=np.arange(n),
    )


def evoked(
    rng: np.random.Generator,
    y: NDArray[np.int64],
    t: NDArray[np.float64],
    strength: float,
    late: float,
) -> Samples:
    """Moments of the components, shape (trials, components, samples).

    ``strength`` scales what sets the classes apart, ``late`` shifts all latencies, in seconds.
    """
    waves = np.empty((len(y), len(COMPONENTS), len(t)), dtype=np.float32)
    shift = late + rng.normal(0, TRIAL_JITTER, len(y))
    for k, component in enumerate(COMPONENTS):
        common = (component.error + component.correct) / 2
        moment = common + strength * (component.error - common) * (2 * y - 1)
        moment = moment * rng.lognormal(0, 0.3, len(y))
        centre = component.latency + shift[:, None]
        waves[:, k] = moment[:, None] * np.exp(-0.5 * ((t - centre) / component.width) ** 2)
    return waves
