"""Which data stand for the paper's data sets, and how the paper treats each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spdtokens.classifiers.methods import Settings

Data = Literal["sim", "real"]


@dataclass(frozen=True)
class Role:
    """One of the paper's data sets.

    Attributes
    ----------
    name : str
        The paper's.
    sim, real : str
        The simulated set that stands for it, and the real one.
    protocol : str
        An honest one: session T to E for BCI2a; sessions 1-3 / 4 / 5, as in MAtt, for the others.
    preset, bands : str
        Size of the network, and the band of single-token experiments: 4-40 Hz for BCI2a, no filter
        for the others.
    subject : str
        The one of the paper's ablations, by position.
    """

    name: str
    sim: str
    real: str
    protocol: str
    preset: str
    bands: str
    subject: int

    def dataset(self, data: Data) -> str:
        """Name of the data set."""
        return self.sim if data == "sim" else self.real

    def settings(self, *, multiband: bool = False, **more: object) -> Settings:
        """The paper's configuration, perhaps with changes to the preset.

        Parameters
        ----------
        multiband : bool
            Three bands a trial instead of one.
        **more
            ``epochs``, or values of the preset to replace.
        """
        epochs = more.pop("epochs", None)
        return Settings(
            bands="paper3" if multiband else self.bands,
            estimator="sample",
            preset=self.preset,
            changes=more,
            recipe="common",
            epochs=epochs,  # type: ignore[arg-type]
        )


BCI2A = Role("BCI2a", "sim-mi", "bci2a", "session-transfer", "paper", "broadband", 0)
BCICHA = Role("BCIcha", "sim-erp", "bcicha", "session-split", "paper", "none", 1)
MAMEM = Role("MAMEM", "sim-ssvep", "mamem", "session-split", "paper-small", "none", 0)
ROLES = (BCI2A, BCICHA, MAMEM)
