"""Who is recorded, and when: the anatomy of a subject, and how a session differs from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.data.simulated.head import (
    CENTRE,
    RADIUS,
    Floats,
    direction,
    inside,
    leadfield,
    rotation,
)

# The released data: another number gives another cohort, with other scores.
RELEASE = 2026
CODES = {"sim-mi": 1, "sim-erp": 2, "sim-ssvep": 3}

BACKGROUND = 60
ANTERIOR = np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True)
class Place:
    """Where a source lies and points.

    Attributes
    ----------
    electrode : str
        The source lies below it,
    depth : float
        at this part of the head's radius.
    tilt : float
        0 for a dipole along the radius, 1 for one along the surface to the front, as on the wall of
        the central sulcus; between them, in between.
    """

    electrode: str
    depth: float = 0.8
    tilt: float = 0.3


EYES = Place("Fpz", 0.86, 1.0)
JAWS = (Place("T7", 0.87, 0.2), Place("T8", 0.87, 0.2))


@dataclass(frozen=True)
class Spread:
    """How much subjects and sessions differ; the knobs of the calibration.

    Attributes
    ----------
    anatomy : float
        Root mean square distance of a source from its place, in metres.
    orientation : float
        Standard deviation of the direction, about in radians.
    gain, channel_gain : float
        Standard deviation of the logarithm of a subject's gain, and of each of its channels.
    cap : float
        Standard deviation of the turn of the cap in a session about each axis, in degrees.
    session_gain, session_channel_gain, session_background : float
        Standard deviations of logarithms: all channels, each channel, each background source.
    """

    anatomy: float = 0.013
    orientation: float = 0.35
    gain: float = 0.4
    channel_gain: float = 0.25
    cap: float = 3.0
    session_gain: float = 0.1
    session_channel_gain: float = 0.06
    session_background: float = 0.15


def generator(dataset: str, subject: int, session: int, release: int) -> np.random.Generator:
    """Random numbers of one recording, the same in whatever order recordings are asked for.

    Session 0 is the subject itself: what all sessions share.
    """
    key = np.random.SeedSequence([release, CODES[dataset], subject, session])
    return np.random.Generator(np.random.SFC64(key))


@dataclass(frozen=True)
class Subject:
    """The dipoles of one head and the amplifier it is plugged into.

    Attributes
    ----------
    positions, orientations : ndarray, shape (n_sources, 3)
        Named sources in order, then eyes, jaws and background.
    gains : ndarray, shape (n_channels,)
    exponents, levels : ndarray, shape (BACKGROUND,)
        Slope of the 1/f spectrum, and relative amplitude, of the background sources.
    alpha : float
        Frequency of the alpha rhythm in Hz; mu follows it.
    """

    positions: Floats
    orientations: Floats
    gains: Floats
    exponents: Floats
    levels: Floats
    alpha: float


def make_subject(
    rng: np.random.Generator, places: tuple[Place, ...], channels: int, spread: Spread
) -> Subject:
    """Draw a subject: sources near their places, background anywhere in the upper head."""
    everything = (*places, EYES, *JAWS)
    radial = np.array([direction(place.electrode) for place in everything])
    depth = np.array([[place.depth] for place in everything])
    tilt = np.array([[place.tilt] for place in everything])
    named = CENTRE + RADIUS * depth * radial
    named += rng.normal(0, spread.anatomy / np.sqrt(3), named.shape)
    # The part of "forwards" that lies along the surface.
    along = ANTERIOR - (radial @ ANTERIOR)[:, None] * radial
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    pointing = (1 - tilt) * radial + tilt * along + rng.normal(0, spread.orientation, radial.shape)
    somewhere = rng.normal(size=(BACKGROUND, 3))
    somewhere[:, 2] = np.abs(somewhere[:, 2]) - 0.5
    around = unit(somewhere) * rng.uniform(0.5, 0.85, (BACKGROUND, 1)) * RADIUS + CENTRE
    orientations = np.concatenate([pointing, rng.normal(size=(BACKGROUND, 3))])
    return Subject(
        positions=inside(np.concatenate([named, around])),
        orientations=unit(orientations),
        gains=np.exp(rng.normal(0, spread.gain) + rng.normal(0, spread.channel_gain, channels)),
        exponents=rng.uniform(0.8, 1.8, BACKGROUND),
        levels=rng.lognormal(0, 0.4, BACKGROUND),
        alpha=float(rng.uniform(9.0, 11.5)),
    )


@dataclass(frozen=True)
class Session:
    """A subject on one day.

    Attributes
    ----------
    mixing : ndarray, shape (n_channels, n_sources)
        Volts at the amplifier for each nanoampere-metre, gains included.
    background : ndarray, shape (BACKGROUND,)
        Relative amplitude of the background sources.
    """

    mixing: Floats
    background: Floats

    def columns(self, first: int, count: int) -> NDArray[Any]:
        """Mixing of some of the sources."""
        return self.mixing[:, first : first + count]


def make_session(
    rng: np.random.Generator, subject: Subject, ch_names: tuple[str, ...], spread: Spread
) -> Session:
    """Draw a session: the cap sits elsewhere, the electrodes touch otherwise, the brain idles."""
    # Turning the brain below the cap is turning the cap, and keeps the electrodes' names in place.
    turn = rotation(np.radians(rng.normal(0, spread.cap, 3)))
    positions = (subject.positions - CENTRE) @ turn.T + CENTRE
    gain = leadfield(ch_names, inside(positions))
    mixing = np.einsum("csk,sk->cs", gain, subject.orientations @ turn.T) * 1e-9
    drift = rng.normal(0, spread.session_channel_gain, len(ch_names))
    drift += rng.normal(0, spread.session_gain)
    background = subject.levels * rng.lognormal(0, spread.session_background, BACKGROUND)
    return Session(mixing * (subject.gains * np.exp(drift))[:, None], background)


def unit(vectors: Floats) -> Floats:
    """Vectors of length one."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def shuffled_labels(rng: np.random.Generator, counts: Mapping[int, int]) -> NDArray[np.int64]:
    """Labels of one run: each class as often as asked, in random order."""
    labels = np.repeat(np.array(list(counts), dtype=np.int64), list(counts.values()))
    return rng.permutation(labels)
