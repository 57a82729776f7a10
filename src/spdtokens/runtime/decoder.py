"""Trained model for prediction, from a trial to class probabilities, in NumPy only."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .balance import LATEST, imbalance_shift, shifted
from .networks import Network
from .signals import Front
from .threads import one_thread
from .tokens import Array, DecoderError, Reference, Tokens, congruence, interpolated


@dataclass(frozen=True)
class Decoder:
    """Trained model with everything needed to predict new recordings.

    Use :func:`load_model` to read one from a model file.

    Parameters
    ----------
    classes : tuple of str
        Names of the classes.
    ch_names : tuple of str
        Channel names, in the order of the rows of a trial.
    sfreq : float or None
        Sampling rate in Hz. None for a model of covariance matrices.
    tmin : float
        Time of the first sample relative to the event, in seconds.
    unit_in_volts : float or None
        Unit of the training signals, if known.
    front : Front or None
        Computation of covariances from trials. None for a model of covariance matrices.
    tokens : Tokens
        Computation of tokens from covariances.
    network : Network
        Computation of probabilities from tokens.
    shape : tuple of int
        Shape of the covariances of a trial, (matrices, d, d).
    recentring : ndarray, shape (references, d, d), or None, default=None
        For a model trained on recentred sessions: their mean, where the reference of a new session
        starts.
    reference : Reference, default=Reference()
        How the reference of a session is computed and applied.
    interpolation : ndarray, shape (d, channels), or None, default=None
        For a model applied to other channels: matrix that interpolates the channels of the model
        from ``ch_names``.
    proportions : ndarray, shape (classes,), or None, default=None
        For a recentred model that corrects its decisions for unbalanced classes: the share of each
        class among the training trials.
    start : int, default=1
        Number of trials that the start of the reference of a session counts for.
    about : mapping, default={}
        Origin of the model, as JSON values.
    steps : sequence of mapping, default=()
        Class names and parameters of the original estimators.

    See Also
    --------
    load_model : Read a model file.
    Session : Predict trials one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import make_decoder
    >>> from spdtokens.inference import as_decoder
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 250))
    >>> pipeline = make_decoder("mi", sfreq=125).fit(X, ["left", "right"] * 10)
    >>> decoder = as_decoder(pipeline, ch_names=("C3", "Cz", "C4"))
    >>> decoder.predict_proba(X[:4]).shape
    (4, 2)
    """

    classes: tuple[str, ...]
    ch_names: tuple[str, ...]
    sfreq: float | None
    tmin: float
    unit_in_volts: float | None
    front: Front | None
    tokens: Tokens
    network: Network
    shape: tuple[int, int, int]
    recentring: Array | None = None
    reference: Reference = field(default_factory=Reference)
    interpolation: Array | None = None
    proportions: Array | None = None
    start: int = 1
    about: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Mapping[str, Any]] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples of a trial."""
        if self.front is None:
            raise DecoderError("A model of covariance matrices has no n_samples.")
        return self.front.n_samples

    @one_thread()
    def covariances(self, X: NDArray[Any]) -> Array:
        """Compute the covariances of trials.

        Parameters
        ----------
        X : ndarray, shape (n, channels, samples)
            Trials with channels ``ch_names``, in the unit of the training data; for a model of
            covariance matrices, matrices (n, d, d) or (n, matrices, d, d), which are returned as
            they are unless channels are interpolated.

        Returns
        -------
        ndarray, shape (n, matrices, d, d)
            Covariances.

        Raises
        ------
        DecoderError
            If the shape is wrong, or a trial contains NaN, infinity or a flat channel.
        """
        X = np.asarray(X)
        if self.front is None:
            C = np.asarray(X if X.ndim == 4 else X[:, None], dtype=np.float64)
            d = self.shape[-1]
            if self.interpolation is not None:
                d += len(self.ch_names) - len(self.interpolation)
            if C.shape[1:] != (self.shape[0], d, d):
                raise DecoderError(
                    f"X must be covariances of shape (n, {self.shape[0]}, {d}, {d}), got "
                    f"shape {X.shape}."
                )
            return self._interpolated(C)
        wanted = (len(self.ch_names), self.n_samples)
        if X.ndim != 3 or X.shape[1:] != wanted:
            raise DecoderError(
                f"X must be trials of shape (n, {wanted[0]}, {wanted[1]}), channels x samples, "
                f"got shape {X.shape}."
            )
        with np.errstate(all="ignore"):  # the tokens raise an error if not finite
            return self._interpolated(self.front.covariances(X))

    def _interpolated(self, C: Array) -> Array:
        return C if self.interpolation is None else interpolated(C, self.interpolation)

    @one_thread()
    def probabilities(self, C: Array) -> Array:
        """Predict class probabilities from covariances.

        Parameters
        ----------
        C : ndarray, shape (n, matrices, d, d)
            Covariances, recentred if the model requires it.

        Returns
        -------
        ndarray, shape (n, classes)
            Probabilities.

        Raises
        ------
        DecoderError
            If a matrix is not SPD, or the probabilities are not finite.
        """
        with np.errstate(all="ignore"):  # raised as one error below
            found = self.network.probabilities(self.tokens(C), C)
        if not np.isfinite(found).all():
            raise DecoderError(
                "The probabilities are NaN: the covariances are too far from those of the "
                "training data. Check the unit and the amplitude of the signals."
            )
        return found

    @one_thread()
    def predict_proba(self, X: NDArray[Any]) -> Array:
        """Predict class probabilities of trials.

        Parameters
        ----------
        X : ndarray, shape (n, channels, samples)
            Trials. If the model is recentred, trials of one session in temporal order: each is
            recentred by the trials before it, as in live decoding.

        Returns
        -------
        ndarray, shape (n, classes)
            Probabilities, in the order of ``classes``.
        """
        C = self.covariances(X)
        if self.recentring is None:
            return self.probabilities(C)
        session = self.session()
        return np.stack([session.decide(trial) for trial in C])

    def predict(self, X: NDArray[Any]) -> NDArray[np.str_]:
        """Predict the class of each trial.

        Parameters
        ----------
        X : ndarray, shape (n, channels, samples)
            Trials, as for :meth:`predict_proba`.

        Returns
        -------
        ndarray of str, shape (n,)
            Most probable classes.
        """
        return np.array(self.classes)[self.predict_proba(X).argmax(1)]

    def session(self) -> Session:
        """Start a session of live predictions.

        Returns
        -------
        Session
            The session.
        """
        return Session(self)


