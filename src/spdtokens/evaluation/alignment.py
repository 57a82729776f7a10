"""Align trials of different domains under the rules of target access.

A domain is a subject or a session. Each training domain is aligned by its own training trials only.
The target is aligned by the data that the access allows: its trials among the training trials, and
its calibration or test trials. Training never depends on scored trials, and labels of scored trials
are not an argument.

:mod:`pyriemann.transfer` is not used because its classes are fitted to all given trials of the
target, have no order of time, and take one matrix per trial. A test compares the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

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
from spdtokens.runtime.balance import start_count
from spdtokens.runtime.tokens import Reference

__all__ = [
    "ALIGNMENTS",
    "Aligned",
    "Alignment",
    "align",
    "align_signals",
    "congruences",
    "get_alignment",
]
#: A mean squared distance (without a unit) that is zero up to rounding.
_NO_DISPERSION = 1e-16


@dataclass(frozen=True)
class Alignment:
    """An alignment of domains.

    Parameters
    ----------
    name : str
        Name, such as ``'recentre'``.
    metric : {'euclid', 'riemann'} or None
        Metric of the mean that is moved to the identity; None for no alignment.
    rescales : bool
        Whether the dispersion around the mean is scaled to 1.
    rotates : bool
        Whether the class means of the target are rotated to those of the training trials.
    description : str
        One line for tables.
    balances : bool, default=False
        Whether decisions are corrected for unbalanced classes of the target.

    See Also
    --------
    align : Apply an alignment to covariances.

    Examples
    --------
    >>> from spdtokens.evaluation.alignment import ALIGNMENTS
    >>> [name for name, alignment in ALIGNMENTS.items() if alignment.linear]
    ['none', 'euclidean', 'recentre', 'recentre-balanced']
    """

    name: str
    metric: Metric | None
    rescales: bool
    rotates: bool
    description: str
    balances: bool = False

    @property
    def linear(self) -> bool:
        """Whether it is a linear map of the signals."""
        return not self.rescales


ALIGNMENTS = {
    alignment.name: alignment
    for alignment in (
        Alignment("none", None, False, False, "no alignment"),
        Alignment("euclidean", "euclid", False, False, "move the arithmetic mean to the identity"),
        Alignment("recentre", "riemann", False, False, "move the Riemannian mean to the identity"),
        Alignment(
            *("recentre-balanced", "riemann", False, False),
            "recentre, and correct the decisions for unbalanced classes",
            balances=True,
        ),
        Alignment("rescale", "riemann", True, False, "recentre, then scale the dispersion to 1"),
        Alignment(
            "rotate", "riemann", True, True, "rescale, then rotate class means onto each other"
        ),
    )
}


def get_alignment(name: str | Alignment) -> Alignment:
    """Look up an alignment by its name."""
    return name if isinstance(name, Alignment) else look_up("alignment", name, ALIGNMENTS)


def check_seen(alignment: str | Alignment, access: Access, target: str, *, known: bool) -> None:
    """Refuse an alignment that needs more data of the target than the access allows.

    ``known`` tells whether trials of the target are among the training trials.
    """
    how = get_alignment(alignment)

    def suffices(access: Access) -> bool:
        if how.balances and access.labelled:
            return False
        return access.labelled if how.rotates else bool(access.share) or access.online

    if how.balances and not suffices(access):
        raise EvaluationError(
            f"Alignment {how.name!r} estimates the class proportions of {target!r} from trials "
            f"without labels, but access {access.name!r} provides none. Use access "
            f"{', '.join(a.name for a in ACCESS.values() if suffices(a))}, or alignment 'recentre'."
        )
    if how.metric is not None and not known and not suffices(access):
        raise EvaluationError(
            f"Alignment {how.name!r} needs {'labelled ' * how.rotates}trials of the target "
            f"{target!r}, but access {access.name!r} provides none. Use access "
            f"{', '.join(a.name for a in ACCESS.values() if suffices(a))}; include trials of "
            f"{target!r} in the training set; or use alignment "
            f"{'rescale' if how.rotates else 'none'!r}."
        )


def check_linear(alignment: str | Alignment, who: str) -> None:
    """Refuse an alignment that cannot be applied to signals."""
    how = get_alignment(alignment)
    if not how.linear:
        linear = ", ".join(a.name for a in ALIGNMENTS.values() if a.linear)
        raise EvaluationError(
            f"{who} takes signals, but alignment {how.name!r} changes the dispersion of "
            f"covariances, which no linear map of signals does. Use one of: {linear}."
        )


@dataclass(frozen=True)
class Aligned:
    """Aligned trials, in the order of the input.

    Parameters
    ----------
    train : ndarray, shape (n_train, ...)
        Training trials.
    calibration : ndarray, shape (n_calibration, ...)
        Calibration trials of the target.
    test : ndarray, shape (n_test, ...)
        Test trials of the target.

    See Also
    --------
    align : Returns aligned covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.alignment import align
    >>> C = np.full((6, 1, 1, 1), 2.0)
    >>> how = {"domain_target": "b", "access": "unlabeled_full", "alignment": "recentre"}
    >>> aligned = align(C[:4], ["a"] * 4, None, None, None, C[4:], **how)
    >>> aligned.test.ravel().round(6).tolist()
    [1.0, 1.0]
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
    """Align covariances of training, calibration and test trials, each token separately.

    Parameters
    ----------
    C_train : array_like, shape (n_train, n_tokens, d, d)
        Covariances of the training trials.
    domain_train : array_like of str, shape (n_train,)
        Subject or session of each training trial.
    y_train : array_like or None, shape (n_train,)
        Labels of the training trials, used by ``'rotate'`` only.
    C_calibration : array_like or None, shape (n_calibration, n_tokens, d, d)
        Covariances of the target's calibration trials, for an access to a share of them: see
        :func:`~spdtokens.evaluation.protocols.calibration_split`.
    y_calibration : array_like or None, shape (n_calibration,)
        Labels of the calibration trials, used by ``'rotate'`` only, and only if the access includes
        labels.
    C_test : array_like, shape (n_test, n_tokens, d, d)
        Covariances of the test trials, in the order of time.
    domain_target : str
        Domain of the calibration and test trials.
    access : str or Access
        Target access, such as ``'unlabeled_full'`` or ``'online'``.
    alignment : str or Alignment
        Kind of alignment, one of ``ALIGNMENTS``. ``'recentre-balanced'`` aligns matrices as
        ``'recentre'``; :func:`spdtokens.evaluate` then corrects the decisions.

    Returns
    -------
    Aligned
        Covariances of the same shapes, in float64.

    Raises
    ------
    EvaluationError
        If the alignment needs more data of the target than the access allows.
    NotSPDError
        If a matrix is not positive definite.

    See Also
    --------
    align_signals : Align signals instead of covariances.
    spdtokens.evaluation.protocols.calibration_split : Select calibration trials.

    References
    ----------
    Zanini, Congedo, Jutten, Said and Berthoumieu, Transfer learning: a Riemannian geometry
    framework with applications to brain-computer interfaces, IEEE Transactions on Biomedical
    Engineering 65 (2018). https://doi.org/10.1109/TBME.2017.2742541
    Rodrigues, Jutten and Congedo, Riemannian Procrustes analysis: transfer learning for
    brain-computer interfaces, IEEE Transactions on Biomedical Engineering 66 (2019).
    https://doi.org/10.1109/TBME.2018.2889705

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.alignment import align
    >>> X = np.random.default_rng(0).standard_normal((30, 1, 4, 50))
    >>> C = X @ X.swapaxes(-1, -2) / 50
    >>> C[20:] *= 100.0  # the target has another gain
    >>> domain = ["s1"] * 10 + ["s2"] * 10
    >>> out = align(C[:20], domain, None, None, None, C[20:], "s3", "unlabeled_full", "recentre")
    >>> bool(abs(np.trace(out.test[:, 0], axis1=1, axis2=2).mean() - 4) < 0.2)
    True
    """
    known = Known(C_train, domain_train, access, alignment)
    return Task(known, C_calibration, C_test, domain_target).aligned(y_train, y_calibration)


