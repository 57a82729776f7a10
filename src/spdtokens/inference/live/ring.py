"""The last samples of a stream, in memory of constant size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Ring:
    """Keep the last samples so that a window is one block of memory.

    Written forwards in a block of several windows; at its end the last window is moved to the
    front, which costs less than a copy a sample.

    Parameters
    ----------
    n_channels : int
    n_samples : int
        Of the window.
    """

    _WINDOWS = 4

    def __init__(self, n_channels: int, n_samples: int) -> None:
        self.n_samples = n_samples
        self._block = np.zeros((n_channels, self._WINDOWS * n_samples))
        self._end = 0
        self.filled = 0

    def append(self, chunk: NDArray[np.float64]) -> None:
        """Take samples (channels, samples); at most a window at a time."""
        n = chunk.shape[1]
        assert n <= self.n_samples
        if self._end + n > self._block.shape[1]:
            kept = min(self.filled, self.n_samples)
            self._block[:, :kept] = self._block[:, self._end - kept : self._end]
            self._end = kept
        self._block[:, self._end : self._end + n] = chunk
        self._end += n
        self.filled += n

    def window(self) -> NDArray[np.float64]:
        """A copy of the last window, shape (channels, n_samples)."""
        assert self.filled >= self.n_samples
        return self._block[:, self._end - self.n_samples : self._end].copy()

    def last(self, n: int) -> NDArray[np.float64]:
        """A view of at most the last ``n`` samples, shape (channels, <= n)."""
        return self._block[:, self._end - min(n, self.filled, self.n_samples) : self._end]

    def clear(self) -> None:
        """Forget all samples."""
        self._end = self.filled = 0
