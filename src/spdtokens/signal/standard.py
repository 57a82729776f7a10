"""Trials as networks on raw EEG want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spdtokens.runtime.threads import one_thread
from spdtokens.signal.bands import BandSpec, SignalError
from spdtokens.signal.checks import check_trials
from spdtokens.signal.filters import zero_phase
from spdtokens.signal.plan import plan_tokens
from spdtokens.signal.tokenizer import Window


class StandardTrials(TransformerMixin, BaseEstimator):
    """Filter trials into one band, cut them to one window, standardise every channel.

    Mean and standard deviation of a channel are those of all training trials, so that the strength
    of a trial is kept and the unit of the signal is not.

    Parameters
    ----------
    sfreq : float
    bands : str or sequence of pairs, optional
        One band, or ``'none'``; by default that of :class:`~spdtokens.signal.Tokenizer`.
    windows : sequence of pairs, optional
        One window, in seconds on the clock of ``tmin``; the whole trial by default.
    tmin : float
        Time of a trial's first sample.
    stimulus_frequencies : sequence of float
        Not used but to name a band.
    """

    def __init__(
        self,
        sfreq: float,
        *,
        bands: BandSpec | None = None,
        windows: Sequence[Window] | None = None,
        tmin: float = 0.0,
        stimulus_frequencies: Sequence[float] = (),
    ) -> None:
        self.sfreq = sfreq
        self.bands = bands
        self.windows = windows
        self.tmin = tmin
        self.stimulus_frequencies = stimulus_frequencies

    @one_thread()
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn mean and standard deviation of every channel of trials (n, channels, samples)."""
        X = np.asarray(X)
        if X.ndim != 3 or not len(X):
            raise SignalError(f"Expected trials (n, channels, samples), got shape {X.shape}.")
        self.n_features_in_, self.n_samples_ = X.shape[1:]
        self._token_plan = plan_tokens(
            sfreq=self.sfreq,
            n_samples=self.n_samples_,
            bands=self.bands,
            windows=self.windows,
            tmin=self.tmin,
            stimulus_frequencies=self.stimulus_frequencies,
        )
        if len(self._token_plan.names) != 1:
            raise SignalError(
                f"A network on raw trials takes one band and one window, not these: "
                f"{', '.join(self._token_plan.names)}."
            )
        check_trials(X)
        cut = self._cut(X)
        self.mean_ = cut.mean((0, 2), keepdims=True)[0]
        self.scale_ = cut.std((0, 2), keepdims=True)[0]
        return self

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Standard trials (n, channels, samples of the window)."""
        check_is_fitted(self)
        X = np.asarray(X)
        if X.ndim != 3 or X.shape[1:] != (self.n_features_in_, self.n_samples_):
            raise SignalError(
                f"Fitted to trials of {self.n_features_in_} channels and {self.n_samples_} "
                f"samples, got an array of shape {X.shape}."
            )
        check_trials(X)
        standard: NDArray[np.float64] = (self._cut(X) - self.mean_) / self.scale_
        return standard

    def _cut(self, X: NDArray[Any]) -> NDArray[np.float64]:
        (piece,) = self._token_plan.cut(zero_phase(X, self._token_plan.bands, self.sfreq))
        return np.asarray(piece)
