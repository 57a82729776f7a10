"""Subjects to align, and what of them may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from spdtokens.evaluation.alignment import ALIGNMENTS, Aligned, align
from spdtokens.evaluation.protocols import ACCESS, calibration_split

TOKENS, D, N = 2, 4, 12
CHANGING = [name for name in ALIGNMENTS if name != "none"]


@dataclass(frozen=True)
class Study:
    """Three subjects, each with a mixing of its own; classes differ in two sources' power."""

    C: np.ndarray
    y: np.ndarray
    domain: np.ndarray
    target: str = "s3"
    own_training: int = 0

    @classmethod
    def made(cls, own_training: int = 0, seed: int = 0) -> Study:
        rng = np.random.default_rng(seed)
        n = 3 * N
        y, domain = np.arange(n) % 3, np.repeat(["s1", "s2", "s3"], N)
        mixing = np.repeat(rng.standard_normal((3, TOKENS, D, D)), N, axis=0)
        S = rng.standard_normal((n, TOKENS, D, 40))
        S[:, :, 0] *= np.exp(0.7 * y)[:, None, None]
        S[:, :, 1] *= np.exp(0.7 * (y == 1))[:, None, None]
        X = mixing @ S
        return cls(X @ X.swapaxes(-1, -2) / 40, y, domain, "s3", own_training)

    def parts(self, access: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices of training, calibration and test trials."""
        target = np.flatnonzero(self.domain == self.target)
        train = np.flatnonzero(self.domain != self.target)
        train = np.concatenate([train, target[: self.own_training]])
        rest = target[self.own_training :]
        calibration, test = calibration_split(rest, rest, access)
        return train, rest[calibration], rest[test]

    def align(self, access: str, alignment: str) -> Aligned:
        train, calibration, test = self.parts(access)
        return align(
            self.C[train],
            self.domain[train],
            self.y[train],
            self.C[calibration],
            self.y[calibration],
            self.C[test],
            self.target,
            access,
            alignment,
        )


STUDY, WITHIN = Study.made(), Study.made(own_training=4)


def allowed(study: Study, access: str, alignment: str) -> bool:
    if alignment == "none" or study.own_training:
        return True
    return ACCESS[access].labelled if alignment == "rotate" else access != "train"


def cases(alignments: Iterable[str], accesses: Iterable[str]) -> list[Any]:
    """Every study, access and alignment that is allowed."""
    return [
        pytest.param(study, access, alignment, id=f"{name}-{access}-{alignment}")
        for name, study in (("new", STUDY), ("known", WITHIN))
        for access in accesses
        for alignment in alignments
        if allowed(study, access, alignment)
    ]


def whitened(C: np.ndarray, reference: np.ndarray) -> np.ndarray:
    values, V = np.linalg.eigh(reference)
    W = (V / np.sqrt(values)) @ V.T
    return W @ C @ W


def assert_same(a: Aligned, b: Aligned, **tolerance: float) -> None:
    for name in ("train", "calibration", "test"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), **tolerance)
