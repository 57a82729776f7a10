"""Bring the trials of different domains together, seeing no more of the target than allowed.

A domain is a subject or a session. Each training domain is recentred and rescaled by its own
training trials and by nothing else. The target is aligned by what may be seen of it
(:mod:`spdtokens.evaluation.access`): its trials among the training trials, and those of the access.
So training never depends on what is scored, and the labels of scored trials are not even an
argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdtokens._words import counted
from spdtokens.evaluation.access import ACCESS, Access
from spdtokens.evaluation.alignments import ALIGNMENTS, Alignment, get_alignment
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.evaluation.references import Domain, Task, target_domain, training_domains
from spdtokens.spd.alignment import (
    Array,
    congruence,
    mean_reference,
    procrustes,
    stretch,
    whitener,
)

__all__ = [
    "ALIGNMENTS",
    "Aligned",
    "Alignment",
    "align",
    "align_signals",
    "congruences",
    "get_alignment",
]


@dataclass(frozen=True)
class Aligned:
    """What became of the trials, in the order in which they were given.

    Attributes
    ----------
    train, calibration, test : ndarray, shape (n, ...)
    """

    train: Array
    calibration: Array
    test: Array


def align(
    C_train: ArrayLike,
    domain_train: ArrayLike,
    y_train: ArrayLike | None,
    C_calibration: ArrayLike | None,
    y_calibration: ArrayLike | None,
    C_test: ArrayLike,
    domain_target: str,
    access: str | Access,
    alignment: str | Alignment,
) -> Aligned:
    """Align covariances, each token on its own.

    Parameters
    ----------
    C_train : array_like, shape (n_train, tokens, d, d)
    domain_train : array_like of str, shape (n_train,)
        The subject or session of each training trial.
    y_train : array_like, shape (n_train,), optional
        Read by ``rotate`` only.
    C_calibration : array_like, shape (n_calibration, tokens, d, d), optional
        The target's trials that are seen and not scored, for an access to a share of them
        (:func:`~spdtokens.evaluation.access.calibration_split`).
    y_calibration : array_like, shape (n_calibration,), optional
        Read by ``rotate`` only, and only if the access is to labels.
    C_test : array_like, shape (n_test, tokens, d, d)
        In the order of time.
    domain_target : str
        Domain of the calibration and test trials.
    access : str or Access
    alignment : str or Alignment

    Returns
    -------
    Aligned
        Covariances of the same shapes, in float64.

    Raises
    ------
    EvaluationError
        If the alignment needs more of the target than the access allows.
    NotSPDError
        If a matrix is not positive definite.
    """
    task = Task.checked(
        C_train, domain_train, C_calibration, C_test, domain_target, access, alignment
    )
    if task.alignment.metric is None:
        return Aligned(*task.parts)
    labels = _Labels.checked(task, y_train, y_calibration) if task.alignment.rotates else None
    out = Aligned(*(move(C) for C, move in zip(task.parts, _maps(task), strict=True)))
    return out if labels is None else _rotated(out, task, labels)


def congruences(
    C_train: ArrayLike,
    domain_train: ArrayLike,
    C_calibration: ArrayLike | None,
    C_test: ArrayLike,
    domain_target: str,
    access: str | Access,
    alignment: str | Alignment,
) -> Aligned:
    """For each trial the matrix ``W`` that aligns its covariance as ``W C W^T``.

    Parameters are those of :func:`align`. The same ``W`` aligns the signal, as ``W X``.

    Returns
    -------
    Aligned
        Of shapes (n, tokens, d, d).

    Raises
    ------
    EvaluationError
        For ``rescale`` and ``rotate`` too, which are not linear maps of the signal.
    """
    alignment = get_alignment(alignment)
    if not alignment.linear:
        linear = ", ".join(a.name for a in ALIGNMENTS.values() if a.linear)
        raise EvaluationError(
            f"Alignment {alignment.name!r} changes the dispersion of covariances, which no linear "
            f"map of the signal does. For signals use one of: {linear}."
        )
    task = Task.checked(
        C_train, domain_train, C_calibration, C_test, domain_target, access, alignment
    )
    if alignment.metric is None:
        return Aligned(*(np.broadcast_to(np.eye(C.shape[-1]), C.shape) for C in task.parts))
    pairs = zip(task.parts, _maps(task), strict=True)
    return Aligned(*(move.filters_for(C) for C, move in pairs))


def align_signals(
    X_train: ArrayLike,
    X_calibration: ArrayLike | None,
    X_test: ArrayLike,
    C_train: ArrayLike,
    domain_train: ArrayLike,
    C_calibration: ArrayLike | None,
    C_test: ArrayLike,
    domain_target: str,
    access: str | Access,
    alignment: str | Alignment,
) -> Aligned:
    """Align signals by references of their covariances, under the rules of :func:`align`.

    Parameters
    ----------
    X_train, X_calibration, X_test : array_like, shape (n, channels, samples)
    C_train, C_calibration, C_test : array_like, shape (n, 1, channels, channels)
    domain_train, domain_target, access, alignment
        See :func:`align`; ``rescale`` and ``rotate`` are refused.

    Returns
    -------
    Aligned
        Signals (n, channels, samples).
    """
    filters = congruences(
        C_train, domain_train, C_calibration, C_test, domain_target, access, alignment
    )
    none = np.asarray(X_train)[:0]
    given = {
        "training": (X_train, filters.train),
        "calibration": (none if X_calibration is None else X_calibration, filters.calibration),
        "test": (X_test, filters.test),
    }
    out = []
    for name, (signals, W) in given.items():
        X = np.asarray(signals, dtype=np.float64)
        if X.ndim != 3 or W.shape[:3] != (len(X), 1, X.shape[1]):
            raise EvaluationError(
                f"The {name} signals of shape {X.shape} do not belong to covariances of shape "
                f"{W.shape}: expected (n, channels, samples) and (n, 1, channels, channels)."
            )
        out.append(W[:, 0] @ X)
    return Aligned(*out)


def _maps(task: Task) -> tuple[_Map, _Map, _Map]:
    """Of the training, calibration and test trials."""
    known = training_domains(task)
    target = _Map.of(target_domain(task, known))
    names, place = np.unique(task.domain, return_inverse=True)
    every = _Map.of(Domain.stack([known[name] for name in names]))
    powers = None if every.powers is None else every.powers[place]
    return _Map(every.filters[place], powers), target, target


@dataclass(frozen=True)
class _Map:
    """``C -> (W C W)^power``, one for all trials or one for each.

    Attributes
    ----------
    filters : ndarray, shape (tokens, d, d) or (n, tokens, d, d)
    powers : ndarray, shape (tokens,) or (n, tokens), or None
    """

    filters: Array
    powers: Array | None

    @classmethod
    def of(cls, domain: Domain) -> _Map:
        powers = None if domain.dispersion is None else domain.dispersion**-0.5
        return cls(whitener(domain.reference), powers)

    def __call__(self, C: Array) -> Array:
        # Without calibration trials there may be a map for each test trial: nothing to pair.
        if not len(C):
            return C
        moved = congruence(C, self.filters)
        return moved if self.powers is None else stretch(moved, self.powers)

    def filters_for(self, C: Array) -> Array:
        return np.broadcast_to(self.filters, C.shape) if len(C) else C


@dataclass(frozen=True)
class _Labels:
    """What ``rotate`` may read: labels of training trials, and of calibration trials if allowed.

    Attributes
    ----------
    train : ndarray, shape (n_train,)
    calibration : ndarray, shape (n_calibration,) or (0,)
    """

    train: NDArray[Any]
    calibration: NDArray[Any]

    @classmethod
    def checked(
        cls, task: Task, y_train: ArrayLike | None, y_calibration: ArrayLike | None
    ) -> _Labels:
        own = task.domain == task.target
        if not own.any() and not task.access.labelled:
            allowed = ", ".join(a.name for a in ACCESS.values() if a.labelled)
            raise EvaluationError(
                f"Alignment 'rotate' needs labelled trials of the target {task.target!r}, and "
                f"access {task.access.name!r} shows none. Use access {allowed}, have trials of "
                f"{task.target!r} among the training trials, or use alignment 'rescale'."
            )
        given = {"y_train": (y_train, task.train)}
        if task.access.labelled:
            given["y_calibration"] = (y_calibration, task.calibration)
        for name, (y, C) in given.items():
            if y is None or np.shape(y) != (len(C),):
                raise EvaluationError(
                    f"Alignment 'rotate' needs {name}, one label for each of {len(C)} trials; got "
                    f"{'none' if y is None else f'shape {np.shape(y)}'}."
                )
        train = np.asarray(y_train)
        return cls(train, np.asarray(y_calibration) if task.access.labelled else train[:0])


def _rotated(aligned: Aligned, task: Task, labels: _Labels) -> Aligned:
    """Turn the target's trials so that its class means come close to those of other domains."""
    own = task.domain == task.target
    if own.all():
        return aligned  # the training trials are the target's: there is nothing to turn it to
    n_seen = len(labels.calibration)
    C = np.concatenate([aligned.train[own], aligned.calibration[:n_seen]])
    y = np.concatenate([labels.train[own], labels.calibration])
    others, y_others = aligned.train[~own], labels.train[~own]
    shared = np.intersect1d(y, y_others)
    if len(shared) < 2:
        raise EvaluationError(
            f"Alignment 'rotate' compares class means, and the labelled trials of the target "
            f"{task.target!r} have {counted(len(shared), 'class', 'classes')} in common with the "
            "training trials of other domains. It takes two: use an access to more trials, or "
            "alignment 'rescale'."
        )
    Q = procrustes(
        np.stack([mean_reference(others[y_others == label], "riemann") for label in shared]),
        np.stack([mean_reference(C[y == label], "riemann") for label in shared]),
    )
    train = aligned.train.copy()
    train[own] = congruence(train[own], Q)
    return Aligned(train, congruence(aligned.calibration, Q), congruence(aligned.test, Q))
