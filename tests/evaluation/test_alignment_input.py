"""Signals, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spdtokens.errors import EvaluationError, NotSPDError
from spdtokens.evaluation.alignment import align, align_signals, get_alignment
from tests.evaluation.subjects import STUDY, N


def signals() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = {name: rng.standard_normal((n, 3, 20)) for name, n in (("train", 8), ("test", 5))}
    C = {name: (x @ x.swapaxes(-1, -2) / 20)[:, None] for name, x in X.items()}
    return {
        "X_train": X["train"],
        "X_calibration": None,
        "X_test": X["test"],
        "C_train": C["train"],
        "domain_train": ["a"] * 4 + ["b"] * 4,
        "C_calibration": None,
        "C_test": C["test"],
        "domain_target": "c",
    }


@pytest.mark.parametrize("alignment", ["none", "euclidean", "recentre"])
@pytest.mark.parametrize("access", ["unlabeled_full", "online"])
def test_signals_have_aligned_covariances(access: str, alignment: str) -> None:
    given = signals()
    X = align_signals(**given, access=access, alignment=alignment)
    rest = {key: value for key, value in given.items() if not key.startswith("X_")}
    C = align(**rest, y_train=None, y_calibration=None, access=access, alignment=alignment)
    for name in ("train", "test"):
        x = getattr(X, name)
        np.testing.assert_allclose(x @ x.swapaxes(-1, -2) / 20, getattr(C, name)[:, 0], atol=1e-12)
    assert X.calibration.shape == (0, 3, 20)


@pytest.mark.parametrize("alignment", ["rescale", "rotate"])
def test_signals_are_not_rescaled(alignment: str) -> None:
    with pytest.raises(EvaluationError, match=r"no linear map.*none, euclidean, recentre"):
        align_signals(**signals(), access="unlabeled_full", alignment=alignment)


def test_signals_and_covariances_must_match() -> None:
    given = signals()
    given["X_test"] = given["X_test"][:, :2]
    with pytest.raises(EvaluationError, match=r"test signals of shape \(5, 2, 20\)"):
        align_signals(**given, access="online", alignment="euclidean")


def test_wrong_input_is_refused() -> None:
    C = STUDY.C
    with pytest.raises(EvaluationError, match=r"'scale'.*none, euclidean"):
        get_alignment("scale")
    with pytest.raises(EvaluationError, match="got 0 calibration trials"):
        align(C[:9], ["a"] * 9, None, None, None, C[9:], "b", "unlabeled_20p", "recentre")
    with pytest.raises(EvaluationError, match="got 2 calibration trials"):
        align(C[:9], ["a"] * 9, None, C[:2], None, C[9:], "b", "online", "recentre")
    with pytest.raises(EvaluationError, match="domain_train must name the domain of each of 9"):
        align(C[:9], ["a"] * 8, None, None, None, C[9:], "b", "online", "recentre")
    with pytest.raises(EvaluationError, match=r"shape \(n, tokens, d, d\)"):
        align(C[:9, 0], ["a"] * 9, None, None, None, C[9:, 0], "b", "online", "recentre")
    arguments = (C[:9], ["a"] * 9, STUDY.y[:9], C[9:12], None, C[12:], "b")
    with pytest.raises(EvaluationError, match=r"needs y_calibration.*got none"):
        align(*arguments, "labeled_20p", "rotate")


def test_one_trial_has_no_dispersion() -> None:
    C = STUDY.C
    arguments = (C[:9], ["a"] * 9, None, C[9:10], None, C[10:15], "b", "unlabeled_20p")
    with pytest.raises(EvaluationError, match=r"domain 'b' \(1 trial\)"):
        align(*arguments, "rescale")
    align(*arguments, "recentre")


def test_one_class_gives_no_rotation() -> None:
    C, y = STUDY.C, STUDY.y
    arguments = (C[:N], ["a"] * N, y[:N], C[N : N + 3], np.zeros(3), C[N + 3 :], "b")
    with pytest.raises(EvaluationError, match=r"'b' have 1 class in common"):
        align(*arguments, "labeled_20p", "rotate")


def test_singular_matrices() -> None:
    """The culprit is named; arithmetic means forgive trials of low rank if there are enough."""
    X = np.random.default_rng(0).standard_normal((20, 1, 5, 3))
    C = X @ X.swapaxes(-1, -2)
    good = C[:10] + np.eye(5)
    with pytest.raises(NotSPDError, match=r"\(test\): Not positive definite: matrix \[0, 0\]"):
        align(good, ["a"] * 10, None, None, None, C[10:], "b", "unlabeled_full", "recentre")
    align(good, ["a"] * 10, None, None, None, C[10:], "b", "unlabeled_full", "euclidean")
    with pytest.raises(NotSPDError, match="reference of 'b'"):
        align(good, ["a"] * 10, None, None, None, C[10:11], "b", "unlabeled_full", "euclidean")
