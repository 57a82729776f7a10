"""Decisions as a stream of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdtokens.inference.live.decoder import Decision
from spdtokens.inference.live.lsl import DECISIONS


class ProbabilityOutlet:
    """An LSL stream of class probabilities.

    One channel a class, labelled by it, float32, without a regular rate since decisions may be
    withheld. The stamp of a sample is that of the last sample of the window, by the clock of this
    machine.

    Parameters
    ----------
    name : str
    classes : tuple of str
    about : mapping of str to str
        Written into the stream's description.
    """

    def __init__(self, name: str, classes: tuple[str, ...], about: Mapping[str, str]) -> None:
        from mne_lsl.lsl import StreamInfo, StreamOutlet

        source = f"spdtokens-{name}-{os.getpid()}"
        info: Any = StreamInfo(name, DECISIONS, len(classes), 0.0, "float32", source)
        info.set_channel_names(list(classes))
        info.set_channel_types("probability")
        info.set_channel_units("none")
        node = info.desc.append_child("spdtokens")
        for key, value in about.items():
            node.append_child_value(key, value)
        self._outlet = StreamOutlet(info)

    def push(self, decision: Decision, stamp: float) -> None:
        """Publish a decision; nothing of one that was withheld."""
        if decision.probabilities is not None:
            self._outlet.push_sample(decision.probabilities.astype(np.float32), stamp)

    def close(self) -> None:
        """End the stream."""
        self._outlet._del()
