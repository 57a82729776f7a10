"""Alignment against pyRiemann and by hand, and what it may see of the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry.base import powm
from pyriemann.geometry.distance import distance_riemann, pairwise_distance
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.transfer import TLCenter, TLScale, encode_domains

from spdtokens.errors import EvaluationError, NotSPDError
from spdtokens.evaluation.alignment import (
    ALIGNMENTS,
    Aligned,
    align,
    align_signals,
    congruences,
)
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
    if alignment == "recentre-balanced":
        return access == "online" or access.startswith("unlabeled")
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


def test_none_changes_nothing() -> None:
    train, calibration, test = STUDY.parts("labeled_20p")
    expected = Aligned(STUDY.C[train], STUDY.C[calibration], STUDY.C[test])
    assert_same(STUDY.align("labeled_20p", "none"), expected, rtol=0)


def oracle(study: Study, seen: np.ndarray, metric: str, scale: bool, access: str) -> Aligned:
    """pyRiemann's transfer classes, with the target's seen trials as its training trials."""
    train, calibration, test = study.parts(access)
    out: list[np.ndarray] = [np.empty((len(i), TOKENS, D, D)) for i in (train, calibration, test)]
    for token in range(TOKENS):
        C = study.C[:, token]
        for domain in np.unique(study.domain[train]):
            mine = study.domain[train] == domain
            out[0][mine, token] = moved(C[train[mine]], C[train[mine]], metric, scale)
        out[1][:, token] = moved(C[seen], C[calibration], metric, scale)
        out[2][:, token] = moved(C[seen], C[test], metric, scale)
    return Aligned(*out)


def moved(seen: np.ndarray, C: np.ndarray, metric: str, scale: bool) -> np.ndarray:
    if not len(C):
        return C
    _, code = encode_domains(seen, np.zeros(len(seen)), ["a"] * len(seen))
    center = TLCenter("a", metric=metric).fit(seen, code)
    if not scale:
        return center.transform(C)
    scaler = TLScale("a", centered_data=True).fit(center.transform(seen), code)
    return scaler.transform(center.transform(C))


PYRIEMANNS = {
    "euclidean": ("euclid", False),
    "recentre": ("riemann", False),
    "rescale": ("riemann", True),
}


@pytest.mark.parametrize("access", ["unlabeled_full", "unlabeled_20p"])
def test_matrices_are_aligned_as_without_balance(access: str) -> None:
    """Decisions are corrected later."""
    assert_same(STUDY.align(access, "recentre-balanced"), STUDY.align(access, "recentre"), rtol=0)


SEEN = ["unlabeled_full", "unlabeled_50p", "labeled_20p", "train"]


@pytest.mark.parametrize(("study", "access", "alignment"), cases(PYRIEMANNS, SEEN))
def test_same_as_pyriemann(study: Study, access: str, alignment: str) -> None:
    metric, scale = PYRIEMANNS[alignment]
    train, calibration, test = study.parts(access)
    seen = np.concatenate([train[study.domain[train] == "s3"], calibration])
    if access == "unlabeled_full":
        seen = np.concatenate([seen, test])
    expected = oracle(study, seen, metric, scale, access)
    assert_same(study.align(access, alignment), expected, rtol=1e-5, atol=1e-6)


def test_rotate_undoes_a_rotation() -> None:
    """The target is another subject turned around: aligned, it is that subject again."""
    rng = np.random.default_rng(1)
    C = np.concatenate([STUDY.C[:N], STUDY.C[:N]])
    domain = np.repeat(["s1", "s3"], N)
    turned = replace(STUDY, C=C, y=STUDY.y[: 2 * N], domain=domain)
    whole = turned.align("unlabeled_full", "rescale")
    Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
    # Labels of all, by way of the training trials: a trial more to test on is enough.
    C = np.concatenate([C[:N], Q @ C[N:] @ Q.T, Q @ C[N : N + 1] @ Q.T])
    study = Study(C, np.append(turned.y, 0), np.append(domain, "s3"), "s3", own_training=N)
    out = study.align("train", "rotate")
    np.testing.assert_allclose(out.train[N:], out.train[:N], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out.test[0], whole.train[0], rtol=1e-5, atol=1e-5)


def test_rotate_is_rescale_where_there_is_no_one_to_turn_to() -> None:
    own = replace(WITHIN, domain=np.full(3 * N, "s3"), own_training=2 * N)
    assert_same(own.align("labeled_20p", "rotate"), own.align("labeled_20p", "rescale"), rtol=0)


def test_online_rescale_by_hand() -> None:
    """The first two trials: the middle of the training domains, then half the way to a trial."""
    _, _, test = STUDY.parts("online")
    out = STUDY.align("online", "rescale").test[:2, 0]
    C = STUDY.C[:, 0]
    domains = [C[STUDY.domain == s] for s in ("s1", "s2")]
    means = np.stack([mean_riemann(X) for X in domains])
    R = mean_riemann(means)
    spread = np.mean(
        [np.mean(distance_riemann(X, M) ** 2) for X, M in zip(domains, means, strict=True)]
    )
    first, second = C[test[:2]]
    np.testing.assert_allclose(out[0], powm(whitened(first, R), spread**-0.5), rtol=1e-5)
    spread = (spread + distance_riemann(first, R) ** 2 / 2) / 2
    R = geodesic_riemann(R, first, 0.5)
    np.testing.assert_allclose(out[1], powm(whitened(second, R), spread**-0.5), rtol=1e-5)


@given(seed=st.integers(0, 1000), exponent=st.integers(-12, 12))
def test_affine_invariance(seed: int, exponent: int) -> None:
    """Any mixing of any domain leaves all distances after recentring as they are, in any unit."""
    rng = np.random.default_rng(seed)
    mixing = {s: 10.0**exponent * rng.standard_normal((D, D)) for s in np.unique(STUDY.domain)}
    W = np.stack([mixing[s] for s in STUDY.domain])[:, None]
    if np.linalg.cond(W).max() > 1e3:
        return
    mixed = W @ STUDY.C @ W.swapaxes(-1, -2)
    after = replace(STUDY, C=0.5 * (mixed + mixed.swapaxes(-1, -2)))
    for alignment in ("recentre", "rescale"):
        a, b = (s.align("unlabeled_full", alignment) for s in (STUDY, after))
        for token in range(TOKENS):
            # Whitening is defined up to a rotation of each domain, so distances within domains.
            for part in ("train", "test"):
                one, two = (getattr(x, part)[:N, token] for x in (a, b))
                np.testing.assert_allclose(
                    pairwise_distance(one), pairwise_distance(two), rtol=1e-5, atol=1e-5
                )


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("study", [STUDY, WITHIN], ids=["new", "known"])
def test_what_is_allowed(study: Study, access: str, alignment: str) -> None:
    if allowed(study, access, alignment):
        out = study.align(access, alignment)
        for part, index in zip(
            (out.train, out.calibration, out.test), study.parts(access), strict=True
        ):
            assert part.shape == (len(index), TOKENS, D, D)
            np.testing.assert_array_equal(part, part.swapaxes(-1, -2))
    else:
        with pytest.raises(EvaluationError, match=r"'s3'.*access .*labeled_20p.*alignment"):
            study.align(access, alignment)


def disturbed(study: Study, which: np.ndarray) -> Study:
    C = study.C.copy()
    C[which] = 7 * C[which] + 3 * np.eye(D)
    return replace(study, C=C)


@pytest.mark.parametrize(("study", "access", "alignment"), cases(CHANGING, ["online"]))
def test_online_sees_the_strict_past_only(study: Study, access: str, alignment: str) -> None:
    _, _, test = study.parts(access)
    before = study.align(access, alignment)
    for i in range(len(test)):
        later = study if i + 1 == len(test) else disturbed(study, test[i + 1 :])
        out = later.align(access, alignment)
        np.testing.assert_array_equal(out.test[: i + 1], before.test[: i + 1])
        np.testing.assert_array_equal(out.train, before.train)


@pytest.mark.parametrize("alignment", ["euclidean", "recentre"])
@pytest.mark.parametrize("study", [STUDY, WITHIN], ids=["new", "known"])
def test_online_reference_knows_nothing_of_its_own_trial(study: Study, alignment: str) -> None:
    train, _, test = study.parts("online")

    def filters(C: np.ndarray) -> np.ndarray:
        domain = study.domain[train]
        return congruences(C[train], domain, None, C[test], "s3", "online", alignment).test

    before = filters(study.C)
    for i in range(len(test)):
        after = filters(disturbed(study, test[i:]).C)
        np.testing.assert_array_equal(after[: i + 1], before[: i + 1])
        assert i + 1 == len(test) or not np.allclose(after[i + 1], before[i + 1])


@pytest.mark.parametrize(
    ("access", "alignment"),
    [
        (access, alignment)
        for access in ("train", "unlabeled_20p", "labeled_20p", "labeled_50p")
        for alignment in CHANGING
        if allowed(WITHIN, access, alignment)
    ],
)
def test_a_test_trial_moves_no_other(access: str, alignment: str) -> None:
    study = WITHIN
    *_, test = study.parts(access)
    before, after = (
        study.align(access, alignment),
        disturbed(study, test[1:]).align(access, alignment),
    )
    np.testing.assert_array_equal(after.train, before.train)
    np.testing.assert_array_equal(after.calibration, before.calibration)
    np.testing.assert_array_equal(after.test[0], before.test[0])


@pytest.mark.parametrize(("study", "access", "alignment"), cases(ALIGNMENTS, ACCESS))
def test_hidden_labels_change_nothing(study: Study, access: str, alignment: str) -> None:
    _, calibration, test = study.parts(access)
    hidden = test if ACCESS[access].labelled else np.concatenate([calibration, test])
    y = study.y.copy()
    y[hidden] = 2 - y[hidden]
    after = replace(study, y=y).align(access, alignment)
    assert_same(after, study.align(access, alignment), rtol=0)


@pytest.mark.parametrize("access", ["unlabeled_full", "online", "labeled_50p"])
def test_training_does_not_depend_on_the_access(access: str) -> None:
    expected = WITHIN.align("train", "rescale").train
    np.testing.assert_array_equal(WITHIN.align(access, "rescale").train, expected)


def given_signals() -> dict[str, Any]:
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
    given = given_signals()
    X = align_signals(**given, access=access, alignment=alignment)
    rest = {key: value for key, value in given.items() if not key.startswith("X_")}
    C = align(**rest, y_train=None, y_calibration=None, access=access, alignment=alignment)
    for name in ("train", "test"):
        x = getattr(X, name)
        np.testing.assert_allclose(x @ x.swapaxes(-1, -2) / 20, getattr(C, name)[:, 0], atol=1e-12)
    assert X.calibration.shape == (0, 3, 20)


@pytest.mark.parametrize("alignment", ["rescale", "rotate"])
def test_signals_are_not_rescaled(alignment: str) -> None:
    with pytest.raises(EvaluationError, match=f"{alignment}.*none, euclidean, recentre"):
        align_signals(**given_signals(), access="unlabeled_full", alignment=alignment)


SHARE: dict[str, Any] = {"access": "unlabeled_20p", "alignment": "rescale"}
ROTATE: dict[str, Any] = {"access": "labeled_20p", "alignment": "rotate"}


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"alignment": "scale"}, "'scale'.*none, euclidean"),
        (SHARE, "0 calibration trials"),
        ({"domain_train": ["a"] * 8}, r"domain_train.*\(8,\)"),
        ({"C_calibration": STUDY.C[9:12]} | ROTATE, "y_calibration"),
        # One trial has no dispersion, one class no rotation.
        ({"C_calibration": STUDY.C[9:10]} | SHARE, r"'b' \(1 trial\)"),
        ({"C_calibration": STUDY.C[9:12], "y_calibration": [0, 0, 0]} | ROTATE, "'b'.*got 1"),
    ],
)
def test_wrong_input_is_refused(change: dict[str, Any], culprit: str) -> None:
    right: dict[str, Any] = {
        "C_train": STUDY.C[:9],
        "domain_train": ["a"] * 9,
        "y_train": STUDY.y[:9],
        "C_calibration": None,
        "y_calibration": None,
        "C_test": STUDY.C[12:],
        "domain_target": "b",
        "access": "online",
        "alignment": "recentre",
    }
    align(**right)
    with pytest.raises(EvaluationError, match=culprit):
        align(**right | change)


def test_signals_and_covariances_must_match() -> None:
    wrong = given_signals() | {"X_test": np.ones((5, 2, 20))}
    with pytest.raises(EvaluationError, match=r"X_test.*\(5, 2, 20\)"):
        align_signals(**wrong, access="online", alignment="euclidean")


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
