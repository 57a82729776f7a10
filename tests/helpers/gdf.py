"""Write GDF 2.1 files as small as MNE can read them; no Python package writes GDF."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FLOAT32, MICROVOLT = 16, 4275


def write_gdf(
    path: Path,
    names: Sequence[str],
    microvolts: NDArray[np.float64],
    sfreq: int,
    events: Sequence[tuple[int, int]],
) -> None:
    """One record a sample; events are (sample counted from zero, code)."""
    n, samples = microvolts.shape
    limits = np.tile(np.array([[-1e4], [1e4], [-1e4], [1e4]]), (1, n))
    fixed = b"GDF 2.10".ljust(8) + b"X X".ljust(66) + bytes(10 + 4) + b"test".ljust(64)
    fixed += bytes(4 + 12 + 8 + 8)  # place, date, birthday
    fixed += struct.pack("<H", n + 1) + bytes(6 + 8 + 6 + 6 + 12 + 12)  # header in 256-byte blocks
    fixed += struct.pack("<qIIHH", samples, 1, sfreq, n, 0)
    assert len(fixed) == 256
    channels = b"".join(name.encode().ljust(16) for name in names)
    channels += bytes(80 * n) + bytes(6 * n)
    channels += np.full(n, MICROVOLT, "<u2").tobytes()
    channels += limits.astype("<f8").tobytes()
    channels += bytes(68 * n) + np.repeat([100.0, 0.5, 50.0], n).astype("<f4").tobytes()
    channels += np.repeat([1, FLOAT32], n).astype("<i4").tobytes()
    channels += bytes(12 * n) + bytes(n) + bytes(19 * n)
    assert len(channels) == 256 * n
    table = struct.pack("<B", 1) + struct.pack("<I", len(events))[:3] + struct.pack("<f", sfreq)
    table += np.array([at + 1 for at, _ in events], "<u4").tobytes()
    table += np.array([code for _, code in events], "<u2").tobytes()
    path.write_bytes(fixed + channels + microvolts.T.astype("<f4").tobytes() + table)
