"""References of domains: what each is made of, and that it is made of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from spdtokens._words import counted
from spdtokens.evaluation.access import ACCESS, Access, get_access
from spdtokens.evaluation.alignments import Alignment, get_alignment
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.spd.alignment import (
    Array,
    dispersion,
    mean_reference,
    running_dispersions,
    running_references,
)
from spdtokens.spd.validation import NotSPDError, check_finite, check_spd

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
