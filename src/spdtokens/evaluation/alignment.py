"""Bring the trials of different domains together, seeing no more of the target than allowed.

A domain is a subject or a session. Each training domain is recentred and rescaled by its own
training trials and by nothing else. The target is aligned by what may be seen of it: its trials
among the training trials, and those of the access. So training never depends on what is scored, and
the labels of scored trials are not even an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from spdtokens._tables import counted
from spdtokens.errors import EvaluationError, NotSPDError
from spdtokens.evaluation.protocols import ACCESS, Access, get_access
from spdtokens.geometry.alignment import (
    Array,
    Metric,
    dispersion,
    mean_reference,
    procrustes,
    running_dispersions,
    running_references,
    stretch,
)
from spdtokens.geometry.validation import check_finite, check_spd
from spdtokens.runtime.tokens import congruence, inverse_root

# The ways to bring domains together; :mod:`spdtokens.evaluation.alignment` applies them.


@dataclass(frozen=True)
class Alignment:
    """How domains are brought together.

    Attributes
    ----------
    name : str
    metric : str or None
        Of the mean that becomes the identity; None to leave everything as it is.
    rescales : bool
        Whether the dispersion around the mean becomes 1.
    rotates : bool
        Whether the target's class means are turned to those of the training trials.
    description : str
    """

    name: str
    metric: Metric | None
    rescales: bool
    rotates: bool
    description: str

    @property
    def linear(self) -> bool:
        """Whether it is a linear map of the signal."""
        return not self.rescales


ALIGNMENTS = {
    alignment.name: alignment
    for alignment in (
        Alignment("none", None, False, False, "as recorded"),
        Alignment("euclidean", "euclid", False, False, "arithmetic mean to the identity"),
        Alignment("recentre", "riemann", False, False, "Riemannian mean to the identity"),
        Alignment("rescale", "riemann", True, False, "recentre, then dispersion to 1"),
        Alignment("rotate", "riemann", True, True, "rescale, then class means onto each other"),
    )
}


def get_alignment(name: str | Alignment) -> Alignment:
    """Look up an alignment by its name."""
    if isinstance(name, Alignment):
        return name
    if name not in ALIGNMENTS:
        raise EvaluationError(
            f"Unknown alignment {name!r}. Choose one of: {', '.join(ALIGNMENTS)}."
        )
    return ALIGNMENTS[name]


# References of domains: what each is made of, and that it is made of nothing else.

#: A mean squared distance (which has no unit) that is zero but for rounding.
_NO_DISPERSION = 1e-16


@dataclass(frozen=True)
class Domain:
    """Where the trials of a domain lie, for all of them or as it stood before each.

    Attributes
    ----------
    reference : ndarray, shape (tokens, d, d) or (n, tokens, d, d)
    dispersion : ndarray, shape (tokens,) or (n, tokens), or None
        None where the alignment does not ask for it.
    count : int
        Number of trials it was found from.
    """

    reference: Array
    dispersion: Array | None
    count: int

    @classmethod
    def stack(cls, domains: Sequence[Domain]) -> Domain:
        """Side by side; all are of one alignment."""
        spreads = [domain.dispersion for domain in domains if domain.dispersion is not None]
        return cls(
            np.stack([domain.reference for domain in domains]),
            np.stack(spreads) if spreads else None,
            sum(domain.count for domain in domains),
        )


@dataclass(frozen=True)
class Task:
    """Trials to align, checked.

    Attributes
    ----------
    train, calibration, test : ndarray of float64, shape (n, tokens, d, d)
        Calibration trials are none unless the access is to a share of the target.
    domain : ndarray of str, shape (n_train,)
    target : str
    access : Access
    alignment : Alignment
    """

    train: Array
    calibration: Array
    test: Array
    domain: NDArray[np.str_]
    target: str
    access: Access
    alignment: Alignment

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Training, calibration and test trials."""
        return self.train, self.calibration, self.test

    @classmethod
    def checked(
        cls,
        C_train: ArrayLike,
        domain_train: ArrayLike,
        C_calibration: ArrayLike | None,
        C_test: ArrayLike,
        domain_target: str,
        access: str | Access,
        alignment: str | Alignment,
    ) -> Task:
        """Refuse what cannot be aligned; the parameters are those of ``align``."""
        train, test = (np.asarray(C, dtype=np.float64) for C in (C_train, C_test))
        calibration = test[:0] if C_calibration is None else np.asarray(C_calibration, np.float64)
        domain = np.asarray(domain_train).astype(np.str_)
        access, alignment = get_access(access), get_alignment(alignment)
        task = cls(train, calibration, test, domain, str(domain_target), access, alignment)
        task._check_shapes()
        if bool(len(calibration)) != access.calibrates:
            raise EvaluationError(
                f"Access {access.name!r} is to {access.description}; got {len(calibration)} "
                "calibration trials. Make them with calibration_split, by the same access."
            )
        for name, C in zip(("training", "calibration", "test"), task.parts, strict=True):
            _check_matrices(C, name, positive=alignment.metric == "riemann")
        return task

    def _check_shapes(self) -> None:
        shapes = [C.shape for C in self.parts]
        alike = all(len(s) == 4 and s[1:] == shapes[0][1:] and s[2] == s[3] for s in shapes)
        if not alike or not len(self.train) or not len(self.test):
            raise EvaluationError(
                "Expected training, calibration and test covariances of shape (n, tokens, d, d), "
                f"alike but for n, and training and test trials; got {', '.join(map(str, shapes))}."
            )
        if self.domain.shape != shapes[0][:1]:
            raise EvaluationError(
                f"domain_train must name the domain of each of {len(self.train)} training trials; "
                f"got shape {self.domain.shape}."
            )


