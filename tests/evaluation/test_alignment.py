"""Alignment against pyRiemann and by hand, and what it may see of the target."""

from __future__ import annotations

import inspect
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
    Task,
    align,
    align_signals,
    congruences,
    get_alignment,
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


def test_rotate_brings_classes_closer() -> None:
    """Class means of the test trials come closer to those of the training trials."""

    def gap(study: Study, alignment: str) -> float:
        out = study.align("labeled_50p", alignment)
        train, _, test = study.parts("labeled_50p")
        means = [
            [mean_riemann(C[y == k, 0]) for k in range(3)]
            for C, y in ((out.train, study.y[train]), (out.test, study.y[test]))
        ]
        return float(np.linalg.norm(np.subtract(*means)))

    studies = [Study.made(seed=seed) for seed in range(6)]
    gains = [gap(study, "rescale") - gap(study, "rotate") for study in studies]
    assert np.median(gains) > 0


def test_online_by_hand() -> None:
    """Euclidean, from the definition."""
    train, _, test = STUDY.parts("online")
    out = STUDY.align("online", "euclidean")
    references = [STUDY.C[STUDY.domain == s].mean(0) for s in ("s1", "s2")]
    seen = [np.mean(references, axis=0)]
    for i, trial in enumerate(test):
        expected = whitened(STUDY.C[trial, 0], np.mean(seen, axis=0)[0])
        np.testing.assert_allclose(out.test[i, 0], expected, rtol=1e-9)
        seen.append(STUDY.C[trial])
    assert len(out.train) == len(train)


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


def test_online_comes_to_know_the_target() -> None:
    """After many trials it aligns like one that has seen them all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 1, 3, 30))
    C = X @ X.swapaxes(-1, -2) / 30
    other = 2 * C[:20]
    arguments = (other, ["a"] * 20, None, None, None, C, "b")
    online, full = (align(*arguments, access, "rescale") for access in ("online", "unlabeled_full"))
    np.testing.assert_allclose(online.test[-1], full.test[-1], rtol=0.1)
    assert not np.allclose(online.test[0], full.test[0], rtol=0.1)


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


@pytest.mark.parametrize("alignment", CHANGING)
@pytest.mark.parametrize("access", ["unlabeled_full", "labeled_50p", "online"])
@pytest.mark.parametrize("unit", [1e-24, 1e24])
def test_units_do_not_matter(access: str, alignment: str, unit: float) -> None:
    scaled = replace(WITHIN, C=unit * WITHIN.C)
    found, expected = scaled.align(access, alignment), WITHIN.align(access, alignment)
    assert_same(found, expected, rtol=1e-6, atol=1e-6)


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


@pytest.mark.parametrize("alignment", ["euclidean", "recentre", "rescale"])
@pytest.mark.parametrize("study", [STUDY, WITHIN], ids=["new", "known"])
def test_online_reference_knows_nothing_of_its_own_trial(study: Study, alignment: str) -> None:
    train, _, test = study.parts("online")

    def known(study: Study) -> list[np.ndarray]:
        C, domain = study.C, study.domain[train]
        task = Task(C[train], domain, None, C[test], "s3", "online", alignment)
        return [x for x in task.maps()[-1] if x is not None]

    before = known(study)
    assert len(before) == 1 + (alignment == "rescale")
    for i in range(len(test)):
        for new, old in zip(known(disturbed(study, test[i:])), before, strict=True):
            np.testing.assert_array_equal(new[: i + 1], old[: i + 1])
            assert i + 1 == len(test) or not np.allclose(new[i + 1], old[i + 1])


@pytest.mark.parametrize("alignment", CHANGING)
@pytest.mark.parametrize("access", ["train", "unlabeled_20p", "labeled_20p", "labeled_50p"])
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


def test_test_labels_are_no_argument() -> None:
    for function in (align, congruences, align_signals):
        assert not {"y_test", "y_target"} & set(inspect.signature(function).parameters)


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


def test_signals_and_covariances_must_match() -> None:
    given = given_signals()
    given["X_test"] = given["X_test"][:, :2]
    with pytest.raises(EvaluationError, match=r"X_test.*\(5, 2, 20\)"):
        align_signals(**given, access="online", alignment="euclidean")


def test_wrong_input_is_refused() -> None:
    C = STUDY.C
    with pytest.raises(EvaluationError, match=r"'scale'.*none, euclidean"):
        get_alignment("scale")
    with pytest.raises(EvaluationError, match="got 0 calibration trials"):
        align(C[:9], ["a"] * 9, None, None, None, C[9:], "b", "unlabeled_20p", "recentre")
    with pytest.raises(EvaluationError, match="got 2 calibration trials"):
        align(C[:9], ["a"] * 9, None, C[:2], None, C[9:], "b", "online", "recentre")
    with pytest.raises(EvaluationError, match=r"domain_train.*\(8,\)"):
        align(C[:9], ["a"] * 8, None, None, None, C[9:], "b", "online", "recentre")
    with pytest.raises(EvaluationError, match=r"\(n, tokens, d, d\)"):
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
