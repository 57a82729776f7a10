"""Where electrodes are, by their names."""

from __future__ import annotations

from collections.abc import Sequence

import mne
import numpy as np

#: The finest standard there is: 10-20 and 10-10 names are among its names. MNE renamed it in 1.13.
MONTAGES = ("colin27_1005", "standard_1005")


def electrode_info(ch_names: Sequence[str]) -> tuple[mne.Info, list[int]]:
    """Positions of the channels whose names are those of the 10-05 system, in any case.

    Parameters
    ----------
    ch_names : sequence of str

    Returns
    -------
    info : mne.Info
        Of the channels found, for :func:`mne.viz.plot_topomap`.
    places : list of int
        Their places in ``ch_names``. Of two names for one position (T3 and T7) the first counts.
    """
    name = next(name for name in MONTAGES if name in mne.channels.get_builtin_montages())
    montage = mne.channels.make_standard_montage(name)
    known = {name.lower(): at for name, at in montage.get_positions()["ch_pos"].items()}
    places: list[int] = []
    taken: set[bytes] = set()
    for place, name in enumerate(ch_names):
        at = known.get(name.lower())
        if at is not None and np.asarray(at).tobytes() not in taken:
            taken.add(np.asarray(at).tobytes())
            places.append(place)
    info = mne.create_info([ch_names[place] for place in places], 1000.0, "eeg")
    if places:
        info.set_montage(montage, match_case=False, verbose=False)
    return info, places
