"""A process that sends a signal over LSL, each sample stamped when it is pushed."""

from __future__ import annotations

import sys
import time

import numpy as np


def send(name: str, path: str) -> None:
    """Play an array file of keys ``X`` (samples, channels), ``sfreq``, ``ch_names``, for ever.

    Parameters
    ----------
    name : str
        Of the stream.
    path : str
        An ``.npz`` file.
    """
    from mne_lsl.lsl import StreamInfo, StreamOutlet, local_clock

    with np.load(path) as arrays:
        X, sfreq, names = arrays["X"], float(arrays["sfreq"]), arrays["ch_names"].tolist()
    info = StreamInfo(name, "EEG", X.shape[1], sfreq, "float32", f"{name}-sender")
    info.set_channel_names(names)
    info.set_channel_units("none")
    outlet = StreamOutlet(info)
    begin, i = local_clock(), 0
    while True:
        left = begin + i / sfreq - local_clock()
        if left > 0:
            time.sleep(left)
        outlet.push_sample(X[i % len(X)], local_clock())
        i += 1


if __name__ == "__main__":
    send(*sys.argv[1:])
