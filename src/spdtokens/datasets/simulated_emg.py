"""Simulated surface EMG: muscles of the forearm, recorded by a ring of electrodes around it.

Covariances of EMG decode gestures as those of EEG decode imagery: every muscle is a source, and a
gesture changes the variances of sources, not their places. The forearm is a circle. The potential
of a muscle falls with its distance ``r`` from an electrode as ``1 / r ** FALL_OFF``: the current
sources of an action potential sum to zero, so it falls faster than the ``1 / r`` of a single source
[1]_. A bracelet that is put on again is turned, which shifts the electrodes between sessions.

References
----------
.. [1] Fuglevand et al. (1992), Detection of motor unit action potentials with surface electrodes:
   influence of electrode size and spacing, Biological Cybernetics 67, 143-153,
   doi:10.1007/BF00201021.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.simulated import RELEASE, coloured, frequencies, line_noise
from spdtokens.runtime.threads import one_thread

Floats = NDArray[np.float64]

#: Number in the seeds, which differs from those of the EEG data sets.
NUMBER = 101
SFREQ, TRIALS, ELECTRODES = 500.0, 120, 8
GESTURES = ("rest", "fist", "open hand", "flexion", "extension")
#: Radius of the forearm in millimetres, and exponent of the potential's fall with distance.
FOREARM, FALL_OFF = 40.0, 2.0
#: Angle around the forearm in degrees and depth below the skin in millimetres of every muscle:
#: flexor carpi radialis and ulnaris, flexor digitorum superficialis, extensor carpi radialis and
#: ulnaris, extensor digitorum.
MUSCLES = np.array([[40, 8], [120, 8], [80, 16], [320, 8], [220, 8], [270, 12]], dtype=float)
#: Standard deviation of the activity of every muscle in every gesture; that of rest is tone.
ACTIVITY = np.array(
    [
        [0.10, 0.10, 0.10, 0.10, 0.10, 0.10],
        [0.45, 0.45, 1.00, 0.60, 0.45, 0.35],
        [0.20, 0.20, 0.25, 0.45, 0.45, 1.00],
        [1.00, 1.00, 0.60, 0.20, 0.20, 0.20],
        [0.20, 0.20, 0.25, 1.00, 1.00, 0.60],
    ]
)
#: Volts at an electrode 10 mm from a muscle of activity 1, and of the amplifier and the mains.
MUSCLE, SENSOR, LINE = 150e-6, 4e-6, 3e-6
#: Between subjects: degrees and log-normal scatter of depths and strengths of muscles. Between
#: sessions: turn of the bracelet in degrees, and scatter of the gains of electrodes. Between
#: trials: scatter of the effort, and of the share of each muscle in it.
ANGLES, DEPTHS, STRENGTHS = 8.0, 0.15, 0.25
TURN, GAINS = 20.0, 0.15
EFFORT, SHARES = 0.35, 0.45


def sim_emg(release: int = RELEASE) -> Dataset:
    """Simulate surface EMG of the forearm during five gestures.

    Five subjects with two sessions of 120 trials of 1 s, eight electrodes around the forearm at
    500 Hz. The bracelet is turned between the sessions.

    Parameters
    ----------
    release : int, default=2026
        Seed.

    Returns
    -------
    Dataset
        Data set whose recordings are simulated on demand, always with the same signals.

    See Also
    --------
    spdtokens.load_dataset : Load it by name.
    spdtokens.datasets.simulated.sim_mi : Simulated EEG.

    Examples
    --------
    >>> from spdtokens.datasets.simulated_emg import sim_emg
    >>> dataset = sim_emg()
    >>> dataset.load("1", "1").X.shape
    (120, 8, 500)
    """
    return Dataset(
        name="sim-emg",
        description="Simulated EMG: muscles of the forearm below a ring of electrodes, 5 gestures",
        paradigm="other",
        classes=GESTURES,
        ch_names=tuple(f"EMG{i + 1}" for i in range(ELECTRODES)),
        sfreq=SFREQ,
        tmin=0.0,
        window=(0.0, 1.0),
        index={str(i + 1): ("1", "2") for i in range(5)},
        read=partial(_read, release),
        unit_in_volts=1.0,
    )


def gains(muscles: Floats, turn: float = 0.0) -> Floats:
    """Return the potentials of muscles at the electrodes, 1 at a distance of 10 mm.

    Parameters
    ----------
    muscles : ndarray, shape (n_muscles, 2)
        Angle in degrees and depth in millimetres of every muscle.
    turn : float, default=0.0
        Rotation of the ring of electrodes in degrees.

    Returns
    -------
    ndarray, shape (8, n_muscles)
        Gain of every muscle at every electrode.
    """
    angles = np.radians(turn + 360 / ELECTRODES * np.arange(ELECTRODES))
    electrodes = FOREARM * np.exp(1j * angles)  # points of the plane
    places = (FOREARM - muscles[:, 1]) * np.exp(1j * np.radians(muscles[:, 0]))
    return np.asarray((10.0 / np.abs(electrodes[:, None] - places)) ** FALL_OFF)


@one_thread()
def _read(release: int, subject: str, session: str) -> Recording:
    traits, rng = (
        np.random.Generator(
            np.random.SFC64(np.random.SeedSequence([release, NUMBER, int(subject), number]))
        )
        for number in (0, int(session))
    )
    n = len(MUSCLES)
    muscles = MUSCLES + np.column_stack([traits.normal(0, ANGLES, n), np.zeros(n)])
    muscles[:, 1] *= traits.lognormal(0, DEPTHS, n)
    strengths = MUSCLE * traits.lognormal(0, STRENGTHS, n)
    turn = 0.0 if session == "1" else TURN * traits.choice([-1, 1]) * traits.uniform(0.5, 1.0)
    mixing = gains(muscles, turn) * rng.lognormal(0, GAINS, (ELECTRODES, 1)) * strengths
    y = rng.permutation(np.repeat(np.arange(len(GESTURES)), TRIALS // len(GESTURES)))
    t = np.arange(round(SFREQ)) / SFREQ
    f = frequencies(t)
    # Power between 20 and 150 Hz, as that of surface EMG.
    spectrum = (f / 30) ** 2 / (1 + (f / 30) ** 2) / (1 + (f / 110) ** 2)
    activity = ACTIVITY[y] * rng.lognormal(0, EFFORT, (TRIALS, 1))
    activity *= rng.lognormal(0, SHARES, (TRIALS, n))
    sources = coloured(rng, (TRIALS, n), len(t), spectrum) * activity[..., None]
    X = np.matmul(mixing, sources)
    X += LINE * rng.lognormal(0, 0.5, (ELECTRODES, 1)) * line_noise(rng, TRIALS, t)[:, None]
    X += SENSOR * rng.standard_normal(X.shape)
    run = np.full(TRIALS, "1")
    return Recording(subject, session, X.astype(np.float32), y, run, np.arange(TRIALS))