def congruences(
    C_train: ArrayLike,
    domain_train: ArrayLike,
    C_calibration: ArrayLike | None,
    C_test: ArrayLike,
    domain_target: str,
    access: str | Access,
    alignment: str | Alignment,
) -> Aligned:
    """Return the matrix ``W`` of each trial that aligns its covariance as ``W C W^T``.

    The same ``W`` aligns the signals, as ``W X``.

    Parameters
    ----------
    C_train : array_like, shape (n_train, n_tokens, d, d)
        Covariances of the training trials.
    domain_train : array_like of str, shape (n_train,)
        Subject or session of each training trial.
    C_calibration : array_like or None, shape (n_calibration, n_tokens, d, d)
        Covariances of the target's calibration trials, for an access to a share of them.
    C_test : array_like, shape (n_test, n_tokens, d, d)
        Covariances of the test trials, in the order of time.
    domain_target : str
        Domain of the calibration and test trials.
    access : str or Access
        Target access.
    alignment : {'none', 'euclidean', 'recentre', 'recentre-balanced'} or Alignment
        Kind of alignment.

    Returns
    -------
    Aligned
        Matrices ``W``, of the shapes of the covariances.

    Raises
    ------
    EvaluationError
        If the alignment is not linear (``'rescale'``, ``'rotate'``), or needs more data of the
        target than the access allows.

    See Also
    --------
    align : Align covariances.
    align_signals : Apply ``W`` to signals.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.alignment import congruences
    >>> C = np.tile(4.0 * np.eye(2), (6, 1, 1, 1))
    >>> W = congruences(C[:4], ["a"] * 4, None, C[4:], "b", "unlabeled_full", "euclidean")
    >>> W.test[0, 0].round(6).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    check_linear(alignment, "congruences")
    known = Known(C_train, domain_train, access, alignment)
    return Task(known, C_calibration, C_test, domain_target).filters()


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
    """Align signals by their covariances, under the rules of :func:`align`.

    Parameters
    ----------
    X_train : array_like, shape (n_train, n_channels, n_samples)
        Training signals.
    X_calibration : array_like or None, shape (n_calibration, n_channels, n_samples)
        Calibration signals of the target.
    X_test : array_like, shape (n_test, n_channels, n_samples)
        Test signals, in the order of time.
    C_train : array_like, shape (n_train, 1, n_channels, n_channels)
        Covariances of the training signals.
    domain_train : array_like of str, shape (n_train,)
        Subject or session of each training trial.
    C_calibration : array_like or None, shape (n_calibration, 1, n_channels, n_channels)
        Covariances of the calibration signals.
    C_test : array_like, shape (n_test, 1, n_channels, n_channels)
        Covariances of the test signals.
    domain_target : str
        Domain of the calibration and test trials.
    access : str or Access
        Target access.
    alignment : {'none', 'euclidean', 'recentre', 'recentre-balanced'} or Alignment
        Kind of alignment.

    Returns
    -------
    Aligned
        Signals of the same shapes, in float64.

    Raises
    ------
    EvaluationError
        If shapes do not match, the alignment is not linear, or it needs more data of the target
        than the access allows.

    See Also
    --------
    align : Align covariances.

    References
    ----------
    He and Wu, Transfer learning for brain-computer interfaces: a Euclidean space data alignment
    approach, IEEE Transactions on Biomedical Engineering 67 (2020).
    https://doi.org/10.1109/TBME.2019.2913914

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.evaluation.alignment import align_signals
    >>> X = 50.0 * np.random.default_rng(0).standard_normal((12, 3, 80))
    >>> C = (X @ X.swapaxes(1, 2) / 80)[:, None]
    >>> how = {"domain_target": "b", "access": "unlabeled_full", "alignment": "euclidean"}
    >>> out = align_signals(X[:8], None, X[8:], C[:8], ["a"] * 8, None, C[8:], **how)
    >>> bool(abs(out.test.std() - 1) < 0.1)
    True
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
                f"X_{name} and C_{name} must have shapes (n, n_channels, n_samples) and (n, 1, "
                f"n_channels, n_channels), got {X.shape} and {W.shape}."
            )
        out.append(W[:, 0] @ X)
    return Aligned(*out)


