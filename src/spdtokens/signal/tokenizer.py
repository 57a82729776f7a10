"""From trials to tokens, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spdtokens.runtime.threads import one_thread
from spdtokens.signal.bands import Band, BandSpec, SignalError
from spdtokens.signal.checks import check_duplicates, check_trials
from spdtokens.signal.covariance import (
    PROTOTYPES,
    estimate,
    paper_regularisation,
    relative_regularisation,
)
from spdtokens.signal.delays import delay_samples, with_delays
from spdtokens.signal.filters import causal, each_zero_phase
from spdtokens.signal.plan import Window, plan_tokens, refuse_short_windows
from spdtokens.signal.prototypes import Prototypes
from spdtokens.spd import Floor, check_spd, token_dim
from spdtokens.spd.embeddings import Embedding, Several, get_embeddings
from spdtokens.spd.parallel import share_out

#: Samples, over all channels and trials, that are filtered at a time.
CHUNK_SAMPLES = 1 << 18
#: Samples of which covariances are computed in one call, at most.
BATCH_SAMPLES = 1 << 16
#: Of EEG, in square microvolts: a signal of 10 microvolts.
USUAL_VARIANCE = 100.0


class Tokenizer(TransformerMixin, BaseEstimator):
    """EEG trials, or their covariance matrices, to tokens.

    Raw trials (n, channels, samples) are filtered into bands, cut into windows (in this order, so
    that the filters see the signal around a window), and each band and window of a trial becomes a
    covariance matrix and then a token. Covariances (n, d, d) or (n, tokens, d, d) are embedded as
    they are.

    Parameters
    ----------
    embedding : str or sequence of str
        ``'log_euclidean'``, ``'bures_wasserstein'``, ``'euclidean'``, ``'cholesky'``,
        ``'log_cholesky'``, or ``'affine_invariant'``, ``'whitened_root'`` or
        ``'principal_correlation'``, which are fitted on training trials, or ``'class_filters'``,
        which is fitted on training trials and their labels. Of several names each matrix gives so
        many tokens: those of the first embedding come first.
    sfreq : float, optional
        Samples a second. Needed for raw trials; without it the input is taken as covariances.
    bands : str or sequence of pairs, optional
        ``'broadband'`` (4-40 Hz), ``'none'``, ``'paper3'``, ``'filterbank'``, ``'stimulus'``, or
        pairs (low, high) in Hz. By default ``'broadband'``, with a warning and without upper edge
        where the sampling rate does not reach 80 Hz; bands that are asked for are refused there.
    windows : sequence of pairs, optional
        From and to in seconds on the clock of ``tmin``; the whole trial by default.
    tmin : float
        Time of a trial's first sample.
    stimulus_frequencies : sequence of float
        In Hz, for ``bands='stimulus'``.
    filtering : {'zero-phase', 'causal'}
        Causal filters see only the past, as in live use.
    covariance : str
        ``'sample'`` (the paper's), an estimator of pyRiemann (``'oas'``, ``'lwf'``, ...), or for
        event-related potentials ``'erp'`` or ``'xdawn'``, which add class prototypes, fitted on
        training trials.
    n_filters : int
        Spatial filters a class, for ``'xdawn'``.
    cross_fit : int
        For ``'xdawn'``: folds in which the matrices of training trials are made with filters and
        averages that have not seen them (:class:`~spdtokens.signal.prototypes.Prototypes`); 1 for
        none. Then ``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``, as in scikit-learn's
        ``TargetEncoder``: train on the former.
    delays : sequence of float
        In seconds. Each puts the signal as it was so long before beside the channels, as further
        channels; zero before the trial begins.
    decimate : bool, default=False
        Keep of a band-passed signal only the samples that carry the band. Many narrow bands take a
        fraction of the time; covariances differ a little at the edges of a window. For zero-phase
        filters without delays.
    regularisation : float or 'paper'
        Times the mean variance, added to the diagonal; ``'paper'`` adds 1e-6 square microvolts.
    unit_in_volts : float, optional
        Needed by ``regularisation='paper'`` only.
    unit_free : bool
        Scale covariances, by one number for all, so that the mean variance of the training trials
        is 100: that of EEG in microvolts, for which the paper's network was made. Then no token
        depends on the unit of the signal.
    isometric : bool
        Off-diagonal entries times sqrt 2.
    floor : {'relative', 'paper'}
        Least eigenvalue: relative to the matrix, or the paper's 1e-12.

    Attributes
    ----------
    bands_ : tuple of Band
    windows_ : tuple of pairs
    token_names_ : list of str
        What each token is, for plots: ``'8-13 Hz, 0.5-2.5 s'``.
    n_matrices_ : int
        Bands times windows; with one embedding also the number of tokens.
    n_tokens_ : int
    token_plan_ : TokenPlan
        Bands and windows of raw trials, in samples; ``delays_`` the delays in samples.
    scale_ : float
        What covariances are divided by; 1 unless ``unit_free``.
    n_features_in_ : int
        Channels.
    """

    def __init__(
        self,
        embedding: str | Sequence[str] = "log_euclidean",
        *,
        sfreq: float | None = None,
        bands: BandSpec | None = None,
        windows: Sequence[Window] | None = None,
        tmin: float = 0.0,
        stimulus_frequencies: Sequence[float] = (),
        filtering: Literal["zero-phase", "causal"] = "zero-phase",
        covariance: str = "sample",
        n_filters: int = 4,
        cross_fit: int = 1,
        delays: Sequence[float] = (),
        decimate: bool = False,
        regularisation: float | Literal["paper"] = 1e-6,
        unit_in_volts: float | None = None,
        unit_free: bool = False,
        isometric: bool = False,
        floor: Literal["relative", "paper"] = "relative",
    ) -> None:
        self.embedding = embedding
        self.sfreq = sfreq
        self.bands = bands
        self.windows = windows
        self.tmin = tmin
        self.stimulus_frequencies = stimulus_frequencies
        self.filtering = filtering
        self.covariance = covariance
        self.n_filters = n_filters
        self.cross_fit = cross_fit
        self.delays = delays
        self.decimate = decimate
        self.regularisation = regularisation
        self.unit_in_volts = unit_in_volts
        self.unit_free = unit_free
        self.isometric = isometric
        self.floor = floor

    @one_thread()
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn what must be learnt from training trials: prototypes and the reference.

        Parameters
        ----------
        X : array, shape (n, channels, samples), (n, d, d) or (n, tokens, d, d)
        y : array, shape (n,), optional
            Needed by ``covariance='erp'`` and ``'xdawn'``, and by ``embedding='class_filters'``.
        """
        self.fit_covariances(X, y)
        return self

    @one_thread()
    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Fit, and return the tokens (n, tokens, features) of training trials."""
        C = self.fit_covariances(X, y)
        return self.embedding_.to_token(C)

    @one_thread()
    def fit_covariances(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Fit, and return the covariance matrices (n, matrices, d, d) of training trials.

        Parameters
        ----------
        X : array, shape (n, channels, samples), (n, d, d) or (n, tokens, d, d)
        y : array, shape (n,), optional
        groups : array, shape (n,), optional
            Trials of one group are never split between the folds of ``cross_fit``.
        """
        X = self._checked_shape(X)
        self.n_features_in_ = X.shape[-2]
        matrices = self._plan(X)
        if self._has_prototypes:
            C = self._fitted_to_prototypes(X, y, groups)
        else:
            C = self._covariances(X)
        variances = np.trace(C, axis1=-2, axis2=-1) / C.shape[-1]
        self.scale_ = float(variances.mean()) / USUAL_VARIANCE if self.unit_free else 1.0
        C = C / self.scale_
        floor = Floor.paper() if self.floor == "paper" else Floor()
        embedding = get_embeddings(self.embedding, isometric=self.isometric, floor=floor)
        self.embedding_ = embedding.fit(C, y)
        self.n_matrices_ = len(matrices)
        self.token_names_ = (
            matrices
            if isinstance(self.embedding, str)
            else [f"{matrix}, {embedding}" for embedding in self.embedding for matrix in matrices]
        )
        self.n_tokens_ = len(self.token_names_)
        self.n_features_out_ = token_dim(C.shape[-1])
        return C

    def refitted(
        self,
        X: ArrayLike,
        C: NDArray[np.float64],
        y: ArrayLike,
        folds: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
        groups: ArrayLike | None = None,
    ) -> Iterator[tuple[Several, NDArray[np.float64]]]:
        """In folds of the trials it was fitted to, fit again whatever saw labels.

        Parameters
        ----------
        X, y, groups
            As passed to :meth:`fit_covariances`.
        C : ndarray, shape (n, matrices, d, d)
            What that returned.
        folds : iterable of (train, test)

        Yields
        ------
        embedding : Several
            The embeddings to fit again, fitted to ``train``: all if there are prototypes, else
            those that look at labels.
        C : ndarray, shape (n, matrices, d, d)
            Of all trials; with prototypes of ``train``.
        """
        y = np.asarray(y)
        members = zip(self._members, self._refits, strict=True)
        again = Several(tuple(member for member, refit in members if refit))
        pieces = list(self._pieces(self._checked_shape(X))) if self._has_prototypes else []
        for train, test in folds:
            if pieces:
                part = None if groups is None else np.asarray(groups)[train]
                made = [self._refitted_matrices(piece, y, train, test, part) for piece in pieces]
                C = self._checked(np.stack(made, axis=1)) / self.scale_
            yield again.fit(C[train], y[train]), C

    def _refitted_matrices(
        self,
        piece: NDArray[np.float64],
        y: NDArray[Any],
        train: NDArray[np.int64],
        test: NDArray[np.int64],
        groups: NDArray[Any] | None,
    ) -> NDArray[np.float64]:
        made = Prototypes(self.covariance, self.n_filters, self.cross_fit)
        mine = made.fit(piece[train], y[train], groups)
        C = np.empty((len(piece), *mine.shape[1:]))
        C[train], C[test] = mine, made.transform(piece[test])
        return C

    @property
    def is_refitted_(self) -> NDArray[np.bool_]:
        """Which tokens :meth:`refitted` replaces, shape (tokens,)."""
        return np.repeat(self._refits, self.n_matrices_)

    @property
    def _members(self) -> tuple[Embedding, ...]:
        embedding = self.embedding_
        return embedding.members if isinstance(embedding, Several) else (embedding,)

    @property
    def _refits(self) -> list[bool]:
        """Of each embedding, whether it saw labels, or matrices that depend on them."""
        return [self._has_prototypes or member.needs_labels for member in self._members]

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Tokens (n, tokens, features) of trials or covariances like those of ``fit``."""
        return self.embedding_.to_token(self.covariances(X))

    @one_thread()
    def covariances(self, X: ArrayLike) -> NDArray[np.float64]:
        """Covariance matrices (n, matrices, d, d), the step before the embedding."""
        check_is_fitted(self)
        X = self._checked_shape(X)
        if X.shape[-2] != self.n_features_in_:
            raise SignalError(
                f"The tokenizer was fitted to {self.n_features_in_} channels, got {X.shape[-2]}."
            )
        if self.sfreq is not None and X.shape[-1] != self.n_samples_:
            raise SignalError(
                f"The tokenizer was fitted to trials of {self.n_samples_} samples, got "
                f"{X.shape[-1]}."
            )
        C = self._covariances(X)
        if C.shape[1] != self.n_matrices_:
            raise SignalError(
                f"The tokenizer was fitted to {self.n_matrices_} matrices a trial, got "
                f"{C.shape[1]}."
            )
        return C / self.scale_ if self.unit_free else C

    def state(self) -> dict[str, Any]:
        """Everything the output depends on besides the input, as plain values and arrays."""
        check_is_fitted(self)
        reference = getattr(self.embedding_, "reference", None)
        filters = getattr(self.embedding_, "filters", None)
        return {
            "parameters": self.get_params(),
            "reference": None if reference is None else reference.numpy(),
            "filters": None if filters is None else filters.numpy(),
            "prototypes": [part for made in self.prototypes_ for part in made.state()],
            "scale": self.scale_,
        }

    def _checked_shape(self, X: ArrayLike) -> NDArray[Any]:
        X = np.asarray(X)
        if X.ndim not in (3, 4):
            raise SignalError(
                "Expected raw trials (n, channels, samples) or covariances (n, d, d) or "
                f"(n, tokens, d, d), got an array of shape {X.shape}."
            )
        if len(X) == 0:
            raise SignalError(f"There are no trials: the array has shape {X.shape}.")
        square = X.shape[-1] == X.shape[-2]
        if self.sfreq is None and not square:
            raise SignalError(
                f"An array of shape {X.shape} holds raw trials: pass sfreq, the samples a second."
            )
        if self.sfreq is not None and X.ndim == 4:
            raise SignalError("sfreq was given, so trials (n, channels, samples) are expected.")
        return X

    def _plan(self, X: NDArray[Any]) -> list[str]:
        """Resolve bands and windows, and refuse what the signal cannot carry.

        Returns what each of a trial's matrices is.
        """
        self.bands_: tuple[Band, ...] = ()
        self.windows_: tuple[Window, ...] = ()
        self.prototypes_: list[Prototypes] = []
        if self.sfreq is None:
            n_tokens = X.shape[1] if X.ndim == 4 else 1
            return [f"matrix {i}" for i in range(n_tokens)]
        if self.filtering not in ("zero-phase", "causal"):
            raise SignalError(f"filtering is 'zero-phase' or 'causal', not {self.filtering!r}.")
        self.n_samples_ = X.shape[-1]
        self.delays_ = delay_samples(self.delays, self.sfreq, self.n_samples_)
        if self.decimate and (self.delays_ or self.filtering == "causal"):
            raise SignalError(
                "decimate=True needs zero-phase filters and no delays, got "
                f"filtering={self.filtering!r}, delays={self.delays!r}."
            )
        plan = plan_tokens(
            sfreq=self.sfreq,
            n_samples=self.n_samples_,
            bands=self.bands,
            windows=self.windows,
            tmin=self.tmin,
            stimulus_frequencies=self.stimulus_frequencies,
        )
        if self.covariance == "sample":
            refuse_short_windows(plan, X.shape[-2] * (1 + len(self.delays_)))
        self.token_plan_ = plan
        self.bands_, self.windows_ = plan.bands, plan.windows
        return plan.names

    @property
    def _has_prototypes(self) -> bool:
        return self.covariance in PROTOTYPES

    def _pieces(self, X: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        """Signals (n, channels, samples) of every matrix."""
        assert self.sfreq is not None
        filtered: Iterable[NDArray[np.float64]]
        if self.filtering == "causal":
            filtered = causal(X, self.bands_, self.sfreq)
        else:
            filtered = each_zero_phase(X, self.bands_, self.sfreq, self.decimate)
        return self.token_plan_.cut(with_delays(band, self.delays_) for band in filtered)

    def _fitted_to_prototypes(
        self, X: NDArray[Any], y: ArrayLike | None, groups: ArrayLike | None
    ) -> NDArray[np.float64]:
        """Covariances (n, matrices, d, d) of training trials, while prototypes are learnt."""
        if self.sfreq is None or y is None:
            raise SignalError(
                f"covariance={self.covariance!r} is fitted to raw trials and their labels: pass "
                "sfreq, and y to fit."
            )
        y = np.asarray(y)
        if len(y) != len(X):
            raise SignalError(f"There are {len(X)} trials but {len(y)} labels.")
        if len(np.unique(y)) < 2:
            raise SignalError(
                f"All labels are {y[0]!r}: covariance={self.covariance!r} needs two classes."
            )
        check_trials(X)
        together = None if groups is None else np.asarray(groups)
        self.prototypes_, matrices = [], []
        for piece in self._pieces(X):
            made = Prototypes(self.covariance, self.n_filters, self.cross_fit)
            matrices.append(made.fit(piece, y, together))
            self.prototypes_.append(made)
        return self._checked(np.stack(matrices, axis=1))

    def _covariances(self, X: NDArray[Any]) -> NDArray[np.float64]:
        if self.sfreq is None:
            return self._checked(np.asarray(X if X.ndim == 4 else X[:, None], dtype=np.float64))
        check_trials(X)
        # A few trials at a time: what is between two steps then stays in the cache.
        size = max(1, CHUNK_SAMPLES // (X.shape[1] * X.shape[2]))
        starts = range(0, len(X), size)
        made: dict[int, NDArray[np.float64]] = {}

        def work(start: int) -> None:
            pieces = self._pieces(X[start : start + size])
            made[start] = np.stack(self._estimates(pieces), axis=1)

        share_out(work, starts)
        return self._checked(np.concatenate([made[start] for start in starts]))

    def _checked(self, C: NDArray[np.float64]) -> NDArray[np.float64]:
        """Regularised; what is not positive definite is refused."""
        if self.regularisation == "paper":
            C = paper_regularisation(C, self.unit_in_volts)
        elif self.sfreq is not None:
            check_duplicates(C[:, 0])
            C = relative_regularisation(C, self.regularisation)
        check_spd(C)
        return C

    def _estimates(self, pieces: Iterable[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Covariances (n, d, d) of the signals (n, channels, samples) of every matrix."""
        if self._has_prototypes:
            pairs = zip(pieces, self.prototypes_, strict=True)
            return [made.transform(piece) for piece, made in pairs]
        found: list[NDArray[np.float64]] = []
        batch: list[NDArray[np.float64]] = []
        samples = cycle(stop - start for start, stop in self.token_plan_.slices)
        last = 0
        for piece, n in zip(pieces, samples, strict=False):
            # Of few trials several matrices at a time, which saves calls.
            full = piece.size * len(batch) > BATCH_SAMPLES
            if batch and (full or n != last or piece.shape != batch[0].shape):
                found += self._estimates_of(batch, last)
                batch = []
            batch.append(piece)
            last = n
        return found + self._estimates_of(batch, last)

    def _estimates_of(
        self, pieces: list[NDArray[np.float64]], samples: int
    ) -> list[NDArray[np.float64]]:
        if len(pieces) == 1:
            return [estimate(pieces[0], self.covariance, samples)]
        return np.split(estimate(np.concatenate(pieces), self.covariance, samples), len(pieces))