class Session:
    """Predictions of successive trials, recentred by earlier trials if the model is.

    If the model corrects its decisions for unbalanced classes, the session also keeps the
    probabilities of earlier trials.

    Parameters
    ----------
    decoder : Decoder
        The model.

    Attributes
    ----------
    reference : ndarray, shape (references, d, d), or None
        Running mean of the session.
    count : int
        Number of trials in the mean; the mean of the training sessions counts as
        ``Decoder.start``.

    See Also
    --------
    Decoder.predict_proba : Predict all trials of a session at once.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import make_decoder
    >>> from spdtokens.inference import as_decoder
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 250))
    >>> pipeline = make_decoder("mi", sfreq=125).fit(X, ["left", "right"] * 10)
    >>> session = as_decoder(pipeline, ch_names=("C3", "Cz", "C4")).session()
    >>> session.probabilities(X[0]).shape
    (2,)
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.reference, self.count = decoder.recentring, decoder.start
        self._past: deque[Array] = deque(maxlen=LATEST)
        self._shift = np.zeros(len(decoder.classes))

    @one_thread()
    def probabilities(self, window: NDArray[Any], learn: bool = True) -> Array:
        """Predict class probabilities of the next trial.

        Parameters
        ----------
        window : ndarray, shape (channels, samples)
            The trial.
        learn : bool, default=True
            Whether the reference moves towards this trial after the prediction.

        Returns
        -------
        ndarray, shape (classes,)
            Probabilities.
        """
        return self.decide(self.decoder.covariances(np.asarray(window)[None])[0], learn)

    @one_thread()
    def decide(self, C: Array, learn: bool = True) -> Array:
        """Predict class probabilities from the covariances of the next trial.

        Parameters
        ----------
        C : ndarray, shape (matrices, d, d)
            Covariances of the trial.
        learn : bool, default=True
            Whether the reference moves towards this trial after the prediction.

        Returns
        -------
        ndarray, shape (classes,)
            Probabilities.
        """
        if self.reference is None:
            return self.decoder.probabilities(C[None])[0]
        how, proportions = self.decoder.reference, self.decoder.proportions
        with np.errstate(all="ignore"):
            seen = congruence(C, how.whitener(self.reference))
            raw = self.decoder.probabilities(seen[None])[0]
            decision = raw if proportions is None else shifted(raw, self._shift)
            if learn:
                self.count += 1
                self.reference = how.moved(self.reference, C, 1 / self.count)
                if proportions is not None:
                    self._past.append(raw)
                    n = self.count - self.decoder.start
                    found = imbalance_shift(np.stack(self._past), proportions)
                    self._shift = found * (n / self.count)
        return decision
