"""From EEG trials to SPD matrices, or to standard trials, as scikit-learn transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from spdtokens._labels import as_groups, as_labels
from spdtokens.errors import SignalError
from spdtokens.geometry.tokens import ArrayOutputMixin, as_real, matrix_tags
from spdtokens.geometry.validation import check_spd
from spdtokens.preprocessing.bands import (
    Band,
    BandSpec,
    Window,
    WindowSpec,
    plan_tokens,
    refuse_short_windows,
)
from spdtokens.preprocessing.covariance import (
    ESTIMATORS,
    PROTOTYPES,
    estimate,
    fit_prototype,
    paper_epsilon,
)
from spdtokens.preprocessing.filters import make_front
from spdtokens.runtime.signals import ESTIMATORS as OF_RUNTIME
from spdtokens.runtime.signals import Front, Prototype, check_trials
from spdtokens.runtime.threads import one_thread, share_out

#: Samples, over all channels and trials, that are filtered at a time.
CHUNK_SAMPLES = 1 << 18
Array = NDArray[np.float64]
Folds = Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]


def as_trials(X: ArrayLike) -> NDArray[Any]:
    """An array of trials (n, channels, samples) from whatever can be made one.

    Raises
    ------
    SignalError
        For another shape, no trials, or values that are not real numbers.
    """
    X = as_real(X, "trials", SignalError)
    if X.ndim != 3 or 0 in X.shape:
        raise SignalError(
            f"Expected trials (n, channels, samples), none of them 0, got shape {X.shape}. Reshape "
            "your data."
        )
    return X


def check_duplicates(C: NDArray[Any]) -> None:
    """Refuse channels that are multiples of each other, seen in covariances (n, d, d)."""
    deviation = np.sqrt(np.diagonal(C, axis1=-2, axis2=-1))
    correlation = np.abs(C) / (deviation[..., :, None] * deviation[..., None, :])
    lowest = correlation.min(0)  # in every trial
    same = np.argwhere(np.triu(lowest > 1 - 1e-9, 1))
    if len(same):
        raise SignalError(
            "In every trial channels number {} and {} carry the same signal. Drop one of them: a "
            "covariance with both is singular.".format(*same[0])
        )


def _like_fitted(estimator: Any, X: ArrayLike) -> NDArray[Any]:
    """Trials of as many channels and samples as a fitted estimator has seen."""
    check_is_fitted(estimator)
    X = as_trials(X)
    if X.shape[1:] != (estimator.n_features_in_, estimator.n_samples_):
        raise SignalError(
            f"{type(estimator).__name__} was fitted to trials of {estimator.n_features_in_} "
            f"channels and {estimator.n_samples_} samples, got {X.shape[1]} and {X.shape[2]}."
        )
    return X


class FilterBankCovariances(ArrayOutputMixin, BaseEstimator):
    """Filter trials into bands, cut windows, and estimate a covariance matrix of each.

    Trials are filtered before windows are cut, so that the filters see the signal around a window.

    Parameters
    ----------
    sfreq : float
        Sampling rate in Hz.
    bands : str or sequence of pairs, default=None
        ``'broadband'`` (4-40 Hz), ``'none'``, ``'paper3'``, ``'filterbank'``, ``'stimulus'``,
        ``'ssvep'``, edges in Hz as text (``'8-13,13-30'``) or as pairs ``(low, high)``. By default
        ``'broadband'``, without upper edge (and with a warning) if the sampling rate is too low for
        it; bands that are asked for are refused there.
    windows : str or sequence of pairs, default=None
        Start and end in seconds, on the clock of ``tmin``; ``'whole'`` for the whole trial (the
        default), ``'nested'`` for the whole trial and its first three quarters.
    tmin : float, default=0.0
        Time of a trial's first sample in seconds, as in MNE.
    stimulus_hz : sequence of float, default=()
        Flicker frequencies, for ``bands='stimulus'`` and ``'ssvep'``.
    filtering : {'zero-phase', 'causal'}, default='zero-phase'
        Causal filters use only past samples, as in live decoding.
    estimator : str, default='sample'
        ``'sample'``; ``'paper'``, which adds 1e-6 square microvolts to its diagonal; an estimator
        of pyRiemann (``'oas'``, ``'lwf'``, ...); or for event-related potentials ``'erp'`` or
        ``'xdawn'``, which put class averages of the training trials beside a trial.
    n_filters : int, default=4
        Spatial filters per class, for ``'xdawn'``.
    cross_fit : int, default=1
        For ``'xdawn'``: number of folds in which the matrices of training trials are made with
        filters and averages that were not fitted to them; 1 disables it. With more,
        ``fit_transform(X, y)`` differs from ``fit(X, y).transform(X)``, as in scikit-learn's
        ``TargetEncoder``: train on the former.
    delays : sequence of float, default=()
        In seconds. Each adds the channels as they were that long before, zero before the trial
        begins.
    decimate : bool, default=False
        Keep only the samples of a band-passed signal that carry the band. Many narrow bands then
        take a fraction of the time; covariances differ a little at the edges of a window. Needs
        zero-phase filters and no delays.
    regularisation : float, default=1e-6
        Times the mean variance, added to the diagonal. Not used by ``estimator='paper'``.
    unit_in_volts : float, default=None
        Unit of the signal (1e-6 for microvolts). Needed by ``estimator='paper'`` only.

    Attributes
    ----------
    bands_ : tuple of Band
    windows_ : tuple of pairs
        In seconds.
    matrix_names_ : list of str
        What each matrix is: ``'8-13 Hz, 0.5-2.5 s'``.
    n_matrices_ : int
        Matrices per trial: bands times windows.
    n_features_in_ : int
        Number of channels.
    n_samples_ : int
        Samples of a trial.
    front_ : Front
        The computation itself, in NumPy; it is what a model file contains.

    See Also
    --------
    make_decoder : Puts this before a classifier.
    TokenEmbedding : Turns matrices into tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import FilterBankCovariances
    >>> X = np.random.default_rng(0).standard_normal((10, 4, 500))
    >>> FilterBankCovariances(250, bands="8-13,13-30").fit_transform(X).shape
    (10, 2, 4, 4)
    """

    # Under scikit-learn's metadata routing.
    __metadata_request__fit: ClassVar = {"groups": True}

    def __init__(
        self,
        sfreq: float,
        *,
        bands: BandSpec | None = None,
        windows: WindowSpec | None = None,
        tmin: float = 0.0,
        stimulus_hz: Sequence[float] = (),
        filtering: Literal["zero-phase", "causal"] = "zero-phase",
        estimator: str = "sample",
        n_filters: int = 4,
        cross_fit: int = 1,
        delays: Sequence[float] = (),
        decimate: bool = False,
        regularisation: float = 1e-6,
        unit_in_volts: float | None = None,
    ) -> None:
        self.sfreq = sfreq
        self.bands = bands
        self.windows = windows
        self.tmin = tmin
        self.stimulus_hz = stimulus_hz
        self.filtering = filtering
        self.estimator = estimator
        self.n_filters = n_filters
        self.cross_fit = cross_fit
        self.delays = delays
        self.decimate = decimate
        self.regularisation = regularisation
        self.unit_in_volts = unit_in_volts

    @property
    def needs_labels(self) -> bool:
        """Whether matrices depend on the training trials and their labels."""
        return self.estimator in PROTOTYPES

    def __sklearn_tags__(self) -> Tags:
        """Say that input is three-dimensional, and whether labels are needed."""
        tags = matrix_tags(super().__sklearn_tags__())
        tags.target_tags.required = self.needs_labels
        return tags

    @one_thread()
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Plan the computation; learn class averages and filters where the estimator has them.

        Parameters
        ----------
        X : array, shape (n, channels, samples)
        y : array, shape (n,), optional
            Labels, needed by ``estimator='erp'`` and ``'xdawn'``.
        groups : array, shape (n,), optional
            Trials of one group are never split between the folds of ``cross_fit``.

        Returns
        -------
        self
        """
        X = self._planned(X, groups)
        if self.needs_labels:
            self._fit_averages(X, y, groups)
        else:
            check_trials(X, SignalError)
        return self

    @one_thread()
    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Array:
        """Fit, and return the matrices of the training trials.

        Parameters
        ----------
        X, y, groups
            As for :meth:`fit`.

        Returns
        -------
        C : ndarray, shape (n, d, d), or (n, m, d, d) for several bands or windows
        """
        X = self._planned(X, groups)
        if self.needs_labels:
            return self._single(self._fit_averages(X, y, groups))
        return self._matrices(X)

    @one_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Compute the matrices of trials like those of :meth:`fit`.

        Parameters
        ----------
        X : array, shape (n, channels, samples)

        Returns
        -------
        C : ndarray, shape (n, d, d), or (n, m, d, d) for several bands or windows
        """
        return self._matrices(_like_fitted(self, X))

    def refitted(
        self, X: ArrayLike, y: ArrayLike, folds: Folds, groups: ArrayLike | None = None
    ) -> Iterator[Array]:
        """Matrices of the training trials, averages and filters fitted to a part of them.

        For whatever must be measured on trials that nothing was fitted to, such as a temperature.

        Parameters
        ----------
        X, y, groups
            As passed to :meth:`fit`.
        folds : iterable of (train, test)

        Yields
        ------
        C : ndarray, shape (n, m, d, d)
            Of all trials: those of ``train`` as :meth:`fit_transform` gives them, all others as
            :meth:`transform` does.
        """
        y = np.ravel(y)  # which may be a column
        pieces = list(self.front_.pieces(as_trials(X)))
        for train, _ in folds:
            part = None if groups is None else np.asarray(groups)[train]
            others = np.setdiff1d(np.arange(len(y)), train)
            made = []
            with one_thread():
                for piece in pieces:
                    prototype, mine = self._prototype(piece[train], y[train], part)
                    C = np.empty((len(piece), *mine.shape[1:]))
                    C[train], C[others] = mine, prototype.covariances(piece[others])
                    made.append(C)
                found = self._checked(self.front_.regularised(np.stack(made, axis=1)))
            yield found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Names of the matrices, such as ``'8-13 Hz'``."""
        check_is_fitted(self)
        return np.array(self.matrix_names_, dtype=object)

    def _planned(self, X: ArrayLike, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Trials, once bands and windows are resolved and what they cannot carry is refused."""
        X = as_trials(X)
        as_groups(groups, len(X), SignalError)
        if not self.sfreq > 0:
            raise SignalError(f"sfreq must be > 0, got {self.sfreq!r}.")
        known = (*ESTIMATORS, "paper", *PROTOTYPES)
        if self.estimator not in known:
            raise SignalError(
                f"There is no covariance estimator {self.estimator!r}. There are: "
                f"{', '.join(known)}."
            )
        if self.filtering not in ("zero-phase", "causal"):
            raise SignalError(f"filtering is 'zero-phase' or 'causal', not {self.filtering!r}.")
        n = X.shape[-1]
        delays = tuple(round(delay * self.sfreq) for delay in self.delays)
        if not all(1 <= delay < n for delay in delays):
            raise SignalError(
                f"delays={self.delays!r} are {delays} samples; each must be at least 1 and below "
                f"the {n} of a trial."
            )
        if self.decimate and (delays or self.filtering == "causal"):
            raise SignalError(
                "decimate=True needs zero-phase filters and no delays, got "
                f"filtering={self.filtering!r}, delays={self.delays!r}."
            )
        plan = plan_tokens(
            sfreq=self.sfreq,
            n_samples=n,
            bands=self.bands,
            windows=self.windows,
            tmin=self.tmin,
            stimulus_hz=self.stimulus_hz,
        )
        if self.estimator in ("sample", "paper"):
            refuse_short_windows(plan, X.shape[1] * (1 + len(delays)))
        self.n_features_in_, self.n_samples_ = X.shape[1:]
        self.bands_: tuple[Band, ...] = plan.bands
        self.windows_: tuple[Window, ...] = plan.windows
        self.matrix_names_ = plan.names
        self.n_matrices_ = len(plan.names)
        kind = "sample" if self.estimator == "paper" else self.estimator
        self.front_: Front = make_front(
            plan.bands,
            self.sfreq,
            n,
            filtering=self.filtering,
            decimate=self.decimate,
            slices=plan.slices,
            delays=delays,
            covariance=kind,
            other=None if kind in OF_RUNTIME else partial(estimate, estimator=kind),
            relative=0.0 if self.estimator == "paper" else float(self.regularisation),
            absolute=paper_epsilon(self.unit_in_volts) if self.estimator == "paper" else 0.0,
        )
        return X

    def _fit_averages(
        self, X: NDArray[Any], y: ArrayLike | None, groups: ArrayLike | None
    ) -> Array:
        """Covariances (n, m, d, d) of training trials, while class averages are learnt."""
        y = as_labels(y, len(X), SignalError, f"estimator={self.estimator!r}")
        check_trials(X, SignalError)
        found = (self._prototype(piece, y, groups) for piece in self.front_.pieces(X))
        prototypes, matrices = zip(*found, strict=True)
        self.front_ = replace(self.front_, prototypes=prototypes)
        return self._checked(self.front_.regularised(np.stack(matrices, axis=1)))

    def _prototype(
        self, X: Array, y: NDArray[Any], groups: ArrayLike | None
    ) -> tuple[Prototype, Array]:
        return fit_prototype(X, y, self.estimator, self.n_filters, self.cross_fit, groups)

    def _matrices(self, X: NDArray[Any]) -> Array:
        check_trials(X, SignalError)
        # A few trials at a time: what is between two steps then stays in the cache.
        size = max(1, CHUNK_SAMPLES // (X.shape[1] * X.shape[2]))
        # Each part needs some megabytes, and glibc would give them back to the system after each,
        # half as fast again; having seen a large block freed, it keeps them. This one is untouched.
        np.empty(31 << 17)
        parts = share_out(lambda i: self.front_.estimate(X[i : i + size]), range(0, len(X), size))
        return self._single(self._checked(np.concatenate(parts)))

    def _checked(self, C: Array) -> Array:
        """Refuse what is not positive definite."""
        # A ridge hides that two channels are one: it is taken off for this look.
        first = C[:, 0].copy()
        variances = np.einsum("...ii->...i", first)
        share = self.front_.relative
        variances -= share / (1 + share) * variances.mean(-1, keepdims=True) + self.front_.absolute
        check_duplicates(first)
        check_spd(C)
        return C

    def _single(self, C: Array) -> Array:
        return C[:, 0] if self.n_matrices_ == 1 else C


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
        return matrix_tags(super().__sklearn_tags__())

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
        check_trials(X, SignalError)
        self.n_features_in_, self.n_samples_ = X.shape[1:]
        self._front = make_front(plan.bands, self.sfreq, X.shape[-1], slices=plan.slices)
        cut = self._cut(X)
        self.mean_ = cut.mean((0, 2), keepdims=True)[0]
        self.scale_ = cut.std((0, 2), keepdims=True)[0]
        return self

    @one_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Standard trials (n, channels, samples of the window)."""
        X = _like_fitted(self, X)
        check_trials(X, SignalError)
        standard: Array = (self._cut(X) - self.mean_) / self.scale_
        return standard

    def _cut(self, X: NDArray[Any]) -> Array:
        (piece,) = self._front.pieces(X)
        return piece
