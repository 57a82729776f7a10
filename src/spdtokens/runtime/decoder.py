"""A trained model as it predicts: from a trial to class probabilities, with NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .networks import Network
from .signals import Front
from .threads import one_thread
from .tokens import Array, DecoderError, Tokens, congruence, inverse_root, towards


@dataclass(frozen=True)
class Decoder:
    """A model with all it needs to be used on other recordings.

    Attributes
    ----------
    classes : tuple of str
    ch_names : tuple of str
        In the order of the rows of a trial.
    sfreq : float, or None
        Samples a second; None for a model of covariance matrices.
    tmin : float
        Seconds from the event to the first sample.
    unit_in_volts : float, or None
        Of the signals trained on, where known.
    front : Front, or None
        From trials to covariances; None for a model of covariance matrices.
    tokens : Tokens
    network : Network
    shape : tuple of int
        Of a trial's covariances, (matrices, d, d).
    recentring : ndarray, shape (matrices, d, d), or None
        If trained on recentred sessions: their middle, from which a new session's reference starts.
    about : mapping
        Where the model comes from: whatever JSON can hold.
    steps : sequence of mapping
        Class and parameters of the estimators it was made of, for those who have them.
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
    about: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Mapping[str, Any]] = ()

    @property
    def n_samples(self) -> int:
        """Samples of a trial."""
        if self.front is None:
            raise DecoderError("This model is of covariance matrices, which have no samples.")
        return self.front.n_samples

    @one_thread()
    def covariances(self, X: NDArray[Any]) -> Array:
        """Covariances (n, matrices, d, d) of trials.

        Parameters
        ----------
        X : ndarray, shape (n, channels, samples)
            In the unit and order of channels that the model was trained on. For a model of
            covariance matrices (n, d, d) or (n, matrices, d, d), which are taken as they are.
        """
        X = np.asarray(X)
        if self.front is None:
            C = np.asarray(X if X.ndim == 4 else X[:, None], dtype=np.float64)
            if C.shape[1:] != self.shape:
                raise DecoderError(
                    f"Expected covariances (n, {', '.join(map(str, self.shape))}), got an array "
                    f"of shape {X.shape}."
                )
            return C
        wanted = (len(self.ch_names), self.n_samples)
        if X.ndim != 3 or X.shape[1:] != wanted:
            raise DecoderError(
                f"Expected trials (n, {wanted[0]}, {wanted[1]}), channels x samples, got an array "
                f"of shape {X.shape}."
            )
        with np.errstate(all="ignore"):  # what is not finite is refused by the tokens
            return self.front.covariances(X)

    @one_thread()
    def probabilities(self, C: Array) -> Array:
        """Class probabilities (n, classes) of covariances, recentred where the model wants it."""
        with np.errstate(all="ignore"):  # told below, once, and in words
            found = self.network.probabilities(self.tokens(C), C)
        if not np.isfinite(found).all():
            raise DecoderError(
                "The probabilities are not numbers: the covariances are too far from those that "
                "the model was trained on. Look at the unit and the size of the signals."
            )
        return found

    @one_thread()
    def predict_proba(self, X: NDArray[Any]) -> Array:
        """Class probabilities (n, classes) of trials, in the order of ``classes``.

        Parameters
        ----------
        X : ndarray, shape (n, channels, samples)
            If the model is recentred, trials of one session in the order of time: each is seen
            from those before it, as if they were decoded live.
        """
        C = self.covariances(X)
        if self.recentring is None:
            return self.probabilities(C)
        session = self.session()
        return np.stack([session.decide(trial) for trial in C])

    def predict(self, X: NDArray[Any]) -> NDArray[np.str_]:
        """Most probable class (n,) of each trial."""
        return np.array(self.classes)[self.predict_proba(X).argmax(1)]

    def session(self) -> Session:
        """A run of decisions in the order of time."""
        return Session(self)


class Session:
    """Decisions one after another, each seen from the trials before it if the model is recentred.

    Parameters
    ----------
    decoder : Decoder

    Attributes
    ----------
    reference : ndarray, shape (matrices, d, d), or None
        The mean of the session so far, followed along geodesics.
    count : int
        Trials it knows; the middle of the training sessions counts as one.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.reference, self.count = decoder.recentring, 1

    @one_thread()
    def probabilities(self, window: NDArray[Any], learn: bool = True) -> Array:
        """Class probabilities (classes,) of one trial (channels, samples).

        Parameters
        ----------
        window : ndarray, shape (channels, samples)
        learn : bool
            Whether the reference moves towards this trial, after it was decided on.
        """
        return self.decide(self.decoder.covariances(np.asarray(window)[None])[0], learn)

    @one_thread()
    def decide(self, C: Array, learn: bool = True) -> Array:
        """The same from the covariances (matrices, d, d) of a trial."""
        if self.reference is None:
            return self.decoder.probabilities(C[None])[0]
        with np.errstate(all="ignore"):
            seen = congruence(C, inverse_root(self.reference))
            decision = self.decoder.probabilities(seen[None])[0]
            if learn:
                self.count += 1
                self.reference = towards(self.reference, C, 1 / self.count)
        return decision
