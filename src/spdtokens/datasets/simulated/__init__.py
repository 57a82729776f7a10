"""Data sets that can be made anywhere: dipoles in a spherical head, calibrated to look like EEG."""

from __future__ import annotations

from collections.abc import Callable

from spdtokens.datasets.base import Dataset
from spdtokens.datasets.simulated.erp import sim_erp
from spdtokens.datasets.simulated.motor_imagery import sim_mi
from spdtokens.datasets.simulated.ssvep import sim_ssvep

SIMULATED: dict[str, Callable[[], Dataset]] = {
    "sim-mi": sim_mi,
    "sim-erp": sim_erp,
    "sim-ssvep": sim_ssvep,
}

__all__ = ["SIMULATED", "sim_erp", "sim_mi", "sim_ssvep"]
