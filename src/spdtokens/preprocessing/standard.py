"""Trials as networks on raw EEG want them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from spdtokens.errors import SignalError
from spdtokens.geometry.tokens import ArrayOutputMixin
from spdtokens.preprocessing.bands import BandSpec, WindowSpec, plan_tokens
from spdtokens.preprocessing.checks import as_trials, check_trials
from spdtokens.preprocessing.filters import make_front
from spdtokens.runtime.threads import one_thread


class StandardTrials(ArrayOutputMixin, BaseEstimator):
    """Filter trials into one band, cut them to one window, standardise every channel.

    Mean and standard deviation of a channel are those of all training trials, so that the strength
    of a trial is kept and the unit of the signal is not.

    Parameters
    ----------
    sfreq : float
        Sampling rate in Hz.
    bands : str or sequence of pairs, default=None
        One band, or ``'none'``; by default that of :class:`~spdtokens.FilterBankCovariances`.
    windows : sequence of pairs, default=None
        One window, in seconds on the clock of ``tmin``; the whole trial by default.
    tmin : float, default=0.0
        Time of a trial's first sample in seconds.

    Attributes
    ----------
    mean_, scale_ : ndarray, shape (channels, 1)
    n_features_in_ : int
        Number of channels.
    n_samples_ : int
        Samples of a trial, before the window is cut.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import StandardTrials
    >>> X = np.random.default_rng(0).standard_normal((10, 4, 500))
    >>> StandardTrials(250, windows=[(0.5, 1.5)]).fit_transform(X).shape
    (10, 4, 250)
    """

    def __init__(
        self,
        sfreq: float,
        *,
        bands: BandSpec | None = None,
        windows: WindowSpec | None = None,
        tmin: float = 0.0,
    ) -> None:
        self.sfreq = sfreq
        self.bands = bands
        self.windows = windows
        self.tmin = tmin

    def __sklearn_tags__(self) -> Tags:
        """Say that input is three-dimensional."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    @one_thread()
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn mean and standard deviation of every channel of trials (n, channels, samples)."""
        X = as_trials(X)
        plan = plan_tokens(
            sfreq=self.sfreq,
            n_samples=X.shape[-1],
            bands=self.bands,
            windows=self.windows,
            tmin=self.tmin,
        )
        if len(plan.names) != 1:
            raise SignalError(
                f"A network on raw trials takes one band and one window, got {len(plan.names)}: "
                f"{', '.join(plan.names)}."
            )
        check_trials(X)
        self.n_features_in_, self.n_samples_ = X.shape[1:]
        self._front = make_front(plan.bands, self.sfreq, X.shape[-1], slices=plan.slices)
        cut = self._cut(X)
        self.mean_ = cut.mean((0, 2), keepdims=True)[0]
        self.scale_ = cut.std((0, 2), keepdims=True)[0]
        return self

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Standard trials (n, channels, samples of the window)."""
        check_is_fitted(self)
        X = as_trials(X)
        if X.shape[1:] != (self.n_features_in_, self.n_samples_):
            raise SignalError(
                f"{type(self).__name__} was fitted to trials of {self.n_features_in_} channels and "
                f"{self.n_samples_} samples, got {X.shape[1]} and {X.shape[2]}."
            )
        check_trials(X)
        standard: NDArray[np.float64] = (self._cut(X) - self.mean_) / self.scale_
        return standard

    def _cut(self, X: NDArray[Any]) -> NDArray[np.float64]:
        (piece,) = self._front.pieces(X)
        return piece
