"""scikit-learn transformers of EEG trials: covariance matrices, or standardised trials."""

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
from spdtokens.geometry.validation import check_finite, check_spd
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

#: Samples, over all channels and trials, that are filtered at once.
CHUNK_SAMPLES = 1 << 18
Array = NDArray[np.float64]
Folds = Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]


def as_trials(X: ArrayLike) -> NDArray[Any]:
    """Convert ``X`` to an array of trials (n, channels, samples).

    Raises
    ------
    SignalError
        For another shape, no trials, or values that are not real numbers.
    """
    X = as_real(X, "trials", SignalError)
    if X.ndim != 3 or 0 in X.shape:
        raise SignalError(
            f"X must be trials of shape (n, channels, samples), not empty, got shape {X.shape}. "
            "Reshape your data."
        )
    return X


def check_duplicates(C: NDArray[Any]) -> None:
    """Raise an error for channels that are multiples of each other in covariances (n, d, d)."""
    deviation = np.sqrt(np.diagonal(C, axis1=-2, axis2=-1))
    correlation = np.abs(C) / (deviation[..., :, None] * deviation[..., None, :])
    lowest = correlation.min(0)  # in every trial
    same = np.argwhere(np.triu(lowest > 1 - 1e-9, 1))
    if len(same):
        raise SignalError(
            "Channels number {} and {} carry the same signal in every trial, so that covariances "
            "are singular. Drop one of them.".format(*same[0])
        )


def _like_fitted(estimator: Any, X: ArrayLike) -> NDArray[Any]:
    """Trials with the number of channels and samples that an estimator was fitted to."""
    check_is_fitted(estimator)
    X = as_trials(X)
    if X.shape[1:] != (estimator.n_features_in_, estimator.n_samples_):
        raise SignalError(
            f"X must have {estimator.n_features_in_} channels and {estimator.n_samples_} samples, "
            f"as in fit, got {X.shape[1]} and {X.shape[2]}."
        )
    return X


