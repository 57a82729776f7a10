"""Alignment against pyRiemann, by hand, and under changes that must not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry.base import powm
from pyriemann.geometry.distance import distance_riemann, pairwise_distance
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.transfer import TLCenter, TLScale, encode_domains

from spdtokens.evaluation.alignment import Aligned, align
from tests.evaluation.subjects import (
    CHANGING,
    STUDY,
    TOKENS,
    WITHIN,
    D,
    N,
    Study,
    assert_same,
    cases,
    whitened,
)


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


@pytest.mark.parametrize("alignment", ["euclidean", "recentre", "rescale"])
def test_online_starts_where_train_stands(alignment: str) -> None:
    """The first trial knows of the target what is among the training trials."""
    online, before = WITHIN.align("online", alignment), WITHIN.align("train", alignment)
    np.testing.assert_allclose(online.test[0], before.test[0], rtol=1e-10)
    assert not np.allclose(online.test[1], before.test[1], rtol=1e-3)


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
