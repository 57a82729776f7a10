"""What every kind of BCI Competition IV 2a file is read into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SFREQ = 250.0
N_CHANNELS = 25  # 22 EEG, then 3 EOG
CLASSES = ("left hand", "right hand", "feet", "tongue")
_MONTAGE = "Fz FC3 FC1 FCz FC2 FC4 C5 C3 C1 Cz C2 C4 C6 CP3 CP1 CPz CP2 CP4 P1 Pz P2 POz"
CHANNELS = tuple(_MONTAGE.split())


@dataclass(frozen=True)
class Session:
    """Continuous signals of one session, its runs joined end to end.

    Attributes
    ----------
    path : Path
    signal : ndarray, shape (22, samples)
    cue : ndarray of int, shape (n,)
        Samples at which the cues appear, counted from zero.
    y : ndarray of int, shape (n,)
    run : ndarray of str, shape (n,)
        "1" to "6".
    artifact : ndarray of bool, shape (n,)
    """

    path: Path
    signal: NDArray[Any]
    cue: NDArray[np.int64]
    y: NDArray[np.int64]
    run: NDArray[np.str_]
    artifact: NDArray[np.bool_]
