"""The contract of every embedding in the registry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry.distance import distance_chol, distance_logchol, distance_logeuclid
from pyriemann.geometry.mean import mean_riemann
from pyriemann.spatialfilters import CSP
from pyriemann.tangentspace import TangentSpace
from torch.autograd import gradcheck

from spdtokens.errors import NotSPDError, UserError
from spdtokens.geometry import EMBEDDINGS, get_embedding, token_dim
from spdtokens.geometry.embeddings import StackedEmbedding
from spdtokens.geometry.tokens import SHRINKAGE, class_filters
from tests.matrices import F64, random_spd, relative_error, spd_matrices, with_spectrum

NAMES = list(EMBEDDINGS)


def fitted(name: str, d: int, **options):
    return get_embedding(name, **options).fit(random_spd(12, d, kappa=20.0, seed=99))


@pytest.mark.parametrize("isometric", [False, True])
@pytest.mark.parametrize("name", NAMES)
@given(C=spd_matrices())
def test_round_trip(name: str, isometric: bool, C: torch.Tensor) -> None:
    embedding = fitted(name, C.shape[-1], isometric=isometric)
    token = embedding.to_token(C)
    assert token.shape == (*C.shape[:-2], token_dim(C.shape[-1]))
    assert relative_error(embedding.from_token(token), C) < 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_float32_round_trip(name: str) -> None:
    C = random_spd(4, 6, scale=1e-10).float()
    embedding = fitted(name, 6)
    token = embedding.to_token(C)
    assert token.dtype == torch.float32
    assert relative_error(embedding.from_token(token), C) < 1e-4


@pytest.mark.parametrize("isometric", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "C",
    [random_spd(2, 4), torch.eye(4, dtype=F64), with_spectrum([1.0, 1.0, 2.0, 2.0])],
    ids=["random", "identity", "repeated"],
)
def test_gradcheck(name: str, isometric: bool, C: torch.Tensor) -> None:
    embedding = fitted(name, 4, isometric=isometric)
    x = C.clone().requires_grad_()
    assert gradcheck(embedding.to_token, x)
    token = embedding.to_token(C).requires_grad_()
    assert gradcheck(embedding.from_token, token)


@pytest.mark.parametrize("name", NAMES)
def test_isometric_tokens_carry_the_frobenius_distance_of_embedded_matrices(name: str) -> None:
    embedding = fitted(name, 5, isometric=True)
    A, B = random_spd(5, seed=1), random_spd(5, seed=2)
    gap = (embedding.to_token(A) - embedding.to_token(B)).norm()
    torch.testing.assert_close(gap, (embedding.embed(A) - embedding.embed(B)).norm())


SCALE_LAWS = {
    "bures_wasserstein": lambda t, s, _: s**0.5 * t,
    "cholesky": lambda t, s, _: s**0.5 * t,
    "euclidean": lambda t, s, _: s * t,
    "log_euclidean": lambda t, s, diagonal: t + np.log(s) * diagonal,
    "affine_invariant": lambda t, s, diagonal: t + np.log(s) * diagonal,
    "whitened_root": lambda t, s, _: s**0.5 * t,
    "principal_correlation": lambda t, s, diagonal: t + 0.5 * np.log(s) * diagonal,
    "log_cholesky": lambda t, s, diagonal: torch.where(
        diagonal > 0, t + 0.5 * np.log(s), s**0.5 * t
    ),
}


@pytest.mark.parametrize("name", NAMES)
@given(C=spd_matrices(max_d=4), decades=st.integers(-12, 12))
def test_scale_law(name: str, C: torch.Tensor, decades: int) -> None:
    d = C.shape[-1]
    embedding = fitted(name, d)
    diagonal = torch.eye(d, dtype=F64)[tuple(torch.triu_indices(d, d))]
    before = embedding.to_token(C)
    token = embedding.to_token(10.0**decades * C)
    expected = SCALE_LAWS[name](before, 10.0**decades, diagonal)
    # Logarithms may cancel to zero: their error is that of the terms of the law.
    size = max(float(expected.abs().max()), float(before.abs().max()) if "log" in name else 0.0)
    torch.testing.assert_close(token, expected, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("log_euclidean", distance_logeuclid),
        ("cholesky", distance_chol),
        ("log_cholesky", distance_logchol),
    ],
)
def test_token_distance_is_pyriemanns(name: str, distance) -> None:
    A, B = random_spd(6, seed=1), random_spd(6, seed=2)
    to_token = get_embedding(name, isometric=True).to_token
    gap = (to_token(A) - to_token(B)).norm().item()
    assert gap == pytest.approx(distance(A.numpy(), B.numpy()), rel=1e-10)


class TestAffineInvariant:
    def test_agrees_with_pyriemanns_tangent_space(self) -> None:
        C = random_spd(20, 5, seed=4).numpy()
        expected = TangentSpace(metric="riemann").fit(C).transform(C)
        found = get_embedding("affine_invariant", isometric=True).fit(C).to_token(C)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)

    def test_fitted_tokens_do_not_depend_on_the_unit(self) -> None:
        C = random_spd(20, 5, seed=4)
        tokens = [
            get_embedding("affine_invariant").fit(s * C).to_token(s * C) for s in (1e-12, 1.0, 1e12)
        ]
        torch.testing.assert_close(tokens[0], tokens[1], rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(tokens[2], tokens[1], rtol=1e-8, atol=1e-8)

    def test_every_token_has_its_own_reference(self) -> None:
        C = random_spd(20, 3, 4, seed=4)
        embedding = get_embedding("affine_invariant").fit(C)
        alone = get_embedding("affine_invariant").fit(C[:, 1])
        torch.testing.assert_close(embedding.to_token(C)[:, 1], alone.to_token(C[:, 1]))
        with pytest.raises(ValueError, match=r"\(\.\.\., 3, 4, 4\)"):
            embedding.to_token(C[:, :2])

    def test_unfitted_and_wrong_size_are_refused(self) -> None:
        with pytest.raises(RuntimeError, match=r"affine_invariant.*`fit`"):
            get_embedding("affine_invariant").to_token(random_spd(4))
        with pytest.raises(ValueError, match=r"\(\.\.\., 4, 4\), got \(5, 5\)"):
            fitted("affine_invariant", 4).to_token(random_spd(5))
        with pytest.raises(ValueError, match=r"\(n, d, d\) or \(n, m, d, d\)"):
            get_embedding("affine_invariant").fit(random_spd(4))


class TestWhitenedRoot:
    def test_agrees_with_scipy(self) -> None:
        C = random_spd(20, 5, seed=4).numpy()
        R = scipy.linalg.inv(scipy.linalg.sqrtm(mean_riemann(C)))
        expected = scipy.linalg.sqrtm(R @ C[7] @ R)
        found = get_embedding("whitened_root").fit(C).to_token(C[7])
        np.testing.assert_allclose(found, expected[np.triu_indices(5)], rtol=1e-6, atol=1e-8)

    def test_near_the_reference_it_is_the_tangent_space(self) -> None:
        C = torch.eye(4, dtype=F64) + 1e-4 * random_spd(30, 4, seed=1)
        root, log = (
            get_embedding(name).fit(C).to_token(C) for name in ("whitened_root", "affine_invariant")
        )
        eye = torch.eye(4, dtype=F64)[tuple(torch.triu_indices(4, 4))]
        assert (2 * (root - eye) - log).abs().max() < 1e-3 * log.abs().max()


def test_several_embeddings_stand_one_after_another() -> None:
    C = random_spd(12, 3, 4, seed=2)
    made = [get_embedding(n, isometric=True) for n in ("affine_invariant", "euclidean")]
    several = StackedEmbedding(tuple(made)).fit(C)
    alone = [embedding.fit(C).to_token(C) for embedding in made]
    torch.testing.assert_close(several.to_token(C), torch.cat(alone, 1))
    assert several.to_token(C.numpy()).shape == (12, 6, 10)


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"'riemann'.*log_euclidean"):
        get_embedding("riemann")


@pytest.mark.parametrize("name", NAMES)
def test_shapes(name: str) -> None:
    embedding = fitted(name, 4)
    token = embedding.to_token(random_spd(0, 4))  # none is a shape like any other
    assert token.shape == (0, 10)
    assert embedding.from_token(token).shape == (0, 4, 4)
    with pytest.raises(NotSPDError, match="raw trials"):
        embedding.to_token(torch.randn(3, 4, 100))
    with pytest.raises(ValueError, match="7 features"):
        embedding.from_token(torch.randn(3, 7))


@pytest.mark.parametrize("name", ["cholesky", "log_cholesky"])
def test_cholesky_names_the_culprit(name: str) -> None:
    C = random_spd(5, 3)
    C[3] = with_spectrum([-1.0, 1.0, 2.0])
    with pytest.raises(NotSPDError, match=r"matrix \[3\]"):
        get_embedding(name).to_token(C)


class TestPrincipalCorrelation:
    def test_it_is_that_of_regressions_along_principal_components(self) -> None:
        train, C = random_spd(12, 5, kappa=20.0, seed=99).numpy(), random_spd(5, seed=3).numpy()
        embedding = get_embedding("principal_correlation").fit(train)
        w, V = np.linalg.eigh(mean_riemann(train))
        axes = V[:, ::-1] / np.sqrt(w[::-1])
        S = axes.T @ C @ axes
        M = embedding.embed(torch.from_numpy(C)).numpy()
        for i in range(5):
            left = S[i, i] - S[i, :i] @ np.linalg.solve(S[:i, :i], S[:i, i]) if i else S[i, i]
            assert M[i, i] == pytest.approx(0.5 * np.log(left), abs=1e-6)
            # All that stronger directions explain of it.
            explained = (M[:i, i] ** 2).sum()
            assert explained == pytest.approx(1 - left / S[i, i], abs=1e-6)

    def test_leaks_into_weak_directions_leave_the_entries_of_strong_ones(self) -> None:
        d = 6
        train = random_spd(20, d, kappa=20.0, seed=5)
        embedding = get_embedding("principal_correlation").fit(train)
        whitened = get_embedding("affine_invariant").fit(train)
        C = random_spd(d, seed=6)
        _, V = torch.linalg.eigh(embedding.reference)
        leak = torch.eye(d, dtype=F64) + 0.1 * torch.outer(V[:, 0], V[:, -1])  # weakest, strongest
        there, before = embedding.embed(leak @ C @ leak.mT), embedding.embed(C)
        torch.testing.assert_close(there[:, : d - 1], before[:, : d - 1], rtol=1e-9, atol=1e-9)
        assert (there[:, -1] - before[:, -1]).abs().max() > 1e-3
        logs = whitened.embed(leak @ C @ leak.mT) - whitened.embed(C)
        turned = V.mT @ logs @ V
        assert turned[1:, 1:].abs().max() > 1e-3

    def test_where_the_mean_is_round_channels_are_taken_in_their_order(self) -> None:
        C = random_spd(4, seed=1)
        embedding = get_embedding("principal_correlation")
        exact = replace(embedding, reference=torch.eye(4, dtype=F64))
        noise = 1e-7 * random_spd(4, seed=2)
        nearly = replace(embedding, reference=torch.eye(4, dtype=F64) + noise)
        torch.testing.assert_close(nearly.to_token(C), exact.to_token(C), rtol=1e-5, atol=1e-5)
        logs = get_embedding("log_cholesky").embed(C).diagonal()
        torch.testing.assert_close(exact.embed(C).diagonal(), logs)


# Filters of the classes, against pyRiemann's CSP and closed forms.


def labelled(n: int = 60, d: int = 8, classes: int = 2, seed: int = 0) -> tuple:
    """Trials of mixed sources; each class has a source that is stronger than for the others."""
    rng = np.random.default_rng(seed)
    # A turn: however strong a source, all channels together have as much of it.
    mixing = np.linalg.qr(rng.standard_normal((d, d)))[0]
    y = np.arange(n) % classes
    powers = np.ones((n, d))
    powers[np.arange(n), y] = 3.0
    S = rng.standard_normal((n, d, 200)) * np.sqrt(powers)[..., None]
    X = mixing @ S
    return X @ X.swapaxes(-1, -2) / 200, y, mixing


def directions(F: np.ndarray) -> np.ndarray:
    return F / np.linalg.norm(F, axis=1, keepdims=True)


def test_two_classes_have_the_filters_of_pyriemanns_csp() -> None:
    C, y, _ = labelled()
    shares = C / np.trace(C, axis1=1, axis2=2)[:, None, None] + SHRINKAGE / 8 * np.eye(8)
    wanted = directions(CSP(nfilter=4, metric="euclid").fit(shares, y).filters_)
    found = directions(class_filters(C, y))
    assert found.shape == (4, 8)
    # The two that tell the classes; what pyRiemann takes third it ranks by another number.
    np.testing.assert_allclose(np.abs(found[:2] @ wanted.T).max(1), 1, atol=1e-6)


def test_filters_find_the_sources_that_differ() -> None:
    C, y, mixing = labelled(300, 9, 4)
    F = class_filters(C, y)
    assert F.shape == (8, 9)
    unmixed = directions(F[:4] @ mixing)  # the first of each class, over sources
    assert (np.abs(unmixed[np.arange(4), np.arange(4)]) > 0.95).all()
    # How strong trials are, and how many a class has, says nothing.
    rng = np.random.default_rng(1)
    scaled = class_filters(C * rng.uniform(0.1, 10, (300, 1, 1)), y)
    np.testing.assert_allclose(scaled, F, rtol=1e-6, atol=1e-9)
    more = np.concatenate([np.arange(300), np.flatnonzero(y == 1)])
    np.testing.assert_allclose(class_filters(C[more], y[more]), F, rtol=1e-6, atol=1e-9)


def test_directions_that_carry_nothing_are_not_chosen() -> None:
    C, y, _ = labelled(d=6)
    average = np.eye(6) - 1 / 6  # a reference that leaves one direction empty
    C = average @ C @ average + 1e-9 * np.trace(C[0]) * np.eye(6)
    F = directions(class_filters(C, y))
    assert np.abs(F @ np.ones(6) / np.sqrt(6)).max() < 0.5


@pytest.mark.parametrize(("d", "classes", "k"), [(1, 2, 1), (3, 2, 2), (5, 3, 3), (4, 7, 4)])
def test_there_are_never_more_filters_than_channels(d: int, classes: int, k: int) -> None:
    y = np.arange(8 * classes) % classes
    C = random_spd(len(y), d, seed=3)
    embedding = get_embedding("class_filters").fit(C, y)
    assert embedding.filters.shape == (k, d)
    assert torch.isfinite(embedding.to_token(C)).all()


@pytest.mark.parametrize("isometric", [False, True])
def test_a_token_is_the_logarithm_of_what_filters_pass(isometric: bool) -> None:
    C, y, _ = labelled()
    embedding = get_embedding("class_filters", isometric=isometric).fit(C, y)
    F = embedding.filters.numpy()
    wanted = np.zeros((8, 8))
    wanted[:4, :4] = scipy.linalg.logm(F @ C[5] @ F.T)
    np.testing.assert_allclose(embedding.embed(torch.from_numpy(C[5])), wanted, atol=1e-9)
    rows, columns = np.triu_indices(8)
    weight = np.where((rows == columns) | (not isometric), 1.0, np.sqrt(2.0))
    np.testing.assert_allclose(embedding.to_token(C[5]), weight * wanted[rows, columns], atol=1e-9)
    louder = embedding.to_token(3 * C[5]) - embedding.to_token(C[5])
    np.testing.assert_allclose(louder, np.log(3) * ((rows == columns) & (rows < 4)), atol=1e-9)


def test_gradients_behind_filters() -> None:
    y = np.arange(12) % 2
    embedding = get_embedding("class_filters").fit(random_spd(12, 4), y)
    C = random_spd(2, 4, seed=5).to(F64).requires_grad_()
    assert gradcheck(lambda C: embedding.to_token(0.5 * (C + C.mT)), (C,))


def test_what_is_missing_is_told() -> None:
    C, y, _ = labelled()
    embedding = get_embedding("class_filters")
    with pytest.raises(UserError, match="requires y"):
        embedding.fit(C)
    with pytest.raises(RuntimeError, match=r"class_filters.*`fit`"):
        embedding.to_token(C)
    fitted = embedding.fit(C, y)
    with pytest.raises(NotImplementedError, match="class_filters"):
        fitted.from_token(fitted.to_token(C))
    two = embedding.fit(np.stack([C, C], axis=1), y)
    with pytest.raises(ValueError, match=r"\(\.\.\., 2, 8, 8\), got \(60, 8, 8\)"):
        two.to_token(C)