class FilterBankCovariances(ArrayOutputMixin, BaseEstimator):
    """Compute SPD covariance matrices of band-pass filtered trials.

    Trials are filtered into bands, cut into windows, and a covariance matrix is estimated for each
    band and window. Windows are cut after filtering, so the filters use the signal around a window.

    Parameters
    ----------
    sfreq : float
        Sampling rate in Hz.
    bands : str or sequence of pairs, default=None
        Preset ``'broadband'`` (4-40 Hz), ``'none'``, ``'paper3'``, ``'filterbank'``, ``'stimulus'``
        or ``'ssvep'`` (see :func:`spdtokens.preprocessing.resolve_bands`), or edges in Hz, as text
        (``'8-13,13-30'``) or as pairs ``(low, high)``. None for ``'broadband'``, without upper edge
        and with a warning if the sampling rate is too low; explicit bands raise an error then.
    windows : str or sequence of pairs, default=None
        Start and end in seconds, on the time axis of ``tmin``; ``'whole'`` for the whole trial, or
        ``'nested'`` for the whole trial and its first three quarters. None for ``'whole'``.
    tmin : float, default=0.0
        Time of the first sample of a trial in seconds, as in MNE.
    stimulus_hz : sequence of float, default=()
        Stimulus frequencies in Hz, required by ``bands='stimulus'`` and ``'ssvep'``.
    filtering : {'zero-phase', 'causal'}, default='zero-phase'
        Kind of filter. Causal filters use past samples only, as in live decoding.
    estimator : str, default='sample'
        Covariance estimator: ``'sample'``; ``'paper'``, which adds 1e-6 square microvolts to the
        diagonal; an estimator of pyRiemann (``'oas'`` [1]_, ``'lwf'``, ``'scm'``, ``'sch'``,
        ``'corr'``, ``'cov'``, ``'mcd'``, ``'hub'``, ``'stu'``, ``'tyl'``); or for event-related
        potentials ``'erp'`` or ``'xdawn'`` [2]_ [3]_, which stack class averages of the training
        trials on each trial.
    n_filters : int, default=4
        Spatial filters per class, for ``'xdawn'``.
    cross_fit : int, default=1
        Number of cross-fitting folds, for ``'xdawn'``: the matrices of training trials are computed
        with filters and averages that were not fitted to them. 1 disables cross-fitting. Otherwise
        ``fit_transform(X, y)`` differs from ``fit(X, y).transform(X)``, as in scikit-learn's
        ``TargetEncoder``; train on the former.
    delays : sequence of float, default=()
        Delays in seconds. Each adds delayed copies of all channels, zero before the trial begins.
    decimate : bool, default=False
        Resample each band at a lower rate. Many narrow bands are computed in a fraction of the
        time; covariances differ slightly at the edges of a window. Requires zero-phase filters and
        no delays.
    regularisation : float, default=1e-6
        Multiple of the mean variance that is added to the diagonal. Not used by
        ``estimator='paper'``.
    n_means : int, default=0
        If > 0, windows are divided into this number of equal parts, and each matrix gets as many
        rows before those of the channels: their off-diagonal entries are the channels' means in
        the parts, so that the matrix contains slow potentials as well. The covariance is then that
        of the uncentred signal. Requires ``estimator='sample'``.
    dtype : {'float64', 'float32'}, default='float64'
        Precision of the result. Single precision halves the memory of many windows.
    unit_in_volts : float, default=None
        Unit of the signal (1e-6 for microvolts), required by ``estimator='paper'``.

    Attributes
    ----------
    bands_ : tuple of Band
        Frequency bands.
    windows_ : tuple of pairs
        Start and end of each window in seconds.
    matrix_names_ : list of str
        Name of each matrix, such as ``'8-13 Hz, 0.5-2.5 s'``.
    n_matrices_ : int
        Number of matrices per trial: bands times windows.
    n_features_in_ : int
        Number of channels.
    n_samples_ : int
        Number of samples of a trial.
    front_ : Front
        The computation in NumPy, as saved in model files.

    See Also
    --------
    make_decoder : Make a decoder with this as its first step.
    TokenEmbedding : Embed the matrices as tokens.
    pyriemann.estimation.Covariances : One covariance per trial, without filters.

    References
    ----------
    .. [1] Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, "Shrinkage algorithms for MMSE covariance
       estimation", IEEE Trans. Signal Process. 58, 5016-5029, 2010.
       https://doi.org/10.1109/TSP.2010.2053029
    .. [2] B. Rivet, A. Souloumiac, V. Attina and G. Gibert, "xDAWN algorithm to enhance evoked
       potentials", IEEE Trans. Biomed. Eng. 56, 2035-2043, 2009.
       https://doi.org/10.1109/TBME.2009.2012869
    .. [3] A. Barachant and M. Congedo, "A plug&play P300 BCI using information geometry", 2014.
       https://doi.org/10.48550/arXiv.1409.0107

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
        n_means: int = 0,
        dtype: Literal["float64", "float32"] = "float64",
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
        self.n_means = n_means
        self.dtype = dtype
        self.unit_in_volts = unit_in_volts

    @property
    def needs_labels(self) -> bool:
        """Whether the matrices depend on labels of the training trials."""
        return self.estimator in PROTOTYPES

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input, and whether labels are required."""
        tags = matrix_tags(super().__sklearn_tags__())
        tags.target_tags.required = self.needs_labels
        return tags

    @one_thread()
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Check the options against the trials, and fit class averages if the estimator has them.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Training trials.
        y : array, shape (n,), default=None
            Labels, required by ``estimator='erp'`` and ``'xdawn'``.
        groups : array, shape (n,), default=None
            Trials of a group are never split between the folds of ``cross_fit``.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        SignalError
            If the trials cannot be used (NaN, flat or duplicated channels), or do not fit the
            options.
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
        """Fit to training trials and return their matrices.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Training trials.
        y : array, shape (n,), default=None
            Labels, required by ``estimator='erp'`` and ``'xdawn'``.
        groups : array, shape (n,), default=None
            Trials of a group are never split between the folds of ``cross_fit``.

        Returns
        -------
        ndarray, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices; the second shape for several bands or windows.
        """
        X = self._planned(X, groups)
        if self.needs_labels:
            return self._single(self._fit_averages(X, y, groups))
        return self._matrices(X)

    @one_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Compute the matrices of trials.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Trials with the channels and samples of those passed to :meth:`fit`.

        Returns
        -------
        ndarray, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices; the second shape for several bands or windows.
        """
        return self._matrices(_like_fitted(self, X))

    def refitted(
        self, X: ArrayLike, y: ArrayLike, folds: Folds, groups: ArrayLike | None = None
    ) -> Iterator[Array]:
        """Compute the training matrices, with averages fitted to the training part of each fold.

        It serves to calibrate a classifier on trials that nothing was fitted to.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Training trials, as passed to :meth:`fit`.
        y : array, shape (n,)
            Labels.
        folds : iterable of (train, test)
            Indices of each fold.
        groups : array, shape (n,), default=None
            Groups, as passed to :meth:`fit`.

        Yields
        ------
        ndarray, shape (n, n_matrices, d, d)
            Matrices of all trials, one array per fold: those of ``train`` as from
            :meth:`fit_transform`, all others as from :meth:`transform`.
        """
        y = np.ravel(y)  # may be a column
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
        """Return the names of the matrices.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str, shape (n_matrices,)
            Names such as ``'8-13 Hz'``.
        """
        check_is_fitted(self)
        return np.array(self.matrix_names_, dtype=object)

    def _planned(self, X: ArrayLike, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Check the options, build ``front_``, and return the trials as an array."""
        X = as_trials(X)
        as_groups(groups, len(X), SignalError)
        if not self.sfreq > 0:
            raise SignalError(f"sfreq must be > 0, got {self.sfreq!r}.")
        known = (*ESTIMATORS, "paper", *PROTOTYPES)
        if self.estimator not in known:
            raise SignalError(
                f"estimator must be one of {', '.join(known)}, got {self.estimator!r}."
            )
        if self.filtering not in ("zero-phase", "causal"):
            raise SignalError(
                f"filtering must be 'zero-phase' or 'causal', got {self.filtering!r}."
            )
        n = X.shape[-1]
        delays = tuple(round(delay * self.sfreq) for delay in self.delays)
        if not all(1 <= delay < n for delay in delays):
            raise SignalError(
                f"delays must be between 1 and {n - 1} samples, got {self.delays!r} s, which are "
                f"{delays} samples."
            )
        if self.decimate and (delays or self.filtering == "causal"):
            raise SignalError(
                "decimate=True requires zero-phase filters and no delays, got "
                f"filtering={self.filtering!r}, delays={self.delays!r}."
            )
        if self.dtype not in ("float64", "float32"):
            raise SignalError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}.")
        if self.n_means and (self.n_means < 0 or self.estimator != "sample"):
            raise SignalError(
                "n_means must be an integer >= 0, and 0 unless estimator='sample', got "
                f"n_means={self.n_means!r}, estimator={self.estimator!r}."
            )
        plan = plan_tokens(
            sfreq=self.sfreq,
            n_samples=n,
            bands=self.bands,
            windows=self.windows,
            tmin=self.tmin,
            stimulus_hz=self.stimulus_hz,
        )
        shortest = min(stop - start for start, stop in plan.slices)
        if self.n_means > shortest:
            raise SignalError(
                f"n_means must be at most the samples of the shortest window, {shortest}, got "
                f"{self.n_means!r}."
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
            n_means=self.n_means,
            covariance=kind,
            other=None if kind in OF_RUNTIME else partial(estimate, estimator=kind),
            relative=0.0 if self.estimator == "paper" else float(self.regularisation),
            absolute=paper_epsilon(self.unit_in_volts) if self.estimator == "paper" else 0.0,
        )
        return X

    def _fit_averages(
        self, X: NDArray[Any], y: ArrayLike | None, groups: ArrayLike | None
    ) -> Array:
        """Fit class averages, and return the covariances (n, m, d, d) of the training trials."""
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
        # A few trials at a time, so that intermediate results stay in the cache.
        size = max(1, CHUNK_SAMPLES // (X.shape[1] * X.shape[2]))
        # Each part needs some megabytes. By default glibc returns them to the system after each,
        # which is slow; after a large block was freed, it keeps them.
        np.empty(31 << 17)
        parts = share_out(
            lambda i: self.front_.estimate(X[i : i + size]).astype(self.dtype, copy=False),
            range(0, len(X), size),
        )
        return self._single(self._checked(np.concatenate(parts)))

    def _checked(self, C: Array) -> Array:
        """Raise an error for matrices that are not positive definite."""
        # Regularisation hides duplicated channels: subtract it for this check.
        first = C[:, 0].astype(np.float64)
        variances = np.einsum("...ii->...i", first)
        share = self.front_.relative
        variances -= share / (1 + share) * variances.mean(-1, keepdims=True) + self.front_.absolute
        check_duplicates(first)
        # Rounding to single precision makes small eigenvalues negative.
        (check_spd if C.dtype == np.float64 else check_finite)(C)
        return C

    def _single(self, C: Array) -> Array:
        return C[:, 0] if self.n_matrices_ == 1 else C


class StandardTrials(ArrayOutputMixin, BaseEstimator):
    """Filter trials into one band, cut one window, and standardise the channels.

    Mean and standard deviation of a channel are computed over all training trials. Differences in
    power between trials remain; the unit of the signal does not.

    Parameters
    ----------
    sfreq : float
        Sampling rate in Hz.
    bands : str or sequence of pairs, default=None
        One band, or ``'none'``. None for 4-40 Hz, see :class:`~spdtokens.FilterBankCovariances`.
    windows : sequence of pairs, default=None
        One window in seconds, on the time axis of ``tmin``. None for the whole trial.
    tmin : float, default=0.0
        Time of the first sample of a trial in seconds, as in MNE.

    Attributes
    ----------
    mean_, scale_ : ndarray, shape (n_channels, 1)
        Mean and standard deviation of the channels.
    n_features_in_ : int
        Number of channels.
    n_samples_ : int
        Number of samples of a trial, before the window is cut.

    See Also
    --------
    NetworkClassifier : Networks that take such trials.
    FilterBankCovariances : Covariance matrices instead of signals.

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
        """Declare three-dimensional input."""
        return matrix_tags(super().__sklearn_tags__())

    @one_thread()
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Compute mean and standard deviation of every channel.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Training trials.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        SignalError
            If the options select more than one band or window, or the trials cannot be used.
        """
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
                f"StandardTrials requires one band and one window, got {len(plan.names)}: "
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
        """Filter, cut and standardise trials.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Trials with the channels and samples of those passed to :meth:`fit`.

        Returns
        -------
        ndarray, shape (n, n_channels, n_samples of the window)
            Standardised trials.
        """
        X = _like_fitted(self, X)
        check_trials(X, SignalError)
        standard: Array = (self._cut(X) - self.mean_) / self.scale_
        return standard

    def _cut(self, X: NDArray[Any]) -> Array:
        (piece,) = self._front.pieces(X)
        return piece
