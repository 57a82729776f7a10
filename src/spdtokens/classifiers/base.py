"""Base classes of the classifiers, and helpers for labels, seeds and fit parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from spdtokens._labels import as_groups, as_labels
from spdtokens.errors import ModelError
from spdtokens.geometry.tokens import TokenEmbedding, as_matrices, matrix_tags

if TYPE_CHECKING:
    from spdtokens.classifiers.nn.engine import RunPlan

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
#: Names of embeddings, an embedding, or None if the input is tokens.
EmbeddingSpec = str | list[str] | tuple[str, ...] | TokenEmbedding | None


class ProbabilisticClassifier(ClassifierMixin, BaseEstimator):
    """Base class of classifiers with ``classes_`` and ``predict_proba``."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each trial.

        Parameters
        ----------
        X : array
            Trials, as for :meth:`fit`.

        Returns
        -------
        ndarray, shape (n,)
            Most probable classes.
        """
        probabilities = self.predict_proba(X)  # raises an error if not fitted
        return self.classes_[probabilities.argmax(1)]

    def decision_function(self, X: ArrayLike) -> Array:
        """Compute decision values: logarithms of probabilities, up to a constant per trial.

        Parameters
        ----------
        X : array
            Trials, as for :meth:`fit`.

        Returns
        -------
        ndarray, shape (n, n_classes), or (n,) for two classes
            Decision values.
        """
        logs = np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))
        return as_decisions(logs)


class TokenClassifier(ProbabilisticClassifier):
    """Base class of classifiers whose first layer is an embedding.

    Subclasses have the parameter ``embedding``: names of embeddings, a :class:`TokenEmbedding`, or
    None if the input is tokens, (n, features) or (n, tokens, features). In ``fit`` they call
    ``_checked_for_fit``, fit ``_embedding()`` as ``embedding_``, and set ``classes_``. They
    override ``decision_function`` or ``predict_proba``.
    """

    embedding: EmbeddingSpec

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input, unless the input is tokens."""
        tags = super().__sklearn_tags__()
        return tags if self.embedding is None else matrix_tags(tags)

    def _embedding(self) -> TokenEmbedding | None:
        """The first layer, not fitted."""
        if self.embedding is None:
            return None
        if isinstance(self.embedding, TokenEmbedding):
            return TokenEmbedding(**self.embedding.get_params())
        return TokenEmbedding(self.embedding, unit_free=True)

    def _checked_for_fit(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, Codes]:
        """Matrices (n, m, d, d) or tokens (n, tokens, features), and labels encoded as 0, 1, ..."""
        if self.embedding is None:
            tokens, y = validate_data(
                self, X, y, allow_nd=True, ensure_all_finite=False, dtype=np.float64
            )
            self.token_shape_ = tokens.shape[1:]
            found = _as_tokens(tokens)
        else:
            found = as_matrices(X)
            self.n_features_in_ = found.shape[-1]
        self.classes_, codes = encode(y, len(found))
        return found, codes

    def _checked(self, X: ArrayLike) -> Array:
        """Matrices or tokens to predict, checked against those of ``fit``."""
        check_is_fitted(self)
        if self.embedding_ is not None:
            return self.embedding_.checked(X)
        tokens = validate_data(
            self, X, reset=False, allow_nd=True, ensure_all_finite=False, dtype=np.float64
        )
        if tokens.shape[1:] != self.token_shape_:
            raise ModelError(
                f"X must have trials of shape {self.token_shape_}, as in fit, got "
                f"{tokens.shape[1:]}."
            )
        return _as_tokens(tokens)

    def _tokens_of(self, C: Array) -> Array:
        """Tokens (n, tokens, features) of the result of :meth:`_checked`."""
        return C if self.embedding_ is None else self.embedding_.of_matrices(C)

    embedding_: TokenEmbedding | None

    def predict_proba(self, X: ArrayLike) -> Array:
        """Predict class probabilities.

        Parameters
        ----------
        X : array
            Trials, as for :meth:`fit`.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        scores = self.decision_function(X)  # subclasses override one of both
        return softmax(scores if scores.ndim == 2 else np.stack([0 * scores, scores], 1), axis=1)


def shared_out(pipeline: Pipeline, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Distribute fit parameters to the steps of a pipeline.

    Parameters
    ----------
    pipeline : Pipeline
        The pipeline.
    given : mapping
        Values by name, for all steps whose ``fit`` has this parameter, or by ``step__name`` for
        one.

    Returns
    -------
    dict
        Fit parameters of each step.

    Raises
    ------
    ModelError
        If no step has the parameter.
    """
    steps = {name: step for name, step in pipeline.steps if hasattr(step, "fit")}
    told: dict[str, dict[str, Any]] = {name: {} for name in steps}
    for key, value in given.items():
        step, separator, name = key.partition("__")
        takers = [step] if separator else [s for s in steps if takes(steps[s], key)]
        if not takers or takers[0] not in steps:
            raise ModelError(f"No step of this decoder takes {key}. Drop this argument.")
        for taker in takers:
            told[taker][name if separator else key] = value
    return told


