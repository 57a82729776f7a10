"""A simple decoder for tests, in place of a trained one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spdtokens.errors import UserError


@dataclass(frozen=True)
class StandIn:
    """Probabilities from the log power of channels, relative to the windows learnt from."""

    ch_names: tuple[str, ...] = ("C3", "Cz", "C4", "Pz")
    classes: tuple[str, ...] = ("left", "right", "feet")
    sfreq: float = 100.0
    n_samples: int = 50
    recentring: bool | None = True
    unit_in_volts: float | None = None
    about: dict = field(default_factory=dict)

    def session(self) -> Session:
        return Session(self)


@dataclass
class Session:
    decoder: StandIn
    learnt: list[np.ndarray] = field(default_factory=list)
    windows: int = 0

    def probabilities(self, window: np.ndarray, learn: bool = True) -> np.ndarray:
        d = self.decoder
        assert window.shape == (len(d.ch_names), d.n_samples)
        if not np.isfinite(window).all() or (np.ptp(window, axis=1) == 0).any():
            raise UserError("A channel is flat, or not a number. Drop it.")
        powers = np.log(window.var(1))
        middle = np.mean(self.learnt, 0) if self.learnt else np.zeros_like(powers)
        if learn:
            self.learnt.append(powers)
        scores = np.exp((powers - middle)[: len(d.classes)])
        return scores / scores.sum()


def noise(seconds: float, decoder: StandIn | None = None, seed: int = 0) -> np.ndarray:
    decoder = decoder or StandIn()
    shape = (len(decoder.ch_names), round(seconds * decoder.sfreq))
    return np.random.default_rng(seed).standard_normal(shape)