#: Mean ([n,] n_tokens, d, d) and dispersion ([n,] n_tokens) of a domain, for all trials or as known
#: before each of n trials. The dispersion is None if the alignment does not need it.
Domain: TypeAlias = tuple[Array, Array | None]
#: Cache of domains by a digest of their trials, shared by folds, accesses and alignments.
_memory: dict[bytes, Domain] = {}
_MEMORY_SIZE = 1000


class Known:
    """Training trials to align; parameters as in :func:`align`.

    What does not depend on the target is computed once, for any number of targets. ``rule`` is that
    of the recentring step of an estimator, if it has one, instead of that of the alignment.
    """

    def __init__(
        self,
        C_train: ArrayLike,
        domain_train: ArrayLike,
        access: str | Access,
        alignment: str | Alignment,
        rule: Reference | None = None,
    ) -> None:
        self.C = _as_real(C_train)
        self.domain = np.asarray(domain_train).astype(np.str_)
        self.access, self.how = get_access(access), get_alignment(alignment)
        self.rule = rule or Reference(self.how.metric or "riemann")
        self.checked = False

    @cached_property
    def domains(self) -> tuple[NDArray[np.str_], Array, Array | None]:
        """Names, means and dispersions of the training domains."""
        names = np.unique(self.domain)
        found = [self.found(self.C[self.domain == name], name) for name in names.tolist()]
        spreads = np.array([spread for _, spread in found]) if self.how.rescales else None
        return names, np.stack([mean for mean, _ in found]), spreads

    @cached_property
    def filters(self) -> Array:
        """Spatial filters of the training trials, one per trial."""
        names, means, spreads = self.domains
        return self.to_identity(means, spreads)[0][np.searchsorted(names, self.domain)]

    @cached_property
    def aligned(self) -> Array:
        """Aligned training trials."""
        names, means, spreads = self.domains
        aligned = np.empty_like(self.C)
        # One domain at a time: a map per trial would take as much memory as the trials.
        for i, name in enumerate(names):
            to = self.to_identity(means[i], None if spreads is None else spreads[i])
            aligned[self.domain == name] = _moved(self.C[self.domain == name], *to)
        return aligned

    def to_identity(self, mean: Array, spread: Array | None) -> tuple[Array, Array | None]:
        """W and power of ``C -> (W C W)^power``, for all trials or one per trial."""
        return self.rule.whitener(mean), None if spread is None else spread**-0.5

    def found(self, C: Array, name: str) -> Domain:
        """Domain of trials (n, n_tokens, d, d); ``name`` is for messages only."""
        metric, rescales = self.rule.metric, self.how.rescales
        C = np.ascontiguousarray(self.rule.over_windows(C), dtype=np.float64)
        key = blake2b(C.data, key=f"{metric} {rescales} {C.shape}".encode()).digest()
        if key in _memory:
            return _memory[key]
        reference = mean_reference(C, metric)
        if metric == "euclid":
            _check_matrices(reference, f"reference of {name!r}", positive=True)
        spread = dispersion(C, reference) if rescales else None
        if spread is not None and not bool((spread > _NO_DISPERSION).all()):
            raise EvaluationError(
                f"Alignment {self.how.name!r} needs trials that differ, but the dispersion of "
                f"domain {name!r} ({counted(len(C), 'trial')}) is 0. Use alignment 'recentre', or "
                "an access to more trials."
            )
        if len(_memory) >= _MEMORY_SIZE:
            _memory.clear()
        _memory[key] = reference, spread
        return reference, spread