def training_domains(task: Task) -> dict[str, Domain]:
    """Each training domain, from its own training trials."""
    names = np.unique(task.domain)
    return {str(name): _found(task.train[task.domain == name], str(name), task) for name in names}


def target_domain(task: Task, known: dict[str, Domain]) -> Domain:
    """The target, from what may be seen of it.

    Parameters
    ----------
    task : Task
    known : dict
        The training domains.

    Returns
    -------
    Domain
        Online: as it stood before each test trial.
    """
    if task.access.online:
        return _online(task, known.get(task.target) or _pooled(known, task))
    seen = np.concatenate(
        [
            task.train[task.domain == task.target],
            task.calibration,
            task.test if task.access.transductive else task.test[:0],
        ]
    )
    if not len(seen):
        allowed = ", ".join(a.name for a in ACCESS.values() if a.share or a.online)
        raise EvaluationError(
            f"Alignment {task.alignment.name!r} needs trials of the target {task.target!r}, and "
            f"access {task.access.name!r} shows none: no training trial is of that domain. Use "
            f"access {allowed}, have trials of {task.target!r} among the training trials, or use "
            "alignment 'none'."
        )
    return _found(seen, task.target, task)


def _pooled(known: dict[str, Domain], task: Task) -> Domain:
    """The middle of the training domains, to be counted as one trial."""
    assert task.alignment.metric is not None
    every = Domain.stack(list(known.values()))
    spread = None if every.dispersion is None else every.dispersion.mean(0)
    return Domain(mean_reference(every.reference, task.alignment.metric), spread, 1)


def _online(task: Task, prior: Domain) -> Domain:
    assert task.alignment.metric is not None
    C, n = task.test, prior.count
    references = running_references(C, prior.reference, n, task.alignment.metric)
    if prior.dispersion is None:
        return Domain(references, None, n)
    return Domain(references, running_dispersions(C, references, prior.dispersion, n), n)


#: Domains found before, by a digest of their trials: folds, accesses and alignments share them.
_memory: dict[bytes, Domain] = {}
_MEMORY_SIZE = 1000


def _found(C: Array, name: str, task: Task) -> Domain:
    """The domain of trials (n, tokens, d, d), of which ``name`` is for messages only."""
    metric, rescales = task.alignment.metric, task.alignment.rescales
    assert metric is not None
    C = np.ascontiguousarray(C)
    key = blake2b(C.data, key=f"{metric} {rescales} {C.shape}".encode()).digest()
    before = _memory.get(key)
    if before is not None:
        return before
    reference = mean_reference(C, metric)
    if metric == "euclid":
        _check_matrices(reference, f"reference of {name!r}", positive=True)
    spread = dispersion(C, reference) if rescales else None
    if spread is not None and not bool((spread > _NO_DISPERSION).all()):
        raise EvaluationError(
            f"Alignment {task.alignment.name!r} needs trials that differ, and what is seen of "
            f"domain {name!r} ({counted(len(C), 'trial')}) does not. Use alignment 'recentre', or "
            "an access to more trials."
        )
    if len(_memory) >= _MEMORY_SIZE:
        _memory.clear()
    _memory[key] = domain = Domain(reference, spread, len(C))
    return domain


def _check_matrices(C: Array, name: str, *, positive: bool) -> None:
    if not len(C):
        return
    try:
        (check_spd if positive else check_finite)(torch.from_numpy(C))
    except NotSPDError as error:
        raise NotSPDError(f"Covariances ({name}): {error}") from None


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
        (:func:`~spdtokens.evaluation.protocols.calibration_split`).
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
        return cls(inverse_root(domain.reference), powers)

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