def addressed(pipeline: Pipeline, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fit parameters as a plain pipeline takes them: ``step__name``."""
    told = shared_out(pipeline, given)
    return {f"{step}__{name}": value for step, of in told.items() for name, value in of.items()}


def takes(step: Any, name: str) -> bool:
    """Whether the ``fit`` of a step has a parameter; False for a passthrough step."""
    return hasattr(step, "fit") and bool(has_fit_parameter(step, name))


def as_decisions(scores: Array) -> Array:
    """Scores (n, classes) as in scikit-learn: the difference (n,) for two classes."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def check_finite(tokens: NDArray[Any]) -> None:
    """Raise an error for trials with NaN or infinite values."""
    bad = np.flatnonzero(~np.isfinite(tokens).all(axis=tuple(range(1, tokens.ndim))))
    if len(bad):
        shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise ModelError(
            f"Input X contains NaN or infinity in {len(bad)} of {len(tokens)} trials ({shown}). "
            "Drop these trials."
        )


def _as_tokens(X: NDArray[Any]) -> Array:
    if X.ndim > 3 or 0 in X.shape:
        raise ModelError(
            "With embedding=None, X must be tokens of shape (n, features) or (n, tokens, "
            f"features), not empty, got shape {X.shape}."
        )
    check_finite(X)
    return np.asarray(X if X.ndim == 3 else X[:, None, :])


# Labels, seeds and held-out trials.


def encode(y: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Encode labels as integers.

    Returns
    -------
    classes : ndarray, shape (n_classes,)
        Sorted classes.
    codes : ndarray of int, shape (n,)
        Index of the class of each trial.

    Raises
    ------
    ModelError
        If there are not ``n`` labels of two or more classes.
    """
    classes, codes = np.unique(as_labels(y, n, ModelError), return_inverse=True)
    return classes, codes.astype(np.int64)


def coded(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Encode labels of validation trials by the classes of the training trials."""
    y = np.asarray(y)
    known = np.isin(y, classes)
    if not known.all():
        raise ModelError(
            f"Validation trials must have the classes of the training trials, got class "
            f"{y[~known][0]}."
        )
    return np.searchsorted(classes, y)


def seed_of(random_state: Any) -> int:
    """Return an integer seed: ``random_state`` itself, or a number drawn from it."""
    if not isinstance(random_state, int | np.integer):
        return int(check_random_state(random_state).randint(2**31 - 1))
    if random_state < 0:
        raise ModelError(f"random_state must be >= 0, got {random_state}.")
    return int(random_state)


def held_back(
    seed: int, codes: NDArray[np.int64], groups: ArrayLike | None, share: float | None
) -> RunPlan:
    """Plan a run that trains on all trials, or holds out a fraction for validation.

    Groups are never split; without groups, every class is represented.
    """
    from spdtokens.classifiers.nn.engine import RunPlan  # imports torch

    everything = np.arange(len(codes))
    groups = as_groups(groups, len(codes), ModelError)
    if share is None:
        return RunPlan(seed, everything)
    if not 0 < share < 1:
        raise ModelError(
            f"validation must be the fraction of trials to hold out, in (0, 1), got {share!r}."
        )
    chance = seed % 2**32
    if groups is None:
        # At least one trial of every class, even if that is a larger fraction.
        n = max(math.ceil(share * len(codes)), len(np.unique(codes)))
        split = StratifiedShuffleSplit(1, test_size=n, random_state=chance)
    else:
        split = GroupShuffleSplit(1, test_size=share, random_state=chance)
    try:
        train, validation = next(split.split(everything, codes, groups))
    except ValueError as error:
        raise ModelError(
            f"Cannot hold out {share:.0%} of {len(codes)} trials for validation: {error}"
        ) from error
    return RunPlan(seed, train, validation)