class Task:
    """Trials of a target to align to known ones, checked; parameters as in :func:`align`."""

    def __init__(
        self,
        known: Known,
        C_calibration: ArrayLike | None,
        C_test: ArrayLike,
        domain_target: str,
    ) -> None:
        train, test = known.C, _as_real(C_test)
        calibration = test[:0] if C_calibration is None else _as_real(C_calibration)
        self.known, self.parts = known, (train, calibration, test)
        self.domain, self.target = known.domain, str(domain_target)
        self.access, self.how = known.access, known.how
        shapes = [C.shape for C in self.parts]
        alike = all(len(s) == 4 and s[1:] == shapes[0][1:] and s[2] == s[3] for s in shapes)
        if not alike or not len(train) or not len(test) or self.domain.shape != shapes[0][:1]:
            raise EvaluationError(
                "Training, calibration and test covariances must have shapes (n, n_tokens, d, d) "
                "that differ in n only, with at least one training and test trial, and "
                "domain_train must have one name per training trial, got "
                f"{', '.join(map(str, shapes))} and {self.domain.shape}."
            )
        if bool(len(calibration)) != self.access.calibrates:
            raise EvaluationError(
                f"Access {self.access.name!r} is {self.access.description!r}, got "
                f"{len(calibration)} calibration trials. Select them with calibration_split and "
                "the same access."
            )
        self.own = self.domain == self.target
        check_seen(self.how, self.access, self.target, known=bool(self.own.any()))
        for name, C in zip(("training", "calibration", "test"), self.parts, strict=True):
            if C is not train or not known.checked:
                _check_matrices(C, name, positive=self.how.metric == "riemann")
        known.checked = True

    def aligned(self, y_train: ArrayLike | None, y_calibration: ArrayLike | None) -> Aligned:
        """Align the trials, as :func:`align`."""
        train, calibration, test = self.parts
        if self.how.metric is None:
            return Aligned(train, calibration, test)
        to = self.map()
        out = Aligned(self.known.aligned, _moved(calibration, *to), _moved(test, *to))
        return _rotated(out, self, y_train, y_calibration) if self.how.rotates else out

    def filters(self) -> Aligned:
        """Return the spatial filter of each trial, as :func:`congruences`."""
        _, *target = self.parts
        if self.how.metric is None:
            return Aligned(*(np.broadcast_to(np.eye(C.shape[-1]), C.shape) for C in self.parts))
        W = self.map()[0]
        # There may be one filter per test trial, and no calibration trials.
        return Aligned(
            self.known.filters, *(np.broadcast_to(W, C.shape) if len(C) else C for C in target)
        )

    def map(self) -> tuple[Array, Array | None]:
        """Spatial filters and powers of the calibration and test trials."""
        train, calibration, test = self.parts
        if self.access.online:
            names, means, spreads = self.known.domains
            online = self._online(means, spreads, names == self.target)
            return self.known.to_identity(*online)
        scored = test if self.access.transductive else test[:0]
        seen = np.concatenate([train[self.own], calibration, scored])
        return self.known.to_identity(*self.known.found(seen, self.target))

    def _online(self, means: Array, spreads: Array | None, own: Array) -> Domain:
        """Domain of the target as known before each test trial.

        It starts at the target's training trials or, without any, at the mean of the training
        domains, counted as one trial (``start_count`` if decisions are balanced).
        """
        n = start_count(len(means)) if self.how.balances else 1
        test, rule = self.parts[2], self.known.rule
        if own.any():
            n, mean = int(self.own.sum()), means[own][0]
            spread = None if spreads is None else spreads[own][0]
        else:
            mean = mean_reference(means, rule.metric)
            spread = None if spreads is None else spreads.mean(0)
        running = running_references(test, mean, n, rule)
        if spread is None:
            return running, None
        return running, running_dispersions(test, running, spread, n)


