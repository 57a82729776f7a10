"""Bring the trials of different domains together, seeing no more of the target than allowed.

A domain is a subject or a session. Each training domain is recentred and rescaled by its own
training trials and by nothing else. The target is aligned by what may be seen of it: its trials
among the training trials, and those of the access. So training never depends on what is scored, and
the labels of scored trials are not even an argument.

This is why :mod:`pyriemann.transfer` is not used: its classes are fitted to whatever trials of the
target they are given, know no order of time, and take one matrix per trial. A test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from spdtokens._tables import counted
from spdtokens.errors import EvaluationError, NotSPDError
from spdtokens.evaluation.protocols import ACCESS, Access, get_access, look_up
from spdtokens.geometry.alignment import (
    Array,
    Metric,
    congruence,
    dispersion,
    mean_reference,
    procrustes,
    running_dispersions,
    running_references,
    stretch,
)
from spdtokens.geometry.validation import check_finite, check_spd
from spdtokens.runtime.tokens import inverse_root

__all__ = [
    "ALIGNMENTS",
    "Aligned",
    "Alignment",
    "align",
    "align_signals",
    "congruences",
    "get_alignment",
]
#: A mean squared distance (which has no unit) that is zero but for rounding.
_NO_DISPERSION = 1e-16


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
    return name if isinstance(name, Alignment) else look_up("alignment", name, ALIGNMENTS)


def check_seen(alignment: str | Alignment, access: Access, target: str, *, known: bool) -> None:
    """Refuse an alignment that needs more of a target than may be seen.

    Parameters
    ----------
    alignment : str or Alignment
    access : Access
    target : str
    known : bool
        Whether trials of the target are among the training trials.
    """
    how = get_alignment(alignment)

    def suffices(access: Access) -> bool:
        return access.labelled if how.rotates else bool(access.share) or access.online

    if how.metric is not None and not known and not suffices(access):
        raise EvaluationError(
            f"Alignment {how.name!r} needs {'labelled ' * how.rotates}trials of the target "
            f"{target!r}, and access {access.name!r} shows none. Use access "
            f"{', '.join(a.name for a in ACCESS.values() if suffices(a))}, have trials of "
            f"{target!r} among the training trials, or use alignment "
            f"{'rescale' if how.rotates else 'none'!r}."
        )


def check_linear(alignment: str | Alignment, who: str) -> None:
    """Refuse an alignment that cannot be applied to signals."""
    how = get_alignment(alignment)
    if not how.linear:
        linear = ", ".join(a.name for a in ALIGNMENTS.values() if a.linear)
        raise EvaluationError(
            f"{who} works on signals, and alignment {how.name!r} changes the dispersion of "
            f"covariances, which no linear map of signals does. Use one of: {linear}."
        )


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
    task = Task(C_train, domain_train, C_calibration, C_test, domain_target, access, alignment)
    if task.how.metric is None:
        return Aligned(*task.parts)
    out = Aligned(*(_moved(C, *to) for C, to in zip(task.parts, task.maps(), strict=True)))
    return _rotated(out, task, y_train, y_calibration) if task.how.rotates else out


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
    check_linear(alignment, "congruences")
    task = Task(C_train, domain_train, C_calibration, C_test, domain_target, access, alignment)
    if task.how.metric is None:
        return Aligned(*(np.broadcast_to(np.eye(C.shape[-1]), C.shape) for C in task.parts))
    pairs = zip(task.parts, task.maps(), strict=True)
    return Aligned(*(np.broadcast_to(W, C.shape) if len(C) else C for C, (W, _) in pairs))


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
    signals = [X_train, np.asarray(X_train)[:0] if X_calibration is None else X_calibration, X_test]
    out = []
    for name, given in zip(("train", "calibration", "test"), signals, strict=True):
        X, W = np.asarray(given, dtype=np.float64), getattr(filters, name)
        if X.ndim != 3 or W.shape[:3] != (len(X), 1, X.shape[1]):
            raise EvaluationError(
                f"X_{name} and C_{name} must have shapes (n, channels, samples) and (n, 1, "
                f"channels, channels), got {X.shape} and {W.shape}."
            )
        out.append(W[:, 0] @ X)
    return Aligned(*out)


class Domain(NamedTuple):
    """Where the trials of a domain lie, for all of them or as it stood before each.

    Reference ([n,] tokens, d, d); dispersion ([n,] tokens), None where the alignment does not ask
    for it; and the number of trials they were found from.
    """

    reference: Array
    dispersion: Array | None
    n: int


#: Domains found before, by a digest of their trials: folds, accesses and alignments share them.
_memory: dict[bytes, Domain] = {}
_MEMORY_SIZE = 1000


class Task:
    """Trials to align, checked; the parameters are those of :func:`align`."""

    def __init__(
        self,
        C_train: ArrayLike,
        domain_train: ArrayLike,
        C_calibration: ArrayLike | None,
        C_test: ArrayLike,
        domain_target: str,
        access: str | Access,
        alignment: str | Alignment,
    ) -> None:
        train, test = (np.asarray(C, dtype=np.float64) for C in (C_train, C_test))
        calibration = test[:0] if C_calibration is None else np.asarray(C_calibration, np.float64)
        self.parts = train, calibration, test
        self.domain, self.target = np.asarray(domain_train).astype(np.str_), str(domain_target)
        self.access, self.how = get_access(access), get_alignment(alignment)
        shapes = [C.shape for C in self.parts]
        alike = all(len(s) == 4 and s[1:] == shapes[0][1:] and s[2] == s[3] for s in shapes)
        if not alike or not len(train) or not len(test) or self.domain.shape != shapes[0][:1]:
            raise EvaluationError(
                "Training, calibration and test covariances must have shapes (n, tokens, d, d), "
                "alike but for n, with training and test trials, and domain_train one name per "
                f"training trial; got {', '.join(map(str, shapes))} and {self.domain.shape}."
            )
        if bool(len(calibration)) != self.access.calibrates:
            raise EvaluationError(
                f"Access {self.access.name!r} is to {self.access.description}; got "
                f"{len(calibration)} calibration trials. Make them with calibration_split, by the "
                "same access."
            )
        self.own = self.domain == self.target
        check_seen(self.how, self.access, self.target, known=bool(self.own.any()))
        for name, C in zip(("training", "calibration", "test"), self.parts, strict=True):
            _check_matrices(C, name, positive=self.how.metric == "riemann")

    def maps(self) -> tuple[tuple[Array, Array | None], ...]:
        """Filters and powers of the training, calibration and test trials."""
        train, _, _ = self.parts
        names, place = np.unique(self.domain, return_inverse=True)
        known = {name: self._found(train[self.domain == name], name) for name in names.tolist()}
        W, powers = _map(_stacked(known))
        target = _map(self.target_domain(known))
        return (W[place], None if powers is None else powers[place]), target, target

    def target_domain(self, known: dict[str, Domain]) -> Domain:
        """The target, from what may be seen of it; online, as it stood before each test trial."""
        train, calibration, test = self.parts
        if not self.access.online:
            scored = test if self.access.transductive else test[:0]
            return self._found(np.concatenate([train[self.own], calibration, scored]), self.target)
        assert self.how.metric is not None
        prior = known.get(self.target)
        if prior is None:  # the middle of the training domains, counted as one trial
            every = _stacked(known)
            spread = None if every.dispersion is None else every.dispersion.mean(0)
            prior = Domain(mean_reference(every.reference, self.how.metric), spread, 1)
        reference, spread, n = prior
        references = running_references(test, reference, n, self.how.metric)
        if spread is not None:
            spread = running_dispersions(test, references, spread, n)
        return Domain(references, spread, n)

    def _found(self, C: Array, name: str) -> Domain:
        """The domain of trials (n, tokens, d, d), of which ``name`` is for messages only."""
        metric, rescales = self.how.metric, self.how.rescales
        assert metric is not None
        C = np.ascontiguousarray(C)
        key = blake2b(C.data, key=f"{metric} {rescales} {C.shape}".encode()).digest()
        if key in _memory:
            return _memory[key]
        reference = mean_reference(C, metric)
        if metric == "euclid":
            _check_matrices(reference, f"reference of {name!r}", positive=True)
        spread = dispersion(C, reference) if rescales else None
        if spread is not None and not bool((spread > _NO_DISPERSION).all()):
            raise EvaluationError(
                f"Alignment {self.how.name!r} needs trials that differ, and what is seen of domain "
                f"{name!r} ({counted(len(C), 'trial')}) does not. Use alignment 'recentre', or an "
                "access to more trials."
            )
        if len(_memory) >= _MEMORY_SIZE:
            _memory.clear()
        _memory[key] = domain = Domain(reference, spread, len(C))
        return domain


def _stacked(known: dict[str, Domain]) -> Domain:
    references, spreads, counts = zip(*known.values(), strict=True)
    return Domain(
        np.stack(references), None if spreads[0] is None else np.stack(spreads), sum(counts)
    )


def _map(domain: Domain) -> tuple[Array, Array | None]:
    """``C -> (W C W)^power``, one for all trials or one for each: W and the power."""
    spread = domain.dispersion
    return inverse_root(domain.reference), None if spread is None else spread**-0.5


def _moved(C: Array, W: Array, power: Array | None) -> Array:
    # Without calibration trials there may be a map for each test trial: nothing to pair.
    if not len(C):
        return C
    moved = congruence(C, W)
    return moved if power is None else stretch(moved, power)


def _check_matrices(C: Array, name: str, *, positive: bool) -> None:
    if not len(C):
        return
    try:
        (check_spd if positive else check_finite)(torch.from_numpy(C))
    except NotSPDError as error:
        raise NotSPDError(f"Covariances ({name}): {error}") from None


def _rotated(
    aligned: Aligned, task: Task, y_train: ArrayLike | None, y_calibration: ArrayLike | None
) -> Aligned:
    """Turn the target's trials so that its class means come close to those of other domains."""
    C_train, own, seen = aligned.train, task.own, aligned.calibration
    if not task.access.labelled:
        y_calibration, seen = [], seen[:0]
    for name, y, n in (("y_train", y_train, len(own)), ("y_calibration", y_calibration, len(seen))):
        if y is None or np.shape(y) != (n,):
            raise EvaluationError(
                f"Alignment 'rotate' needs {name}, one label for each of {n} trials; got "
                f"{'none' if y is None else f'shape {np.shape(y)}'}."
            )
    if own.all():
        return aligned  # the training trials are the target's: there is nothing to turn it to
    labels = np.asarray(y_train)
    C, y = np.concatenate([C_train[own], seen]), np.concatenate([labels[own], y_calibration])
    others, y_others = C_train[~own], labels[~own]
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
    train = C_train.copy()
    train[own] = congruence(train[own], Q)
    return Aligned(train, congruence(aligned.calibration, Q), congruence(aligned.test, Q))
