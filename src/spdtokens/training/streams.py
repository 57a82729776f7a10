"""Random numbers of a run: its own, whatever trains beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class RunStreams:
    """Three independent streams of a seed: initial weights, order of trials, dropout.

    Parameters
    ----------
    seed : int
        Not negative.
    """

    def __init__(self, seed: int) -> None:
        weights, order, dropout = np.random.SeedSequence(seed).spawn(3)
        self._weights_seed = int(weights.generate_state(1, np.uint64)[0] >> 1)
        self.order = np.random.Generator(np.random.PCG64(order))
        self.dropout = np.random.Generator(np.random.SFC64(dropout))

    def weights(self) -> torch.Generator:
        """A fresh generator for the initial weights."""
        return torch.Generator().manual_seed(self._weights_seed)

    def bits(self, entries: int) -> NDArray[np.int16]:
        """The next 16 random bits for each of so many dropout decisions."""
        words = -(-entries // 4)
        drawn = self.dropout.integers(0, 2**64 - 1, words, dtype=np.uint64, endpoint=True)
        return drawn.view(np.int16)[:entries]

    def state(self) -> dict[str, Any]:
        """Where the streams are, as plain values."""
        dropout: dict[str, Any] = dict(self.dropout.bit_generator.state)
        dropout["state"] = {"state": dropout["state"]["state"].tolist()}
        return {"order": self.order.bit_generator.state, "dropout": dropout}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where :meth:`state` was taken."""
        self.order.bit_generator.state = state["order"]
        dropout = dict(state["dropout"])
        dropout["state"] = {"state": np.array(dropout["state"]["state"], dtype=np.uint64)}
        self.dropout.bit_generator.state = dropout


def dropout_masks(streams: Sequence[RunStreams], entries: int, p: float, device: Any) -> Tensor:
    """Masks (runs, entries) that are 0 with probability ``p`` and otherwise make up for it.

    Sixteen bits decide each entry, so ``p`` is rounded to a multiple of 1 / 65536; kept entries
    are scaled by what the rounded value demands, which leaves the mean exact.
    """
    dropped = max(1, round(p * 65536))
    masks = torch.empty(len(streams), entries)
    for mask, stream in zip(masks, streams, strict=True):
        torch.ge(torch.from_numpy(stream.bits(entries)), dropped - 32768, out=mask)
    return masks.mul_(65536 / (65536 - dropped)).to(device)