def _as_real(C: ArrayLike) -> Array:
    """Matrices in double precision, or in single precision if they are."""
    C = np.asarray(C)
    return C if C.dtype == np.float32 else np.asarray(C, dtype=np.float64)


def _moved(C: Array, W: Array, power: Array | None) -> Array:
    # There may be one map per test trial, which cannot be paired with no calibration trials.
    if not len(C):
        return C
    moved = congruence(C, W.astype(C.dtype, copy=False))
    return moved if power is None else stretch(moved, power)


def _check_matrices(C: Array, name: str, *, positive: bool) -> None:
    if not len(C):
        return
    positive = positive and C.dtype == np.float64  # rounding makes small eigenvalues negative
    try:
        (check_spd if positive else check_finite)(torch.from_numpy(C))
    except NotSPDError as error:
        raise NotSPDError(f"Covariances ({name}): {error}") from None


def _rotated(
    aligned: Aligned, task: Task, y_train: ArrayLike | None, y_calibration: ArrayLike | None
) -> Aligned:
    """Rotate the target so that its class means approach those of the other domains."""
    C_train, own, seen = aligned.train, task.own, aligned.calibration
    if not task.access.labelled:
        y_calibration, seen = [], seen[:0]
    for name, y, n in (("y_train", y_train, len(own)), ("y_calibration", y_calibration, len(seen))):
        if y is None or np.shape(y) != (n,):
            raise EvaluationError(
                f"{name} must have one label for each of {n} trials for alignment 'rotate', got "
                f"{None if y is None else f'shape {np.shape(y)}'}."
            )
    if own.all():
        return aligned  # all training trials are the target's: nothing to rotate to
    labels = np.asarray(y_train)
    C, y = np.concatenate([C_train[own], seen]), np.concatenate([labels[own], y_calibration])
    others, y_others = C_train[~own], labels[~own]
    shared = np.intersect1d(y, y_others)
    if len(shared) < 2:
        raise EvaluationError(
            "Alignment 'rotate' needs 2 or more classes in common between the labelled trials of "
            f"the target {task.target!r} and the training trials of other domains, got "
            f"{len(shared)}. Use an access to more trials, or alignment 'rescale'."
        )
    Q = procrustes(
        np.stack([mean_reference(others[y_others == label], "riemann") for label in shared]),
        np.stack([mean_reference(C[y == label], "riemann") for label in shared]),
    )
    train = C_train
    if own.any():
        train = C_train.copy()
        train[own] = congruence(train[own], Q)
    return Aligned(train, congruence(aligned.calibration, Q), congruence(aligned.test, Q))
